"""Blend class ids: the most frequent value of each pixel, and the patch's own where others are as frequent.

Nothing is averaged and little is counted. A patch's own value can lose only where it is missing, or where two other
blocks or more differ from it; those pixels alone are counted. All others are found by comparing a patch with the
margins that reach into it, whole rectangles at once.

The blocks of a patch row are held as they come. When a row has been taken out, only its lower margins are kept: they
reach into the rows below.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.patches.blend_area import valid_values
from geotfr.patches.votes import most_frequent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from geotfr.patches.blend_area import BlendArea

__all__ = ["BallotBlender", "ballot_bytes"]

_COUNTED_AT_ONCE = 1 << 17
"""Pixels: what counting takes is some 100 bytes each."""


@dataclass(slots=True)
class _Row:
    """The blocks of a patch row: ``values`` ``(band, block, row, col)``, without the first ``cut`` rows of a block."""

    values: NDArray[Any]
    is_there: NDArray[np.bool_]
    cut: int = 0


@dataclass(frozen=True, slots=True)
class _Reach:
    """A neighbour ``down`` patch rows and ``right`` patch columns away, and the patch's pixels that its block covers.

    ``rows`` and ``cols`` are the patch's; ``top`` and ``left`` are added to find the pixel in the neighbour's block.
    """

    down: int
    right: int
    rows: slice
    cols: slice
    top: int
    left: int


@dataclass(frozen=True, slots=True)
class _Zone:
    """Pixels of a patch, and the blocks that cover all of them, its own among these."""

    rows: slice
    cols: slice
    reaches: tuple[_Reach, ...]


class BallotBlender:
    """Lays blocks down and takes voted patches out, patch row by patch row; ``bands`` are independent.

    A value that isn't there, NaN or ``nodata`` has no vote.
    """

    def __init__(self, area: BlendArea, *, bands: int, dtype: np.dtype[Any], nodata: float | None) -> None:
        self._area = area
        self._bands = bands
        self._dtype = dtype
        self._nodata = nodata
        reaches = list(_reaches(area))
        self._reaches = [each for each in reaches if (each.down, each.right) != (0, 0)]
        self._zones = list(_zones(reaches))
        self._rows: dict[int, _Row] = {}
        self._taken = 0
        self._spare: NDArray[Any] | None = None

    def lay(self, row: int, column: int, blocks: Sequence[NDArray[Any]], is_there: NDArray[np.bool_]) -> None:
        """Lay down consecutive blocks of patch row ``row`` from patch column ``column`` on.

        ``blocks`` are, for each band, ``(block, row, col)`` with the margins; ``is_there`` ``(block,)``.
        """
        held = self._rows.get(row) or self._rows.setdefault(row, self._new_row())
        first = column - self._area.columns.start
        place = slice(first, first + len(is_there))
        for values, block in zip(held.values, blocks, strict=True):
            values[place] = block
        held.is_there[place] = is_there

    def take(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The next patch row: values and validity, ``(band, patch, row, col)``, patches in their order.

        The values are a view, valid until the next call; 0 where there is no vote.
        """
        row = self._taken
        self._drop_taken()
        self._taken += 1
        own = self._rows.get(row) or self._rows.setdefault(row, self._new_row())
        (height, width), (margin_y, margin_x) = self._area.patch_yx, self._area.margin_yx
        kept = slice(self._area.kept.start - self._area.columns.start, self._area.kept.stop - self._area.columns.start)
        cores = own.values[:, kept, margin_y : margin_y + height, margin_x : margin_x + width]
        known = np.ones(cores.shape, np.bool_)
        for band, (core, is_known) in enumerate(zip(cores, known, strict=True)):
            valid = valid_values(core, own.is_there[kept], self._nodata)
            if valid is not None:
                is_known[...] = valid
            is_open = self._open(row, band, core, valid, own.is_there[kept])
            for zone in self._zones:
                for piece in _pieces(is_open[:, zone.rows, zone.cols]):
                    pixels = piece[0], piece[1] + zone.rows.start, piece[2] + zone.cols.start
                    core[pixels], is_known[pixels] = self._counted(row, band, zone.reaches, pixels)
            if valid is not None:
                core[~is_known] = 0
        return cores, known

    def _open(
        self,
        row: int,
        band: int,
        core: NDArray[Any],
        valid: NDArray[np.bool_] | None,
        is_there: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """Where the votes must be counted, ``(patch, row, col)``."""
        once, twice = np.zeros(core.shape, np.bool_), np.zeros(core.shape, np.bool_)
        for reach in self._reaches:
            held = self._rows.get(row + reach.down)
            patches = self._patches_with(reach)
            if held is None or not patches:
                continue
            own = (slice(patches.start, patches.stop), reach.rows, reach.cols)
            others = self._others(held, reach, patches)
            votes = held.values[band][others]
            differs = votes != core[own]
            if valid is not None:
                # NaN differs from itself.
                known = valid_values(votes, held.is_there[others[0]], self._nodata)
                if known is not None:
                    differs &= known
            twice[own] |= once[own] & differs
            once[own] |= differs
        if valid is not None:
            once &= ~valid
            twice |= once
            twice[~is_there] = True
        return twice

    def _counted(
        self, row: int, band: int, reaches: Sequence[_Reach], pixels: tuple[NDArray[np.intp], ...]
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The most frequent votes of ``pixels`` (patches, rows, columns) of ``row``, and whether there is a vote.

        ``reaches`` are those that cover all of these pixels.
        """
        patches, rows, cols = pixels
        votes = np.zeros((len(reaches), len(patches)), self._dtype)
        valid = np.zeros(votes.shape, np.bool_)
        for index, reach in enumerate(reaches):
            held = self._rows.get(row + reach.down)
            if held is None:
                continue
            column = patches + (self._area.kept.start - self._area.columns.start + reach.right)
            is_inside = (column >= 0) & (column < len(held.is_there))
            np.clip(column, 0, len(held.is_there) - 1, out=column)
            votes[index] = held.values[band][column, rows + (reach.top - held.cut), cols + reach.left]
            known = valid_values(votes[index], held.is_there[column], self._nodata)
            valid[index] = is_inside if known is None else is_inside & known
        is_own = np.array([[(reach.down, reach.right) == (0, 0)] for reach in reaches])
        return most_frequent(votes, valid, is_own), np.asarray(valid.any(axis=0))

    def _patches_with(self, reach: _Reach) -> range:
        """The patches to take, counted from the first one, that have a neighbour in this direction."""
        kept, columns = self._area.kept, self._area.columns
        start = max(columns.start - reach.right - kept.start, 0)
        return range(start, max(min(columns.stop - reach.right, kept.stop) - kept.start, start))

    def _others(self, held: _Row, reach: _Reach, patches: range) -> tuple[slice, slice, slice]:
        """Where the neighbours' votes on the pixels of ``reach`` stand."""
        first = self._area.kept.start - self._area.columns.start + reach.right
        top = reach.top - held.cut
        return (
            slice(patches.start + first, patches.stop + first),
            slice(reach.rows.start + top, reach.rows.stop + top),
            slice(reach.cols.start + reach.left, reach.cols.stop + reach.left),
        )

    def _new_row(self) -> _Row:
        columns = len(self._area.columns)
        values, self._spare = self._spare, None
        if values is None:
            values = np.zeros((self._bands, columns, *self._area.block_yx), self._dtype)
        return _Row(values, np.zeros(columns, np.bool_))

    def _drop_taken(self) -> None:
        """Let go of what no later patch row is reached by."""
        row = self._taken - 1
        height, margin = self._area.patch_yx[0], self._area.margin_yx[0]
        self._rows.pop(row - -(-margin // height), None)
        held = self._rows.get(row)
        if held is None:
            return
        self._spare = held.values
        held.values, held.cut = held.values[:, :, margin + height :].copy(), margin + height


def _reaches(area: BlendArea) -> Iterator[_Reach]:
    """Every direction from which a block covers some of a patch, its own included."""
    along = []
    for side, margin in zip(area.patch_yx, area.margin_yx, strict=True):
        far = -(-margin // side)
        along.append(
            [
                (
                    away,
                    slice(max(away * side - margin, 0), min(away * side + side + margin, side)),
                    margin - away * side,
                )
                for away in range(-far, far + 1)
            ]
        )
    for down, rows, top in along[0]:
        for right, cols, left in along[1]:
            yield _Reach(down, right, rows, cols, top, left)


def _zones(reaches: Sequence[_Reach]) -> Iterator[_Zone]:
    """The parts of a patch that the same blocks cover, its corners, edges and middle."""
    cuts = [
        pairwise(sorted({edge for each in reaches for edge in (getattr(each, axis).start, getattr(each, axis).stop)}))
        for axis in ("rows", "cols")
    ]
    for (top, bottom), (left, right) in product(*cuts):
        covering = tuple(
            each
            for each in reaches
            if each.rows.start <= top < each.rows.stop and each.cols.start <= left < each.cols.stop
        )
        yield _Zone(slice(top, bottom), slice(left, right), covering)


def _pieces(is_open: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.intp], ...]]:
    """The indices of what is True, some at a time."""
    places = np.flatnonzero(is_open)
    for start in range(0, len(places), _COUNTED_AT_ONCE):
        yield np.unravel_index(places[start : start + _COUNTED_AT_ONCE], is_open.shape)


def ballot_bytes(area: BlendArea, *, bands: int, itemsize: int) -> int:
    """Bytes that a :class:`BallotBlender` takes for one patch column."""
    (rows, cols), (height, width) = area.block_yx, area.patch_yx
    # Whole blocks of the rows that wait, one that is used again, and lower margins.
    held = (area.lag + 2) * rows + area.lag * area.margin_yx[0]
    return held * cols * bands * itemsize + height * width * (bands + 3)

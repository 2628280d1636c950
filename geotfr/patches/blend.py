"""Where blocks of neighbouring patches overlap: one value out of several.

Blocks are laid down patch row by patch row into a strip of the raster that holds only the rows which later blocks can
still change; a patch row that none can is taken out. So memory depends on the raster's width alone.

``average``, ``linear``, ``cosine`` and ``gaussian`` are weighted means. The mean is updated as
``m += (w / W) (x - m)``, ``W`` the weights so far, ``w`` included: the weights add up to 1 wherever a block is missing,
at the grid's edge too, and a constant stays itself exactly. ``max-probability`` takes all bands of the block whose
greatest value is the greatest; ``vote``, the most frequent value, is :mod:`geotfr.patches.ballots`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from geotfr.patches.ballots import BallotBlender, ballot_bytes
from geotfr.patches.blend_area import valid_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geotfr.patches.blend_area import BlendArea

__all__ = ["Blender", "Overlap", "axis_weights", "blend_bytes", "new_blender"]

Overlap = Literal["crop", "average", "linear", "cosine", "gaussian", "vote", "max-probability"]
"""What becomes of the margins: thrown away, as Earth Engine does, or blended."""

_SIGMAS = 4.0
"""Standard deviations from a block's centre to its edge."""


def axis_weights(overlap: Overlap, patch: int, margin: int) -> NDArray[np.float32]:
    """The weights along one side of a block, ``(patch + 2 margin,)`` float32, all above 0.

    ``linear`` and ``cosine`` rise over the zone that two neighbours share, twice the margin, and are 1 between; the
    weights of two neighbours then add up to 1 where no third one reaches. ``gaussian`` falls from the centre over the
    whole block.

    >>> axis_weights("linear", 4, 1).tolist()
    [0.25, 0.75, 1.0, 1.0, 0.75, 0.25]
    """
    side = patch + 2 * margin
    middle = np.arange(side) + 0.5
    if overlap == "gaussian":
        away = (middle - side / 2) / (side / 2 / _SIGMAS)
        return np.asarray(np.exp(-0.5 * away * away), np.float32)
    if overlap in ("linear", "cosine") and margin:
        ramp = np.minimum(np.minimum(middle, middle[::-1]) / (2 * margin), 1.0)
        weights = ramp if overlap == "linear" else 0.5 - 0.5 * np.cos(np.pi * ramp)
        return np.asarray(weights, np.float32)
    return np.ones(side, np.float32)


class Blender(Protocol):
    """Lays blocks down and takes blended patches out, patch row by patch row."""

    def lay(self, row: int, column: int, blocks: Sequence[NDArray[Any]], is_there: NDArray[np.bool_]) -> None:
        """Lay down consecutive blocks of patch row ``row`` from patch column ``column`` on.

        Parameters
        ----------
        blocks
            For each band ``(block, row, col)`` with the margins.
        is_there
            ``(block,)``, False for a block that is lost.
        """

    def take(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The next patch row: values and validity, ``(band, patch, row, col)``, patches in their order.

        Views, valid until the next call.
        """


def new_blender(
    overlap: Overlap, area: BlendArea, *, bands: int, dtype: np.dtype[Any], nodata: float | None
) -> Blender:
    """A blender of ``bands`` of the patch columns of ``area``.

    Parameters
    ----------
    overlap
        Anything but ``crop``.
    dtype
        Of the blended values; of means float32 or float64.
    nodata
        What takes no part, as NaN; None for nothing else.
    """
    if overlap == "vote":
        return BallotBlender(area, bands=bands, dtype=dtype, nodata=nodata)
    return _StripBlender(overlap, area, bands=bands, dtype=dtype, nodata=nodata)


@dataclass(frozen=True, slots=True)
class _Strip:
    """Where blocks lie in the strip that is held. It reaches a margin beyond its columns, so that no block is cut."""

    area: BlendArea

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of pixels that are held."""
        (height, width), (margin_y, margin_x) = self.area.patch_yx, self.area.margin_yx
        return (self.area.lag + 1) * height + margin_y, len(self.area.columns) * width + 2 * margin_x

    def blocks(self, plane: NDArray[Any], top: int, rows: int, column: int, count: int) -> NDArray[Any]:
        """A writable view ``(block, row, col)`` of the places of ``count`` blocks from ``column`` on, a turn apart."""
        width = self.area.patch_yx[1]
        origin = plane[..., top:, (column - self.area.columns.start) * width :]
        shape = (*plane.shape[:-2], count, rows, self.area.block_yx[1])
        strides = (*plane.strides[:-2], self.area.turns_yx[1] * width * plane.strides[-1], *plane.strides[-2:])
        return np.lib.stride_tricks.as_strided(origin, shape, strides)

    def cores(self, plane: NDArray[Any]) -> NDArray[Any]:
        """The patches of the first patch row, a view ``(..., patch, row, col)``."""
        (height, width), kept = self.area.patch_yx, self.area.kept
        left = self.area.margin_yx[1] + (kept.start - self.area.columns.start) * width
        row = plane[..., :height, left : left + len(kept) * width]
        return np.moveaxis(row.reshape(*plane.shape[:-2], height, len(kept), width), -3, -2)


class _StripBlender:
    """A :class:`Blender` that holds a strip of the raster; each block changes it at once."""

    def __init__(
        self, overlap: Overlap, area: BlendArea, *, bands: int, dtype: np.dtype[Any], nodata: float | None
    ) -> None:
        self._strip = _Strip(area)
        self._nodata = nodata
        self._is_taken = False
        self._top = 0  # the patch row that the strip begins with
        self._kind: _Mean | _Best = (
            _Best(self._strip, bands, dtype)
            if overlap == "max-probability"
            else _Mean(overlap, self._strip, bands, dtype)
        )

    def lay(self, row: int, column: int, blocks: Sequence[NDArray[Any]], is_there: NDArray[np.bool_]) -> None:
        """See :class:`Blender`."""
        self._make_room()
        area = self._strip.area
        top = (row - self._top) * area.patch_yx[0] - area.margin_yx[0]
        cut = max(-top, 0)
        valid = [valid_values(block, is_there, self._nodata) for block in blocks]
        turns = area.turns_yx[1]
        for turn in range(turns):
            # Blocks of one turn don't overlap: they are laid down together. A block's turn is its column's, so that
            # the order of two neighbours doesn't depend on where a pass over the records begins.
            first = (turn - column) % turns
            if first >= len(is_there):
                continue
            which = slice(first, None, turns), slice(cut, None)
            own = [block[which] for block in blocks]
            known = [None if each is None else each[which] for each in valid]
            place = (top + cut, own[0].shape[1], column + first, len(own[0]))
            self._kind.lay(place, cut, own, known)

    def take(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """See :class:`Blender`."""
        self._make_room()
        self._is_taken = True
        return self._kind.result()

    def _make_room(self) -> None:
        """Move the strip on, if its first patch row has been taken out."""
        if not self._is_taken:
            return
        self._is_taken = False
        height = self._strip.area.patch_yx[0]
        for plane, empty in self._kind.planes:
            kept = plane.shape[-2] - height
            # Row by patch row: numpy would copy all of it first where source and target overlap.
            for top in range(0, kept, height):
                stop = min(top + height, kept)
                plane[..., top:stop, :] = plane[..., top + height : stop + height, :]
            plane[..., -height:, :] = empty
        self._top += 1


class _Mean:
    """Weighted means: ``mean`` so far and the ``weight`` it stands for, ``(band, row, col)``.

    All bands share one plane of weights until a value of one of them takes no part.
    """

    def __init__(self, overlap: Overlap, strip: _Strip, bands: int, dtype: np.dtype[Any]) -> None:
        self._strip = strip
        self._mean = np.zeros((bands, *strip.shape), dtype)
        self._weight = np.zeros((1, *strip.shape), np.float32)
        self.planes: list[tuple[NDArray[Any], Any]] = [(self._mean, 0), (self._weight, 0)]
        sides = zip(strip.area.patch_yx, strip.area.margin_yx, strict=True)
        along = [axis_weights(overlap, patch, margin) for patch, margin in sides]
        # The least product of two gaussians is 1e-7: far from float32's end.
        self._weights = along[0][:, np.newaxis] * along[1]

    def lay(
        self,
        place: tuple[int, int, int, int],
        cut: int,
        blocks: Sequence[NDArray[Any]],
        valid: Sequence[NDArray[np.bool_] | None],
    ) -> None:
        """Blocks ``(block, row, col)`` of each band, at a place of the strip; ``cut`` rows of each are above it."""
        weights = self._weights[cut:]
        are_plain = [
            known is None and np.isfinite([block.min(), block.max()]).all()
            for block, known in zip(blocks, valid, strict=True)
        ]
        if len(self._weight) < len(self._mean) and not all(are_plain):
            self._weight = np.repeat(self._weight, len(self._mean), axis=0)
            self.planes[1] = self._weight, 0
        step: Any = None
        for band, (block, known) in enumerate(zip(blocks, valid, strict=True)):
            mean = self._strip.blocks(self._mean[band], *place)
            if band < len(self._weight):
                weight = self._strip.blocks(self._weight[band], *place)
                if not are_plain[band]:
                    _lay_valid(mean, weight, block, np.bool_(True) if known is None else known, weights)
                    continue
                weight += weights
                step = weights / weight
            delta = np.subtract(block, mean, dtype=mean.dtype)
            delta *= step
            mean += delta

    def result(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The first patch row."""
        cores = self._strip.cores(self._mean)
        return cores, np.broadcast_to(self._strip.cores(self._weight) > 0, cores.shape)


def _lay_valid(
    mean: NDArray[Any], weight: NDArray[Any], block: NDArray[Any], valid: Any, weights: NDArray[np.float32]
) -> None:
    """Lay down a block with infinities, or values that take no part."""
    own = np.broadcast_to(np.where(valid, weights, np.float32(0)), block.shape)
    weight += own
    step = np.divide(own, weight, out=np.zeros_like(weight), where=own > 0)
    with np.errstate(invalid="ignore"):
        # Two infinities of one sign are a constant too; what isn't valid may be NaN.
        mean += np.where(valid & (block != mean), block - mean, 0) * step


class _Best:
    """The pixel of the block that is surest of it, all bands together.

    All bands share one plane of sureness until a value of one of them takes no part: each band then takes the surest
    block that has a value for it.
    """

    def __init__(self, strip: _Strip, bands: int, dtype: np.dtype[Any]) -> None:
        self._strip = strip
        self._value = np.zeros((bands, *strip.shape), dtype)
        self._best = np.full((1, *strip.shape), -np.inf, np.float32)
        self._known = np.zeros((1, *strip.shape), np.bool_)
        self.planes: list[tuple[NDArray[Any], Any]] = [
            (self._value, 0),
            (self._best, -np.inf),
            (self._known, False),
        ]

    def lay(
        self,
        place: tuple[int, int, int, int],
        cut: int,
        blocks: Sequence[NDArray[Any]],
        valid: Sequence[NDArray[np.bool_] | None],
    ) -> None:
        """Blocks ``(block, row, col)`` of each band, at a place of the strip; ``cut`` rows of each are above it."""
        del cut
        are_whole = all(each is None for each in valid)
        if len(self._best) < len(blocks) and not are_whole:
            self._best = np.repeat(self._best, len(blocks), axis=0)
            self._known = np.repeat(self._known, len(blocks), axis=0)
            self.planes[1:] = [(self._best, -np.inf), (self._known, False)]
        sure = [
            block if known is None else np.where(known, block, -np.inf)
            for block, known in zip(blocks, valid, strict=True)
        ]
        sureness = np.maximum.reduce(sure)
        bands = range(len(blocks))
        for plane, own in enumerate([bands] if len(self._best) == 1 else [[band] for band in bands]):
            best = self._strip.blocks(self._best[plane], *place)
            seen = self._strip.blocks(self._known[plane], *place)
            is_better = ~seen
            is_better |= sureness > best
            known = valid[own[0]]
            if known is not None:
                is_better &= known
            np.copyto(best, sureness, where=is_better, casting="same_kind")
            seen |= is_better
            for band in own:
                value = self._strip.blocks(self._value[band], *place)
                np.copyto(value, blocks[band], where=is_better, casting="same_kind")

    def result(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The first patch row."""
        cores = self._strip.cores(self._value)
        return cores, np.broadcast_to(self._strip.cores(self._known), cores.shape)


def blend_bytes(overlap: Overlap, area: BlendArea, *, bands: int, itemsize: int) -> int:
    """Bytes that a :class:`Blender` takes for one patch column, the strip and what it makes of it."""
    if overlap == "vote":
        return ballot_bytes(area, bands=bands, itemsize=itemsize)
    held = _Strip(area).shape[0] * area.patch_yx[1]
    taken = area.patch_yx[0] * area.patch_yx[1] * bands
    if overlap == "max-probability":
        return held * bands * (itemsize + 5)
    return held * bands * (itemsize + 4) + taken

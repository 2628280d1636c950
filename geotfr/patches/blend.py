"""Where blocks of neighbouring patches overlap: one value out of several.

Blocks are laid down patch row by patch row into a strip of the raster that holds only the rows which later blocks can
still change; a patch row that none can is taken out. So memory depends on the raster's width alone.

``average``, ``linear``, ``cosine`` and ``gaussian`` are weighted means. The mean is updated as
``m += (w / W) (x - m)``, ``W`` the weights so far, ``w`` included: the weights add up to 1 wherever a block is missing,
at the grid's edge too, and a constant stays itself exactly. ``vote`` takes the most frequent value, ``max-probability``
all bands of the block whose greatest value is the greatest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from geotfr.patches.votes import most_frequent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Blender", "Overlap", "axis_weights", "blend_bytes"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Strip:
    """Where blocks lie in the strip that is held.

    ``columns`` are the patch columns that are laid down, ``kept`` those that are taken out. The strip reaches a margin
    beyond its columns, so that no block is cut there.
    """

    patch_yx: tuple[int, int]
    margin_yx: tuple[int, int]
    columns: range
    kept: range
    lag: int

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of pixels that are held."""
        height, width = self.patch_yx
        return (self.lag + 1) * height + self.margin_yx[0], len(self.columns) * width + 2 * self.margin_yx[1]

    @property
    def turns_yx(self) -> tuple[int, int]:
        """(rows, columns): blocks so many patches apart don't overlap."""
        (height, width), (margin_y, margin_x) = self.patch_yx, self.margin_yx
        return 1 + -(-2 * margin_y // height), 1 + -(-2 * margin_x // width)

    def blocks(self, plane: NDArray[Any], top: int, rows: int, column: int, count: int) -> NDArray[Any]:
        """A writable view ``(block, row, col)`` of the places of ``count`` blocks from ``column`` on, a turn apart."""
        step = self.turns_yx[1] * self.patch_yx[1]
        origin = plane[..., top:, (column - self.columns.start) * self.patch_yx[1] :]
        shape = (*plane.shape[:-2], count, rows, self.patch_yx[1] + 2 * self.margin_yx[1])
        strides = (*plane.strides[:-2], step * plane.strides[-1], *plane.strides[-2:])
        return np.lib.stride_tricks.as_strided(origin, shape, strides)

    def cores(self, plane: NDArray[Any]) -> NDArray[Any]:
        """The patches of the first patch row, a view ``(..., patch, row, col)``."""
        height, width = self.patch_yx
        left = self.margin_yx[1] + (self.kept.start - self.columns.start) * width
        row = plane[..., :height, left : left + len(self.kept) * width]
        return np.moveaxis(row.reshape(*plane.shape[:-2], height, len(self.kept), width), -3, -2)


class Blender:
    """Lays blocks down and takes blended patches out, patch row by patch row.

    Parameters
    ----------
    overlap
        Anything but ``crop``.
    patch_yx, margin_yx
        (rows, columns) of a patch, and of the margin on each side of it.
    columns, kept
        The patch columns that will be laid down, and those to take out; ``columns`` holds the neighbours of ``kept``
        whose blocks reach into it.
    bands
        How many.
    dtype
        Of the blended values; of means float32 or float64.
    lag
        Patch row ``r`` is taken when row ``r + lag`` has been laid down: at least the patch rows that a margin reaches.
    """

    def __init__(
        self,
        overlap: Overlap,
        *,
        patch_yx: tuple[int, int],
        margin_yx: tuple[int, int],
        columns: range,
        kept: range,
        bands: int,
        dtype: np.dtype[Any],
        lag: int,
    ) -> None:
        self._strip = _Strip(patch_yx=patch_yx, margin_yx=margin_yx, columns=columns, kept=kept, lag=lag)
        self._is_taken = False
        self._top = 0  # the patch row that the strip begins with
        kinds: dict[str, type[_Votes] | type[_Best]] = {"vote": _Votes, "max-probability": _Best}
        self._kind: _Mean | _Votes | _Best = kinds.get(overlap, _Mean)(overlap, self._strip, bands, dtype)

    def lay(self, row: int, column: int, blocks: Sequence[NDArray[Any]], valid: Sequence[NDArray[np.bool_]]) -> None:
        """Lay down consecutive blocks of patch row ``row`` from patch column ``column`` on.

        Parameters
        ----------
        blocks
            For each band ``(block, row, col)`` with the margins.
        valid
            For each band the same shape, False where a value takes no part.
        """
        self._make_room()
        strip = self._strip
        top = (row - self._top) * strip.patch_yx[0] - strip.margin_yx[0]
        cut = max(-top, 0)
        rows = slice(cut, strip.patch_yx[0] + 2 * strip.margin_yx[0])
        turns_y, turns_x = strip.turns_yx
        for first in range(min(turns_x, len(blocks[0]))):
            which = slice(first, None, turns_x)
            count = len(blocks[0][which])
            turn = (row % turns_y) * turns_x + (column + first) % turns_x
            place = (top + cut, rows.stop - cut, column + first, count)
            for band, (block, known) in enumerate(zip(blocks, valid, strict=True)):
                self._kind.lay(band, turn, place, rows, block[which, rows], known[which, rows])
            self._kind.lay_pixels(
                place, [block[which, rows] for block in blocks], [known[which, rows] for known in valid]
            )

    def take(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The next patch row: values and validity, ``(band, patch, row, col)``, patches in their order.

        Views of the strip, valid until the next call.
        """
        self._make_room()
        self._is_taken = True
        return self._kind.result()

    def _make_room(self) -> None:
        """Move the strip on, if its first patch row has been taken out."""
        if not self._is_taken:
            return
        self._is_taken = False
        height = self._strip.patch_yx[0]
        for plane, empty in self._kind.planes:
            kept = plane.shape[-2] - height
            # Row by patch row: numpy would copy all of it first where source and target overlap.
            for top in range(0, kept, height):
                stop = min(top + height, kept)
                plane[..., top:stop, :] = plane[..., top + height : stop + height, :]
            plane[..., -height:, :] = empty
        self._top += 1


class _Mean:
    """Weighted means: ``mean`` so far and the ``weight`` it stands for, ``(band, row, col)``."""

    def __init__(self, overlap: Overlap, strip: _Strip, bands: int, dtype: np.dtype[Any]) -> None:
        self._strip = strip
        self._mean = np.zeros((bands, *strip.shape), dtype)
        self._weight = np.zeros((bands, *strip.shape), np.float32)
        self.planes: list[tuple[NDArray[Any], Any]] = [(self._mean, 0), (self._weight, 0)]
        along = [axis_weights(overlap, *sides) for sides in zip(strip.patch_yx, strip.margin_yx, strict=True)]
        # The least product of two gaussians is 1e-7: far from float32's end.
        self._weights = along[0][:, np.newaxis] * along[1]

    def lay(
        self,
        band: int,
        turn: int,
        place: tuple[int, int, int, int],
        rows: slice,
        block: NDArray[Any],
        valid: NDArray[np.bool_],
    ) -> None:
        del turn
        mean = self._strip.blocks(self._mean[band], *place)
        weight = self._strip.blocks(self._weight[band], *place)
        weights = self._weights[rows]
        if valid.all() and np.isfinite(block).all():
            weight += weights
            step = weights / weight
            delta = np.subtract(block, mean, dtype=mean.dtype)
            delta *= step
            mean += delta
            return
        own = np.where(valid, weights, np.float32(0))
        weight += own
        step = np.divide(own, weight, out=np.zeros_like(own), where=own > 0)
        with np.errstate(invalid="ignore"):
            # Two infinities of one sign are a constant too; what isn't valid may be NaN.
            delta = np.where(valid & (block != mean), block - mean, 0) * step
            mean += delta

    def lay_pixels(self, place: object, blocks: object, valid: object) -> None:
        """Bands are independent: nothing is left to do."""

    def result(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        return self._strip.cores(self._mean), self._strip.cores(self._weight) > 0


class _Votes:
    """Each block's value in a layer of its turn, ``(band, layer, row, col)``; blocks of one turn don't overlap."""

    def __init__(self, overlap: Overlap, strip: _Strip, bands: int, dtype: np.dtype[Any]) -> None:
        del overlap
        self._strip = strip
        layers = strip.turns_yx[0] * strip.turns_yx[1]
        self._value = np.zeros((bands, layers, *strip.shape), dtype)
        # 0: no vote, 1: a vote, 2: the vote of the patch that the pixel belongs to.
        self._vote = np.zeros((bands, layers, *strip.shape), np.uint8)
        self.planes: list[tuple[NDArray[Any], Any]] = [(self._value, 0), (self._vote, 0)]
        sides = [np.arange(p + 2 * m) for p, m in zip(strip.patch_yx, strip.margin_yx, strict=True)]
        inside = [(at >= m) & (at < p + m) for at, p, m in zip(sides, strip.patch_yx, strip.margin_yx, strict=True)]
        self._is_own = inside[0][:, np.newaxis] & inside[1]

    def lay(
        self,
        band: int,
        turn: int,
        place: tuple[int, int, int, int],
        rows: slice,
        block: NDArray[Any],
        valid: NDArray[np.bool_],
    ) -> None:
        self._strip.blocks(self._value[band, turn], *place)[...] = block
        self._strip.blocks(self._vote[band, turn], *place)[...] = valid * (1 + self._is_own[rows].view(np.uint8))

    def lay_pixels(self, place: object, blocks: object, valid: object) -> None:
        """Bands are independent: nothing is left to do."""

    def result(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        value, vote = self._strip.cores(self._value), self._strip.cores(self._vote)
        chosen = [most_frequent(v, n > 0, n == 2) for v, n in zip(value, vote, strict=True)]
        return np.stack(chosen), np.asarray((vote > 0).any(axis=1))


class _Best:
    """The pixel, all bands together, of the block that is surest of it."""

    def __init__(self, overlap: Overlap, strip: _Strip, bands: int, dtype: np.dtype[Any]) -> None:
        del overlap
        self._strip = strip
        self._value = np.zeros((bands, *strip.shape), dtype)
        self._best = np.full(strip.shape, -np.inf, np.float32)
        self._known = np.zeros(strip.shape, np.bool_)
        self.planes: list[tuple[NDArray[Any], Any]] = [
            (self._value, 0),
            (self._best, -np.inf),
            (self._known, False),
        ]

    def lay(self, band: int, turn: int, place: object, rows: object, block: object, valid: object) -> None:
        """Bands depend on each other: see :meth:`lay_pixels`."""

    def lay_pixels(
        self,
        place: tuple[int, int, int, int],
        blocks: Sequence[NDArray[Any]],
        valid: Sequence[NDArray[np.bool_]],
    ) -> None:
        known = np.logical_and.reduce(valid)
        sureness = np.where(known, np.maximum.reduce(blocks), -np.inf)
        best = self._strip.blocks(self._best, *place)
        seen = self._strip.blocks(self._known, *place)
        is_better = known & (~seen | (sureness > best))
        np.copyto(best, sureness, where=is_better, casting="same_kind")
        seen |= known
        for band, block in enumerate(blocks):
            np.copyto(self._strip.blocks(self._value[band], *place), block, where=is_better, casting="same_kind")

    def result(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        cores = self._strip.cores(self._value)
        return cores, np.broadcast_to(self._strip.cores(self._known), cores.shape)


def blend_bytes(
    overlap: Overlap, *, patch_yx: tuple[int, int], margin_yx: tuple[int, int], bands: int, itemsize: int, lag: int
) -> int:
    """Bytes that a :class:`Blender` takes for one patch column, the strip and what it makes of it."""
    strip = _Strip(patch_yx=patch_yx, margin_yx=margin_yx, columns=range(1), kept=range(1), lag=lag)
    held = strip.shape[0] * patch_yx[1]
    taken = patch_yx[0] * patch_yx[1] * bands
    if overlap == "vote":
        return held * bands * strip.turns_yx[0] * strip.turns_yx[1] * (itemsize + 1) + 4 * taken * (itemsize + 1)
    if overlap == "max-probability":
        return held * (bands * itemsize + 5)
    return held * bands * (itemsize + 4) + taken

"""Pairs of patches of one grid that overlap or are near, by arithmetic on the grid: no search, no pair list.

Whether two patches are near depends on how many rows and columns lie between them alone. So the grid is compared with
itself, shifted by each such offset; where these are many, as for a buffer as wide as the grid, by Fourier transforms,
which take all of them at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Offsets", "count_pairs", "first_pair", "losers", "near_offsets"]

_MOST_SHIFTS = 20
"""Offsets past these are taken by the Fourier transform, which costs about as much as so many comparisons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """To patches below and to the right (or left, where negative) of another, as near as asked.

    Attributes
    ----------
    rows, columns
        ``(n,) int64``: how far.
    overlaps
        ``(n,) bool``: whether the blocks share pixels.
    distance
        ``(n,) float64``: between the blocks, in the unit of the pixel's sides; 0 where they overlap or touch.
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    overlaps: NDArray[np.bool_]
    distance: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.rows)


def near_offsets(
    patch_yx: tuple[int, int],
    margin_yx: tuple[int, int],
    pixel_yx: tuple[float, float],
    distance: float,
    *,
    grid_yx: tuple[int, int],
) -> Offsets:
    """Offsets to patches whose blocks overlap, or are nearer than ``distance``; one of each pair's two.

    Parameters
    ----------
    pixel_yx
        Height and width of a pixel, in the unit of ``distance``.
    grid_yx
        Rows and columns of patches: no offset is longer, however large the distance.

    >>> near = near_offsets((4, 4), (2, 2), (1.0, 1.0), 0.0, grid_yx=(9, 9))
    >>> list(zip(near.rows.tolist(), near.columns.tolist()))
    [(0, 1), (1, -1), (1, 0), (1, 1)]
    """
    most = [
        min(math.ceil((2 * margin + distance / pixel) / side) + 1, count - 1)
        for side, margin, pixel, count in zip(patch_yx, margin_yx, pixel_yx, grid_yx, strict=True)
    ]
    rows, columns = np.arange(most[0] + 1)[:, np.newaxis], np.arange(-most[1], most[1] + 1)[np.newaxis]
    gap_y = (rows - 1) * patch_yx[0] - 2 * margin_yx[0]
    gap_x = (np.abs(columns) - 1) * patch_yx[1] - 2 * margin_yx[1]
    between = np.hypot(np.maximum(gap_y, 0) * pixel_yx[0], np.maximum(gap_x, 0) * pixel_yx[1])
    overlaps = (gap_y < 0) & (gap_x < 0)
    down, right = np.nonzero((overlaps | (between < distance)) & ((rows > 0) | (columns > 0)))
    return Offsets(rows=down, columns=right - most[1], overlaps=overlaps[down, right], distance=between[down, right])


def count_pairs(grid: NDArray[np.int64], offsets: Offsets, splits: int) -> NDArray[np.int64]:
    """How many pairs of patches are of two splits: ``(offsets, splits, splits)``, of the one above or left, the other.

    Parameters
    ----------
    grid
        ``(rows, columns)``: the split of each patch, negative for none.
    splits
        How many there are.
    """
    if len(offsets) > _MOST_SHIFTS:
        return _count_at_once(grid, offsets, splits)
    counts = np.zeros((len(offsets), splits, splits), np.int64)
    for place in range(len(offsets)):
        first, second = _shifted(grid.shape, int(offsets.rows[place]), int(offsets.columns[place]))
        one, other = grid[first], grid[second]
        is_pair = (one != other) & (one >= 0) & (other >= 0)
        codes = np.bincount(one[is_pair] * splits + other[is_pair], minlength=splits * splits)
        counts[place] = codes.reshape(splits, splits)
    return counts


def _count_at_once(grid: NDArray[np.int64], offsets: Offsets, splits: int) -> NDArray[np.int64]:
    """The same by correlations. Counts are whole numbers that float64 holds, so rounding restores them."""
    counts = np.zeros((len(offsets), splits, splits), np.int64)
    shape = _padded(grid.shape, offsets)
    found = [np.fft.rfft2(grid == split, shape) for split in range(splits)]
    for one in range(splits):
        for other in range(splits):
            if one != other:
                pairs = np.fft.irfft2(np.conj(found[one]) * found[other], shape)
                counts[:, one, other] = np.rint(pairs[offsets.rows, offsets.columns])
    return counts


def first_pair(grid: NDArray[np.int64], rows: int, columns: int) -> tuple[int, int] | None:
    """(row, column) of the first patch of the first pair at an offset that is of two splits; None without one."""
    first, second = _shifted(grid.shape, rows, columns)
    one, other = grid[first], grid[second]
    is_pair = (one != other) & (one >= 0) & (other >= 0)
    if not is_pair.any():
        return None
    row, column = np.unravel_index(int(is_pair.argmax()), is_pair.shape)
    return int(row), int(column) + max(-columns, 0)


def losers(grid: NDArray[np.int64], offsets: Offsets, loser: int, others: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Patches of split ``loser`` that are near to one of the splits marked in ``others``: ``(rows, columns) bool``."""
    is_other = np.zeros(grid.shape, np.bool_)
    is_other[grid >= 0] = others[grid[grid >= 0]]
    is_mine: NDArray[np.bool_] = grid == loser
    if len(offsets) > _MOST_SHIFTS:
        return is_mine & _near_to(is_other, offsets)
    found = np.zeros(grid.shape, np.bool_)
    for down, right in zip(offsets.rows.tolist(), offsets.columns.tolist(), strict=True):
        first, second = _shifted(grid.shape, down, right)
        found[first] |= is_mine[first] & is_other[second]
        found[second] |= is_mine[second] & is_other[first]
    return found


def _near_to(marked: NDArray[np.bool_], offsets: Offsets) -> NDArray[np.bool_]:
    """What has a marked patch at an offset or its opposite, by one convolution: how many it has is a whole number."""
    shape = _padded(marked.shape, offsets)
    near = np.zeros(shape)
    near[offsets.rows, offsets.columns] = near[-offsets.rows, -offsets.columns] = 1
    counts = np.fft.irfft2(np.fft.rfft2(marked, shape) * np.fft.rfft2(near), shape)
    found: NDArray[np.bool_] = counts[: marked.shape[0], : marked.shape[1]] > 0.5
    return found


def _padded(shape: tuple[int, ...], offsets: Offsets) -> tuple[int, int]:
    """Sides at which no offset reaches around the edge, of small factors, which are transformed fast."""
    reach = int(np.max(offsets.rows, initial=0)), int(np.max(np.abs(offsets.columns), initial=0))
    return _smooth(shape[0] + reach[0]), _smooth(shape[1] + reach[1])


def _smooth(least: int) -> int:
    """The smallest number from ``least`` on whose only factors are 2, 3 and 5.

    >>> [_smooth(number) for number in (1, 7, 97, 1021)]
    [1, 8, 100, 1024]
    """
    number = max(least, 1)
    while True:
        rest = number
        for factor in (2, 3, 5):
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return number
        number += 1


def _shifted(shape: tuple[int, ...], down: int, right: int) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """The places of the patches that have one at an offset, and of these others."""
    rows, columns = shape
    if rows <= down or columns <= abs(right):
        return (slice(0, 0), slice(0, 0)), (slice(0, 0), slice(0, 0))
    return (
        (slice(0, rows - down), slice(max(-right, 0), columns - max(right, 0))),
        (slice(down, rows), slice(max(right, 0), columns + min(right, 0))),
    )

"""Pairs of patches of one grid that overlap or are near, by arithmetic on the grid: no search, no pair list.

Whether two patches are near depends on how many rows and columns lie between them alone. So for each such offset the
whole grid is compared with itself, shifted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_T = TypeVar("_T", np.int64, np.bool_)

__all__ = ["Offset", "count_pairs", "losers", "near_offsets"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """A patch ``rows`` below and ``columns`` to the right (or left, where negative) of another, as near as asked.

    Attributes
    ----------
    overlaps
        Whether their blocks share pixels.
    distance
        Between the blocks, in the unit of the pixel's sides; 0 where they overlap or touch.
    """

    rows: int
    columns: int
    overlaps: bool
    distance: float


def near_offsets(
    patch_yx: tuple[int, int],
    margin_yx: tuple[int, int],
    pixel_yx: tuple[float, float],
    distance: float,
    *,
    grid_yx: tuple[int, int],
) -> list[Offset]:
    """Offsets to patches whose blocks overlap, or are nearer than ``distance``; one of each pair's two.

    Parameters
    ----------
    pixel_yx
        Height and width of a pixel, in the unit of ``distance``.
    grid_yx
        Rows and columns of patches: no offset is longer, however large the distance.

    >>> [(o.rows, o.columns) for o in near_offsets((4, 4), (2, 2), (1.0, 1.0), 0.0, grid_yx=(9, 9))]
    [(0, 1), (1, -1), (1, 0), (1, 1)]
    """
    most = [
        min(math.ceil((2 * margin + distance / pixel) / side) + 1, count - 1)
        for side, margin, pixel, count in zip(patch_yx, margin_yx, pixel_yx, grid_yx, strict=True)
    ]
    found = []
    for rows in range(most[0] + 1):
        for columns in range(-most[1], most[1] + 1):
            if rows == 0 and columns <= 0:
                continue
            gap_y = abs(rows) * patch_yx[0] - patch_yx[0] - 2 * margin_yx[0]
            gap_x = abs(columns) * patch_yx[1] - patch_yx[1] - 2 * margin_yx[1]
            between = math.hypot(max(gap_y, 0) * pixel_yx[0], max(gap_x, 0) * pixel_yx[1])
            overlaps = gap_y < 0 and gap_x < 0
            if overlaps or between < distance:
                found.append(Offset(rows=rows, columns=columns, overlaps=overlaps, distance=between))
    return found


def count_pairs(
    grid: NDArray[np.int64], offsets: list[Offset], splits: int
) -> Iterator[tuple[Offset, NDArray[np.int64], tuple[int, int] | None]]:
    """For each offset how many pairs of patches are of two splits, and where the first of them is.

    Parameters
    ----------
    grid
        ``(rows, columns)``: the split of each patch, negative for none.
    splits
        How many there are.

    Yields
    ------
    offset
        One of ``offsets``.
    pairs
        ``(splits, splits) int64``: split above or to the left, split of the other.
    first
        (row, column) of the first patch of the first pair, or None.
    """
    for offset in offsets:
        one, other, _ = _shifted(grid, offset)
        is_pair = (one != other) & (one >= 0) & (other >= 0)
        if not is_pair.any():
            continue
        pairs = np.bincount(one[is_pair] * splits + other[is_pair], minlength=splits * splits)
        row, column = np.unravel_index(int(is_pair.argmax()), is_pair.shape)
        start = max(-offset.columns, 0)
        yield offset, pairs.reshape(splits, splits).astype(np.int64), (int(row), int(column) + start)


def losers(grid: NDArray[np.int64], offsets: list[Offset], loser: int, others: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Patches of split ``loser`` that are near to one of the splits marked in ``others``: ``(rows, columns) bool``."""
    found = np.zeros(grid.shape, np.bool_)
    is_other = np.zeros(grid.shape, np.bool_)
    is_other[grid >= 0] = others[grid[grid >= 0]]
    is_mine = grid == loser
    for offset in offsets:
        one, other, places = _shifted(is_other, offset)
        mine_one, mine_other, _ = _shifted(is_mine, offset)
        found[places[0]] |= mine_one & other
        found[places[1]] |= mine_other & one
    return found


def _shifted(
    grid: NDArray[_T], offset: Offset
) -> tuple[NDArray[_T], NDArray[_T], tuple[tuple[slice, slice], tuple[slice, slice]]]:
    """The patches that have one at ``offset``, these others, and the places of both."""
    rows, columns = grid.shape
    down, right = offset.rows, offset.columns
    above = slice(0, max(rows - down, 0)), slice(down, rows)
    left = slice(max(-right, 0), max(columns - max(right, 0), 0)), slice(max(right, 0), max(columns + min(right, 0), 0))
    first, second = (above[0], left[0]), (above[1], left[1])
    if rows <= down or columns <= abs(right):
        first = second = (slice(0, 0), slice(0, 0))
    return grid[first], grid[second], (first, second)

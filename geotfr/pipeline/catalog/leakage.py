"""Leaks: patches of different splits that share pixels or are too near.

Within one grid pairs are counted by shifting it against itself; between grids an STRtree finds them. Blocks count, so
margins do too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.grid.crs import same_crs
from geotfr.grid.footprints import lonlat_bounds, patch_corners
from geotfr.grid.ground import METRES_PER_DEGREE, ground_units, pixel_metres
from geotfr.patches.nearness import Offsets, count_pairs, first_pair, losers, near_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from geotfr.vectors.patch_table import PatchSet

__all__ = ["Leakage", "PlacedPatches", "find_leaks", "without_leaks"]

MOST_EXAMPLES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPatches:
    """The patches of one set.

    Attributes
    ----------
    patches
        Their grid.
    numbers
        ``(n,) int64``: their numbers.
    rows
        ``(n,) int64``: their rows in the table.
    """

    patches: PatchSet
    numbers: NDArray[np.int64]
    rows: NDArray[np.int64]

    def grid(self, splits: NDArray[np.int64]) -> NDArray[np.int64]:
        """``splits`` of the table's rows laid out ``(patch row, patch column)``; -1 for none."""
        laid = np.full(self.patches.rows * self.patches.columns, -1, np.int64)
        laid[self.numbers] = splits[self.rows]
        return laid.reshape(self.patches.rows, self.patches.columns)


@dataclass(slots=True, kw_only=True)
class Leakage:
    """What was found.

    Attributes
    ----------
    distance_m
        Pairs nearer than this count as near.
    overlapping, near
        (split, other split) -> pairs whose blocks share pixels, and pairs that are only near.
    nearest_m
        The smallest distance of a pair that was found; None without one.
    examples
        Some pairs: (source, number, split) of both.
    equal
        Pairs of splits that have records of equal content -> different contents that both have.
    """

    distance_m: float
    overlapping: dict[tuple[str, str], int] = field(default_factory=dict)
    near: dict[tuple[str, str], int] = field(default_factory=dict)
    nearest_m: float | None = None
    examples: list[tuple[tuple[str, int, str], tuple[str, int, str]]] = field(default_factory=list)
    equal: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def pairs(self) -> int:
        """Pairs in all."""
        return sum(self.overlapping.values()) + sum(self.near.values())

    @property
    def is_clean(self) -> bool:
        """Whether there is none."""
        return not self.pairs

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "clean": self.is_clean,
            "distance_m": self.distance_m,
            "overlapping": {"/".join(pair): count for pair, count in self.overlapping.items()},
            "near": {"/".join(pair): count for pair, count in self.near.items()},
            "nearest_m": None if self.nearest_m is None else round(self.nearest_m, 3),
            "equal_records": {"/".join(pair): count for pair, count in self.equal.items()},
            "examples": [
                [{"source": source, "number": number, "split": split} for source, number, split in pair]
                for pair in self.examples
            ],
        }

    def add(self, pair: tuple[str, str], count: int, *, overlaps: bool, distance: float) -> None:
        """Count pairs in."""
        pair = (min(pair), max(pair))
        counts = self.overlapping if overlaps else self.near
        counts[pair] = counts.get(pair, 0) + count
        self.nearest_m = distance if self.nearest_m is None else min(self.nearest_m, distance)


def find_leaks(
    sets: Sequence[PlacedPatches], splits: NDArray[np.int64], names: Sequence[str], distance_m: float
) -> Leakage:
    """All pairs of patches of different splits whose blocks overlap or are nearer than ``distance_m``.

    Parameters
    ----------
    splits
        ``(rows of the table,) int64``: the number of each patch's split in ``names``, -1 for none.
    """
    found = Leakage(distance_m=distance_m)
    for each in sets:
        offsets = _offsets(each, distance_m)
        pairs = count_pairs(each.grid(splits), offsets, len(names))
        for one, other in zip(*np.nonzero(pairs.any(axis=0)), strict=True):
            for kind in (True, False):
                chosen = (pairs[:, one, other] > 0) & (offsets.overlaps == kind)
                if chosen.any():
                    found.add(
                        (names[one], names[other]),
                        int(pairs[chosen, one, other].sum()),
                        overlaps=kind,
                        distance=float(offsets.distance[chosen].min()),
                    )
        for place in np.flatnonzero(pairs.any(axis=(1, 2)))[: MOST_EXAMPLES - len(found.examples)]:
            found.examples.append(
                _example(each, (int(offsets.rows[place]), int(offsets.columns[place])), splits, names)
            )
    for one_set, other_set in combinations(sets, 2):
        for one, other, overlaps, between in _pairs_between(one_set, other_set, splits, distance_m):
            codes = splits[one_set.rows[one]], splits[other_set.rows[other]]
            for code in np.unique(codes[0] * len(names) + codes[1]).tolist():
                is_this = codes[0] * len(names) + codes[1] == code
                pair = names[code // len(names)], names[code % len(names)]
                for kind in (True, False):
                    chosen = is_this & (overlaps == kind)
                    if chosen.any():
                        found.add(pair, int(chosen.sum()), overlaps=kind, distance=float(between[chosen].min()))
            for place in range(min(len(one), MOST_EXAMPLES - len(found.examples))):
                found.examples.append(
                    (
                        _named(one_set, int(one[place]), splits, names),
                        _named(other_set, int(other[place]), splits, names),
                    )
                )
    return found


def without_leaks(
    sets: Sequence[PlacedPatches], splits: NDArray[np.int64], order: Sequence[int], distance_m: float
) -> NDArray[np.int64]:
    """``splits`` with patches left out (-1) until no pair overlaps or is nearer than ``distance_m``.

    Of a pair the one goes whose split comes first in ``order``: the largest split, which can spare most.
    """
    kept = splits.copy()
    remaining = np.ones(len(order), np.bool_)
    for loser in order:
        remaining[loser] = False
        for each in sets:
            gone = losers(each.grid(kept), _offsets(each, distance_m), loser, remaining)
            is_gone = gone.reshape(-1)[each.numbers]
            kept[each.rows[is_gone]] = -1
        for one_set, other_set in combinations(sets, 2):
            for one, other, _, _ in _pairs_between(one_set, other_set, kept, distance_m):
                rows, other_rows = one_set.rows[one], other_set.rows[other]
                lost = np.concatenate(
                    [
                        rows[(kept[rows] == loser) & remaining[kept[other_rows]]],
                        other_rows[(kept[other_rows] == loser) & remaining[kept[rows]]],
                    ]
                )
                kept[lost] = -1
    return kept


def _offsets(each: PlacedPatches, distance_m: float) -> Offsets:
    pixel = pixel_metres(each.patches.geobox)
    patches = each.patches
    grid = patches.rows, patches.columns
    return near_offsets(patches.patch_yx, patches.margin_yx, pixel, distance_m, grid_yx=grid)


def _example(
    each: PlacedPatches,
    offset: tuple[int, int],
    splits: NDArray[np.int64],
    names: Sequence[str],
) -> tuple[tuple[str, int, str], tuple[str, int, str]]:
    grid = each.grid(splits)
    first = first_pair(grid, *offset)
    assert first is not None
    other = first[0] + offset[0], first[1] + offset[1]
    columns = each.patches.columns
    return (
        (each.patches.source, first[0] * columns + first[1], names[int(grid[first])]),
        (each.patches.source, other[0] * columns + other[1], names[int(grid[other])]),
    )


def _named(each: PlacedPatches, place: int, splits: NDArray[np.int64], names: Sequence[str]) -> tuple[str, int, str]:
    return each.patches.source, int(each.numbers[place]), names[int(splits[each.rows[place]])]


def _pairs_between(
    one: PlacedPatches, other: PlacedPatches, splits: NDArray[np.int64], distance_m: float
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64]]]:
    """Pairs of patches of two sets, of different splits: their places, whether they overlap, and their distance."""
    import shapely

    mine, theirs = np.flatnonzero(splits[one.rows] >= 0), np.flatnonzero(splits[other.rows] >= 0)
    outlines = _in_one_plane(one, mine, other, theirs)
    if outlines is None or not len(mine) or not len(theirs):
        return
    boxes = [np.concatenate([shape.min(axis=(0, 1)), shape.max(axis=(0, 1))]) for shape in outlines]
    reach = distance_m + 1e-6
    if (boxes[0][:2] > boxes[1][2:] + reach).any() or (boxes[1][:2] > boxes[0][2:] + reach).any():
        return
    shapes = [np.asarray(shapely.polygons(outline), np.object_) for outline in outlines]
    tree = shapely.STRtree(shapes[1])
    first, second = tree.query(shapes[0], predicate="dwithin", distance=max(distance_m, 0.0))
    is_other = splits[one.rows[mine[first]]] != splits[other.rows[theirs[second]]]
    first, second = first[is_other], second[is_other]
    shared = np.atleast_1d(shapely.area(shapely.intersection(shapes[0][first], shapes[1][second])))
    # What only touches shares no pixel; rounding makes slivers.
    overlaps = shared > 1e-6 * np.minimum(shapely.area(shapes[0][first]), shapely.area(shapes[1][second]))
    between = np.atleast_1d(shapely.distance(shapes[0][first], shapes[1][second]))
    is_near = overlaps | (between < distance_m)
    if is_near.any():
        yield mine[first[is_near]], theirs[second[is_near]], overlaps[is_near], between[is_near]


def _in_one_plane(
    one: PlacedPatches, mine: NDArray[np.int64], other: PlacedPatches, theirs: NDArray[np.int64]
) -> list[NDArray[np.float64]] | None:
    """The outlines of both with margins, in metres of one plane; None where a set has no place."""
    crs, other_crs = one.patches.geobox.crs, other.patches.geobox.crs
    if not crs.strip() or not other_crs.strip():
        return None
    if same_crs(crs, other_crs):
        outlines = [_blocks(one, mine), _blocks(other, theirs)]
        if not all(len(outline) for outline in outlines):
            return None
        x, y = (float(np.concatenate(outlines)[..., axis].mean()) for axis in (0, 1))
        units = ground_units(crs, x, y)
        return [outline * np.array(units) for outline in outlines]
    boxes = [_lonlat_boxes(each, places) for each, places in ((one, mine), (other, theirs))]
    if not all(len(box) for box in boxes):
        return None
    latitude = float(np.concatenate(boxes)[:, [1, 3]].mean())
    units = (METRES_PER_DEGREE * math.cos(math.radians(latitude)), METRES_PER_DEGREE)
    return [box[:, [[0, 3], [0, 1], [2, 1], [2, 3], [0, 3]]] * np.array(units) for box in boxes]


def _blocks(each: PlacedPatches, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Outlines of the blocks, margins included, ``(n, 5, 2)``."""
    patches = each.patches
    row, column = np.divmod(each.numbers[places], patches.columns)
    a, b, c, d, e, f = patches.geobox.affine
    corners = patch_corners(patches.geobox.affine, patches.patch_yx, row, column)
    (margin_y, margin_x), (height, width) = patches.margin_yx, patches.patch_yx
    # Each corner moves away from the patch's middle.
    middle = np.stack(
        [
            a * (column + 0.5) * width + b * (row + 0.5) * height + c,
            d * (column + 0.5) * width + e * (row + 0.5) * height + f,
        ],
        axis=1,
    )[:, np.newaxis]
    away = corners - middle
    scale = a * e - b * d
    col = (e * away[..., 0] - b * away[..., 1]) / scale
    line = (a * away[..., 1] - d * away[..., 0]) / scale
    col, line = col + np.sign(col) * margin_x, line + np.sign(line) * margin_y
    found: NDArray[np.float64] = middle + np.stack([a * col + b * line, d * col + e * line], axis=2)
    return found


def _lonlat_boxes(each: PlacedPatches, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Bounds of the blocks in degrees, widened by the margins' share."""
    patches = each.patches
    row, column = np.divmod(each.numbers[places], patches.columns)
    bounds = lonlat_bounds(patches.geobox.crs, patches.geobox.affine, patches.patch_yx, row, column)
    east = np.where(bounds[:, 2] < bounds[:, 0], bounds[:, 2] + 360, bounds[:, 2])
    share = max(margin / side for margin, side in zip(patches.margin_yx, patches.patch_yx, strict=True))
    wider, higher = (east - bounds[:, 0]) * share, (bounds[:, 3] - bounds[:, 1]) * share
    return np.stack([bounds[:, 0] - wider, bounds[:, 1] - higher, east + wider, bounds[:, 3] + higher], axis=1)

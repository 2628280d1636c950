"""A raster's grid and its patches as a file from elsewhere tells them: numbers in bounds before anything is counted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from geotfr.grid import GeoBox

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["check_layout", "foreign_geobox"]

_MOST_SIDE = 2**31 - 1
_MOST_PATCHES = 10**7
# Squares of coordinates are float64 still.
_FARTHEST = 1e30


def foreign_geobox(grid: Mapping[str, Any]) -> GeoBox:
    """The grid whose JSON has ``height``, ``width``, ``transform`` and ``crs``.

    Raises
    ------
    KeyError, TypeError, ValueError
        A part is missing, or it maps no grid.
    """
    a, b, c, d, e, f = (float(value) for value in grid["transform"])
    found = GeoBox(shape_yx=(int(grid["height"]), int(grid["width"])), affine=(a, b, c, d, e, f), crs=str(grid["crs"]))
    height, width = found.shape_yx
    if not (1 <= height <= _MOST_SIDE and 1 <= width <= _MOST_SIDE):
        raise ValueError(f"a grid of {width} x {height} pixels")
    corners = [found.xy(col, row) for col in (0, width) for row in (0, height)]
    is_near = all(math.isfinite(value) and abs(value) <= _FARTHEST for value in (*found.affine, *sum(corners, ())))
    if not is_near or a * e - b * d == 0:
        raise ValueError(f"the transform {found.affine} maps no grid")
    return found


def check_layout(*, patch_yx: tuple[int, int], margin_yx: tuple[int, int], rows: int, columns: int) -> None:
    """Refuse sides and counts that no export has.

    Raises
    ------
    ValueError
        One is out of bounds.
    """
    for what, value, least, most in (
        *(("patch", side, 1, _MOST_SIDE) for side in patch_yx),
        *(("margin", side, 0, _MOST_SIDE) for side in margin_yx),
        ("rows", rows, 1, _MOST_PATCHES),
        ("columns", columns, 1, _MOST_PATCHES),
    ):
        if not least <= value <= most:
            raise ValueError(f"{what} is {value}; allowed are {least} to {most}")

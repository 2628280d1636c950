"""Metres on the ground: how long a unit of a CRS is where a grid lies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from geotfr.grid.crs import EARTH_RADIUS_M, is_geographic, metres_per_unit, projection_scale

if TYPE_CHECKING:
    from geotfr.grid.geobox import GeoBox

__all__ = ["METRES_PER_DEGREE", "ground_units", "pixel_metres"]

METRES_PER_DEGREE = EARTH_RADIUS_M * math.pi / 180


def ground_units(crs: str, x: float, y: float) -> tuple[float, float]:
    """Metres on the ground of a unit of x and of y at a place given in the CRS; a unit is a metre without a CRS.

    A projection's scale is taken out: a metre of Web Mercator at 60 degrees north is half a metre on the ground.

    >>> [round(unit, 3) for unit in ground_units("EPSG:3857", 0, 8399737.9)]
    [0.5, 0.5]
    """
    unit = metres_per_unit(crs)
    if not crs.strip():
        return 1.0, 1.0
    if is_geographic(crs):
        latitude = y * unit / METRES_PER_DEGREE
        return unit * math.cos(math.radians(min(abs(latitude), 89.9))), unit
    unit /= projection_scale(crs, x, y)
    return unit, unit


def pixel_metres(geobox: GeoBox) -> tuple[float, float]:
    """Height and width of a pixel on the ground, in metres; the least of them where they vary over the grid.

    Of a sheared grid the sides of a rectangle that is no larger than its pixel.
    """
    a, b, c, d, e, f = geobox.affine
    height, width = geobox.shape_yx
    found = []
    # A degree is shortest where the grid is farthest from the equator: at a corner.
    for col, row in ((0, 0), (width, 0), (0, height), (width, height)):
        unit_x, unit_y = ground_units(geobox.crs, a * col + b * row + c, d * col + e * row + f)
        across = math.hypot(a * unit_x, d * unit_y)
        down = math.hypot(b * unit_x, e * unit_y)
        area = abs(a * e - b * d) * unit_x * unit_y
        # 1 for a right angle between the sides.
        straightness = min(area / (across * down), 1.0) if across and down else 1.0
        found.append((down * straightness, across * straightness))
    return min(down for down, _ in found), min(across for _, across in found)

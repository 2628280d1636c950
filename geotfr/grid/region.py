"""The place that an export covers: polygons in a CRS of their own.

A region comes as text: GeoJSON (in the text or in a file), WKT, EWKT, or ``west,south,east,north``. x comes first
(longitude, easting) whatever the CRS says of its axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

__all__ = ["LON_LAT", "Region"]

LON_LAT = "OGC:CRS84"
"""The CRS of a region that names none: longitude and latitude in degrees, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Polygons on the ground.

    Attributes
    ----------
    shape
        A valid polygon or multipolygon with area, x first.
    crs
        The CRS of its coordinates, a text that pyproj parses.
    """

    shape: BaseGeometry
    crs: str = LON_LAT

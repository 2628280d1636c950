"""Where the patches of a grid lie on the ground: corners in the grid's CRS, bounds in longitude and latitude.

A straight edge in a projection is a curve in longitude and latitude, so points along each edge are transformed, no
farther apart than 5 km: between them a curve leaves the chord by half a metre. Patches share their edges, so the
lines of the grid are transformed once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from geotfr.grid.crs import crs_wkt, metres_per_unit, same_crs

if TYPE_CHECKING:
    import pyproj
    from numpy.typing import NDArray

    from geotfr.grid.geobox import Affine6

__all__ = ["LONLAT", "Footprints", "bounds_outlines", "lonlat_bounds", "patch_corners"]

LONLAT = "OGC:CRS84"
"""Longitude and latitude in degrees on WGS 84."""

_SPACING_M = 5000.0
_MOST_PARTS = 64
# Where fewer patches than this share of the grid are asked for, their own outlines are transformed.
_DENSE_SHARE = 0.25


def patch_corners(
    affine: Affine6, patch_yx: tuple[int, int], rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The closed outlines of patches without margins: ``(n, 5, 2) float64``, (x, y), counterclockwise.

    >>> patch_corners((10.0, 0.0, 0.0, 0.0, -10.0, 50.0), (2, 3), np.array([0]), np.array([1]))[0].tolist()
    [[30.0, 50.0], [30.0, 30.0], [60.0, 30.0], [60.0, 50.0], [30.0, 50.0]]
    """
    a, b, c, d, e, f = affine
    height, width = patch_yx
    # Down, right, up in pixels goes counterclockwise where the y axis is turned over, as it is in most grids.
    down, right = (np.array([0, 1, 1, 0, 0]), np.array([0, 0, 1, 1, 0]))
    if a * e - b * d > 0:
        down, right = right, down
    line = (rows[:, np.newaxis] + down) * float(height)
    col = (columns[:, np.newaxis] + right) * float(width)
    return np.stack([a * col + b * line + c, d * col + e * line + f], axis=2)


def lonlat_bounds(
    crs: str, affine: Affine6, patch_yx: tuple[int, int], rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.float64]:
    """What :meth:`Footprints.lonlat_bounds` gives of one grid, once.

    >>> lonlat_bounds("EPSG:4326", (0.5, 0.0, 7.0, 0.0, -0.5, 50.0), (2, 2), np.array([0]), np.array([1])).tolist()
    [[8.0, 49.0, 9.0, 50.0]]
    """
    return Footprints(crs, affine, patch_yx).lonlat_bounds(rows, columns)


def bounds_outlines(bounds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Boxes of bounds ``(n, 4)`` as outlines ``(n, 5, 2)``; one over the antimeridian goes on beyond 180.

    >>> bounds_outlines(np.array([[179.0, 0, -179, 1]]))[0].tolist()
    [[179.0, 1.0], [179.0, 0.0], [181.0, 0.0], [181.0, 1.0], [179.0, 1.0]]
    """
    west, south, east, north = bounds.T
    east = np.where(east < west, east + 360, east)
    x, y = np.stack([west, west, east, east, west], axis=1), np.stack([north, south, south, north, north], axis=1)
    return np.stack([x, y], axis=2)


class Footprints:
    """The outlines and bounds of the patches of one grid, without margins.

    Parameters
    ----------
    crs, affine
        The grid's; an empty ``crs`` is none.
    patch_yx
        (rows, columns) of a patch.
    """

    def __init__(self, crs: str, affine: Affine6, patch_yx: tuple[int, int]) -> None:
        self._crs = crs.strip()
        self._affine = affine
        self._patch_yx = patch_yx
        self._is_lonlat = bool(self._crs) and same_crs(crs, LONLAT)
        self._transformer: pyproj.Transformer | None = None

    def outlines(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """The closed outlines in the grid's CRS, as :func:`patch_corners` gives them."""
        return patch_corners(self._affine, self._patch_yx, rows, columns)

    def lonlat_bounds(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """West, south, east and north: ``(n, 4) float64``, degrees on WGS 84.

        West is greater than east where a patch crosses the antimeridian; a patch that holds a pole reaches from -180 to
        180. NaN without a CRS, and where the projection has no longitude and latitude.
        """
        if not self._crs or not len(rows):
            return np.full((len(rows), 4), np.nan)
        if self._is_lonlat:
            outline = self.outlines(rows, columns)
            return np.concatenate([outline.min(axis=1), outline.max(axis=1)], axis=1)
        parts = self._parts()
        height, width = int(rows.max()) - int(rows.min()) + 1, int(columns.max()) - int(columns.min()) + 1
        if len(rows) >= _DENSE_SHARE * height * width:
            bounds = self._of_lattice(rows, columns, parts)
        else:
            bounds = self._of_outlines(rows, columns, parts)
        bounds[~np.isfinite(bounds).all(axis=1)] = np.nan
        crosses = bounds[:, 2] - bounds[:, 0] > 180
        if crosses.any():
            bounds[crosses] = self._of_outlines(rows[crosses], columns[crosses], parts, turned=True)
        self._reach_poles(bounds, rows, columns)
        return bounds

    def _parts(self) -> tuple[int, int]:
        """In how many parts an edge down and an edge right are cut."""
        a, b, _, d, e, _ = self._affine
        unit = metres_per_unit(self._crs)
        sides = math.hypot(b, e) * self._patch_yx[0] * unit, math.hypot(a, d) * self._patch_yx[1] * unit
        down, right = (min(max(math.ceil(side / _SPACING_M), 1), _MOST_PARTS) for side in sides)
        return down, right

    def _of_lattice(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], parts: tuple[int, int]
    ) -> NDArray[np.float64]:
        """Bounds from the grid's lines, each transformed once."""
        first_row, first_column = int(rows.min()), int(columns.min())
        count_y, count_x = int(rows.max()) - first_row + 1, int(columns.max()) - first_column + 1
        down, right = parts
        # Lines along the rows with points along each edge, then the points between the corners of the lines down.
        lines = first_row + np.arange(count_y + 1.0)
        along = first_column + np.arange(count_x * right + 1) / right
        low, high = _folded(self._lonlat(lines[:, np.newaxis], along[np.newaxis]), right, axis=1)
        low, high = np.minimum(low[:, :-1], low[:, 1:]), np.maximum(high[:, :-1], high[:, 1:])
        if down > 1:
            sides = first_column + np.arange(count_x + 1.0)
            steps = first_row + np.arange(count_y * down + 1) / down
            low_side, high_side = _folded(self._lonlat(steps[:, np.newaxis], sides[np.newaxis]), down, axis=0)
            low = np.minimum(low, np.minimum(low_side[:, :, :-1], low_side[:, :, 1:]))
            high = np.maximum(high, np.maximum(high_side[:, :, :-1], high_side[:, :, 1:]))
        place = rows - first_row, columns - first_column
        return np.stack([low[0][place], low[1][place], high[0][place], high[1][place]], axis=1)

    def _of_outlines(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], parts: tuple[int, int], *, turned: bool = False
    ) -> NDArray[np.float64]:
        """Bounds from each patch's own outline; ``turned``: longitudes west of 0 count from the antimeridian on."""
        down, right = np.arange(parts[0] + 1) / parts[0], np.arange(parts[1] + 1) / parts[1]
        edges = [
            (np.zeros_like(right), right),
            (np.ones_like(right), right),
            (down, np.zeros_like(down)),
            (down, np.ones_like(down)),
        ]
        line = rows[:, np.newaxis] + np.concatenate([edge[0] for edge in edges])
        col = columns[:, np.newaxis] + np.concatenate([edge[1] for edge in edges])
        lon, lat = self._lonlat(line, col)
        if turned:
            lon = np.where(lon < 0, lon + 360, lon)
        west, east = lon.min(axis=1), lon.max(axis=1)
        if turned:
            west, east = (np.where(each > 180, each - 360, each) for each in (west, east))
        return np.stack([west, lat.min(axis=1), east, lat.max(axis=1)], axis=1)

    def _lonlat(self, lines: NDArray[np.float64], columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Longitudes and latitudes ``(2, …)`` of places counted in patches; infinite where there is none."""
        a, b, c, d, e, f = self._affine
        line, col = np.broadcast_arrays(lines * self._patch_yx[0], columns * self._patch_yx[1])
        return np.stack(self._way().transform(a * col + b * line + c, d * col + e * line + f))

    def _reach_poles(self, bounds: NDArray[np.float64], rows: NDArray[np.int64], columns: NDArray[np.int64]) -> None:
        """Widen the bounds of patches that hold a pole, which no point of their outline tells."""
        a, b, c, d, e, f = self._affine
        for latitude, side in ((-90.0, 1), (90.0, 3)):
            x, y = self._way().transform(0.0, latitude, direction="INVERSE")
            if not (math.isfinite(x) and math.isfinite(y)):
                continue
            scale = a * e - b * d
            col, line = (e * (x - c) - b * (y - f)) / scale, (a * (y - f) - d * (x - c)) / scale
            holds = (rows == math.floor(line / self._patch_yx[0])) & (columns == math.floor(col / self._patch_yx[1]))
            bounds[holds, 0], bounds[holds, 2], bounds[holds, side] = -180.0, 180.0, latitude

    def _way(self) -> pyproj.Transformer:
        """From the grid's CRS to longitude and latitude; making it takes as long as ten thousand points."""
        import pyproj

        if self._transformer is None:
            self._transformer = pyproj.Transformer.from_crs(crs_wkt(self._crs), LONLAT, always_xy=True)
        return self._transformer


def _folded(points: NDArray[np.float64], parts: int, *, axis: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Least and greatest of ``points`` ``(2, line, point)`` over each run of ``parts`` steps along ``axis``."""
    points = points if axis == 1 else points.swapaxes(1, 2)
    count = (points.shape[2] - 1) // parts
    low = high = points[:, :, : count * parts : parts]
    for step in range(1, parts + 1):
        part = points[:, :, step : step + (count - 1) * parts + 1 : parts]
        low, high = np.minimum(low, part), np.maximum(high, part)
    return (low, high) if axis == 1 else (low.swapaxes(1, 2), high.swapaxes(1, 2))

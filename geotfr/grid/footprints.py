"""Where the patches of a grid lie on the ground: corners in the grid's CRS, bounds in longitude and latitude.

A straight edge in a projection is a curve in longitude and latitude, so points along each edge are transformed, no
farther apart than 5 km: between them a curve leaves the chord by half a metre. Patches share their edges, so the
lines of the grid are transformed once. An outline doesn't tell the bounds of a patch that is large, that lies at a pole
or over the end of a map: of such ones, which are few, the inside is transformed as well.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import InputError
from geotfr.grid.crs import EARTH_RADIUS_M, LONLAT, CrsTransform, crs_wkt, is_geographic, metres_per_unit, same_crs

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from shapely.geometry.base import BaseGeometry

    from geotfr.grid.geobox import Affine6

__all__ = ["BEYOND_MAP", "LONLAT", "Footprints", "bounds_outlines", "lonlat_bounds", "patch_corners"]

BEYOND_MAP = "it lies beyond the end of its map"
"""Why a grid has no bounds whose CRS has some."""

_SPACING_M = 5000.0
_MOST_PARTS = 64
# Where fewer patches than this share of the grid are asked for, their own outlines are transformed.
_DENSE_SHARE = 0.25
# From this length of an edge on, an outline alone may miss a pole, the end of a map or the way round the Earth.
_LARGE_M = 1_000_000.0
# Parts of each side of a patch whose inside is transformed: of its edges, and of the lattice inside.
_EDGE_PARTS = 256
_INNER_PARTS = 48
_LEAST_INNER_PARTS = 6
_MOST_POINTS = 1 << 23
_HALVINGS = 40
# Parts of each side of a patch that becomes a GeoJSON geometry; of a large one as many as of its bounds.
_GEOMETRY_PARTS = 16
# Points this near to each other, in degrees, are one: of a pole, and of the ends of a way round the Earth.
_SLACK_DEG = 1e-7
# A point that comes back this far from itself, as a share of the patch, has no place: the map ends before it.
_ROUND_TRIP = 1e-3


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
    """The bounds that :meth:`Footprints.lonlat_bounds` gives of one grid, once.

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

    Attributes
    ----------
    missing
        Why no patch has bounds, in a few words; empty where its CRS gives them.
    """

    def __init__(self, crs: str, affine: Affine6, patch_yx: tuple[int, int]) -> None:
        self._affine = affine
        self._patch_yx = patch_yx
        self.missing = "" if crs.strip() else "no CRS"
        self._map: _Map | None = None
        if not self.missing:
            try:
                self._map = _Map(crs)
            except InputError as error:
                self.missing = str(error)

    def outlines(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """The closed outlines in the grid's CRS, as :func:`patch_corners` gives them."""
        return patch_corners(self._affine, self._patch_yx, rows, columns)

    def lonlat_bounds(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """West, south, east and north: ``(n, 4) float64``, degrees on WGS 84.

        Longitudes are from -180 to 180, and west is greater than east where a patch crosses the antimeridian; a patch
        that holds a pole, or goes round the Earth, reaches from -180 to 180. Of a patch over the end of a map (the limb
        of a geostationary disk) the bounds of the part on the map. NaN without a CRS, in a CRS that is not of the
        Earth, and of patches beyond the end of the map.
        """
        if self._map is None or not len(rows):
            return np.full((len(rows), 4), np.nan)
        if self._map.is_lonlat:
            outline = self.outlines(rows, columns)
            low, high = outline.min(axis=1), outline.max(axis=1)
            return _on_earth(np.concatenate([low, high], axis=1))
        parts, is_large = self._parts()
        if is_large:
            return self._of_insides(rows, columns)
        height, width = int(rows.max()) - int(rows.min()) + 1, int(columns.max()) - int(columns.min()) + 1
        if len(rows) >= _DENSE_SHARE * height * width:
            bounds = self._of_lattice(rows, columns, parts)
        else:
            bounds = self._of_outlines(rows, columns, parts)
        is_odd = ~np.isfinite(bounds).all(axis=1) | self._at_poles(rows, columns) | self._beyond_map(rows, columns)
        bounds[is_odd] = np.nan
        crosses = bounds[:, 2] - bounds[:, 0] > 180
        if crosses.any():
            bounds[crosses] = self._of_outlines(rows[crosses], columns[crosses], parts, turned=True)
        if is_odd.any():
            bounds[is_odd] = self._of_insides(rows[is_odd], columns[is_odd])
        return _on_earth(bounds)

    def geojson(self) -> dict[str, Any] | None:
        """The patch at (0, 0) as a GeoJSON geometry in longitude and latitude, cut at the antimeridian; None without
        bounds.

        Its outline, or of a patch over the end of a map the part on the map. One that an outline can't tell, as it goes
        round the Earth, has its bounds for a geometry.

        **Source**: RFC 7946, 3.1.6 and 3.1.9.
        """
        zero = np.zeros(1, np.int64)
        bounds = self.lonlat_bounds(zero, zero)[0]
        if self._map is None or not np.isfinite(bounds).all():
            return None
        parts = _MOST_PARTS if self._parts()[1] else _GEOMETRY_PARTS
        line, col = _edges(parts, parts)
        if self._affine[0] * self._affine[4] - self._affine[1] * self._affine[3] > 0:
            line, col = line[:, ::-1], col[:, ::-1]
        ring = self._lonlat(line[0], col[0], checked=True)
        if not np.isfinite(ring).all():
            ring = self._lonlat(*self._hull(), checked=True)
            ring = ring[:, np.isfinite(ring[0])]
            ring = np.concatenate([ring, ring[:, :1]], axis=1)
        return _polygon_geojson(ring, bounds)

    def _hull(self) -> NDArray[np.float64]:
        """Lines and columns ``(2, k)`` round the part of the patch at (0, 0) that is on the map, as if that bulged
        everywhere."""
        import shapely

        points, one, other = _lattice(_MOST_PARTS)
        is_there = np.isfinite(self._lonlat(*points, checked=True)[0])
        is_cut = is_there[one] != is_there[other]
        one, other = one[is_cut], other[is_cut]
        inside, outside = np.where(is_there[one], one, other), np.where(is_there[one], other, one)
        found = [points[:, is_there], self._limb(points[:, inside], points[:, outside])]
        hull = shapely.MultiPoint(np.concatenate(found, axis=1).T).convex_hull
        ring = shapely.get_coordinates(shapely.segmentize(hull, 1 / _MOST_PARTS))
        # A little inside, where points have a place.
        middle = ring.mean(axis=0)
        return np.asarray((middle + (ring - middle) * (1 - 1e-9)).T)

    def _parts(self) -> tuple[tuple[int, int], bool]:
        """In how many parts an edge down and an edge right are cut, and whether the patches are large."""
        assert self._map is not None
        a, b, _, d, e, _ = self._affine
        unit = self._map.metres_per_unit
        sides = math.hypot(b, e) * self._patch_yx[0] * unit, math.hypot(a, d) * self._patch_yx[1] * unit
        down, right = (min(max(math.ceil(side / _SPACING_M), 1), _MOST_PARTS) for side in sides)
        return (down, right), max(sides) > _LARGE_M

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
        line, col = _edges(*parts)
        lon, lat = self._lonlat(rows[:, np.newaxis] + line, columns[:, np.newaxis] + col)
        if turned:
            lon = np.where(lon < 0, lon + 360, lon)
        west, east = lon.min(axis=1), lon.max(axis=1)
        if turned:
            west, east = (np.where(each > 180, each - 360, each) for each in (west, east))
        return np.stack([west, lat.min(axis=1), east, lat.max(axis=1)], axis=1)

    def _of_insides(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Bounds from points on the edges and inside of each patch, the more the fewer patches there are."""
        assert self._map is not None
        inner = min(max(math.isqrt(_MOST_POINTS // len(rows)), _LEAST_INNER_PARTS), _INNER_PARTS)
        edges = _EDGE_PARTS if inner == _INNER_PARTS else 4 * inner
        # Pairs of neighbours: along the edges, and along the lines of a lattice inside.
        edge = np.concatenate(_edges(edges, edges))
        points, one, other = _lattice(inner)
        start = np.concatenate([edge[:, :-1], points[:, one]], axis=1)
        stop = np.concatenate([edge[:, 1:], points[:, other]], axis=1)
        bounds = np.empty((len(rows), 4))
        count = max(_MOST_POINTS // start.shape[1], 1)
        for first in range(0, len(rows), count):
            part = slice(first, first + count)
            corner = np.stack([rows[part], columns[part]])[..., np.newaxis].astype(np.float64)
            bounds[part] = _bounds_of_pairs(*self._pairs(corner + start[:, np.newaxis], corner + stop[:, np.newaxis]))
        for latitude, line_at, col_at in self._poles():
            # Strictly inside, so that it isn't the neighbours' as well.
            holds = (np.abs(rows + 0.5 - line_at) < 0.5) & (np.abs(columns + 0.5 - col_at) < 0.5)
            bounds[holds, 0], bounds[holds, 2], bounds[holds, 1 if latitude < 0 else 3] = -180.0, 180.0, latitude
        return bounds

    def _pairs(
        self, start: NDArray[np.float64], stop: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Longitudes and latitudes ``(2, n, k)`` of both ends of lines; where the map ends between them, there.

        NaN for lines beyond the map.
        """
        ends = [self._lonlat(*start, checked=True), self._lonlat(*stop, checked=True)]
        are_there = [np.isfinite(end[0]) for end in ends]
        is_cut = are_there[0] != are_there[1]
        if is_cut.any():
            inside = np.where(are_there[0][is_cut], start[:, is_cut], stop[:, is_cut])
            outside = np.where(are_there[0][is_cut], stop[:, is_cut], start[:, is_cut])
            limb = self._lonlat(*self._limb(inside, outside), checked=True)
            for end, is_there in zip(ends, are_there, strict=True):
                end[:, is_cut] = np.where(is_there[is_cut], end[:, is_cut], limb)
        return ends[0], ends[1]

    def _limb(self, inside: NDArray[np.float64], outside: NDArray[np.float64]) -> NDArray[np.float64]:
        """Lines and columns ``(2, k)`` where the map ends between points on it and points beyond."""
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            is_there = np.isfinite(self._lonlat(*middle, checked=True)[0])
            inside, outside = np.where(is_there, middle, inside), np.where(is_there, outside, middle)
        return inside

    def _lonlat(
        self, lines: NDArray[np.float64], columns: NDArray[np.float64], *, checked: bool = False
    ) -> NDArray[np.float64]:
        """Longitudes and latitudes ``(2, …)`` of places counted in patches; infinite where there is none.

        ``checked``: also where the place is another one's, beyond the end of the map.
        """
        assert self._map is not None
        a, b, c, d, e, f = self._affine
        line, col = np.broadcast_arrays(lines * self._patch_yx[0], columns * self._patch_yx[1])
        x, y = a * col + b * line + c, d * col + e * line + f
        if not checked:
            return np.stack(self._map.lonlat(x, y))
        reach = math.hypot(*self._patch_yx) * math.hypot(a, b, d, e)
        return self._map.checked_lonlat(x, y, reach * _ROUND_TRIP)

    def _poles(self) -> list[tuple[float, float, float]]:
        """(latitude, line, column) of the poles that have a place on the map, counted in patches."""
        assert self._map is not None
        a, b, c, d, e, f = self._affine
        scale = a * e - b * d
        found = []
        for latitude, x, y in self._map.poles:
            col, line = (e * (x - c) - b * (y - f)) / scale, (a * (y - f) - d * (x - c)) / scale
            found.append((latitude, line / self._patch_yx[0], col / self._patch_yx[1]))
        return found

    def _at_poles(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether patches hold a pole, or are neighbours of one that does."""
        found = np.zeros(len(rows), np.bool_)
        for _, line, col in self._poles():
            found |= (np.abs(rows + 0.5 - line) < 1.5) & (np.abs(columns + 0.5 - col) < 1.5)
        return found

    def _beyond_map(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether corners of patches have places that are others', since the map ends before them."""
        assert self._map is not None
        if self._map.is_cylindrical:
            return np.zeros(len(rows), np.bool_)
        # Most grids lie on the map as a whole.
        line, col = (np.linspace(each.min(), each.max() + 1, _MOST_PARTS) for each in (rows, columns))
        if np.isfinite(self._lonlat(line[:, np.newaxis], col[np.newaxis], checked=True)[0]).all():
            return np.zeros(len(rows), np.bool_)
        line, col = _edges(1, 1)
        places = self._lonlat(rows[:, np.newaxis] + line, columns[:, np.newaxis] + col, checked=True)
        found: NDArray[np.bool_] = ~np.isfinite(places[0]).all(axis=1)
        return found


class _Map:
    """A CRS seen from longitude and latitude."""

    def __init__(self, crs: str) -> None:
        self.is_lonlat = same_crs(crs, LONLAT)
        self.metres_per_unit = metres_per_unit(crs)
        self.is_cylindrical = False
        """Whether a degree of longitude is as many units of x everywhere, so that x goes on beyond the map's ends."""
        self.poles: list[tuple[float, float, float]] = []
        """(latitude, x, y) of the poles, where each is one point."""
        if self.is_lonlat:
            return
        # Making it takes as long as ten thousand points.
        self._transform = CrsTransform(crs_wkt(crs), LONLAT)
        self.is_cylindrical = self._is_cylindrical()
        # Longitudes come round, those of a rotated pole too.
        self._turn = 2 * math.pi * EARTH_RADIUS_M / self.metres_per_unit if is_geographic(crs) else 0.0
        for latitude in () if self.is_cylindrical else (-90.0, 90.0):
            x, y = self._inverse(np.array([0.0, 120.0]), np.full(2, latitude))
            # Where a map makes a line of a pole, the line is part of outlines.
            if np.isfinite([x, y]).all() and np.ptp(x) + np.ptp(y) < 1 / self.metres_per_unit:
                self.poles.append((latitude, float(x[0]), float(y[0])))

    def lonlat(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._transform(x, y)

    def checked_lonlat(self, x: NDArray[np.float64], y: NDArray[np.float64], slack: float) -> NDArray[np.float64]:
        """Longitudes and latitudes ``(2, …)``, infinite for a point that comes back farther than ``slack`` away."""
        lon, lat = (x, y) if self.is_lonlat else self._transform(x, y)
        is_there = np.isfinite(lon) & np.isfinite(lat)
        if not self.is_cylindrical and not self.is_lonlat:
            back_x, back_y = self._inverse(lon, lat)
            with np.errstate(invalid="ignore"):  # of points at infinity
                off = np.abs(back_x - x)
                if self._turn:
                    off = np.minimum(off, np.abs(off - np.rint(off / self._turn) * self._turn))
                is_there &= np.hypot(off, back_y - y) <= slack
        return np.stack([np.where(is_there, lon, np.inf), np.where(is_there, lat, np.inf)])

    def _inverse(
        self, lon: NDArray[np.float64], lat: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._transform(lon, lat, is_inverse=True)

    def _is_cylindrical(self) -> bool:
        lon, lat = np.meshgrid(np.arange(-180.0, 180.0, 20.0), [-60.0, 0.0, 40.0])
        x, y = self._inverse(lon, lat)
        if not np.isfinite([x, y]).all():
            return False
        steps = np.diff(x, axis=1)
        step = float(np.median(steps))
        # A datum bends lines a little, and one step may lead over the end of the map.
        is_even = np.abs((steps + 9 * step) % (18 * step) - 10 * step) < 1e-3 * abs(step) if step else np.zeros(1)
        return bool(is_even.all() and np.ptp(y, axis=1).max() < 1e-2 * abs(step))


def _edges(down: int, right: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lines and columns ``(1, k)`` of points round a patch, counted in patches."""
    y, x = np.arange(down) / down, np.arange(right) / right
    line = np.concatenate([y, np.ones_like(x), 1 - y, np.zeros_like(x), [0.0]])
    col = np.concatenate([np.zeros_like(y), x, np.ones_like(y), 1 - x, [0.0]])
    return line[np.newaxis], col[np.newaxis]


def _lattice(parts: int) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Lines and columns ``(2, k)`` of points in a patch, counted in patches, and the numbers of all pairs of
    neighbours."""
    step = np.linspace(0, 1, parts + 1)
    points = np.stack(np.meshgrid(step, step, indexing="ij")).reshape(2, -1)
    number = np.arange(points.shape[1]).reshape(parts + 1, parts + 1)
    one = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
    other = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
    return points, one, other


def _bounds_of_pairs(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bounds ``(n, 4)`` of lines on the ground, by their ends ``(2, n, k)``: the shortest span of longitudes that holds
    all lines."""
    is_there = np.isfinite(one[0]) & np.isfinite(other[0])
    low = np.where(is_there, np.minimum(one[1], other[1]), np.inf).min(axis=1)
    high = np.where(is_there, np.maximum(one[1], other[1]), -np.inf).max(axis=1)
    # The way between two points is the shorter one. A pole has no longitude, and a line through one has two.
    with np.errstate(invalid="ignore"):
        turn = (other[0] - one[0] + 180) % 360 - 180
        is_way = is_there & (np.abs(turn) < 180 - 1e-3)
        for end in (one, other):
            is_way &= np.abs(end[1]) < 90 - _SLACK_DEG
        start = (np.minimum(one[0], one[0] + turn) + 180) % 360 - 180
    start = np.where(is_way, start, np.inf)
    order = np.argsort(start, axis=1)
    start = np.take_along_axis(start, order, axis=1)
    stop = start + np.take_along_axis(np.where(is_way, np.abs(turn), 0), order, axis=1)
    # What reaches beyond 180 covers the beginning; the largest gap in what is covered is left out.
    reached = np.maximum.accumulate(np.where(np.isfinite(start), stop, -np.inf), axis=1)
    before = np.concatenate([reached[:, -1:] - 360, reached[:, :-1]], axis=1)
    before = np.maximum(before, reached[:, -1:] - 360)
    with np.errstate(invalid="ignore"):
        gaps = np.where(np.isfinite(start), start - before, -np.inf)
    place = gaps.argmax(axis=1)[:, np.newaxis]
    gap = np.take_along_axis(gaps, place, axis=1)[:, 0]
    west = np.take_along_axis(start, place, axis=1)[:, 0]
    east = np.take_along_axis(before, place, axis=1)[:, 0]
    found = np.stack([west, low, east + 360, high], axis=1)
    found[gap < _SLACK_DEG, 0], found[gap < _SLACK_DEG, 2] = -180.0, 180.0
    found[~np.isfinite(found).all(axis=1)] = np.nan
    return _on_earth(found)


def _on_earth(bounds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bounds whose east follows their west, with longitudes from -180 to 180 and latitudes that there are."""
    west, south, east, north = bounds.T
    is_round = east - west >= 360 - _SLACK_DEG
    # Within the usual range longitudes stay as they are, to the last digit.
    first = np.where((west >= -180) & (west < 180), west, (west + 180) % 360 - 180)
    last = np.where((east > -180) & (east <= 180), east, 180 - (180 - east) % 360)
    first = np.where(first > 180 - _SLACK_DEG, -180.0, first)
    last = np.where(last < -180 + _SLACK_DEG, 180.0, last)
    return np.stack(
        [
            np.where(is_round, -180.0, first),
            np.clip(south, -90, 90),
            np.where(is_round, 180.0, last),
            np.clip(north, -90, 90),
        ],
        axis=1,
    )


def _polygon_geojson(ring: NDArray[np.float64], bounds: NDArray[np.float64]) -> dict[str, Any]:
    """A closed ``ring`` ``(2, k)`` of longitudes and latitudes as a GeoJSON geometry; the box of its ``bounds`` where
    the ring doesn't reach to them."""
    import shapely
    from shapely.affinity import translate

    west, south, east, north = bounds.tolist()
    box = shapely.box(west, south, east + 360 if east < west else east, north)
    lon = np.unwrap(ring[0], period=360)
    points = np.stack([lon, ring[1]], axis=1)
    if abs(lon[-1] - lon[0]) > 180:
        # Round a pole: along it back to the beginning.
        pole = math.copysign(90.0, north + south)
        points = np.concatenate([points, [[lon[-1], pole], [lon[0], pole], points[0]]])
    shape = shapely.Polygon(points if shapely.LinearRing(points).is_ccw else points[::-1])
    if not shape.is_valid or not _is_about(shape.bounds, box.bounds):
        shape = box
    least, _, most, _ = shape.bounds
    found: BaseGeometry = shape
    if least < -180 or most > 180:
        parts = []
        for turn in range(math.floor((least + 180) / 360), math.ceil((most + 180) / 360)):
            part = shapely.intersection(shape, shapely.box(360 * turn - 180, -90, 360 * turn + 180, 90))
            parts.append(translate(part, xoff=-360.0 * turn))
        found = shapely.union_all(parts)
    rings = [
        shapely.get_coordinates(part.exterior if part.exterior.is_ccw else part.exterior.reverse()).tolist()
        for part in shapely.get_parts(found)
        if part.geom_type == "Polygon"
    ]
    if len(rings) == 1:
        return {"type": "Polygon", "coordinates": rings}
    return {"type": "MultiPolygon", "coordinates": [[each] for each in rings]}


def _is_about(found: tuple[float, ...], wanted: tuple[float, ...]) -> bool:
    """Whether bounds differ by a small share of what they span; longitudes may differ by turns of the Earth."""
    west, south, east, north = (one - other for one, other in zip(found, wanted, strict=True))
    turn = 360 * round(west / 360)
    slack = 0.1 + 0.02 * max(wanted[2] - wanted[0], wanted[3] - wanted[1])
    return max(abs(west - turn), abs(east - turn), abs(south), abs(north)) < slack


def _folded(points: NDArray[np.float64], parts: int, *, axis: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Least and greatest of ``points`` ``(2, line, point)`` over each run of ``parts`` steps along ``axis``."""
    points = points if axis == 1 else points.swapaxes(1, 2)
    count = (points.shape[2] - 1) // parts
    low = high = points[:, :, : count * parts : parts]
    for step in range(1, parts + 1):
        part = points[:, :, step : step + (count - 1) * parts + 1 : parts]
        low, high = np.minimum(low, part), np.maximum(high, part)
    return (low, high) if axis == 1 else (low.swapaxes(1, 2), high.swapaxes(1, 2))

"""The grid of an export: the source's own, cut to a region, or one that options ask for, as in ``Export.image``.

A request is checked for Earth Engine's legal combinations when it is made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from geotfr.errors import InputError, UsageError
from geotfr.grid.crs import CrsTransform, crs_text, crs_wkt, is_geographic, metres_per_unit, same_crs
from geotfr.grid.geobox import Affine6, GeoBox
from geotfr.grid.region import Region

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from shapely.geometry.base import BaseGeometry

__all__ = ["ExportGrid", "GridRequest", "export_grid", "lattice_offset", "to_pixels"]

SNAP_PX = 1e-6
"""A region's edge this near to a pixel's counts as on it: decimals of degrees rarely hit one exactly."""

LATTICE_PX = 1e-4
"""Pixels no further than this from the grid's own count as these; see :meth:`GeoBox.same_grid`."""

EDGE_PIECES = 64
"""Into how many pieces the longer side of an outline is cut before it goes to another CRS, where lines bend."""

INNER_PIECES = 8
"""Along each side, how many points inside a polygon are looked at."""

HALVINGS = 40
"""How often a piece that a map cuts is halved to find the cut: to 1e-12 of the piece."""

LEAP = 0.5
"""An edge whose pieces are longer than this share of the polygon's reach leaps across the map: 64 make a side."""

BEYOND = 0.05
"""Points inside a polygon lie this share of its reach beyond its edge at most, since edges are pieces of lines."""

MAX_SIDE_PX = 10**7
"""More rows or columns are a mistake in the options: no mixer holds them."""

LEGAL = (
    "legal are: --scale; --dimensions; --crs-transform; --crs-transform with --dimensions and no --region;"
    " each with or without --crs"
)
"""Earth Engine's combinations, as a refusal tells them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRequest:
    """What a user says of the export's grid; all of it may be left open.

    Attributes
    ----------
    region
        What the grid covers; None: all of the source.
    crs
        The grid's CRS, a text that pyproj parses; None: the source's.
    crs_transform
        Pixel (column, row) to CRS coordinates, see :data:`geotfr.grid.Affine6`.
    scale
        Side of a pixel in metres.
    dimensions
        (width, height) in pixels, or the longer side alone.
    clip_region
        Whether pixels outside the region's shape are masked; None: only where neither ``scale`` nor ``dimensions`` is
        given, as Earth Engine does.

    Raises
    ------
    UsageError
        For a combination that has no meaning, a number that isn't positive, or a transform without area.

    Notes
    -----
    **Source**: the argument checks of Earth Engine's Python client.

    Examples
    --------
    >>> GridRequest(scale=30).is_source_grid
    False
    >>> GridRequest().is_source_grid
    True
    """

    region: Region | None = None
    crs: str | None = None
    crs_transform: Affine6 | None = None
    scale: float | None = None
    dimensions: tuple[int, int] | int | None = None
    clip_region: bool | None = None

    def __post_init__(self) -> None:
        pairs = {
            "--crs-transform with --scale": (self.crs_transform, self.scale),
            "--scale with --dimensions": (self.scale, self.dimensions),
        }
        for words, values in pairs.items():
            if None not in values:
                raise UsageError(f"{words}: both set the size of a pixel; {LEGAL}")
        if self.crs_transform is not None and self.dimensions is not None:
            if self.region is not None:
                raise UsageError(f"--crs-transform with --dimensions is the whole rectangle, without --region; {LEGAL}")
            if isinstance(self.dimensions, int):
                raise UsageError("--crs-transform with --dimensions: give both sides, WIDTHxHEIGHT")
        if self.clip_region is not None and self.region is None:
            raise UsageError("--clip-region and --no-clip-region say how --region counts; give --region too")
        if self.scale is not None and not (math.isfinite(self.scale) and self.scale > 0):
            raise UsageError(f"--scale {self.scale}: a positive number of metres is needed")
        sides = () if self.dimensions is None else self.dimensions
        for side in (sides,) if isinstance(sides, int) else sides:
            if side < 1:
                raise UsageError(f"--dimensions {self.dimensions}: a side has at least 1 pixel")
        if self.crs_transform is not None:
            a, b, _, d, e, _ = self.crs_transform
            if not all(map(math.isfinite, self.crs_transform)) or a * e == b * d:
                raise UsageError(f"--crs-transform {list(self.crs_transform)}: it maps pixels to no area")

    @property
    def is_source_grid(self) -> bool:
        """Whether the source's own pixels are exported: nothing but a region is asked for."""
        return (self.crs, self.crs_transform, self.scale, self.dimensions) == (None,) * 4

    @property
    def clips(self) -> bool:
        """Whether the region's shape masks; else it counts by its bounds."""
        if self.region is None:
            return False
        return self.clip_region if self.clip_region is not None else (self.scale, self.dimensions) == (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportGrid:
    """The grid of an export.

    Attributes
    ----------
    geobox
        Its pixels.
    clip
        Polygons in pixel positions (column, row) outside of which pixels are masked; None: nothing is.
    """

    geobox: GeoBox
    clip: BaseGeometry | None


def export_grid(
    source: GeoBox, request: GridRequest, *, suggested_pixel: Callable[[GeoBox, str], float] | None = None
) -> ExportGrid:
    """The grid that ``request`` asks for, of a source on the grid ``source``.

    Without any option it is the source's own. With a region alone it is the source's lattice, so that pixels are cut,
    never resampled. Else the CRS, the transform, the scale or the dimensions make a new one, whose origin is a multiple
    of the pixel's size (``dimensions``: a corner of what is covered). The grid covers the region outwards, also where
    the source ends; what the source doesn't have is masked.

    Parameters
    ----------
    source
        The first source's grid. Where it has no CRS, ``request.crs`` says which one it is in.
    request
        What is asked for.
    suggested_pixel
        The side of a pixel, in the CRS's units, that suits a grid in a CRS: for a request of a CRS alone.

    Raises
    ------
    InputError
        If the region lies outside the source, can't be expressed in the grid's CRS, or either crosses the antimeridian
        in a CRS that is cut there; or for a CRS that pyproj can't parse.
    UsageError
        If the source has no CRS to place a region by, or the grid has more than 10 million rows or columns.

    Notes
    -----
    **Source**: Earth Engine's guide to exports, its Python client, and the grids of files that it exported.

    Examples
    --------
    >>> from geotfr.grid.region import parse_region
    >>> box = GeoBox(shape_yx=(100, 100), affine=(0.25, 0.0, 10.0, 0.0, -0.25, 50.0), crs="EPSG:4326")
    >>> found = export_grid(box, GridRequest(region=parse_region("11.1,40.0,12.0,41.0"))).geobox
    >>> found.affine, found.shape_yx
    ((0.25, 0.0, 11.0, 0.0, -0.25, 41.0), (4, 4))
    """
    if request.crs is not None:
        wanted = crs_text(crs_wkt(request.crs))
        if not source.crs:
            source = replace(source, crs=wanted)
        if same_crs(wanted, source.crs):
            request = replace(request, crs=None)
    crs = source.crs if request.crs is None else wanted
    if request.region is not None and not crs:
        raise UsageError("--region: the source has no CRS to place it by; say which one with --crs")
    if request.region is None and request.is_source_grid:
        # The usual case spares the 40 ms that shapely takes to import.
        geobox, clip = source, None
    else:
        if request.region is None:
            covered = _whole(source, crs)
        else:
            covered = _placed(request.region, crs, source, clips=request.clips)
        geobox = _geobox(source, crs, request, covered, suggested_pixel)
        clip = _in_pixels(covered, geobox) if request.clips else None
    if max(geobox.shape_yx) > MAX_SIDE_PX:
        rows, cols = geobox.shape_yx
        raise UsageError(f"the grid would have {cols:,} x {rows:,} pixels; allowed are {MAX_SIDE_PX:,} a side")
    return ExportGrid(geobox=geobox, clip=clip)


def lattice_offset(grid: GeoBox, other: GeoBox) -> tuple[int, int] | None:
    """(row, column) in ``other`` of the upper-left pixel of ``grid``, if pixels of both are the same ones; else None.

    CRSs aren't compared.

    >>> one = GeoBox(shape_yx=(4, 4), affine=(10.0, 0.0, 500.0, 0.0, -10.0, 800.0), crs="")
    >>> lattice_offset(GeoBox(shape_yx=(2, 2), affine=(10.0, 0.0, 530.0, 0.0, -10.0, 810.0), crs=""), one)
    (-1, 3)
    """
    rows, cols = grid.shape_yx
    ends = np.array([(0, 0), (cols, 0), (0, rows), (cols, rows)], np.float64)
    found = to_pixels(other.affine, _to_ground(grid.affine, ends))
    shift = np.rint(found[0])
    if np.abs(found - ends - shift).max() > LATTICE_PX:
        return None
    return int(shift[1]), int(shift[0])


def _geobox(
    source: GeoBox,
    crs: str,
    request: GridRequest,
    covered: BaseGeometry,
    suggested_pixel: Callable[[GeoBox, str], float] | None,
) -> GeoBox:
    if request.is_source_grid:
        return _cover(source.affine, crs, covered)
    if request.crs_transform is not None:
        if isinstance(request.dimensions, tuple):
            width, height = request.dimensions
            return GeoBox(shape_yx=(height, width), affine=request.crs_transform, crs=crs)
        return _cover(request.crs_transform, crs, covered)
    if request.dimensions is not None:
        return _of_dimensions(request.dimensions, crs, covered)
    if request.scale is not None:
        pixel = request.scale / metres_per_unit(crs)
    else:
        pixel = _suggested(source, crs, suggested_pixel)
    # With the origin of the lattice at (0, 0) every corner is a multiple of the pixel's side.
    return _cover((pixel, 0.0, 0.0, 0.0, -pixel, 0.0), crs, covered)


def _suggested(source: GeoBox, crs: str, suggested_pixel: Callable[[GeoBox, str], float] | None) -> float:
    """The side of a pixel for ``source`` in ``crs``: as many pixels lie on the diagonal there as here.

    **Source**: ``GDALSuggestedWarpOutput2``, which this replaces where it would go round the Earth.
    """
    if is_geographic(crs) and not is_geographic(source.crs):
        west, south, east, north = _transformed(_outline(source), source.crs, crs, what="the source").bounds
        if west < -180 or east > 180:
            return math.hypot(east - west, north - south) / math.hypot(*source.shape_yx)
    if suggested_pixel is None:
        raise UsageError(f"--crs {crs}: give --scale, the side of a pixel in metres")
    return suggested_pixel(source, crs)


def _cover(affine: Affine6, crs: str, covered: BaseGeometry) -> GeoBox:
    """The pixels of the lattice ``affine`` that cover ``covered``, by all its corners."""
    import shapely

    pixels = to_pixels(affine, shapely.get_coordinates(covered))
    # Coordinates hold some 16 digits: far from the origin of the lattice a tiny pixel's number is less exact.
    slack = np.maximum(SNAP_PX, np.abs(pixels).max(axis=0) * 1e-14)
    first = np.floor(pixels.min(axis=0) + slack)
    stop = np.maximum(np.ceil(pixels.max(axis=0) - slack), first + 1)
    (x, y), (width, height) = _to_ground(affine, first[np.newaxis])[0], stop - first
    a, b, _, d, e, _ = affine
    return GeoBox(shape_yx=(int(height), int(width)), affine=(a, b, float(x), d, e, float(y)), crs=crs)


def _of_dimensions(dimensions: tuple[int, int] | int, crs: str, covered: BaseGeometry) -> GeoBox:
    west, south, east, north = covered.bounds
    if isinstance(dimensions, int):
        pixel = max(east - west, north - south) / dimensions
        width, height = (max(math.ceil(side / pixel - SNAP_PX), 1) for side in (east - west, north - south))
        return GeoBox(shape_yx=(height, width), affine=(pixel, 0.0, west, 0.0, -pixel, north), crs=crs)
    width, height = dimensions
    affine = ((east - west) / width, 0.0, west, 0.0, -(north - south) / height, north)
    return GeoBox(shape_yx=(height, width), affine=affine, crs=crs)


def _outline(source: GeoBox) -> BaseGeometry:
    """The edge of ``source``, in its own CRS."""
    from shapely import Polygon

    rows, cols = source.shape_yx
    return Polygon([source.xy(0, 0), source.xy(cols, 0), source.xy(cols, rows), source.xy(0, rows)])


def _whole(source: GeoBox, crs: str) -> BaseGeometry:
    """``source`` in ``crs``: its outline, and points inside where these reach further, as they do on a map that bends
    or cuts most of the Earth (the globe in UTM, or from 0 to 360 degrees).

    **Source**: ``GDALSuggestedWarpOutput2``, which looks inside as well.
    """
    import shapely

    outline = _transformed(_outline(source), source.crs, crs, what="the source", inside=False)
    if same_crs(source.crs, crs) or is_geographic(crs):
        return outline
    transform = CrsTransform(source.crs, crs, what="the source")

    def moved(pixels: NDArray[np.float64]) -> NDArray[np.float64]:
        x, y = _to_ground(source.affine, pixels.reshape(-1, 2)).T
        found: NDArray[np.float64] = np.column_stack(transform(x, y)).reshape(pixels.shape)
        return found

    rows, cols = (np.linspace(0, side, EDGE_PIECES + 1) for side in source.shape_yx)
    lattice = np.stack(np.meshgrid(cols, rows), axis=-1)
    points = moved(lattice)
    points[~np.isfinite(points)] = math.nan
    reach = np.nanmax(points, axis=(0, 1)) - np.nanmin(points, axis=(0, 1))
    found = [points.reshape(-1, 2)]
    for one, other in ((lattice[:, :-1], lattice[:, 1:]), (lattice[:-1], lattice[1:])):
        found += _sides_of_cuts(moved, one.reshape(-1, 2), other.reshape(-1, 2), reach)
    every = np.concatenate(found)
    return shapely.union_all([outline, shapely.MultiPoint(every[np.isfinite(every).all(axis=1)])])


def _sides_of_cuts(
    moved: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    start: NDArray[np.float64],
    stop: NDArray[np.float64],
    reach: NDArray[np.float64],
) -> list[NDArray[np.float64]]:
    """Where lines from ``start`` to ``stop``, (n, 2), leap when ``moved`` onto a map of size ``reach`` (x, y): the last
    points before and the first ones after, moved."""

    def steps(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):  # of points at infinity
            found: NDArray[np.float64] = np.abs((one - other) / reach).max(axis=1)
        return found

    cut = steps(moved(start), moved(stop)) > LEAP
    start, stop = start[cut], stop[cut]
    for _ in range(HALVINGS):
        middle = (start + stop) / 2
        there = moved(middle)
        is_before = steps(there, moved(start)) < steps(there, moved(stop))
        start = np.where(is_before[:, np.newaxis], middle, start)
        stop = np.where(is_before[:, np.newaxis], stop, middle)
    return [moved(start), moved(stop)]


def _inner_points(shape: BaseGeometry, transform: CrsTransform) -> NDArray[np.float64]:
    """Points (x, y) inside ``shape``, moved by ``transform``, (n, 2); what has no coordinates then is left out."""
    import shapely

    west, south, east, north = shape.bounds
    # Middles of equal pieces, so that none lies on the edge of a box.
    ratios = (np.arange(INNER_PIECES) + 0.5) / INNER_PIECES
    x, y = (axis.ravel() for axis in np.meshgrid(west + ratios * (east - west), south + ratios * (north - south)))
    inside = shapely.contains_xy(shape, x, y)
    points: NDArray[np.float64] = np.column_stack(transform(x[inside], y[inside]))
    return points[np.isfinite(points).all(axis=1)]


def _placed(region: Region, crs: str, source: GeoBox, *, clips: bool) -> BaseGeometry:
    """``region`` in ``crs``: its shape, or without ``clips`` its bounds; it has to meet ``source``."""
    import shapely

    in_source = _beside(_transformed(region.shape, region.crs, source.crs, what="--region"), source, source.crs)
    outline = _outline(source)
    if shapely.intersection(in_source, outline).area == 0:
        raise InputError(
            f"--region lies outside the raster: it covers {_bounds(in_source)}, the raster {_bounds(outline)}"
            f" (west, south, east, north in {_short(source.crs)}); check its CRS and the order of its axes"
        )
    # The bounds of a region that is cut at the antimeridian would go round the Earth.
    counts_by_bounds = not clips and not (is_geographic(region.crs) and _is_cut(region.shape))
    shape = shapely.box(*region.shape.bounds) if counts_by_bounds else region.shape
    placed = _beside(_transformed(shape, region.crs, crs, what="--region"), source, crs)
    if is_geographic(crs) and _is_cut(placed):
        raise InputError(
            f"--region crosses the antimeridian, where {_short(crs)} is cut: the grid would go round the Earth;"
            " choose a CRS that isn't cut there, or export both sides on their own"
        )
    return placed


def _beside(shape: BaseGeometry, source: GeoBox, crs: str) -> BaseGeometry:
    """``shape`` with each polygon on the turn of the Earth, of 360 degrees, where ``source`` is; as it is if it meets
    it there, or if ``crs`` is projected.

    What lies beyond the ends of a raster round the Earth, the raster's other end fills: see
    :func:`geotfr.rasters.layers.make_layer`.
    """
    import shapely
    from shapely.affinity import translate

    if not is_geographic(crs):
        return shape
    centre, y = source.xy(source.shape_yx[1] / 2, source.shape_yx[0] / 2)
    least, _, most, _ = source.bounds()
    is_in_source = same_crs(source.crs, crs)
    if not is_in_source:
        moved, _ = CrsTransform(source.crs, crs, what="the source")(np.array([centre]), np.array([y]))
        centre = float(moved[0])
    parts = []
    for part in shapely.get_parts(shape):
        west, _, east, _ = part.bounds
        meets = is_in_source and west < most and east > least
        turns = 0 if meets else round((centre - (west + east) / 2) / 360)
        parts.append(translate(part, xoff=360.0 * turns))
    return shapely.union_all(parts)


def _is_cut(shape: BaseGeometry) -> bool:
    """Whether polygons in degrees lie at both sides of the antimeridian with most of the Earth between them."""
    import shapely

    west, _, east, _ = shape.bounds
    widths = [part.bounds[2] - part.bounds[0] for part in shapely.get_parts(shape)]
    return len(widths) > 1 and west <= -180 and east >= 180 and sum(widths) < 180


def _transformed(shape: BaseGeometry, crs: str, target: str, *, what: str, inside: bool = True) -> BaseGeometry:
    """``shape`` in CRS ``target``; its edges, which bend, get more points, and longitudes run on across 180.

    With ``inside`` it is refused where the projected edges don't enclose what they enclose on the ground.
    """
    import shapely

    if same_crs(crs, target):
        return shape
    if not crs:
        raise UsageError(f"{what} has no CRS to place it by; say which one with --crs")
    transform = CrsTransform(crs, target, what=what)
    turns = is_geographic(target)

    def project(ring: BaseGeometry) -> NDArray[np.float64]:
        points = shapely.get_coordinates(ring)
        moved = np.column_stack(transform(points[:, 0], points[:, 1]))
        if not np.isfinite(moved).all():
            raise InputError(
                f"{what}: a part of it has no coordinates in {_short(target)}; choose another CRS or region"
            )
        if turns:
            moved[:, 0] = np.unwrap(moved[:, 0], period=360)
            if abs(moved[0, 0] - moved[-1, 0]) > 180:
                raise InputError(f"{what} goes round a pole, where {_short(target)} ends; choose a polar CRS")
        return moved

    parts = []
    for part in shapely.get_parts(shape):
        west, south, east, north = part.bounds
        dense = shapely.segmentize(part, max(east - west, north - south) / EDGE_PIECES)
        outer = project(dense.exterior)
        holes = [project(hole) for hole in dense.interiors]
        if turns:
            for hole in holes:
                hole[:, 0] += 360 * round((outer[0, 0] - hole[0, 0]) / 360)
        parts.append(shapely.make_valid(shapely.Polygon(outer, holes)))
        if inside and not turns:
            _check_inside(parts[-1], outer, _inner_points(part, transform), f"{what}: {_short(target)}")
    return shapely.union_all(parts)


def _check_inside(moved: BaseGeometry, outer: NDArray[np.float64], inner: NDArray[np.float64], what: str) -> None:
    """Refuse a polygon that its CRS cuts, so that its edge leaps across the map, or turns inside out.

    ``moved`` is the polygon on the map, ``outer`` the points of its edge and ``inner`` some inside, both (n, 2).
    """
    import shapely

    reach = math.hypot(*np.ptp(np.concatenate([outer, inner]), axis=0))
    leap = np.hypot(*np.diff(outer, axis=0).T).max()
    outside = inner[~shapely.contains_xy(moved, inner)]
    beyond = shapely.distance(moved, shapely.points(outside)).max(initial=0)
    if leap > LEAP * reach or beyond > BEYOND * reach:
        raise InputError(
            f"{what} cuts it, or maps it beyond its own edge; choose a CRS that isn't cut there, or a smaller region"
        )


def _in_pixels(shape: BaseGeometry, geobox: GeoBox) -> BaseGeometry:
    import shapely

    return shapely.transform(shape, lambda points: to_pixels(geobox.affine, points))


def to_pixels(affine: Affine6, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pixel positions (column, row) of ``points`` (x, y), both (n, 2)."""
    a, b, c, d, e, f = affine
    x, y = points[:, 0] - c, points[:, 1] - f
    area = a * e - b * d
    return np.column_stack(((e * x - b * y) / area, (a * y - d * x) / area))


def _to_ground(affine: Affine6, pixels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Coordinates (x, y) of pixel positions (column, row), both (n, 2)."""
    a, b, c, d, e, f = affine
    col, row = pixels[:, 0], pixels[:, 1]
    return np.column_stack((a * col + b * row + c, d * col + e * row + f))


def _bounds(shape: BaseGeometry) -> str:
    return ", ".join(f"{number:.10g}" for number in shape.bounds)


def _short(crs: str) -> str:
    return crs if len(crs) < 40 else crs[:37] + "…"

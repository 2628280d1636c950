"""Geometries of tables: WKB in columns, points as coordinates, GeoJSON text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from geotfr.errors import InputError
from geotfr.grid.crs import CrsTransform, same_crs
from geotfr.vectors.arrow_arrays import present_rows
from geotfr.vectors.extra import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Transform = Callable[[NDArray[np.float64], NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]

__all__ = [
    "LONLAT",
    "Places",
    "finite_shapes",
    "geojson_of",
    "point_wkb",
    "points_of",
    "shapes_of_wkb",
    "transform_between",
    "wkb_axes",
    "wkb_of_geojson",
]

LONLAT = "EPSG:4326"
"""What ``longitude`` and ``latitude`` are in. **Source**: Earth Engine's client, which makes points of them."""

_POINT = 1
_WKB_HEAD_BYTES = 5
_WKB_Z, _WKB_M = 1 << 31, 1 << 30
_WKB_POINT = np.dtype([("order", "u1"), ("type", "<u4"), ("x", "<f8"), ("y", "<f8")])


class Places(NamedTuple):
    """Points in two dimensions.

    Attributes
    ----------
    x, y
        ``(n,) float64``; NaN where there is no point.
    heights, measures
        How many of the points had a z, and an m.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    heights: int = 0
    measures: int = 0


def points_of(array: Any, *, where: str, first_row: int, instead: str = "") -> Places:
    """The places of a pyarrow array of WKB points; none for null and empty geometries.

    Raises
    ------
    InputError
        A geometry that is no point, or no WKB; ``where`` and ``first_row`` place it, and ``instead`` tells what else
        can be done than to take its centroid.
    """
    import shapely

    shapes = shapes_of_wkb(array, where=where, first_row=first_row)
    kinds = shapely.get_type_id(shapes)
    odd = (kinds != _POINT - 1) & ~shapely.is_missing(shapes)
    if odd.any():
        row = int(odd.argmax())
        raise InputError(
            f"{where}: row {row + first_row} is a {shapes[row].geom_type}, not a point;"
            f" {instead}take its centroid first"
        )
    # Some versions of GEOS raise for an empty point.
    shapes = shapes.copy()
    shapes[shapely.is_empty(shapes)] = None
    x, y = shapely.get_x(shapes), shapely.get_y(shapes)
    has_z, has_m = (np.count_nonzero(has & ~shapely.is_missing(shapes)) for has in wkb_axes(array))
    return Places(np.asarray(x, np.float64), np.asarray(y, np.float64), int(has_z), int(has_m))


def wkb_axes(array: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether the geometries of a pyarrow array of WKB have z, and m, ``(n,) bool`` each; false for null.

    The first five bytes tell, of ISO WKB as of PostGIS's.

    >>> import shapely, pyarrow
    >>> has_z, has_m = wkb_axes(pyarrow.array([shapely.Point(1, 2, 3).wkb, None, shapely.Point(1, 2).wkb]))
    >>> has_z.tolist(), has_m.tolist()
    ([True, False, False], [False, False, False])
    """
    pa = load("pyarrow")
    array = array.cast(pa.large_binary())
    has_z, has_m = np.zeros(len(array), np.bool_), np.zeros(len(array), np.bool_)
    if array.null_count == len(array):
        return has_z, has_m
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    there = np.flatnonzero(present_rows(array) & (np.diff(bounds) >= _WKB_HEAD_BYTES))
    heads = np.frombuffer(data, np.uint8)[bounds[there][:, np.newaxis] + np.arange(_WKB_HEAD_BYTES)]
    codes = np.ascontiguousarray(heads[:, 1:])
    code = np.where(heads[:, 0] == 0, codes.view(">u4")[:, 0], codes.view("<u4")[:, 0]).astype(np.int64)
    thousands = (code & ~(_WKB_Z | _WKB_M)) // 1000
    has_z[there] = (code & _WKB_Z != 0) | (thousands == 1) | (thousands == 3)
    has_m[there] = (code & _WKB_M != 0) | (thousands == 2) | (thousands == 3)
    return has_z, has_m


def geojson_of(array: Any, transform: Transform | None, *, where: str, first_row: int) -> Any:
    """A pyarrow array of WKB as GeoJSON texts, transformed; null stays null.

    Heights are kept, measures are not. A geometry with a coordinate that isn't finite, as one that the transform can't
    place, has no GeoJSON and is null.
    """
    import shapely

    shapes = shapes_of_wkb(array, where=where, first_row=first_row).copy()
    high = finite_shapes(shapes, slice(2, 3))
    shapes[~high] = shapely.force_2d(shapes[~high])
    if transform is not None:
        moved = transform

        def horizontally(places: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.column_stack([*moved(places[:, 0], places[:, 1]), *places[:, 2:].T])

        shapes[high] = shapely.transform(shapes[high], horizontally, include_z=True)
        shapes[~high] = shapely.transform(shapes[~high], horizontally)
    shapes[~finite_shapes(shapes)] = None
    return load("pyarrow").array(shapely.to_geojson(shapes), load("pyarrow").string())


def finite_shapes(shapes: NDArray[np.object_], axes: slice = slice(2)) -> NDArray[np.bool_]:
    """Whether all coordinates of each shape are finite along ``axes`` of x, y and z; z is NaN where there is none."""
    import shapely

    places, owners = shapely.get_coordinates(shapes, include_z=True, return_index=True)
    found = np.ones(len(shapes), bool)
    found[owners[~np.isfinite(places[:, axes]).all(axis=1)]] = False
    return found


def wkb_of_geojson(array: Any, *, where: str, first_row: int) -> Any:
    """A pyarrow array of GeoJSON texts as WKB; null stays null."""
    import shapely

    texts = np.array(array.to_pylist(), object)
    try:
        shapes = shapely.from_geojson(texts)
    except shapely.errors.GEOSException as error:
        raise InputError(f"{where}: rows from {first_row} on hold text that isn't GeoJSON: {error}") from error
    return load("pyarrow").array(shapely.to_wkb(shapes), load("pyarrow").binary())


def point_wkb(x: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
    """A pyarrow array of WKB points; null where x or y is NaN."""
    pa = load("pyarrow")
    points = np.empty(len(x), _WKB_POINT)
    points["order"], points["type"], points["x"], points["y"] = 1, _POINT, x, y
    offsets = np.arange(len(x) + 1, dtype=np.int32) * _WKB_POINT.itemsize
    valid = ~(np.isnan(x) | np.isnan(y))
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(x), [bitmap, pa.py_buffer(offsets), pa.py_buffer(points)])


def transform_between(source: str, target: str, *, where: str) -> Transform | None:
    """What turns x and y of ``source`` into those of ``target``; None where both are one CRS.

    Raises
    ------
    InputError
        ``source`` is empty, or there is no way to ``target``.
    """
    if not source:
        raise InputError(f"{where}: has no CRS, so its points have no place; give it with --crs")
    if same_crs(source, target):
        return None
    return CrsTransform(source, target, what=where)


def shapes_of_wkb(array: Any, *, where: str, first_row: int) -> NDArray[np.object_]:
    """The shapely geometries ``(n,)`` of a pyarrow array of WKB; None where it is null.

    Raises
    ------
    InputError
        A value that is no WKB; ``where`` and ``first_row`` place it.
    """
    import shapely

    try:
        # numpy warns of vertices that are NaN.
        with np.errstate(invalid="ignore"):
            return np.asarray(shapely.from_wkb(array.to_numpy(zero_copy_only=False)), object)
    except shapely.errors.GEOSException as error:
        raise InputError(f"{where}: a geometry of the rows from {first_row} on isn't WKB: {error}") from error

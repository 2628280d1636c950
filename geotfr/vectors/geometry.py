"""Geometries of tables: WKB in columns, points as coordinates, GeoJSON text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from geotfr.errors import InputError
from geotfr.grid.crs import CrsTransform, same_crs
from geotfr.vectors.extra import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Transform = Callable[[NDArray[np.float64], NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]

__all__ = ["LONLAT", "Places", "geojson_of", "point_wkb", "points_of", "transform_between", "wkb_of_geojson"]

LONLAT = "EPSG:4326"
"""What ``longitude`` and ``latitude`` are in. **Source**: Earth Engine's client, which makes points of them."""

_POINT = 1
_WKB_POINT = np.dtype([("order", "u1"), ("type", "<u4"), ("x", "<f8"), ("y", "<f8")])


class Places(NamedTuple):
    """Points in two dimensions.

    Attributes
    ----------
    x, y
        ``(n,) float64``; NaN where there is no point.
    heights
        How many of the points had a z.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    heights: int = 0


def points_of(array: Any, *, where: str, first_row: int, instead: str = "") -> Places:
    """The places of a pyarrow array of WKB points; none for null and empty geometries.

    Raises
    ------
    InputError
        A geometry that is no point, or no WKB; ``where`` and ``first_row`` place it, and ``instead`` tells what else
        can be done than to take its centroid.
    """
    import shapely

    shapes = _shapes(array, where=where, first_row=first_row)
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
    return Places(np.asarray(x, np.float64), np.asarray(y, np.float64), int(np.count_nonzero(shapely.has_z(shapes))))


def geojson_of(array: Any, transform: Transform | None, *, where: str, first_row: int) -> Any:
    """A pyarrow array of WKB as GeoJSON texts, transformed; null stays null.

    Heights are kept. A geometry with a coordinate that isn't finite, as one that the transform can't place, has no
    GeoJSON and is null.
    """
    import shapely

    shapes = _shapes(array, where=where, first_row=first_row).copy()
    high = _with_finite(shapes, slice(2, 3))
    shapes[~high] = shapely.force_2d(shapes[~high])
    if transform is not None:
        moved = transform

        def horizontally(places: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.column_stack([*moved(places[:, 0], places[:, 1]), *places[:, 2:].T])

        shapes[high] = shapely.transform(shapes[high], horizontally, include_z=True)
        shapes[~high] = shapely.transform(shapes[~high], horizontally)
    shapes[~_with_finite(shapes, slice(2))] = None
    return load("pyarrow").array(shapely.to_geojson(shapes), load("pyarrow").string())


def _with_finite(shapes: NDArray[np.object_], axes: slice) -> NDArray[np.bool_]:
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


def _shapes(array: Any, *, where: str, first_row: int) -> NDArray[np.object_]:
    import shapely

    try:
        return np.asarray(shapely.from_wkb(array.to_numpy(zero_copy_only=False)))
    except shapely.errors.GEOSException as error:
        raise InputError(f"{where}: a geometry of the rows from {first_row} on isn't WKB: {error}") from error

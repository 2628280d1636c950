"""Labelled arrays as rasters: an xarray ``DataArray`` whose CRS rioxarray or odc wrote, read lazily where it is lazy.

xarray isn't imported: an object that has its attributes is taken for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from geotfr.grid import Affine6

__all__ = ["DataArrayRaster", "is_data_array", "read_data_array"]

# What rioxarray and odc call the axes of a grid: (rows, columns).
_AXES = (("y", "x"), ("latitude", "longitude"), ("lat", "lon"), ("northing", "easting"))
_GRID_MAPPING = "spatial_ref"
_CRS_KEYS = ("crs_wkt", "spatial_ref")
_UNEVEN_PX = 1e-3
"""How far a coordinate may lie from its place on an even grid, in pixels."""
_EXACT_PX = 1e-4
"""How far coordinates may lie from the transform that is written beside them, to take that one: it isn't rounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataArrayRaster:
    """What a labelled array says.

    Attributes
    ----------
    data
        (row, column) or (band, row, column): numpy's, or dask's where the array is lazy.
    affine, crs
        Its grid; the CRS as WKT or another text, empty without.
    nodata
        The value that means masked, or None.
    names
        Of the bands; empty texts where it has none.
    chunk_yx
        (rows, columns) that are computed at once; None where the array is in memory.
    """

    data: Any
    affine: Affine6
    crs: str
    nodata: float | None
    names: tuple[str, ...]
    chunk_yx: tuple[int, int] | None


def is_data_array(source: object) -> bool:
    """Whether ``source`` is a DataArray, or a Dataset."""
    return all(hasattr(source, name) for name in ("dims", "coords", "attrs", "transpose"))


def read_data_array(array: Any) -> DataArrayRaster:
    """The raster that ``array`` is; nothing is computed.

    Its axes are (y, x) or those of another pair of names, with one more for bands, in any order. The CRS is the one
    that rioxarray and odc-geo keep in the coordinate ``spatial_ref``; the transform the one beside it, if the
    coordinates agree with it, or else the coordinates', which must be even.

    Raises
    ------
    UsageError
        A Dataset, other axes, or coordinates that are no grid.
    """
    if not hasattr(array, "dtype"):
        raise UsageError("a Dataset is several arrays; give one, as dataset.to_dataarray('band') or dataset['NAME']")
    y, x = _axes(array)
    others = [str(name) for name in array.dims if name not in (y, x)]
    if len(others) > 1:
        raise UsageError(
            f"an array of axes {', '.join(map(str, array.dims))}; allowed are {y}, {x} and one for bands: stack the"
            " others into it"
        )
    array = array.transpose(*others, y, x)
    chunks = getattr(array.data, "chunks", None)
    mapping = _grid_mapping(array)
    return DataArrayRaster(
        data=array.data,
        affine=_affine(array, y, x, mapping),
        crs=_crs(array, mapping),
        nodata=_nodata(array),
        names=_names(array, others[0] if others else None),
        chunk_yx=(max(chunks[-2]), max(chunks[-1])) if chunks else None,
    )


def _axes(array: Any) -> tuple[str, str]:
    dims = [str(name) for name in array.dims]
    for y, x in _AXES:
        if y in dims and x in dims:
            return y, x
    known = " or ".join(f"({y}, {x})" for y, x in _AXES)
    raise UsageError(f"an array of axes {', '.join(dims) or 'no name'}; a raster has {known}: rename them")


def _grid_mapping(array: Any) -> Mapping[str, Any]:
    """The attributes of the coordinate that holds the CRS; empty without."""
    name = array.encoding.get("grid_mapping") or array.attrs.get("grid_mapping") or _GRID_MAPPING
    if name not in array.coords:
        return {}
    attributes: Mapping[str, Any] = array.coords[name].attrs
    return attributes


def _crs(array: Any, mapping: Mapping[str, Any]) -> str:
    for key in _CRS_KEYS:
        if mapping.get(key):
            return str(mapping[key])
    found = array.attrs.get("crs")
    return found if isinstance(found, str) else ""


def _affine(array: Any, y: str, x: str, mapping: Mapping[str, Any]) -> Affine6:
    written = _written(mapping)
    rows, cols = (_centres(array, name) for name in (y, x))
    if written is not None and (written[1] or written[3]):
        return _sheared(array, written, rows, cols, x)
    if rows is None or cols is None:
        if written is None:
            raise UsageError(f"an array without coordinates {y} and {x}, and no transform: nothing tells its place")
        return written
    a, c = _line(cols, x, None if written is None else (written[0], written[2]))
    e, f = _line(rows, y, None if written is None else (written[4], written[5]))
    return a, 0.0, c, 0.0, e, f


def _written(mapping: Mapping[str, Any]) -> Affine6 | None:
    """The transform in the order of GDAL, a text of six numbers."""
    try:
        c, a, b, f, d, e = (float(part) for part in str(mapping.get("GeoTransform", "")).split())
    except ValueError:
        return None
    return a, b, c, d, e, f


def _centres(array: Any, name: str) -> NDArray[np.float64] | None:
    if name not in array.coords:
        return None
    values = np.asarray(array.coords[name].values)
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        return None
    return values.astype(np.float64)


def _line(centres: NDArray[np.float64], name: str, written: tuple[float, float] | None) -> tuple[float, float]:
    """(pixel size, outer edge) of pixels with these centres; ``written`` is another grid's that they may lie on."""
    if len(centres) > 1:
        step = float(centres[-1] - centres[0]) / (len(centres) - 1)
        even = centres[0] + step * np.arange(len(centres))
        if not step or not np.abs(centres - even).max() <= _UNEVEN_PX * abs(step):
            raise UsageError(f"coordinate {name}: not even; a raster's pixels lie on a grid: interpolate it first")
    elif written is not None:
        step = written[0]
    else:
        raise UsageError(f"coordinate {name}: one pixel tells no size; write it: array.rio.write_transform()")
    start = float(centres[0]) - step / 2
    if written is not None and written[0] and abs(step - written[0]) * len(centres) <= _EXACT_PX * abs(step):
        # The array may be a part of what the transform was written for.
        size, edge = written
        offset = (start - edge) / size
        if abs(offset - round(offset)) <= _EXACT_PX:
            return size, edge + round(offset) * size
    return step, start


def _sheared(
    array: Any,
    written: Affine6,
    rows: NDArray[np.float64] | None,
    cols: NDArray[np.float64] | None,
    x: str,
) -> Affine6:
    """A rotated grid: odc-geo counts its pixels in the coordinates, which tell what was cut out."""
    if rows is None or cols is None or array.coords[x].attrs.get("units") != "pixel":
        return written
    (step_x, left), (step_y, top) = _line(cols, "x", (1.0, 0.0)), _line(rows, "y", (1.0, 0.0))
    a, b, c, d, e, f = written
    return a * step_x, b * step_y, a * left + b * top + c, d * step_x, e * step_y, d * left + e * top + f


def _nodata(array: Any) -> float | None:
    """What rioxarray calls ``_FillValue`` and odc ``nodata``; masked arrays hold NaN and say so in their encoding."""
    for key in ("_FillValue", "nodata", "missing_value"):
        value = array.attrs.get(key)
        if value is not None and np.ndim(value) == 0:
            return float(value) if array.dtype.kind == "f" else int(value)
    return None


def _names(array: Any, bands: str | None) -> tuple[str, ...]:
    if bands is None:
        return (str(array.name or ""),)
    count = int(array.sizes[bands])
    described = array.attrs.get("long_name")
    if isinstance(described, tuple | list) and len(described) == count:
        return tuple(map(str, described))
    if bands not in array.coords:
        return ("",) * count
    labels: Sequence[Any] = array.coords[bands].values
    kind = np.asarray(labels).dtype.kind
    if kind == "M":
        return tuple(str(np.datetime_as_string(label, unit="auto", casting="unsafe")) for label in labels)
    # Numbers are no names: bands without one are b1, b2 and so on.
    return tuple(map(str, labels)) if kind in "UOT" else ("",) * count

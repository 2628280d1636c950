"""GeoParquet: the description of the geometry column, outlines as WKB, and an open file for pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from geotfr.grid.crs import crs_projjson
from geotfr.vectors.arrow_arrays import numbers_but_nan, present_rows
from geotfr.vectors.extra import load_arrow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from typing_extensions import Buffer

__all__ = [
    "BBOX",
    "ByteSink",
    "Writable",
    "bbox_column",
    "bbox_type",
    "covering_columns",
    "geo_metadata",
    "leaf_columns",
    "outline_wkb",
    "wkb_bounds",
]

BBOX = "bbox"
"""The column with the bounds of each row's geometry, by which readers leave out rows and groups of rows."""

_BBOX_FIELDS = ("xmin", "ymin", "xmax", "ymax")

_POLYGON = 3
_OUTLINE_POINTS = 5
_WKB_POINT = np.dtype([("order", "u1"), ("type", "<u4"), ("xy", "<f8", 2)])
_WKB_OUTLINE = np.dtype(
    [("order", "u1"), ("type", "<u4"), ("rings", "<u4"), ("points", "<u4"), ("xy", "<f8", (_OUTLINE_POINTS, 2))]
)


class ByteSink(Protocol):
    """An open file: what pyarrow writes goes there."""

    size: int

    def write(self, data: Buffer) -> None:
        """Append ``data``."""
        ...


class Writable:
    """A :class:`ByteSink` as a binary file object, for pyarrow."""

    closed = False

    def __init__(self, file: ByteSink) -> None:
        self._file = file

    def write(self, data: Any) -> int:
        """Append ``data``; its bytes."""
        self._file.write(data)
        return memoryview(data).nbytes

    def tell(self) -> int:
        """Bytes written."""
        return self._file.size

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Whoever made the file closes it."""

    def writable(self) -> bool:
        """It is."""
        return True

    def readable(self) -> bool:
        """It isn't."""
        return False

    def seekable(self) -> bool:
        """It isn't."""
        return False


def geo_metadata(
    column: str,
    *,
    geometry_types: Sequence[str],
    crs: str,
    bounds: Sequence[float] | None = None,
    is_ccw: bool = False,
    bbox: str | None = None,
) -> dict[str, Any]:
    """GeoParquet's description of the geometry ``column``; an empty ``crs`` is none. ``bbox`` is the column of bounds.

    **Source**: GeoParquet 1.1.0.
    """
    described: dict[str, Any] = {"encoding": "WKB", "geometry_types": list(geometry_types)}
    described["crs"] = crs_projjson(crs) if crs else None
    if is_ccw:
        described["orientation"] = "counterclockwise"
    if bounds is not None:
        described["bbox"] = list(bounds)
    if bbox is not None:
        described["covering"] = {"bbox": {side: [bbox, side] for side in _BBOX_FIELDS}}
    return {"version": "1.1.0", "primary_column": column, "columns": {column: described}}


def bbox_type() -> Any:
    """The pyarrow type of a column of bounds."""
    pa = load_arrow()
    return pa.struct([pa.field(side, pa.float64()) for side in _BBOX_FIELDS])


def bbox_column(bounds: NDArray[np.float64]) -> Any:
    """Bounds ``(n, 4)`` (west, south, east, north) as a pyarrow array; null where they are NaN."""
    sides = [numbers_but_nan(np.ascontiguousarray(bounds[:, place])) for place in range(4)]
    return load_arrow().StructArray.from_arrays(sides, fields=list(bbox_type()))


def wkb_bounds(array: Any) -> NDArray[np.float64]:
    """The bounds ``(n, 4)`` of the geometries of a pyarrow array of WKB; NaN where there are none."""
    points = _points_of(array)
    if points is not None:
        return np.concatenate([points, points], axis=1)
    import shapely

    with np.errstate(invalid="ignore"):
        found: NDArray[np.float64] = shapely.bounds(shapely.from_wkb(array.to_numpy(zero_copy_only=False)))
    return found.reshape(-1, 4)


def _points_of(array: Any) -> NDArray[np.float64] | None:
    """(x, y) ``(n, 2)`` where all values are little-endian WKB points in two dimensions, NaN for null; else None.

    pyarrow imports pandas, and shapely takes its time, to look into texts of bytes one by one.
    """
    pa = load_arrow()
    if not isinstance(array, pa.BinaryArray) or not len(array):
        return None
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    if (np.diff(offsets) != _WKB_POINT.itemsize).any():
        return None
    points = np.frombuffer(array.buffers()[2], _WKB_POINT, count=len(array), offset=int(offsets[0]))
    if (points["order"] != 1).any() or (points["type"] != 1).any():
        return None
    return np.where(present_rows(array)[:, np.newaxis], points["xy"], np.nan)


def covering_columns(described: Mapping[str, Any]) -> set[str]:
    """The columns that hold nothing but bounds of geometries, as GeoParquet's description tells."""
    found = set()
    for column in described["columns"].values():
        bbox = column.get("covering", {}).get("bbox", {})
        found |= {str(path[0]) for path in bbox.values() if isinstance(path, list) and len(path) == 2}
    return found


def leaf_columns(field: Any) -> list[str]:
    """What Parquet calls the columns that hold the values of a pyarrow field: those of a struct have dots."""
    if not load_arrow().types.is_struct(field.type):
        return [str(field.name)]
    return [f"{field.name}.{each.name}" for each in field.type]


def outline_wkb(outlines: NDArray[np.float64]) -> Any:
    """Closed outlines ``(n, 5, 2)`` as a pyarrow array of WKB polygons."""
    pa = load_arrow()
    shapes = np.empty(len(outlines), _WKB_OUTLINE)
    shapes["order"], shapes["type"], shapes["rings"], shapes["points"] = 1, _POLYGON, 1, _OUTLINE_POINTS
    shapes["xy"] = outlines
    offsets = np.arange(len(outlines) + 1, dtype=np.int32) * _WKB_OUTLINE.itemsize
    return pa.Array.from_buffers(pa.binary(), len(outlines), [None, pa.py_buffer(offsets), pa.py_buffer(shapes)])

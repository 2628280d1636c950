"""GeoParquet: the description of the geometry column, outlines as WKB, and an open file for pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from geotfr.grid.crs import crs_projjson
from geotfr.vectors.extra import load_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from typing_extensions import Buffer

__all__ = ["ByteSink", "Writable", "geo_metadata", "outline_wkb"]

_POLYGON = 3
_OUTLINE_POINTS = 5
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
    column: str, *, geometry_types: Sequence[str], crs: str, bounds: Sequence[float] | None = None, is_ccw: bool = False
) -> dict[str, Any]:
    """GeoParquet's description of the geometry ``column``; an empty ``crs`` is none.

    **Source**: GeoParquet 1.1.0.
    """
    described: dict[str, Any] = {"encoding": "WKB", "geometry_types": list(geometry_types)}
    described["crs"] = crs_projjson(crs) if crs else None
    if is_ccw:
        described["orientation"] = "counterclockwise"
    if bounds is not None:
        described["bbox"] = list(bounds)
    return {"version": "1.1.0", "primary_column": column, "columns": {column: described}}


def outline_wkb(outlines: NDArray[np.float64]) -> Any:
    """Closed outlines ``(n, 5, 2)`` as a pyarrow array of WKB polygons."""
    pa = load_arrow()
    shapes = np.empty(len(outlines), _WKB_OUTLINE)
    shapes["order"], shapes["type"], shapes["rings"], shapes["points"] = 1, _POLYGON, 1, _OUTLINE_POINTS
    shapes["xy"] = outlines
    offsets = np.arange(len(outlines) + 1, dtype=np.int32) * _WKB_OUTLINE.itemsize
    return pa.Array.from_buffers(pa.binary(), len(outlines), [None, pa.py_buffer(offsets), pa.py_buffer(shapes)])

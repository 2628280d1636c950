"""Vector files opened by one named driver of GDAL.

pyogrio has GDAL ask all its drivers whether they know a file, and some of them follow what a file names: a pipeline or
a VRT in a ``.geojson`` reads other files, or addresses. GDAL takes a list of the drivers that may open a file, but
pyogrio has no argument for it. So the calls of GDAL's C interface that name the driver and read a layer are made here,
in the library that pyogrio brings.
"""

from __future__ import annotations

import contextlib
import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geotfr.vectors.extra import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["LayerReader", "known_drivers", "layer_names", "open_layer"]

_VECTOR, _VERBOSE_ERROR = 0x04, 0x40
_FAILURE = 3
_MOST_FAILURES = 2
_NO_GEOMETRY, _POINT = 100, 1
_EPSG = b"EPSG"
_POINTERS_OF_A_STREAM = 5
# Times as text keep their zones; see ogr_stream.py.
_STREAM_OPTIONS = ("INCLUDE_FID=NO", "GEOMETRY_METADATA_ENCODING=GEOARROW", "DATETIME_AS_STRING=YES")

_P, _S, _I, _U = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint
_LIST = ctypes.POINTER(ctypes.c_char_p)
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "GDALOpenEx": (_P, [_S, _U, _LIST, _LIST, _LIST]),
    "GDALClose": (_I, [_P]),
    "GDALDatasetGetLayerCount": (_I, [_P]),
    "GDALDatasetGetLayer": (_P, [_P, _I]),
    "GDALGetDriverByName": (_P, [_S]),
    "OGR_L_GetName": (_S, [_P]),
    "OGR_L_GetGeomType": (_U, [_P]),
    "OGR_L_GetGeometryColumn": (_S, [_P]),
    "OGR_L_GetSpatialRef": (_P, [_P]),
    "OGR_L_SetAttributeFilter": (_I, [_P, _S]),
    "OGR_L_ResetReading": (None, [_P]),
    "OGR_L_GetArrowStream": (ctypes.c_bool, [_P, _P, _LIST]),
    "OGR_GT_Flatten": (_U, [_U]),
    "OGRSetNonLinearGeometriesEnabledFlag": (None, [_I]),
    "OSRAutoIdentifyEPSG": (_I, [_P]),
    "OSRGetAuthorityName": (_S, [_P, _S]),
    "OSRGetAuthorityCode": (_S, [_P, _S]),
    "OSRExportToWkt": (_I, [_P, ctypes.POINTER(_P)]),
    "VSIFree": (None, [_P]),
    "CPLPushErrorHandler": (None, [_P]),
    "CPLPopErrorHandler": (None, []),
}
_ErrorHandler = ctypes.CFUNCTYPE(None, _I, _I, _S)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerReader:
    """A layer that is being read.

    Attributes
    ----------
    schema
        pyarrow schema of the batches.
    geometry
        The column that holds geometries as WKB, or None.
    is_points
        Whether its geometries are points.
    crs
        CRS of the geometries, ``EPSG:CODE`` or WKT; empty if there is none.
    batches
        pyarrow RecordBatches, once.
    """

    schema: Any
    geometry: str | None
    is_points: bool
    crs: str
    batches: Iterator[Any]


def known_drivers() -> set[str]:
    """The drivers that read vectors here."""
    return set(load("pyogrio").list_drivers(read=True))


def layer_names(path: Path, drivers: Sequence[str]) -> list[str]:
    """The layers of ``path``, in order.

    Raises
    ------
    RuntimeError
        None of ``drivers`` opens it.
    """
    load("pyogrio")
    gdal = _gdal()
    with _opened(path, drivers) as dataset, _failures():
        layers = [gdal.GDALDatasetGetLayer(dataset, at) for at in range(gdal.GDALDatasetGetLayerCount(dataset))]
        return [_text(gdal.OGR_L_GetName(layer)) for layer in layers]


@contextlib.contextmanager
def open_layer(
    path: Path, drivers: Sequence[str], layer: str, *, where: str | None, batch_rows: int
) -> Iterator[LayerReader]:
    """The rows of a layer for which ``where``, in GDAL's SQL, is true.

    Raises
    ------
    RuntimeError
        None of ``drivers`` opens the file, the condition is none, or GDAL fails while it reads.
    """
    gdal, pa = _gdal(), load("pyarrow")
    # The stream that GDAL has for FlatGeobuf itself is wrong at null geometries. The setting stays for this process.
    load("pyogrio").set_gdal_config_options({"OGR_FLATGEOBUF_STREAM_BASE_IMPL": "YES"})
    stream = (ctypes.c_void_p * _POINTERS_OF_A_STREAM)()
    with _opened(path, drivers) as dataset:
        with _failures() as failures:
            found = _layer(dataset, layer)
            if where and gdal.OGR_L_SetAttributeFilter(found, where.encode()) != 0:
                raise RuntimeError(_told(failures) or f"no condition: {where!r}")
            gdal.OGR_L_ResetReading(found)
            options = _list(*_STREAM_OPTIONS, f"MAX_FEATURES_IN_BATCH={batch_rows}")
            if not gdal.OGR_L_GetArrowStream(found, ctypes.addressof(stream), options):
                raise RuntimeError(_told(failures) or "no rows can be read")
            kind = gdal.OGR_L_GetGeomType(found)
            name = _text(gdal.OGR_L_GetGeometryColumn(found)) or "wkb_geometry"
            crs = _crs(found)
            reader = pa.RecordBatchReader._import_from_c(ctypes.addressof(stream))
        with contextlib.closing(reader):
            schema = reader.schema
            yield LayerReader(
                schema=schema,
                geometry=name if kind != _NO_GEOMETRY and name in schema.names else None,
                is_points=gdal.OGR_GT_Flatten(kind) == _POINT,
                crs=crs,
                batches=_batches(reader),
            )


def _batches(reader: Any) -> Iterator[Any]:
    while True:
        with _failures() as failures:
            batch = next(reader, None)
        if failures:
            # GDAL would go on without the row, or end as if there were no more.
            raise RuntimeError(_told(failures))
        if batch is None:
            return
        yield batch


@contextlib.contextmanager
def _opened(path: Path, drivers: Sequence[str]) -> Iterator[int]:
    gdal = _gdal()
    # SQLite would make files beside one in WAL mode, and carry out a journal that it finds there.
    options = ("IMMUTABLE=YES",) if set(drivers) & {"GPKG", "SQLite"} else ()
    # An absolute path can't be read as one of GDAL's prefixes.
    name = str(path.resolve()).encode()
    with _failures() as failures:
        gdal.OGRSetNonLinearGeometriesEnabledFlag(0)
        dataset = gdal.GDALOpenEx(name, _VECTOR | _VERBOSE_ERROR, _list(*drivers), _list(*options), None)
        if not dataset:
            raise RuntimeError(_told(failures) or f"no {' or '.join(drivers)}")
    try:
        yield dataset
    finally:
        with _failures():
            gdal.GDALClose(dataset)


def _layer(dataset: int, name: str) -> int:
    gdal = _gdal()
    for at in range(gdal.GDALDatasetGetLayerCount(dataset)):
        layer: int = gdal.GDALDatasetGetLayer(dataset, at)
        if _text(gdal.OGR_L_GetName(layer)) == name:
            return layer
    raise RuntimeError(f"no layer {name!r}")


def _crs(layer: int) -> str:
    gdal = _gdal()
    crs = gdal.OGR_L_GetSpatialRef(layer)
    if not crs:
        return ""
    gdal.OSRAutoIdentifyEPSG(crs)
    code = gdal.OSRGetAuthorityCode(crs, None)
    if code and gdal.OSRGetAuthorityName(crs, None) == _EPSG:
        return f"EPSG:{_text(code)}"
    wkt = ctypes.c_void_p()
    gdal.OSRExportToWkt(crs, ctypes.byref(wkt))
    try:
        return _text(ctypes.string_at(wkt.value)) if wkt.value else ""
    finally:
        gdal.VSIFree(wkt)


@contextlib.contextmanager
def _failures() -> Iterator[list[str]]:
    """A context of one thread in which GDAL prints nothing: what fails is put into the list."""
    gdal = _gdal()
    failures: list[str] = []

    def keep(severity: int, number: int, message: bytes | None) -> None:
        del number
        if severity >= _FAILURE:
            failures.append(_text(message))

    # GDAL calls it as long as the name holds it.
    handler = _ErrorHandler(keep)
    gdal.CPLPushErrorHandler(ctypes.cast(handler, ctypes.c_void_p))
    try:
        yield failures
    finally:
        gdal.CPLPopErrorHandler()


def _told(failures: Sequence[str]) -> str:
    # The first is the cause of those after it.
    return "; ".join(dict.fromkeys(reversed(failures[:_MOST_FAILURES])))


def _text(found: bytes | None) -> str:
    return (found or b"").decode("utf-8", "replace")


def _list(*texts: str) -> Any:
    return (ctypes.c_char_p * (len(texts) + 1))(*(text.encode() for text in texts), None)


@cache
def _gdal() -> Any:
    """pyogrio's GDAL, its drivers registered."""
    library = _library(Path(load("pyogrio._io").__file__))
    for name, (returned, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = returned, arguments
    return library


def _library(extension: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(extension))
    if hasattr(library, "GDALOpenEx"):
        return library
    # Windows finds no functions of the libraries that a library is linked to.
    beside = sorted(extension.parent.parent.glob("pyogrio.libs/gdal*.dll"))
    return ctypes.CDLL(str(beside[0]) if beside else "gdal")

"""The one place where a vector file is opened: the counterpart of :mod:`geotfr.rasters.safe_open`.

The format is told by the content, a name proves nothing. GeoPackage, GeoJSON, FlatGeobuf and Shapefile are opened by
GDAL's driver of that name and no other; CSV and Parquet are read by pyarrow. Any other driver must be allowed by name.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geotfr.errors import GeotfrError, InputError
from geotfr.file_kinds import kind_of
from geotfr.grid.crs import MAX_TEXT_CHARS, check_crs_text
from geotfr.regular_files import open_input
from geotfr.vectors import gdal_dataset
from geotfr.vectors.extra import load
from geotfr.vectors.flatgeobuf import crs_texts
from geotfr.vectors.linked_crs import check_no_linked_crs
from geotfr.vectors.sqlite_container import SqliteContainer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["PYARROW_DRIVERS", "VECTOR_DRIVERS", "VectorFile", "VectorKind", "safe_open", "tell_errors", "vector_kind"]

VECTOR_DRIVERS = ("GPKG", "GeoJSON", "FlatGeobuf", "ESRI Shapefile", "CSV", "Parquet")
"""GDAL's names of the formats that are read without being allowed."""

PYARROW_DRIVERS = ("CSV", "Parquet")
"""Those that pyarrow reads."""

SHAPEFILE_SUFFIXES = (".shx", ".dbf", ".prj", ".cpg", ".qix", ".sbn", ".sbx", ".idm", ".ind")
"""Files that GDAL opens beside a ``.shp``."""

_HEAD_BYTES = 1 << 16
_GEOMETRIES = ("Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection")
_GEOJSON_TYPES = frozenset(("FeatureCollection", "Feature", *_GEOMETRIES))
_JSON_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}:,]', re.DOTALL)
_TWO_OBJECTS = re.compile(rb"\}[\s\x1e]*\{")
_STRING_OR_TWO_OBJECTS = re.compile(rb'"(?:[^"\\]|\\.)*"|\}[\s\x1e]*\{', re.DOTALL)
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_MARKUP = re.compile(rb"<(?:[?!/]|[A-Za-z][\w:.-]*[\s/>])")


@dataclass(frozen=True, slots=True)
class VectorKind:
    """What a file is by its content.

    Attributes
    ----------
    words
        What it is, as an error says it.
    driver
        GDAL's driver for it; empty where the content doesn't tell.
    """

    words: str
    driver: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorFile:
    """A vector file that may be read.

    Attributes
    ----------
    path
        The file.
    drivers
        GDAL's drivers that may open it; one where the content tells.
    container
        Its tables and views, if it is a SQLite file.
    """

    path: Path
    drivers: tuple[str, ...]
    container: SqliteContainer | None

    @property
    def has_layers(self) -> bool:
        """Whether GDAL reads it."""
        return self.drivers[0] not in PYARROW_DRIVERS

    def layers(self) -> list[str]:
        """The names of its layers.

        Raises
        ------
        InputError
            GDAL can't open it.
        """
        with tell_errors(str(self.path)):
            return gdal_dataset.layer_names(self.path, self.drivers)

    def check_layer(self, layer: str) -> None:
        """Refuse a layer of SQLite's that reads elsewhere or never ends.

        Raises
        ------
        InputError, LimitError
            As :meth:`SqliteContainer.check_layer`.
        """
        if self.container is not None:
            self.container.check_layer(layer)

    def open_layer(
        self, layer: str, *, where: str | None, batch_rows: int
    ) -> contextlib.AbstractContextManager[gdal_dataset.LayerReader]:
        """The rows of a layer for which ``where`` is true."""
        return gdal_dataset.open_layer(self.path, self.drivers, layer, where=where, batch_rows=batch_rows)


def safe_open(path: Path, *, allow_drivers: Sequence[str] = ()) -> VectorFile:
    """The vector file or table ``path``, and the driver that may open it.

    Parameters
    ----------
    allow_drivers
        GDAL's drivers that may open it beside :data:`VECTOR_DRIVERS`. Where the content tells the driver, that one is
        used if it is allowed; where it doesn't, those of ``allow_drivers`` are tried.

    Raises
    ------
    MissingInputError
        There is no such file.
    InputError
        It is something else than an allowed format, or has a side file that leads elsewhere.
    LimitError
        A SQLite file with a view, in place of a table of its format, that never ends.
    """
    others = tuple(sorted(gdal_dataset.known_drivers() & {*allow_drivers} - {*VECTOR_DRIVERS})) if allow_drivers else ()
    if others and path.is_dir():
        return VectorFile(path=path, drivers=others, container=None)
    kind = vector_kind(path)
    container = None
    if kind == _SQLITE:
        container = SqliteContainer(path)
        kind = _SQLITE_KINDS[container.driver]
    if kind.driver in (*VECTOR_DRIVERS, *others):
        drivers: tuple[str, ...] = (kind.driver,)
    elif others and not kind.driver:
        drivers = others
    else:
        unknown = sorted({*allow_drivers} - {*VECTOR_DRIVERS, *others})
        flag = f"--allow-driver {kind.driver}" if kind.driver else "--allow-driver NAME"
        raise InputError(
            f"{path}: {kind.words}, not a table that is known; there are GeoPackage, GeoJSON, Shapefile (.shp),"
            f" FlatGeobuf, CSV and Parquet; if you trust it and GDAL reads it, pass {flag}"
            + (f"; GDAL has no driver of vectors named {unknown[0]!r} here" if unknown else "")
        )
    if drivers == ("GeoJSON",):
        check_no_linked_crs(path)
    if drivers == ("FlatGeobuf",):
        for text in crs_texts(path):
            check_crs_text(text, where=str(path))
    if drivers == ("ESRI Shapefile",):
        _check_shapefile(path)
    return VectorFile(path=path, drivers=drivers, container=container)


def vector_kind(path: Path) -> VectorKind:
    """What the file is, a GeoPackage being a SQLite file as others are.

    Raises
    ------
    MissingInputError, InputError
        There is no such file, or it is a folder, a pipe or a device.
    """
    with open_input(path, wanted="a table") as file:
        return _kind_of(path, file.read(_HEAD_BYTES), file.fileno())


@contextlib.contextmanager
def tell_errors(name: str) -> Iterator[None]:
    """Errors of the libraries as errors of the table ``name``."""
    pa = load("pyarrow")
    try:
        yield
    except GeotfrError:
        raise
    except (pa.ArrowException, RuntimeError, ValueError, OSError, OverflowError, KeyError, TypeError) as error:
        raise InputError(f"{name}: can't be read: {' '.join(str(error).split()) or type(error).__name__}") from error


_SQLITE = VectorKind("a SQLite file")
_SQLITE_KINDS = {
    "GPKG": VectorKind("a GeoPackage", "GPKG"),
    "MBTiles": VectorKind("map tiles in SQLite (MBTiles)", "MBTiles"),
    "SQLite": VectorKind("a SQLite database that is no GeoPackage", "SQLite"),
}
_JSON_KINDS = {
    "gdal_streamed_alg": VectorKind("a pipeline of GDAL (JSON that names other files)", "GDALG"),
    "Topology": VectorKind("TopoJSON", "TopoJSON"),
}
_SEQUENCE = VectorKind("a sequence of GeoJSON objects", "GeoJSONSeq")
_ESRI_JSON = VectorKind("ESRI's JSON", "ESRIJSON")
_JSON_FG = VectorKind("JSON-FG", "JSONFG")
_VRT = VectorKind("a VRT (XML that names other files)", "OGR_VRT")


def _kind_of(path: Path, head: bytes, descriptor: int) -> VectorKind:
    suffix = path.suffix.lower()
    if head.startswith(b"PAR1"):
        return VectorKind("a Parquet file", "Parquet")
    if head.startswith(b"SQLite format 3\0"):
        return _SQLITE
    if head.startswith(b"fgb\x03fgb"):
        return VectorKind("a FlatGeobuf file", "FlatGeobuf")
    if head.startswith(b"\x00\x00\x27\x0a"):
        if suffix == ".shp":
            return VectorKind("a Shapefile", "ESRI Shapefile")
        return VectorKind("a Shapefile or its index, whose name doesn't end in .shp")
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n\x1e")
    if text.startswith(b"{"):
        return _json_kind(text, descriptor)
    if text.startswith(b"<OGRVRTDataSource"):
        return _VRT
    kind = kind_of(head)
    # UTF-16 has zeros, and is refused by a better word where it is read.
    is_text = not _CONTROLS.search(head) or head.startswith((b"\xff\xfe", b"\xfe\xff"))
    is_odd_text = b"\0" not in head and kind == kind_of(b"\1")
    is_markup = _MARKUP.match(text) or text.startswith(b"version https://git-lfs")
    if suffix in (".csv", ".tsv") and (is_text or is_odd_text) and not is_markup:
        return VectorKind("a table as text", "CSV")
    return VectorKind(kind.words)


def _json_kind(text: bytes, descriptor: int) -> VectorKind:
    members = dict(_members(text))
    kind = members.get("type")
    if kind in _JSON_KINDS:
        return _JSON_KINDS[str(kind)]
    if "geometryType" in members:
        return _ESRI_JSON
    if "conformsTo" in members and b"json-fg" in text:
        return _JSON_FG
    if isinstance(kind, str) and kind not in _GEOJSON_TYPES:
        return VectorKind(f"JSON of type {kind[:40]!r}")
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as whole:
        if _TWO_OBJECTS.search(whole) and any(found[0][:1] == b"}" for found in _STRING_OR_TWO_OBJECTS.finditer(whole)):
            return _SEQUENCE
    return VectorKind("GeoJSON", "GeoJSON")


def _members(text: bytes) -> Iterator[tuple[str, Any]]:
    """The outermost members in the beginning of a JSON object, the first of each name; None for what is no text."""
    depth = 0
    name: bytes | None = None
    last: bytes | None = None
    seen: set[str] = set()
    for found in _JSON_TOKEN.finditer(text):
        token = found[0]
        if token in b"{[":
            depth += 1
        elif token in b"]}":
            depth -= 1
            if not depth:
                return
        if depth == 1 and token == b":":
            name = last
            continue
        if name is not None:
            with contextlib.suppress(ValueError):
                key = json.loads(name)
                if key not in seen:
                    seen.add(key)
                    yield key, json.loads(token) if token.startswith(b'"') else None
            name = None
        last = token


def _check_shapefile(path: Path) -> None:
    real = path.resolve()
    for suffix in SHAPEFILE_SUFFIXES:
        for side in (real.with_suffix(suffix), real.with_suffix(suffix.upper())):
            if not side.exists() and not side.is_symlink():
                continue
            if side.is_symlink() or not side.is_file():
                raise InputError(f"{side}: side file of {path.name}, a link, pipe or device; put the file itself there")
            if suffix == ".prj":
                with side.open("rb") as file:
                    text = file.read(MAX_TEXT_CHARS)
                check_crs_text(text.decode("utf-8", "replace"), where=str(side))
            if suffix == ".idm":
                raise InputError(f"{side}: side file of {path.name} that names other files; remove it")

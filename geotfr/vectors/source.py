"""Tables as streams of batches: vector files, CSV, Parquet, frames.

Files come through :func:`geotfr.vectors.safe_open.safe_open`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geotfr.errors import InputError, UsageError
from geotfr.grid.crs import crs_text, crs_wkt
from geotfr.mixer.strict_json import parse_json
from geotfr.stores.path import local_text
from geotfr.vectors.condition import condition_on, filtered
from geotfr.vectors.csv_integers import types_of_large_integers
from geotfr.vectors.expression import parse_expression
from geotfr.vectors.extra import load
from geotfr.vectors.geoparquet import covering_columns
from geotfr.vectors.ogr_stream import OgrTimes, check_batch, time_columns
from geotfr.vectors.safe_open import VectorFile, safe_open, tell_errors

if TYPE_CHECKING:
    import contextlib

    from geotfr.options import TableOptions
    from geotfr.vectors.gdal_dataset import LayerReader

__all__ = ["Table", "TableRequest", "is_frame", "open_table", "table_in_memory"]

BATCH_BYTES = 4 << 20
"""What rows that are read at a time take, about: large enough that numpy's steps on a column outlast what surrounds
them, small enough for the processor's cache."""

_FEWEST_ROWS, _MOST_ROWS = 1 << 12, 1 << 16
_ITEM_BYTES = 8
_UNKNOWN_BYTES = 256
"""What a text, a geometry or a list of any length is taken for."""

CSV_BLOCK_BYTES = 16 << 20
"""The part of a CSV from which its columns' types are known."""

CSV_NULLS = ("", "NA", "N/A", "null", "NULL")
"""Cells of number and date columns that hold no value; text stays as it is."""

_OGR_ROWS = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """Which rows of a source, and where its points are.

    Attributes
    ----------
    layer
        Name of the layer; needed where there are several.
    where
        A filter of rows: OGR's SQL where GDAL reads, else :mod:`geotfr.vectors.expression`.
    x, y
        Columns with the points' coordinates, in a table without geometries.
    crs
        CRS of the geometries, in place of the source's own; EPSG:4326 for ``x`` and ``y`` unless told.
    layer_option
        What names the layer, for errors; empty where nothing does.
    allow_drivers
        Drivers of GDAL that may open a file beside those of the known formats.
    """

    layer: str | None = None
    where: str | None = None
    x: str | None = None
    y: str | None = None
    crs: str | None = None
    layer_option: str = "--layer"
    allow_drivers: tuple[str, ...] = ()

    @staticmethod
    def of(options: TableOptions) -> TableRequest:
        """What ``options`` ask for."""
        return TableRequest(
            layer=options.layer,
            where=options.where,
            x=options.x,
            y=options.y,
            crs=options.crs,
            allow_drivers=options.allow_drivers,
        )

    def __post_init__(self) -> None:
        if (self.x is None) != (self.y is None):
            raise UsageError("--x and --y: one is given without the other; name both columns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of a source, batch by batch.

    Attributes
    ----------
    name
        The source in errors: its path, or what it is.
    file
        The file, or None for what is in memory.
    schema
        pyarrow schema of the batches.
    geometry
        The column that holds geometries as WKB, or None.
    xy
        The columns that hold the points' coordinates, or None.
    crs
        CRS of the geometries; empty if not known.
    is_points
        Whether all geometries are known to be points.
    rows
        Their number, if known.
    batches
        A new iterator of pyarrow RecordBatches.
    warnings
        What a user should know of how it is read, one line each.
    """

    name: str
    file: Path | None
    schema: Any
    geometry: str | None
    xy: tuple[str, str] | None
    crs: str
    is_points: bool
    rows: int | None
    batches: Callable[[], Iterator[Any]]
    warnings: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """Names of the columns that are no geometry."""
        return [name for name in self.schema.names if name != self.geometry]

    @property
    def has_geometry(self) -> bool:
        """Whether there are geometries, of any type."""
        return self.geometry is not None or self.xy is not None

    def select(self, names: Sequence[str]) -> Table:
        """The table with the columns ``names`` alone, in that order."""
        schema = load("pyarrow").schema([self.schema.field(name) for name in names])
        geometry = self.geometry if self.geometry in names else None
        return replace(
            self,
            schema=schema,
            geometry=geometry,
            batches=lambda: (batch.select(list(names)) for batch in self.batches()),
        )


def is_frame(source: object) -> bool:
    """Whether ``source`` is a frame of pandas or geopandas, whose import isn't needed to tell.

    >>> is_frame("points.gpkg")
    False
    """
    return any(
        base.__module__.partition(".")[0] == "pandas" and base.__name__ == "DataFrame" for base in type(source).__mro__
    )


def open_table(source: Any, request: TableRequest) -> Table:
    """The table ``source``: GeoPackage, GeoJSON, Shapefile, FlatGeobuf, CSV, Parquet, or a frame.

    Raises
    ------
    MissingInputError, InputError
        No such file, no such format, or a damaged one; another layer or column than there is.
    UsageError
        Several layers and none is named, or options that the format hasn't.
    """
    has_layers = False
    if is_frame(source):
        table = _from_frame(source)
    else:
        file = safe_open(Path(local_text(os.fspath(source))), allow_drivers=request.allow_drivers)
        has_layers = file.has_layers
        if has_layers:
            table = _from_gdal(file, request)
        else:
            table = {"CSV": _from_csv, "Parquet": _from_parquet}[file.drivers[0]](file.path)
    if request.layer is not None and not has_layers:
        raise UsageError(f"--layer: {table.name} has no layers; leave the option out")
    twice = sorted({name for name in table.schema.names if table.schema.names.count(name) > 1})
    if twice:
        raise InputError(f"{table.name}: the column {twice[0]!r} is there twice; rename one")
    if request.where is not None and not has_layers:
        table = _where(table, request.where)
    return _with_points(table, request)


def table_in_memory(name: str, arrow: Any, *, geometry: str | None, crs: str, is_points: bool) -> Table:
    """A pyarrow Table as a :class:`Table`."""
    return Table(
        name=name,
        file=None,
        schema=arrow.schema,
        geometry=geometry,
        xy=None,
        crs=crs,
        is_points=is_points,
        rows=arrow.num_rows,
        batches=lambda: iter(arrow.to_batches(max_chunksize=_batch_rows(arrow.schema))),
    )


def _batch_rows(schema: Any) -> int:
    """How many rows of a pyarrow ``schema`` are read at a time."""
    return min(max(BATCH_BYTES // max(sum(map(_value_bytes, schema.types)), 1), _FEWEST_ROWS), _MOST_ROWS)


def _value_bytes(kind: Any) -> int:
    """What a value of this pyarrow type takes, about."""
    types = load("pyarrow").types
    if types.is_fixed_size_list(kind):
        return int(kind.list_size) * _value_bytes(kind.value_type)
    return _ITEM_BYTES if types.is_primitive(kind) else _UNKNOWN_BYTES


def _where(table: Table, text: str) -> Table:
    """The rows of ``table`` for which the condition ``text`` is true."""
    condition = condition_on(parse_expression(text), table.schema, table=table.name)

    def batches() -> Iterator[Any]:
        kept = (filtered(batch, condition) for batch in table.batches())
        return (batch for batch in kept if batch.num_rows)

    return replace(table, rows=None, batches=_reading(table.name, batches))


def _with_points(table: Table, request: TableRequest) -> Table:
    crs = table.crs if request.crs is None else crs_text(crs_wkt(request.crs))
    xy = table.xy
    if request.x is not None and request.y is not None:
        if table.geometry is not None:
            raise UsageError(f"--x, --y: {table.name} has geometries of its own; leave these options out")
        for option, name in (("--x", request.x), ("--y", request.y)):
            if name not in table.schema.names:
                raise InputError(
                    f"{table.name}: there is no column {name!r} for {option}; there are {', '.join(table.columns)}"
                )
        xy, crs = (request.x, request.y), crs or "EPSG:4326"
    return replace(table, xy=xy, crs=crs, is_points=table.is_points or xy is not None)


def _reading(name: str, batches: Callable[[], Iterator[Any]]) -> Callable[[], Iterator[Any]]:
    """``batches`` with the libraries' errors told."""

    def read() -> Iterator[Any]:
        with tell_errors(name):
            yield from batches()

    return read


def _from_parquet(path: Path) -> Table:
    pq, is_struct = load("pyarrow.parquet"), load("pyarrow").types.is_struct
    name = str(path)
    with tell_errors(name), pq.ParquetFile(path) as file:
        schema, metadata, rows = file.schema_arrow, file.schema_arrow.metadata or {}, file.metadata.num_rows
    geometry, crs, is_points, covering = _geoparquet(name, metadata.get(b"geo"))
    # Bounds of geometries are no columns of the table's own.
    own = [place for place, field in enumerate(schema) if field.name not in covering or not is_struct(field.type)]
    schema = load("pyarrow").schema([schema.field(place) for place in own])

    def batches() -> Iterator[Any]:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_batch_rows(schema)):
                yield batch.select(own) if covering else batch

    return Table(
        name=name,
        file=path,
        schema=schema.remove_metadata(),
        geometry=geometry,
        xy=None,
        crs=crs,
        is_points=is_points,
        rows=rows,
        batches=_reading(name, batches),
    )


def _geoparquet(name: str, geo: bytes | None) -> tuple[str | None, str, bool, set[str]]:
    """The geometry column, the CRS, whether there are points alone, and columns of bounds, as the metadata tell."""
    if geo is None:
        return None, "", False, set()
    import json

    found = parse_json(geo, name=name, what="GeoParquet description")
    try:
        primary = str(found["primary_column"])
        column = found["columns"][primary]
        encoding, crs, kinds = column["encoding"], column.get("crs", "OGC:CRS84"), set(column["geometry_types"])
        covering = covering_columns(found)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{name}: its GeoParquet description lacks {error}") from error
    if encoding != "WKB":
        raise InputError(f"{name}: its geometries are encoded as {encoding!r}; write them as WKB first")
    text = "" if crs is None else crs_text(crs if isinstance(crs, str) else json.dumps(crs))
    return primary, text, bool(kinds) and kinds <= {"Point", "Point Z"}, covering


def _from_csv(path: Path) -> Table:
    csv = load("pyarrow.csv")
    name = str(path)
    options: dict[str, Any] = {
        "read_options": csv.ReadOptions(block_size=CSV_BLOCK_BYTES),
        "parse_options": csv.ParseOptions(delimiter="\t" if path.suffix.lower() == ".tsv" else ","),
        "convert_options": csv.ConvertOptions(null_values=list(CSV_NULLS)),
    }
    with path.open("rb") as text:
        if text.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            raise InputError(f"{name}: the text is UTF-16; convert the file to UTF-8 first")
    with tell_errors(name), csv.open_csv(path, **options) as file:
        schema = file.schema
    try:
        typed = zip(schema.names, schema.types, strict=True)
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: the name of a column isn't UTF-8; convert the file to UTF-8 first") from error
    binary = [column for column, arrow in typed if load("pyarrow").types.is_binary(arrow)]
    if binary:
        # pyarrow's word for text of another encoding.
        raise InputError(f"{name}: column {binary[0]!r} holds text that isn't UTF-8; convert the file to UTF-8 first")
    with tell_errors(name):
        large = types_of_large_integers(path, schema, options)
        if large:
            options["convert_options"].column_types = large
            with csv.open_csv(path, **options) as file:
                schema = file.schema

    count = _batch_rows(schema)

    def batches() -> Iterator[Any]:
        with csv.open_csv(path, **options) as file:
            for batch in file:
                for start in range(0, batch.num_rows, count):
                    yield batch.slice(start, count)

    return Table(
        name=name,
        file=path,
        schema=schema,
        geometry=None,
        xy=None,
        crs="",
        is_points=False,
        rows=None,
        batches=_reading(name, batches),
    )


def _from_gdal(file: VectorFile, request: TableRequest) -> Table:
    name = str(file.path)
    layer = _layer(file, request)
    file.check_layer(layer)
    # Whether the condition is at fault or the file, GDAL tells in its own words.
    told = name if request.where is None else f"{name}: where {request.where!r}"

    def opened() -> contextlib.AbstractContextManager[LayerReader]:
        return file.open_layer(layer, where=request.where, batch_rows=_OGR_ROWS)

    with tell_errors(told), opened() as reader:
        found, schema = reader, reader.schema
        timed = time_columns(schema)
        times = OgrTimes.of(timed, reader.batches, table=name) if timed else OgrTimes({})
        schema = times.schema(schema)

    def batches() -> Iterator[Any]:
        row = 0
        with opened() as reader:
            for batch in reader.batches:
                check_batch(batch, table=name, first_row=row)
                yield times.typed(batch, schema, table=name, first_row=row) if timed else batch
                row += batch.num_rows

    return Table(
        name=name,
        file=file.path,
        schema=schema,
        geometry=found.geometry,
        xy=None,
        crs=crs_text(crs_wkt(found.crs)) if found.crs else "",
        is_points=found.is_points,
        rows=None,
        batches=_reading(told, batches),
        warnings=times.warnings,
    )


def _layer(file: VectorFile, request: TableRequest) -> str:
    wanted, layers = request.layer, file.layers()
    listed = ", ".join(layers)
    if wanted is not None and wanted not in layers:
        raise InputError(f"{file.path}: there is no layer {wanted!r}; there are {listed or 'none'}")
    if not layers:
        raise InputError(f"{file.path}: has no layers of features")
    if wanted is None and len(layers) != 1:
        hint = f"name one with {request.layer_option}" if request.layer_option else "give a file of one layer"
        raise UsageError(f"{file.path}: has {len(layers)} layers ({listed}); {hint}")
    return wanted or layers[0]


def _from_frame(frame: Any) -> Table:
    pa = load("pyarrow")
    name = f"the {type(frame).__name__}"
    own = getattr(frame, "_geometry_column_name", None)
    geometry = own if own in getattr(frame, "columns", ()) else None
    crs, is_points = "", False
    names = [column for column in frame.columns if column != geometry]
    if not all(isinstance(column, str) for column in names):
        raise InputError(f"{name}: a column's name is no text; rename the columns")
    arrays = {column: _array_of(frame[column], f"{name}: column {column!r}") for column in names}
    if geometry is not None:
        shapes = frame[geometry]
        is_points = bool((shapes.geom_type.dropna() == "Point").all())
        crs = "" if shapes.crs is None else crs_text(shapes.crs.to_wkt())
        arrays[geometry] = pa.array(shapes.to_wkb().to_numpy(object), pa.binary(), from_pandas=True)
    return table_in_memory(name, pa.table(arrays), geometry=geometry, crs=crs, is_points=is_points)


def _array_of(series: Any, where: str) -> Any:
    pa = load("pyarrow")
    try:
        found = pa.array(series, from_pandas=_has_missing_as_null(series))
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        told = " ".join(str(error).split())
        raise InputError(f"{where} has values of several types, or of none: {told}") from error
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _has_missing_as_null(series: Any) -> bool:
    """Whether a missing value of the series is null: NaN in a float column is a value."""
    return str(series.dtype) not in ("float16", "float32", "float64")

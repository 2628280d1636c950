"""Tables written: GeoPackage, GeoJSON, FlatGeobuf, GeoParquet, CSV, and frames.

Batches pass one at a time. The caller gives a path or an open file, and names the file when it is whole.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import GeotfrError, OutputError, UsageError
from geotfr.grid.crs import crs_wkt
from geotfr.records.runs import splits_of
from geotfr.vectors.extra import load
from geotfr.vectors.geometry import shapes_of_wkb
from geotfr.vectors.geoparquet import BBOX, ByteSink, Writable, bbox_column, bbox_type, geo_metadata, wkb_bounds
from geotfr.vectors.ogr_fields import OgrColumn, OgrGeometry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["ByteSink", "TableShape", "WrittenTable", "is_vector_name", "needs_path", "to_frame", "write_table"]

_DRIVERS = {".gpkg": "GPKG", ".geojson": "GeoJSON", ".json": "GeoJSON", ".fgb": "FlatGeobuf"}
_PARQUET = (".parquet", ".geoparquet")
_OPTIONS: dict[str, dict[str, str]] = {
    "GPKG": {},
    # 15 decimals: a coordinate reads back equal.
    "GeoJSON": {"COORDINATE_PRECISION": "15", "WRITE_NAME": "NO"},
    # Its index would put the rows in another order, and takes no null geometry.
    "FlatGeobuf": {"SPATIAL_INDEX": "NO"},
}
_MAX_PARQUET_GROUP_ROWS = 1 << 17


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """What a table to be written is.

    Attributes
    ----------
    schema
        pyarrow schema of the batches.
    geometry
        The column of WKB, or None.
    is_points
        Whether all geometries are points.
    crs
        CRS of the geometries; empty for none.
    """

    schema: Any
    geometry: str | None
    is_points: bool
    crs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTable:
    """A table that is written.

    Attributes
    ----------
    columns
        Its columns, in order.
    warnings
        What the format couldn't hold.
    """

    columns: tuple[str, ...]
    warnings: tuple[str, ...]


def is_vector_name(path: str | Path) -> bool:
    """Whether a file of that name can be written as a table.

    >>> is_vector_name("a.gpkg"), is_vector_name("training/plots")
    (True, False)
    """
    return Path(path).suffix.lower() in (*_DRIVERS, *_PARQUET, ".csv")


def needs_path(path: Path) -> bool:
    """Whether the format of that name is written by GDAL, which takes no open file.

    Raises
    ------
    UsageError
        A suffix that isn't known.
    """
    if not is_vector_name(path):
        raise UsageError(f"{path}: no format is known by its suffix; use .gpkg, .geojson, .fgb, .parquet or .csv")
    return path.suffix.lower() in _DRIVERS


def write_table(
    target: Path | ByteSink, shape: TableShape, batches: Iterable[Any], *, name: Path, on_batch: Callable[[int], None]
) -> WrittenTable:
    """Write ``batches`` in the format of the suffix of ``name``.

    Parameters
    ----------
    target
        The path to write to if :func:`needs_path` says so, else an open file.
    name
        The output's final name.
    on_batch
        Gets the rows of each batch.

    Raises
    ------
    UsageError
        Values that the format can't hold.
    OutputError
        The file can't be written.
    """
    suffix = name.suffix.lower()
    _check_types(name, shape)
    shape, fit, held = _fitted(name, shape)
    failed: list[GeotfrError] = []

    def counted() -> Iterator[Any]:
        try:
            for batch in batches:
                on_batch(batch.num_rows)
                yield fit(batch)
        except GeotfrError as error:
            # Arrow's streams carry the text of an error only.
            failed.append(error)
            raise

    with _told(name, failed):
        if isinstance(target, Path):
            _write_ogr(target, name.stem, _DRIVERS[suffix], shape, counted())
        elif suffix == ".csv":
            _write_csv(target, shape, counted())
        else:
            _write_parquet(target, shape, counted())
    told = tuple(warning for column in held for warning in column.warnings())
    return WrittenTable(columns=tuple(shape.schema.names), warnings=told)


def to_frame(shape: TableShape, batches: Iterable[Any]) -> Any:
    """The whole table as a frame: of geopandas where there are geometries, else of pandas."""
    pa = load("pyarrow")
    pandas = load("pandas")
    table = pa.Table.from_batches(list(batches), schema=shape.schema)
    if shape.geometry is None:
        return table.to_pandas()
    geopandas = load("geopandas")
    wkb = table[shape.geometry].to_pandas()
    frame = table.drop_columns([shape.geometry]).to_pandas()
    series = geopandas.GeoSeries.from_wkb(pandas.Series(wkb, dtype=object), crs=crs_wkt(shape.crs) or None)
    return geopandas.GeoDataFrame(frame, geometry=series)


def _check_types(path: Path, shape: TableShape) -> None:
    types = load("pyarrow").types
    suffix = path.suffix.lower()
    for column in shape.schema:
        if column.name == shape.geometry:
            continue
        if types.is_binary(column.type) and suffix in (".csv", ".geojson", ".json"):
            raise UsageError(
                f"{path}: column {column.name!r} holds bytes that aren't text; use .gpkg, .fgb or .parquet"
            )


def _after(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda array: second(first(array))


def _fitted(path: Path, shape: TableShape) -> tuple[TableShape, Callable[[Any], Any], list[OgrColumn | OgrGeometry]]:
    """``shape`` as the format can hold it, what makes its batches of the table's, and columns that GDAL writes.

    Parquet has arrays of any form. GeoJSON has flat lists. Elsewhere an array of known length becomes the columns
    ``name_0``, ``name_1``, ...
    """
    pa = load("pyarrow")
    suffix = path.suffix.lower()
    if suffix in _PARQUET:
        return shape, lambda batch: batch, []
    fields: list[Any] = []
    columns: list[OgrColumn | OgrGeometry] = []
    makers: list[tuple[str, Callable[[Any], Any]]] = []
    for field in shape.schema:
        if pa.types.is_nested(field.type) and suffix not in (".geojson", ".json"):
            parts = _elements(path, field)
        elif pa.types.is_nested(field.type):
            parts = [(pa.field(field.name, pa.list_(_innermost(field.type))), _flat)]
        else:
            parts = [(field, lambda array: array)]
        if suffix in _DRIVERS:
            held: list[OgrColumn | OgrGeometry] = [
                OgrGeometry(part, where=str(path), suffix=suffix)
                if part.name == shape.geometry
                else OgrColumn(part, where=str(path), suffix=suffix)
                for part, _ in parts
            ]
            parts = [(column.field, _after(make, column)) for column, (_, make) in zip(held, parts, strict=True)]
            columns += held
        fields += [part for part, _ in parts]
        makers += [(field.name, make) for _, make in parts]
    schema = pa.schema(fields)
    twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{path}: an array makes the column {twice!r}, which is there already; use .parquet")

    def fit(batch: Any) -> Any:
        return pa.RecordBatch.from_arrays([make(batch.column(name)) for name, make in makers], schema=schema)

    return replace(shape, schema=schema), fit, columns


def _elements(path: Path, field: Any) -> list[tuple[Any, Callable[[Any], Any]]]:
    """The columns that the elements of an array make, in row-major order."""
    pa, pc = load("pyarrow"), load("pyarrow.compute")
    sizes = []
    found = field.type
    while pa.types.is_nested(found):
        if not pa.types.is_fixed_size_list(found):
            raise UsageError(
                f"{path}: column {field.name!r} holds arrays of lengths that may differ, which this format hasn't; use"
                " .parquet or .geojson"
            )
        sizes.append(found.list_size)
        found = found.value_type

    def element(places: tuple[int, ...]) -> Callable[[Any], Any]:
        return lambda array: reduce(pc.list_element, places, array)

    return [
        (pa.field(f"{field.name}_{number}", found), element(places))
        for number, places in enumerate(product(*map(range, sizes)))
    ]


def _innermost(arrow: Any) -> Any:
    while load("pyarrow").types.is_nested(arrow):
        arrow = arrow.value_type
    return arrow


def _flat(array: Any) -> Any:
    """An array of arrays as an array of flat lists."""
    pa, pc = load("pyarrow"), load("pyarrow.compute")
    present = np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
    splits = np.arange(len(array) + 1, dtype=np.int64)
    while pa.types.is_nested(array.type):
        lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
        splits = splits_of(lengths.to_numpy(zero_copy_only=False))[splits]
        array = array.flatten()
    return pa.ListArray.from_arrays(pa.array(splits.astype(np.int32), mask=np.append(~present, False)), array)


@contextlib.contextmanager
def _told(path: Path, failed: list[GeotfrError]) -> Iterator[None]:
    """Errors of the libraries as errors of the output; the first of ``failed`` where that is the cause."""
    pa = load("pyarrow")
    try:
        yield
    except GeotfrError:
        raise
    except (pa.ArrowException, RuntimeError, ValueError, OSError) as error:
        if failed:
            raise failed[0] from error
        raise OutputError(f"{path}: can't be written: {' '.join(str(error).split())}") from error


def _write_csv(file: ByteSink, shape: TableShape, batches: Iterator[Any]) -> None:
    csv, pa = load("pyarrow.csv"), load("pyarrow")
    is_text = shape.geometry is not None
    schema = shape.schema
    if shape.geometry is not None:
        place = schema.get_field_index(shape.geometry)
        schema = schema.set(place, pa.field(shape.geometry, pa.string()))
    with csv.CSVWriter(pa.PythonFile(Writable(file), "w"), schema) as writer:
        for batch in batches:
            writer.write_batch(_with_wkt(batch, shape, schema) if is_text else batch)


def _with_wkt(batch: Any, shape: TableShape, schema: Any) -> Any:
    """The batch with its geometries as WKT."""
    import shapely

    pa = load("pyarrow")
    place = batch.schema.get_field_index(shape.geometry)
    shapes = shapes_of_wkb(batch.column(place), where="the records", first_row=0)
    texts = pa.array(shapely.to_wkt(shapes, rounding_precision=-1), pa.string())
    arrays = [texts if number == place else batch.column(number) for number in range(batch.num_columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _write_parquet(file: ByteSink, shape: TableShape, batches: Iterator[Any]) -> None:
    pa, pq = load("pyarrow"), load("pyarrow.parquet")
    schema = shape.schema
    if shape.geometry is not None:
        kinds = ["Point"] if shape.is_points else []
        bbox = BBOX
        while bbox in schema.names:
            bbox += "_"
        geo = geo_metadata(shape.geometry, geometry_types=kinds, crs=shape.crs, bbox=bbox)
        schema = schema.append(pa.field(bbox, bbox_type())).with_metadata({"geo": json.dumps(geo)})
        batches = (_with_bounds(batch, shape.geometry, schema) for batch in batches)
    # Dictionaries of measured numbers only cost time.
    types = pa.types
    worth = [field.name for field in schema if types.is_string(field.type) or types.is_boolean(field.type)]
    with pq.ParquetWriter(
        pa.PythonFile(Writable(file), "w"), schema, compression="zstd", use_dictionary=worth or False
    ) as writer:
        held: list[Any] = []
        rows = 0
        for batch in batches:
            held.append(batch)
            rows += batch.num_rows
            if rows >= _MAX_PARQUET_GROUP_ROWS:
                writer.write_table(_joined(held, schema))
                held, rows = [], 0
        if held:
            writer.write_table(_joined(held, schema))


def _with_bounds(batch: Any, geometry: str, schema: Any) -> Any:
    """The batch with a last column of the bounds of its geometries."""
    bounds = bbox_column(wkb_bounds(batch.column(batch.schema.get_field_index(geometry))))
    return load("pyarrow").RecordBatch.from_arrays([*batch.columns, bounds], schema=schema.remove_metadata())


def _joined(batches: Sequence[Any], schema: Any) -> Any:
    """The batches as a pyarrow Table of this schema."""
    table = load("pyarrow").Table.from_batches(batches)
    # A cast imports pyarrow's compute functions, which takes 70 ms.
    return table.replace_schema_metadata(schema.metadata) if table.schema.equals(schema) else table.cast(schema)


def _write_ogr(path: Path, layer: str, driver: str, shape: TableShape, batches: Iterator[Any]) -> None:
    pa, pyogrio = load("pyarrow"), load("pyogrio")
    reader = pa.RecordBatchReader.from_batches(shape.schema, batches)
    geometry_type = None
    if shape.geometry is not None:
        geometry_type = "Point" if shape.is_points else "Unknown"
    # The time of writing would make equal tables differ.
    pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": "1970-01-01T00:00:00.000Z"})
    try:
        with warnings.catch_warnings():
            # GDAL's remarks on the temporary name.
            warnings.simplefilter("ignore")
            pyogrio.write_arrow(
                reader,
                path,
                layer=layer,
                driver=driver,
                geometry_name=shape.geometry,
                geometry_type=geometry_type,
                crs=crs_wkt(shape.crs) or None,
                layer_options=_OPTIONS[driver],
            )
    finally:
        pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": None})

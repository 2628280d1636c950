"""Ingest of tables: records -> features -> columns, beside a source's if asked -> a vector file or a frame."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geotfr.errors import InputError, UsageError
from geotfr.flags import checks_flags
from geotfr.mixer.names import natural_key
from geotfr.options.values import texts
from geotfr.pipeline.progress import progress_bar
from geotfr.pipeline.sizes import human_bytes
from geotfr.records.faults import ReadReport
from geotfr.storage.atomic import atomic_output, atomic_path
from geotfr.storage.inputs import check_not_input
from geotfr.stores.path import input_path, output_path
from geotfr.vectors.join import joined_by_key, joined_by_order
from geotfr.vectors.manifest import find_table_manifest
from geotfr.vectors.records import GeometryRequest, record_table
from geotfr.vectors.sink import TableShape, WrittenTable, needs_path, to_frame, write_table
from geotfr.vectors.source import TableRequest, open_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from geotfr.pipeline.progress import Progress
    from geotfr.records.framing import BadRecord
    from geotfr.vectors.records import RecordTable
    from geotfr.vectors.source import Table

__all__ = ["IngestTableResult", "ingest_table", "write_vector_file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestTableResult:
    """What an ingest of records wrote.

    Attributes
    ----------
    output
        The file; None where a frame was asked for.
    frame
        The geopandas or pandas frame where no output was named, else None.
    rows
        Rows written.
    columns
        Their columns, in order, the geometry too.
    records_lost
        Records that are in no row: damaged ones that were left out, as far as they could be counted, and all of a file
        whose records have no feature at all.
    size_bytes
        Bytes of the file.
    seconds
        Wall time.
    notes, warnings
        What a user may and what a user should know, one line each.
    """

    output: Path | None
    frame: Any
    rows: int
    columns: tuple[str, ...]
    records_lost: int
    size_bytes: int
    seconds: float
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON types."""
        return {
            "output": None if self.output is None else str(self.output),
            "rows": self.rows,
            "columns": list(self.columns),
            "records_lost": self.records_lost,
            "bytes": self.size_bytes,
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }

    def to_text(self) -> str:
        """The summary for a person."""
        return "\n".join(
            (
                f"wrote    {self.rows:,} rows to {self.output}, {human_bytes(self.size_bytes)}, in"
                f" {self.seconds:.1f} s",
                f"columns  {', '.join(self.columns)}",
            )
        )


@checks_flags
def ingest_table(
    records: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str] | None = None,
    *,
    x: str | None = None,
    y: str | None = None,
    geometry_column: str | None = None,
    crs: str | None = None,
    date_format: str | None = None,
    join: Any = None,
    key: str | None = None,
    layer: str | None = None,
    allow_drivers: Sequence[str] = (),
    on_bad_record: BadRecord = "error",
    overwrite: bool = False,
    progress: bool | Progress = False,
) -> IngestTableResult:
    """Turn TFRecord files of Examples into a table, one record a row, as Earth Engine's table ingest does.

    Types, order and geometry come from the manifest beside the file, where ``export_table`` wrote one. Else kinds and
    lengths decide: float32, int64, text or bytes, lists.

    Parameters
    ----------
    records
        One file, or several in natural order.
    output
        A .gpkg, .geojson, .fgb, .parquet or .csv file; None gives a frame in the result.
    x, y
        Features with the points' coordinates. By default ``longitude`` and ``latitude``, where they are.
    geometry_column
        Feature with geometries as WKB or GeoJSON.
    crs
        CRS of the geometries; by default the manifest's, or EPSG:4326.
    date_format
        Format (as strptime's) of dates: text columns whose every value has it become timestamps.
    join
        A source table (file or frame) that the records' columns are put beside.
    key
        The column that tells which row of ``join`` a record belongs to. By default the order does.
    layer
        The layer of ``join``.
    allow_drivers
        GDAL drivers that may open ``join`` beside those of the known formats, as KML; only for files that you trust.
    on_bad_record
        ``error``, ``skip`` or ``repair``, as :func:`geotfr.read_records`.
    overwrite
        Replace an output that exists.
    progress
        True for a bar on stderr, or a function of (rows, bytes).

    Raises
    ------
    RecordError
        Damaged records, a feature of several kinds, or records and rows that don't fit each other.
    InputError
        A file or feature that isn't there.
    UsageError
        Options that contradict each other, or values that the output's format can't hold.
    OutputError
        The output can't be written, or exists and ``overwrite`` is False.

    Notes
    -----
    **Source**: Earth Engine's table ingest makes points of ``longitude`` and ``latitude``.

    Examples
    --------
    >>> import geotfr
    >>> geotfr.ingest_table("training/plots.tfrecord.gz", "plots.gpkg")  # doctest: +SKIP
    """
    started = time.perf_counter()
    paths = _paths(records)
    target = None if output is None else output_path(output)
    if target is not None:
        check_not_input(target, (*paths, join))
    if key is not None and join is None:
        raise UsageError("--key: names a column of the table to join; give it with --join")
    report = ReadReport()
    table = record_table(
        paths,
        find_table_manifest(input_path(paths[0])) if len(paths) == 1 else None,
        GeometryRequest(x=x, y=y, column=geometry_column, crs=crs),
        date_format=date_format,
        keeps_coordinates=target is not None and target.suffix.lower() == ".csv",
        on_bad_record=on_bad_record,
        report=report,
    )
    # The look at the columns counted what the reading counts again.
    report = ReadReport()
    notes: list[str] = []
    how_read: tuple[str, ...] = ()
    if join is None:
        shape, batches = table.shape, table.batches(report)
    else:
        source = open_table(join, TableRequest(layer=layer, allow_drivers=texts(allow_drivers)))
        shape, batches = _joined(table, source, report, key=key, where=", ".join(paths), notes=notes)
        how_read = source.warnings
    rows = 0
    with progress_bar(progress, total_patches=table.rows or 0, what="ingest") as tell:

        def count(found: int) -> None:
            nonlocal rows
            rows += found
            tell(found, 0)

        frame = None
        rounded: tuple[str, ...] = ()
        if target is None:
            frame, columns = to_frame(shape, batches), tuple(shape.schema.names)
            count(len(frame))
        else:
            written = write_vector_file(target, shape, batches, overwrite=overwrite, on_batch=count)
            columns, rounded = written.columns, written.warnings
    lost = [f"{report.faults[0]} ({report.fault_count} faults)"] if report.fault_count else []
    # Without a column a table has no rows.
    featureless = 0 if shape.schema.names else report.records
    if featureless:
        empty = [f"{paths[0]}: none of the {featureless:,} records has a feature; the table has no columns and no rows"]
    else:
        empty = [] if rows else [f"{paths[0]}: no records; the table has no rows"]
    return IngestTableResult(
        output=target,
        frame=frame,
        rows=rows,
        columns=columns,
        records_lost=report.fault_count + featureless,
        size_bytes=0 if target is None else target.stat().st_size,
        seconds=time.perf_counter() - started,
        notes=(*report.notes, *notes),
        warnings=(*report.warnings, *how_read, *lost, *empty, *rounded),
    )


def write_vector_file(
    path: Path, shape: TableShape, batches: Iterable[Any], *, overwrite: bool, on_batch: Callable[[int], None]
) -> WrittenTable:
    """Write ``batches`` to ``path``, which is there whole or not at all.

    Raises
    ------
    UsageError
        A suffix that isn't known, or values that its format can't hold.
    OutputError
        The file can't be written, or exists and ``overwrite`` is False.
    """
    if needs_path(path):
        with atomic_path(path, overwrite=overwrite) as temporary:
            return write_table(temporary, shape, batches, name=path, on_batch=on_batch)
    with atomic_output(path, overwrite=overwrite) as file:
        return write_table(file, shape, batches, name=path, on_batch=on_batch)


def _paths(records: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    paths = [records] if isinstance(records, str | os.PathLike) else list(records)
    if not paths:
        raise UsageError("no record file is given; name at least one")
    return sorted((os.fspath(path) for path in paths), key=natural_key)


def _joined(
    table: RecordTable, source: Table, report: ReadReport, *, key: str | None, where: str, notes: list[str]
) -> tuple[TableShape, Iterator[Any]]:
    """The shape and the batches of ``source`` with the columns of ``table`` that it hasn't."""
    schema = table.shape.schema
    # A source without geometries takes those of the records.
    own = table.shape if source.geometry is None else None
    names = [
        name
        for name in schema.names
        if name not in source.schema.names and (own is not None or name != table.shape.geometry)
    ]
    both = [name for name in schema.names if name in source.schema.names and name != key]
    if both:
        notes.append(f"columns that {source.name} has too are left as they are there: {', '.join(both)}")
    joined = source.schema
    for name in names:
        joined = joined.append(schema.field(name))
    if own is not None and own.geometry in names:
        shape = TableShape(schema=joined, geometry=own.geometry, is_points=own.is_points, crs=own.crs)
    else:
        shape = TableShape(schema=joined, geometry=source.geometry, is_points=source.is_points, crs=source.crs)
    if key is None:
        return shape, joined_by_order(source, table.batches(report), names, joined, where=where)
    for name, found in ((where, schema.names), (source.name, source.schema.names)):
        if key not in found:
            raise InputError(f"{name}: there is no column {key!r} for --key; there are {', '.join(found)}")
    return shape, joined_by_key(source, table.batches(report), names, joined, key=key, where=where)

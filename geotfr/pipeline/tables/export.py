"""Export of tables: rows -> features -> records -> one gzip file -> manifest."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.flags import checks_flags
from geotfr.mixer import SetNames
from geotfr.options import TableOptions, resolve_workers
from geotfr.pipeline.export.chunks import CHUNK_BYTES
from geotfr.pipeline.export.shards import ShardWriter
from geotfr.pipeline.parallel import OrderedWindow, encoder_pool
from geotfr.pipeline.progress import progress_bar
from geotfr.pipeline.sizes import human_bytes
from geotfr.records.gzip import codec, ee_bytes_promised
from geotfr.storage.outputs import open_outputs
from geotfr.vectors.encode import encode_rows
from geotfr.vectors.features import ColumnTally
from geotfr.vectors.manifest import TableManifest
from geotfr.vectors.plan import plan_table
from geotfr.vectors.source import TableRequest, open_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Unpack

    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from geotfr.options import TableKeywords
    from geotfr.pipeline.progress import Progress
    from geotfr.records.gzip import ShardCodec
    from geotfr.vectors.plan import TablePlan

__all__ = ["ExportTableResult", "export_table", "write_table_records"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTableResult:
    """What a table's export wrote.

    Attributes
    ----------
    records
        The TFRecord file.
    manifest
        geotfr's own description beside it.
    rows
        Records, one a row.
    features
        Names of the features, in order.
    absent
        Feature -> rows that don't have it, where there are some.
    size_bytes
        Bytes of the TFRecord file.
    seconds
        Wall time.
    warnings
        What a user should know, one line each.
    """

    records: Path
    manifest: Path
    rows: int
    features: tuple[str, ...]
    absent: dict[str, int]
    size_bytes: int
    seconds: float
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON types."""
        return {
            "records": str(self.records),
            "manifest": str(self.manifest),
            "rows": self.rows,
            "features": list(self.features),
            "absent": dict(self.absent),
            "bytes": self.size_bytes,
            "seconds": round(self.seconds, 3),
            "warnings": list(self.warnings),
        }

    def to_text(self) -> str:
        """The summary for a person."""
        return "\n".join(
            (
                f"wrote     {self.rows:,} rows with {len(self.features):,} features to {self.records},"
                f" {human_bytes(self.size_bytes)}, in {self.seconds:.1f} s",
                f"features  {', '.join(self.features)}",
                f"manifest  {self.manifest}",
            )
        )


@checks_flags
def export_table(
    source: Any,
    prefix: str | os.PathLike[str],
    *,
    progress: bool | Progress = False,
    **keywords: Unpack[TableKeywords],
) -> ExportTableResult:
    """Export a table as Earth Engine's ``Export.table`` does: one row is one Example, all in one gzip TFRecord file.

    Parameters
    ----------
    source
        A GeoPackage, GeoJSON, Shapefile, FlatGeobuf, CSV or Parquet file, or a frame of geopandas or pandas.
    prefix
        Folder and name: ``PREFIX.tfrecord.gz`` and ``PREFIX-manifest.json``. One that ends in ``/`` is a folder.
    progress
        True for a bar on stderr, or a function of (rows, bytes).
    **keywords
        ``selectors``, ``layer``, ``where``, ``x``, ``y``, ``crs``, ``geometry``, ``feature_kinds``, ``compressor``,
        ``overwrite``, ``workers``, ``allow_drivers``: see :class:`geotfr.options.TableOptions`. The geometry is
        ``lonlat`` by default where all geometries are points and no column has these names.

    Raises
    ------
    InputError
        The source is missing or no table, lacks a column or layer, or holds a value that fits no feature.
    UsageError
        Names that clash, or options that contradict each other.
    OutputError
        The output can't be written, or exists and ``overwrite`` is False.

    Notes
    -----
    A null is an absent feature; NaN stays a value. Dates are ISO 8601 text; arrays are flattened row-major, and the
    manifest keeps their shapes.

    **Source**: Earth Engine's guide to table exports, and a file that it exported.

    Examples
    --------
    >>> import geotfr
    >>> geotfr.export_table("plots.gpkg", "training/plots", selectors="B4,B5,class")  # doctest: +SKIP
    """
    started = time.perf_counter()
    options = TableOptions.checked(**keywords)
    table = open_table(source, TableRequest.of(options))
    plan = plan_table(
        table, selectors=options.selectors, geometry=options.geometry, feature_kinds=options.feature_kinds
    )
    told = {
        "selectors": [_selector(column.name, column.source) for column in plan.columns],
        "layer": options.layer,
        "where": options.where,
        "x": options.x,
        "y": options.y,
        "crs": options.crs,
        "geometry": plan.geometry,
        "feature_kinds": options.feature_kinds,
        "compressor": options.compressor,
    }
    return write_table_records(plan, prefix, options, told=told, progress=progress, started=started)


def _selector(name: str, source: str) -> str:
    return name if name == source else f"{name}={source}"


def write_table_records(
    plan: TablePlan,
    prefix: str | os.PathLike[str],
    options: TableOptions,
    *,
    told: dict[str, Any],
    progress: bool | Progress,
    started: float,
) -> ExportTableResult:
    """Write the records that ``plan`` makes, and the manifest, which tells the options ``told``."""
    coding = codec(options.compressor, is_table=True)
    names = SetNames.for_prefix(os.fspath(prefix), naming="drive", compressed_suffix=coding.suffix)
    threads = resolve_workers(options.workers, os.cpu_count() or 1)
    outputs = open_outputs(
        names.folder, name=names.name, belongs=names.is_of_set, overwrite=options.overwrite, make_folder=not names.name
    )
    table = plan.table
    with outputs, progress_bar(progress, total_patches=table.rows or 0, what="export") as report:
        writer = ShardWriter(outputs, coding, name=lambda _: names.shard(0, total=1))
        work = _Work(plan, writer, coding)
        with encoder_pool(threads) as pool:
            window = OrderedWindow[_Encoded](pool, lambda done: report(done.rows, work.commit(done)), size=threads + 1)
            rows = 0
            for batch in table.batches():
                window.submit(work.encode, batch, rows)
                rows += batch.num_rows
            window.drain()
        if not rows:
            writer.add(0, [coding.pack(b"")], 0)
        writer.finish()
        file = writer.shards[0].file
        absent = {
            column.name: tally.absent for column, tally in zip(plan.columns, work.tallies, strict=True) if tally.absent
        }
        manifest = TableManifest(
            options=told,
            columns=plan.columns,
            geometry=plan.geometry,
            crs=plan.crs,
            absent=absent,
            records=names.shard(0, total=1),
            rows=rows,
            size_bytes=file.size,
            crc32c=f"{file.crc:08x}",
            source=None if table.file is None else (table.file.name, table.file.stat().st_size),
            compressor=coding.name,
            compressor_level=coding.level,
            compressor_library=coding.library,
        )
        described = outputs.create(names.manifest)
        described.write(manifest.to_text().encode())
        described.finish()
        outputs.publish(
            [(manifest.records, file), (names.manifest, described)],
            incomplete_without=names.tellers,
        )
    return ExportTableResult(
        records=names.folder / manifest.records,
        manifest=names.folder / names.manifest,
        rows=rows,
        features=tuple(column.name for column in plan.columns),
        absent=absent,
        size_bytes=file.size,
        seconds=time.perf_counter() - started,
        warnings=(*plan.notes, *_warnings(plan, work.tallies, rows, options.compressor)),
    )


def _warnings(plan: TablePlan, tallies: Sequence[ColumnTally], rows: int, compressor: str) -> list[str]:
    found = []
    if not rows:
        found.append(f"{plan.table.name}: no rows; the file holds no records")
    for column, tally in zip(plan.columns, tallies, strict=True):
        if tally.absent:
            what = "geometry" if column.is_made else "value"
            found.append(f"{column.name}: {tally.absent:,} of {rows:,} rows have no {what}, so no feature of that name")
        if tally.inexact:
            found.append(
                f"{column.name}: {tally.inexact:,} whole numbers beyond 2^24 are rounded to float32;"
                " --feature-kinds native keeps them"
            )
        if tally.infinite:
            found.append(f"{column.name}: {tally.infinite:,} numbers beyond float32 became infinite")
        if tally.heights:
            found.append(
                f"{tally.heights:,} points have a z, which longitude and latitude leave out; --geometry wkb"
                " or geojson keeps it"
            )
        if tally.measures:
            what = "GeoJSON leaves" if plan.geometry == "geojson" else "longitude and latitude leave"
            found.append(f"{tally.measures:,} geometries have an m, which {what} out; --geometry wkb keeps it")
    if compressor == "ee" and not ee_bytes_promised():
        found.append("this Python is built with zlib-ng: the bytes aren't Earth Engine's, the records are")
    return found


@dataclass(frozen=True, slots=True)
class _Encoded:
    """Packed records of some rows."""

    packed: list[Buffer]
    rows: int
    tallies: list[ColumnTally]


class _Work:
    """Encodes batches, on any thread; writes them, in order."""

    def __init__(self, plan: TablePlan, writer: ShardWriter, coding: ShardCodec) -> None:
        self.tallies = [ColumnTally() for _ in plan.columns]
        """Of the rows written, a column each."""
        self._plan = plan
        self._writer = writer
        self._coding = coding

    def encode(self, batch: Any, first_row: int) -> _Encoded:
        """The packed records of a batch."""
        columns, tallies = self._plan.features(batch, first_row)
        records, ends = encode_rows(columns, batch.num_rows)
        packed = [
            self._coding.pack(chunk.data) if chunk.ndim == 1 else self._coding.pack_rows(chunk)
            for chunk in _chunks(records, ends)
        ]
        return _Encoded(packed, batch.num_rows, tallies)

    def commit(self, done: _Encoded) -> int:
        """Write them; the bytes written."""
        for total, tally in zip(self.tallies, done.tallies, strict=True):
            total.add(tally)
        return self._writer.add(0, done.packed, done.rows)


def _chunks(records: NDArray[np.uint8], ends: NDArray[np.int64]) -> Iterator[NDArray[np.uint8]]:
    """The records in pieces of about :data:`CHUNK_BYTES`, all of about the same size.

    A piece is ``(n, record bytes)`` where all records are of one length, else ``(bytes,)``.
    """
    size = int(ends[0])
    is_even = size * len(ends) == len(records) and bool((np.diff(ends) == size).all())
    count = max(round(len(records) / CHUNK_BYTES), 1)
    places = np.searchsorted(ends, [len(records) * number // count for number in range(1, count + 1)])
    stops = sorted(set(ends[places].tolist()))
    for start, stop in pairwise([0, *stops]):
        piece = records[start:stop]
        yield piece.reshape(-1, size) if is_even else piece

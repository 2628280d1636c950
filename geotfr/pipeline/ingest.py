"""Ingest: mixer and shards -> grid -> records in order -> trimmed patches -> tiles -> compared -> final name."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from geotfr.errors import RecordError, UsageError
from geotfr.mixer.sets import PredictionSet, find_predictions
from geotfr.options import IngestKeywords, IngestOptions, nearest, resolve_workers
from geotfr.patches.readings import Reading, UnreadableLengthError, reading_of
from geotfr.pipeline.mosaic import MosaicWriter, plan_mosaic
from geotfr.pipeline.plan import human_bytes
from geotfr.pipeline.progress import progress_bar
from geotfr.records.faults import ReadReport
from geotfr.records.reader import read_features, read_records
from geotfr.storage import atomic_path
from geotfr.storage.atomic import check_output

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from geotfr.grid import GeoBox
    from geotfr.pipeline.mosaic import MosaicPlan
    from geotfr.pipeline.progress import Progress
    from geotfr.records.reader import FeatureBatch

__all__ = ["IngestResult", "ingest_predictions"]

_SAMPLE_PX = 256
_SAMPLES = 8
_KINDS = {"f": "float", "i": "int64", "u": "bytes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """What an ingest wrote.

    Attributes
    ----------
    output
        The raster.
    geobox
        Its grid: the mixer's.
    bands
        Band names, in order.
    dtype
        The pixel type.
    patches
        Patches in the raster.
    patches_lost
        Patches whose records ``skip`` or ``repair`` left out; their place holds nodata, or 0 without one.
    shards
        The shards, in the order in which they were read.
    size_bytes
        Bytes on disk.
    seconds
        Wall time.
    notes, warnings
        Harmless surprises, and what a user should know, one line each.
    """

    output: Path
    geobox: GeoBox
    bands: tuple[str, ...]
    dtype: str
    patches: int
    patches_lost: int
    shards: tuple[Path, ...]
    size_bytes: int
    seconds: float
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON types."""
        return {
            "output": str(self.output),
            "crs": self.geobox.crs,
            "transform": list(self.geobox.affine),
            "width": self.geobox.shape_yx[1],
            "height": self.geobox.shape_yx[0],
            "bands": list(self.bands),
            "dtype": self.dtype,
            "patches": self.patches,
            "patches_lost": self.patches_lost,
            "shards": [str(path) for path in self.shards],
            "bytes": self.size_bytes,
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }

    def to_text(self) -> str:
        """The summary for a person, some lines."""
        rows, cols = self.geobox.shape_yx
        return "\n".join(
            (
                f"wrote     {self.output}, {cols} x {rows} pixels, {self.dtype}, {human_bytes(self.size_bytes)}, in"
                f" {self.seconds:.1f} s",
                f"bands     {len(self.bands)}: {', '.join(self.bands[:12])}{', …' if len(self.bands) > 12 else ''}",
                f"patches   {self.patches:,} of {len(self.shards):,} shard{'s' if len(self.shards) != 1 else ''};"
                f" {self.patches_lost:,} lost",
            )
        )


def ingest_predictions(
    mixer: str | os.PathLike[str],
    shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    output: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    workers: int | None = None,
    progress: bool | Progress = False,
    **options: Unpack[IngestKeywords],
) -> IngestResult:
    """Turn prediction records into a georeferenced GeoTIFF, as Earth Engine does with a mixer on upload.

    Each record is one patch, in the order of the exported patches, over any number of shards of any compression. The
    overlap of padded predictions is trimmed, so the cover is contiguous. Each feature is a band: float32, int64, or
    uint8 from raw bytes.

    Parameters
    ----------
    mixer
        The mixer's file, or a folder that holds one mixer and one set of shards.
    shards
        The prediction shards; may be left out for a folder.
    output
        Path of the GeoTIFF.
    overwrite
        Replace ``output``.
    workers
        Threads that compress tiles; by default as many as there are cores, up to 4. The bytes don't depend on it.
    progress
        True for a bar on stderr, or a function of (patches, bytes).
    kernel_size
        (width, height) of the kernel that padded predictions carry; by default the manifest's, or inferred.
    bands
        The features to take, in this order; numbers from 1 or names, ``new=old`` renames. By default all, in the
        first record's order.
    dtype
        Type of the output; by default the features' own. A value that it can't hold is an error.
    nodata
        Nodata value of the output; none by default.
    shard_order
        ``natural`` (default): by the numbers in the names, whatever the order given. ``given``: as listed.
    on_bad_record
        ``error`` (default), ``skip`` or ``repair``: see :func:`geotfr.read_records`.
    creation_options
        GDAL's creation options for GeoTIFFs, a mapping or ``NAME=VALUE`` texts, over the defaults: tiles, DEFLATE
        level 1 with the right predictor, BIGTIFF when it may be needed.

    Raises
    ------
    UsageError
        An option that can't be, or a set that isn't unique.
    InputError
        A file is missing.
    RecordError
        Records are damaged, too few or too many, or differ in their features; nothing takes the output's name.
    OutputError
        The raster can't be written, or exists and ``overwrite`` is False.

    Notes
    -----
    **Source**: Earth Engine's guide to uploading TFRecord predictions with a mixer.
    """
    started = time.perf_counter()
    if output is None:
        raise UsageError("output is missing; give the path of the GeoTIFF to write")
    checked = IngestOptions.checked(**options)
    threads = resolve_workers(workers, os.cpu_count() or 1)
    target = Path(output)
    check_output(target, overwrite=overwrite)
    given = [shards] if isinstance(shards, str | os.PathLike) else list(shards)
    found = find_predictions(mixer, given, shard_order=checked.shard_order)
    if any(path.resolve() == target.resolve() for path in (*found.shards, found.mixer_path)):
        raise UsageError(f"{target}: the output is one of the inputs; give another path")
    run = _Run(found, checked)
    run.write(target, overwrite=overwrite, threads=threads, progress=progress)
    return IngestResult(
        output=target,
        geobox=found.mixer.geobox,
        bands=tuple(band.name for band in run.bands),
        dtype=run.dtype.name,
        patches=found.mixer.total_patches - run.lost,
        patches_lost=run.lost,
        shards=found.shards,
        size_bytes=target.stat().st_size,
        seconds=time.perf_counter() - started,
        notes=tuple(run.report.notes),
        warnings=tuple(run.warnings()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Band:
    """A band of the output: its ``name``, the ``feature`` it comes from, that feature's kind, length and reading."""

    name: str
    feature: str
    kind: str
    length: int
    reading: Reading


@dataclass(slots=True)
class _Patches:
    """Consecutive patches: the number of the first, how many, and the batch they come from (rows of it)."""

    first: int
    count: int
    batch: FeatureBatch
    rows: slice


@dataclass(slots=True)
class _Samples:
    """Corners of some writes, compared with the file when it is reopened."""

    every: int
    kept: list[tuple[int, int, NDArray[Any]]] = field(default_factory=list)
    seen: int = 0

    def keep(self, row: int, col: int, data: NDArray[Any]) -> None:
        if self.seen % self.every == 0:
            self.kept.append((row, col, data[:, :_SAMPLE_PX, :_SAMPLE_PX].copy()))
        self.seen += 1


class _Run:
    """One ingest: what the first record tells, then every record to its place."""

    def __init__(self, found: PredictionSet, options: IngestOptions) -> None:
        self._found = found
        self._options = options
        self.report = ReadReport()
        self.bands = _bands_of(_first_batch(found.shards, options), found, options)
        self.dtype = np.dtype(options.dtype) if options.dtype else _natural_dtype(self.bands)
        _check_nodata(options.nodata, self.dtype)
        self._features = tuple(dict.fromkeys(band.feature for band in self.bands))
        self.lost = 0
        self._rounded = 0

    def warnings(self) -> list[str]:
        """What a user should know, one line each."""
        found = list(self.report.warnings)
        if self._rounded:
            found.append(f"{self._rounded:,} values with a fraction were rounded to {self.dtype.name}")
        if self.lost:
            first = self.report.faults[0] if self.report.faults else ""
            found.append(f"{self.lost:,} patches are lost and filled; the first fault: {first}")
        return found

    def write(self, target: Path, *, overwrite: bool, threads: int, progress: bool | Progress) -> None:
        """Write the raster under a temporary name, compare it, and give it its name."""
        from geotfr.rasters.safe_open import raster_env
        from geotfr.rasters.sink import GeoTiffSink, check_raster

        mixer, options = self._found.mixer, self._options
        plan = plan_mosaic(
            mixer, pixel_bytes=self.dtype.itemsize * len(self.bands), tile_yx=_tile_of(options.creation_options)
        )
        samples = _Samples(every=max(_write_count(plan) // _SAMPLES, 1))
        names = [band.name for band in self.bands]
        with atomic_path(target, overwrite=overwrite) as temporary, raster_env():
            with GeoTiffSink(
                temporary,
                geobox=mixer.geobox,
                dtype=self.dtype,
                band_names=names,
                nodata=options.nodata,
                creation_options=dict(options.creation_options),
                block_yx=plan.tile_yx,
                threads=threads,
            ) as sink:

                def write(row: int, col: int, data: NDArray[Any]) -> None:
                    sink.write(row, col, data)
                    samples.keep(row, col, data)

                with progress_bar(
                    progress, total_patches=mixer.total_patches * len(plan.passes), what="ingest"
                ) as report:
                    for columns in plan.passes:
                        writer = MosaicWriter(
                            plan,
                            columns,
                            dtype=self.dtype,
                            bands=len(self.bands),
                            fill=0 if options.nodata is None else options.nodata,
                            write=write,
                        )
                        self._place_all(writer, report, is_first=columns.start == 0)
                        writer.finish()
            check_raster(
                temporary,
                geobox=mixer.geobox,
                dtype=self.dtype,
                band_names=names,
                nodata=options.nodata,
                samples=samples.kept,
            )

    def _place_all(self, writer: MosaicWriter, progress: Progress, *, is_first: bool) -> None:
        """Every record of every shard to its place; faults are reported by the first pass alone."""
        total = self._found.mixer.total_patches
        report = self.report if is_first else ReadReport()
        done = 0
        for patches in self._patches(report):
            self._place(writer, patches)
            done += patches.count
            progress(patches.count, patches.count * self._record_bytes())
        if is_first:
            self.lost = total - done

    def _record_bytes(self) -> int:
        return sum(band.length * (8 if band.kind == "int64" else 4) for band in self.bands)

    def _patches(self, report: ReadReport) -> Iterator[_Patches]:
        """The records of all shards with their patches' numbers, checked against the first record and the mixer."""
        total = self._found.mixer.total_patches
        options = self._options
        first_of_file = 0
        for path in self._found.shards:
            records = 0
            for batch in read_features(path, names=self._features, on_bad_record=options.on_bad_record, report=report):
                self._check_features(batch)
                numbers = batch.records + first_of_file
                records = int(batch.records[-1]) + 1
                if numbers[-1] >= total:
                    raise self._too_many(path, total - first_of_file)
                # A skipped record leaves a gap in the numbers.
                edges = [0, *(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), len(numbers)]
                for start, stop in pairwise(edges):
                    yield _Patches(int(numbers[start]), stop - start, batch, slice(start, stop))
            faulty = [f.record for f in report.faults if f.path == os.fspath(path) and f.record is not None]
            records = max(records, max(faulty, default=-1) + 1)
            if not records:
                raise RecordError(
                    f"{path}: no records: an empty shard among {len(self._found.shards)}; expected {total} records in"
                    " all; leave it out or write it again"
                )
            first_of_file += records
        if first_of_file != total:
            raise RecordError(
                f"{self._found.shards[-1]}: the last of {len(self._found.shards)} shards ends after {first_of_file}"
                f" records; the mixer {self._found.mixer_path} expects {total}; a shard is missing, or these are the"
                " predictions of another export"
            )

    def _too_many(self, path: Path, record: int) -> RecordError:
        total = self._found.mixer.total_patches
        found = sum(1 for _ in read_records(self._found.shards, on_bad_record="skip", report=ReadReport()))
        return RecordError(
            f"{path}: record {record} is one too many: {found} records in {len(self._found.shards)} shards; the mixer"
            f" {self._found.mixer_path} expects {total}; a shard is named twice, or these belong to another"
            " export"
        )

    def _check_features(self, batch: FeatureBatch) -> None:
        """Refuse records whose features differ from the first record's in name, kind or length."""
        where = f"{batch.path}: record {batch.records[0]} at byte {batch.offsets[0]}"
        for band in self.bands:
            if band.feature not in batch.features:
                near = nearest(band.feature, batch.features)
                raise RecordError(f"{where}: feature {band.feature!r} is missing{near}; the first record has it")
            kind, length = _kind_and_length(batch.features[band.feature])
            if (kind, length) != (band.kind, band.length):
                raise RecordError(
                    f"{where}: feature {band.feature!r} has {length} {kind} values; the first record has"
                    f" {band.length} {band.kind} values"
                )

    def _place(self, writer: MosaicWriter, patches: _Patches) -> None:
        blocks = []
        for band in self.bands:
            values: Any = patches.batch.features[band.feature]
            (height, width), (margin_y, margin_x) = band.reading.block_yx, band.reading.margin_yx
            block = _as_blocks(values[patches.rows], height, width)
            blocks.append(block[:, margin_y : height - margin_y, margin_x : width - margin_x])
        for which, place in writer.places(patches.first, patches.count):
            for index, (band, block) in enumerate(zip(self.bands, blocks, strict=True)):
                self._convert(block[which], place[index], band, patches, which)

    def _convert(self, block: NDArray[Any], place: NDArray[Any], band: _Band, patches: _Patches, which: slice) -> None:
        """Copy ``block`` into ``place``; values that the output's type can't hold are refused."""
        if np.can_cast(block.dtype, self.dtype, "safe") or block.dtype.newbyteorder("=") == self.dtype:
            place[...] = block
            return
        if self.dtype.kind == "f":
            with np.errstate(over="ignore"):
                place[...] = block
            bad = np.isinf(place) & np.isfinite(block)
        else:
            limits = np.iinfo(self.dtype)
            if block.dtype.kind == "f":
                whole = np.rint(block)
                self._rounded += int(np.count_nonzero((whole != block) & np.isfinite(block)))
                # Limits as floats: the largest int64 rounds up, so it is compared with less-than.
                bad = ~((whole >= float(limits.min)) & (whole < float(limits.max) + 1.0))
            else:
                whole = block
                bad = (block < limits.min) | (block > limits.max)
            if not bad.any():
                place[...] = whole
        if bad.any():
            patch, row, col = (int(index[0]) for index in np.nonzero(bad))
            record = patches.batch.records[patches.rows][which][patch]
            raise RecordError(
                f"{patches.batch.path}: record {record}: feature {band.feature!r}, row {row}, column {col}:"
                f" {block[patch, row, col]} doesn't fit {self.dtype.name}; choose a larger --dtype, or leave it out"
            )


def _first_batch(shards: Sequence[Path], options: IngestOptions) -> FeatureBatch:
    """The first record there is: it tells the features."""
    for path in shards:
        for batch in read_features(path, on_bad_record=options.on_bad_record, batch_bytes=1, report=ReadReport()):
            return batch
    raise RecordError(f"{shards[0]}: no records in {len(shards)} shards; predictions are expected")


def _bands_of(batch: FeatureBatch, found: PredictionSet, options: IngestOptions) -> tuple[_Band, ...]:
    """The bands that the first record and the options make."""
    kernel = options.kernel_yx or (found.manifest.kernel_yx if found.manifest else None)
    width, height = found.mixer.patch_xy
    bands = []
    for name, feature in _selected(batch, options.bands):
        where = f"{batch.path}: record {batch.records[0]}: feature {feature!r}"
        kind, length = _kind_and_length(batch.features[feature])
        if kind not in _KINDS.values():
            raise RecordError(f"{where}: {kind}; float, int64 or one value of raw bytes is expected")
        try:
            reading = reading_of(length, (height, width), kernel)
        except UnreadableLengthError as error:
            if error.is_ambiguous:
                raise UsageError(f"{where}: {error}; --kernel-size decides") from error
            raise RecordError(f"{where}: {error}") from error
        bands.append(_Band(name=name, feature=feature, kind=kind, length=length, reading=reading))
    return tuple(bands)


def _selected(batch: FeatureBatch, bands: tuple[str, ...] | None) -> list[tuple[str, str]]:
    """(band name, feature) pairs, by the selection or all."""
    features = list(batch.features)
    if not features:
        raise RecordError(f"{batch.path}: record {batch.records[0]}: no features; predictions are expected")
    if bands is None:
        return [(feature, feature) for feature in features]
    pairs = []
    for text in bands:
        new, separator, old = text.partition("=")
        wanted = old if separator and text not in features else text
        if wanted not in features and wanted.isdecimal() and 1 <= int(wanted) <= len(features):
            wanted = features[int(wanted) - 1]
        if wanted not in features:
            raise UsageError(
                f"bands: {wanted!r} is no feature of {batch.path}{nearest(wanted, features)}"
                f" (it has {', '.join(features[:12])})"
            )
        pairs.append((new if separator and text not in features else wanted, wanted))
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"bands: {name!r} is selected twice; rename one with new={name}")
    return pairs


def _kind_and_length(values: Any) -> tuple[str, int]:
    if values is None:
        return "a feature without values", 0
    if isinstance(values, list):
        return f"a list of {len(values[0])} bytes values", len(values[0])
    return _KINDS[values.dtype.kind], values.shape[1]


def _natural_dtype(bands: Sequence[_Band]) -> np.dtype[Any]:
    """The type that holds all features: uint8 of bytes, int64, float32; int64 with float32 makes float64."""
    own = {"bytes": np.uint8, "int64": np.int64, "float": np.float32}
    return np.result_type(*(own[band.kind] for band in bands))


def _check_nodata(nodata: float | None, dtype: np.dtype[Any]) -> None:
    if nodata is None:
        return
    if dtype.kind == "f":
        fits = not np.isfinite(nodata) or abs(nodata) <= float(np.finfo(dtype).max)
    else:
        limits = np.iinfo(dtype)
        fits = bool(np.isfinite(nodata)) and nodata == int(nodata) and limits.min <= nodata <= limits.max
    if not fits:
        raise UsageError(f"nodata: {nodata} can't be held by {dtype.name}; give another --nodata or --dtype")


def _as_blocks(values: NDArray[Any], height: int, width: int) -> NDArray[Any]:
    """``(n, length)`` values as ``(n, row, col)``, a view."""
    stride, step = values.strides
    return np.lib.stride_tricks.as_strided(
        values, (len(values), height, width), (stride, width * step, step), writeable=False
    )


def _tile_of(creation_options: Iterable[tuple[str, str]]) -> tuple[int | None, int | None]:
    """(rows, columns) of the tile that the creation options ask for."""
    wanted: dict[str, int | None] = {}
    for name, value in creation_options:
        wanted[name] = int(value) if value.isdecimal() and int(value) > 0 and int(value) % 16 == 0 else None
    return wanted.get("BLOCKYSIZE"), wanted.get("BLOCKXSIZE")


def _write_count(plan: MosaicPlan) -> int:
    groups = -(-plan.columns // plan.group)
    return plan.rows * groups

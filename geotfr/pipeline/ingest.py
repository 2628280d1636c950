"""Ingest: mixer and shards -> grid -> records in order -> trimmed patches -> tiles -> compared -> final name."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from geotfr.errors import RecordError, UsageError
from geotfr.mixer.sets import find_predictions
from geotfr.options import IngestKeywords, IngestOptions, resolve_workers
from geotfr.pipeline.mosaic import MosaicWriter, plan_mosaic
from geotfr.pipeline.plan import human_bytes
from geotfr.pipeline.predictions import Predictions
from geotfr.pipeline.progress import progress_bar
from geotfr.records.faults import ReadReport
from geotfr.storage import atomic_path
from geotfr.storage.atomic import check_output

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from geotfr.grid import GeoBox
    from geotfr.mixer.sets import PredictionSet
    from geotfr.pipeline.mosaic import MosaicPlan
    from geotfr.pipeline.predictions import PatchValues, PredictionBand
    from geotfr.pipeline.progress import Progress

__all__ = ["IngestResult", "ingest_predictions"]

_SAMPLE_PX = 256
_SAMPLES = 8
_INTEGERS = tuple(np.dtype(name) for name in ("u1", "i1", "u2", "i2", "u4", "i4", "i8"))


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
    channels
        ``first`` or ``last``: features may hold several bands, (channel, row, col) or (row, col, channel); they become
        ``NAME_0`` and so on. What the manifest tells of a feature needs no option.
    patch_index
        Name of an int64 feature that holds the patch's number; records may then come in any order.
    bands
        The features to take, in this order; numbers from 1 or names, ``new=old`` renames. By default all, in the
        first record's order.
    dtype
        Type of the output; by default the features' own. A value that it can't hold is an error. ``auto``: the
        smallest integer type that holds all values, found by a pass over the records.
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
        geobox=run.geobox,
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
        self._predictions = Predictions(found, options)
        self.report = ReadReport()
        self.bands = self._predictions.bands
        self.geobox = _true_geobox(found)
        self._rounded = 0
        self.dtype = _natural_dtype(self.bands)
        if options.dtype == "auto":
            self.dtype = self._smallest_dtype()
        elif options.dtype:
            self.dtype = np.dtype(options.dtype)
        _check_nodata(options.nodata, self.dtype)

    @property
    def lost(self) -> int:
        """Patches without a record."""
        return self._predictions.lost

    def _smallest_dtype(self) -> np.dtype[Any]:
        """The smallest integer type for all values and nodata, by a pass over the records; floats keep theirs."""
        if self.dtype.kind == "f":
            return self.dtype
        nodata = self._options.nodata
        seen = [] if nodata is None else [int(nodata)]
        for patches in self._predictions.patches(ReadReport()):
            for band in self.bands:
                values = band.reading.patches(patches.values[band.feature], band.channel)
                seen = [min([*seen, int(values.min())]), max([*seen, int(values.max())])]
        return next(dtype for dtype in _INTEGERS if np.iinfo(dtype).min <= seen[0] and seen[-1] <= np.iinfo(dtype).max)

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
        rows_px, cols_px = self.geobox.shape_yx
        with atomic_path(target, overwrite=overwrite) as temporary, raster_env():
            with GeoTiffSink(
                temporary,
                geobox=self.geobox,
                dtype=self.dtype,
                band_names=names,
                nodata=options.nodata,
                creation_options=dict(options.creation_options),
                block_yx=plan.tile_yx,
                threads=threads,
            ) as sink:

                def write(row: int, col: int, data: NDArray[Any]) -> None:
                    # A padded edge reaches beyond the raster.
                    inside = data[:, : max(rows_px - row, 0), : max(cols_px - col, 0)]
                    if inside.size:
                        sink.write(row, col, inside)
                        samples.keep(row, col, inside)

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
                geobox=self.geobox,
                dtype=self.dtype,
                band_names=names,
                nodata=options.nodata,
                samples=samples.kept,
            )

    def _place_all(self, writer: MosaicWriter, progress: Progress, *, is_first: bool) -> None:
        """Every patch to its place; faults are reported by the first pass alone."""
        size = self._predictions.patch_bytes
        for patches in self._predictions.patches(self.report if is_first else ReadReport()):
            blocks = [band.reading.patches(patches.values[band.feature], band.channel) for band in self.bands]
            for which, place in writer.places(patches.first, len(patches)):
                for index, (band, block) in enumerate(zip(self.bands, blocks, strict=True)):
                    self._convert(block[which], place[index], band, patches, which)
            progress(len(patches), len(patches) * size)

    def _convert(
        self, block: NDArray[Any], place: NDArray[Any], band: PredictionBand, patches: PatchValues, which: slice
    ) -> None:
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
            raise RecordError(
                f"{patches.where[0]}: record {patches.where[1] + which.start + patch}: feature {band.feature!r},"
                f" row {row}, column {col}:"
                f" {block[patch, row, col]} doesn't fit {self.dtype.name}; choose a larger --dtype, or leave it out"
            )


def _true_geobox(found: PredictionSet) -> GeoBox:
    """The output's grid: the mixer's, cut to the raster's true size where the export padded its edge."""
    manifest = found.manifest
    if manifest is not None and manifest.options.get("edge") == "pad":
        return manifest.geobox
    return found.mixer.geobox


def _natural_dtype(bands: Sequence[PredictionBand]) -> np.dtype[Any]:
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


def _tile_of(creation_options: Iterable[tuple[str, str]]) -> tuple[int | None, int | None]:
    """(rows, columns) of the tile that the creation options ask for."""
    wanted: dict[str, int | None] = {}
    for name, value in creation_options:
        wanted[name] = int(value) if value.isdecimal() and int(value) > 0 and int(value) % 16 == 0 else None
    return wanted.get("BLOCKYSIZE"), wanted.get("BLOCKXSIZE")


def _write_count(plan: MosaicPlan) -> int:
    groups = -(-plan.columns // plan.group)
    return plan.rows * groups

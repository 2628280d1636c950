"""Ingest: mixer and shards -> grid -> records in order -> trimmed patches -> tiles -> compared -> final name."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from geotfr.errors import UsageError
from geotfr.mixer.sets import find_predictions
from geotfr.options import IngestKeywords, IngestOptions, resolve_workers
from geotfr.pipeline.ingest.classes import read_classes
from geotfr.pipeline.ingest.finish import Extremes, Finish, reduced_names
from geotfr.pipeline.ingest.mosaic import MosaicWriter, plan_mosaic
from geotfr.pipeline.ingest.output_grid import output_grid, set_on_raster
from geotfr.pipeline.ingest.overlap import Cores
from geotfr.pipeline.ingest.pixel_type import PixelType, choose_pixel_type
from geotfr.pipeline.ingest.predictions import Predictions
from geotfr.pipeline.ingest.raster_output import BandStatistics, RasterOutput, Samples
from geotfr.pipeline.ingest.source_mask import SourceMask
from geotfr.pipeline.progress import progress_bar
from geotfr.pipeline.sizes import human_bytes
from geotfr.records.faults import ReadReport
from geotfr.storage import atomic_path
from geotfr.storage.atomic import check_output

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from geotfr.grid import GeoBox
    from geotfr.mixer.sets import PredictionSet
    from geotfr.options import PairXY
    from geotfr.pipeline.progress import Progress
    from geotfr.rasters.sink import GeoTiffSink

__all__ = ["IngestResult", "ingest_predictions", "ingest_set"]


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
    nodata
        The nodata value, or None.
    patches
        Patches in the raster.
    patches_lost
        Patches whose records ``skip`` or ``repair`` left out; their place holds nodata, or 0 without one.
    values_clamped
        Scaled values outside the type's range, moved to its end.
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
    nodata: float | None
    patches: int
    patches_lost: int
    values_clamped: int
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
            # NaN is no JSON.
            "nodata": "nan" if self.nodata is not None and self.nodata != self.nodata else self.nodata,
            "patches": self.patches,
            "patches_lost": self.patches_lost,
            "values_clamped": self.values_clamped,
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
    mixer: str | os.PathLike[str] | None,
    shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    output: str | os.PathLike[str] | None = None,
    *,
    grid: str | os.PathLike[str] | None = None,
    patch_dimensions: PairXY | None = None,
    preview: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    progress: bool | Progress = False,
    **options: Unpack[IngestKeywords],
) -> IngestResult:
    """Turn prediction records into a georeferenced GeoTIFF, as Earth Engine does with a mixer on upload.

    Each record is one patch, in the order of the exported patches, over any number of shards of any compression. The
    overlap of padded predictions is trimmed, or blended, so the cover is contiguous. Each feature is a band: float32,
    int64, or uint8 from raw bytes.

    Parameters
    ----------
    mixer
        The mixer's file, or a folder that holds one mixer and one set of shards. Where an export left patches out
        there is no mixer, and its manifest stands in for it. None with ``grid``.
    shards
        The prediction shards; may be left out for a folder.
    output
        Path of the GeoTIFF.
    grid, patch_dimensions
        A raster, and the (width, height) of the patches that another tool cut out of it, row-major from its upper-left
        corner; in place of a mixer.
    preview
        Path of a PNG picture of the result, at most 1024 pixels wide and high; None for none.
    overwrite
        Replace ``output`` and ``preview``.
    workers
        Threads that compress tiles; by default as many as there are cores, up to 4. The bytes don't depend on it.
    progress
        True for a bar on stderr, or a function of (patches, bytes).
    kernel_size
        (width, height) of the kernel that padded predictions carry; by default the manifest's, or inferred.
    channels
        ``first`` or ``last``: features may hold several bands, (channel, row, col) or (row, col, channel); they become
        ``NAME_0`` and so on. What the manifest tells of a feature needs no option.
    class_names
        Names of a feature's bands, in place of ``NAME_0`` and so on.
    per_patch
        Features hold one value for a patch, or one a band: ``pixel`` makes a raster of one pixel for each patch,
        ``fill`` fills the patches.
    coarser, finer
        How many of the patch's pixels lie along a prediction's pixel, or the other way round; the transform is scaled.
    patch_index
        Name of an int64 feature that holds the patch's number; records may then come in any order.
    bands
        The features to take, in this order; numbers from 1 or names, ``new=old`` renames. By default all, in the
        first record's order.
    overlap
        What margins are for. ``crop`` (default) throws them away, as Earth Engine does. ``average``, ``linear``,
        ``cosine`` and ``gaussian`` are means of all predictions of a pixel, weighted by their place in the block; the
        weights add up to 1. ``vote`` takes the most frequent value, of equally frequent ones the patch's own, then the
        smallest; ``max-probability`` the bands of the block with the greatest value. NaN and nodata take no part.
    argmax, confidence
        Reduce the bands to one, ``class``: the number, from 0, of the greatest; and its value as ``confidence``.
    threshold
        Reduce each band to 1 where its value is at least this, else 0.
    scale, offset
        Pixels hold ``(value - offset) / scale``, rounded to the integer ``dtype``; the file tells readers both.
        Values outside the type are clamped and counted.
    dtype
        Type of the output; by default the features' own. A value that it can't hold is an error. ``auto``: the
        smallest integer type that holds all values, found by a pass over the records.
    nodata
        Nodata value of the output; by default none, and where pixels are left without prediction (``mask_from``,
        patches that weren't exported) NaN, or an end of the integer type that no prediction uses, or else a mask
        inside the file.
    mask_from
        A raster: where it is masked in any band, the output is too. ``manifest``: the export's sources, beside it.
    classes
        CSV file of ``value,name,#rrggbb``: the colour table and category names of the output. A value that isn't in it
        is an error.
    shard_order
        ``natural`` (default): by the numbers in the names, whatever the order given. ``given``: as listed.
    on_bad_record
        ``error`` (default), ``skip`` or ``repair``: see :func:`geotfr.read_records`.
    format
        ``gtiff`` (default) or ``cog``, a cloud-optimised GeoTIFF.
    compress
        ``deflate`` (default), ``zstd``, ``lzw`` or ``none``.
    pyramiding_policy
        How overviews are made: ``mean``, ``mode``, ``min``, ``max`` or ``sample``, for all bands or as a mapping of
        bands, ``*`` for the others. Without it a GeoTIFF has none, and a COG's are ``mode`` for classes, else ``mean``.
    statistics
        Write least, greatest, mean and deviation of each band into the file.
    creation_options
        GDAL's creation options of the output, a mapping or ``NAME=VALUE`` texts, over the defaults: tiles, DEFLATE
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
    if output is None:
        raise UsageError("output is missing; give the path of the GeoTIFF to write")
    checked = IngestOptions.checked(**options)
    threads = resolve_workers(workers, os.cpu_count() or 1)
    target = Path(output)
    check_output(target, overwrite=overwrite)
    given = [shards] if isinstance(shards, str | os.PathLike) else list(shards)
    found = _found(mixer, given, grid, patch_dimensions, checked)
    return ingest_set(
        found,
        target,
        checked,
        preview=None if preview is None else Path(preview),
        overwrite=overwrite,
        threads=threads,
        progress=progress,
    )


def ingest_set(
    found: PredictionSet,
    target: Path,
    options: IngestOptions,
    *,
    preview: Path | None,
    overwrite: bool,
    threads: int,
    progress: bool | Progress,
) -> IngestResult:
    """Turn one set into the raster ``target``; see :func:`ingest_predictions`."""
    started = time.perf_counter()
    for path in filter(None, (target, preview)):
        check_output(path, overwrite=overwrite)
        if any(path.resolve() == other.resolve() for other in (*found.shards, found.mixer_path)):
            raise UsageError(f"{path}: the output is one of the inputs; give another path")
    run = _Run(found, options, threads=threads)
    run.write(target, overwrite=overwrite, progress=progress)
    if preview is not None:
        _write_preview(target, preview, overwrite=overwrite)
    return IngestResult(
        output=target,
        geobox=run.grid.geobox,
        bands=run.output.names,
        dtype=run.output.pixel.dtype.name,
        nodata=run.output.pixel.nodata,
        patches=found.mixer.total_patches - len(found.dropped) - run.lost,
        patches_lost=run.lost,
        values_clamped=run.clamped,
        shards=found.shards,
        size_bytes=target.stat().st_size,
        seconds=time.perf_counter() - started,
        notes=tuple(run.notes()),
        warnings=tuple(run.warnings()),
    )


def _found(
    mixer: str | os.PathLike[str] | None,
    shards: list[str | os.PathLike[str]],
    grid: str | os.PathLike[str] | None,
    patch_dimensions: PairXY | None,
    options: IngestOptions,
) -> PredictionSet:
    if grid is not None:
        if mixer is not None:
            raise UsageError("grid: stands for the mixer; give one of them")
        return set_on_raster(grid, patch_dimensions, shards, shard_order=options.shard_order)
    if mixer is None:
        raise UsageError("mixer is missing; give its path, or a raster as grid")
    if patch_dimensions is not None:
        raise UsageError("patch_dimensions: the mixer tells the patches; only --grid needs them")
    return find_predictions(mixer, shards, shard_order=options.shard_order)


class _Run:
    """One ingest: what the first record tells, then every record to its place."""

    def __init__(self, found: PredictionSet, options: IngestOptions, *, threads: int) -> None:
        self._options = options
        self.grid = output_grid(found, options)
        self._predictions = Predictions(found, options, self.grid)
        self._cores = Cores(self._predictions, self.grid, options)
        names = reduced_names([band.name for band in self._cores.bands], options)
        classes = read_classes(options.classes) if options.classes else ()
        self._class_values = frozenset(each.value for each in classes) if classes else None
        self._mask = SourceMask(options.mask_from, found, self.grid) if options.mask_from else None
        self.report = ReadReport()
        pixel = choose_pixel_type(
            self._cores.dtype,
            len(self._cores.bands),
            options,
            leaves_gaps=self._mask is not None or bool(found.dropped),
            scan=self._scan,
        )
        self._finish = self._finishing(pixel)
        self.output = RasterOutput(
            geobox=self.grid.geobox, names=names, pixel=pixel, options=options, classes=classes, threads=threads
        )
        self._plan = plan_mosaic(
            self.grid,
            pixel_bytes=pixel.dtype.itemsize * self._planes,
            tile_yx=_tile_of(options.creation_options),
            most_columns=self._cores.most_columns,
        )

    @property
    def lost(self) -> int:
        """Patches without a record."""
        return self._predictions.lost

    @property
    def clamped(self) -> int:
        """Values outside the type's range, moved to its end."""
        return self._finish.clamped

    def write(self, target: Path, *, overwrite: bool, progress: bool | Progress) -> None:
        """Write the raster under a temporary name, compare it, and give it its name."""
        from geotfr.rasters.safe_open import raster_env

        with self.output.written(target, overwrite=overwrite) as (base, temporary), raster_env():
            samples = Samples.of(self._plan.rows * -(-self._plan.columns // self._plan.group))
            with self.output.sink(base, self._plan.tile_yx) as sink:
                self._write_pixels(sink, samples, progress)
            self.output.assemble(base, temporary, self._plan.tile_yx)
            self.output.check(temporary, samples.kept)
        if self._mask is not None:
            self._mask.close()

    def notes(self) -> list[str]:
        """Harmless surprises, one line each."""
        return [*self.report.notes, *filter(None, [self.output.pixel.note])]

    def warnings(self) -> list[str]:
        """What a user should know, one line each."""
        found = list(self.report.warnings)
        finish, pixel = self._finish, self.output.pixel
        if finish.rounded:
            found.append(f"{finish.rounded:,} values with a fraction were rounded to {pixel.dtype.name}")
        if finish.clamped:
            found.append(f"{finish.clamped:,} values are outside the range of {pixel.dtype.name} and were clamped")
        if finish.equal_nodata:
            found.append(
                f"{finish.equal_nodata:,} predictions are {pixel.nodata}, the nodata value; give another --nodata"
            )
        if self.lost:
            first = self.report.faults[0] if self.report.faults else ""
            found.append(f"{self.lost:,} patches are lost and filled; the first fault: {first}")
        return found

    @property
    def _planes(self) -> int:
        """Bands, and the mask if it is one of the planes."""
        return len(self.output.names) + self.output.pixel.has_mask

    def _finishing(self, pixel: PixelType) -> Finish:
        return Finish(
            self._options,
            dtype=pixel.dtype,
            nodata=pixel.nodata,
            mask=self._mask,
            has_mask_plane=pixel.has_mask,
            classes=self._class_values,
        )

    def _scan(self) -> Extremes:
        """The extremes of all whole numbers, by a pass over the records."""
        extremes = Extremes()
        finish = self._finishing(PixelType(dtype=self._cores.dtype, nodata=self._options.nodata))
        for run in self._cores.runs(range(self.grid.columns), ReadReport()):
            for value, valid in zip(*finish.reduced(run), strict=True):
                extremes.add(value, valid)
        return extremes

    def _write_pixels(self, sink: GeoTiffSink, samples: Samples, progress: bool | Progress) -> None:
        pixel, bands = self.output.pixel, len(self.output.names)
        rows_px, cols_px = self.grid.geobox.shape_yx
        statistics = BandStatistics(bands, pixel.nodata) if self._options.statistics else None

        def write(row: int, col: int, planes: NDArray[Any]) -> None:
            # A padded edge reaches beyond the raster.
            inside = planes[:, : max(rows_px - row, 0), : max(cols_px - col, 0)]
            if not inside.size:
                return
            data, valid = inside[:bands], inside[-1] != 0 if pixel.has_mask else None
            sink.write(row, col, data)
            if valid is not None:
                sink.write_mask(row, col, valid)
            samples.keep(row, col, data)
            if statistics is not None:
                statistics.add(data, valid)

        total = self.grid.rows * self.grid.columns
        with progress_bar(progress, total_patches=total, what="ingest") as report:
            for columns in self._plan.passes:
                writer = MosaicWriter(
                    self._plan, columns, dtype=pixel.dtype, bands=self._planes, fill=self._finish.fill, write=write
                )
                self._place_all(writer, columns, report)
                writer.finish()
        if statistics is not None:
            sink.tag_bands(statistics.tags())

    def _place_all(self, writer: MosaicWriter, columns: range, progress: Progress) -> None:
        """Every patch to its place; faults are reported by the first pass alone."""
        size = self._predictions.patch_bytes
        for run in self._cores.runs(columns, self.report if columns.start == 0 else ReadReport()):
            values, valid = self._finish.reduced(run)
            for which, planes in writer.places(run.row * self.grid.columns + run.column, len(run)):
                self._finish.place(run, which, planes, values, valid)
            progress(len(run), len(run) * size)


def _write_preview(raster: Path, picture: Path, *, overwrite: bool) -> None:
    from geotfr.rasters.quicklook import write_quicklook
    from geotfr.rasters.safe_open import raster_env

    with atomic_path(picture, overwrite=overwrite) as temporary, raster_env():
        write_quicklook(raster, temporary)


def _tile_of(creation_options: Iterable[tuple[str, str]]) -> tuple[int | None, int | None]:
    """(rows, columns) of the tile that the creation options ask for."""
    wanted: dict[str, int | None] = {}
    for name, value in creation_options:
        wanted[name] = int(value) if value.isdecimal() and int(value) > 0 and int(value) % 16 == 0 else None
    return wanted.get("BLOCKYSIZE"), wanted.get("BLOCKXSIZE")

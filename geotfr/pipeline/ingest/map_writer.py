"""From patches to a raster: reduced, placed, written tile by tile, compared, and given its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import UsageError
from geotfr.pipeline.ingest.classes import read_classes
from geotfr.pipeline.ingest.finish import Extremes, Finish, reduced_names
from geotfr.pipeline.ingest.mosaic import MosaicWriter, plan_mosaic
from geotfr.pipeline.ingest.overlap import Cores
from geotfr.pipeline.ingest.pixel_type import PixelType, choose_pixel_type
from geotfr.pipeline.ingest.plan import ASSEMBLY_BYTES, GDAL_CACHE_BYTES, PROCESS_BYTES, IngestPlan
from geotfr.pipeline.ingest.raster_output import BandStatistics, RasterOutput, Samples, window_moments
from geotfr.pipeline.progress import progress_bar
from geotfr.rasters.tile_writer import TILES_PER_THREAD
from geotfr.records.faults import ReadReport
from geotfr.records.framing import BATCH_BYTES
from geotfr.storage import atomic_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from geotfr.options import IngestOptions
    from geotfr.pipeline.ingest.finish import FinishCounts
    from geotfr.pipeline.ingest.mosaic import MosaicArea
    from geotfr.pipeline.ingest.output_grid import OutputGrid
    from geotfr.pipeline.ingest.overlap import PatchSource
    from geotfr.pipeline.ingest.source_mask import SourceMask
    from geotfr.pipeline.progress import Progress
    from geotfr.rasters.sink import GeoTiffSink

    UseWindow = Callable[[int, int, NDArray[Any], NDArray[np.bool_] | None], None]

__all__ = ["MapWriter", "write_preview"]


class MapWriter:
    """Writes patches as they come, each to its place.

    Parameters
    ----------
    patches
        What is read; its bands are known.
    grid
        Where the patches lie.
    options
        How they become pixels.
    mask
        Where the source is masked, or None.
    leaves_gaps
        Whether some patches never come.
    threads
        Threads that compress.
    can_scan
        Whether the patches may be read once more to choose a type or a nodata value.
    pixel
        The type, where it is chosen already.
    what
        What the progress bar says.

    Raises
    ------
    UsageError
        Options that can't be for these bands.
    """

    def __init__(
        self,
        patches: PatchSource,
        grid: OutputGrid,
        options: IngestOptions,
        *,
        mask: SourceMask | None,
        leaves_gaps: bool,
        threads: int,
        can_scan: bool = True,
        pixel: PixelType | None = None,
        what: str = "ingest",
    ) -> None:
        self._options = options
        self._what = what
        self._grid = grid
        self._patches = patches
        self._cores = Cores(patches, grid, options)
        names = reduced_names([band.name for band in self._cores.bands], options)
        classes = read_classes(options.classes) if options.classes else ()
        self._class_values = frozenset(each.value for each in classes) if classes else None
        self.mask = mask
        self._leaves_gaps = mask is not None or leaves_gaps
        self.report = ReadReport()
        self._space_warning = ""
        pixel = pixel or choose_pixel_type(
            self._cores.dtype,
            len(self._cores.bands),
            options,
            leaves_gaps=self._leaves_gaps,
            scan=self._scan if can_scan else self._unknown,
        )
        self._finish = self._finishing(pixel)
        self.output = RasterOutput(
            geobox=self._grid.geobox, names=names, pixel=pixel, options=options, classes=classes, threads=threads
        )
        self.mosaic = plan_mosaic(
            self._grid,
            pixel_bytes=pixel.dtype.itemsize * self._planes,
            tile_yx=_tile_of(options.creation_options),
            most_columns=self._cores.most_columns,
        )

    @property
    def statistics(self) -> bool:
        """Whether the bands' statistics are wanted."""
        return self._options.statistics

    @property
    def met(self) -> FinishCounts:
        """What the values met on their way, here and in parts that were made elsewhere."""
        return self._finish.met

    @property
    def clamped(self) -> int:
        """Values outside the type's range, moved to its end."""
        return self.met.clamped

    def plan(self, *, records: int, shards: int) -> IngestPlan:
        """What will be written, of ``records`` records in ``shards`` files."""
        output, plan, grid = self.output, self.mosaic, self._grid
        return IngestPlan(
            geobox=grid.geobox,
            bands=output.names,
            dtype=output.pixel.dtype.name,
            nodata=output.pixel.nodata,
            has_mask=output.pixel.has_mask,
            patches=grid.rows * grid.columns,
            records=records,
            shards=shards,
            patch_yx=grid.patch_yx,
            margin_yx=self._cores.margin_yx,
            overlap=self._options.overlap,
            format=self._options.format,
            creation_options=tuple(output.all_options(plan.tile_yx).items()),
            levels_yx=output.levels_yx,
            passes=len(plan.passes),
            output_bytes=output.most_bytes,
            staged_bytes=output.most_bytes if output.is_staged else 0,
            memory_bytes=self._memory_bytes(),
            workers=output.threads,
            notes=tuple(self.notes()),
        )

    def _memory_bytes(self) -> int:
        """Peak of resident memory: while pixels are placed, or while overviews and the final file are made of them."""
        plan, output = self.mosaic, self.output
        pixel_bytes = output.pixel.dtype.itemsize * self._planes
        rows, cols = plan.buffer_yx
        widest = max(len(columns) for columns in plan.passes)
        # A batch of records, the one that is decoded, and pixels on the way into tiles.
        batches = 3 * max(BATCH_BYTES, self._patches.patch_bytes)
        placing = rows * cols * pixel_bytes + self._cores.held_bytes(widest) + batches + GDAL_CACHE_BYTES
        tile = plan.tile_yx[0] * plan.tile_yx[1] * pixel_bytes
        # Each thread's tile in four states on its way, and those that wait.
        placing += (4 + TILES_PER_THREAD) * output.threads * tile
        return PROCESS_BYTES + max(placing, ASSEMBLY_BYTES if output.is_staged else 0)

    def write(self, target: Path, *, overwrite: bool, progress: bool | Progress, verify: bool = False) -> None:
        """Write the raster under a temporary name, compare it, and give it its name.

        With ``verify`` the patches are read once more, and all pixels are compared.
        """
        from geotfr.rasters.safe_open import raster_env

        self.check_space(target.parent)
        with self.output.written(target, overwrite=overwrite) as (base, temporary), raster_env():
            samples = self.samples()
            with self.output.sink(base, self.mosaic.tile_yx) as sink:
                self._write_pixels(sink, samples, progress)
            self.output.assemble(base, temporary, self.mosaic.tile_yx)
            self.output.check(temporary, samples.kept)
            if verify:
                self.compare(temporary, self._areas, progress)
        self.close()

    def check_space(self, folder: Path) -> None:
        """Refuse a raster that can't fit into ``folder``, and note to warn of one that may not."""
        self._space_warning = self.output.check_space(folder, self.mosaic.tile_yx)

    def samples(self) -> Samples:
        """What keeps some corners of the windows that will be written."""
        return Samples.of(self.mosaic.rows * -(-self.mosaic.columns // self.mosaic.group))

    def close(self) -> None:
        """Close the mask."""
        if self.mask is not None:
            self.mask.close()

    def notes(self) -> list[str]:
        """Harmless surprises, one line each."""
        style = "a style beside the raster (.qml) lists its classes for QGIS" if self.output.classes else None
        return [*self.report.notes, *filter(None, [self.output.pixel.note, self.output.overview_note, style])]

    def warnings(self) -> list[str]:
        """What a user should know, one line each."""
        understood = () if self.mask is None else self.mask.warnings
        told = filter(None, [self._space_warning, self.output.crs_warning])
        found = [*told, *self.report.warnings, *understood]
        met, pixel = self.met, self.output.pixel
        if met.rounded:
            found.append(f"{met.rounded:,} values with a fraction were rounded to {pixel.dtype.name}")
        if met.inexact:
            found.append(f"{met.inexact:,} whole numbers can't be held exactly by {pixel.dtype.name} and were rounded")
        if met.clamped:
            found.append(f"{met.clamped:,} values are outside the range of {pixel.dtype.name} and were clamped")
        if met.nan_blended:
            found.append(f"{met.nan_blended:,} predicted values are NaN and took no part in the overlap")
        if met.equal_nodata:
            found.append(
                f"{met.equal_nodata:,} predictions are {pixel.nodata}, the nodata value; give another --nodata"
            )
        if self._patches.lost:
            first = self.report.faults[0] if self.report.faults else ""
            found.append(f"{self._patches.lost:,} patches are lost and filled; the first fault: {first}")
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
            mask=self.mask,
            has_mask_plane=pixel.has_mask,
            leaves_gaps=self._leaves_gaps,
            classes=self._class_values,
        )

    def _scan(self) -> Extremes:
        """The extremes of all whole numbers, by a pass over the records."""
        extremes = Extremes()
        finish = self._finishing(PixelType(dtype=self._cores.dtype, nodata=self._options.nodata))
        for run in self._cores.runs(range(self._grid.columns), ReadReport()):
            for value, valid in zip(*finish.reduced(run), strict=True):
                extremes.add(value, valid)
        return extremes

    def _unknown(self) -> Extremes:
        """Where nothing is known before all is written: any value may occur."""
        if self._options.dtype == "auto":
            raise UsageError("dtype: auto takes a pass over all predictions before the first is written; name the type")
        limits = np.iinfo(np.int64)
        extremes = Extremes()
        extremes.are_known = False
        extremes.low, extremes.high = int(limits.min), int(limits.max)
        return extremes

    def _write_pixels(self, sink: GeoTiffSink, samples: Samples, progress: bool | Progress) -> None:
        nodata = self.output.pixel.nodata
        statistics = BandStatistics(len(self.output.names)) if self._options.statistics else None

        def write(row: int, col: int, data: NDArray[Any], valid: NDArray[np.bool_] | None) -> None:
            sink.write(row, col, data)
            if valid is not None:
                sink.write_mask(row, col, valid)
            samples.keep(row, col, data)
            if statistics is not None:
                statistics.add(data[0].size, window_moments(data, valid, nodata))

        self.each_window(write, self._areas, progress)
        if statistics is not None:
            sink.tag_bands(statistics.tags())

    @property
    def _areas(self) -> list[MosaicArea]:
        """The whole raster, pass by pass."""
        return [self.mosaic.area(columns, range(self.mosaic.rows)) for columns in self.mosaic.passes]

    def compare(self, path: Path, areas: Iterable[MosaicArea], progress: bool | Progress) -> None:
        """Read the patches of some areas once more, and compare all their pixels with the raster at ``path``."""
        from geotfr.rasters.read_back import PixelCheck

        with PixelCheck(path) as check:
            finish = self._finishing(self.output.pixel)
            self._windows(check.compare, areas, finish, ReadReport(), progress)

    def each_window(self, use: UseWindow, areas: Iterable[MosaicArea], progress: bool | Progress) -> None:
        """Call ``use`` with (row, column, pixels, mask or None) for windows that cover these areas."""
        self._windows(use, areas, self._finish, self.report, progress)

    def _windows(
        self,
        use: UseWindow,
        areas: Iterable[MosaicArea],
        finish: Finish,
        faults: ReadReport,
        progress: bool | Progress,
    ) -> None:
        pixel, bands = self.output.pixel, len(self.output.names)
        rows_px, cols_px = self._grid.geobox.shape_yx
        total = self._grid.rows * self._grid.columns
        with progress_bar(progress, total_patches=total, what=self._what) as report:
            for area in areas:

                def write(row: int, col: int, planes: NDArray[Any], area: MosaicArea = area) -> None:
                    # A padded edge reaches beyond the raster, a patch's rows beyond those of the area.
                    first, stop = max(row, area.top), min(area.bottom, rows_px)
                    inside = planes[:, first - row : max(stop - row, 0), : max(cols_px - col, 0)]
                    if inside.size:
                        use(first, col, inside[:bands], inside[-1] != 0 if pixel.has_mask else None)

                writer = MosaicWriter(
                    self.mosaic,
                    area.columns,
                    area.rows,
                    dtype=pixel.dtype,
                    bands=self._planes,
                    fill=finish.fill,
                    write=write,
                )
                # Faults are reported by the first pass alone.
                self._place_all(writer, area, finish, faults if area.columns.start == 0 else ReadReport(), report)
                writer.finish()

    def _place_all(
        self, writer: MosaicWriter, area: MosaicArea, finish: Finish, faults: ReadReport, progress: Progress
    ) -> None:
        """Every patch to its place."""
        size, height = self._patches.patch_bytes, self._grid.patch_yx[0]
        is_whole = len(area.rows) == self._grid.rows
        for run in self._cores.runs(area.columns, faults, None if is_whole else area.rows):
            values, valid = finish.reduced(run)
            top = run.row * height
            rows = slice(max(area.top - top, 0), min(area.bottom - top, height))
            for which, planes in writer.places(run.row * self._grid.columns + run.column, len(run)):
                finish.place(run, which, rows, planes[:, :, rows], values, valid)
            progress(len(run), len(run) * size)


def write_preview(raster: Path, picture: Path, *, overwrite: bool) -> None:
    """Write a picture of ``raster``, at most 1024 pixels wide and high, as the PNG ``picture``."""
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

"""An ingest whose areas other processes make: the parent puts their tiles together.

First the shards are counted, which tells where each patch is. Then each task reads the patches of an area, and of the
rows around it where margins are blended, and writes its pixels as the whole would be written: the very tiles. These are
appended to the raster as they are, in the order of one run, so that the bytes are the same. Where tiles can't be taken
over (a mask inside the file, some of GDAL's creation options), the pixels are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from geotfr.errors import OutputError, UsageError
from geotfr.grid import Window
from geotfr.pipeline.executors.choose import is_dask_client, opened_engine
from geotfr.pipeline.executors.tasks import run_tasks
from geotfr.pipeline.ingest.parts.tasks import AreaGiven, CompareArea, CountShard, MakeArea, areas_of
from geotfr.pipeline.ingest.plan import PROCESS_BYTES
from geotfr.pipeline.ingest.raster_output import BandStatistics, folder_beside
from geotfr.pipeline.progress import progress_bar
from geotfr.storage.output_error import output_error

if TYPE_CHECKING:
    from pathlib import Path

    from geotfr.mixer.sets import PredictionSet
    from geotfr.options import IngestOptions
    from geotfr.pipeline.executors.choose import ExecutorLike, SchedulerLike
    from geotfr.pipeline.executors.tasks import Engine
    from geotfr.pipeline.ingest.map_writer import MapWriter
    from geotfr.pipeline.ingest.parts.tasks import AreaFacts, WindowFacts
    from geotfr.pipeline.ingest.plan import IngestPlan
    from geotfr.pipeline.ingest.predictions import KnownRecords, Predictions, ShardCount
    from geotfr.pipeline.progress import Progress
    from geotfr.rasters.read_back import PixelReader
    from geotfr.rasters.tile_merge import TileMerger

__all__ = ["DistributedIngest", "area_count"]

_AREA_BYTES = 64 * 2**20
# A shard is read from its beginning for each area that it has patches of.
_AREAS_A_SHARD = 4
_MOST_AREAS = 10_000
_AGAIN = "nothing of it is kept; run it again"


def area_count(run: MapWriter, shards: int) -> int:
    """About how many areas a raster is made in: from its size and the shards alone, not from workers.

    About 64 MiB of pixels each, that cost little beside what they need to begin; but no more than four for each shard.
    """
    rows, cols = run.output.geobox.shape_yx
    size = rows * cols * len(run.output.names) * run.output.pixel.dtype.itemsize
    return min(max(-(-size // _AREA_BYTES), 1), _AREAS_A_SHARD * shards, _MOST_AREAS)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedIngest:
    """How a distributed ingest runs.

    Attributes
    ----------
    executor, scheduler
        Who makes the areas.
    workers
        Processes at once, where the run starts them.
    """

    executor: ExecutorLike
    scheduler: SchedulerLike | None
    workers: int

    @property
    def is_elsewhere(self) -> bool:
        """Whether a cluster that is there already makes the areas: its workers may be on other machines."""
        return self.scheduler is not None or is_dask_client(self.executor)

    @staticmethod
    def check(options: IngestOptions) -> None:
        """Refuse what can't be made by areas.

        Raises
        ------
        UsageError
            Records in any order: each area would have to read all of them.
        """
        if options.patch_index is not None:
            raise UsageError(
                "executor: with patch_index each process would read all records to find its own; use the executor"
                " threads"
            )
        if options.of_collection:
            raise UsageError("executor: with of_collection one process finds the raster's records; use threads")

    def plan(self, plan: IngestPlan) -> IngestPlan:
        """The plan of the whole, of that of one worker."""
        return replace(plan, workers=self.workers, memory_bytes=plan.memory_bytes * self.workers + PROCESS_BYTES)

    def write(
        self,
        found: PredictionSet,
        options: IngestOptions,
        predictions: Predictions,
        run: MapWriter,
        target: Path,
        *,
        overwrite: bool,
        progress: bool | Progress,
        verify: bool,
    ) -> None:
        """Write the raster; see :meth:`geotfr.pipeline.ingest.map_writer.MapWriter.write`."""
        from geotfr.rasters.safe_open import raster_env

        run.check_space(target.parent)
        engine_of = opened_engine(self.executor, workers=self.workers, scheduler=self.scheduler)
        with run.output.written(target, overwrite=overwrite) as (base, temporary), raster_env(), engine_of as engine:
            known = self._count(engine, found, options, predictions, run)
            count = area_count(run, len(found.shards))
            given = AreaGiven(
                found=found, options=options, known=known, pixel=run.output.pixel, mask=run.mask, areas=count
            )
            areas = areas_of(run.mosaic, count)
            patches = [area.patches for area in areas]
            with (
                folder_beside(target) as folder,
                _Assembly(run, base, folder) as assembly,
                progress_bar(progress, total_patches=sum(patches), what="ingest") as report,
            ):
                place = iter(patches)

                def commit(facts: AreaFacts) -> None:
                    assembly.add(facts)
                    run.met.add(facts.met)
                    report(next(place), facts.size_bytes)

                run_tasks(engine, MakeArea(**given, folder=folder), len(areas), commit, again=_AGAIN)
            run.output.assemble(base, temporary, run.mosaic.tile_yx)
            run.output.check(temporary, assembly.samples.kept)
            if verify:
                compare = CompareArea(**given, path=temporary)
                run_tasks(engine, compare, len(areas), lambda _: None, again=_AGAIN)
        run.close()

    @staticmethod
    def _count(
        engine: Engine, found: PredictionSet, options: IngestOptions, predictions: Predictions, run: MapWriter
    ) -> KnownRecords:
        """What the shards hold; what reading them met goes into the run's report."""
        counts: list[ShardCount] = []
        run_tasks(engine, CountShard(found=found, options=options), len(found.shards), counts.append, again=_AGAIN)
        for count in counts:
            run.report.add(count.report)
        return predictions.known(counts)


class _Assembly:
    """Puts areas into the file of the pixels, in order: their tiles as they are, or their pixels."""

    def __init__(self, run: MapWriter, base: Path, folder: Path) -> None:
        self._output = run.output
        self._base = base
        self._folder = folder
        self.samples = run.samples()
        """Corners of the areas' windows."""
        self._statistics = BandStatistics(len(run.output.names)) if run.statistics else None
        takes_tiles = run.output.takes_tiles(run.mosaic.tile_yx)
        self._sink = run.output.sink(base, run.mosaic.tile_yx, is_empty=takes_tiles)
        self._merger: TileMerger | None = None
        if takes_tiles:
            from geotfr.rasters.tile_merge import TileMerger

            self._sink.close()
            self._merger = TileMerger(base)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        tags = [] if self._statistics is None else self._statistics.tags()
        if self._merger is not None:
            self._merger.__exit__(kind, error, trace)
            if kind is None and any(tags):
                from geotfr.rasters.sink import tag_raster

                tag_raster(str(self._base), tags)
            return
        if kind is None and tags:
            self._sink.tag_bands(tags)
        self._sink.__exit__(kind, error, trace)

    def add(self, facts: AreaFacts) -> None:
        """Put an area in its place, and remove its file.

        Raises
        ------
        OutputError
            Its file isn't as it was written, or the raster can't be written.
        """
        if not facts.name:
            return
        from geotfr.rasters.read_back import PixelReader

        path = self._folder / facts.name
        try:
            size = path.stat().st_size
        except OSError as error:
            raise output_error(path, error) from error
        if size != facts.size_bytes:
            raise OutputError(
                f"{path}: an area's file has {size:,} bytes, {facts.size_bytes:,} were written; do all workers see this"
                " folder at once?"
            )
        with PixelReader(path) as reader:
            for window in facts.windows:
                self._add_window(reader, facts, window)
        if self._merger is not None:
            self._merger.append(path, facts.row, facts.col)
        path.unlink(missing_ok=True)

    def _add_window(self, reader: PixelReader, facts: AreaFacts, window: WindowFacts) -> None:
        if self._statistics is not None:
            self._statistics.add(window.shape_yx[0] * window.shape_yx[1], window.moments)
        height, width = window.shape_yx
        place = Window(row=window.row - facts.row, col=window.col - facts.col, height=height, width=width)
        if self._merger is None:
            data = reader.pixels(place)
            self._sink.write(window.row, window.col, data)
            if self._output.pixel.has_mask:
                self._sink.write_mask(window.row, window.col, reader.valid(place))
            self.samples.keep(window.row, window.col, data)
        elif self.samples.keeps_next:
            self.samples.keep(window.row, window.col, reader.pixels(place))
        else:
            self.samples.seen += 1

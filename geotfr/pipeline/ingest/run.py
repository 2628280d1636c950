"""Ingest: mixer and shards -> grid -> records in order -> trimmed patches -> tiles -> compared -> final name."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from geotfr.errors import UsageError
from geotfr.flags import checks_flags
from geotfr.mixer.sets import find_predictions, of_collection
from geotfr.options import IngestKeywords, IngestOptions, resolve_workers
from geotfr.options.values import checked_choice
from geotfr.pipeline.executors.choose import checked_executor
from geotfr.pipeline.ingest.map_writer import MapWriter, write_preview
from geotfr.pipeline.ingest.output_grid import output_grid, set_on_raster
from geotfr.pipeline.ingest.predictions import Predictions
from geotfr.pipeline.ingest.result import IngestResult
from geotfr.pipeline.ingest.source_mask import FROM_MANIFEST, manifest_sources, open_source_mask
from geotfr.storage.atomic import check_output
from geotfr.storage.inputs import check_not_input
from geotfr.storage.outputs import local_output
from geotfr.storage.style_files import check_style, style_path
from geotfr.stores.path import is_local, output_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from geotfr.mixer.sets import PredictionSet
    from geotfr.options import PairXY
    from geotfr.pipeline.executors.choose import ExecutorLike, SchedulerLike
    from geotfr.pipeline.ingest.parts.distribute import DistributedIngest
    from geotfr.pipeline.ingest.plan import IngestPlan
    from geotfr.pipeline.progress import Progress

__all__ = ["ingest_predictions", "ingest_set", "ingest_workers", "plan_ingest", "plan_set"]


@checks_flags
def ingest_predictions(
    mixer: str | os.PathLike[str] | None,
    shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    output: str | os.PathLike[str] | None = None,
    *,
    grid: str | os.PathLike[str] | None = None,
    patch_dimensions: PairXY | None = None,
    edge: str | None = None,
    preview: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    executor: ExecutorLike | None = None,
    scheduler: SchedulerLike | None = None,
    progress: bool | Progress = False,
    verify: bool = False,
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
    edge
        With ``grid``: ``drop`` (default) if partial patches at its edges were left out, ``pad`` if they were filled up.
    preview
        Path of a PNG picture of the result, at most 1024 pixels wide and high; None for none.
    overwrite
        Replace ``output`` and ``preview``.
    workers
        Threads that compress tiles, or processes; by default as many as there are cores, up to 4. The bytes don't
        depend on it.
    executor
        ``threads`` (default); ``serial``, as one worker; ``processes`` of this machine; ``dask`` (extra ``dask``): the
        cluster of ``scheduler``, or one of ``workers`` processes for the time of the run; a dask client; or any
        ``concurrent.futures.Executor`` whose workers see the shards and the output's folder. All but the first two make
        areas of the raster in a hidden folder there, whose tiles are put together.
    scheduler
        Address of a dask scheduler, or a client that is connected to one; it stays open.
    progress
        True for a bar on stderr, or a function of (patches, bytes).
    verify
        Read the records once more and compare every pixel of the raster before it takes its name; without it some
        corners of what was written.
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
        A raster, or several: where one is masked in any band, the output is too; one that holds 0 and 1 alone masks
        where it is 0. ``manifest``: the sources and masks that the export's manifest lists, beside it.
    sources
        The folder of the sources that the manifest lists, where they aren't beside it.
    classes
        CSV file of ``value,name,#rrggbb``: the colour table and category names of the output. A value that isn't in it
        is an error.
    shard_order
        ``natural`` (default): by the numbers in the names, whatever the order given. ``given``: as listed.
    of_collection
        The shards hold predictions for all records of a collection whose rasters share shards
        (:func:`geotfr.export_collection`), in their order; those of the mixer's raster are taken.
    on_bad_record
        ``error`` (default), ``skip`` or ``repair``: see :func:`geotfr.read_records`.
    format
        ``gtiff`` (default) or ``cog``, a cloud-optimised GeoTIFF.
    compress
        ``deflate`` (default), ``zstd``, ``lzw`` or ``none``.
    pyramiding_policy
        How overviews are made: ``mean``, ``mode``, ``min``, ``max`` or ``sample``, for all bands or as a mapping of
        bands, ``*`` for the others. Without it a GeoTIFF has none, and a COG's are ``mode`` for whole numbers, else
        ``mean``.
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
    EngineLostError
        The executor is gone, or its workers die again and again.

    Notes
    -----
    **Source**: Earth Engine's guide to uploading TFRecord predictions with a mixer.
    """
    if output is None:
        raise UsageError("output is missing; give the path of the GeoTIFF to write")
    checked = IngestOptions.checked(**options)
    threads, spread = ingest_workers(workers, executor, scheduler, checked)
    target = output_path(output)
    check_output(target, overwrite=overwrite)
    given = [shards] if isinstance(shards, str | os.PathLike) else list(shards)
    found = _found(mixer, given, checked, grid=grid, patch_dimensions=patch_dimensions, edge=edge)
    return ingest_set(
        found,
        target,
        checked,
        preview=None if preview is None else output_path(preview),
        overwrite=overwrite,
        threads=threads,
        spread=spread,
        progress=progress,
        verify=verify,
    )


def ingest_workers(
    workers: int | None, executor: ExecutorLike | None, scheduler: SchedulerLike | None, options: IngestOptions
) -> tuple[int, DistributedIngest | None]:
    """(threads of this process, how other processes take part; None: they don't).

    Raises
    ------
    UsageError
        No such executor, or options that other processes can't do.
    """
    count, engine = resolve_workers(workers, os.cpu_count() or 1), checked_executor(executor, scheduler)
    if engine in ("serial", "threads"):
        return 1 if engine == "serial" else count, None
    # It builds upon what this module does.
    from geotfr.pipeline.ingest.parts.distribute import DistributedIngest

    DistributedIngest.check(options)
    return count, DistributedIngest(executor=engine, scheduler=scheduler, workers=count)


def plan_ingest(
    mixer: str | os.PathLike[str] | None,
    shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    *,
    grid: str | os.PathLike[str] | None = None,
    patch_dimensions: PairXY | None = None,
    edge: str | None = None,
    workers: int | None = None,
    executor: ExecutorLike | None = None,
    scheduler: SchedulerLike | None = None,
    **options: Unpack[IngestKeywords],
) -> IngestPlan:
    """What :func:`ingest_predictions` will write with the same arguments, and what it takes of disk and memory.

    The first record is read; all are where a type or nodata value is chosen by the values (``dtype`` ``auto``, an
    integer type with gaps). Nothing is written. Raises as :func:`ingest_predictions` does.
    """
    checked = IngestOptions.checked(**options)
    threads, spread = ingest_workers(workers, executor, scheduler, checked)
    given = [shards] if isinstance(shards, str | os.PathLike) else list(shards)
    found = _found(mixer, given, checked, grid=grid, patch_dimensions=patch_dimensions, edge=edge)
    return plan_set(found, checked, threads=threads, spread=spread)


def ingest_set(
    found: PredictionSet,
    target: Path,
    options: IngestOptions,
    *,
    preview: Path | None,
    overwrite: bool,
    threads: int,
    progress: bool | Progress,
    spread: DistributedIngest | None = None,
    verify: bool = False,
) -> IngestResult:
    """Turn one set into the raster ``target``; see :func:`ingest_predictions`."""
    started = time.perf_counter()
    for path in filter(None, (target, preview)):
        check_output(path, overwrite=overwrite)
        check_not_input(path, files_read(found, options))
    check_style(target, overwrite=overwrite or options.classes is None)
    if preview is not None and preview.resolve() == target.resolve():
        raise UsageError(f"{preview}: the preview is the output itself; give another path")
    if spread is not None and spread.is_elsewhere and not is_local(target):
        raise UsageError(
            f"scheduler: {target} is made in a folder of this machine first, where workers elsewhere don't see it; give"
            " a folder that they see, and copy the raster"
        )
    with local_output(target, overwrite=overwrite) as path:
        predictions, run = _prepared(found, options, threads)
        if spread is None:
            run.write(path, overwrite=overwrite, progress=progress, verify=verify)
        else:
            spread.write(found, options, predictions, run, path, overwrite=overwrite, progress=progress, verify=verify)
        if preview is not None:
            write_preview(path, preview, overwrite=overwrite)
        size_bytes = path.stat().st_size
    return IngestResult(
        output=target,
        style=style_path(target) if run.output.classes else None,
        geobox=run.output.geobox,
        bands=run.output.names,
        dtype=run.output.pixel.dtype.name,
        nodata=run.output.pixel.nodata,
        has_mask=run.output.pixel.has_mask,
        patches=found.mixer.total_patches - len(found.dropped) - predictions.lost,
        patches_lost=predictions.lost,
        values_clamped=run.clamped,
        shards=found.shards,
        size_bytes=size_bytes,
        seconds=time.perf_counter() - started,
        notes=tuple(run.notes()),
        warnings=tuple(run.warnings()),
    )


def files_read(found: PredictionSet, options: IngestOptions) -> Iterator[str | Path]:
    """The files that an ingest of a set reads."""
    yield from (found.mixer_path, *found.shards)
    for name in options.mask_from:
        if name != FROM_MANIFEST:
            yield name
        elif found.manifest is not None:
            yield from manifest_sources(found, options)
    if options.classes is not None:
        yield options.classes


def plan_set(
    found: PredictionSet, options: IngestOptions, *, threads: int, spread: DistributedIngest | None = None
) -> IngestPlan:
    """The plan for one set; see :func:`plan_ingest`."""
    _, run = _prepared(found, options, threads)
    plan = run.plan(records=found.mixer.total_patches - len(found.dropped), shards=len(found.shards))
    return plan if spread is None else spread.plan(plan)


def _prepared(found: PredictionSet, options: IngestOptions, threads: int) -> tuple[Predictions, MapWriter]:
    grid = output_grid(found, options)
    predictions = Predictions(found, options, grid)
    run = MapWriter(
        predictions,
        grid,
        options,
        mask=open_source_mask(options, grid, found) if options.mask_from else None,
        leaves_gaps=bool(found.dropped),
        threads=threads,
    )
    run.report.warnings.extend(predictions.warnings)
    return predictions, run


def _found(
    mixer: str | os.PathLike[str] | None,
    shards: list[str | os.PathLike[str]],
    options: IngestOptions,
    *,
    grid: str | os.PathLike[str] | None,
    patch_dimensions: PairXY | None,
    edge: str | None,
) -> PredictionSet:
    chosen = "drop" if edge is None else checked_choice("edge", edge, ("drop", "pad"))
    if grid is not None:
        if options.of_collection:
            raise UsageError("of_collection: the manifest beside a mixer tells the raster's records; not with grid")
        if mixer is not None:
            raise UsageError("grid: stands for the mixer; give one of them")
        return set_on_raster(grid, patch_dimensions, shards, edge=chosen, shard_order=options.shard_order)
    if mixer is None:
        raise UsageError("mixer is missing; give its path, or a raster as grid")
    for name, given in (("patch_dimensions", patch_dimensions), ("edge", edge)):
        if given is not None:
            raise UsageError(f"{name}: the mixer, or the manifest beside it, tells the patches; only --grid needs it")
    found = find_predictions(mixer, shards, shard_order=options.shard_order)
    return of_collection(found) if options.of_collection else found

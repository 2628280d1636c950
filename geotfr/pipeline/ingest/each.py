"""Ingest: many sets of one folder, each to a raster of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Unpack

from geotfr.errors import OutputError
from geotfr.mixer.sets import find_each
from geotfr.options import IngestKeywords, IngestOptions
from geotfr.pipeline.ingest.run import ingest_set, ingest_workers, plan_set
from geotfr.storage.atomic import check_output
from geotfr.stores.path import is_local, output_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geotfr.pipeline.executors.choose import ExecutorLike, SchedulerLike
    from geotfr.pipeline.ingest.plan import IngestPlan
    from geotfr.pipeline.ingest.result import IngestResult
    from geotfr.pipeline.progress import Progress

__all__ = ["ingest_each", "plan_each"]


def ingest_each(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    workers: int | None = None,
    executor: ExecutorLike | None = None,
    scheduler: SchedulerLike | None = None,
    progress: bool | Progress = False,
    verify: bool = False,
    **options: Unpack[IngestKeywords],
) -> Iterator[IngestResult]:
    """Turn every set in ``folder`` into ``NAME.tif`` in the folder ``output``, one after the other.

    Sets are found as :func:`geotfr.mixer.sets.find_each` tells; all names are checked before the first raster is
    written. Options as :func:`geotfr.ingest_predictions`; raises as it does.
    """
    checked = IngestOptions.checked(**options)
    checked.check_for_many()
    threads, spread = ingest_workers(workers, executor, scheduler, checked)
    found = find_each(folder, shard_order=checked.shard_order)
    target = output_path(output)
    try:
        # A store has no folders.
        if is_local(target):
            target.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(f"{target}: the folder for the rasters can't be made: {error.strerror}") from error
    paths = {name: target / f"{name}.tif" for name in found}
    for path in paths.values():
        check_output(path, overwrite=overwrite)
    for name, each in found.items():
        yield ingest_set(
            each,
            paths[name],
            checked,
            preview=None,
            overwrite=overwrite,
            threads=threads,
            spread=spread,
            progress=progress,
            verify=verify,
        )


def plan_each(
    folder: str | os.PathLike[str],
    *,
    workers: int | None = None,
    executor: ExecutorLike | None = None,
    scheduler: SchedulerLike | None = None,
    **options: Unpack[IngestKeywords],
) -> Iterator[tuple[str, IngestPlan]]:
    """(name, plan) of every set in ``folder``; nothing is written. Raises as :func:`ingest_each` does."""
    checked = IngestOptions.checked(**options)
    checked.check_for_many()
    threads, spread = ingest_workers(workers, executor, scheduler, checked)
    for name, each in find_each(folder, shard_order=checked.shard_order).items():
        yield name, plan_set(each, checked, threads=threads, spread=spread)

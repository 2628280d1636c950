"""An export whose parts other processes make: each task stages one part, the parent makes the set of them.

A task is a number: what it needs to know goes to each worker once with it, and what comes back are counts. The parts
lie where the output does, which all workers see: a folder, or one of a store. How many there are follows from the plan
alone, so a run that was stopped can be continued with another executor or number of workers.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from geotfr.errors import EngineLostError, LockedError, UsageError
from geotfr.mixer import SetNames
from geotfr.pipeline.executors.choose import opened_engine
from geotfr.pipeline.executors.tasks import run_tasks
from geotfr.pipeline.export.parts.finalize import pack_parts
from geotfr.pipeline.export.parts.split import MOST_PARTS, SHARDS_A_PART
from geotfr.pipeline.export.parts.stage import PartResult, split_part, stage_part
from geotfr.pipeline.export.plan import PROCESS_BYTES
from geotfr.pipeline.export.prepare import Prepared, open_rasters
from geotfr.pipeline.export.run import ExportJob, ExportResult
from geotfr.pipeline.export.scratch import with_scratch
from geotfr.pipeline.progress import progress_bar
from geotfr.pipeline.set_files import set_at
from geotfr.storage.staged import StagedParts, part_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from geotfr.options import ExportOptions
    from geotfr.pipeline.catalog.collect import TableRequest
    from geotfr.pipeline.executors.choose import ExecutorLike, SchedulerLike
    from geotfr.pipeline.export.plan import ExportPlan
    from geotfr.pipeline.progress import Progress

__all__ = ["Distributed", "PartTask", "task_count"]

_TASK_BYTES = 64 * 2**20
_MOST_SMALL_TASKS = 512
# A worker that is being killed holds its locks for some time yet.
_WAITS_SECONDS = (0.1, 0.3, 1, 3, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTask:
    """Stages a part of an export by its number; can be pickled, and run anywhere that sees sources and output.

    Attributes
    ----------
    sources
        Paths.
    prefix
        Folder and beginning of the names.
    options
        What decides the bytes.
    total
        How many parts there are.
    on_read_error, table, memory_bytes
        As for the whole run; memory of one worker.
    run
        See :attr:`geotfr.storage.OutputSet.run`.
    """

    sources: tuple[str, ...]
    prefix: str
    options: ExportOptions
    total: int
    on_read_error: str
    table: TableRequest | None
    memory_bytes: int | None
    run: str

    def __call__(self, number: int) -> PartResult:
        """Stage part ``number``; what an earlier attempt finished of it is kept."""
        started = time.perf_counter()
        with open_rasters(list(self.sources), self.options, 1) as source:
            prepared = Prepared(
                source,
                self.options,
                workers=1,
                memory_limit=self.memory_bytes,
                on_read_error=self.on_read_error,
                table=self.table,
            )
            part = split_part(prepared, number, self.total)
            for wait in (*_WAITS_SECONDS, None):
                try:
                    return stage_part(
                        prepared,
                        self.prefix,
                        part,
                        name=part_name(number, self.total, "task"),
                        shares_set=False,
                        # Whether a set may be replaced was asked before.
                        overwrite=True,
                        resume=True,
                        progress=False,
                        started=started,
                        run=self.run,
                    )
                except LockedError:
                    if wait is None:
                        raise
                    time.sleep(wait)
        raise AssertionError("not reached")


def task_count(plan: ExportPlan) -> int:
    """How many parts an executor's run has: from the plan alone, not from workers or memory.

    Whole shards where there are many, else pieces of about 64 MiB, that cost little beside what they need to begin.
    """
    if plan.shard_count >= _MOST_SMALL_TASKS * SHARDS_A_PART:
        return min(plan.shard_count // SHARDS_A_PART, MOST_PARTS)
    return min(max(math.ceil(plan.total_bytes / _TASK_BYTES), 1), _MOST_SMALL_TASKS, plan.layout.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Distributed:
    """How a distributed export runs.

    Attributes
    ----------
    executor, scheduler
        Who runs the parts.
    workers
        Processes at once, where the run starts them.
    memory_limit
        Bytes for all workers and this process together.
    """

    executor: ExecutorLike
    scheduler: SchedulerLike | None
    workers: int
    memory_limit: int | None

    @property
    def worker_bytes(self) -> int | None:
        """What each worker may take."""
        return None if self.memory_limit is None else max(self.memory_limit - PROCESS_BYTES, 1) // self.workers

    def plan(self, prepared: Prepared) -> ExportPlan:
        """The plan of the whole, of that of one worker."""
        plan = prepared.plan
        return replace(plan, workers=self.workers, memory_bytes=plan.memory_bytes * self.workers + PROCESS_BYTES)

    def export(
        self,
        sources: object,
        prefix: str,
        options: ExportOptions,
        *,
        on_read_error: str,
        table: TableRequest | None,
        overwrite: bool,
        resume: bool,
        progress: bool | Progress,
        on_plan: Callable[[ExportPlan], None] | None,
        started: float,
    ) -> ExportResult:
        """Write the set; see :func:`geotfr.export_image`."""
        paths = _paths(sources)
        with open_rasters(list(paths), options, 1) as source:
            prepared = Prepared(
                source,
                options,
                workers=1,
                memory_limit=self.worker_bytes,
                on_read_error=on_read_error,
                table=table,
            )
            prepared.plan = with_scratch(prepared.plan, prefix, is_staged=True, writers=self.workers)
            if on_plan is not None:
                on_plan(self.plan(prepared))
            return self._run(
                prepared,
                paths,
                prefix,
                on_read_error=on_read_error,
                overwrite=overwrite,
                resume=resume,
                progress=progress,
                started=started,
            )

    def _run(
        self,
        prepared: Prepared,
        sources: tuple[str, ...],
        prefix: str,
        *,
        on_read_error: str,
        overwrite: bool,
        resume: bool,
        progress: bool | Progress,
        started: float,
    ) -> ExportResult:
        job = ExportJob(prepared)
        names = job.names_at(
            prefix, compared=("executor", "what other processes read; give files, or the executor threads")
        )
        staged = StagedParts(names.folder, names.name)
        total = task_count(prepared.plan)
        outputs = set_at(names, overwrite=overwrite, resume=resume, adopts=True)
        task = PartTask(
            sources=sources,
            prefix=prefix,
            options=prepared.options,
            total=total,
            on_read_error=on_read_error,
            table=prepared.table,
            memory_bytes=self.worker_bytes,
            run=outputs.run,
        )
        done: list[PartResult] = []
        with outputs:
            job.check_names(names, overwrite=overwrite or resume)
            _begin(names, staged, total, resume=resume)
            with (
                _removing_tasks(staged, resume=resume),
                progress_bar(progress, total_patches=prepared.plan.layout.count, what="export") as report,
            ):

                def commit(result: PartResult) -> None:
                    done.append(result)
                    report(result.patches, result.size_bytes)

                with opened_engine(self.executor, workers=self.workers, scheduler=self.scheduler) as engine:
                    run_tasks(engine, task, total, commit)
                parts = staged.read([(number, total) for number in range(total)], "task")
                packed = pack_parts(outputs, parts, prefix=prefix, verify=False, progress=False)
                staged.remove("task", journals=False)
        staged.remove("task", journals=True)
        return ExportResult(
            **packed.facts,
            plan=self.plan(prepared),
            patch_table=packed.patch_table,
            coco=None,
            shards_resumed=packed.resumed + sum(result.files_resumed for result in done),
            seconds=time.perf_counter() - started,
            warnings=packed.warnings,
        )


def _begin(names: SetNames, staged: StagedParts, total: int, *, resume: bool) -> None:
    """Remove what an earlier run left, or refuse to continue it if its parts were others."""
    if not resume:
        staged.remove("task", journals=True)
        return
    others = {found for _, found in staged.find("task")} - {total}
    if others:
        raise UsageError(
            f"{names.folder / names.name}: the stopped run can't be resumed: it had {min(others)} tasks, this one has"
            f" {total}; repeat its options, or leave --resume (resume=True) out to start again"
        )


@contextlib.contextmanager
def _removing_tasks(staged: StagedParts, *, resume: bool) -> Iterator[None]:
    """Remove what tasks staged when the block raises, but for a run that is to be resumed, or lost its engine."""
    try:
        yield
    except EngineLostError:
        raise
    except BaseException:
        if not resume:
            staged.remove("task", journals=True)
        raise


def _paths(sources: object) -> tuple[str, ...]:
    """Sources as paths, where all are.

    Raises
    ------
    UsageError
        One is in memory.
    """
    many = [sources] if isinstance(sources, str | os.PathLike) else sources
    if not isinstance(many, list | tuple) or not all(isinstance(each, str | os.PathLike) for each in many):
        raise UsageError(
            "executor: a source is in memory, where other processes can't read it; give files, or the executor threads"
        )
    return tuple(os.fspath(each) for each in many)

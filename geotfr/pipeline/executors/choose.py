"""From ``executor=`` and ``scheduler=`` to an engine."""

from __future__ import annotations

import contextlib
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Literal, get_args

from geotfr.errors import UsageError
from geotfr.options.values import checked_choice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geotfr.pipeline.executors.tasks import Engine

__all__ = ["ExecutorKind", "checked_executor", "opened_engine"]

ExecutorKind = Literal["serial", "threads", "processes", "dask"]
"""``serial`` and ``threads`` work within this process; ``processes`` and ``dask`` run parts elsewhere."""


def checked_executor(executor: ExecutorKind | Executor | str | None, scheduler: str | None) -> ExecutorKind | Executor:
    """What does the work: ``threads`` unless told, ``dask`` where a scheduler is.

    Raises
    ------
    UsageError
        No such executor, a scheduler for another one than dask, or processes within one that is just starting.
    """
    if isinstance(executor, Executor):
        if scheduler is not None:
            raise UsageError("scheduler: only the executor dask has one; leave it or the executor out")
        return executor
    kind: ExecutorKind = checked_choice(
        "executor", executor or ("threads" if scheduler is None else "dask"), get_args(ExecutorKind)
    )
    if scheduler is not None and kind != "dask":
        raise UsageError(f"scheduler: only the executor dask has one, not {kind}; leave one of them out")
    if kind == "processes":
        from geotfr.pipeline.executors.processes import refuse_while_starting

        refuse_while_starting()
    return kind


@contextlib.contextmanager
def opened_engine(executor: ExecutorKind | Executor, *, workers: int, scheduler: str | None) -> Iterator[Engine]:
    """The engine for ``executor``; what was started for it ends with the block.

    Raises
    ------
    UsageError
        The extra ``dask`` isn't installed.
    EngineLostError
        The scheduler can't be reached.
    """
    if executor == "dask":
        from geotfr.pipeline.executors.on_dask import dask_engine

        with dask_engine(scheduler, workers) as engine:
            yield engine
        return
    from geotfr.pipeline.executors.processes import GivenExecutor, ProcessEngine

    if isinstance(executor, Executor):
        yield GivenExecutor(executor, workers)
        return
    processes = ProcessEngine(workers)
    try:
        yield processes
    finally:
        processes.close()

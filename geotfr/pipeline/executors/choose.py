"""From ``executor=`` and ``scheduler=`` to an engine."""

from __future__ import annotations

import contextlib
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from geotfr.errors import UsageError
from geotfr.options.values import checked_choice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geotfr.pipeline.executors.tasks import Engine

__all__ = [
    "DaskClient",
    "ExecutorKind",
    "ExecutorLike",
    "SchedulerLike",
    "checked_executor",
    "is_dask_client",
    "opened_engine",
]

ExecutorKind = Literal["serial", "threads", "processes", "dask"]
"""``serial`` and ``threads`` work within this process; ``processes`` and ``dask`` run parts elsewhere."""


class DaskClient(Protocol):
    """A ``distributed.Client``; distributed itself isn't imported."""

    @property
    def asynchronous(self) -> bool:
        """Whether its methods are coroutines."""
        ...

    @property
    def status(self) -> str:
        """``running`` while it is connected."""
        ...

    def nthreads(self) -> Any:
        """The threads of each worker."""
        ...

    def submit(self, *args: Any, **keywords: Any) -> Any:
        """Start a task."""
        ...


ExecutorLike = ExecutorKind | Executor | DaskClient
SchedulerLike = str | DaskClient
"""The address of a dask scheduler, or a client that is connected to one."""


def is_dask_client(given: object) -> bool:
    """Whether ``given`` is a client of dask.distributed."""
    names = {f"{each.__module__.partition('.')[0]}.{each.__name__}" for each in type(given).__mro__}
    return "distributed.Client" in names


def checked_executor(executor: ExecutorLike | str | None, scheduler: SchedulerLike | None) -> ExecutorLike:
    """What does the work: ``threads`` unless told, ``dask`` where a scheduler is, and a client where one is given.

    Raises
    ------
    UsageError
        No such executor, a scheduler for another one than dask, or processes within one that is just starting.
    """
    if is_dask_client(executor) or (is_dask_client(scheduler) and executor in (None, "dask")):
        client: Any = executor if is_dask_client(executor) else scheduler
        if is_dask_client(executor) and scheduler is not None:
            raise UsageError("scheduler: the client given as executor has its own; leave one of them out")
        if client.asynchronous:
            raise UsageError("executor: an asynchronous dask client; give one that isn't, or client.get_executor()")
        return client  # type: ignore[no-any-return]  # a client
    if isinstance(executor, Executor):
        if scheduler is not None:
            raise UsageError("scheduler: only the executor dask has one; leave it or the executor out")
        return executor
    # A cluster of dask has the address of its scheduler.
    if scheduler is not None and not isinstance(getattr(scheduler, "scheduler_address", scheduler), str):
        raise UsageError(
            f"scheduler: found {type(scheduler).__name__}; allowed are the address of a dask scheduler (as"
            " cluster.scheduler_address), a dask cluster and a dask client"
        )
    if executor is not None and not isinstance(executor, str):
        raise UsageError(
            f"executor: found {type(executor).__name__}; allowed are {', '.join(get_args(ExecutorKind))}, a dask client"
            " and any concurrent.futures.Executor"
        )
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
def opened_engine(executor: ExecutorLike, *, workers: int, scheduler: SchedulerLike | None) -> Iterator[Engine]:
    """The engine for ``executor``; what was started for it ends with the block.

    Raises
    ------
    UsageError
        The extra ``dask`` isn't installed.
    EngineLostError
        The scheduler can't be reached.
    """
    if executor == "dask" or is_dask_client(executor):
        from geotfr.pipeline.executors.on_dask import client_engine, dask_engine

        with client_engine(executor) if is_dask_client(executor) else dask_engine(scheduler, workers) as engine:
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

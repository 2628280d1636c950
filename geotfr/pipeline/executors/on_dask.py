"""Tasks on dask.distributed: a scheduler that is running, or a cluster of this machine for the time of the run."""

from __future__ import annotations

import contextlib
import importlib
import logging
import uuid
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, TypeVar

from geotfr.errors import EngineLostError, GeotfrError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from geotfr.pipeline.executors.tasks import Pending

__all__ = ["DaskEngine", "client_engine", "dask_engine", "local_cluster"]

T = TypeVar("T")

_CONNECT_SECONDS = 10
# A task that raises isn't run again: only its worker's end is no fault of its own.
_RETRIES = 0
_GIVES_BACK = "MALLOC_TRIM_THRESHOLD_"


class DaskEngine:
    """The workers of ``client``'s scheduler; it moves the tasks of a worker that dies to others."""

    name = "dask"

    def __init__(self, client: Any, width: int) -> None:
        self.width = width
        self._client = client
        self._run = uuid.uuid4().hex[:12]
        self._submitted = 0

    def submit(self, fn: Callable[[int], T], number: int, /) -> Pending[T]:
        """See :class:`geotfr.pipeline.executors.tasks.Engine`."""
        self._submitted += 1
        key = f"geotfr-{self._run}-{number}-{self._submitted}"
        # Parts that come first are committed first.
        found: Pending[T] = self._client.submit(fn, number, key=key, pure=False, retries=_RETRIES, priority=-number)
        return found

    def lost_worker(self, error: BaseException) -> bool:
        """Dask gives a task up when several workers died with it."""
        return isinstance(error, _distributed().KilledWorker)

    def lost_engine(self, error: BaseException) -> bool:
        """Tasks are cancelled when the connection to the scheduler is lost."""
        if isinstance(error, CancelledError | _distributed().comm.CommClosedError):
            return True
        # A client that gave its scheduler up says so with errors of several kinds.
        return self._client.status not in ("running", "connecting") and not isinstance(error, GeotfrError)

    def renew(self) -> None:
        """Dask's nannies replace workers themselves."""


@contextlib.contextmanager
def dask_engine(address: Any, workers: int) -> Iterator[DaskEngine]:
    """The scheduler at ``address``, or of a cluster; without it, a cluster of ``workers`` processes for the block.

    Raises
    ------
    UsageError
        The extra isn't installed.
    EngineLostError
        The scheduler can't be reached, or has no worker.
    """
    distributed = _distributed()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_quiet_logs())
        if address is None:
            client = stack.enter_context(distributed.Client(stack.enter_context(local_cluster(workers))))
            yield DaskEngine(client, workers)
            return
        try:
            client = stack.enter_context(distributed.Client(address, timeout=_CONNECT_SECONDS))
            width = sum(client.nthreads().values())
        except (OSError, TimeoutError, ValueError) as error:
            raise EngineLostError(
                f"the dask scheduler at {address!r} can't be reached: {' '.join(str(error).split())}; start one with"
                " 'dask scheduler', or leave --scheduler out for a cluster of this machine"
            ) from error
        if not width:
            raise EngineLostError(
                f"the dask scheduler at {address!r} has no worker; start some with 'dask worker {address}'"
            )
        yield DaskEngine(client, width)


@contextlib.contextmanager
def client_engine(client: Any) -> Iterator[DaskEngine]:
    """The workers of a ``client`` that a caller has connected; it stays open.

    Raises
    ------
    EngineLostError
        It is closed, or its scheduler has no worker.
    """
    try:
        width = sum(client.nthreads().values()) if client.status == "running" else None
    except (OSError, TimeoutError, ValueError, _distributed().comm.CommClosedError) as error:
        raise EngineLostError(f"the dask client's scheduler can't be reached: {error}; connect another") from error
    if width is None:
        raise EngineLostError(f"the dask client is {client.status}; connect another")
    if not width:
        raise EngineLostError("the dask client's scheduler has no worker; start some")
    with _quiet_logs():
        yield DaskEngine(client, width)


@contextlib.contextmanager
def local_cluster(workers: int) -> Iterator[Any]:
    """A cluster of ``workers`` processes of this machine, of a thread each.

    Dask has its workers give memory back to the system as soon as it is free. They would take it again, page by page,
    for each patch that is compressed: a sixth of the time.
    """
    import dask.config

    key = "distributed.nanny.pre-spawn-environ"
    kept = {name: value for name, value in dask.config.get(key).items() if name != _GIVES_BACK}
    with dask.config.set({key: kept}):
        cluster = _distributed().LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        )
    with cluster:
        yield cluster


@contextlib.contextmanager
def _quiet_logs() -> Iterator[None]:
    """Keep distributed from telling of lost connections at length: an error tells it in one line."""
    names = ["distributed", *(name for name in logging.root.manager.loggerDict if name.startswith("distributed."))]
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _distributed() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        raise UsageError("executor dask: the package distributed is missing; pip install 'geotfr[dask]'") from error

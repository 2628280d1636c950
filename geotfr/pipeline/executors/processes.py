"""Tasks in processes of this machine, replaced when one is killed."""

from __future__ import annotations

import signal
import sys
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import current_process, get_context
from typing import TYPE_CHECKING, Any, TypeVar, cast

from geotfr.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.context import BaseContext, SpawnContext, SpawnProcess

__all__ = ["GivenExecutor", "ProcessEngine", "refuse_while_starting"]

NO_MAIN_GUARD = (
    "executor: processes begin by running the script anew, and this call stands there too; put it below"
    ' if __name__ == "__main__":'
)

T = TypeVar("T")

_NAME = "geotfr-worker"
_NO_MAIN_GUARD = 78
"""How a process of an engine ends whose script calls for an engine again: the parent tells what is missing, once."""


class ProcessEngine:
    """``width`` processes, started afresh (none is forked: threads may hold locks)."""

    name = "processes"

    def __init__(self, width: int) -> None:
        self.width = width
        self._start()

    def _start(self) -> None:
        context = get_context("spawn")
        self._processes: list[SpawnProcess] = []
        self._pool: Executor = ProcessPoolExecutor(
            self.width,
            mp_context=cast("BaseContext", _Recording(context, self._processes)),
            initializer=_ignore_interrupt,
        )

    def submit(self, fn: Callable[[int], T], number: int, /) -> Future[T]:
        """See :class:`geotfr.pipeline.executors.tasks.Engine`."""
        return self._pool.submit(fn, number)

    def lost_worker(self, error: BaseException) -> bool:
        """A pool breaks when one of its processes dies."""
        return isinstance(error, BrokenProcessPool)

    def lost_engine(self, error: BaseException) -> bool:
        """Processes can always be started again."""
        del error
        return False

    def renew(self) -> None:
        """Start other processes.

        Raises
        ------
        UsageError
            None can be started: each begins by running the script, which calls for processes.
        """
        self.close()
        if any(process.exitcode == _NO_MAIN_GUARD for process in self._processes):
            raise UsageError(NO_MAIN_GUARD)
        self._start()

    def close(self) -> None:
        """End the processes, whatever they do: what they left half is made again or removed."""
        # One that couldn't be started has nothing to end.
        started = [process for process in self._processes if process.pid is not None]
        for process in started:
            process.kill()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for process in started:
            process.join()


class _Recording:
    """A spawning context that notes the processes it makes, so that they can be ended at once."""

    def __init__(self, context: SpawnContext, made: list[SpawnProcess]) -> None:
        self._context = context
        self._made = made

    def __getattr__(self, name: str) -> object:
        return getattr(self._context, name)

    def Process(self, *args: Any, **more: Any) -> SpawnProcess:  # noqa: N802  (multiprocessing's name)
        process = self._context.Process(*args, **more)
        process.name = f"{_NAME}-{len(self._made)}"
        self._made.append(process)
        return process


def refuse_while_starting() -> None:
    """Refuse to make processes in one that is just starting, as multiprocessing does, but before anything is locked.

    Raises
    ------
    UsageError
        The script lacks its main guard. A process of an engine ends without a word, and its parent tells.
    """
    process = current_process()
    if not getattr(process, "_inheriting", False):
        return
    if process.name.startswith(_NAME):
        sys.exit(_NO_MAIN_GUARD)
    raise UsageError(NO_MAIN_GUARD)


def _ignore_interrupt() -> None:
    """Ctrl-C reaches the whole group of processes; the parent ends its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class GivenExecutor:
    """An executor of the caller's, left open; what it can't do any more is the end."""

    def __init__(self, executor: Executor, width: int) -> None:
        self.name = type(executor).__name__
        self.width = width
        self._executor = executor

    def submit(self, fn: Callable[[int], T], number: int, /) -> Future[T]:
        """See :class:`geotfr.pipeline.executors.tasks.Engine`."""
        return self._executor.submit(fn, number)

    def lost_worker(self, error: BaseException) -> bool:
        """Workers of another's executor can't be replaced."""
        del error
        return False

    def lost_engine(self, error: BaseException) -> bool:
        """Executors say by these that they are broken or cancelled."""
        from concurrent.futures import BrokenExecutor, CancelledError

        return isinstance(error, BrokenExecutor | CancelledError)

    def renew(self) -> None:
        """Nothing to replace."""

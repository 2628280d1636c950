"""Work spread over an executor, results in the order of submission.

The seam for parallel work is :class:`concurrent.futures.Executor`; a bounded window keeps memory bounded. With one
worker nothing is spread: the same code runs in the caller's thread.
"""

from __future__ import annotations

import contextlib
from collections import deque
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["OrderedWindow", "SerialExecutor", "encoder_pool"]

P = ParamSpec("P")
T = TypeVar("T")


class SerialExecutor(Executor):
    """Runs each task at once, in the thread that submits it; an error surfaces at the submission."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """``fn``'s finished future."""
        future: Future[T] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@contextlib.contextmanager
def encoder_pool(workers: int) -> Iterator[Executor]:
    """Threads for ``workers`` encoders; none for one. What wasn't begun when the block raises is dropped."""
    if workers == 1:
        yield SerialExecutor()
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="geotfr-encode")
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class OrderedWindow(Generic[T]):
    """At most ``size`` tasks under way; each result is committed in the order of submission."""

    def __init__(self, executor: Executor, commit: Callable[[T], None], *, size: int) -> None:
        self._executor = executor
        self._commit = commit
        self._size = size
        self._pending: deque[Future[T]] = deque()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Start a task, after committing what must make place for it."""
        while len(self._pending) >= self._size:
            self._commit(self._pending.popleft().result())
        self._pending.append(self._executor.submit(fn, *args, **kwargs))

    def drain(self) -> None:
        """Commit all that is under way."""
        while self._pending:
            self._commit(self._pending.popleft().result())

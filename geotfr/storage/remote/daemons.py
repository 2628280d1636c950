"""Requests that run beside the work, in threads that end with the process: a signal needn't wait for a store."""

from __future__ import annotations

import functools
import queue
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["DaemonThreads", "for_each"]

T = TypeVar("T")
U = TypeVar("U")


class DaemonThreads:
    """``count`` threads that run what is submitted, begun in its order."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._tasks: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._is_started = False

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Have ``call`` run; the future has what it returns or raises."""
        if not self._is_started:
            self._is_started = True
            for _ in range(self._count):
                threading.Thread(target=self._work, name="geotfr-store", daemon=True).start()
        future: Future[T] = Future()
        self._tasks.put((future, call))
        return future

    def end(self) -> None:
        """Begin nothing more than what was submitted and isn't cancelled."""
        for _ in range(self._count):
            self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, call = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)


def for_each(call: Callable[[T], U], items: Iterable[T], *, at_once: int) -> list[U]:
    """What ``call`` returns of each item, in order; raises the first item's error, and begins no more then."""
    given = list(items)
    found: dict[int, U] = {}

    def note(place: int) -> None:
        found[place] = call(given[place])

    threads = DaemonThreads(min(at_once, max(len(given), 1)))
    futures = [threads.submit(functools.partial(note, place)) for place in range(len(given))]
    threads.end()
    try:
        for future in futures:
            future.result()
    finally:
        for future in futures:
            future.cancel()
    return [found[place] for place in range(len(given))]

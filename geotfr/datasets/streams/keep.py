"""Steps that hold elements: in memory for later passes, or ready before they are asked for."""

from __future__ import annotations

import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from geotfr.datasets.streams.node import Step, without_first

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geotfr.datasets.streams.node import Node, Pass
    from geotfr.datasets.streams.rows import Rows
    from geotfr.datasets.streams.work import Workers

__all__ = ["Cache", "Prefetch"]

T = TypeVar("T")


class Cache(Step):
    """All elements in memory, from the first whole pass on; those that have been held are read-only.

    They are those of epoch 0, whichever epoch reads them first: what is held must not depend on when that was, or a
    stream that is resumed would hold others.
    """

    def __init__(self, child: Node) -> None:
        super().__init__(child)
        self._held: dict[tuple[int, int], list[Rows]] = {}

    def __getstate__(self) -> dict[str, object]:
        # Another process reads for itself: sending the elements costs more than that.
        return {**self.__dict__, "_held": {}}

    @property
    def name(self) -> str:
        return "cache()"

    def run(self, at: Pass, skip: int = 0) -> Iterator[Rows]:
        held = self._held.get((at.part, at.parts))
        return without_first(iter(held) if held is not None else self._holding(at), skip)

    def _holding(self, at: Pass) -> Iterator[Rows]:
        held = []
        for rows in self.child.run(at.at(0)):
            kept = rows.loaded()
            kept.entries.flags.writeable = False
            held.append(kept)
            yield kept
        self._held[at.part, at.parts] = held


class Prefetch(Step):
    """Elements made ready in a thread of their own, ``size`` of them ahead of the one that is asked for.

    With workers they are made by several threads, in order.
    """

    def __init__(self, child: Node, size: int, workers: Workers) -> None:
        super().__init__(child)
        self._size = size
        self._workers = workers

    @property
    def name(self) -> str:
        workers = str(self._workers)
        return f"prefetch({self._size}{', ' if workers else ''}{workers})"

    def size(self, at: Pass) -> int:
        return self.child.size(at)

    def run(self, at: Pass, skip: int = 0) -> Iterator[Rows]:
        channel: Channel[Rows] = Channel(self._size)
        blocks = self._workers.run(_loaded, self.child.run(at, skip))
        thread = threading.Thread(target=_fill, args=(channel, blocks), name="geotfr-prefetch", daemon=True)
        thread.start()
        is_finalizing = sys.is_finalizing
        try:
            yield from channel
        finally:
            # At the end of the process threads have stopped, and modules are taken apart.
            if not is_finalizing():
                channel.close()
                thread.join()


def _loaded(rows: Rows) -> Rows:
    return rows.loaded()


def _fill(channel: Channel[Rows], blocks: Iterator[Rows]) -> None:
    """Put ``blocks`` into ``channel`` until one of both ends, then their error, if there was one."""
    failure: BaseException | None = None
    try:
        for rows in blocks:
            if not channel.put(rows):
                break
    except BaseException as error:  # raised again by the one who takes
        failure = error
    finally:
        close = getattr(blocks, "close", None)
        if close is not None:
            # The threads of the steps before end too.
            close()
        channel.end(failure)


class Channel(Generic[T]):
    """A queue between two threads that either may end."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._is_ended = False
        self._is_closed = False
        self._failure: BaseException | None = None

    def put(self, item: T) -> bool:
        """Wait for room and add ``item``; False when nobody takes any more."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._items) < self._size or self._is_closed)
            if not self._is_closed:
                self._items.append(item)
                self._changed.notify_all()
            return not self._is_closed

    def end(self, failure: BaseException | None) -> None:
        """Nothing more comes; ``failure`` is raised behind what is there."""
        with self._changed:
            self._is_ended = True
            self._failure = failure
            self._changed.notify_all()

    def close(self) -> None:
        """Nothing more is taken."""
        with self._changed:
            self._is_closed = True
            self._items.clear()
            self._changed.notify_all()

    def __iter__(self) -> Iterator[T]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items or self._is_ended)
                if not self._items:
                    break
                item = self._items.popleft()
                self._changed.notify_all()
            yield item
        if self._failure is not None:
            raise self._failure

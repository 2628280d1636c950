"""Steps that call the user's functions, here or in workers."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.datasets.streams.node import Node, Step, without_first
from geotfr.datasets.streams.rows import Rows, objects, packed
from geotfr.errors import UsageError, WorkerLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from geotfr.datasets.streams.node import Pass
    from geotfr.datasets.streams.rows import Element

    Task = Callable[[Rows], Rows]

__all__ = ["Filter", "FlatMap", "Interleave", "Map", "Workers", "in_turns"]

MOST_AT_ONCE = 64
"""Elements that a worker takes at once, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Who does a step's work.

    Attributes
    ----------
    count
        Tasks at a time; 1 without an executor is the caller's own thread.
    ordered
        Whether results come in the order of their elements.
    executor
        Where tasks go; None is threads of the step's own.
    """

    count: int = 1
    ordered: bool = True
    executor: Executor | None = None

    def __str__(self) -> str:
        parts = [f"workers={self.count}"] if self.count > 1 else []
        return ", ".join(parts + ([] if self.ordered else ["ordered=False"]))

    @property
    def unrepeatable(self) -> str | None:
        """Why results may come in another order next time, or None."""
        is_alone = self.count == 1 and self.executor is None
        return None if self.ordered or is_alone else "a map with ordered=False"

    def run(self, task: Task, blocks: Iterator[Rows]) -> Iterator[Rows]:
        """What ``task`` makes of pieces of ``blocks``. An error of a task is raised here, and nothing goes on."""
        if self.count == 1 and self.executor is None:
            for rows in blocks:
                yield task(rows)
            return
        own = ThreadPoolExecutor(self.count, thread_name_prefix="geotfr-stream") if self.executor is None else None
        pending: deque[Future[Rows]] = deque()
        is_finalizing = sys.is_finalizing
        try:
            executor = own or self.executor
            if executor is None:
                return
            for piece in self._pieces(blocks):
                pending.append(_submitted(executor, task, piece))
                if len(pending) >= 2 * self.count:
                    yield self._next(pending)
            while pending:
                yield self._next(pending)
        finally:
            # At the end of the process threads have stopped, and modules are taken apart.
            ended = is_finalizing()
            for future in () if ended else pending:
                future.cancel()
            if own is not None and not ended:
                own.shutdown(wait=True, cancel_futures=True)

    def _pieces(self, blocks: Iterator[Rows]) -> Iterator[Rows]:
        for rows in blocks:
            size = max(min(len(rows) // (2 * self.count), MOST_AT_ONCE), 1)
            for start in range(0, len(rows), size):
                yield rows[start : start + size]

    def _next(self, pending: deque[Future[Rows]]) -> Rows:
        future = pending[0]
        if not self.ordered:
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            future = next(each for each in pending if each in done)
        pending.remove(future)
        try:
            return future.result()
        except BrokenExecutor as error:
            raise _lost(error) from error


def _submitted(executor: Executor, task: Task, rows: Rows) -> Future[Rows]:
    try:
        return executor.submit(task, rows)
    except BrokenExecutor as error:
        raise _lost(error) from error


def _lost(error: BrokenExecutor) -> WorkerLostError:
    return WorkerLostError(
        f"map: a worker process ended before its work was done ({error}); it may have been killed for its memory: use"
        " fewer workers, or smaller batches"
    )


class _Calling(Step):
    """A step with a function, on elements or on whole blocks as batches."""

    what = ""

    def __init__(
        self, child: Node, function: Callable[..., Any], *, batched: bool = False, workers: Workers | None = None
    ) -> None:
        super().__init__(child)
        self._function = function
        self._batched = batched
        self._workers = Workers() if workers is None else workers

    @property
    def name(self) -> str:
        called = getattr(self._function, "__qualname__", type(self._function).__qualname__)
        parts = [called, "batched=True" if self._batched else "", str(self._workers)]
        return f"{self.what}({', '.join(filter(None, parts))})"

    @property
    def unrepeatable(self) -> str | None:
        return self.child.unrepeatable or self._workers.unrepeatable


class Map(_Calling):
    """What a function makes of each element; batched: of each block, which may become one of another length."""

    what = "map"

    def run(self, at: Pass, skip: int = 0) -> Iterator[Rows]:
        if self._batched:
            task = _MapBatch(self._function)
            yield from without_first(filter(len, self._workers.run(task, self.child.run(at))), skip)
        else:
            # One for one: what is left out isn't computed.
            yield from self._workers.run(_MapEach(self._function), self.child.run(at, skip))

    def size(self, at: Pass) -> int:
        return super().size(at) if self._batched else self.child.size(at)


class Filter(_Calling):
    """The elements that a function is true of; batched: the function gives ``(n,) bool`` for a block."""

    what = "filter"

    def run(self, at: Pass, skip: int = 0) -> Iterator[Rows]:
        task = (_FilterBatch if self._batched else _FilterEach)(self._function)
        return without_first(filter(len, self._workers.run(task, self.child.run(at))), skip)


class FlatMap(_Calling):
    """All that a function makes of each element: an iterable, or a stream."""

    what = "flat_map"

    def run(self, at: Pass, skip: int = 0) -> Iterator[Rows]:
        return without_first(self._flat(at), skip)

    def _flat(self, at: Pass) -> Iterator[Rows]:
        for rows in self.child.run(at):
            for element in rows.elements():
                with _told(self.what, self._function):
                    made = self._function(element)
                yield from _blocks_of(made, at)


class Interleave(_Calling):
    """As :class:`FlatMap`, with several of the iterables or streams open at a time, taking turns."""

    what = "interleave"

    def __init__(self, child: Node, function: Callable[..., Any], *, cycle: int, block: int) -> None:
        super().__init__(child, function)
        self._cycle = cycle
        self._block = block

    @property
    def name(self) -> str:
        return f"{super().name[:-1]}, cycle={self._cycle}, block={self._block})"

    def run(self, at: Pass, skip: int = 0) -> Iterator[Rows]:
        return without_first(in_turns(self._opened(at), self._cycle, self._block), skip)

    def _opened(self, at: Pass) -> Iterator[Iterator[Rows]]:
        for rows in self.child.run(at):
            for element in rows.elements():
                with _told(self.what, self._function):
                    made = self._function(element)
                yield _blocks_of(made, at)


def in_turns(sources: Iterator[Iterator[Rows]], cycle: int, block: int) -> Iterator[Rows]:
    """``block`` elements of each of ``cycle`` sources in turn; a source at its end makes place for the next one."""
    open_ones: deque[_Turns] = deque()
    try:
        for source in sources:
            open_ones.append(_Turns(source))
            if len(open_ones) == cycle:
                while len(open_ones) == cycle:
                    yield from _turn(open_ones, block)
        while open_ones:
            yield from _turn(open_ones, block)
    finally:
        for each in open_ones:
            each.close()


class _Turns:
    """A source that gives so many elements when it is asked."""

    def __init__(self, blocks: Iterator[Rows]) -> None:
        self._blocks = blocks
        self._rest: Rows | None = None

    def next(self, count: int) -> Iterator[Rows]:
        """Blocks of ``count`` elements in all; fewer at the end."""
        while count > 0:
            rows = next(self._blocks, None) if self._rest is None else self._rest
            if rows is None:
                return
            self._rest = rows[count:] if len(rows) > count else None
            yield rows[:count]
            count -= len(rows)

    def close(self) -> None:
        close = getattr(self._blocks, "close", None)
        if close is not None:
            close()


def _turn(open_ones: deque[_Turns], block: int) -> Iterator[Rows]:
    """One turn of the first, which then goes to the back, or away at its end."""
    first = open_ones[0]
    given = 0
    for rows in first.next(block):
        given += len(rows)
        yield rows
    open_ones.popleft()
    if given == block:
        open_ones.append(first)


def _blocks_of(made: Any, at: Pass) -> Iterator[Rows]:
    node = getattr(made, "node", None)
    if isinstance(node, Node):
        yield from node.run(at.nested(node))
        return
    if not isinstance(made, Iterable):
        raise UsageError(f"flat_map: the function gave {type(made).__name__}; an iterable or a stream is wanted")
    for element in made:
        yield objects([element])


@contextlib.contextmanager
def _told(what: str, function: Callable[..., Any]) -> Iterator[None]:
    """Say in an error where it comes from."""
    try:
        yield
    except Exception as error:
        called = getattr(function, "__qualname__", type(function).__qualname__)
        error.add_note(f"raised in the function {called} of the stream's {what}, in process {os.getpid()}")
        raise


@dataclass(frozen=True, slots=True)
class _MapEach:
    function: Callable[[Element], Element]

    def __call__(self, rows: Rows) -> Rows:
        with _told("map", self.function):
            return objects([self.function(element) for element in rows.elements()])


@dataclass(frozen=True, slots=True)
class _MapBatch:
    function: Callable[[Element], Mapping[str, Any]]

    def __call__(self, rows: Rows) -> Rows:
        with _told("map", self.function):
            columns = self.function(rows.batch())
        if not isinstance(columns, Mapping) or not columns:
            raise UsageError(f"map: a batched function gave {type(columns).__name__}; a dict of arrays is wanted")
        arrays = {str(key): np.asarray(values) for key, values in columns.items()}
        lengths = {array.shape[:1] for array in arrays.values()}
        if len(lengths) > 1 or () in lengths:
            raise UsageError("map: a batched function gave arrays of several lengths; one entry a record is wanted")
        return packed(arrays)


@dataclass(frozen=True, slots=True)
class _FilterEach:
    function: Callable[[Element], bool]

    def __call__(self, rows: Rows) -> Rows:
        elements = rows.elements()
        with _told("filter", self.function):
            keep = np.fromiter((bool(self.function(element)) for element in elements), np.bool_, len(elements))
        # What has been read isn't read again.
        return (
            rows[keep]
            if rows.form.is_ready
            else objects([e for e, is_kept in zip(elements, keep, strict=True) if is_kept])
        )


@dataclass(frozen=True, slots=True)
class _FilterBatch:
    function: Callable[[Element], Any]

    def __call__(self, rows: Rows) -> Rows:
        with _told("filter", self.function):
            keep = np.asarray(self.function(rows.batch()))
        if keep.shape != (len(rows),) or keep.dtype != np.bool_:
            raise UsageError(
                f"filter: a batched function gave {keep.dtype.name} {keep.shape}; bool ({len(rows)},) is wanted"
            )
        return rows[keep]

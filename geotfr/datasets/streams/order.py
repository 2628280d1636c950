"""Steps that change which elements come, and in what order."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from geotfr.datasets.streams.node import Draws, Step, without_first
from geotfr.datasets.streams.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from geotfr.datasets.streams.node import Node, Pass

__all__ = ["Repeat", "Shard", "Shuffle", "Skip", "Take", "every"]

LEAST_SWAPPED = 512
"""Elements exchanged with the buffer at once, at least: a few calls of numpy for all of them."""


class Shuffle(Step):
    """Elements in random order, out of a buffer.

    Each element that comes takes the place of one of the buffer's, chosen at random, and this one goes out: the law of
    TensorFlow's shuffle. It is done for many elements at once; where two of them choose one place, the first goes out
    for the second.
    """

    def __init__(self, child: Node, size: int, seed: int) -> None:
        super().__init__(child)
        self.buffer_size = size
        self.seed = seed

    @property
    def name(self) -> str:
        return f"shuffle({self.buffer_size}, seed={self.seed})"

    def run(self, at: Pass, skip: int = 0) -> Iterator[Rows]:
        return without_first(self._shuffled(at), skip)

    def size(self, at: Pass) -> int:
        return self.child.size(at)

    def _shuffled(self, at: Pass) -> Iterator[Rows]:
        draws = Draws(self.seed, at.epoch, self.depth)
        filling: list[Rows] = []
        filled = 0
        buffer: _Buffer | None = None
        for block in self.child.run(at):
            rows = block
            if buffer is None:
                part = rows[: self.buffer_size - filled]
                filling.append(part)
                filled += len(part)
                rows = rows[len(part) :]
                if filled == self.buffer_size:
                    buffer = _Buffer(Rows.joined(filling), draws)
                    filling = []
            if buffer is not None and len(rows):
                yield from buffer.exchange(rows)
        rest = buffer.rows if buffer is not None else Rows.joined(filling) if filling else None
        if rest is not None:
            yield rest[draws.order(len(rest))]


class _Buffer:
    """A full buffer of elements."""

    def __init__(self, rows: Rows, draws: Draws) -> None:
        self.rows = rows
        self._draws = draws
        self._at_once = max(len(rows) // 8, LEAST_SWAPPED)
        self._seen = np.zeros(len(rows), np.int64)

    def exchange(self, rows: Rows) -> Iterator[Rows]:
        """Put ``rows`` in; as many elements as they are come out."""
        if rows.form != self.rows.form:
            rows, self.rows = rows.as_objects(), self.rows.as_objects()
        for start in range(0, len(rows), self._at_once):
            part = rows.entries[start : start + self._at_once]
            places = self._draws.below(len(self.rows), len(part))
            out = self.rows.entries.take(places)
            again, before, last = self._repeated(places)
            out[again] = part[before]
            if last is None:
                self.rows.entries[places] = part
            else:
                self.rows.entries[places[last]] = part[last]
            yield Rows(out, self.rows.form)

    def _repeated(
        self, places: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None]:
        """Which of ``places`` occur earlier too, and where they did last; and each place's last occurrence.

        The third is None where no place occurs twice.
        """
        count = np.arange(len(places))
        # Of equal places the last assignment stays.
        self._seen[places] = count
        is_last = self._seen[places] == count
        if is_last.all():
            return count[:0], count[:0], None
        # Sorted are those alone whose place occurs more than once.
        is_twice = np.zeros(len(self.rows), np.bool_)
        is_twice[places[~is_last]] = True
        some = np.flatnonzero(is_twice[places])
        some = some[np.argsort(places[some], kind="stable")]
        same = places[some[1:]] == places[some[:-1]]
        return some[1:][same], some[:-1][same], np.flatnonzero(is_last)


class Repeat(Step):
    """All elements several times, or for ever; each time is an epoch of its own."""

    def __init__(self, child: Node, count: int | None) -> None:
        super().__init__(child)
        self.count = count

    @property
    def name(self) -> str:
        return f"repeat({'' if self.count is None else self.count})"

    def run(self, at: Pass, skip: int = 0) -> Iterator[Rows]:
        first = at.epoch if self.count is None else at.epoch * self.count
        sizes = at.epoch_sizes.setdefault(self.depth, {})
        for epoch in itertools.count(first) if self.count is None else range(first, first + self.count):
            size = sizes.get(epoch)
            if size is None or skip < size:
                seen = 0
                for rows in self.child.run(at.at(epoch), skip):
                    seen += len(rows)
                    yield rows
                if size is None:
                    # Where nothing came, the skip may have left out more than there is.
                    size = skip + seen if seen or not skip else self.child.size(at.at(epoch))
                    sizes[epoch] = size
            skip = max(skip - size, 0)
            if self.count is None and size == 0:
                # Nothing repeated for ever is nothing.
                return


class Shard(Step):
    """Every element whose place is ``rank`` modulo ``world``; of a part, its share of them."""

    def __init__(self, child: Node, rank: int, world: int) -> None:
        super().__init__(child)
        self.rank = rank
        self.world = world

    @property
    def name(self) -> str:
        return f"shard({self.rank}, {self.world})"

    def run(self, at: Pass, skip: int = 0) -> Iterator[Rows]:
        if at.parts > 1:
            part = replace(at, part=self.rank + at.part * self.world, parts=at.parts * self.world)
            yield from self.child.run(part, skip)
        else:
            yield from every(self.child.run(at), self.rank + skip * self.world, self.world)


def every(blocks: Iterator[Rows], first: int, step: int) -> Iterator[Rows]:
    """The elements of ``blocks`` from place ``first`` on, ``step`` apart."""
    wanted = first
    for rows in blocks:
        part = rows[wanted::step]
        if len(part):
            yield part
        wanted += len(part) * step - len(rows)


class Take(Step):
    """The first elements; of a part, its share of them."""

    def __init__(self, child: Node, count: int) -> None:
        super().__init__(child)
        self.count = count

    @property
    def name(self) -> str:
        return f"take({self.count})"

    def run(self, at: Pass, skip: int = 0) -> Iterator[Rows]:
        left = at.share(self.count) - skip
        if left <= 0:
            return
        for rows in self.child.run(at, skip):
            yield rows[:left]
            left -= len(rows)
            if left <= 0:
                return


class Skip(Step):
    """All but the first elements; of a part, all but its share of them."""

    def __init__(self, child: Node, count: int) -> None:
        super().__init__(child)
        self.count = count

    @property
    def name(self) -> str:
        return f"skip({self.count})"

    def run(self, at: Pass, skip: int = 0) -> Iterator[Rows]:
        # The part that gives the element behind those left out is the first.
        before = replace(at, part=(at.part + self.count) % at.parts)
        return self.child.run(before, skip + before.share(self.count))

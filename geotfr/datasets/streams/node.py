"""The steps of a stream, and what a step knows of the pass it is in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from geotfr.datasets.streams.rows import Rows

__all__ = ["Draws", "Node", "Pass", "Step", "without_first"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One pass over a stream.

    Attributes
    ----------
    epoch
        Which pass over the source it is, from 0: part of what shuffling is drawn from.
    part, parts
        Sources give the records whose place is ``part`` modulo ``parts``.
    epoch_sizes
        Elements of each epoch of a repeat, as far as known, by the repeat's depth and the epoch; filled as they end.
    unrepeatable
        Why streams that functions returned may give other elements next time; filled as they are read.
    """

    epoch: int = 0
    part: int = 0
    parts: int = 1
    epoch_sizes: dict[int, dict[int, int]] = field(default_factory=dict)
    unrepeatable: list[str] = field(default_factory=list)

    def at(self, epoch: int) -> Pass:
        """The same for another epoch."""
        return replace(self, epoch=epoch)

    def nested(self, node: Node) -> Pass:
        """The pass over ``node``, a stream that is an element of this one.

        It is read whole: which part reads it was decided by the place of the element.
        """
        if node.unrepeatable is not None:
            self.unrepeatable.append(node.unrepeatable)
        return Pass(epoch=self.epoch, unrepeatable=self.unrepeatable)

    def share(self, count: int) -> int:
        """This part's share of the first ``count`` elements over all parts."""
        return max(-((self.part - count) // self.parts), 0)


class Node(ABC):
    """A step. It holds no state of a pass: each run is one of its own.

    Attributes
    ----------
    name
        The step with its options, for ``repr`` and to know a stream again.
    child
        The step before; None for a source.
    """

    child: Node | None = None

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def run(self, at: Pass, skip: int = 0) -> Iterator[Rows]:
        """The step's blocks, without the first ``skip`` elements; none is empty."""

    def size(self, at: Pass) -> int:
        """Elements of the pass, counted."""
        return sum(map(len, self.run(at)))

    @property
    def depth(self) -> int:
        """Steps before this one."""
        return 0 if self.child is None else self.child.depth + 1

    @property
    def unrepeatable(self) -> str | None:
        """Why a second run may give other elements, or None."""
        return None if self.child is None else self.child.unrepeatable

    @property
    def names(self) -> list[str]:
        """The steps' names, the source first."""
        return [*([] if self.child is None else self.child.names), self.name]


class Step(Node):
    """A node that has one before it."""

    child: Node

    def __init__(self, child: Node) -> None:
        self.child = child


def without_first(blocks: Iterator[Rows], skip: int) -> Iterator[Rows]:
    """``blocks`` without the first ``skip`` elements."""
    for rows in blocks:
        if skip >= len(rows):
            skip -= len(rows)
            continue
        yield rows[skip:] if skip else rows
        skip = 0


class Draws:
    """Random numbers that ``key`` tells: the same with every version of numpy, which promises Philox's bits."""

    def __init__(self, *key: int) -> None:
        self._bits = np.random.Philox(np.random.SeedSequence(key))

    def below(self, limit: int, count: int) -> NDArray[np.int64]:
        """``count`` numbers from 0 to ``limit`` - 1, which is less than 2^32."""
        high = self._bits.random_raw(count) >> np.uint64(32)
        return ((high * np.uint64(limit)) >> np.uint64(32)).astype(np.int64)

    def order(self, count: int) -> NDArray[np.intp]:
        """The numbers from 0 to ``count`` - 1 in any order."""
        return np.argsort(self._bits.random_raw(count), kind="stable")

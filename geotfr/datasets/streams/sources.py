"""Streams of what is at hand: data sets, arrays, anything that can be iterated."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from geotfr.datasets.streams.node import Node, without_first
from geotfr.datasets.streams.order import every
from geotfr.datasets.streams.rows import NumberedForm, Rows, objects
from geotfr.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from geotfr.datasets.streams.node import Pass
    from geotfr.datasets.streams.rows import Element

__all__ = ["ByNumber", "Elements", "Source", "arrays_by_number"]

NUMBERS_AT_ONCE = 4096


class Source(Node):
    """A node that reads; it gives its share of the records, by their places."""

    def run(self, at: Pass, skip: int = 0) -> Iterator[Rows]:
        blocks = self.read(at)
        return without_first(every(blocks, at.part, at.parts) if at.parts > 1 else blocks, skip)

    @abstractmethod
    def read(self, at: Pass) -> Iterator[Rows]:
        """All blocks of the source."""


class Readable(Protocol):
    """What can be read by numbers: a data set."""

    def __len__(self) -> int: ...

    def __getitem__(self, numbers: Any, /) -> Element: ...

    def __getitems__(self, numbers: Any, /) -> list[Element]: ...


class ByNumber(Source):
    """The items of a data set. What flows is their numbers; they are read when they are asked for."""

    def __init__(self, dataset: Readable, name: str) -> None:
        self._count = len(dataset)
        self._name = name
        self._form = NumberedForm(dataset.__getitem__, dataset.__getitems__)

    @property
    def name(self) -> str:
        return self._name

    def read(self, at: Pass) -> Iterator[Rows]:  # noqa: ARG002
        for start in range(0, self._count, NUMBERS_AT_ONCE):
            yield Rows(np.arange(start, min(start + NUMBERS_AT_ONCE, self._count)), self._form)


class _Arrays:
    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = arrays

    def __len__(self) -> int:
        return len(next(iter(self._arrays.values())))

    def __getitem__(self, numbers: NDArray[np.int64]) -> Element:
        return {name: values[numbers] for name, values in self._arrays.items()}

    def __getitems__(self, numbers: NDArray[np.int64]) -> list[Element]:
        return [{name: values[number] for name, values in self._arrays.items()} for number in numbers]


def arrays_by_number(arrays: Mapping[str, Any]) -> ByNumber:
    """A source of the rows of arrays of one length."""
    made = {str(name): np.asarray(values) for name, values in arrays.items()}
    lengths = {name: values.shape[0] if values.ndim else None for name, values in made.items()}
    if len(set(lengths.values())) != 1 or None in lengths.values():
        told = ", ".join(f"{name}: {length}" for name, length in lengths.items()) or "none"
        raise UsageError(f"stream: arrays of one length are wanted; found {told}")
    told = ", ".join(f"{name}: {values.dtype.name} {values.shape}" for name, values in made.items())
    return ByNumber(_Arrays(made), f"arrays({told})")


class Elements(Source):
    """Any iterable, or a function that gives one for each pass."""

    def __init__(self, source: Iterable[Element] | Callable[[], Iterable[Element]]) -> None:
        self._source = source

    @property
    def name(self) -> str:
        count = f", {len(self._source)}" if isinstance(self._source, Sized) else ""
        return f"elements({type(self._source).__qualname__}{count})"

    @property
    def unrepeatable(self) -> str | None:
        if isinstance(self._source, set | frozenset):
            return "a set, whose order is another in each process,"
        return "an iterator that is read once" if isinstance(self._source, Iterator) else None

    def read(self, at: Pass) -> Iterator[Rows]:
        elements = self._source if isinstance(self._source, Iterable) else self._source()
        node = getattr(elements, "node", None)
        if isinstance(node, Node):
            # A stream of its own counts its epochs.
            yield from node.run(at.nested(node))
            return
        for element in elements:
            yield objects([element])

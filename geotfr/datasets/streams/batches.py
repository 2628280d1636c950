"""Several elements as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.datasets.streams.node import Step
from geotfr.datasets.streams.rows import Form, Rows, objects
from geotfr.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from geotfr.datasets.streams.node import Node, Pass
    from geotfr.datasets.streams.rows import Element, Entries

__all__ = ["Batch", "Padding"]


class BatchForm(Form):
    """Entries that are blocks, each to become one element when it is asked for."""

    is_ready = False

    def __init__(self, collate: Callable[[Rows], Element]) -> None:
        self._collate = collate

    def elements(self, entries: Entries) -> list[Element]:
        return [self._collate(rows) for rows in entries]

    def loaded(self, entries: Entries) -> Rows:
        return objects(self.elements(entries))


class Batch(Step):
    """Every ``size`` elements as one, made by ``collate``, which may run in another thread."""

    def __init__(
        self, child: Node, size: int, *, drop_remainder: bool, collate: Callable[[Rows], Element], name: str
    ) -> None:
        super().__init__(child)
        self.batch_size = size
        self.drop_remainder = drop_remainder
        self._form = BatchForm(collate)
        self._name = name

    @property
    def name(self) -> str:
        return f"{self._name}({self.batch_size}{', drop_remainder=True' if self.drop_remainder else ''})"

    def size(self, at: Pass) -> int:
        whole, rest = divmod(self.child.size(at), self.batch_size)
        return whole + (rest > 0 and not self.drop_remainder)

    def run(self, at: Pass, skip: int = 0) -> Iterator[Rows]:
        parts: list[Rows] = []
        missing = self.batch_size
        for block in self.child.run(at, skip * self.batch_size):
            rows = block
            while len(rows) >= missing:
                parts.append(rows[:missing])
                rows = rows[missing:]
                yield self._batch(parts)
                parts, missing = [], self.batch_size
            if len(rows):
                parts.append(rows)
                missing -= len(rows)
        if parts and not self.drop_remainder:
            yield self._batch(parts)

    def _batch(self, parts: list[Rows]) -> Rows:
        entry = np.empty(1, object)
        entry[0] = Rows.joined(parts) if len(parts) > 1 else parts[0]
        return Rows(entry, self._form)


class Padding:
    """Makes a batch of arrays of several shapes: each is filled up at its ends to the longest, or to a given shape."""

    def __init__(self, shapes: Mapping[str, Sequence[int | None]], values: float | Mapping[str, Any]) -> None:
        self._shapes = shapes
        self._values = values

    def __call__(self, rows: Rows) -> Element:
        elements = rows.elements()
        if not isinstance(elements[0], Mapping):
            return self._padded([np.asarray(element) for element in elements], "")
        made = {}
        for key in elements[0]:
            if any(key not in element for element in elements):
                raise UsageError(f"padded_batch: an element has no feature {key!r}; map them to the same ones")
            values = [element[key] for element in elements]
            is_array = isinstance(values[0], np.ndarray | np.generic | int | float)
            made[key] = self._padded([np.asarray(value) for value in values], key) if is_array else values
        return made

    def _padded(self, arrays: list[NDArray[Any]], key: str) -> NDArray[Any]:
        ranks = {array.ndim for array in arrays}
        wanted = self._shapes.get(key)
        if len(ranks) > 1 or (wanted is not None and len(wanted) not in ranks):
            told = ", ".join(sorted({str(array.shape) for array in arrays}))
            raise UsageError(
                f"padded_batch: {key or 'elements'}: shapes {told}, to be padded to {wanted or 'the longest'}"
            )
        longest = np.array([array.shape for array in arrays], np.int64).reshape(len(arrays), -1).max(axis=0).tolist()
        shape = [size if side is None else side for size, side in zip(longest, wanted or longest, strict=True)]
        if any(size > side for size, side in zip(longest, shape, strict=True)):
            raise UsageError(f"padded_batch: {key or 'elements'}: {tuple(longest)} is longer than {tuple(shape)}")
        value = self._values.get(key, 0) if isinstance(self._values, Mapping) else self._values
        made = np.full((len(arrays), *shape), value, np.result_type(*arrays))
        for place, array in enumerate(arrays):
            corner: list[slice | int] = [place, *(slice(size) for size in array.shape)]
            made[tuple(corner)] = array
        return made

"""Blocks of elements: what flows from one step of a stream to the next.

A block is a one-dimensional numpy array and a form that says what its entries are. Small records are packed, one
structured entry each; any Python objects are entries of an object array; records that can be read at any time are their
numbers alone. So choosing, shuffling and joining are the same few numpy calls for all, and nothing is done record by
record before somebody asks for records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Element = Any
    Entries = NDArray[Any]

__all__ = ["OBJECTS", "PACKED_BYTES", "Form", "NumberedForm", "PackedForm", "Rows", "collated", "objects", "packed"]

PACKED_BYTES = 16 << 10
"""Records of up to so many bytes are packed; larger ones are cheaper to pass on by reference."""


class Form(ABC):
    """What the entries of a block are.

    Attributes
    ----------
    is_ready
        Whether elements are at hand, and not read or made when they are asked for.
    """

    is_ready: bool = True

    @abstractmethod
    def elements(self, entries: Entries) -> list[Element]:
        """The elements, one a entry."""

    def batch(self, entries: Entries) -> Element:
        """All elements as one: arrays with one more axis in front."""
        return collated(self.elements(entries))

    def loaded(self, entries: Entries) -> Rows:
        """The same elements, with the work done that they wait for."""
        return Rows(entries, self)


class _Objects(Form):
    """Entries that are the elements."""

    def elements(self, entries: Entries) -> list[Element]:
        found: list[Element] = entries.tolist()
        return found


OBJECTS = _Objects()


@dataclass(frozen=True, slots=True)
class PackedForm(Form):
    """Entries of a structured dtype, a field for each feature. Two are equal whose dtypes are."""

    dtype: np.dtype[Any]

    def elements(self, entries: Entries) -> list[Element]:
        names = self.dtype.names or ()
        columns = [entries[name] for name in names]
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]

    def batch(self, entries: Entries) -> Element:
        return {name: np.ascontiguousarray(entries[name]) for name in self.dtype.names or ()}


class NumberedForm(Form):
    """Entries that are numbers, which ``read`` makes a batch of, and ``read_each`` elements."""

    is_ready = False

    def __init__(
        self, read: Callable[[NDArray[np.int64]], Element], read_each: Callable[[NDArray[np.int64]], list[Element]]
    ) -> None:
        self._read = read
        self._read_each = read_each

    def elements(self, entries: Entries) -> list[Element]:
        return self._read_each(entries) if len(entries) else []

    def batch(self, entries: Entries) -> Element:
        return self._read(entries)

    def loaded(self, entries: Entries) -> Rows:
        return objects(self.elements(entries))


@dataclass(frozen=True, slots=True)
class Rows:
    """A block: ``entries`` ``(n,)`` in a ``form``."""

    entries: Entries
    form: Form

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, choice: slice | NDArray[Any]) -> Rows:
        return Rows(self.entries[choice], self.form)

    def elements(self) -> list[Element]:
        """The elements."""
        return self.form.elements(self.entries)

    def batch(self) -> Element:
        """All elements as one."""
        return self.form.batch(self.entries)

    def loaded(self) -> Rows:
        """The same elements, with the work done that they wait for."""
        return self.form.loaded(self.entries)

    def as_objects(self) -> Rows:
        """The same elements as entries of an object array."""
        return self if self.form is OBJECTS else objects(self.elements())

    @staticmethod
    def joined(parts: Sequence[Rows]) -> Rows:
        """One block of several, at least one; a copy."""
        if any(part.form != parts[0].form for part in parts):
            parts = [part.as_objects() for part in parts]
        return Rows(np.concatenate([part.entries for part in parts]), parts[0].form)


def objects(elements: Sequence[Element]) -> Rows:
    """A block of any elements."""
    return Rows(np.fromiter(elements, np.dtype(object), len(elements)), OBJECTS)


def packed(columns: Mapping[str, NDArray[Any]]) -> Rows:
    """A block of the records whose features are the ``columns`` ``(n, …)``; a copy.

    >>> block = packed({"a": np.arange(3), "b": np.zeros((3, 2), np.float32)})
    >>> len(block), block.elements()[1]["a"], block.batch()["b"].shape
    (3, np.int64(1), (3, 2))
    """
    count = len(next(iter(columns.values())))
    fields = [(name, values.dtype.newbyteorder("="), values.shape[1:]) for name, values in columns.items()]
    dtype = np.dtype(fields, align=True)
    if dtype.itemsize > PACKED_BYTES:
        # Never a view: readers use their buffers again.
        kept = {name: np.array(values, order="C") for name, values in columns.items()}
        return objects([{name: values[place] for name, values in kept.items()} for place in range(count)])
    entries = np.empty(count, dtype)
    for name, values in columns.items():
        entries[name] = values
    return Rows(entries, PackedForm(dtype))


def collated(elements: Sequence[Element]) -> Element:
    """Elements of one make as one: dicts and tuples by their parts, arrays and numbers stacked, all else as a list.

    Raises UsageError where keys or shapes differ.

    >>> collated([{"a": 1, "b": b"x"}, {"a": 2, "b": b"y"}])
    {'a': array([1, 2]), 'b': [b'x', b'y']}
    """
    first = elements[0]
    if isinstance(first, Mapping):
        keys = set(first)
        other = next((each for each in elements if set(each) != keys), None)
        if other is not None:
            told = f"{', '.join(first)} and {', '.join(other)}"
            raise UsageError(f"batch: elements with the features {told}; map them to the same ones")
        return {key: _stacked([each[key] for each in elements], str(key)) for key in first}
    if isinstance(first, tuple):
        return tuple(_stacked(list(part), str(place)) for place, part in enumerate(zip(*elements, strict=True)))
    return _stacked(list(elements), "elements")


def _stacked(values: list[Any], name: str) -> Element:
    first = values[0]
    if isinstance(first, Mapping | tuple):
        return collated(values)
    if not isinstance(first, np.ndarray | np.generic | int | float | bool):
        return values
    shapes = dict.fromkeys(np.shape(value) for value in values)
    if len(shapes) > 1:
        told = " and ".join(map(str, list(shapes)[:2]))
        raise UsageError(f"batch: {name}: arrays of the shapes {told}; use padded_batch, or map them to one shape")
    return np.stack(values) if isinstance(first, np.ndarray) else np.array(values)

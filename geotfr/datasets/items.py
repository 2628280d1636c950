"""Items by number, one or many: how data sets and their views are asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Arrays", "Index", "Indices", "Items", "checked_indices"]

Arrays: TypeAlias = dict[str, NDArray[Any]]
Index: TypeAlias = int | np.integer[Any]
Indices: TypeAlias = slice | Sequence[int] | NDArray[Any]


class Items(ABC):
    """``items[i]`` is ``{key: array}``; ``items[[i, …]]``, slices and masks give arrays with one more axis in front."""

    _python_keys: frozenset[str] = frozenset()
    """Keys whose values are Python's numbers in single items."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Arrays]: ...

    @abstractmethod
    def _read(self, indices: NDArray[np.int64]) -> Arrays:
        """The items ``indices`` ``(n,)``, each from 0 and less than the length, in this order."""

    @overload
    def __getitem__(self, index: Index) -> Arrays: ...
    @overload
    def __getitem__(self, index: Indices) -> Arrays: ...
    def __getitem__(self, index: Index | Indices) -> Arrays:
        if isinstance(index, int | np.integer):
            return self._single(self._read(checked_indices([int(index)], len(self))), 0)
        return self._read(checked_indices(index, len(self)))

    def __getitems__(self, indices: Sequence[int]) -> list[Arrays]:
        """Several items, read together: what PyTorch's DataLoader asks for. They share their memory."""
        batch = self[indices]
        return [self._single(batch, place) for place in range(len(indices))]

    def _single(self, batch: Arrays, place: int) -> Arrays:
        return {key: v[place].item() if key in self._python_keys else v[place] for key, v in batch.items()}


def checked_indices(indices: Indices, length: int) -> NDArray[np.int64]:
    """``indices`` as ``(n,) int64`` from 0; negative ones count from the end, a mask picks where it is True.

    Raises IndexError beyond ``length``.

    >>> checked_indices([-1, 0], 5), checked_indices(slice(1, None, 2), 5)
    (array([4, 0]), array([1, 3]))
    """
    if isinstance(indices, slice):
        return np.arange(*indices.indices(length), dtype=np.int64)
    given = np.asarray(indices)
    if given.dtype == np.bool_:
        if given.shape != (length,):
            raise IndexError(f"a mask of shape {given.shape} for {length} items")
        return np.flatnonzero(given)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise IndexError(f"found {indices!r}; allowed are a number, a list of numbers, a slice and a mask")
    numbers = given.astype(np.int64)
    if len(numbers) and not (-length <= numbers.min() and numbers.max() < length):
        wrong = int(numbers[(numbers < -length) | (numbers >= length)][0])
        raise IndexError(f"item {wrong} of {length}")
    return np.where(numbers < 0, numbers + length, numbers)

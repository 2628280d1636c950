"""What a parser returns where no dense array fits: sparse and ragged values, with TensorFlow's names."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import RecordError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RaggedValue", "SparseValue"]


@dataclass(frozen=True, slots=True, eq=False)
class SparseValue:
    """Values and where they stand.

    Attributes
    ----------
    indices
        ``(n, rank) int64``: [record, position, ...] of each value.
    values
        ``(n)`` float32, int64 or object (bytes).
    dense_shape
        The shape of the dense array; for variable lengths [records, longest].

    Examples
    --------
    >>> SparseValue(np.array([[0, 0], [1, 0]]), np.array([5, 7]), (2, 2)).to_dense().tolist()
    [[5, 0], [7, 0]]
    """

    indices: NDArray[np.int64]
    values: NDArray[Any]
    dense_shape: tuple[int, ...]

    def to_dense(self, default_value: object = None) -> NDArray[Any]:
        """The dense array, with ``default_value`` (0, or empty bytes) where no value stands.

        Raises
        ------
        RecordError
            An index outside ``dense_shape``.
        """
        if default_value is None:
            default_value = b"" if self.values.dtype == object else 0
        outside = ((self.indices < 0) | (self.indices >= self.dense_shape)).any(axis=1)
        if outside.any():
            raise RecordError(
                f"index {self.indices[outside][0].tolist()} lies outside the dense shape {list(self.dense_shape)}; "
                "give the SparseFeature a larger size"
            )
        dense = np.full(self.dense_shape, default_value, self.values.dtype)
        dense[tuple(self.indices.T)] = self.values
        return dense


@dataclass(frozen=True, slots=True, eq=False)
class RaggedValue:
    """Rows of any length, over an array or over further rows.

    Attributes
    ----------
    values
        The rows' items one after the other: an array (its first axis is cut into rows) or a
        :class:`RaggedValue`.
    row_splits
        ``(rows + 1)`` int32 or int64: row i holds items ``row_splits[i]`` up to ``row_splits[i + 1]``.

    Examples
    --------
    >>> RaggedValue(np.array([3, 1, 4]), np.array([0, 2, 2, 3])).to_list()
    [[3, 1], [], [4]]
    """

    values: NDArray[Any] | RaggedValue
    row_splits: NDArray[Any]

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.row_splits) - 1

    @property
    def flat_values(self) -> NDArray[Any]:
        """The array under all levels of rows."""
        return self.values.flat_values if isinstance(self.values, RaggedValue) else self.values

    @property
    def nested_row_splits(self) -> tuple[NDArray[Any], ...]:
        """The row splits of every level, the outermost first."""
        inner = self.values.nested_row_splits if isinstance(self.values, RaggedValue) else ()
        return (self.row_splits, *inner)

    @property
    def ragged_rank(self) -> int:
        """The number of levels."""
        return len(self.nested_row_splits)

    def row_lengths(self) -> NDArray[Any]:
        """The number of items in each row."""
        return np.diff(self.row_splits)

    def to_list(self) -> list[Any]:
        """Nested Python lists."""
        items = self.values.to_list() if isinstance(self.values, RaggedValue) else self.values.tolist()
        splits = self.row_splits.tolist()
        return [items[start:stop] for start, stop in pairwise(splits)]

"""One feature of many records as flat arrays, between Arrow's columns and the records' bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geotfr.records.kind import Kind

    FlatValues = NDArray[np.float32] | NDArray[np.int64] | NDArray[np.uint8]

__all__ = ["FeatureColumn", "one_each"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureColumn:
    """One feature of ``n`` records.

    Attributes
    ----------
    name
        The map key.
    kind
        The list that holds the values.
    values
        All rows' values one after the other: float32, int64, or uint8, the bytes of all bytes values.
    row_splits
        ``(n + 1,) int64``: row i holds the values from ``row_splits[i]`` to ``row_splits[i + 1]``.
    present
        ``(n,) bool``: whether the record has the feature; a row that is absent has no values.
    width
        How many values each row has, where all have as many and none is absent; None where that isn't known.
    value_splits
        ``(m + 1,) int64`` for ``Kind.BYTES``: where each of the m bytes values begins and ends in ``values``; the
        row splits count these. None for numbers.
    """

    name: str
    kind: Kind
    values: FlatValues
    row_splits: NDArray[np.int64]
    present: NDArray[np.bool_]
    value_splits: NDArray[np.int64] | None = None
    width: int | None = None

    def __len__(self) -> int:
        return len(self.present)

    def lengths(self) -> NDArray[np.int64]:
        """How many values each row has, ``(n,) int64``."""
        return np.diff(self.row_splits)


@lru_cache(maxsize=4)
def one_each(count: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The row splits and presence of ``count`` rows that have one value each; read-only, batches share them.

    >>> one_each(2)
    (array([0, 1, 2]), array([ True,  True]))
    """
    splits, present = np.arange(count + 1, dtype=np.int64), np.ones(count, np.bool_)
    splits.flags.writeable = present.flags.writeable = False
    return splits, present

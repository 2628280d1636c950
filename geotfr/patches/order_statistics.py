"""Exact percentiles of values that pass by in batches, in two passes.

Values become whole numbers of 32 bits that have the same order. The first pass counts their upper halves; that tells
in which of the 65,536 ranges each order statistic lies. The second pass counts the lower halves in those few ranges.
Memory depends on neither the number of values nor their range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["OrderStatistics"]

_HALF_BITS = 16
_HALF = 1 << _HALF_BITS
_SIGN = np.uint32(1 << 31)
_OFFSET = 1 << 31


class OrderStatistics:
    """Percentiles of float32 values, or of whole numbers that fit 32 bits.

    Call :meth:`count` with all values, :meth:`narrow` once,
    :meth:`refine` with all values again, then :meth:`percentiles`.

    Examples
    --------
    >>> values = np.array([3, 1, 2, 10], np.float32)
    >>> found = OrderStatistics(values.dtype)
    >>> found.count(values)
    >>> found.narrow([25, 50])
    >>> found.refine(values)
    >>> found.percentiles()
    [1.75, 2.5]
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._is_float = dtype.kind == "f"
        self._counts = np.zeros(_HALF, np.int64)
        self._wanted: list[tuple[int, int, float]] = []
        self._slots = np.full(_HALF, -1, np.int64)
        self._fine = np.zeros((0, _HALF), np.int64)

    def beyond(self, low: float, high: float) -> bool:
        """Whether whole numbers from ``low`` to ``high`` don't fit 32 bits: their percentiles can't be told."""
        return not self._is_float and not (low >= -_OFFSET and high < _OFFSET)

    def count(self, values: NDArray[Any], times: NDArray[np.int64] | None = None) -> None:
        """First pass: take ``values`` ``(n,)``, each once or as many ``times``."""
        upper = (self._keys(values) >> _HALF_BITS).astype(np.int64)
        if times is None:
            self._counts += np.bincount(upper, minlength=_HALF)
        else:
            np.add.at(self._counts, upper, times)

    def narrow(self, percentiles: Sequence[float]) -> None:
        """Choose the ranges that the ``percentiles`` (0 to 100) lie in; what lies between two values is linear."""
        total = int(self._counts.sum())
        ends = np.cumsum(self._counts)
        self._wanted = []
        for percentile in percentiles if total else ():
            rank = percentile / 100 * (total - 1)
            low = int(np.floor(rank))
            self._wanted.append((low, min(low + 1, total - 1), rank - low))
        ranks = sorted({rank for low, high, _ in self._wanted for rank in (low, high)})
        ranges = np.unique(np.searchsorted(ends, ranks, side="right"))
        self._slots[ranges] = np.arange(len(ranges))
        self._fine = np.zeros((len(ranges), _HALF), np.int64)

    def refine(self, values: NDArray[Any], times: NDArray[np.int64] | None = None) -> None:
        """Second pass: as :meth:`count`, with the same values."""
        keys = self._keys(values)
        slots = self._slots[keys >> _HALF_BITS]
        is_near = slots >= 0
        if not is_near.any():
            return
        places = slots[is_near] * _HALF + (keys[is_near] & (_HALF - 1))
        flat = self._fine.reshape(-1)
        if times is None:
            flat += np.bincount(places, minlength=len(flat))
        else:
            np.add.at(flat, places, times[is_near])

    def percentiles(self) -> list[float]:
        """The percentiles, in the order in which they were asked for; empty where no value was taken."""
        ends = np.cumsum(self._counts)
        found = []
        for low, high, share in self._wanted:
            below, above = self._value(low, ends), self._value(high, ends)
            found.append(below if below == above else below + (above - below) * share)
        return found

    def _value(self, rank: int, ends: NDArray[np.int64]) -> float:
        upper = int(np.searchsorted(ends, rank, side="right"))
        before = int(ends[upper] - self._counts[upper])
        lower = int(np.searchsorted(np.cumsum(self._fine[self._slots[upper]]), rank - before, side="right"))
        key = upper << _HALF_BITS | lower
        if not self._is_float:
            return float(key - _OFFSET)
        bits = key ^ int(_SIGN) if key & int(_SIGN) else ~key & 0xFFFFFFFF
        return float(np.uint32(bits).view(np.float32))

    def _keys(self, values: NDArray[Any]) -> NDArray[np.uint32]:
        if not self._is_float:
            return (values.astype(np.int64) + _OFFSET).astype(np.uint32)
        with np.errstate(over="ignore"):
            # -0 and 0 are one value.
            bits = (np.ascontiguousarray(values, np.float32) + np.float32(0)).view(np.uint32)
        keys: NDArray[np.uint32] = np.where(bits & _SIGN, ~bits, bits | _SIGN)
        return keys

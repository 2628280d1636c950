"""Arrays for what is read, in memory that is used again.

The system hands out a large array's memory page by page, as it is first written, and that takes as long as reading and
checking what goes there. So memory comes back to its pool when nothing refers to the array any more, no view of it
either, and the next array of the size is made of it.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["ArrayPool"]

ALIGNMENT_BYTES = 64
"""TensorFlow copies arrays that begin elsewhere; numpy's own begin at multiples of 16."""

HUGE_PAGE_BYTES = 2 << 20
"""Arrays from this size on begin where a large page of Linux can: numpy asks for such pages."""

LEAST_BYTES = 256 << 10
"""Smaller arrays are left to the system, which keeps their memory itself."""

MOST_IDLE_BYTES = 64 << 20
"""What a pool keeps of memory that no array uses."""


class ArrayPool:
    """Makes arrays as ``numpy.empty`` does, at multiples of 64 bytes; may be used by several threads, and pickled.

    No lock is taken: an array may end in any line of any thread, also of one that makes another.

    Examples
    --------
    >>> pool = ArrayPool()
    >>> first = pool.empty((512, 512), np.dtype("float32"))
    >>> place = first.ctypes.data
    >>> place % 64
    0
    >>> view = first[::2]
    >>> del first
    >>> second = pool.empty((512, 512), np.dtype("float32"))
    >>> second.ctypes.data == place
    False
    >>> del view
    >>> pool.empty((256, 256, 4), np.dtype("float32")).ctypes.data == place
    True
    """

    def __init__(self) -> None:
        self._idle: dict[int, NDArray[np.uint8]] = {}

    def __reduce__(self) -> tuple[type[ArrayPool], tuple[()]]:
        return ArrayPool, ()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """An array whose values mean nothing yet."""
        size = math.prod(shape) * dtype.itemsize
        alignment = ALIGNMENT_BYTES if size < HUGE_PAGE_BYTES else HUGE_PAGE_BYTES
        memory = self._taken(size + alignment)
        start = -memory.ctypes.data % alignment
        if size >= LEAST_BYTES:
            memory = np.asarray(_Lease(memory, self))
        return memory[start : start + size].view(dtype).reshape(shape)

    def give_back(self, memory: NDArray[np.uint8]) -> None:
        """Keep ``memory``, which nobody uses any more, for an array to come; what was kept longest goes for it."""
        while self._idle and sum(each.nbytes for each in list(self._idle.values())) + memory.nbytes > MOST_IDLE_BYTES:
            self._idle.pop(next(iter(list(self._idle)), 0), None)
        if memory.nbytes <= MOST_IDLE_BYTES:
            self._idle[id(memory)] = memory

    def _taken(self, size: int) -> NDArray[np.uint8]:
        for key, memory in list(self._idle.items()):
            # Another thread may have taken it: one of them gets it.
            if memory.nbytes == size and self._idle.pop(key, None) is not None:
                return memory
        return np.empty(size, np.uint8)


class _Lease:
    """What an array of a pool is made of. It ends with the last array that refers to it."""

    __slots__ = ("__array_interface__", "_memory", "_pool")

    def __init__(self, memory: NDArray[np.uint8], pool: ArrayPool) -> None:
        self.__array_interface__ = memory.__array_interface__
        self._memory = memory
        self._pool = pool

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # Modules are taken apart then, and the names in them are None.
        if not is_finalizing():
            self._pool.give_back(self._memory)

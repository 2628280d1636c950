"""Arrays at addresses that other libraries take without a copy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["aligned_empty"]

ALIGNMENT_BYTES = 64
"""TensorFlow copies arrays that begin elsewhere; numpy's own begin at multiples of 16."""


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """As ``numpy.empty``, at a multiple of 64 bytes.

    >>> aligned_empty((3, 5), np.dtype("float32")).ctypes.data % 64
    0
    """
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT_BYTES, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT_BYTES
    return memory[start : start + size].view(dtype).reshape(shape)

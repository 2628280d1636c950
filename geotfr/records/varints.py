"""Packed varints of many integers at once: seven bits a byte, the lowest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["pack_varints", "varint"]

# So many values at a time that their bytes stay in the processor's cache.
_CHUNK = 1 << 15


def pack_varints(values: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The rows of ``values`` ``(n, m)`` as packed varints, and how many bytes each row takes ``(n,)``.

    Negative values take ten bytes, as protobuf's int64 does.

    >>> data, sizes = pack_varints(np.array([[1, 300], [-1, 0]]))
    >>> data[:3].tobytes().hex(), sizes.tolist()
    ('01ac02', [3, 11])
    """
    rows, columns = values.shape
    bits = _narrowed(np.ascontiguousarray(values, np.int64).reshape(-1).view(np.uint64))
    if bits.dtype == np.uint8:
        return bits, np.full(rows, columns, np.int64)
    parts = []
    widths = np.empty(len(bits), np.uint8)
    for start in range(0, len(bits), _CHUNK):
        part, widths[start : start + _CHUNK] = _packed(bits[start : start + _CHUNK])
        parts.append(part)
    data = np.concatenate(parts) if parts else np.empty(0, np.uint8)
    return data, widths.reshape(rows, columns).sum(axis=1, dtype=np.int64)


def varint(number: int) -> bytes:
    """``number``, 0 or more, as a varint.

    >>> varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _narrowed(bits: NDArray[np.uint64]) -> NDArray[Any]:
    """The narrowest unsigned type that makes the work shorter; uint8 means one byte each."""
    largest = int(bits.max()) if len(bits) else 0
    for limit, dtype in ((1 << 7, np.uint8), (1 << 16, np.uint16), (1 << 32, np.uint32)):
        if largest < limit:
            return bits.astype(dtype)
    return bits


def _packed(bits: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The bytes of ``bits`` ``(n,)``, and how many each takes ``(n,) uint8``."""
    most = max((int(bits.max()).bit_length() + 6) // 7, 1)
    septets = np.empty((len(bits), most), np.uint8)
    is_kept = np.empty((len(bits), most), np.bool_)
    is_kept[:, 0] = True
    rest = bits
    for place in range(most):
        low = rest.astype(np.uint8) & np.uint8(0x7F)
        rest = rest >> bits.dtype.type(7)
        goes_on = rest != 0
        septets[:, place] = low | (goes_on.view(np.uint8) << np.uint8(7))
        if place + 1 < most:
            is_kept[:, place + 1] = goes_on
    return septets[is_kept], is_kept.sum(axis=1, dtype=np.uint8)

"""Packed varints of many integers at once: seven bits a byte, the lowest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from geotfr.records.messages import int64_list_class

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["pack_varints", "unpack_varints", "varint"]

# So many values at a time that their bytes stay in the processor's cache.
_CHUNK = 1 << 15
_CHUNK_BYTES = 256 << 10


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


def _packed(bits: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.uint8] | int]:
    """The bytes of ``bits`` ``(n,)``, and how many each takes: one number where all take as many."""
    least, most = (max((int(bound).bit_length() + 6) // 7, 1) for bound in (bits.min(), bits.max()))
    septets = np.empty((len(bits), most), np.uint8)
    if least == most:
        rest = bits
        for place in range(most):
            low = rest.astype(np.uint8)
            septets[:, place] = low | np.uint8(0x80) if place + 1 < most else low
            rest = rest >> bits.dtype.type(7)
        return septets.reshape(-1), most
    is_kept = np.ones((len(bits), most), np.bool_)
    widths = np.ones(len(bits), np.uint8)
    rest = bits
    for place in range(most):
        low = rest.astype(np.uint8) & np.uint8(0x7F)
        rest = rest >> bits.dtype.type(7)
        goes_on = rest != 0
        septets[:, place] = low | (goes_on.view(np.uint8) << np.uint8(7))
        if place + 1 < most:
            is_kept[:, place + 1] = goes_on
            widths += goes_on.view(np.uint8)
    # Measured: three times as fast as the mask itself.
    return septets.reshape(-1).take(np.flatnonzero(is_kept)), widths


def unpack_varints(data: NDArray[np.uint8]) -> NDArray[np.int64] | None:
    """The int64 values of packed varints ``data`` ``(bytes,) uint8``; None if one is cut, or has more than ten bytes.

    >>> unpack_varints(np.frombuffer(bytes.fromhex("01 ac02 ffffffffffffffffff01"), np.uint8))
    array([  1, 300,  -1])
    """
    if len(data) and data[-1] > 0x7F:
        return None
    values = np.empty(np.count_nonzero(data < 0x80), np.int64)
    start = made = 0
    while start < len(data):
        stop = min(start + _CHUNK_BYTES, len(data))
        # Back to the end of a varint, which is no longer than ten bytes.
        while stop > start and data[stop - 1] > 0x7F:
            stop -= 1
        part = _decode_chunk(data[start:stop])
        if part is None:
            return None
        values[made : made + len(part)] = part
        start, made = stop, made + len(part)
    return values


def _decode_chunk(data: NDArray[np.uint8]) -> NDArray[np.int64] | None:
    count = int(np.count_nonzero(data < 0x80))
    width = len(data) // count if count else 0
    if width > 4 or width * count != len(data) or (data[width - 1 :: width] > 0x7F).any():
        # Measured: for widths that differ protobuf is faster than numpy.
        return _decode_by_protobuf(data)
    columns = (data & np.uint8(0x7F)).reshape(count, width)
    values = columns[:, 0].astype(np.int64)
    for index in range(1, width):
        values |= columns[:, index].astype(np.int64) << np.int64(7 * index)
    return values


def _decode_by_protobuf(data: NDArray[np.uint8]) -> NDArray[np.int64] | None:
    from google.protobuf.message import DecodeError

    message = int64_list_class()()
    try:
        message.MergeFromString(b"\x0a" + varint(len(data)) + data.tobytes())
    except DecodeError:
        return None
    return np.array(cast("Any", message).value, np.int64)

"""Small shards made from the format's definition, by code that shares nothing with the package.

**Source**: the TFRecord format as TensorFlow documents it; RFC 3720 for CRC32C.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import google_crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable


def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()


def masked_crc(data: bytes) -> int:
    """The masked CRC32C, a bit of arithmetic for each byte; by Google's library where that takes too long."""
    if len(data) > 100_000:
        crc = google_crc32c.value(data)
    else:
        crc = 0xFFFFFFFF
        for byte in data:
            crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
        crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def header(length: int) -> bytes:
    """A record's first 12 bytes."""
    packed = struct.pack("<Q", length)
    return packed + struct.pack("<I", masked_crc(packed))


def frame(payload: bytes) -> bytes:
    """A whole record."""
    return header(len(payload)) + payload + struct.pack("<I", masked_crc(payload))


def shard(payloads: Iterable[bytes]) -> bytes:
    """A whole plain file."""
    return b"".join(map(frame, payloads))


def varint(number: int) -> bytes:
    """``number`` as protobuf writes it."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def example(**features: bytes) -> bytes:
    """An Example of these features, each a serialized Feature."""
    return field(1, b"".join(field(1, field(1, k.encode()) + field(2, v)) for k, v in features.items()))


def floats(*values: float) -> bytes:
    """A Feature with a packed float list."""
    return field(2, field(1, struct.pack(f"<{len(values)}f", *values)) if values else b"")


def integers(*values: int) -> bytes:
    """A Feature with a packed int64 list."""
    return field(3, field(1, b"".join(varint(v & (1 << 64) - 1) for v in values)) if values else b"")


def texts(*values: bytes) -> bytes:
    """A Feature with a bytes list."""
    return field(1, b"".join(field(1, value) for value in values))


def sized_member(data: bytes) -> bytes:
    """``data`` as a gzip member that tells its size in the extra subfield ``GT``."""
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = deflate.compress(data) + deflate.flush()
    size = 24 + len(body) + 8
    head = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff" + struct.pack("<H2sHQ", 12, b"GT", 8, size)
    return head + body + struct.pack("<II", zlib.crc32(data), len(data))

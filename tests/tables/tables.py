"""A slow and obvious reading and writing of tables' records, and small tables."""

from __future__ import annotations

import gzip
import struct
from typing import TYPE_CHECKING, Any

import google_crc32c

from geotfr.records.messages import example_class

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TAGS = {"bytes": b"\x0a", "float": b"\x12", "int64": b"\x1a"}


def payloads(path: Path) -> list[bytes]:
    """The payloads of a TFRecord file, gzip or not, without a look at the checksums."""
    data = path.read_bytes()
    data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    found = []
    while data:
        (size,) = struct.unpack("<Q", data[:8])
        found.append(data[12 : 12 + size])
        data = data[16 + size :]
    return found


def records(path: Path) -> list[dict[str, list[Any]]]:
    """Each record as key -> values, by protobuf."""
    found = []
    for payload in payloads(path):
        message: Any = example_class().FromString(payload)
        features = message.features.feature
        found.append({key: list(getattr(features[key], features[key].WhichOneof("kind")).value) for key in features})
    return found


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(tag: bytes, data: bytes) -> bytes:
    return tag + varint(len(data)) + data


def payload(features: Mapping[str, tuple[str, Sequence[Any]]]) -> bytes:
    """The Example with these features (kind, values) in this order, as Earth Engine writes it."""
    entries = b""
    for key, (kind, values) in features.items():
        if kind == "bytes":
            content = b"".join(field(b"\x0a", value) for value in values)
        else:
            packed = b"".join(varint(v) if kind == "int64" else struct.pack("<f", v) for v in values)
            content = field(b"\x0a", packed) if values else b""
        entries += field(b"\x0a", field(b"\x0a", key.encode()) + field(b"\x12", field(TAGS[kind], content)))
    return field(b"\x0a", entries)


def framed(data: bytes) -> bytes:
    """``data`` as a TFRecord."""

    def checksum(part: bytes) -> bytes:
        crc = int(google_crc32c.value(part))
        return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(data))
    return length + checksum(length) + data + checksum(data)

"""TFRecord framing, Example messages, Earth Engine's gzip stream and mixer text, written by hand.

**Source**: TFRecord's format (length, CRC32C, payload, CRC32C), protobuf's wire format, gzip's RFC 1952.
"""

from __future__ import annotations

import gzip
import json
import math
import struct
import zlib
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Value = np.ndarray | list[bytes]


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """The Castagnoli checksum, one byte at a time.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked_crc(data: bytes) -> bytes:
    """Four bytes, little endian: the checksum rotated right by 15 bits, plus 0xa282ead8."""
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def frame(payload: bytes) -> bytes:
    """One TFRecord."""
    length = struct.pack("<Q", len(payload))
    return length + masked_crc(length) + payload + masked_crc(payload)


def unframe(stream: bytes, *, checked: int = 1 << 62) -> list[bytes]:
    """The payloads of a plain TFRecord stream; checksums of the first ``checked`` records are compared."""
    payloads: list[bytes] = []
    at = 0
    while at < len(stream):
        (length,) = struct.unpack_from("<Q", stream, at)
        payload = stream[at + 12 : at + 12 + length]
        if len(payloads) < checked:
            assert stream[at + 8 : at + 12] == masked_crc(stream[at : at + 8]), f"length checksum at {at}"
            assert stream[at + 12 + length : at + 16 + length] == masked_crc(payload), f"payload checksum at {at}"
        assert len(payload) == length
        payloads.append(payload)
        at += 16 + length
    assert at == len(stream)
    return payloads


def varint(number: int) -> bytes:
    """Base 128, least significant group first; negative numbers as 64-bit two's complement."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def float_feature(values: Iterable[float]) -> bytes:
    """A Feature holding a packed FloatList."""
    return field(2, field(1, np.asarray(values, "<f4").tobytes()))


def int64_feature(values: Iterable[int]) -> bytes:
    """A Feature holding a packed Int64List."""
    return field(3, field(1, b"".join(varint(int(value)) for value in values)))


def bytes_feature(values: Iterable[bytes]) -> bytes:
    """A Feature holding a BytesList."""
    return field(1, b"".join(field(1, value) for value in values))


def example(features: Iterable[tuple[str, bytes]]) -> bytes:
    """An Example with its map entries in the order given."""
    return field(1, b"".join(field(1, field(1, key.encode()) + field(2, feature)) for key, feature in features))


def sequence_example(context: Sequence[tuple[str, bytes]], lists: Sequence[tuple[str, Sequence[bytes]]]) -> bytes:
    """A SequenceExample of (key, Feature) and (key, the Features of the steps); either part is left out if empty."""
    message = b""
    if context:
        message += field(1, b"".join(field(1, field(1, key.encode()) + field(2, feature)) for key, feature in context))
    if lists:
        entries = [(key, b"".join(field(1, step) for step in steps)) for key, steps in lists]
        message += field(2, b"".join(field(1, field(1, key.encode()) + field(2, steps)) for key, steps in entries))
    return message


def _fields(message: bytes) -> Iterable[tuple[int, bytes]]:
    at = 0

    def read_varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = message[at]
            at += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    while at < len(message):
        tag = read_varint()
        assert tag & 7 == 2, f"wire type {tag & 7} where a length-delimited field belongs"
        length = read_varint()
        assert at + length <= len(message)
        yield tag >> 3, message[at : at + length]
        at += length


def decode_example(payload: bytes) -> dict[str, Value]:
    """Key -> values, in the record's order; packed lists in one chunk only, as Earth Engine writes them."""
    ((one, features),) = _fields(payload)
    assert one == 1
    return {key: _decode_feature(feature) for key, feature in _entries(features).items()}


def decode_sequence_example(payload: bytes) -> tuple[dict[str, Value], dict[str, list[Value]]]:
    """(context, feature lists): key -> values, and key -> the values of each step, in the record's order."""
    parts = list(_fields(payload))
    assert [number for number, _ in parts] in ([1], [2], [1, 2])
    context: dict[str, Value] = {}
    lists: dict[str, list[Value]] = {}
    for number, part in parts:
        assert part, "a part that holds nothing is left out"
        for key, message in _entries(part).items():
            if number == 1:
                context[key] = _decode_feature(message)
            else:
                steps = list(_fields(message))
                assert all(one == 1 for one, _ in steps)
                lists[key] = [_decode_feature(step) for _, step in steps]
    return context, lists


def _entries(message: bytes) -> dict[str, bytes]:
    """The entries of a map field 1, each key then value, no key twice."""
    entries: dict[str, bytes] = {}
    for number, entry in _fields(message):
        (key_number, key), (value_number, value) = _fields(entry)
        assert (number, key_number, value_number) == (1, 1, 2)
        assert key.decode() not in entries
        entries[key.decode()] = value
    return entries


def _decode_feature(feature: bytes) -> Value:
    ((kind, values),) = _fields(feature)
    return _decode_list(kind, values)


def _decode_list(kind: int, values: bytes) -> Value:
    chunks = list(_fields(values))
    assert all(number == 1 for number, _ in chunks)
    if kind == 1:
        return [chunk for _, chunk in chunks]
    ((_, packed),) = chunks
    if kind == 2:
        return np.frombuffer(packed, "<f4")
    assert kind == 3
    numbers: list[int] = []
    number = shift = 0
    for byte in packed:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(number - (1 << 64) if number >> 63 else number)
            number = shift = 0
    return np.array(numbers, np.int64)


def gzip_earth_engine(stream: bytes) -> bytes:
    """One gzip member as Earth Engine writes it: its ten header bytes, zlib level 6 in one call."""
    deflate = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(stream) + deflate.flush()
    return bytes.fromhex("1f8b08000000000000ff") + body + struct.pack("<II", zlib.crc32(stream), len(stream) % 2**32)


def inflate(content: bytes) -> bytes:
    """The plain stream of a shard, by its content: gzip of any number of members, or plain."""
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def read_shard(path: Path, *, checked: int = 1 << 62) -> list[dict[str, Value]]:
    """The decoded Examples of one file."""
    return [decode_example(payload) for payload in unframe(inflate(path.read_bytes()), checked=checked)]


def read_sequences(path: Path, *, checked: int = 1 << 62) -> list[tuple[dict[str, Value], dict[str, list[Value]]]]:
    """The decoded SequenceExamples of one file."""
    return [decode_sequence_example(payload) for payload in unframe(inflate(path.read_bytes()), checked=checked)]


def java_double(value: float) -> str:
    """``Double.toString``: shortest digits, at least one decimal, E notation below 1e-3 and from 1e7.

    >>> [java_double(v) for v in (0.0, -105.5, 300000.0, 1e7, 12345678.25, 0.001, 8.983152841195215e-05)]
    ['0.0', '-105.5', '300000.0', '1.0E7', '1.234567825E7', '0.001', '8.983152841195215E-5']
    """
    sign = "-" if math.copysign(1, value) < 0 else ""
    size = abs(value)
    if size == 0:
        return sign + "0.0"
    _, digit_tuple, exponent = Decimal(repr(size)).normalize().as_tuple()
    assert isinstance(exponent, int)
    digits = "".join(map(str, digit_tuple))
    point = len(digits) + exponent
    if 1e-3 <= size < 1e7:
        whole = digits[:point].ljust(point, "0") if point > 0 else "0"
        fraction = digits[point:] if point > 0 else "0" * -point + digits
        return f"{sign}{whole}.{fraction or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def mixer_text(
    crs: str, affine: Sequence[float], patch_xy: tuple[int, int], patches_per_row: int, total_patches: int
) -> str:
    """The mixer as Earth Engine lays it out; ``affine`` is (xScale, xShear, x, yShear, yScale, y)."""
    matrix = ", ".join(java_double(value) for value in affine)
    return (
        "{\n"
        '  "projection": {\n'
        f'    "crs": {json.dumps(crs, ensure_ascii=False)},\n'
        '    "affine": {\n'
        f'      "doubleMatrix": [{matrix}]\n'
        "    }\n"
        "  },\n"
        f'  "patchDimensions": [{patch_xy[0]}, {patch_xy[1]}],\n'
        f'  "patchesPerRow": {patches_per_row},\n'
        f'  "totalPatches": {total_patches}\n'
        "}"
    )


def write_shard(path: Path, payloads: Iterable[bytes], *, compression: str = "") -> Path:
    """A TFRecord file of ``payloads``; compression is "", "GZIP" or "ZLIB", whatever the name says."""
    stream = b"".join(frame(payload) for payload in payloads)
    assert compression in ("", "GZIP", "ZLIB")
    if compression == "GZIP":
        stream = gzip.compress(stream, mtime=0)
    elif compression == "ZLIB":
        stream = zlib.compress(stream)
    path.write_bytes(stream)
    return path

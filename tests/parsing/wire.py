"""A writer of Examples by hand: every layout that protobuf allows, the odd ones too.

It shares no code with geotfr, so that it can be held against it.
"""

from __future__ import annotations

import struct
from typing import Literal

Kind = Literal["bytes", "float", "int64"]
Values = list[bytes] | list[float] | list[int]
Layout = Literal["packed", "unpacked", "chunks", "empty chunk", "unknown fields"]
"""How a list is written. ``empty chunk``: an empty one first; ``unknown fields``: in the list and in the feature."""

Content = tuple[Kind, Values] | Literal["no kind", "missing"]

TAG = {"bytes": 1, "float": 2, "int64": 3}
UNKNOWN_FIELDS = bytes.fromhex("4a 02 68 69 40 05 49 00 00 00 00 00 00 00 00 4d 00 00 00 00")
"""Fields 8 and 9 of all four wire types."""


def varint(number: int) -> bytes:
    """A base-128 varint; negative numbers as protobuf's 64-bit two's complement."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def _numbers(kind: Kind, values: Values, layout: Layout) -> bytes:
    one = {"float": lambda value: struct.pack("<f", value), "int64": varint}[kind]
    wire_type = 5 if kind == "float" else 0
    if layout == "unpacked":
        return b"".join(varint(1 << 3 | wire_type) + one(value) for value in values)
    packed = [one(value) for value in values]
    if layout == "chunks":
        return field(1, b"".join(packed[:1])) + field(1, b"".join(packed[1:]))
    if layout == "empty chunk":
        return field(1, b"") + field(1, b"".join(packed))
    return field(1, b"".join(packed)) if values else b""


def feature(content: Content, layout: Layout = "packed") -> bytes:
    """A serialized Feature."""
    if content == "no kind" or content == "missing":
        return b""
    kind, values = content
    if kind == "bytes":
        inner = b"".join(field(1, value) for value in values)
    else:
        inner = _numbers(kind, values, layout)
    if layout == "unknown fields":
        return UNKNOWN_FIELDS + field(TAG[kind], UNKNOWN_FIELDS + inner + UNKNOWN_FIELDS) + UNKNOWN_FIELDS
    return field(TAG[kind], inner)


def entry(key: str, value: bytes, *, value_first: bool = False) -> bytes:
    """A map entry, as the field of the message that holds the map."""
    parts = [field(1, key.encode()), field(2, value)]
    return field(1, b"".join(reversed(parts) if value_first else parts))


def example(contents: dict[str, Content], layout: Layout = "packed") -> bytes:
    """A serialized Example without oddities but the lists' ``layout``."""
    entries = [entry(key, feature(value, layout)) for key, value in contents.items() if value != "missing"]
    return field(1, b"".join(entries))


def sequence_example(
    context: dict[str, Content], lists: dict[str, list[Content] | Literal["missing"]], layout: Layout = "packed"
) -> bytes:
    """A serialized SequenceExample."""
    entries = [entry(key, feature(value, layout)) for key, value in context.items() if value != "missing"]
    rows = [
        entry(key, b"".join(field(1, feature(step, layout)) for step in steps))
        for key, steps in lists.items()
        if steps != "missing"
    ]
    return field(1, b"".join(entries)) + field(2, b"".join(rows))

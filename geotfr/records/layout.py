"""A fixed byte layout for Examples whose features all have known lengths.

Patches of one export differ in their pixels only. So a framed record is a template with the values copied in: the
header, its checksum, the map keys and every length are constant, and a batch of records is a 2-D byte array whose
features are strided views. What is left per record is the cast of the pixels and one CRC32C.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.records.crc import masked_crc32c, masked_crc32c_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["FRAME_BYTES", "HEADER_BYTES", "ExampleLayout", "FeatureLayout", "Kind", "frame_header"]

HEADER_BYTES = 12
"""uint64 length and uint32 masked checksum of it, in front of each payload."""
FOOTER_BYTES = 4
FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES
"""What the container adds to each payload."""

# Field 1, length-delimited: Example.features, Features.feature, every list's value.
_TAG_1 = b"\x0a"
_TAG_KEY = b"\x0a"
_TAG_VALUE = b"\x12"


class Kind(StrEnum):
    """The three lists that a Feature can hold."""

    BYTES = "bytes"
    FLOAT = "float"
    INT64 = "int64"


# Feature.bytes_list = 1, float_list = 2; int64_list has no fixed layout, for its values are varints.
_LIST_TAG = {Kind.BYTES: b"\x0a", Kind.FLOAT: b"\x12"}
_VALUE_DTYPE: dict[Kind, np.dtype[Any]] = {Kind.BYTES: np.dtype(np.uint8), Kind.FLOAT: np.dtype("<f4")}


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLayout:
    """One feature of every record.

    Attributes
    ----------
    name
        The map key.
    kind
        ``FLOAT``: a packed list of ``length`` float32. ``BYTES``: one value of ``length`` bytes.
    length
        Number of floats or of bytes; at least 1.
    """

    name: str
    kind: Kind
    length: int


def frame_header(payload_bytes: int) -> bytes:
    """The 12 bytes in front of a payload: its length and the masked checksum of that length."""
    length = struct.pack("<Q", payload_bytes)
    return length + struct.pack("<I", masked_crc32c(length))


class ExampleLayout:
    """The bytes of framed Examples with the given features, in the given order.

    Map entries stand key then value and in the order given, lists are packed in one chunk. **Source**: read off
    files that Earth Engine exported.

    >>> layout = ExampleLayout([FeatureLayout(name="B4", kind=Kind.FLOAT, length=2)])
    >>> records = layout.allocate(3)
    >>> layout.values(records, 0)[:] = [[1, 2], [3, 4], [5, 6]]
    >>> layout.seal(records)
    >>> records.shape == (3, layout.record_bytes)
    True
    """

    def __init__(self, features: Sequence[FeatureLayout]) -> None:
        self.features = tuple(features)
        parts: list[bytes] = []
        offsets: list[int] = []
        size = 0
        for feature in self.features:
            head, value_bytes = _entry_head(feature)
            parts += [head, bytes(value_bytes)]
            offsets.append(size + len(head))
            size += len(head) + value_bytes
        example_head = _TAG_1 + _varint(size)
        self.payload_bytes = len(example_head) + size
        """Bytes of one serialized Example."""
        self.record_bytes = FRAME_BYTES + self.payload_bytes
        """Bytes of one record, framing included."""
        self.value_offsets = tuple(HEADER_BYTES + len(example_head) + o for o in offsets)
        """Where each feature's values start within a record."""
        self._head = frame_header(self.payload_bytes) + example_head
        self._parts = parts

    def allocate(self, count: int) -> NDArray[np.uint8]:
        """``count`` records with every value 0 and no checksum yet, ``(count, record_bytes) uint8``."""
        records = np.zeros((count, self.record_bytes), np.uint8)
        position = 0
        for part in (self._head, *self._parts):
            if any(part):
                records[:, position : position + len(part)] = np.frombuffer(part, np.uint8)
            position += len(part)
        return records

    def values(self, records: NDArray[np.uint8], index: int) -> NDArray[Any]:
        """The values of feature ``index`` in all ``records``: a writable view, ``(count, length)``.

        float32 (little endian, not aligned) or uint8, by the feature's kind.
        """
        feature = self.features[index]
        dtype = _VALUE_DTYPE[feature.kind]
        return np.ndarray(
            (len(records), feature.length),
            dtype,
            buffer=records.data,
            offset=self.value_offsets[index],
            strides=(self.record_bytes, dtype.itemsize),
        )

    def seal(self, records: NDArray[np.uint8]) -> None:
        """Write each record's payload checksum, in place."""
        checksums = masked_crc32c_rows(records[:, HEADER_BYTES:-FOOTER_BYTES])
        records[:, -FOOTER_BYTES:] = checksums.astype("<u4", copy=False).view(np.uint8).reshape(-1, FOOTER_BYTES)


def _entry_head(feature: FeatureLayout) -> tuple[bytes, int]:
    """The bytes of a map entry up to its values, and the number of value bytes behind them."""
    value_bytes = feature.length * _VALUE_DTYPE[feature.kind].itemsize
    values = _TAG_1 + _varint(value_bytes)
    list_head = _LIST_TAG[feature.kind] + _varint(len(values) + value_bytes) + values
    name = feature.name.encode()
    key = _TAG_KEY + _varint(len(name)) + name
    value_head = _TAG_VALUE + _varint(len(list_head) + value_bytes) + list_head
    entry_bytes = len(key) + len(value_head) + value_bytes
    return _TAG_1 + _varint(entry_bytes) + key + value_head, value_bytes


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)

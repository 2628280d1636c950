"""A fixed byte layout for Examples and SequenceExamples whose features all have known lengths.

Patches of one export differ in their pixels only. So a framed record is a template with the values copied in: the
header, its checksum, the map keys and every length are constant, and a batch of records is a 2-D byte array whose
features are strided views. What is left per record is the cast of the pixels and one CRC32C.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.records.crc import TABLE_COLUMNS, RowCrc, masked_crc32c, masked_crc32c_rows
from geotfr.records.kind import Kind
from geotfr.records.varints import varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "FRAME_BYTES",
    "HEADER_BYTES",
    "ExampleLayout",
    "FeatureLayout",
    "RecordLayout",
    "SequenceLayout",
    "frame_header",
]

HEADER_BYTES = 12
"""uint64 length and uint32 masked checksum of it, in front of each payload."""
FOOTER_BYTES = 4
FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES
"""What the container adds to each payload."""

# Length-delimited fields. 1: Example.features, Features.feature, a map entry's key, every list's value, a sequence's
# context. 2: a map entry's value, SequenceExample.feature_lists.
_TAG_1 = b"\x0a"
_TAG_2 = b"\x12"


_WORTH_TABLES = 64
"""Records of a layout from which on the look-up tables for their checksums pay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLayout:
    """One feature of every record.

    Attributes
    ----------
    name
        The map key.
    kind
        ``FLOAT``: a packed list of ``length`` float32. ``BYTES``: one value of ``length`` bytes. ``INT64``: a packed
        list of varints that take ``length`` bytes together.
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


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where the values of one feature stand: ``count`` values from ``offset`` on."""

    offset: int
    dtype: np.dtype[Any]
    count: int

    @property
    def stop(self) -> int:
        return self.offset + self.count * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class _Part:
    """A stretch of a record: pieces that are constant bytes, or a number of zeros where values go; and the slots."""

    pieces: tuple[bytes | int, ...]
    size: int
    slots: tuple[_Slot, ...] = ()


class RecordLayout:
    """The bytes of framed records that differ in their values only; made by its subclasses."""

    def __init__(self, payload: _Part) -> None:
        self._slots = payload.slots
        self._pieces = (frame_header(payload.size), *payload.pieces, FOOTER_BYTES)
        self.record_bytes = FRAME_BYTES + payload.size
        """Bytes of one record, framing included."""
        self._value_bytes = sum(slot.stop - slot.offset for slot in payload.slots)
        self._row_crc: RowCrc | None = None

    def allocate(self, count: int) -> NDArray[np.uint8]:
        """``count`` records with every value 0 and no checksum yet, ``(count, record_bytes) uint8``."""
        template = b"".join(bytes(piece) if isinstance(piece, int) else piece for piece in self._pieces)
        records = np.empty((count, self.record_bytes), np.uint8)
        records[:] = np.frombuffer(template, np.uint8)
        return records

    def values(self, records: NDArray[np.uint8], index: int) -> NDArray[Any]:
        """The values of feature ``index`` in all ``records``: a writable view, ``(count, length)``.

        float32 (little endian, not aligned), or uint8 for bytes and varints.
        """
        slot = self._slots[index]
        return np.ndarray(
            (len(records), slot.count),
            slot.dtype,
            buffer=records.data,
            offset=HEADER_BYTES + slot.offset,
            strides=(self.record_bytes, slot.dtype.itemsize),
        )

    def seal(self, records: NDArray[np.uint8]) -> None:
        """Write each record's payload checksum, in place."""
        payloads = records[:, HEADER_BYTES:-FOOTER_BYTES]
        if self._value_bytes <= TABLE_COLUMNS and len(records) >= _WORTH_TABLES:
            # Only the values differ from the template, and a checksum is linear: a look-up for each of their bytes.
            if self._row_crc is None:
                spans = [(slot.offset, slot.stop) for slot in self._slots]
                self._row_crc = RowCrc(payloads.shape[1], payloads[0], spans)
            checksums = self._row_crc.masked(payloads)
        else:
            checksums = masked_crc32c_rows(payloads)
        records[:, -FOOTER_BYTES:] = checksums.astype("<u4", copy=False).view(np.uint8).reshape(-1, FOOTER_BYTES)


class ExampleLayout(RecordLayout):
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
        super().__init__(_field(_TAG_1, _features(features)))


class SequenceLayout(RecordLayout):
    """The bytes of framed SequenceExamples: a context, and feature lists of some steps.

    Values are numbered: context features first, then each step of each list. A context or lists that are empty are
    left out.

    Parameters
    ----------
    context
        Features of the context.
    lists
        The steps of each list, in order; all steps of a list have its name.

    Examples
    --------
    >>> step = FeatureLayout(name="evi", kind=Kind.FLOAT, length=1)
    >>> layout = SequenceLayout([FeatureLayout(name="slope", kind=Kind.FLOAT, length=1)], [[step] * 12])
    >>> layout.values(layout.allocate(5), 12).shape
    (5, 1)
    """

    def __init__(self, context: Sequence[FeatureLayout], lists: Sequence[Sequence[FeatureLayout]]) -> None:
        fields = []
        if context:
            fields.append(_field(_TAG_1, _features(context)))
        if lists:
            entries = [
                _entry(steps[0].name, _joined([_field(_TAG_1, _feature(step)) for step in steps])) for steps in lists
            ]
            fields.append(_field(_TAG_2, _joined(entries)))
        super().__init__(_joined(fields))


def _joined(parts: Sequence[_Part]) -> _Part:
    """The parts one behind the other."""
    pieces: list[bytes | int] = []
    slots: list[_Slot] = []
    size = 0
    for part in parts:
        slots += [_Slot(size + s.offset, s.dtype, s.count) for s in part.slots]
        pieces += part.pieces
        size += part.size
    return _Part(tuple(pieces), size, tuple(slots))


def _constant(data: bytes) -> _Part:
    return _Part((data,), len(data))


def _field(tag: bytes, part: _Part) -> _Part:
    """A length-delimited field that holds ``part``."""
    return _joined([_constant(tag + varint(part.size)), part])


def _features(features: Sequence[FeatureLayout]) -> _Part:
    return _joined([_entry(feature.name, _feature(feature)) for feature in features])


def _entry(name: str, value: _Part) -> _Part:
    """A map entry: key, then value."""
    return _field(_TAG_1, _joined([_field(_TAG_1, _constant(name.encode())), _field(_TAG_2, value)]))


def _feature(feature: FeatureLayout) -> _Part:
    dtype = feature.kind.wire_dtype
    size = feature.length * dtype.itemsize
    values = _Part((size,), size, (_Slot(0, dtype, feature.length),))
    return _field(feature.kind.tag, _field(_TAG_1, values))

"""Where the values of a serialized Example or SequenceExample stand in its bytes.

Protobuf lets a writer do much: several chunks per list, repeated keys, unknown fields. Writers of training data do
none of it. :func:`locate` follows the usual form and gives None at the first byte that leaves it; such a record goes
to protobuf, so nothing here decides what an odd record means. Where records differ in their values only, one
:class:`RecordMap` serves them all, and values are views.

**Source**: TensorFlow's ``example.proto`` and ``feature.proto``, protobuf's encoding guide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from geotfr.records.crc import TABLE_COLUMNS, RowCrc
from geotfr.records.kind import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    ByteSource = bytes | memoryview

__all__ = ["FeaturePlace", "RecordMap", "Section", "feature_keys", "locate"]

Section = str
"""``features``, ``context`` or ``feature_lists``."""

MAX_LIST_VALUES = 4096
"""Bytes lists of more values, and feature lists of more steps, are left to protobuf: each takes a step of Python,
and 200 bytes of memory."""

TEMPLATE_PAYLOAD_BYTES = 1024
"""Longer payloads are checked as fast by a call each."""

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_KEY_TAG = 1 << 3 | _LENGTH


class _UnusualError(Exception):
    """The bytes leave the usual form."""


@dataclass(frozen=True, slots=True)
class FeaturePlace:
    """One feature of one record, or one step of a feature list.

    Attributes
    ----------
    kind
        The list it holds; None for a feature that holds none.
    spans
        (start, stop) of each bytes value; of the packed values of other kinds, none for an empty list.
    """

    kind: Kind | None
    spans: tuple[tuple[int, int], ...]


class RecordMap:
    """Where everything stands in one record, and in all that differ from it in their values only.

    Attributes
    ----------
    places
        (section, key) -> the feature there, or the steps of the feature list; in the record's order.
    size
        Bytes of the record.
    """

    def __init__(self, places: dict[tuple[Section, str], tuple[FeaturePlace, ...]], record: ByteSource) -> None:
        self.places = places
        self.size = len(record)
        features = [place for steps in places.values() for place in steps]
        self._spans = [span for place in features for span in place.spans]
        self._integer_ends = [stop - 1 for place in features if place.kind is Kind.INT64 for _, stop in place.spans]
        bounds = [0, *(edge for span in self._spans for edge in span), self.size]
        between = zip(bounds[::2], bounds[1::2], strict=True)
        # (start, bytes) of everything between the values.
        self._fixed = [(start, bytes(record[start:stop])) for start, stop in between if start < stop]

    def matches(self, records: NDArray[np.uint8], *, is_proven: bool = False) -> NDArray[np.bool_]:
        """Which of ``records`` ``(n, size) uint8`` have these places too, ``(n,) bool``.

        ``is_proven``: their checksums have shown already that they are this record but for the values.
        """
        good = np.ones(len(records), np.bool_)
        for start, fixed in () if is_proven else self._fixed:
            same = records[:, start : start + len(fixed)] == np.frombuffer(fixed, np.uint8)
            # Mostly all are; asking row by row takes ten times as long.
            if not same.all():
                good &= same.all(axis=1)
        for end in self._integer_ends:
            # A number that is cut would go on in the next record.
            good &= records[:, end] < 0x80
        return good

    def row_crc(self, record: NDArray[np.uint8]) -> RowCrc | None:
        """What proves these places by a record's checksum; None where that isn't faster. ``record`` has them."""
        varying = sum(stop - start for start, stop in self._spans)
        if varying > TABLE_COLUMNS or self.size > TEMPLATE_PAYLOAD_BYTES:
            return None
        return RowCrc(self.size, record, self._spans)


def locate(record: ByteSource, *, is_sequence: bool = False) -> RecordMap | None:
    """The places of all values in the Example (or SequenceExample) ``record``; None where its form isn't the usual one.

    >>> record = bytes.fromhex("0a 0f 0a 0d 0a 01 62 12 08 12 06 0a 04 00 00 80 3f")
    >>> locate(record).places
    {('features', 'b'): (FeaturePlace(kind=<Kind.FLOAT: 'float'>, spans=((13, 17),)),)}
    """
    places: dict[tuple[Section, str], tuple[FeaturePlace, ...]] = {}
    sections = {1: "context", 2: "feature_lists"} if is_sequence else {1: "features"}
    start, stop = 0, len(record)
    try:
        while start < stop:
            number = record[start] >> 3
            section = sections.pop(number, "")
            if not section:
                return None
            start, end = _field(record, start, stop, number)
            while start < end:
                start, entry_end = _field(record, start, end, 1)
                key, value_start, value_stop = _entry(record, start, entry_end)
                if (section, key) in places:
                    return None
                if section == "feature_lists":
                    places[section, key] = _steps(record, value_start, value_stop)
                else:
                    places[section, key] = (_feature(record, value_start, value_stop),)
                start = entry_end
    except (_UnusualError, UnicodeDecodeError):
        return None
    return RecordMap(places, record)


def _entry(data: ByteSource, start: int, stop: int) -> tuple[str, int, int]:
    """(key, start, stop of the value) of a map entry, which has both once, in either order."""
    is_key_first = start < stop and data[start] == _KEY_TAG
    number = 1 if is_key_first else 2
    first, first_stop = _field(data, start, stop, number)
    second = _only_field(data, first_stop, stop, 3 - number)
    if is_key_first:
        return str(data[first:first_stop], "utf-8"), second, stop
    return str(data[second:stop], "utf-8"), first, first_stop


def _steps(data: ByteSource, start: int, stop: int) -> tuple[FeaturePlace, ...]:
    steps: list[FeaturePlace] = []
    while start < stop:
        start, end = _field(data, start, stop, 1)
        steps.append(_feature(data, start, end))
        if len(steps) > MAX_LIST_VALUES:
            raise _UnusualError
        start = end
    return tuple(steps)


def _feature(data: ByteSource, start: int, stop: int) -> FeaturePlace:
    if start == stop:
        return FeaturePlace(None, ())
    number = data[start] >> 3
    kind = Kind.of_number(number)
    if kind is None:
        raise _UnusualError
    start = _only_field(data, start, stop, number)
    if start == stop:
        return FeaturePlace(kind, ())
    if kind is Kind.BYTES:
        spans = []
        while start < stop:
            span = _field(data, start, stop, 1)
            spans.append(span)
            start = span[1]
            if len(spans) > MAX_LIST_VALUES:
                raise _UnusualError
        return FeaturePlace(kind, tuple(spans))
    start = _only_field(data, start, stop, 1)
    # An empty chunk is legal and hardly written; numbers that are cut are not, and protobuf says so.
    is_cut = (stop - start) % 4 if kind is Kind.FLOAT else data[stop - 1] > 0x7F
    if start == stop or is_cut:
        raise _UnusualError
    return FeaturePlace(kind, ((start, stop),))


def _only_field(data: ByteSource, start: int, stop: int, number: int) -> int:
    """Where the content starts of the one field ``number`` that fills ``start`` to ``stop``."""
    begin, end = _field(data, start, stop, number)
    if end != stop:
        raise _UnusualError
    return begin


def _field(data: ByteSource, start: int, stop: int, number: int) -> tuple[int, int]:
    """(start, stop) of the content of the length-delimited field ``number`` at ``start``."""
    if start >= stop or data[start] != number << 3 | _LENGTH:
        raise _UnusualError
    length, begin = _varint(data, start + 1, stop)
    if begin + length > stop:
        raise _UnusualError
    return begin, begin + length


def _varint(data: ByteSource, start: int, stop: int) -> tuple[int, int]:
    """The varint at ``start`` and where it ends."""
    if start < stop and data[start] < 0x80:
        # Most are one byte, and this is called more than anything else.
        return data[start], start + 1
    value = shift = 0
    for place in range(start, min(stop, start + 10)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    raise _UnusualError


def feature_keys(payload: ByteSource) -> list[str]:
    """The keys of any Example that protobuf accepts, in the order of their last entries, which are those that count.

    Those behind a group, which nobody writes, are left out.
    """
    keys: dict[str, None] = {}
    for features in _contents(payload, 0, len(payload), 1):
        for entry in _contents(payload, *features, 1):
            key = ""
            for start, stop in _contents(payload, *entry, 1):
                key = str(payload[start:stop], "utf-8")
            keys.pop(key, None)
            keys[key] = None
    return list(keys)


def _contents(data: ByteSource, start: int, stop: int, number: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of the content of every length-delimited field ``number``; other fields are stepped over."""
    while start < stop:
        tag, start = _varint(data, start, stop)
        kind = tag & 7
        if kind == _LENGTH:
            length, start = _varint(data, start, stop)
            if tag >> 3 == number:
                yield start, start + length
            start += length
        elif kind == _VARINT:
            _, start = _varint(data, start, stop)
        elif kind in (_FIXED64, _FIXED32):
            start += 8 if kind == _FIXED64 else 4
        else:
            # A group.
            return

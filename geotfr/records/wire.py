"""Where the values of a serialized Example stand in its bytes.

Writers put packed lists in one chunk, each key once, and nothing else. For such records :func:`map_example` tells
the place of every value, so that values are views and not copies, and equal records are read together. What is
stored in another way, however legal, is None here and left to protobuf.

**Source**: TensorFlow's ``example.proto`` and ``feature.proto``, protobuf's encoding guide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from geotfr.records.kind import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    ByteSource = bytes | memoryview

__all__ = ["FeaturePlace", "feature_keys", "map_example"]

MAX_LIST_VALUES = 4096
"""Bytes lists of more values are left to protobuf: a step of Python each is too much."""

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_KEY_TAG = 1 << 3 | _LENGTH


class _NotMappedError(Exception):
    """These bytes aren't of the usual form."""


@dataclass(frozen=True, slots=True)
class FeaturePlace:
    """One feature of one Example.

    Attributes
    ----------
    key
        The map key.
    kind
        The list it holds; None for a feature that holds none.
    spans
        (start, stop) of each bytes value; of the packed values of other kinds, none for an empty list.
    """

    key: str
    kind: Kind | None
    spans: tuple[tuple[int, int], ...]


def map_example(payload: ByteSource) -> tuple[FeaturePlace, ...] | None:
    """The features of the Example ``payload`` in its own order; None if it isn't of the usual form.

    >>> map_example(bytes.fromhex("0a 0f 0a 0d 0a 01 62 12 08 12 06 0a 04 00 00 80 3f"))
    (FeaturePlace(key='b', kind=<Kind.FLOAT: 'float'>, spans=((13, 17),)),)
    """
    if not len(payload):
        # An Example without features, as protobuf writes it.
        return ()
    try:
        start = _only_field(payload, 0, len(payload), 1)
        places = []
        while start < len(payload):
            start, stop = _field(payload, start, len(payload), 1)
            places.append(_map_entry(payload, start, stop))
            start = stop
    except (_NotMappedError, UnicodeDecodeError):
        return None
    if len({place.key for place in places}) < len(places):
        return None
    return tuple(places)


def _map_entry(data: ByteSource, start: int, stop: int) -> FeaturePlace:
    """The feature of one map entry: its key and its value once each, in either order."""
    number = 1 if start < stop and data[start] == _KEY_TAG else 2
    first, first_stop = _field(data, start, stop, number)
    second = _only_field(data, first_stop, stop, 3 - number)
    if number == 1:
        return _map_feature(str(data[first:first_stop], "utf-8"), data, second, stop)
    return _map_feature(str(data[second:stop], "utf-8"), data, first, first_stop)


def _map_feature(key: str, data: ByteSource, start: int, stop: int) -> FeaturePlace:
    if start == stop:
        return FeaturePlace(key, None, ())
    kind = Kind.of_number(data[start] >> 3)
    if kind is None:
        raise _NotMappedError
    start = _only_field(data, start, stop, data[start] >> 3)
    if start == stop:
        return FeaturePlace(key, kind, ())
    if kind is Kind.BYTES:
        spans = []
        while start < stop:
            span = _field(data, start, stop, 1)
            spans.append(span)
            start = span[1]
            if len(spans) > MAX_LIST_VALUES:
                raise _NotMappedError
        return FeaturePlace(key, kind, tuple(spans))
    start = _only_field(data, start, stop, 1)
    # An empty chunk is legal and hardly written; a float that is cut is not, and protobuf says so.
    is_float_cut = kind is Kind.FLOAT and (stop - start) % 4
    if start == stop or is_float_cut or (kind is Kind.INT64 and data[stop - 1] > 0x7F):
        raise _NotMappedError
    return FeaturePlace(key, kind, ((start, stop),))


def _only_field(data: ByteSource, start: int, stop: int, number: int) -> int:
    """Where the content starts of the one field ``number`` that fills ``start`` to ``stop``."""
    begin, end = _field(data, start, stop, number)
    if end != stop:
        raise _NotMappedError
    return begin


def _field(data: ByteSource, start: int, stop: int, number: int) -> tuple[int, int]:
    """(start, stop) of the content of the length-delimited field ``number`` at ``start``."""
    if start >= stop or data[start] != number << 3 | _LENGTH:
        raise _NotMappedError
    length, begin = _varint(data, start + 1, stop)
    if begin + length > stop:
        raise _NotMappedError
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
    raise _NotMappedError


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

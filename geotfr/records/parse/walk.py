"""Where the values of one record lie in its bytes, if the bytes are laid out the common way.

Protobuf lets a writer do much: several chunks per list, any order, repeated keys, unknown fields. Writers of
training data do none of it. :func:`walk` follows the common way and returns None at the first byte that
leaves it; such a record goes to protobuf. So the walk never has to decide what an odd record means.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from geotfr.records.kind import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Place", "Section", "Walked", "walk"]

Section = str
"""``features``, ``context`` or ``feature_lists``."""

_MAX_VARINT_BYTES = 5
# A place costs some 200 bytes of memory, so a record of nothing but empty values would grow a hundred times.
_MAX_VALUES = 10_000


class _UncommonError(Exception):
    """The bytes leave the common way."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one feature's values lie.

    Attributes
    ----------
    kind
        The feature's list; None for a feature without a kind.
    spans
        (start, stop) in the record: one per value of a bytes list, else at most one, with the packed values.
    """

    kind: Kind | None
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Walked:
    """Where everything lies in one record.

    Attributes
    ----------
    places
        (section, key) -> the features there: one, or one per step of a feature list.
    heads
        (start, bytes): everything between the values. Records with equal heads have equal places.
    size
        Bytes of the record.
    """

    places: dict[tuple[Section, str], tuple[Place, ...]]
    heads: tuple[tuple[int, bytes], ...]
    size: int

    def fits(self, record: memoryview) -> bool:
        """Whether ``record`` has these places too."""
        return len(record) == self.size and all(record[start : start + len(head)] == head for start, head in self.heads)


def walk(record: memoryview, *, is_sequence: bool) -> Walked | None:
    """Where the values lie, or None where the record is not laid out the common way.

    >>> record = bytes.fromhex("0a 12 0a 10 0a 04 6e 64 76 69 12 08 12 06 0a 04 00 00 00 3f")
    >>> walk(memoryview(record), is_sequence=False).places
    {('features', 'ndvi'): (Place(kind=<Kind.FLOAT: 'float'>, spans=((16, 20),)),)}
    """
    places: dict[tuple[Section, str], tuple[Place, ...]] = {}
    sections = {1: "context", 2: "feature_lists"} if is_sequence else {1: "features"}
    try:
        for number, start, stop in _fields(record, 0, len(record)):
            section = sections.pop(number, None)
            if section is None:
                return None
            for key, value_start, value_stop in _entries(record, start, stop):
                if (section, key) in places:
                    return None
                if section == "feature_lists":
                    places[section, key] = tuple(islice(_steps(record, value_start, value_stop), _MAX_VALUES))
                else:
                    places[section, key] = (_feature(record, value_start, value_stop),)
                if len(places) == _MAX_VALUES or len(places[section, key]) == _MAX_VALUES:
                    return None
    except (_UncommonError, IndexError, UnicodeDecodeError):
        return None
    return Walked(places, _heads(record, places), len(record))


def _fields(record: memoryview, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """(field number, start, stop) of each length-delimited field in ``record[start:stop]``."""
    while start < stop:
        tag = record[start]
        if tag & 0x87 != 2:
            raise _UncommonError
        start += 1
        length = shift = 0
        for _ in range(_MAX_VARINT_BYTES):
            byte = record[start]
            start += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        else:
            raise _UncommonError
        if start + length > stop:
            raise _UncommonError
        yield tag >> 3, start, start + length
        start += length


def _entries(record: memoryview, start: int, stop: int) -> Iterator[tuple[str, int, int]]:
    """(key, start, stop of the value) of each map entry."""
    for number, entry_start, entry_stop in _fields(record, start, stop):
        parts = list(_fields(record, entry_start, entry_stop))
        if number != 1 or [part[0] for part in parts] != [1, 2]:
            raise _UncommonError
        (_, key_start, key_stop), (_, value_start, value_stop) = parts
        yield str(record[key_start:key_stop], "utf-8"), value_start, value_stop


def _steps(record: memoryview, start: int, stop: int) -> Iterator[Place]:
    for number, feature_start, feature_stop in _fields(record, start, stop):
        if number != 1:
            raise _UncommonError
        yield _feature(record, feature_start, feature_stop)


def _feature(record: memoryview, start: int, stop: int) -> Place:
    lists = list(_fields(record, start, stop))
    if not lists:
        return Place(None, ())
    kind = Kind.of_number(lists[0][0])
    if len(lists) > 1 or kind is None:
        raise _UncommonError
    values = list(islice(_fields(record, lists[0][1], lists[0][2]), _MAX_VALUES + 1))
    if len(values) > _MAX_VALUES:
        raise _UncommonError
    spans = tuple((value_start, value_stop) for _, value_start, value_stop in values)
    if any(number != 1 for number, _, _ in values):
        raise _UncommonError
    if kind is not Kind.BYTES and (len(spans) > 1 or not all(_is_whole(record, kind, *span) for span in spans)):
        raise _UncommonError
    return Place(kind, spans)


def _is_whole(record: memoryview, kind: Kind, start: int, stop: int) -> bool:
    """Whether packed numbers end where their chunk ends."""
    if kind is Kind.FLOAT:
        return (stop - start) % 4 == 0
    return start == stop or record[stop - 1] < 0x80


def _heads(record: memoryview, places: dict[tuple[Section, str], tuple[Place, ...]]) -> tuple[tuple[int, bytes], ...]:
    spans = sorted(span for features in places.values() for place in features for span in place.spans)
    heads = []
    position = 0
    for start, stop in [*spans, (len(record), len(record))]:
        if start > position:
            heads.append((position, bytes(record[position:start])))
        position = stop
    return tuple(heads)

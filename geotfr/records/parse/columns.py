"""One key over a whole batch, as flat arrays: what every spec is then made of.

A column is filled in one of two ways, with the same result: from a matrix of equal records
(:func:`from_matrix`), or record by record (:class:`Collector`), where a record is either walked or parsed by
protobuf. Both gather the packed bytes first and decode them once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.records.layout import Kind
from geotfr.records.parse.specs import array_of
from geotfr.records.parse.walk import Place
from geotfr.records.wire import decode_varints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geotfr.records.parse.batch import Batch
    from geotfr.records.parse.walk import Section

__all__ = ["Collector", "Column", "MalformedVarintError", "from_matrix"]

_ONEOF = {Kind.BYTES: "bytes_list", Kind.FLOAT: "float_list", Kind.INT64: "int64_list"}
# Field 1, length-delimited.
_PACKED_TAG = 0x0A
_KIND_OF = {name: kind for kind, name in _ONEOF.items()}


class MalformedVarintError(ValueError):
    """Packed integers that no writer makes; protobuf says of which record and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The values under one key.

    A row is a record, or for feature lists a step of one.

    Attributes
    ----------
    kind
        What the values are.
    values
        ``(total)`` float32, int64 or object: all rows, one after the other.
    counts
        ``(rows) int64``: values per row.
    present
        ``(rows) bool``: whether the row has the feature, with a kind.
    steps
        ``(records) int64``: rows per record; 1 outside feature lists.
    listed
        ``(records) bool``: whether the record has the feature list; outside feature lists the same as
        ``present``.
    """

    kind: Kind
    values: NDArray[Any]
    counts: NDArray[np.int64]
    present: NDArray[np.bool_]
    steps: NDArray[np.int64]
    listed: NDArray[np.bool_]


def _numbers(
    kind: Kind, packed: bytearray | NDArray[np.uint8], sizes: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Values and counts of rows whose packed bytes have ``sizes``."""
    if kind is Kind.FLOAT:
        return np.frombuffer(packed, "<f4").astype(np.float32, copy=False), sizes // 4
    data = np.frombuffer(packed, np.uint8)
    values = decode_varints(data)
    if values is None:
        raise MalformedVarintError
    ends = np.flatnonzero(data < 0x80) + 1
    stops = np.searchsorted(ends, np.cumsum(sizes), side="right")
    return values, np.diff(stops, prepend=0)


def from_matrix(records: bytes, count: int, found: Sequence[Place] | None, kind: Kind, *, is_list: bool) -> Column:
    """The column of ``count`` records of one layout, given the places in it; None: they lack the key."""
    size = len(records) // count
    places = found if found is not None else () if is_list else (Place(None, ()),)
    rows = len(places)
    sizes = np.array([sum(stop - start for start, stop in place.spans) for place in places], np.int64)
    if kind is Kind.BYTES:
        spans = [span for place in places for span in place.spans]
        offsets = range(0, len(records), size)
        values = array_of(kind, [records[at + start : at + stop] for at in offsets for start, stop in spans])
        counts = np.tile(np.array([len(place.spans) for place in places], np.int64), count)
    elif kind is Kind.FLOAT:
        gathered = np.empty((count, int(sizes.sum()) // 4), np.float32)
        position = 0
        for start, stop in (span for place in places for span in place.spans):
            width = (stop - start) // 4
            view = np.ndarray((count, width), "<f4", records, start, (size, 4))
            gathered[:, position : position + width] = view
            position += width
        values, counts = gathered.reshape(-1), np.tile(sizes // 4, count)
    else:
        matrix = np.frombuffer(records, np.uint8).reshape(count, size)
        parts = [matrix[:, start:stop] for place in places for start, stop in place.spans]
        packed = np.concatenate(parts, axis=1) if parts else matrix[:, :0]
        values, counts = _numbers(kind, np.ascontiguousarray(packed).reshape(-1), np.tile(sizes, count))
    present = np.tile(np.array([place.kind is not None for place in places], np.bool_), count)
    steps = np.full(count, rows, np.int64)
    listed = np.full(count, found is not None) if is_list else present
    return Column(kind=kind, values=values, counts=counts, present=present, steps=steps, listed=listed)


class Collector:
    """Fills the column of one key record by record."""

    def __init__(self, batch: Batch, section: Section, key: str, kind: Kind, *, cast: bool) -> None:
        self.kind = kind
        self.where = (section, key)
        self._batch = batch
        self._cast = cast
        self._is_list = section == "feature_lists"
        # Bytes: the values. Numbers: each row's packed bytes.
        self._pieces: list[bytes | memoryview] = []
        # Bytes: values per row. Numbers: packed bytes per row.
        self._sizes: list[int] = []
        self._present: list[bool] = []
        self._steps: list[int] = []
        self._listed: list[bool] = []

    def takes(self, places: Sequence[Place]) -> bool:
        """Whether walked features are of this kind, so that :meth:`add_places` may be called."""
        return all(place.kind is self.kind or place.kind is None for place in places)

    def add_places(self, record: memoryview, places: Sequence[Place] | None) -> None:
        """The next record, walked; None: it lacks the key."""
        if places is None:
            self._start(0 if self._is_list else 1, listed=False)
            if not self._is_list:
                self._add_row(False, 0)
            return
        self._start(len(places), listed=True)
        for place in places:
            if self.kind is Kind.BYTES:
                self._pieces += [bytes(record[start:stop]) for start, stop in place.spans]
                self._add_row(place.kind is not None, len(place.spans))
            else:
                self._pieces += [record[start:stop] for start, stop in place.spans]
                self._add_row(place.kind is not None, sum(stop - start for start, stop in place.spans))

    def add_message(self, number: int, message: Any) -> None:
        """The next record, as the protobuf message that holds the key's map."""
        _, key = self.where
        if not self._is_list:
            self._start(1, listed=False)
            self._add_feature(number, message.feature.get(key), None)
            return
        features = message.feature_list[key].feature if key in message.feature_list else ()
        self._start(len(features), listed=key in message.feature_list)
        for step, feature in enumerate(features):
            self._add_feature(number, feature, step)

    def column(self) -> Column:
        """The column, when all records are in."""
        sizes = np.array(self._sizes, np.int64)
        if self.kind is Kind.BYTES:
            values, counts = array_of(self.kind, self._pieces), sizes
        else:
            # A bytearray, for results that can be written to.
            values, counts = _numbers(self.kind, bytearray().join(self._pieces), sizes)
        present = np.array(self._present, np.bool_)
        listed = np.array(self._listed, np.bool_) if self._is_list else present
        steps = np.array(self._steps, np.int64)
        return Column(kind=self.kind, values=values, counts=counts, present=present, steps=steps, listed=listed)

    def _start(self, rows: int, *, listed: bool) -> None:
        self._steps.append(rows)
        self._listed.append(listed)

    def _add_row(self, present: bool, size: int) -> None:
        self._present.append(present)
        self._sizes.append(size)

    def _add_feature(self, number: int, feature: Any, step: int | None) -> None:
        found = None if feature is None else feature.WhichOneof("kind")
        if found is None:
            self._add_row(False, 0)
            return
        if _KIND_OF[found] is not self.kind:
            feature = self._converted(number, feature, _KIND_OF[found], step)
        values = getattr(feature, _ONEOF[self.kind])
        if self.kind is Kind.BYTES:
            self._pieces += values.value
            self._add_row(True, len(values.value))
        else:
            packed = _packed(values)
            self._pieces.append(packed)
            self._add_row(True, len(packed))

    def _converted(self, number: int, feature: Any, found: Kind, step: int | None) -> Any:
        """The feature with its numbers as the wanted kind, where ``cast`` allows it."""
        _, key = self.where
        what = f"{'feature list' if self._is_list else 'feature'} {key!r}" + (
            f", step {step}" if step is not None else ""
        )
        numeric = Kind.BYTES not in (found, self.kind)
        if not (numeric and self._cast):
            advice = f"ask for {found.value}" + (" or pass cast=True" if numeric else "")
            raise self._batch.error(number, f"{what} is {found.value}, asked for as {self.kind.value}; {advice}")
        values = list(getattr(feature, _ONEOF[found]).value)
        converted = type(feature)()
        if self.kind is Kind.FLOAT:
            converted.float_list.value.extend(values)
        elif all(value.is_integer() and abs(value) < 2.0**63 for value in values):
            converted.int64_list.value.extend([int(value) for value in values])
        else:
            raise self._batch.error(
                number, f"{what} is float with values that are no int64, so it isn't cast; ask for float"
            )
        return converted


def _packed(values: Any) -> memoryview:
    """The packed numbers of a FloatList or Int64List message: its own encoding without tag and length."""
    count = len(values.value)
    if count == 0:
        return memoryview(b"")
    for _ in range(2):
        encoded = values.SerializeToString()
        start = 1
        length = shift = 0
        while True:
            byte = encoded[start]
            start += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if encoded[0] == _PACKED_TAG and start + length == len(encoded):
            break
        # What follows are fields that geotfr doesn't know; without them the list is the one packed chunk.
        values.DiscardUnknownFields()
    return memoryview(encoded)[start:]

"""One key over a whole batch, as flat arrays: what every spec is then made of.

A column is filled in one of two ways, with the same result: from a matrix of records of one layout
(:func:`from_matrix`), or record by record (:class:`Collector`), where a record is either walked or parsed by protobuf.
:func:`merged` puts the columns of several layouts into the batch's order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from geotfr.records.kind import Kind
from geotfr.records.locate import FeaturePlace
from geotfr.records.parse.specs import array_dtype, array_of
from geotfr.records.varints import unpack_varints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geotfr.records.locate import Section
    from geotfr.records.parse.batch import Batch

    Piece: TypeAlias = bytes | memoryview
    Row: TypeAlias = tuple[bool, Sequence[Piece]]
    """Whether a feature is there with a kind, and its pieces."""

__all__ = ["Collector", "Column", "from_matrix", "merged"]

LARGE_PIECE_BYTES = 4096
"""From this mean size on, pieces are copied one by one."""


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


def from_matrix(
    matrix: NDArray[np.uint8], found: Sequence[FeaturePlace] | None, kind: Kind, *, is_list: bool
) -> Column | None:
    """The column of records of one layout, given the places in it.

    Parameters
    ----------
    matrix
        ``(records, size) uint8``, contiguous.
    found
        The features in each record; None: they lack the key.
    kind, is_list
        What the column is to hold.

    Returns
    -------
    Column or None
        None where integers are malformed.
    """
    count, size = matrix.shape
    places = found if found is not None else () if is_list else (FeaturePlace(None, ()),)
    spans = [span for place in places for span in place.spans]
    sizes = np.array([sum(stop - start for start, stop in place.spans) for place in places], np.int64)
    counts = np.tile(sizes // 4, count)
    if kind is Kind.BYTES:
        records = matrix.tobytes()
        offsets = [row * size for row in range(count)]
        values = array_of(kind, [records[at + start : at + stop] for at in offsets for start, stop in spans])
        counts = np.tile(np.array([len(place.spans) for place in places], np.int64), count)
    elif kind is Kind.FLOAT:
        gathered = np.empty((count, int(sizes.sum()) // 4), np.float32)
        position = 0
        for start, stop in spans:
            width = (stop - start) // 4
            view = np.ndarray((count, width), "<f4", matrix.data, start, (size, 4))
            gathered[:, position : position + width] = view
            position += width
        values = gathered.reshape(-1)
    else:
        parts = [matrix[:, start:stop] for start, stop in spans]
        packed = (np.concatenate(parts, axis=1) if parts else matrix[:, :0]).reshape(-1)
        decoded = unpack_varints(packed)
        if decoded is None:
            return None
        ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(packed < 0x80)))
        values, counts = decoded, np.diff(ends[np.cumsum(np.tile(sizes, count))], prepend=0)
    present = np.tile(np.array([place.kind is not None for place in places], np.bool_), count)
    steps = np.full(count, len(places), np.int64)
    listed = np.full(count, found is not None) if is_list else present
    return Column(kind=kind, values=values, counts=counts, present=present, steps=steps, listed=listed)


def merged(columns: Sequence[Column], back: NDArray[np.intp]) -> Column:
    """One column from those of parts of a batch.

    ``back`` ``(records)`` is where each record of the batch stands in the parts, one after the other.
    """
    steps = np.concatenate([column.steps for column in columns])
    counts = np.concatenate([column.counts for column in columns])
    rows = _spread((np.cumsum(steps) - steps)[back], steps[back])
    values = _spread((np.cumsum(counts) - counts)[rows], counts[rows])
    return Column(
        kind=columns[0].kind,
        values=np.concatenate([column.values for column in columns])[values],
        counts=counts[rows],
        present=np.concatenate([column.present for column in columns])[rows],
        steps=steps[back],
        listed=np.concatenate([column.listed for column in columns])[back],
    )


def _spread(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """start, start + 1, ... of each run, one run after the other."""
    offsets = np.cumsum(counts) - counts
    return np.repeat(starts - offsets, counts) + np.arange(int(counts.sum()), dtype=np.int64)


class Collector:
    """Fills the column of one key record by record."""

    def __init__(self, batch: Batch, section: Section, key: str, kind: Kind, *, cast: bool) -> None:
        self.kind = kind
        self.where = (section, key)
        self._batch = batch
        self._cast = cast
        self._is_list = section == "feature_lists"
        # Bytes: the values. Numbers: their bytes, in the column's dtype.
        self._pieces: list[Piece] = []
        # Bytes: values per row. Numbers: bytes per row.
        self._sizes: list[int] = []
        self._present: list[bool] = []
        self._steps: list[int] = []
        self._listed: list[bool] = []

    def prepared(self, record: memoryview, places: Sequence[FeaturePlace] | None) -> Sequence[Row] | None:
        """The rows of a walked record, for :meth:`add_rows`; None where only protobuf can tell what is wrong with it.

        ``places`` is None for a record that lacks the key.
        """
        if places is None:
            return () if self._is_list else ((False, ()),)
        if not all(place.kind in (self.kind, None) for place in places):
            return None
        rows: list[Row] = []
        for place in places:
            pieces: list[Piece] = [record[start:stop] for start, stop in place.spans]
            if self.kind is Kind.INT64 and pieces:
                values = unpack_varints(np.frombuffer(pieces[0], np.uint8))
                if values is None:
                    return None
                pieces = [values.data]
            rows.append((place.kind is not None, pieces))
        return rows

    def add_rows(self, rows: Sequence[Row], *, listed: bool) -> None:
        """The next record, walked."""
        self._start(len(rows), listed=listed)
        for present, pieces in rows:
            self._add_row(present, [bytes(piece) for piece in pieces] if self.kind is Kind.BYTES else pieces)

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
        dtype = array_dtype(self.kind)
        sizes = np.array(self._sizes, np.int64)
        if self.kind is Kind.BYTES:
            values, counts = array_of(self.kind, self._pieces), sizes
        else:
            values, counts = _joined(self._pieces).view(dtype), sizes // dtype.itemsize
        present = np.array(self._present, np.bool_)
        listed = np.array(self._listed, np.bool_) if self._is_list else present
        steps = np.array(self._steps, np.int64)
        return Column(kind=self.kind, values=values, counts=counts, present=present, steps=steps, listed=listed)

    def _start(self, rows: int, *, listed: bool) -> None:
        self._steps.append(rows)
        self._listed.append(listed)

    def _add_row(self, present: bool, pieces: Sequence[Piece]) -> None:
        self._present.append(present)
        self._pieces += pieces
        is_bytes = self.kind is Kind.BYTES
        self._sizes.append(len(pieces) if is_bytes else sum(memoryview(piece).nbytes for piece in pieces))

    def _add_feature(self, number: int, feature: Any, step: int | None) -> None:
        found = None if feature is None else Kind.of_message(feature)
        if found is None:
            self._add_row(False, ())
            return
        if found is not self.kind:
            feature = self._converted(number, feature, found, step)
        values = getattr(feature, self.kind.oneof)
        if self.kind is Kind.BYTES:
            self._add_row(True, values.value)
        elif self.kind is Kind.INT64:
            self._add_row(True, (np.array(values.value, np.int64).data,))
        else:
            self._add_row(True, (_packed_floats(values),))

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
        values = list(getattr(feature, found.oneof).value)
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


def _packed_floats(values: Any) -> memoryview:
    """The packed values of a FloatList message: the end of its own encoding, so that no bit changes on the way."""
    size = 4 * len(values.value)
    encoded = values.SerializeToString()
    tag_and_length = 1 + (size.bit_length() + 6) // 7
    if len(encoded) != tag_and_length + size:
        # Not the one packed chunk alone: there are fields that geotfr doesn't know, or no values.
        values.DiscardUnknownFields()
        encoded = values.SerializeToString()
    return memoryview(encoded)[len(encoded) - size :]


def _joined(pieces: Sequence[Piece]) -> NDArray[np.uint8]:
    """The bytes of all pieces, in an array that can be written to."""
    total = sum(memoryview(piece).nbytes for piece in pieces)
    if total < LARGE_PIECE_BYTES * len(pieces):
        return np.frombuffer(bytearray().join(pieces), np.uint8)
    # numpy asks for huge pages, which halves the time of large copies.
    out = np.empty(total, np.uint8)
    position = 0
    for piece in pieces:
        source = np.frombuffer(piece, np.uint8)
        out[position : position + len(source)] = source
        position += len(source)
    return out

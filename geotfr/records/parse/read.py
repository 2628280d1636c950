"""From serialized records to columns, by the fastest way that their layout allows.

Records of one writer are alike. Small ones are sorted by size and layout; those of one layout are joined into a matrix,
and a key is a few of its columns. Large ones are walked, so that their values are copied once. What fits neither is
parsed by protobuf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from geotfr.records.locate import locate
from geotfr.records.parse.columns import Collector, Column, from_matrix, merged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from geotfr.records.kind import Kind
    from geotfr.records.locate import FeaturePlace, RecordMap, Section
    from geotfr.records.parse.batch import Batch

    Wanted = Mapping[tuple[Section, str], Kind]
    Columns = dict[tuple[Section, str], Column]

__all__ = ["read_columns"]

WALK_FROM_BYTES = 8192
"""From this size of a record on, walking it in Python costs less than protobuf's copies of its values."""

WORTH_A_MATRIX = 16
"""Records of one layout from which on learning the layout pays."""

MAX_LAYOUTS = 8
"""Layouts tried per size of record; the rest goes record by record."""


def read_columns(batch: Batch, wanted: Wanted, *, cast: bool = False) -> Columns:
    """The wanted columns of all records in the batch.

    Raises
    ------
    RecordError
        A record that is no such message, or a feature of another kind than wanted.
    """
    sizes = np.fromiter(map(len, batch.records), np.int64, len(batch.records))
    parts: list[tuple[NDArray[np.intp], Columns]] = []
    left = np.ones(len(sizes), np.bool_)
    for members in _of_one_size(sizes):
        if sizes[members[0]] <= WALK_FROM_BYTES and len(members) >= WORTH_A_MATRIX:
            for taken, columns in _by_layout(batch, members, wanted):
                parts.append((taken, columns))
                left[taken] = False
    rest = np.flatnonzero(left)
    if rest.size or not parts:
        parts.append((rest, _by_record(batch, rest.tolist(), wanted, cast=cast)))
    if len(parts) == 1:
        return parts[0][1]
    back = np.argsort(np.concatenate([taken for taken, _ in parts]))
    return {where: merged([columns[where] for _, columns in parts], back) for where in wanted}


def _of_one_size(sizes: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """The numbers of the records of each size."""
    if not sizes.size:
        return []
    order = np.argsort(sizes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(sizes[order])) + 1)


def _by_layout(batch: Batch, numbers: NDArray[np.intp], wanted: Wanted) -> Iterator[tuple[NDArray[np.intp], Columns]]:
    """The columns of records of one size, one part for each layout among them; odd records are left out."""
    is_all = len(numbers) == len(batch.records)
    joined = b"".join(batch.records if is_all else [batch.records[number] for number in numbers.tolist()])
    matrix = np.frombuffer(joined, np.uint8).reshape(len(numbers), -1)
    for _ in range(MAX_LAYOUTS):
        if len(numbers) < WORTH_A_MATRIX:
            return
        found = locate(memoryview(matrix[0]), is_sequence=batch.is_sequence)
        fits = np.zeros(len(numbers), np.bool_) if found is None else found.matches(matrix)
        if found is not None and _agrees(found, wanted):
            alike = matrix if fits.all() else matrix[fits]
            columns = {
                where: from_matrix(alike, found.places.get(where), kind, is_list=where[0] == "feature_lists")
                for where, kind in wanted.items()
            }
            whole = {where: column for where, column in columns.items() if column is not None}
            if len(whole) == len(wanted):
                yield numbers[fits], whole
        # At least the first record goes, so that an odd one doesn't stand in the others' way.
        fits[0] = True
        numbers, matrix = numbers[~fits], matrix[~fits]


def _agrees(found: RecordMap, wanted: Wanted) -> bool:
    """Whether the features are of the kinds that are wanted."""
    return all(place.kind in (kind, None) for where, kind in wanted.items() for place in found.places.get(where, ()))


def _by_record(batch: Batch, numbers: Sequence[int], wanted: Wanted, *, cast: bool) -> Columns:
    collectors = [Collector(batch, *where, kind, cast=cast) for where, kind in wanted.items()]
    known: list[RecordMap] = []
    for number in numbers:
        view = memoryview(batch.records[number])
        if len(view) > WALK_FROM_BYTES:
            row = np.frombuffer(view, np.uint8)[np.newaxis]
            layout = next((each for each in known if each.size == len(view) and each.matches(row)[0]), None)
            if layout is None and (layout := locate(view, is_sequence=batch.is_sequence)) is not None:
                known = [layout, *known[: MAX_LAYOUTS - 1]]
            if layout is not None and _add_located(collectors, view, layout):
                continue
        message = batch.message(number)
        for collector in collectors:
            section, _ = collector.where
            collector.add_message(number, getattr(message, section))
    return {collector.where: collector.column() for collector in collectors}


def _add_located(collectors: list[Collector], record: memoryview, layout: RecordMap) -> bool:
    """Add a located record to all columns; False, with nothing added, where protobuf has to judge it."""
    found: list[tuple[FeaturePlace, ...] | None] = [layout.places.get(each.where) for each in collectors]
    rows = [each.prepared(record, places) for each, places in zip(collectors, found, strict=True)]
    if any(each is None for each in rows):
        return False
    for collector, places, prepared in zip(collectors, found, rows, strict=True):
        collector.add_rows(prepared or (), listed=places is not None)
    return True

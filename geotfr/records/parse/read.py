"""From serialized records to columns, by the fastest way that their layout allows.

Records of one export are alike. Small ones that share one layout are joined into a matrix, and a key is a few
of its columns. Large ones are walked, so that their values are copied once. All others are parsed by
protobuf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from geotfr.records.parse.columns import Collector, Column, MalformedVarintError, from_matrix
from geotfr.records.parse.walk import Place, Section, Walked, walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geotfr.records.layout import Kind
    from geotfr.records.parse.batch import Batch

    Wanted = Mapping[tuple[Section, str], Kind]

__all__ = ["read_columns"]

WALK_FROM_BYTES = 8192
"""From this size of a record on, walking it in Python costs less than protobuf's copies of its values."""


def read_columns(batch: Batch, wanted: Wanted, *, cast: bool = False) -> dict[tuple[Section, str], Column]:
    """The wanted columns of all records in the batch.

    Raises
    ------
    RecordError
        A record that is no such message, or a feature of another kind than wanted.
    """
    try:
        columns = _by_matrix(batch, wanted)
        return _by_record(batch, wanted, cast=cast, walking=True) if columns is None else columns
    except MalformedVarintError:
        return _by_record(batch, wanted, cast=cast, walking=False)


def _by_matrix(batch: Batch, wanted: Wanted) -> dict[tuple[Section, str], Column] | None:
    """The columns of small records that all have the first one's layout; None for any other batch."""
    records = batch.records
    count = len(records)
    if count < 2 or len(records[0]) > WALK_FROM_BYTES or any(len(record) != len(records[0]) for record in records):
        return None
    first = walk(memoryview(records[0]), is_sequence=batch.is_sequence)
    if first is None or not all(_agrees(first, where, kind) for where, kind in wanted.items()):
        return None
    joined = b"".join(records)
    matrix = np.frombuffer(joined, np.uint8).reshape(count, -1)
    for start, head in first.heads:
        if not (matrix[:, start : start + len(head)] == np.frombuffer(head, np.uint8)).all():
            return None
    return {
        where: from_matrix(joined, count, first.places.get(where), kind, is_list=where[0] == "feature_lists")
        for where, kind in wanted.items()
    }


def _agrees(walked: Walked, where: tuple[Section, str], kind: Kind) -> bool:
    return all(place.kind in (kind, None) for place in walked.places.get(where, ()))


def _by_record(batch: Batch, wanted: Wanted, *, cast: bool, walking: bool) -> dict[tuple[Section, str], Column]:
    collectors = [Collector(batch, *where, kind, cast=cast) for where, kind in wanted.items()]
    walked: Walked | None = None
    for number, record in enumerate(batch.records):
        view = memoryview(record)
        if walking and len(view) > WALK_FROM_BYTES:
            if walked is None or not walked.fits(view):
                walked = walk(view, is_sequence=batch.is_sequence)
            if walked is not None and _add_walked(collectors, view, walked):
                continue
        message = batch.message(number)
        for collector in collectors:
            section, _ = collector.where
            collector.add_message(number, getattr(message, section))
    return {collector.where: collector.column() for collector in collectors}


def _add_walked(collectors: list[Collector], record: memoryview, walked: Walked) -> bool:
    """Add a walked record to all columns; False, with nothing added, where a kind is not the wanted one."""
    found: list[tuple[Place, ...] | None] = [walked.places.get(each.where) for each in collectors]
    if not all(places is None or each.takes(places) for each, places in zip(collectors, found, strict=True)):
        return False
    for collector, places in zip(collectors, found, strict=True):
        collector.add_places(record, places)
    return True

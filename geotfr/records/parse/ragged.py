"""Columns as ragged values: values cut into rows, rows into further rows.

Every kind of partition is one thing told in different ways: the lengths of each record's rows. So each is
turned into row lengths and checked against what it cuts; then the levels are stacked from the innermost to
the outermost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.records.parse.specs import RaggedFeature
from geotfr.records.parse.values import RaggedValue
from geotfr.records.runs import splits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from geotfr.records.parse.batch import Batch
    from geotfr.records.parse.columns import Column
    from geotfr.records.parse.specs import KeyedPartition

__all__ = ["ragged", "ragged_steps"]

Lengths = tuple["NDArray[np.int64]", "NDArray[np.int64]"]
"""Row lengths, one after the other, and the number of rows per record."""


def ragged(batch: Batch, key: str, columns: Mapping[str, Column], spec: RaggedFeature) -> RaggedValue:
    """The values of a :class:`RaggedFeature`; the outermost rows are the records."""
    return _nested(batch, key, columns, spec, lambda row: row)


def ragged_steps(batch: Batch, key: str, columns: Mapping[str, Column], spec: RaggedFeature) -> RaggedValue:
    """The same of a feature list: the outermost rows are the records, the next ones their steps."""
    steps = columns[_value_key(key, spec)].steps
    ends = np.cumsum(steps)

    def record_of(row: int) -> int:
        return int(np.searchsorted(ends, row, side="right"))

    for partition in spec.partitions:
        if isinstance(partition, RaggedFeature.UniformRowLength):
            continue
        wrong = np.flatnonzero(columns[partition.key].steps != steps)
        if wrong.size:
            number = int(wrong[0])
            raise batch.error(
                number,
                f"RaggedFeature {key!r} has {steps[number]} steps of values and "
                f"{columns[partition.key].steps[number]} of {partition.key!r}; write both in every step",
            )
    inner = _nested(batch, key, columns, spec, record_of)
    return RaggedValue(inner, splits_of(steps, str(spec.row_splits_dtype)))


def _value_key(key: str, spec: RaggedFeature) -> str:
    return key if spec.value_key is None else spec.value_key


def _nested(
    batch: Batch,
    key: str,
    columns: Mapping[str, Column],
    spec: RaggedFeature,
    record_of: Callable[[int], int],
) -> RaggedValue:
    column = columns[_value_key(key, spec)]
    dtype = str(spec.row_splits_dtype)
    values: NDArray[Any] | RaggedValue = column.values
    # How many items of the level made last each record has.
    items = column.counts
    for partition in reversed(spec.partitions):
        if isinstance(partition, RaggedFeature.UniformRowLength):
            rows, rest = np.divmod(items, partition.length)
            broken = np.flatnonzero(rest)
            lengths = np.full(int(rows.sum()), partition.length, np.int64)
        else:
            lengths, rows, broken = _row_lengths(partition, columns[partition.key], items)
        if broken.size:
            raise batch.error(
                record_of(int(broken[0])),
                f"RaggedFeature {key!r}: {partition!r} doesn't cut its {items[broken[0]]} items into rows; "
                "write the record again, or read the features one by one with VarLenFeature",
            )
        if isinstance(values, np.ndarray) and isinstance(partition, RaggedFeature.UniformRowLength):
            values = values.reshape(len(lengths), partition.length, *values.shape[1:])
        else:
            values = RaggedValue(values, splits_of(lengths, dtype))
        items = rows
    return RaggedValue(values, splits_of(items, dtype))


def _row_lengths(
    partition: KeyedPartition, column: Column, items: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.intp]]:
    """Row lengths, rows per record, and the records whose rows don't cover their ``items`` exactly."""
    numbers, counts = column.values, column.counts
    if isinstance(partition, RaggedFeature.RowLengths):
        lengths, rows = numbers, counts
    elif isinstance(partition, RaggedFeature.ValueRowIds):
        return _from_row_ids(numbers, counts, items)
    elif isinstance(partition, RaggedFeature.RowSplits):
        # One split more than rows; a record without splits has no rows.
        firsts = (np.cumsum(counts) - counts)[counts > 0]
        starting_at_0 = np.ones(len(counts), np.bool_)
        starting_at_0[counts > 0] = numbers[firsts] == 0
        lengths, rows = np.delete(_differences(numbers), firsts), np.maximum(counts - 1, 0)
        return lengths, rows, np.flatnonzero(~(starting_at_0 & _covers(lengths, rows, items)))
    elif isinstance(partition, RaggedFeature.RowLimits):
        firsts = (np.cumsum(counts) - counts)[counts > 0]
        lengths, rows = _differences(numbers), counts
        lengths[firsts] = numbers[firsts]
    else:
        lasts = np.cumsum(counts)[counts > 0] - 1
        # Together the rows reach from the first start to the end, so covering the items asks for a first
        # start of 0.
        lengths, rows = np.diff(numbers, append=np.int64(0)), counts
        lengths[lasts] = items[counts > 0] - numbers[lasts]
    return lengths, rows, np.flatnonzero(~_covers(lengths, rows, items))


def _differences(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each number minus the one before; the first one as it is."""
    return np.diff(numbers, prepend=np.int64(0))


def _covers(lengths: NDArray[np.int64], rows: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Per record: no negative length, and the lengths add up to its items."""
    records = np.repeat(np.arange(len(rows)), rows)
    is_whole = np.bincount(records, lengths < 0, len(rows)) == 0
    # A length above the items can't be right either; bounded like this the sum can't overflow.
    is_whole &= np.bincount(records, lengths > items[records], len(rows)) == 0
    totals = np.bincount(records, np.clip(lengths, 0, items[records]), len(rows))
    return np.asarray(is_whole & (totals == items), np.bool_)


def _from_row_ids(
    ids: NDArray[np.int64], counts: NDArray[np.int64], items: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.intp]]:
    """Row lengths from the row number of each item: ascending, one per item."""
    records = np.repeat(np.arange(len(counts)), counts)
    is_whole = counts == items
    # More rows than items are allowed (empty rows), but not without bound: a single id of 2^60 would ask for
    # them all.
    bad = (ids < 0) | (ids > _MAX_EMPTY_ROWS + items[records])
    firsts = (np.cumsum(counts) - counts)[counts > 0]
    steps = _differences(ids)
    steps[firsts] = 0
    is_whole &= np.bincount(records, bad | (steps < 0), len(counts)) == 0
    broken = np.flatnonzero(~is_whole)
    rows = np.zeros(len(counts), np.int64)
    if broken.size:
        return np.zeros(0, np.int64), rows, broken
    lasts = np.cumsum(counts)[counts > 0] - 1
    rows[counts > 0] = ids[lasts] + 1
    row_of_item = ids + (np.cumsum(rows) - rows)[records]
    return np.bincount(row_of_item, minlength=int(rows.sum())).astype(np.int64), rows, broken


_MAX_EMPTY_ROWS = 1 << 20

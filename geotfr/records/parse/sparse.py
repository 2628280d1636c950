"""Columns as sparse values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from geotfr.records.parse.values import SparseValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from geotfr.records.parse.batch import Batch
    from geotfr.records.parse.columns import Column
    from geotfr.records.parse.specs import SparseFeature

__all__ = ["indexed", "variable", "variable_steps"]


def _positions(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, ... within each row."""
    starts = np.cumsum(counts) - counts
    return np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(starts, counts)


def variable(column: Column) -> SparseValue:
    """Indices [record, position]; dense shape [records, longest]."""
    counts = column.counts
    records = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    indices = np.stack([records, _positions(counts)], axis=1)
    return SparseValue(indices, column.values, (len(counts), int(counts.max(initial=0))))


def variable_steps(column: Column) -> SparseValue:
    """Indices [record, step, position]; dense shape [records, most steps, longest]."""
    counts, steps = column.counts, column.steps
    records = np.repeat(np.arange(len(steps), dtype=np.int64), steps)
    rows = np.stack([records, _positions(steps)], axis=1)
    indices = np.column_stack([np.repeat(rows, counts, axis=0), _positions(counts)])
    shape = (len(steps), int(steps.max(initial=0)), int(counts.max(initial=0)))
    return SparseValue(indices, column.values, shape)


def indexed(batch: Batch, key: str, columns: Mapping[str, Column], spec: SparseFeature) -> SparseValue:
    """The values of a :class:`SparseFeature`; dense shape [records, \\*size].

    Values with equal indices keep the record's order.
    """
    values = columns[spec.value_key]
    for index_key in spec.index_keys:
        wrong = np.flatnonzero(columns[index_key].counts != values.counts)
        if wrong.size:
            number = int(wrong[0])
            raise batch.error(
                number,
                f"SparseFeature {key!r} has {values.counts[number]} values in {spec.value_key!r} and "
                f"{columns[index_key].counts[number]} indices in {index_key!r}; write one index per value",
            )
    records = np.repeat(np.arange(len(values.counts), dtype=np.int64), values.counts)
    indices = np.column_stack([records, *(columns[index_key].values for index_key in spec.index_keys)])
    flat = values.values
    if not spec.already_sorted:
        # lexsort is stable and takes the most significant key last.
        order = np.lexsort(indices.T[::-1])
        indices, flat = indices[order], flat[order]
    return SparseValue(indices, flat, (len(values.counts), *spec.sizes))

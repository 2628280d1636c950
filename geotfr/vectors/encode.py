"""Columns of features as framed Examples.

Rows whose features take equal bytes share a layout, and a batch of them is a few strided copies. Tables of numbers
have one such layout, or a few where values are missing. Where text makes nearly every row another, the records are put
together run by run: see :mod:`geotfr.records.varying`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.records.kind import Kind
from geotfr.records.layout import ExampleLayout, FeatureLayout
from geotfr.records.runs import Runs, heads, join_runs, splits_of
from geotfr.records.varints import pack_varints
from geotfr.records.varying import ListColumn, example_records, value_head

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geotfr.vectors.columns import FeatureColumn

__all__ = ["encode_rows"]

ROWS_PER_LAYOUT = 24
"""Rows that a layout has to serve on average; with fewer, run by run is faster."""


def encode_rows(columns: Sequence[FeatureColumn], count: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """``count`` records with the features of ``columns``, in their order.

    Returns
    -------
    records, ends
        The framed records one after the other, ``(bytes,) uint8``, and where each ends, ``(count,) int64``.

    Examples
    --------
    >>> from geotfr.vectors.columns import FeatureColumn
    >>> ndvi = FeatureColumn(
    ...     name="ndvi", kind=Kind.FLOAT, values=np.array([0.5, 1], np.float32),
    ...     row_splits=np.arange(3), present=np.ones(2, np.bool_),
    ... )
    >>> records, ends = encode_rows([ndvi], 2)
    >>> records[12:32].tobytes().hex(" "), ends.tolist()
    ('0a 12 0a 10 0a 04 6e 64 76 69 12 08 12 06 0a 04 00 00 00 3f', [36, 72])
    """
    if not count:
        return np.empty(0, np.uint8), np.empty(0, np.int64)
    lists = [_packed(column) for column in columns]
    if columns and all(column.kind is Kind.FLOAT and column.width for column in columns):
        return _one_layout(lists, count)
    if all(map(_fits_layout, lists)):
        signatures = np.stack([np.where(_present(each), each.sizes, -1) for each in lists] or [np.zeros(count)], axis=1)
        if (signatures == signatures[0]).all():
            return _one_layout(lists, count)
        groups = _groups(signatures)
        if len(groups) * ROWS_PER_LAYOUT <= count:
            return _by_layout(lists, groups, count)
    return example_records(lists, count)


def _fits_layout(column: ListColumn) -> bool:
    """Whether a layout can hold it: it has no place for lists of no number or of several bytes values."""
    if column.holds_fields:
        return False
    return column.kind is Kind.BYTES or bool(((column.sizes > 0) | ~_present(column)).all())


def _present(column: ListColumn) -> NDArray[np.bool_]:
    assert column.present is not None
    return column.present


def _packed(column: FeatureColumn) -> ListColumn:
    holds_fields = False
    if column.kind is Kind.FLOAT:
        data = np.ascontiguousarray(column.values, "<f4").view(np.uint8)
        splits = _even_splits(len(column), column.width * 4) if column.width else column.row_splits * 4
    elif column.kind is Kind.INT64:
        data, widths = pack_varints(column.values.astype(np.int64, copy=False).reshape(-1, 1))
        splits = splits_of(widths)[column.row_splits]
    else:
        assert column.value_splits is not None
        data, bounds = np.ascontiguousarray(column.values, np.uint8), column.value_splits
        holds_fields = not np.array_equal(column.lengths(), column.present.astype(np.int64))
        if holds_fields:
            widths = np.diff(bounds)
            data, bounds = join_runs([heads(widths, value_head), Runs(data, bounds[:-1], widths)])
        splits = bounds[column.row_splits]
    return ListColumn(
        name=column.name,
        kind=column.kind,
        data=data,
        starts=splits[:-1],
        sizes=np.diff(splits),
        present=column.present,
        holds_fields=holds_fields,
        has_empty_chunk=False,
    )


@lru_cache(maxsize=4)
def _even_splits(count: int, size: int) -> NDArray[np.int64]:
    """Bounds of ``count`` runs of ``size`` bytes; read-only, columns and batches share them."""
    splits = np.arange(count + 1, dtype=np.int64) * size
    splits.flags.writeable = False
    return splits


# Batch after batch has the same one or few, and each comes with tables for its checksums.
@lru_cache(maxsize=256)
def _layout(features: tuple[FeatureLayout, ...]) -> ExampleLayout:
    return ExampleLayout(features)


def _groups(signatures: NDArray[Any]) -> list[NDArray[np.intp]]:
    """The numbers of the rows of each signature, ascending."""
    order = np.lexsort(signatures.T)
    is_new = (np.diff(signatures[order], axis=0) != 0).any(axis=1)
    return np.split(order, np.flatnonzero(is_new) + 1)


def _alike(lists: Sequence[ListColumn], rows: NDArray[np.intp] | None) -> NDArray[np.uint8]:
    """The records of ``rows`` (None: all), which have features of equal sizes, ``(n, record bytes) uint8``."""
    first = 0 if rows is None else int(rows[0])
    used = [each for each in lists if _present(each)[first]]
    sizes = [int(each.sizes[first]) for each in used]
    layout = _layout(
        tuple(
            FeatureLayout(name=each.name, kind=each.kind, length=size // 4 if each.kind is Kind.FLOAT else size)
            for each, size in zip(used, sizes, strict=True)
        )
    )
    records = layout.allocate(len(lists[0].sizes) if rows is None else len(rows))
    for number, (each, size) in enumerate(zip(used, sizes, strict=True)):
        target = layout.values(records, number)
        if rows is None:
            begin = int(each.starts[0])
            found = each.data[begin : begin + len(records) * size].reshape(len(records), size)
        else:
            found = each.data[each.starts[rows][:, None] + np.arange(size)]
        target[:] = found.view("<f4") if each.kind is Kind.FLOAT else found
    layout.seal(records)
    return records


def _one_layout(lists: Sequence[ListColumn], count: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    records = _alike(lists, None)
    return records.reshape(-1), np.arange(1, count + 1, dtype=np.int64) * records.shape[1]


def _by_layout(
    lists: Sequence[ListColumn], groups: Sequence[NDArray[np.intp]], count: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    made = [_alike(lists, rows) for rows in groups]
    sizes = np.empty(count, np.int64)
    for rows, records in zip(groups, made, strict=True):
        sizes[rows] = records.shape[1]
    splits = splits_of(sizes)
    out = np.empty(splits[-1], np.uint8)
    for rows, records in zip(groups, made, strict=True):
        out[splits[rows][:, None] + np.arange(records.shape[1])] = records
    return out, splits[1:]

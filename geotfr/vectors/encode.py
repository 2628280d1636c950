"""Columns of features as framed Examples.

Rows whose features take equal bytes share a layout, and a batch of them is a few strided copies. Tables of numbers
have one such layout, or a few where values are missing. Where text makes nearly every row another, the records are put
together run by run: what stands in front of each value depends on its size alone, so it is made once a size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.records.crc import crc32c, mask_all
from geotfr.records.kind import Kind
from geotfr.records.layout import FOOTER_BYTES, HEADER_BYTES, ExampleLayout, FeatureLayout, frame_header
from geotfr.records.varints import pack_varints, varint
from geotfr.vectors.columns import splits_of
from geotfr.vectors.runs import Runs, heads, join_runs

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
    if lists and all(each.is_even for each in lists):
        records = _alike(lists, None)
        return records.reshape(-1), np.arange(1, count + 1, dtype=np.int64) * records.shape[1]
    if all(each.is_even_layout for each in lists):
        signatures = np.stack([np.where(each.present, each.sizes, -1) for each in lists] or [np.zeros(count)], axis=1)
        if (signatures == signatures[0]).all():
            records = _alike(lists, None)
            return records.reshape(-1), np.arange(1, count + 1, dtype=np.int64) * records.shape[1]
        groups = _groups(signatures)
        if len(groups) * ROWS_PER_LAYOUT <= count:
            return _by_layout(lists, groups, count)
    return _run_by_run(lists, count)


@dataclass(frozen=True, slots=True)
class _Packed:
    """The bytes of one feature's values in all rows.

    ``splits`` bound the rows' bytes in ``data``, ``sizes`` count them. ``holds_fields``: they are whole fields, tags
    and sizes included, and not one value or packed chunk. ``is_even``: all rows are known to have as many bytes.
    """

    key: str
    kind: Kind
    data: NDArray[np.uint8]
    splits: NDArray[np.int64]
    sizes: NDArray[np.int64]
    present: NDArray[np.bool_]
    holds_fields: bool
    is_even: bool = False

    @property
    def is_even_layout(self) -> bool:
        """Whether a layout can hold it: it has no place for lists of no number or of several bytes values."""
        if self.holds_fields:
            return False
        return self.kind is Kind.BYTES or bool(((self.sizes > 0) | ~self.present).all())

    def entry_head(self, size: int) -> bytes:
        """What stands in front of ``size`` bytes of values in a record; nothing for -1, which is an absent feature."""
        if size < 0:
            return b""
        # A list without values has no field at all; a bytes value may be empty.
        has_field = not self.holds_fields and (size > 0 or self.kind is Kind.BYTES)
        inner = _value_head(size) if has_field else b""
        feature = self.kind.tag + varint(len(inner) + size) + inner
        name = self.key.encode()
        entry = b"\x0a" + varint(len(name)) + name + b"\x12" + varint(len(feature) + size) + feature
        return b"\x0a" + varint(len(entry) + size) + entry


def _packed(column: FeatureColumn) -> _Packed:
    holds_fields = False
    if column.kind is Kind.FLOAT and column.width:
        data = np.ascontiguousarray(column.values, "<f4").view(np.uint8)
        splits, sizes = _even_splits(len(column), column.width * 4)
        return _Packed(column.name, column.kind, data, splits, sizes, column.present, holds_fields, is_even=True)
    if column.kind is Kind.FLOAT:
        data, splits = np.ascontiguousarray(column.values, "<f4").view(np.uint8), column.row_splits * 4
    elif column.kind is Kind.INT64:
        data, widths = pack_varints(column.values.astype(np.int64, copy=False).reshape(-1, 1))
        splits = splits_of(widths)[column.row_splits]
    else:
        assert column.value_splits is not None
        data, bounds = np.ascontiguousarray(column.values, np.uint8), column.value_splits
        holds_fields = not np.array_equal(column.lengths(), column.present.astype(np.int64))
        if holds_fields:
            widths = np.diff(bounds)
            data, bounds = join_runs([heads(widths, _value_head), Runs(data, bounds[:-1], widths)])
        splits = bounds[column.row_splits]
    return _Packed(column.name, column.kind, data, splits, np.diff(splits), column.present, holds_fields)


@lru_cache(maxsize=4)
def _even_splits(count: int, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Bounds and sizes of ``count`` runs of ``size`` bytes; read-only, columns and batches share them."""
    splits, sizes = np.arange(count + 1, dtype=np.int64) * size, np.full(count, size, np.int64)
    splits.flags.writeable = sizes.flags.writeable = False
    return splits, sizes


# Batch after batch has the same one or few, and each comes with tables for its checksums.
@lru_cache(maxsize=256)
def _layout(features: tuple[FeatureLayout, ...]) -> ExampleLayout:
    return ExampleLayout(features)


def _groups(signatures: NDArray[Any]) -> list[NDArray[np.intp]]:
    """The numbers of the rows of each signature, ascending."""
    order = np.lexsort(signatures.T)
    is_new = (np.diff(signatures[order], axis=0) != 0).any(axis=1)
    return np.split(order, np.flatnonzero(is_new) + 1)


def _alike(lists: Sequence[_Packed], rows: NDArray[np.intp] | None) -> NDArray[np.uint8]:
    """The records of ``rows`` (None: all), which have features of equal sizes, ``(n, record bytes) uint8``."""
    first = 0 if rows is None else int(rows[0])
    used = [each for each in lists if each.present[first]]
    sizes = [int(each.splits[first + 1] - each.splits[first]) for each in used]
    layout = _layout(
        tuple(
            FeatureLayout(name=each.key, kind=each.kind, length=size // 4 if each.kind is Kind.FLOAT else size)
            for each, size in zip(used, sizes, strict=True)
        )
    )
    records = layout.allocate(len(lists[0].present) if rows is None else len(rows))
    for number, (each, size) in enumerate(zip(used, sizes, strict=True)):
        target = layout.values(records, number)
        if rows is None:
            found = each.data[each.splits[0] : each.splits[-1]].reshape(len(records), size)
        else:
            found = each.data[each.splits[rows][:, None] + np.arange(size)]
        target[:] = found.view("<f4") if each.kind is Kind.FLOAT else found
    layout.seal(records)
    return records


def _by_layout(
    lists: Sequence[_Packed], groups: Sequence[NDArray[np.intp]], count: int
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


def _run_by_run(lists: Sequence[_Packed], count: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    parts: list[Runs] = []
    payload = np.zeros(count, np.int64)
    for each in lists:
        # An absent feature has no bytes at all, not even a head.
        head = heads(np.where(each.present, each.sizes, -1), each.entry_head)
        parts += [head, Runs(each.data, each.splits[:-1], each.sizes)]
        payload += head.sizes + each.sizes
    out, splits = join_runs([heads(payload, _record_head), *parts], spare=FOOTER_BYTES)
    starts, stops = (splits[:-1] + HEADER_BYTES).tolist(), (splits[1:] - FOOTER_BYTES).tolist()
    sums = np.fromiter(
        (crc32c(out[start:stop]) for start, stop in zip(starts, stops, strict=True)), np.uint32, count=count
    )
    places = splits[1:, None] - FOOTER_BYTES + np.arange(FOOTER_BYTES)
    out[places] = mask_all(sums).astype("<u4", copy=False).view(np.uint8).reshape(-1, FOOTER_BYTES)
    return out, splits[1:]


def _record_head(size: int) -> bytes:
    """What stands in front of map entries of ``size`` bytes in all."""
    features = b"\x0a" + varint(size)
    return frame_header(len(features) + size) + features


def _value_head(size: int) -> bytes:
    """What stands in front of a value or packed chunk of ``size`` bytes."""
    return b"\x0a" + varint(size)

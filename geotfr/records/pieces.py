"""Records of differing lengths, put together from pieces without a loop over their values.

Where lists are varints, every record has its own lengths, and every length prefix with them. A record is then a
sequence of pieces, each taken from a pool of bytes: heads that depend on a size alone (there are few sizes), and the
values. Where each piece goes is arithmetic for all records at once; small pieces are gathered in one step, large ones
are copied one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import google_crc32c
import numpy as np

from geotfr.records.crc import mask_all
from geotfr.records.layout import FOOTER_BYTES, entry_head, frame_header, list_head, step_head, values_head
from geotfr.records.varints import varint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from geotfr.records.kind import Kind

__all__ = ["ListColumn", "example_records", "sequence_records"]

# From this many bytes a piece on average, copying each is faster than one gather of all bytes.
_LARGE_PIECE_BYTES = 512


class ListColumn:
    """One list of every record: ``values`` ``(n, length)`` float32 or uint8, or packed varints of ``sizes`` bytes.

    Attributes
    ----------
    data
        The bytes of all records' lists, one behind the other.
    sizes
        ``(n,) int64``: bytes of each.
    is_many
        Whether a bytes list has several values, or none: then each stands in ``data`` with its tag and length.
    """

    def __init__(
        self,
        name: str,
        kind: Kind,
        values: NDArray[Any],
        sizes: NDArray[np.int64] | None = None,
        *,
        is_many: bool = False,
    ) -> None:
        self.name = name
        self.kind = kind
        self.is_many = is_many
        if sizes is None:
            count, length = values.shape
            sizes = np.full(count, length * values.dtype.itemsize, np.int64)
            values = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).reshape(-1).view(np.uint8)
        self.data: NDArray[np.uint8] = values
        self.sizes = sizes


class _Pieces:
    """The pieces of some records, in order; each is a stretch of a pool for every record."""

    def __init__(self) -> None:
        self._pool: list[NDArray[np.uint8]] = []
        self._pool_bytes = 0
        self.starts: list[NDArray[np.int64]] = []
        self.sizes: list[NDArray[np.int64]] = []

    def add(self, data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
        """A piece of each record: ``sizes`` bytes of ``data`` from ``starts`` on."""
        self.starts.append(starts + self._pool_bytes)
        self.sizes.append(sizes)
        self._pool.append(data)
        self._pool_bytes += len(data)

    def add_heads(self, keys: NDArray[np.int64], head: Callable[[int], bytes]) -> None:
        """A piece that is ``head(key)``, for each record its key."""
        heads, which = _distinct(keys, head)
        ends = np.cumsum([len(each) for each in heads])
        sizes = np.array([len(each) for each in heads], np.int64)
        self.add(np.frombuffer(b"".join(heads), np.uint8), (ends - sizes)[which], sizes[which])

    def joined(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The bytes of all records, and where each ends."""
        pool = np.concatenate(self._pool)
        starts = np.stack(self.starts, axis=1)
        sizes = np.stack(self.sizes, axis=1)
        ends = np.cumsum(sizes.sum(axis=1))
        flat_starts, flat_sizes = starts.reshape(-1), sizes.reshape(-1)
        targets = np.cumsum(flat_sizes) - flat_sizes
        total = int(ends[-1])
        if total >= _LARGE_PIECE_BYTES * len(flat_sizes):
            data = np.empty(total, np.uint8)
            for start, size, target in zip(flat_starts.tolist(), flat_sizes.tolist(), targets.tolist(), strict=True):
                data[target : target + size] = pool[start : start + size]
            return data, ends
        place = np.arange(total)
        place += np.repeat(flat_starts - targets, flat_sizes)
        return pool.take(place), ends


def example_records(columns: Sequence[ListColumn]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Framed Examples of ``columns``, in this order: their bytes, and where each record ends."""
    size = np.zeros(len(columns[0].sizes), np.int64)
    for column in columns:
        size += column.sizes + _head_sizes(column.sizes, _entry_head_of(column))
    records = _Pieces()
    payload = size + _head_sizes(size, _message_head)
    records.add_heads(payload, frame_header)
    records.add_heads(size, _message_head)
    for column in columns:
        _add_column(records, column, _entry_head_of(column))
    return _sealed(records, payload)


def sequence_records(
    context: Sequence[ListColumn], lists: Sequence[Sequence[ListColumn]]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Framed SequenceExamples: a context, and lists of steps; their bytes, and where each record ends."""
    count = len((context[0] if context else lists[0][0]).sizes)
    context_size = np.zeros(count, np.int64)
    for column in context:
        context_size += column.sizes + _head_sizes(column.sizes, _entry_head_of(column))
    list_sizes = []
    lists_size = np.zeros(count, np.int64)
    for steps in lists:
        list_size = np.zeros(count, np.int64)
        for step in steps:
            list_size += step.sizes + _head_sizes(step.sizes, _step_head_of(step))
        list_sizes.append(list_size)
        lists_size += list_size + _head_sizes(list_size, _list_head_of(steps[0].name))
    payload = np.zeros(count, np.int64)
    if context:
        payload += context_size + _head_sizes(context_size, _message_head)
    if lists:
        payload += lists_size + _head_sizes(lists_size, _lists_head)
    records = _Pieces()
    records.add_heads(payload, frame_header)
    if context:
        records.add_heads(context_size, _message_head)
        for column in context:
            _add_column(records, column, _entry_head_of(column))
    if lists:
        records.add_heads(lists_size, _lists_head)
        for steps, list_size in zip(lists, list_sizes, strict=True):
            records.add_heads(list_size, _list_head_of(steps[0].name))
            for step in steps:
                _add_column(records, step, _step_head_of(step))
    return _sealed(records, payload)


def _add_column(records: _Pieces, column: ListColumn, head: Callable[[int], bytes]) -> None:
    records.add_heads(column.sizes, head)
    records.add(column.data, np.cumsum(column.sizes) - column.sizes, column.sizes)


def _sealed(records: _Pieces, payload: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The records with room for the payload's checksum behind each, and the checksums in it."""
    count = len(payload)
    records.add(np.zeros(FOOTER_BYTES, np.uint8), np.zeros(count, np.int64), np.full(count, FOOTER_BYTES))
    data, ends = records.joined()
    starts = ends - FOOTER_BYTES - payload
    extend = google_crc32c.extend
    bounds = zip(starts.tolist(), (ends - FOOTER_BYTES).tolist(), strict=True)
    crcs = mask_all(np.fromiter((extend(0, data[start:stop]) for start, stop in bounds), np.uint32, count))
    data[(ends - FOOTER_BYTES)[:, np.newaxis] + np.arange(FOOTER_BYTES)] = (
        crcs.astype("<u4").view(np.uint8).reshape(-1, FOOTER_BYTES)
    )
    return data, ends


def _distinct(keys: NDArray[np.int64], head: Callable[[int], bytes]) -> tuple[list[bytes], NDArray[np.int64]]:
    """The head of each distinct key, and which of them each record has."""
    distinct, which = np.unique(keys, return_inverse=True)
    return [head(key) for key in distinct.tolist()], which.reshape(-1)


def _head_sizes(keys: NDArray[np.int64], head: Callable[[int], bytes]) -> NDArray[np.int64]:
    heads, which = _distinct(keys, head)
    return np.array([len(each) for each in heads], np.int64)[which]


def _entry_head_of(column: ListColumn) -> Callable[[int], bytes]:
    if column.is_many:
        return lambda size: values_head(column.name, size)
    return lambda size: entry_head(column.name, column.kind, size)


def _step_head_of(column: ListColumn) -> Callable[[int], bytes]:
    return lambda size: step_head(column.kind, size)


def _list_head_of(name: str) -> Callable[[int], bytes]:
    return lambda size: list_head(name, size)


def _message_head(size: int) -> bytes:
    return b"\x0a" + varint(size)


def _lists_head(size: int) -> bytes:
    return b"\x12" + varint(size)

"""Reading record files: payload by payload, or as batches of features."""

from __future__ import annotations

import os
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from geotfr.errors import LimitError, RecordError
from geotfr.records.columns import Columns, DecodingError, GrowthError, RecordLayout, decode_example, shape_of
from geotfr.records.faults import Fault, ReadReport
from geotfr.records.framing import BATCH_BYTES, RecordBlocks
from geotfr.records.layout import FRAME_BYTES, HEADER_BYTES
from geotfr.records.stream import open_stream
from geotfr.records.wire import map_example

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from geotfr.errors import GeotfrError
    from geotfr.records.columns import FeatureValues
    from geotfr.records.framing import BadRecord, Block
    from geotfr.records.stream import ByteStream, Compression

    PathLike = str | os.PathLike[str]

__all__ = ["FeatureBatch", "feature_batches", "read_features", "read_records"]

SMALL_RECORD_BYTES = 4096
DECODED_BYTES = 256 << 20
"""What the values of one record may grow to in memory, where no limit is given: 8 times for int64 lists of small
numbers, 14 times for hostile bytes lists."""

MAX_LAYOUTS = 8
"""Layouts kept for each size; records past them are mapped one by one."""

WORTH_A_TEMPLATE = 64
"""Records that have to be there before the tables of a template are made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureBatch:
    """Consecutive records of one file that have the same keys, kinds and lengths; at least one.

    Attributes
    ----------
    path
        The file.
    records
        ``(n,) int64``: their numbers within the file, from 0.
    offsets
        ``(n,) int64``: where each starts, in bytes of the uncompressed stream.
    features
        key -> values, in the records' own order of keys: float32 ``(n, length)``; int64 ``(n, length)``; uint8
        ``(n, length)`` for bytes features of one value; a list of n tuples for bytes features of another number of
        values; None for features that hold no list. Arrays may be strided, not aligned, read-only and views of a
        buffer: they are valid until the next batch.
    """

    path: str
    records: NDArray[np.int64]
    offsets: NDArray[np.int64]
    features: dict[str, FeatureValues]

    def __len__(self) -> int:
        return len(self.records)

    def shapes(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Key -> (kind, shape of one record's values), see :func:`geotfr.records.columns.shape_of`."""
        return {key: shape_of(values) for key, values in self.features.items()}


def read_records(
    paths: PathLike | Sequence[PathLike],
    *,
    compression: Compression = "auto",
    verify_checksums: bool = True,
    on_bad_record: BadRecord = "error",
    max_record_bytes: int | None = None,
    report: ReadReport | None = None,
) -> Iterator[bytes]:
    """Each record's payload, file by file in the given order.

    Parameters
    ----------
    paths
        One file or several.
    compression
        ``auto`` goes by the content, never by the name. ``none``, ``gzip`` or ``zlib``: any other content is an
        error.
    verify_checksums
        Whether payloads are checked against their CRC32C; lengths always are.
    on_bad_record
        ``error`` raises at the first damage. ``skip`` leaves out records with a wrong payload, and the rest of a
        file whose lengths or compression are damaged. ``repair`` goes on at the next place where a record proves
        itself. Losses are in ``report``, or warned of once a file if there is none.
    max_record_bytes
        Largest payload; by default 2 GiB, and max(128 MiB, 64 times the file) in compressed files.
    report
        Takes counts, notes, warnings and faults.

    Raises
    ------
    RecordError
        A damaged file, or one that is no TFRecord file: with file, record number and byte offset.
    LimitError
        A record over the limit; nothing is allocated for it.
    MissingInputError, InputError
        A file that isn't there or can't be opened.
    """
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        with _opened(path, compression, report) as (stream, used):
            blocks = RecordBlocks(
                stream,
                verify_checksums=verify_checksums,
                on_bad_record=on_bad_record,
                max_record_bytes=max_record_bytes,
                report=used,
            )
            for block in blocks:
                used.records += len(block.starts)
                yield from _payloads(block)


def _payloads(block: Block) -> Iterator[bytes]:
    starts = (block.starts + HEADER_BYTES).tolist()
    stops = (block.starts + block.sizes - (FRAME_BYTES - HEADER_BYTES)).tolist()
    if len(block.data) < SMALL_RECORD_BYTES * len(starts):
        # One copy, then slices of bytes: half the time of a view for each.
        data = block.data.tobytes()
        for start, stop in zip(starts, stops, strict=True):
            yield data[start:stop]
    else:
        for start, stop in zip(starts, stops, strict=True):
            yield block.data[start:stop].tobytes()


def read_features(
    path: PathLike,
    *,
    names: Collection[str] | None = None,
    compression: Compression = "auto",
    verify_checksums: bool = True,
    on_bad_record: BadRecord = "error",
    max_record_bytes: int | None = None,
    batch_bytes: int = BATCH_BYTES,
    report: ReadReport | None = None,
) -> Iterator[FeatureBatch]:
    """The features of the Examples of one file, in batches.

    A batch ends where keys, kinds or lengths change, and at about ``batch_bytes``.

    Parameters
    ----------
    names
        The features wanted; those a record doesn't have are absent from its batch. None is all.
    batch_bytes
        Size of the buffer; a larger record gets a larger one.
    compression, verify_checksums, on_bad_record, max_record_bytes, report
        As in :func:`read_records`. ``max_record_bytes`` also limits what the values of a record take in memory
        where they grow on decoding (int64 lists, lists of many bytes values); by default that is 256 MiB.

    Raises
    ------
    RecordError
        As :func:`read_records`, and for a payload that is no Example.
    LimitError
        A record over a limit.
    """
    with _opened(path, compression, report) as (stream, used):
        yield from feature_batches(
            stream,
            names=names,
            verify_checksums=verify_checksums,
            on_bad_record=on_bad_record,
            max_record_bytes=max_record_bytes,
            batch_bytes=batch_bytes,
            report=used,
        )


def feature_batches(
    stream: ByteStream,
    *,
    names: Collection[str] | None = None,
    verify_checksums: bool = True,
    on_bad_record: BadRecord = "error",
    max_record_bytes: int | None = None,
    batch_bytes: int = BATCH_BYTES,
    report: ReadReport,
) -> Iterator[FeatureBatch]:
    """As :func:`read_features`, of a stream that is open."""
    wanted = None if names is None else frozenset(names)
    blocks = RecordBlocks(
        stream,
        verify_checksums=verify_checksums,
        on_bad_record=on_bad_record,
        max_record_bytes=max_record_bytes,
        batch_bytes=batch_bytes,
        report=report,
    )
    growth_limit = DECODED_BYTES if max_record_bytes is None else max_record_bytes
    decoder = _Decoder(stream, blocks, wanted, growth_limit, on_bad_record, report)
    for block in blocks:
        for batch in decoder.batches(block):
            report.records += len(batch.records)
            yield batch


@contextmanager
def _opened(
    path: PathLike, compression: Compression, report: ReadReport | None
) -> Iterator[tuple[ByteStream, ReadReport]]:
    """The stream of one file, and the report to use; without ``report`` what a user should know is warned of."""
    name = os.fspath(path)
    used = ReadReport() if report is None else report
    records, faults = used.records, used.fault_count
    with open_stream(name, compression, used) as stream:
        used.files += 1
        yield stream, used
        if used.records == records and used.fault_count == faults:
            used.warnings.append(f"{name}: no records: an empty shard")
    if report is None:
        if used.fault_count:
            used.warnings.append(f"{used.faults[0]} ({used.fault_count} faults, {used.lost_bytes} bytes left out)")
        for text in used.warnings:
            warnings.warn(text, UserWarning, stacklevel=4)


class _Decoder:
    """Turns the blocks of one file into batches; remembers the layouts it has seen."""

    def __init__(
        self,
        stream: ByteStream,
        blocks: RecordBlocks,
        names: Collection[str] | None,
        growth_limit: int,
        on_bad_record: BadRecord,
        report: ReadReport,
    ) -> None:
        self._stream = stream
        self._blocks = blocks
        self._names = names
        self._growth_limit = growth_limit
        self._policy = on_bad_record
        self._report = report
        self._layouts: dict[int, list[RecordLayout]] = {}
        self._refused: dict[int, GeotfrError] = {}

    def batches(self, block: Block) -> Iterator[FeatureBatch]:
        """The batches of ``block``, in order; errors come behind the records before them."""
        groups: dict[object, list[Columns]] = {}
        for columns in self._columns(block):
            groups.setdefault(columns.signature(), []).append(columns)
        merged = [_merge(group) for group in groups.values()]
        group_of = np.full(len(block.starts), -1, np.int64)
        for number, columns in enumerate(merged):
            group_of[columns.index] = number
        end = min(self._refused, default=len(group_of))
        edges = [0, *(np.flatnonzero(np.diff(group_of[:end])) + 1).tolist(), end]
        taken = [0] * len(merged)
        for start, stop in pairwise(edges):
            number = int(group_of[start]) if start < stop else -1
            if number >= 0:
                first = taken[number]
                taken[number] += stop - start
                yield self._batch(block, start, merged[number], first, taken[number])
        if self._refused:
            raise self._refused[end]

    def _batch(self, block: Block, start: int, columns: Columns, first: int, stop: int) -> FeatureBatch:
        """Rows ``first`` to ``stop`` of ``columns``; record ``start`` of ``block`` is the first of them."""
        whole = first == 0 and stop == len(columns.index)
        return FeatureBatch(
            path=self._stream.path,
            records=np.arange(block.first + start, block.first + start + stop - first, dtype=np.int64),
            offsets=block.starts[start : start + stop - first] + block.offset,
            features=columns.features
            if whole
            else {key: None if v is None else v[first:stop] for key, v in columns.features.items()},
        )

    def _columns(self, block: Block) -> Iterator[Columns]:
        """The columns of all records of ``block``, in no order."""
        if block.is_even:
            index = np.arange(len(block.starts), dtype=np.int64)
            yield from self._equally_long(block, block.payload_rows(), index, is_proven=block.is_proven)
            return
        sizes, size_of = np.unique(block.sizes, return_inverse=True)
        for number, size in enumerate(sizes.tolist()):
            index = np.flatnonzero(size_of == number)
            starts = block.starts[index] + HEADER_BYTES
            payload_bytes = size - FRAME_BYTES
            if payload_bytes <= SMALL_RECORD_BYTES:
                rows = block.data[starts[:, None] + np.arange(payload_bytes)]
                yield from self._equally_long(block, rows, index, is_proven=False)
                continue
            for place, start in enumerate(starts.tolist()):
                row = block.data[None, start : start + payload_bytes]
                yield from self._equally_long(block, row, index[place : place + 1], is_proven=False)

    def _equally_long(
        self, block: Block, rows: NDArray[np.uint8], index: NDArray[np.int64], *, is_proven: bool
    ) -> Iterator[Columns]:
        """The columns of the payloads ``rows`` ``(n, payload bytes) uint8``."""
        layouts = self._layouts.setdefault(rows.shape[1], [])
        known = iter(tuple(layouts))
        while len(index):
            layout = next(known, None)
            if layout is None:
                layout = self._learn(rows[0], layouts, len(index))
            if layout is None:
                yield from self._decoded(block, rows[:1], index[:1])
                rows, index = rows[1:], index[1:]
                continue
            good = layout.matches(rows, is_proven=is_proven)
            # A proof is one of the first layout.
            is_proven = False
            if good.all():
                yield from self._laid_out(block, layout, rows, index)
                return
            if good.any():
                yield from self._laid_out(block, layout, rows[good], index[good])
                rows, index = rows[~good], index[~good]

    def _learn(self, payload: NDArray[np.uint8], layouts: list[RecordLayout], count: int) -> RecordLayout | None:
        """The layout of ``payload``, kept in ``layouts``; None if it can't be mapped or there are too many."""
        if len(layouts) >= MAX_LAYOUTS:
            return None
        places = map_example(payload.data)
        if places is None:
            return None
        layout = RecordLayout(places, payload)
        if not layouts and count >= WORTH_A_TEMPLATE:
            crc = layout.row_crc(payload)
            if crc is not None:
                self._blocks.templates[len(payload) + FRAME_BYTES] = crc
        layouts.append(layout)
        return layout

    def _laid_out(
        self, block: Block, layout: RecordLayout, rows: NDArray[np.uint8], index: NDArray[np.int64]
    ) -> Iterator[Columns]:
        try:
            yield from layout.columns(rows, index, self._names, self._growth_limit)
        except (DecodingError, GrowthError) as error:
            if len(index) == 1:
                self._refuse(block, int(index[0]), error)
                return
            for place in range(len(index)):
                yield from self._laid_out(block, layout, rows[place : place + 1], index[place : place + 1])

    def _decoded(self, block: Block, row: NDArray[np.uint8], index: NDArray[np.int64]) -> Iterator[Columns]:
        payload = row[0].tobytes()
        places = map_example(payload)
        try:
            if places is None:
                yield decode_example(payload, index, self._names, self._growth_limit)
            else:
                yield from RecordLayout(places, row[0]).columns(row, index, self._names, self._growth_limit)
        except (DecodingError, GrowthError) as error:
            self._refuse(block, int(index[0]), error)

    def _refuse(self, block: Block, place: int, error: DecodingError | GrowthError) -> None:
        offset = block.offset + int(block.starts[place])
        is_growth = isinstance(error, GrowthError)
        fault = Fault(
            path=self._stream.path,
            record=block.first + place,
            offset=offset,
            member=self._stream.member_at(offset),
            problem=str(error),
            hint="raise max_record_bytes to read it" if is_growth else "read the payloads with read_records",
        )
        if self._policy == "error":
            self._refused[place] = (LimitError if is_growth else RecordError)(str(fault))
        else:
            self._report.add_fault(fault, lost_bytes=int(block.sizes[place]))


def _merge(group: list[Columns]) -> Columns:
    """Columns of one signature as one, in the order of their records."""
    if len(group) == 1:
        return group[0]
    index = np.concatenate([columns.index for columns in group])
    order = np.argsort(index)
    features: dict[str, FeatureValues] = {}
    for key, values in group[0].features.items():
        if values is None:
            features[key] = None
        elif isinstance(values, list):
            joined = [value for columns in group for value in cast("list[Any]", columns.features[key])]
            features[key] = [joined[place] for place in order.tolist()]
        else:
            arrays = [cast("NDArray[Any]", columns.features[key]) for columns in group]
            features[key] = np.concatenate(arrays)[order]
    return Columns(index[order], features)

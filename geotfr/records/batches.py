"""From the blocks of a file to batches of features."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from geotfr.errors import LimitError, RecordError
from geotfr.records.columns import Columns, DecodingError, GrowthError, columns_of, decode_example, shape_of
from geotfr.records.faults import Fault
from geotfr.records.layout import FRAME_BYTES, HEADER_BYTES
from geotfr.records.locate import locate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from geotfr.errors import GeotfrError
    from geotfr.records.columns import FeatureValues
    from geotfr.records.crc import RowCrc
    from geotfr.records.faults import ReadReport
    from geotfr.records.framing import BadRecord, Block
    from geotfr.records.locate import RecordMap

__all__ = ["SMALL_RECORD_BYTES", "BatchDecoder", "FeatureBatch"]

SMALL_RECORD_BYTES = 4096
"""Up to so many bytes it pays to gather records of one size before they are decoded."""

MAX_LAYOUTS = 16
"""Layouts kept for each size; records past them are mapped one by one."""

MAX_LAYOUTS_IN_ALL = 4096
"""Layouts kept for all sizes together, before all are forgotten."""

MOST_FAILURES = 16
"""Records of one size that couldn't be mapped before it is no longer tried."""

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
        key -> values, in the records' own order of keys (where protobuf has to decode, that of the first record
        with these keys): float32 ``(n, length)``; int64 ``(n, length)``; uint8
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


class RecordSource(Protocol):
    """What a batch's records are read from."""

    @property
    def path(self) -> str:
        """The file."""

    def member_at(self, position: int) -> int | None:
        """Number of the gzip member that holds uncompressed byte ``position``; None for other files."""


class BatchDecoder:
    """Turns the blocks of one file into batches; remembers the layouts it has seen.

    Parameters
    ----------
    source
        Where the blocks come from, for errors.
    templates
        Framed size -> checksum of payloads of that size, see :class:`geotfr.records.framing.RecordBlocks`; filled
        here.
    names
        The features wanted; None is all.
    growth_limit
        What the values of a record may take in memory.
    on_bad_record
        ``error`` raises for a payload that is no Example; else it goes into ``report``.
    """

    def __init__(
        self,
        source: RecordSource,
        templates: dict[int, RowCrc],
        names: Collection[str] | None,
        growth_limit: int,
        on_bad_record: BadRecord,
        report: ReadReport,
    ) -> None:
        self._source = source
        self._templates = templates
        self._names = names
        self._growth_limit = growth_limit
        self._policy = on_bad_record
        self._report = report
        self._layouts: dict[int, list[RecordMap]] = {}
        self._kept = 0
        self._failures: dict[int, int] = {}
        self._orders: dict[frozenset[str], list[str]] = {}
        self._refused: dict[int, GeotfrError] = {}

    def batches(self, block: Block) -> Iterator[FeatureBatch]:
        """The batches of ``block``, in order; errors come behind the records before them."""
        groups: dict[object, list[Columns]] = {}
        for columns in self._columns(block):
            groups.setdefault(columns.signature(), []).append(columns)
        merged = [_merge(group) for group in groups.values()]
        if len(merged) == 1 and len(merged[0].index) == len(block.starts):
            yield self._batch(block, 0, merged[0], 0, len(block.starts))
            return
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

    def columns(self, block: Block) -> list[Columns]:
        """The columns of all records of ``block``, in no order: one for each layout, however the records alternate.

        Raises
        ------
        RecordError, LimitError
            The first record that can't be decoded, where ``on_bad_record`` is ``error``.
        """
        found = list(self._columns(block))
        if self._refused:
            raise self._refused[min(self._refused)]
        return found

    def _batch(self, block: Block, start: int, columns: Columns, first: int, stop: int) -> FeatureBatch:
        """Rows ``first`` to ``stop`` of ``columns``; record ``start`` of ``block`` is the first of them."""
        whole = first == 0 and stop == len(columns.index)
        return FeatureBatch(
            path=self._source.path,
            records=block.numbers(start, start + stop - first),
            offsets=block.positions(start, start + stop - first),
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
        order = np.argsort(block.sizes, kind="stable")
        for index in np.split(order, np.flatnonzero(np.diff(block.sizes[order])) + 1):
            starts = block.starts[index] + HEADER_BYTES
            payload_bytes = int(block.sizes[index[0]]) - FRAME_BYTES
            if payload_bytes <= SMALL_RECORD_BYTES:
                rows = sliding_window_view(block.data, payload_bytes)[starts]
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
                layout = self._located(rows[0])
                if layout is None or len(layouts) >= MAX_LAYOUTS:
                    yield from self._alone(block, layout, rows[:1], index[:1])
                    rows, index = rows[1:], index[1:]
                    continue
                self._learn(layout, layouts, rows)
            good = layout.matches(rows, is_proven=is_proven)
            # A proof is one of the first layout.
            is_proven = False
            if good.all():
                yield from self._laid_out(block, layout, rows, index)
                return
            if good.any():
                yield from self._laid_out(block, layout, rows[good], index[good])
                rows, index = rows[~good], index[~good]

    def _located(self, payload: NDArray[np.uint8]) -> RecordMap | None:
        """The places of the features; None, without a look, where payloads of this size never could be mapped."""
        failures = self._failures.get(len(payload), 0)
        found = locate(payload.data) if failures < MOST_FAILURES else None
        if found is None:
            if len(self._failures) > MAX_LAYOUTS_IN_ALL:
                self._failures.clear()
            self._failures[len(payload)] = failures + 1
        return found

    def _learn(self, layout: RecordMap, layouts: list[RecordMap], rows: NDArray[np.uint8]) -> None:
        """Keep ``layout``, that of the first of ``rows``, in ``layouts`` for later."""
        self._kept += 1
        if self._kept > MAX_LAYOUTS_IN_ALL:
            # A file whose records are all different gains nothing from what was learned.
            self._kept = 0
            self._layouts.clear()
            self._templates.clear()
            return
        if not layouts and len(rows) >= WORTH_A_TEMPLATE:
            crc = layout.row_crc(rows[0])
            if crc is not None:
                self._templates[rows.shape[1] + FRAME_BYTES] = crc
        layouts.append(layout)

    def _laid_out(
        self, block: Block, layout: RecordMap, rows: NDArray[np.uint8], index: NDArray[np.int64]
    ) -> Iterator[Columns]:
        try:
            found = list(columns_of(layout, rows, index, self._names, self._growth_limit))
        except (DecodingError, GrowthError) as error:
            if len(index) == 1:
                self._refuse(block, int(index[0]), error)
                return
            for place in range(len(index)):
                yield from self._laid_out(block, layout, rows[place : place + 1], index[place : place + 1])
        else:
            yield from found

    def _alone(
        self,
        block: Block,
        layout: RecordMap | None,
        row: NDArray[np.uint8],
        index: NDArray[np.int64],
    ) -> Iterator[Columns]:
        """The columns of one record; ``layout`` is None where its form isn't the usual one."""
        if layout is not None:
            yield from self._laid_out(block, layout, row, index)
            return
        try:
            yield decode_example(row[0].tobytes(), index, self._names, self._growth_limit, self._orders)
        except (DecodingError, GrowthError) as error:
            self._refuse(block, int(index[0]), error)

    def _refuse(self, block: Block, place: int, error: DecodingError | GrowthError) -> None:
        offset = int(block.positions(place, place + 1)[0])
        is_growth = isinstance(error, GrowthError)
        fault = Fault(
            path=self._source.path,
            record=int(block.numbers(place, place + 1)[0]),
            offset=offset,
            member=self._source.member_at(offset),
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

"""The features of any records of one file, by their numbers: what shuffled reading is made of.

Records are gathered in the order of the file, some megabytes at a time, so that they are checked and decoded while
they are in the processor's cache. Neighbours are read together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from geotfr.records import scatter
from geotfr.records.batches import BatchDecoder
from geotfr.records.crc import masked_crc32c_rows
from geotfr.records.faults import ReadReport
from geotfr.records.framing import BATCH_BYTES, Block, right_payloads
from geotfr.records.layout import FRAME_BYTES, HEADER_BYTES
from geotfr.records.reader import DECODED_BYTES
from geotfr.records.scatter import ScatterLayout

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from geotfr.records.batches import FeatureBatch
    from geotfr.records.crc import RowCrc
    from geotfr.records.index import IndexedRecords

__all__ = ["IndexedFeatures"]

WORTH_A_JUMP_BYTES = 8192
"""Bytes between two records that are read and left out: a call costs as much."""

WORTH_TABLES = 16
"""Records whose checksums are looked up together; fewer are done as fast by a call each."""


MOST_LAYOUTS = 64
"""Sizes of records whose layout is kept."""


@dataclass(frozen=True, slots=True)
class GatheredBlock(Block):
    """Records that don't follow each other in the file, one after the other.

    Attributes
    ----------
    records, offsets
        ``(n,) int64``: number and place in the stream of each.
    """

    records: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def numbers(self, start: int, stop: int) -> NDArray[np.int64]:
        return self.records[start:stop]

    def positions(self, start: int, stop: int) -> NDArray[np.int64]:
        return self.offsets[start:stop]


class _Source:
    """A file's name; its gzip members aren't told."""

    def __init__(self, path: str) -> None:
        self.path = path

    def member_at(self, position: int) -> int | None:  # noqa: ARG002
        return None


class _Desk:
    """What one reading at a time uses: a buffer, and the layouts that have been met."""

    def __init__(self, path: str, names: Collection[str] | None) -> None:
        self.templates: dict[int, RowCrc] = {}
        self.decoder = BatchDecoder(_Source(path), self.templates, names, DECODED_BYTES, "error", ReadReport())
        self.buffer = np.empty(0, np.uint8)

    def room(self, size: int) -> NDArray[np.uint8]:
        """``size`` bytes, used again."""
        if len(self.buffer) < size:
            self.buffer = np.empty(size, np.uint8)
        return self.buffer[:size]


class IndexedFeatures:
    """The features of the Examples of one indexed file; may be used by several threads, and pickled.

    Parameters
    ----------
    records
        The file.
    names
        The features wanted; None is all.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from geotfr.records.index import IndexedRecords, scan_index
    >>> record = bytes.fromhex("16000000000000004f61be280a140a120a026231120c120a0a080000c03f000000404115a86a")
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.tfrecord"
    ...     _ = path.write_bytes(record * 3)
    ...     with IndexedRecords(path, scan_index(path)) as records:
    ...         for batch in IndexedFeatures(records).batches(np.array([0, 2])):
    ...             print(batch.records, batch.features["b1"].tolist())
    [0 2] [[1.5, 2.0], [1.5, 2.0]]
    """

    def __init__(self, records: IndexedRecords, names: Collection[str] | None = None) -> None:
        self.records = records
        self.names = None if names is None else frozenset(names)
        self._desks: list[_Desk] = []
        self._layouts: dict[int, ScatterLayout | None] = {}

    def __getstate__(self) -> tuple[IndexedRecords, frozenset[str] | None]:
        return self.records, self.names

    def __setstate__(self, state: tuple[IndexedRecords, frozenset[str] | None]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def fill(
        self, numbers: NDArray[np.int64], rows: NDArray[np.int64], targets: Mapping[str, NDArray[Any]]
    ) -> NDArray[np.bool_]:
        """Read what can be read without a copy: the records ``numbers``, ascending, into the ``rows`` of ``targets``.

        Returns
        -------
        ``(n,) bool``
            Which are done. The rest is for :meth:`batches`, which tells what is wrong with a record.
        """
        index = self.records.locations
        sizes = index.lengths[numbers]
        none = np.zeros(len(numbers), np.bool_)
        if not len(numbers) or sizes.max() < scatter.LEAST_BYTES:
            return none
        scatterer = self.records.scatterer()
        if scatterer is None:
            return none
        size = int(sizes[0])
        if size not in self._layouts:
            record = bytearray(size)
            self.records.reader()(int(index.offsets[numbers[0]]), memoryview(record))
            if len(self._layouts) >= MOST_LAYOUTS:
                self._layouts.clear()
            self._layouts[size] = ScatterLayout.learned(bytes(record), tuple(targets))
        layout = self._layouts[size]
        if layout is None or not layout.takes(targets):
            return none
        return layout.read(scatterer, index.offsets[numbers], sizes, rows, targets)

    def batches(self, numbers: NDArray[np.int64]) -> Iterator[FeatureBatch]:
        """The features of the records ``numbers`` ``(n,) int64``, ascending, some at a time in this order.

        As :func:`geotfr.records.reader.read_features`: values are views that are valid until the next batch.

        Raises
        ------
        RecordError
            A record that isn't what index and checksums say, or no Example.
        LimitError
            Values that would take too much memory.
        """
        # Lists are changed by one bytecode: threads need no lock to share the desks.
        desk = self._desks.pop() if self._desks else _Desk(self.records.path, self.names)
        try:
            ends = np.cumsum(self.records.locations.lengths[numbers])
            start = 0
            while start < len(numbers):
                done = int(ends[start - 1]) if start else 0
                stop = max(start + 1, int(np.searchsorted(ends, done + BATCH_BYTES, side="right")))
                yield from desk.decoder.batches(self._block(desk, numbers[start:stop]))
                start = stop
        finally:
            self._desks.append(desk)

    def _block(self, desk: _Desk, numbers: NDArray[np.int64]) -> GatheredBlock:
        """The records, checked."""
        index = self.records.locations
        offsets, sizes = index.offsets[numbers], index.lengths[numbers]
        gaps = offsets[1:] - (offsets[:-1] + sizes[:-1])
        edges = np.flatnonzero(gaps > WORTH_A_JUMP_BYTES) + 1
        # Small gaps are read with what is around them; large ones are jumped over.
        jumps = np.zeros(len(numbers), np.int64)
        jumps[edges] = gaps[edges - 1]
        starts = offsets - offsets[0] - np.cumsum(jumps)
        end = int(starts[-1] + sizes[-1])
        data = desk.room(end)
        self._read(data, offsets, starts, edges, numbers)
        is_even = bool((sizes == sizes[0]).all())
        if is_even and end > sizes[0] * len(sizes):
            data = sliding_window_view(data, int(sizes[0]))[starts].reshape(-1)
            starts = np.arange(len(sizes)) * sizes[0]
        is_worth_tables = is_even and len(sizes) >= WORTH_TABLES
        template = desk.templates.get(int(sizes[0])) if is_worth_tables else None
        good, is_proven = right_payloads(data, starts, sizes, template)
        good &= _right_headers(data, starts, sizes)
        if not good.all():
            raise self.records.not_there(int(numbers[good.argmin()]))
        return GatheredBlock(
            data=data,
            first=int(numbers[0]),
            offset=int(offsets[0]),
            starts=starts,
            sizes=sizes,
            is_even=is_even,
            is_proven=is_proven,
            records=numbers,
            offsets=offsets,
        )

    def _read(
        self,
        data: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        starts: NDArray[np.int64],
        edges: NDArray[np.int64],
        numbers: NDArray[np.int64],
    ) -> None:
        """Fill ``data`` with the stretches of the stream that begin at the first record and at those of ``edges``."""
        heads = [0, *edges.tolist()]
        begins = starts[heads].tolist()
        view, read_into = data.data, self.records.reader()
        for offset, begin, end in zip(offsets[heads].tolist(), begins, [*begins[1:], len(data)], strict=True):
            got = read_into(offset, view[begin:end])
            if got != end - begin:
                raise self.records.not_there(int(numbers[np.searchsorted(starts, begin + got, side="right") - 1]))


def _right_headers(data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which records begin with the length that the index tells, and its checksum."""
    headers = sliding_window_view(data, HEADER_BYTES)[starts]
    lengths, checksums = headers[:, :8].copy().view("<u8")[:, 0], headers[:, 8:].copy().view("<u4")[:, 0]
    right = lengths == (sizes - FRAME_BYTES).astype(np.uint64)
    result: NDArray[np.bool_] = right & (masked_crc32c_rows(headers[:, :8]) == checksums)
    return result

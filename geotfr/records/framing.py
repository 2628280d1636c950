"""The records of one file: blocks of whole, checked records in a buffer that is used again.

A record is a uint64 length | uint32 masked CRC32C of it | payload | uint32 masked CRC32C of the payload.

Most files hold records of one length. Then the buffer is read in whole records, and headers are compared and
payloads checked as the rows of a matrix. Other files are walked record by record. Nothing is allocated for a
record before its length is proven by its checksum and found within the limit.

**Source**: TensorFlow's ``record_reader.cc``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from geotfr.errors import InputError, LimitError, RecordError, UsageError
from geotfr.records.crc import masked_crc32c, masked_crc32c_rows, masked_crc32c_runs
from geotfr.records.faults import Fault, ReadReport
from geotfr.records.layout import FOOTER_BYTES, FRAME_BYTES, HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from geotfr.records.bytestream import ByteStream
    from geotfr.records.crc import RowCrc

__all__ = ["BATCH_BYTES", "MAX_RECORD_BYTES", "BadRecord", "Block", "RecordBlocks", "right_payloads"]

BadRecord = Literal["error", "skip", "repair"]

BATCH_BYTES = 4 << 20
MAX_RECORD_BYTES = 2 << 30
"""Largest payload by default; protobuf can't make larger ones."""

GROWTH_LIMIT = 64
GROWTH_FREE_BYTES = 128 << 20
"""By default a compressed file of n bytes may hold records of max(128 MiB, 64 n) bytes: a small file can't ask
for memory that nothing but itself justifies."""

FIRST_SCAN_BYTES = 128
SCAN_BYTES = 256 << 10
"""Bytes that are searched for a header at once, first and later: a hostile file has one everywhere."""

MOST_BAD_HEADERS = 2000
"""Wrong lengths in one file that are repaired; then its rest is left out."""

_FIRST_BYTES = 64 << 10
_LENGTH = struct.Struct("<Q")
_EMPTY_CHECKSUM = masked_crc32c(bytes(8)) & 0xFF
"""The first byte behind a length of 0, if that is a header."""
_VERIFY_HINT = "run 'geotfr verify', then fetch or export the file again; 'geotfr repair' saves the whole records"


@dataclass(frozen=True, slots=True)
class Block:
    """Whole records one after the other; valid until the next block is asked for.

    Attributes
    ----------
    data
        ``(bytes,) uint8``, from the first record's header to the last one's end.
    first
        Number of the first record within the file.
    offset
        Where it starts, in bytes of the uncompressed stream.
    starts
        ``(n,) int64``: where each record's header starts in ``data``.
    sizes
        ``(n,) int64``: bytes of each record, framing included.
    is_even
        Whether all sizes are equal.
    is_proven
        Whether every record's checksum proves that it is the template given for its size.
    """

    data: NDArray[np.uint8]
    first: int
    offset: int
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    is_even: bool
    is_proven: bool

    def payload_rows(self) -> NDArray[np.uint8]:
        """The payloads of an even block as a view ``(n, payload bytes) uint8``."""
        return self.data.reshape(len(self.starts), -1)[:, HEADER_BYTES:-4]

    def numbers(self, start: int, stop: int) -> NDArray[np.int64]:
        """Numbers within the file of the block's records ``start`` to ``stop``."""
        return np.arange(self.first + start, self.first + stop, dtype=np.int64)

    def positions(self, start: int, stop: int) -> NDArray[np.int64]:
        """Where the records ``start`` to ``stop`` begin, in bytes of the uncompressed stream."""
        return self.starts[start:stop] + self.offset


class RecordBlocks:
    """Iterates over the blocks of ``stream``.

    Parameters
    ----------
    verify_checksums
        Whether payloads are checked; lengths always are.
    on_bad_record
        ``error`` raises. ``skip`` leaves out a record with a wrong payload, and the rest of the file where a
        length is wrong. ``repair`` looks for the next header that proves itself instead.
    max_record_bytes
        Largest payload; None is 2 GiB, and less for small compressed files (see ``GROWTH_LIMIT``).
    batch_bytes
        Size of the buffer, where records are no larger.
    unchecked
        So many records at the file's start are passed over: their payloads aren't checked.
    report
        Takes faults.

    Attributes
    ----------
    templates
        Framed size -> checksum of payloads that are the template of this size; a match proves the whole
        record. Filled by who knows the layout, at any time.
    """

    def __init__(
        self,
        stream: ByteStream,
        *,
        verify_checksums: bool = True,
        on_bad_record: BadRecord = "error",
        max_record_bytes: int | None = None,
        batch_bytes: int = BATCH_BYTES,
        unchecked: int = 0,
        report: ReadReport,
    ) -> None:
        if on_bad_record not in ("error", "skip", "repair"):
            raise UsageError(f"on_bad_record {on_bad_record!r} is unknown; use 'error', 'skip' or 'repair'")
        self.templates: dict[int, RowCrc] = {}
        self._stream = stream
        self._verify = verify_checksums
        self._unchecked = unchecked
        self._policy = on_bad_record
        self._limit = _default_limit(stream) if max_record_bytes is None else max_record_bytes
        self._batch_bytes = batch_bytes
        self._report = report
        self._buffer = np.empty(max(batch_bytes, _FIRST_BYTES), np.uint8)
        self._start = self._stop = 0
        self._base = 0
        self._record = 0
        self._target = _FIRST_BYTES
        self._is_ended = False
        self._is_done = False
        self._bad_headers = 0
        self._damaged_member: int | None = None

    def __iter__(self) -> Iterator[Block]:
        while not self._is_done:
            yield from self._window()

    def _window(self) -> Iterator[Block]:
        """The blocks of the whole records that are in the buffer; none where there was a fault, now behind."""
        have = self._fill(HEADER_BYTES)
        if have < HEADER_BYTES:
            self._end(have, "header")
            return
        size = self._checked_size()
        if size is None:
            return
        # The buffer is filled with a whole number of records, so that nothing is moved where they are equal.
        self._target = size * max(self._batch_bytes // size, 1)
        have = self._fill(size)
        if have < size:
            self._end(have, f"payload of {size - FRAME_BYTES} bytes")
            return
        starts, sizes, is_even = self._extent(size, have)
        good, is_proven = self._check_payloads(starts, sizes, is_even)
        edges = [0, *(np.flatnonzero(good[1:] != good[:-1]) + 1).tolist(), len(good)]
        for first, end in pairwise(edges):
            if good[first]:
                yield self._block(starts[first:end], sizes[first:end], is_even, is_proven)
            else:
                for one in sizes[first:end].tolist():
                    self._bad_payload(one)

    def _block(self, starts: NDArray[np.int64], sizes: NDArray[np.int64], is_even: bool, is_proven: bool) -> Block:
        """The good records at the start, which then is behind them."""
        stop = int(starts[-1] + sizes[-1])
        block = Block(
            self._buffer[self._start : stop],
            self._record,
            self._base + self._start,
            starts - self._start,
            sizes,
            is_even,
            is_proven,
        )
        self._start = stop
        self._record += len(starts)
        return block

    def _fill(self, need: int) -> int:
        """Have ``need`` bytes in the buffer if the stream holds them; returns how many are there."""
        have = self._stop - self._start
        if have >= need or self._is_ended:
            return have
        if self._start:
            self._buffer[:have] = self._buffer[self._start : self._stop]
            self._base += self._start
            self._start, self._stop = 0, have
        goal = max(need, self._target)
        while self._stop < need and not self._is_ended:
            if self._stop == len(self._buffer):
                # Doubled, not sized by the record: the bytes have to come before memory is given for them.
                grown = np.empty(min(2 * len(self._buffer), goal), np.uint8)
                grown[: self._stop] = self._buffer
                self._buffer = grown
            view = self._buffer.data[self._stop : goal]
            try:
                got = self._stream.readinto(view)
            except OSError as error:
                raise InputError(f"{self._stream.path}: can't be read: {error.strerror or error}") from error
            self._stop += got
            self._is_ended = got == 0
        return self._stop - self._start

    def _checked_size(self) -> int | None:
        """Framed size of the record at the start; None after a fault."""
        header = self._buffer[self._start : self._start + HEADER_BYTES].tobytes()
        length = int.from_bytes(header[:8], "little")
        stored, computed = int.from_bytes(header[8:], "little"), masked_crc32c(header[:8])
        if stored != computed:
            self._bad_header(f"length checksum {stored:08x}, computed {computed:08x} for length {length}")
            return None
        position = self._base + self._start
        left = self._stream.bytes_left(position)
        if left is not None and left < length + FRAME_BYTES:
            self._bad_header(f"the record has {length + FRAME_BYTES} bytes, the file {left} from here: it is cut")
            return None
        if length > self._limit:
            self._bad_header(
                f"length {length}, the limit is {self._limit}",
                "raise max_record_bytes to read it",
                LimitError,
            )
            return None
        return length + FRAME_BYTES

    def _extent(self, size: int, have: int) -> tuple[NDArray[np.int64], NDArray[np.int64], bool]:
        """Where the whole records in the buffer start, their sizes, and whether these are equal."""
        begin = self._start
        count = have // size
        if count > 1:
            rows = self._buffer[begin : begin + count * size].reshape(count, size)
            # The same header proves the same length; the first has been checked.
            lengths = rows[:, :8].view("<u8")[:, 0]
            checksums = rows[:, 8:12].view("<u4")[:, 0]
            if lengths[1] == lengths[0] and checksums[1] == checksums[0]:
                same = (lengths == lengths[0]) & (checksums == checksums[0])
                run = count if same.all() else int(same.argmin())
                # Short runs are walked with all that follows them: each would cost another comparison.
                if 2 * run >= count:
                    starts = begin + size * np.arange(run, dtype=np.int64)
                    return starts, np.full(run, size, np.int64), True
        found = self._walk(begin)
        bounds = np.array(found, np.int64)
        return bounds[:-1], bounds[1:] - bounds[:-1], len(bounds) == 2

    def _walk(self, place: int) -> list[int]:
        """Starts of the whole records from ``place``, and the end of the last one."""
        stop = self._stop
        data = self._buffer.data
        starts = [place]
        while place + HEADER_BYTES <= stop:
            length = _LENGTH.unpack_from(data, place)[0]
            place += length + FRAME_BYTES
            if place > stop or length > self._limit:
                break
            starts.append(place)
        if len(starts) > 2:
            at = np.array(starts[:-1], np.int64)
            headers = sliding_window_view(self._buffer, HEADER_BYTES)[at]
            good = masked_crc32c_rows(headers[:, :8]) == headers[:, 8:].copy().view("<u4")[:, 0]
            if not good.all():
                del starts[int(good.argmin()) + 1 :]
        return starts

    def _check_payloads(
        self, starts: NDArray[np.int64], sizes: NDArray[np.int64], is_even: bool
    ) -> tuple[NDArray[np.bool_], bool]:
        """Which records have the payload that their checksum tells; whether those are all proven by a template."""
        if not self._verify or self._record + len(starts) <= self._unchecked:
            return np.ones(len(starts), np.bool_), False
        return right_payloads(self._buffer, starts, sizes, self.templates.get(int(sizes[0])) if is_even else None)

    def _bad_payload(self, size: int) -> None:
        stop = self._start + size
        payload = self._buffer[self._start + HEADER_BYTES : stop - FOOTER_BYTES]
        stored = int.from_bytes(self._buffer[stop - FOOTER_BYTES : stop].tobytes(), "little")
        computed = masked_crc32c(payload)
        self._fault(f"data checksum {stored:08x}, computed {computed:08x}", lost_bytes=size)
        self._damaged_member = self._stream.member_at(self._base + stop - 1)
        self._start = stop
        self._record += 1

    def _bad_header(self, problem: str, hint: str = _VERIFY_HINT, error: type[Exception] = RecordError) -> None:
        at = self._base + self._start
        fault = self._make_fault(problem, hint)
        if self._policy == "error":
            raise error(str(fault))
        self._bad_headers += 1
        if self._policy == "repair" and self._bad_headers < MOST_BAD_HEADERS:
            self._start += 1
            self._find_header()
        else:
            self._drop_rest()
        self._damaged_member = self._stream.member_at(at)
        self._record += 1
        self._report.add_fault(fault, lost_bytes=self._base + self._start - at)

    def _end(self, have: int, part: str) -> None:
        """The stream ended ``have`` bytes into a record, or between records if that is 0."""
        damage = self._stream.fault
        if damage is None:
            if have:
                self._fault(f"the file ends {have} bytes into the record, inside its {part}", lost_bytes=have)
            self._start = self._stop
            self._is_done = True
            return
        # A damaged record has told already why its member is wrong.
        last = self._stream.member_at(max(self._base + self._stop - 1, 0))
        if self._policy == "error" or have or last is None or last != self._damaged_member:
            self._fault(damage, lost_bytes=0)
        is_whole = self._stream.is_fault_behind_data
        missing = self._stream.resume() if is_whole or self._policy == "repair" else None
        if is_whole and missing is not None:
            # A record may go on in the next member.
            self._is_ended = False
            return
        self._report.lost_bytes += have
        self._start = self._stop
        if missing is None:
            self._is_done = True
            return
        self._base += missing
        self._report.lost_bytes += missing
        self._record += 1 if have or missing else 0
        self._is_ended = False
        self._find_header()

    def _find_header(self) -> None:
        """Move the start to the next place whose 12 bytes prove that a record begins there, or to the end."""
        size = FIRST_SCAN_BYTES
        while self._fill(HEADER_BYTES) >= HEADER_BYTES:
            window = self._buffer[self._start : min(self._stop, self._start + size)]
            size = min(2 * size, SCAN_BYTES)
            zero = window == 0
            # No record has 2^32 bytes.
            is_place = zero[4:-7] & zero[5:-6] & zero[6:-5] & zero[7:-4]
            # A sea of zeros, of which gzip makes a thousand times its size: each place in it reads as a length of 0.
            is_empty = zero[:-11] & zero[1:-10] & zero[2:-9] & zero[3:-8]
            is_place &= ~is_empty | (window[8:-3] == _EMPTY_CHECKSUM)
            places = np.flatnonzero(is_place)
            if len(places):
                headers = sliding_window_view(window, HEADER_BYTES)[places]
                found = masked_crc32c_rows(headers[:, :8]) == headers[:, 8:].copy().view("<u4")[:, 0]
                if found.any():
                    self._start += int(places[found.argmax()])
                    return
            self._start += len(window) - HEADER_BYTES + 1
        self._start = self._stop

    def _drop_rest(self) -> None:
        while not self._is_ended:
            self._start = self._stop
            self._fill(1)
        self._start = self._stop
        self._is_done = True

    def _fault(self, problem: str, *, lost_bytes: int) -> None:
        fault = self._make_fault(problem, _VERIFY_HINT)
        if self._policy == "error":
            raise RecordError(str(fault))
        self._report.add_fault(fault, lost_bytes=lost_bytes)

    def _make_fault(self, problem: str, hint: str) -> Fault:
        position = self._base + self._start
        return Fault(
            path=self._stream.path,
            record=self._record,
            offset=position,
            member=self._stream.member_at(position),
            problem=problem,
            hint=hint,
        )


def _default_limit(stream: ByteStream) -> int:
    if stream.compression == "none":
        return MAX_RECORD_BYTES
    return min(MAX_RECORD_BYTES, max(GROWTH_FREE_BYTES, GROWTH_LIMIT * stream.file_bytes))


def right_payloads(
    data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64], template: RowCrc | None
) -> tuple[NDArray[np.bool_], bool]:
    """Which of the framed records in ``data`` have the payload that their checksum tells, ``(n,) bool``.

    Records of one size stand one after the other. ``template`` is the checksum known for records of their size; the
    second result is whether all records that are right are proven by it.
    """
    size = int(sizes[0])
    if (sizes != size).any():
        footers = starts + sizes - FOOTER_BYTES
        stored = sliding_window_view(data, FOOTER_BYTES)[footers].view("<u4")[:, 0]
        return masked_crc32c_runs(data, starts + HEADER_BYTES, footers) == stored, False
    rows = data[starts[0] : starts[0] + len(starts) * size].reshape(-1, size)
    payloads, stored = rows[:, HEADER_BYTES:-FOOTER_BYTES], rows[:, -FOOTER_BYTES:].view("<u4")[:, 0]
    if template is None:
        return masked_crc32c_rows(payloads) == stored, False
    good = template.masked(payloads) == stored
    rest = np.flatnonzero(~good)
    if not len(rest):
        return good, True
    good[rest] = masked_crc32c_rows(payloads[rest]) == stored[rest]
    return good, not good[rest].any()

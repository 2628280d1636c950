"""Gzip and zlib files as streams of what they hold.

Most bytes are inflated by ISA-L, and members of known size by several threads. ISA-L keeps what it made of a piece
of input that ends in damage; so a damaged stream is inflated once more, by zlib and at last byte by byte, to deliver
all there is before the damage.

**Source**: RFC 1950, 1951 and 1952.
"""

from __future__ import annotations

import os
import struct
import zlib
from abc import abstractmethod
from array import array
from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, BinaryIO, cast

from isal import isal_zlib

from geotfr.records.bytestream import ByteStream, Compression
from geotfr.records.gzip import MEMBER_SUBFIELD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor, Future

__all__ = ["CHUNK_BYTES", "GZIP_MAGIC", "GzipStream", "InflateError", "ZlibStream"]

GZIP_MAGIC = b"\x1f\x8b"

CHUNK_BYTES = 256 << 10
"""Compressed and inflated bytes are handled in such pieces, which stay in a core's cache."""

FIRST_CHUNK_BYTES = 16 << 10
"""Of each member: many are small, and what is read past the end is read again."""

MOST_TRIALS = 2000
"""Places of a damaged gzip file at which a member is looked for: a hostile file has one at each byte."""

PARALLEL_MEMBER_BYTES = 32 << 20
"""Members that are larger, compressed or inflated, are streamed: a thread holds a member as a whole."""

THREAD_MEMBER_BYTES = 64 << 10
"""Smaller members are inflated at once: handing them over takes longer."""

INFLATE_THREADS = 2

# RFC 1952: the only method, and the flags in the header.
_DEFLATE = 8
_HEADER_CHECKSUM, _EXTRA, _NAME, _COMMENT, _RESERVED_FLAGS = 0x02, 0x04, 0x08, 0x10, 0xE0
# Magic with method and flags, time, hint and system, XLEN = 12, identifier, length 8, size of the member.
_SIZED_HEAD = struct.Struct("<4s I 2s H 2s H Q")
_TRAILER = struct.Struct("<II")

# isal's type stub takes the class for an instance.
InflateError = cast("type[Exception]", isal_zlib.IsalError)


class _DamageError(Exception):
    """Compressed bytes that can't be read on; the message says what."""


class _TrailerError(_DamageError):
    """A checksum or size behind the data that they don't have."""


class _InflatedStream(ByteStream):
    """A file of deflate streams, each with a header and a trailer."""

    def __init__(self, path: str, file: BinaryIO, file_bytes: int) -> None:
        super().__init__(path, file, file_bytes)
        self._chunks = self._all_chunks()
        self._chunk = memoryview(b"")

    def readinto(self, view: memoryview) -> int:
        filled = 0
        while filled < len(view):
            if not self._chunk:
                if self.fault is not None:
                    break
                try:
                    self._chunk = memoryview(next(self._chunks, b""))
                except _DamageError as error:
                    self.fault = str(error)
                    self.is_fault_behind_data = isinstance(error, _TrailerError)
                if not self._chunk:
                    break
            part = self._chunk[: len(view) - filled]
            view[filled : filled + len(part)] = part
            self._chunk = self._chunk[len(part) :]
            filled += len(part)
        self.delivered += filled
        return filled

    @abstractmethod
    def _all_chunks(self) -> Iterator[bytes]:
        """Pieces of the uncompressed stream, none empty; ``_DamageError`` comes behind the last good one."""

    def _inflate(self, what: str) -> Iterator[bytes]:
        """The pieces of the deflate stream at the file's position, which then is right behind it."""
        start = self._file.tell()
        inflater = isal_zlib.decompressobj(-zlib.MAX_WBITS)
        given = 0
        data = b""
        step = FIRST_CHUNK_BYTES
        while not inflater.eof:
            if not data:
                data = self._file.read(step)
                step = min(2 * step, CHUNK_BYTES)
            try:
                piece = inflater.decompress(data, CHUNK_BYTES) if data else b""
            except InflateError:
                data = b""
            if not data:
                # isal keeps what it made of the damaged piece to itself.
                yield from self._salvage(start, given, what)
                return
            data = inflater.unconsumed_tail
            given += len(piece)
            if piece:
                yield piece
        self._file.seek(-len(inflater.unused_data), os.SEEK_CUR)

    def _salvage(self, start: int, given: int, what: str) -> Iterator[bytes]:
        """The pieces behind the first ``given`` bytes of a damaged or cut stream, up to the damage."""
        self._file.seek(start)
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        step = CHUNK_BYTES // 4
        while not inflater.eof:
            data = self._file.read(step)
            if not data:
                raise _DamageError(f"the file ends inside {what}")
            before = inflater.copy()
            try:
                piece = inflater.decompress(data)
            except zlib.error as error:
                if step == 1:
                    yield from _drip(before, data, given)
                    raise _DamageError(f"{what} is damaged ({str(error).split(': ')[-1]})") from None
                # Once more, byte by byte: zlib too keeps what it made of a piece that ends in damage.
                self._file.seek(-len(data), os.SEEK_CUR)
                inflater, step = before, 1
                continue
            fresh = piece[given:]
            given = max(given - len(piece), 0)
            if fresh:
                yield fresh
        self._file.seek(-len(inflater.unused_data), os.SEEK_CUR)

    def _junk(self, what: str) -> str:
        place = self._file.tell()
        return f"{self.file_bytes - place} bytes at byte {place} of the file are no {what}: junk behind the data"

    def _skip_zeros(self) -> bool:
        """Whether more than zeros follows; the file then stands at the first byte that is not zero."""
        while data := self._file.read(CHUNK_BYTES):
            rest = data.lstrip(b"\0")
            if rest:
                self._file.seek(-len(rest), os.SEEK_CUR)
                return True
        return False


def _drip(inflater: zlib._Decompress, data: bytes, given: int) -> Iterator[bytes]:
    """The bytes behind the first ``given`` that ``data``, which ends in damage, still makes, but for the last one."""
    try:
        while piece := inflater.decompress(data, 1):
            data = inflater.unconsumed_tail
            if given:
                given -= 1
            else:
                yield piece
    except zlib.error:
        return


class ZlibStream(_InflatedStream):
    """A zlib stream, perhaps with zeros behind it."""

    compression: Compression = "zlib"

    def resume(self) -> int | None:
        return None

    def _all_chunks(self) -> Iterator[bytes]:
        self._file.seek(2)
        checksum = 1
        for piece in self._inflate("the zlib stream"):
            checksum = zlib.adler32(piece, checksum)
            yield piece
        trailer = self._file.read(4)
        if len(trailer) < 4:
            raise _DamageError("the file ends inside the zlib stream's checksum")
        if int.from_bytes(trailer, "big") != checksum:
            raise _TrailerError(f"the zlib stream's checksum is {trailer.hex()}, computed {checksum:08x}")
        if self._skip_zeros():
            raise _DamageError(self._junk("zlib stream"))


class GzipStream(_InflatedStream):
    """Gzip members one after the other are one stream.

    Members that tell their size (``GT`` in the extra field) are read as a whole and inflated by threads, a few
    ahead of the consumer.
    """

    compression: Compression = "gzip"

    def __init__(self, path: str, file: BinaryIO, file_bytes: int) -> None:
        super().__init__(path, file, file_bytes)
        self._starts = array("q")
        self._heads = array("q")
        self._made = 0
        self._trials = 0
        self._head_at = 0
        self._end_at: int | None = None
        self._ahead: deque[tuple[int, Future[bytes | None]]] = deque()
        self._threads: Executor | None = None

    def member_at(self, position: int) -> int | None:
        return max(bisect_right(self._starts, position) - 1, 0)

    @property
    def member_count(self) -> int | None:
        return len(self._starts)

    def member_places(self) -> list[tuple[int, int]]:
        return list(zip(self._heads, self._starts, strict=True))

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        super().close()

    def _all_chunks(self) -> Iterator[bytes]:
        while True:
            self._read_ahead()
            if self._ahead:
                position, inflated = self._ahead.popleft()
                data = inflated.result()
                if data is not None:
                    self._starts.append(self._made)
                    self._heads.append(position)
                    self._made += len(data)
                    if data:
                        yield data
                    continue
                # Not what its header and trailer say. Once more, piece by piece, to place the damage.
                self._ahead.clear()
                self._file.seek(position)
            if not self._at_member():
                return
            yield from self._member()

    def _at_member(self) -> bool:
        """Whether a member begins at the file's position, or behind zeros there; False at the end."""
        if self._is_magic_next():
            return True
        if not self._skip_zeros():
            return False
        if not self._is_magic_next():
            self._head_at, self._end_at = self._file.tell(), None
            raise _DamageError(self._junk("gzip member"))
        return True

    def _is_magic_next(self) -> bool:
        magic = self._file.read(2)
        self._file.seek(-len(magic), os.SEEK_CUR)
        return magic == GZIP_MAGIC

    def _member(self) -> Iterator[bytes]:
        """The pieces of the member at the file's position, which then is right behind it."""
        what = f"gzip member {len(self._starts)}"
        self._starts.append(self._made)
        self._head_at, self._end_at = self._file.tell(), None
        self._heads.append(self._head_at)
        self._read_head(what)
        checksum = size = 0
        for piece in self._inflate(what):
            checksum = _crc32(piece, checksum)
            size += len(piece)
            self._made += len(piece)
            yield piece
        trailer = self._file.read(8)
        if len(trailer) < 8:
            raise _DamageError(f"the file ends inside the trailer of {what}")
        self._end_at = self._file.tell()
        stored, stored_size = _TRAILER.unpack(trailer)
        if stored != checksum:
            raise _TrailerError(f"the checksum of {what} is {stored:08x}, computed {checksum:08x}")
        if stored_size != size & 0xFFFFFFFF:
            raise _TrailerError(f"{what} says that it holds {stored_size} bytes, it holds {size}")

    def _read_head(self, what: str) -> None:
        head = self._file.read(10)
        if len(head) == 10 and (head[2] != _DEFLATE or head[3] & _RESERVED_FLAGS):
            raise _DamageError(f"{what} has compression method {head[2]} and flags {head[3]:#04x}: not gzip as defined")
        flags = head[3] if len(head) == 10 else 0
        if flags & _EXTRA:
            extra_bytes = int.from_bytes(self._file.read(2), "little")
            size = member_bytes(self._file.read(extra_bytes))
            if size is not None and _SIZED_HEAD.size <= size <= self.file_bytes - self._head_at:
                self._end_at = self._head_at + size
        for _ in range((flags & _NAME != 0) + (flags & _COMMENT != 0)):
            while self._file.read(1) not in (b"", b"\0"):
                pass
        if flags & _HEADER_CHECKSUM:
            self._file.read(2)
        if self._file.tell() == self.file_bytes:
            raise _DamageError(f"the file ends inside the header of {what}")

    def _read_ahead(self) -> None:
        """Hand the next members that tell their size to the threads."""
        while len(self._ahead) <= INFLATE_THREADS:
            position = self._file.tell()
            member = self._sized_member(position)
            if member is None:
                self._file.seek(position)
                return
            if self._threads is None:
                from concurrent.futures import ThreadPoolExecutor

                self._threads = ThreadPoolExecutor(INFLATE_THREADS, "geotfr-inflate")
            self._ahead.append((position, self._threads.submit(_inflate_member, member)))

    def _sized_member(self, position: int) -> bytes | None:
        """The member at ``position``, if it tells its size, fits a thread, and isn't the only one."""
        head = self._file.read(_SIZED_HEAD.size)
        if len(head) < _SIZED_HEAD.size:
            return None
        magic, _, _, extra_bytes, _, _, size = _SIZED_HEAD.unpack(head)
        if magic != GZIP_MAGIC + bytes((_DEFLATE, _EXTRA)) or extra_bytes != 12 or member_bytes(head[12:]) is None:
            return None
        least = max(len(head) + 8, THREAD_MEMBER_BYTES)
        if not least <= size <= min(PARALLEL_MEMBER_BYTES, self.file_bytes - position, self.file_bytes - 1):
            return None
        member = head + self._file.read(size - len(head))
        return member if _TRAILER.unpack(member[-8:])[1] <= PARALLEL_MEMBER_BYTES else None

    def resume(self) -> int | None:
        inside = self._made - (self._starts[-1] if self._starts else 0)
        lost = 0
        self._trials += 1
        if self.is_fault_behind_data:
            position: int | None = self._end_at if self._trials <= MOST_TRIALS else None
        elif self._end_at is not None and self._is_member(self._end_at):
            self._file.seek(self._end_at - 4)
            lost = max(int.from_bytes(self._file.read(4), "little") - inside, 0)
            position = self._end_at
        else:
            position = self._next_member(self._head_at + 1)
        if position is None:
            return None
        self._file.seek(position)
        self._made += lost
        self._ahead.clear()
        self._chunks = self._all_chunks()
        self.fault = None
        return lost

    def _next_member(self, position: int) -> int | None:
        """Where the first member at or behind ``position`` begins; None too after too many trials."""
        self._file.seek(position)
        kept = b""
        while self._trials <= MOST_TRIALS and (data := self._file.read(CHUNK_BYTES)):
            base = self._file.tell() - len(data) - len(kept)
            window = kept + data
            found = window.find(GZIP_MAGIC)
            while found >= 0:
                here = self._file.tell()
                if self._is_member(base + found):
                    return base + found
                self._file.seek(here)
                found = window.find(GZIP_MAGIC, found + 1)
            kept = window[-1:]
        return None

    def _is_member(self, position: int) -> bool:
        """Whether the bytes at ``position`` can be inflated as a gzip member; False after too many trials."""
        self._trials += 1
        if self._trials > MOST_TRIALS:
            return False
        self._file.seek(position)
        head = self._file.read(4096)
        if not head.startswith(GZIP_MAGIC):
            return False
        try:
            zlib.decompressobj(zlib.MAX_WBITS + 16).decompress(head, CHUNK_BYTES)
        except zlib.error:
            return False
        return True


def member_bytes(extra: bytes) -> int | None:
    """The member's size as its extra field ``extra`` tells it, or None where it doesn't."""
    place = 0
    while place + 4 <= len(extra):
        length = int.from_bytes(extra[place + 2 : place + 4], "little")
        if extra[place : place + 2] == MEMBER_SUBFIELD and length == 8 and place + 12 <= len(extra):
            return int.from_bytes(extra[place + 4 : place + 12], "little")
        place += 4 + length
    return None


def _crc32(data: bytes, checksum: int = 0) -> int:
    return isal_zlib.crc32(data, checksum)


def _inflate_member(member: bytes) -> bytes | None:
    """What a member with the head of ``_SIZED_HEAD`` holds, or None if it isn't what head and trailer say."""
    checksum, size = _TRAILER.unpack(member[-8:])
    inflater = isal_zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        # One byte more than is told: a longer stream stops there, whatever it would grow to.
        data: bytes = inflater.decompress(memoryview(member)[_SIZED_HEAD.size : -8], size + 1)
    except InflateError:
        return None
    whole = inflater.eof and not inflater.unused_data and len(data) == size and _crc32(data) == checksum
    return data if whole else None

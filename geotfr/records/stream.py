"""The uncompressed bytes of a record file, whatever its compression and its name.

A file is opened by its content. A record header proves itself by its checksum, so plain files are known for
certain; gzip and zlib are known by their magic bytes; a text file is named as such.

A stream ends at its end or at damage. Everything before the damage is delivered first, so that the damage is
placed on the record it hits. :attr:`ByteStream.fault` then tells which of both it was.

**Source**: RFC 1950, 1951 and 1952.
"""

from __future__ import annotations

import io
import os
import stat
import struct
import zlib
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, cast

from isal import isal_zlib

from geotfr.errors import InputError, MissingInputError, RecordError, UsageError
from geotfr.records.crc import masked_crc32c
from geotfr.records.layout import HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor, Future

    from geotfr.records.faults import ReadReport

__all__ = ["ByteStream", "Compression", "open_stream"]

Compression = Literal["auto", "none", "gzip", "zlib"]

GZIP_MAGIC = b"\x1f\x8b"
MEMBER_SUBFIELD = b"GT"
"""The gzip extra subfield that tells a member's size: uint64, little endian, from header to trailer."""

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
_InflateError = cast("type[Exception]", isal_zlib.IsalError)

_NAMES = {"none": "plain TFRecord", "gzip": "gzip", "zlib": "zlib"}
# Printable ASCII, white space, and what UTF-8 is made of.
_TEXT_BYTES = bytes((*range(0x20, 0x7F), 0x09, 0x0A, 0x0C, 0x0D, *range(0x80, 0x100)))


class ByteStream(ABC):
    """The uncompressed bytes of one file, once, from front to back.

    Attributes
    ----------
    path
        The file, as it was given.
    compression
        ``none``, ``gzip`` or ``zlib``: what the file is.
    file_bytes
        Size of the file.
    delivered
        Uncompressed bytes read so far.
    fault
        Why the stream ended early; None while it has not, and at a clean end.
    is_fault_behind_data
        Whether all the data were there and only the checksum behind them is wrong.
    """

    compression: Compression

    def __init__(self, path: str, file: BinaryIO, file_bytes: int) -> None:
        self.path = path
        self.file_bytes = file_bytes
        self.delivered = 0
        self.fault: str | None = None
        self.is_fault_behind_data = False
        self._file = file

    @abstractmethod
    def readinto(self, view: memoryview) -> int:
        """Fill ``view`` from its start; returns the number of bytes, 0 at the end or at damage."""

    @abstractmethod
    def resume(self) -> int | None:
        """Go on behind the damage and clear :attr:`fault`; None if nothing more is to be had.

        Returns how many bytes of the uncompressed stream are missing in between, 0 where that can't be known.
        """

    def bytes_left(self, position: int) -> int | None:  # noqa: ARG002
        """Bytes from uncompressed ``position`` to the end, or None where only reading tells."""
        return None

    def member_at(self, position: int) -> int | None:  # noqa: ARG002
        """Number of the gzip member that holds uncompressed byte ``position``; None for other files."""
        return None

    @property
    def member_count(self) -> int | None:
        """Gzip members met so far; None for other files."""
        return None

    def member_places(self) -> list[tuple[int, int]]:
        """(place in the file, place in the uncompressed stream) of each gzip member met so far."""
        return []

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> ByteStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _PlainStream(ByteStream):
    compression: Compression = "none"

    def readinto(self, view: memoryview) -> int:
        got: int = self._file.readinto(view)  # type: ignore[attr-defined]  # a FileIO
        self.delivered += got
        return got

    def resume(self) -> int | None:
        return None

    def bytes_left(self, position: int) -> int | None:
        return self.file_bytes - position


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
            except _InflateError:
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


class _ZlibStream(_InflatedStream):
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


class _GzipStream(_InflatedStream):
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
        """Where the first member at or behind ``position`` begins."""
        self._file.seek(position)
        kept = b""
        while data := self._file.read(CHUNK_BYTES):
            base = self._file.tell() - len(data) - len(kept)
            window = kept + data
            found = window.find(GZIP_MAGIC) if self._trials <= MOST_TRIALS else -1
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
    except _InflateError:
        return None
    whole = inflater.eof and not inflater.unused_data and len(data) == size and _crc32(data) == checksum
    return data if whole else None


def open_stream(path: str, compression: Compression = "auto", report: ReadReport | None = None) -> ByteStream:
    """The stream of the file at ``path``, opened by its content.

    Parameters
    ----------
    compression
        ``auto``, or what the file must be; anything else there is an error that says what it is.
    report
        Takes the notes and warnings.

    Raises
    ------
    MissingInputError, InputError
        There is no such file, or it can't be opened.
    RecordError
        The content is no TFRecord file in any compression, or another compression than asked.
    UsageError
        An unknown ``compression``.
    """
    if compression not in ("auto", "none", "gzip", "zlib"):
        raise UsageError(f"compression {compression!r} is unknown; use 'auto', 'none', 'gzip' or 'zlib'")
    file, file_bytes = _open_file(path)
    try:
        head = file.read(512)
        found = _compression_of(path, head)
        named_gzip = path.endswith(".gz")
        if not head:
            if named_gzip or compression in ("gzip", "zlib"):
                wanted = "gzip" if compression in ("auto", "none") else compression
                raise RecordError(f"{path}: 0 bytes, but even an empty {wanted} file has a header; export it again")
        elif compression not in ("auto", found):
            raise RecordError(
                f"{path}: compression={compression!r} was asked, but the content is {_NAMES[found]}; "
                f"use compression='auto' or {found!r}"
            )
        if report is not None and head and named_gzip != (found == "gzip"):
            report.notes.append(f"{path}: the content is {_NAMES[found]}, whatever the name says; read as that")
        file.seek(0)
    except BaseException:
        file.close()
        raise
    if found == "none":
        return _PlainStream(path, file, file_bytes)
    buffered: BinaryIO = io.BufferedReader(file, CHUNK_BYTES)
    return (_GzipStream if found == "gzip" else _ZlibStream)(path, buffered, file_bytes)


def _open_file(path: str) -> tuple[io.FileIO, int]:
    try:
        # Asked first: opening a pipe would wait for its other end.
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise InputError(f"{path}: not a regular file; give a TFRecord file")
        file = io.FileIO(path)
    except FileNotFoundError as error:
        raise MissingInputError(f"{path}: no such file") from error
    except OSError as error:
        raise InputError(f"{path}: can't be opened: {error.strerror or error}") from error
    return file, os.fstat(file.fileno()).st_size


def _compression_of(path: str, head: bytes) -> Literal["none", "gzip", "zlib"]:
    """What a file that begins with ``head`` is; raises RecordError for text."""
    is_header = len(head) >= HEADER_BYTES and masked_crc32c(head[:8]) == int.from_bytes(head[8:12], "little")
    if not head or is_header:
        return "none"
    if head.startswith(GZIP_MAGIC):
        return "gzip"
    # A damaged header of a plain file has zeros in the upper half of its length; deflate has not.
    if head[0] & 0x8F == _DEFLATE and int.from_bytes(head[:2], "big") % 31 == 0 and head[4:8].strip(b"\0"):
        return "zlib"
    kind = _text_kind(head)
    if kind:
        raise RecordError(f"{path}: {kind}, not TFRecord; fetch the file itself")
    return "none"


def _text_kind(head: bytes) -> str | None:
    """What kind of text ``head`` is, or None if it isn't text."""
    if len(head) < HEADER_BYTES or head.translate(None, _TEXT_BYTES):
        return None
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer (text)"
    if start.startswith((b"<!doctype html", b"<html")):
        return "an HTML page (text)"
    if start.startswith((b"{", b"[")):
        return "JSON text"
    return "a text file"

"""How shards are compressed on writing: not at all, fast, or exactly as Earth Engine does.

A shard passes in chunks of whole records. :meth:`ShardCodec.pack` turns a chunk into bytes on its own, so any thread
may do it; a :class:`ShardStream` puts the packed chunks of one shard in order. ``fast`` packs each chunk as a gzip
member and streams nothing; ``ee`` packs nothing and streams one deflate, as Earth Engine's files are made.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Protocol

import deflate
import isal
from isal import igzip_lib, isal_zlib

from geotfr.errors import UsageError
from geotfr.records.row_deflate import row_code

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Buffer

__all__ = ["MEMBER_HEAD", "MEMBER_SUBFIELD", "ShardCodec", "ShardStream", "codec"]

MEMBER_SUBFIELD = b"GT"
"""Identifier of the gzip extra subfield that holds a member's size: uint64, little endian, header to trailer."""

# Magic, deflate, flag FEXTRA, no time, no hint, unknown system; then XLEN = 12: identifier, length 8, size.
MEMBER_HEAD = struct.Struct("<4s I 2s H 2s H Q")
"""The header of a member that tells its size."""
_GZIP_EXTRA = b"\x1f\x8b\x08\x04"
_UNKNOWN_SYSTEM = b"\x00\xff"
_FAST_LEVEL = 1
_QUICK_LEVEL = 0
_QUICK_FROM_BYTES = 1 << 16
_SAMPLE_BYTES = 1 << 14
_MANY_ROWS = 512
"""With fewer, steps on a column of them are shorter than what surrounds these."""
_EE_LEVEL = 6
# Source: read off Earth Engine's files. No time, no hint, unknown system.
_EE_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_TRAILER = struct.Struct("<II")


class ShardStream(Protocol):
    """The bytes of one shard, from its packed chunks in order."""

    def add(self, packed: Buffer) -> Buffer:
        """What to write for the next packed chunk."""
        ...

    def finish(self) -> Buffer:
        """What to write at the end."""
        ...


class _AsItIs:
    def add(self, packed: Buffer) -> Buffer:
        return packed

    def finish(self) -> Buffer:
        return b""


class _EarthEngineGzip:
    """One member, deflate level 6: chunking doesn't change what zlib writes."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(_EE_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        self._head = _EE_HEADER
        self._crc = 0
        self._size = 0

    def add(self, packed: Buffer) -> Buffer:
        head, self._head = self._head, b""
        self._crc = isal_zlib.crc32(packed, self._crc)
        self._size += memoryview(packed).nbytes
        return head + self._deflate.compress(packed)

    def finish(self) -> Buffer:
        return self._head + self._deflate.flush() + _TRAILER.pack(self._crc, self._size & 0xFFFFFFFF)


def gzip_member(data: Buffer) -> bytes:
    """``data`` as one gzip member whose header tells the member's size.

    libdeflate compresses it: what ISA-L writes at its levels 1 and 2 depends now and then on memory that it has not
    set, so the same records were not always the same bytes.
    """
    return _member(data, deflate.deflate_compress(data, _FAST_LEVEL))


def quick_member(data: Buffer) -> bytes:
    """As :func:`gzip_member`, twice as fast and a quarter larger, for many small records of one layout.

    ISA-L's level 0 has fixed codes, and a hash table that it sets whole, but for a few KiB of data: those are left to
    libdeflate. Its other levels make their codes in memory that they have not set.
    """
    if memoryview(data).nbytes < _QUICK_FROM_BYTES:
        return gzip_member(data)
    return _member(data, igzip_lib.compress(data, _QUICK_LEVEL, igzip_lib.COMP_DEFLATE))


def quick_member_of_rows(rows: NDArray[np.uint8]) -> bytes:
    """As :func:`quick_member`, of ``rows`` ``(n, m) uint8`` one behind the other, C-contiguous.

    Many rows are deflated by their columns, in a fifth to a half of the time, where that takes no more than a quarter
    more than libdeflate; the first rows tell.
    """
    data = rows.reshape(-1).data
    code = row_code(rows) if len(rows) >= _MANY_ROWS and data.nbytes >= _QUICK_FROM_BYTES else None
    if code is not None:
        some = rows[: -(-_SAMPLE_BYTES // rows.shape[1])]
        if len(some) * code.packed_bytes <= 1.25 * len(deflate.deflate_compress(some.data, _FAST_LEVEL)):
            return _member(data, code.deflate(rows))
    return quick_member(data)


def _member(data: Buffer, deflated: bytes | bytearray) -> bytes:
    size = MEMBER_HEAD.size + len(deflated) + _TRAILER.size
    head = MEMBER_HEAD.pack(_GZIP_EXTRA, 0, _UNKNOWN_SYSTEM, 12, MEMBER_SUBFIELD, 8, size)
    return b"".join((head, deflated, _TRAILER.pack(isal_zlib.crc32(data), memoryview(data).nbytes & 0xFFFFFFFF)))


class ShardCodec:
    """One way of compressing shards.

    Attributes
    ----------
    name
        ``none``, ``fast`` or ``ee``.
    level
        The deflate level, or None.
    library
        Name and version of the library whose bytes these are, or None; recorded in the manifest.
    suffix
        What the file name gets: ``.gz`` or nothing.
    """

    def __init__(
        self,
        *,
        name: str,
        level: int | None,
        library: str | None,
        pack: Callable[[Buffer], Buffer] | None,
        stream: Callable[[], ShardStream],
        pack_rows: Callable[[NDArray[np.uint8]], Buffer] | None = None,
    ) -> None:
        self.name = name
        self.level = level
        self.library = library
        self.suffix = ".gz" if level is not None else ""
        self.is_joinable = level is None or pack is not None
        """Whether a shard is its packed chunks one behind the other, so that pieces of it can be joined."""
        self.packs = pack is not None
        """Whether :meth:`pack` does anything."""
        self.pack: Callable[[Buffer], Buffer] = pack or _identity
        """A chunk of whole records -> its packed bytes; pure, safe in any thread."""
        self.pack_rows: Callable[[NDArray[np.uint8]], Buffer] = pack_rows or (
            lambda rows: self.pack(rows.reshape(-1).data)
        )
        """As :attr:`pack`, of records of one length ``(n, m) uint8``, C-contiguous."""
        self.stream = stream
        """A new :class:`ShardStream`."""


def _identity(chunk: Buffer) -> Buffer:
    return chunk


def codec(name: str, *, is_table: bool = False) -> ShardCodec:
    """The codec ``none``, ``fast`` (gzip members) or ``ee`` (Earth Engine's bytes).

    With ``is_table``, ``fast`` packs as :func:`quick_member` and :func:`quick_member_of_rows` do: compressing is most
    of the time that small records of one layout take.

    >>> codec("fast").suffix
    '.gz'
    """
    if name == "none":
        return ShardCodec(name=name, level=None, library=None, pack=None, stream=_AsItIs)
    if name == "fast":
        library = f"deflate {deflate.__version__}"
        return ShardCodec(
            name=name,
            level=_QUICK_LEVEL if is_table else _FAST_LEVEL,
            library=f"isal {isal.__version__}, {library}" if is_table else library,
            pack=quick_member if is_table else gzip_member,
            stream=_AsItIs,
            pack_rows=quick_member_of_rows if is_table else None,
        )
    if name == "ee":
        return ShardCodec(
            name=name,
            level=_EE_LEVEL,
            library=f"zlib {zlib.ZLIB_RUNTIME_VERSION}",
            pack=None,
            stream=_EarthEngineGzip,
        )
    raise UsageError(f"compressor {name!r} is not known; use fast or ee")


def ee_bytes_promised() -> bool:
    """Whether this Python's zlib writes the very bytes of Earth Engine's; zlib-ng's level 6 differs.

    >>> isinstance(ee_bytes_promised(), bool)
    True
    """
    return "ng" not in zlib.ZLIB_RUNTIME_VERSION

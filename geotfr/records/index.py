"""Records by their number: the index of a file, and random access through it.

``FILE.idx`` has one line ``offset length`` for each record, framing included, in bytes of the uncompressed stream:
the form that NVIDIA DALI and the ``tfrecord`` package use. A gzip file needs a way to its middle as well:
``FILE.members`` has a line ``place offset`` for each gzip member (in the file, in the uncompressed stream) and one
for their ends. Where one member is too large to be inflated for a record, ``FILE.gzidx`` holds the seek points of
``indexed_gzip``.

An index is trusted as far as it proves itself: every record begins where the last one ends, the last one ends where
the file does, and a record read through it has the checksums it tells.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import threading
import zlib
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from isal import isal_zlib

from geotfr.errors import InputError, LimitError, MissingInputError, RecordError
from geotfr.records.crc import masked_crc32c
from geotfr.records.faults import ReadReport
from geotfr.records.framing import RecordBlocks
from geotfr.records.inflate import InflateError
from geotfr.records.layout import FOOTER_BYTES, FRAME_BYTES, HEADER_BYTES, frame_header
from geotfr.records.ranges import LocalFile, open_ranges
from geotfr.records.stream import open_stream
from geotfr.regular_files import open_own_file
from geotfr.stores.path import StorePath, any_path, is_local

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geotfr.records.ranges import RangeFile

    PathLike = str | os.PathLike[str]

__all__ = ["IndexedRecords", "RecordIndex", "hop_index", "index_names", "read_index", "scan_index", "seek_points"]

LARGEST_MEMBER_BYTES = 32 << 20
"""Members of more uncompressed bytes get seek points: one record shall not cost the whole file."""

SEEK_SPACING_BYTES = 4 << 20

_TEXT_BYTES = 1 << 20
_MOST_TEXT_BYTES = 1 << 31
_MOST_DEFLATED = 1032
"""DEFLATE makes no more than so many bytes of one."""


@dataclass(frozen=True, slots=True)
class RecordIndex:
    """Where the records of one file are.

    Attributes
    ----------
    offsets, lengths
        ``(n,) int64``: start and size of each record in the uncompressed stream, framing included.
    members
        ``(m + 1, 2) int64``: place of each gzip member in the file and in the uncompressed stream, then the ends of
        both; None for a plain file.
    """

    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]
    members: NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def needs_seek_points(self) -> bool:
        """Whether a gzip member is too large to be read as a whole."""
        return self.members is not None and int(np.diff(self.members[:, 1]).max(initial=0)) > LARGEST_MEMBER_BYTES

    def idx_text(self) -> bytes:
        """The content of ``FILE.idx``."""
        return _text(self.offsets, self.lengths)

    def members_text(self) -> bytes:
        """The content of ``FILE.members``; empty for a plain file."""
        return b"" if self.members is None else _text(self.members[:, 0], self.members[:, 1])


def index_names(name: str) -> tuple[str, ...]:
    """The names of all files that an index of the record file ``name`` may have."""
    return tuple(f"{name}{suffix}" for suffix in (".idx", ".members", ".gzidx"))


def idx_path(path: PathLike) -> Path:
    """``FILE.idx``."""
    return any_path(f"{os.fspath(path)}.idx")


def members_path(path: PathLike) -> Path:
    """``FILE.members``."""
    return any_path(f"{os.fspath(path)}.members")


def seek_points_path(path: PathLike) -> Path:
    """``FILE.gzidx``."""
    return any_path(f"{os.fspath(path)}.gzidx")


def scan_index(path: PathLike) -> RecordIndex:
    """The index of the file at ``path``, from reading all of it with every checksum.

    Raises
    ------
    RecordError
        A damaged file.
    InputError
        A zlib file, which has no way to its middle.
    """
    name = os.fspath(path)
    starts, sizes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    with open_stream(name) as stream:
        if stream.compression == "zlib":
            raise InputError(f"{name}: a zlib file has no random access; write it plain or as gzip")
        for block in RecordBlocks(stream, report=ReadReport()):
            starts.append(block.starts + block.offset)
            sizes.append(block.sizes)
        members = None
        if stream.compression == "gzip":
            members = np.array([*stream.member_places(), (stream.file_bytes, stream.delivered)], np.int64)
    return RecordIndex(np.concatenate(starts), np.concatenate(sizes), members)


def hop_index(path: PathLike) -> RecordIndex:
    """The index of a plain file, from its headers alone: payloads are passed over unread.

    For large records this costs a look each, where :func:`scan_index` reads the whole file.

    Raises
    ------
    RecordError
        A length whose checksum is wrong, or a cut record.
    """
    name = os.fspath(path)
    sizes: list[int] = []
    place = 0
    with open_ranges(name) as file:
        end = file.size
        while place < end:
            header = file.pread(HEADER_BYTES, place)
            length = int.from_bytes(header[:8], "little")
            if len(header) < HEADER_BYTES or header != frame_header(length) or place + length + FRAME_BYTES > end:
                raise RecordError(
                    f"{name}: record {len(sizes)} at byte {place}: no whole record is there; run 'geotfr verify', then"
                    " fetch or export the file again"
                )
            sizes.append(length + FRAME_BYTES)
            place += sizes[-1]
    lengths = np.array(sizes, np.int64)
    return RecordIndex(np.cumsum(lengths) - lengths, lengths, None)


def read_index(path: PathLike, *, base: PathLike | None = None) -> RecordIndex:
    """The index of the file at ``path``.

    Parameters
    ----------
    base
        What the names of its index files begin with; None is ``path``: they lie beside it.

    Raises
    ------
    MissingInputError
        The file or its index isn't there.
    RecordError
        The index is torn, or it is one of another file.
    """
    name = os.fspath(path)
    with open_stream(name) as stream:
        file_bytes, is_gzip = stream.file_bytes, stream.compression == "gzip"
    base = name if base is None else base
    offsets, lengths = _columns(idx_path(base))
    members = None
    end = file_bytes
    if is_gzip:
        heads, made = _columns(members_path(base))
        if not len(heads) or heads[-1] != file_bytes or (np.diff(heads) <= 0).any() or (np.diff(made) < 0).any():
            raise _stale(members_path(base), f"it ends at byte {heads[-1] if len(heads) else 0} of {file_bytes}")
        members = np.stack([heads, made], axis=1)
        end = int(made[-1])
        if end > file_bytes * _MOST_DEFLATED:
            raise _stale(members_path(base), f"{file_bytes:,} bytes can't hold {end:,}")
    ends = offsets + lengths
    if (lengths < FRAME_BYTES).any() or not np.array_equal(offsets, np.concatenate([[0], ends[:-1]])[: len(ends)]):
        raise _stale(idx_path(base), "its records don't follow each other")
    if (int(ends[-1]) if len(ends) else 0) != end:
        raise _stale(
            idx_path(base), f"its last record ends at byte {int(ends[-1]) if len(ends) else 0}, the data at {end}"
        )
    return RecordIndex(offsets, lengths, members)


def seek_points(path: PathLike) -> bytes:
    """The content of ``FILE.gzidx``: ``indexed_gzip``'s seek points, a few MiB apart.

    Raises
    ------
    InputError
        ``indexed_gzip`` isn't installed.
    """
    out = io.BytesIO()
    with _indexed_gzip(os.fspath(path), index_file=None) as file:
        file.build_full_index()
        file.export_index(fileobj=out)
    return out.getvalue()


class IndexedRecords(Sequence[bytes]):
    """The payloads of one file by number; may be pickled, and used by several threads and after a fork.

    Parameters
    ----------
    path
        A plain or gzip file.
    index
        Its index; None reads the one beside it.
    seek_points
        Where the seek points of a large gzip member are, if not in ``FILE.gzidx``.

    Attributes
    ----------
    locations
        The index in use.

    Raises
    ------
    RecordError
        The index is torn or stale; on access also where a record isn't what index and checksums say.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> record = bytes.fromhex("16000000000000004f61be280a140a120a026231120c120a0a080000c03f000000404115a86a")
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.tfrecord"
    ...     _ = path.write_bytes(record * 3)
    ...     with IndexedRecords(path, scan_index(path)) as records:
    ...         len(records), records[2] == record[12:-4]
    (3, True)
    """

    def __init__(
        self, path: PathLike, index: RecordIndex | None = None, *, seek_points: PathLike | None = None
    ) -> None:
        self.path = os.fspath(path)
        self._seek_points = seek_points_path(path) if seek_points is None else Path(seek_points)
        self.locations = read_index(path) if index is None else index
        self._lock = threading.Lock()
        self._source: _Bytes | None = None
        self._process = 0

    def __getstate__(self) -> tuple[str, RecordIndex, Path]:
        return self.path, self.locations, self._seek_points

    def __setstate__(self, state: tuple[str, RecordIndex, Path]) -> None:
        path, index, seek_points = state
        self.__init__(path, index, seek_points=seek_points)  # type: ignore[misc]  # opened anew where it is unpickled

    def __len__(self) -> int:
        return len(self.locations)

    @overload
    def __getitem__(self, number: int) -> bytes: ...
    @overload
    def __getitem__(self, number: slice) -> list[bytes]: ...
    def __getitem__(self, number: int | slice) -> bytes | list[bytes]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        if not -len(self) <= number < len(self):
            raise IndexError(f"{self.path}: record {number} of {len(self)}")
        number %= len(self)
        offset, length = int(self.locations.offsets[number]), int(self.locations.lengths[number])
        record = self._opened().read(offset, length)
        payload = record[HEADER_BYTES:-FOOTER_BYTES]
        footer = masked_crc32c(payload).to_bytes(4, "little")
        is_framed = len(record) == length and record[:HEADER_BYTES] == frame_header(len(payload))
        if not is_framed or record[-FOOTER_BYTES:] != footer:
            raise self.not_there(number)
        return payload

    def not_there(self, number: int) -> RecordError:
        """The error for a record that isn't what index and checksums say."""
        offset, length = int(self.locations.offsets[number]), int(self.locations.lengths[number])
        return RecordError(
            f"{self.path}: record {number} at byte {offset}: not the {length} bytes with right checksums that"
            " the index tells; run 'geotfr verify', and 'geotfr index --overwrite' if the file is good"
        )

    def __iter__(self) -> Iterator[bytes]:
        for number in range(len(self)):
            yield self[number]

    def reader(self) -> Callable[[int, memoryview], int]:
        """A function (offset, view) that fills a view with the uncompressed stream, and tells how many bytes it had.

        It is good until the file is closed, in this process.
        """
        return self._opened().read_into

    def scatterer(self) -> Callable[[int, Sequence[NDArray[Any]]], int] | None:
        """As :meth:`reader`, into several arrays one after the other; None where that is no single call."""
        source = self._opened()
        return source.scatter if isinstance(source, _PlainBytes) and hasattr(os, "preadv") else None

    def close(self) -> None:
        """Close the file; the next access opens it again."""
        with self._lock:
            if self._source is not None and self._process == os.getpid():
                self._source.close()
            self._source = None

    def __enter__(self) -> IndexedRecords:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # Also of an object whose making failed. At the end of the process modules are taken apart, and files closed.
        if not is_finalizing() and getattr(self, "_source", None) is not None:
            self.close()

    def _opened(self) -> _Bytes:
        with self._lock:
            # A descriptor's place is shared across a fork, and seek points are no copies.
            if self._source is None or self._process != os.getpid():
                self._source = _open(self.path, self.locations, self._seek_points)
                self._process = os.getpid()
            return self._source


class _Bytes(ABC):
    """Random access to an uncompressed stream."""

    @abstractmethod
    def read(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``; fewer at the end."""

    def read_into(self, offset: int, view: memoryview) -> int:
        """Fill ``view`` from ``offset``; how many bytes there were."""
        data = self.read(offset, len(view))
        view[: len(data)] = data
        return len(data)

    @abstractmethod
    def close(self) -> None: ...


class _StoredBytes(_Bytes):
    def __init__(self, file: RangeFile) -> None:
        self._file = file

    def read(self, offset: int, length: int) -> bytes:
        return self._file.pread(length, offset)

    def close(self) -> None:
        self._file.close()


class _PlainBytes(_StoredBytes):
    def __init__(self, file: LocalFile) -> None:
        super().__init__(file)
        self._descriptor = file.descriptor

    def read_into(self, offset: int, view: memoryview) -> int:
        if not hasattr(os, "preadv"):
            return super().read_into(offset, view)
        done = 0
        # Linux reads at most 2 GiB - 4 KiB at once.
        while done < len(view):
            got = os.preadv(self._descriptor, [view[done:]], offset + done)
            if not got:
                break
            done += got
        return done

    def scatter(self, offset: int, views: Sequence[NDArray[Any]]) -> int:
        """Fill ``views`` from ``offset``; how many bytes there were."""
        return os.preadv(self._descriptor, [view.data for view in views], offset)


class _MemberBytes(_Bytes):
    """Inflates whole members, and keeps the last one."""

    def __init__(self, path: str, members: NDArray[np.int64]) -> None:
        self._path = path
        self._file = open_ranges(path)
        self._places = members[:, 0].tolist()
        self._starts = members[:, 1].tolist()
        self._kept: tuple[int, bytes] = (-1, b"")

    def read(self, offset: int, length: int) -> bytes:
        # The last of those that begin there: members may be empty.
        number = bisect_right(self._starts, offset, hi=len(self._starts) - 1) - 1
        parts = []
        while length > 0 and 0 <= number < len(self._places) - 1:
            skip = offset - self._starts[number]
            part = self._member(number)[skip : skip + length]
            parts.append(part)
            offset, length, number = offset + len(part), length - len(part), number + 1
        return b"".join(parts)

    def _member(self, number: int) -> bytes:
        kept, data = self._kept
        if kept == number:
            return data
        place = self._places[number]
        packed = self._file.pread(self._places[number + 1] - place, place)
        size = self._starts[number + 1] - self._starts[number]
        try:
            data = isal_zlib.decompressobj(zlib.MAX_WBITS + 16).decompress(packed, size + 1)
        except InflateError as error:
            raise _stale(members_path(self._path), f"no member of {size} bytes is at byte {place}") from error
        if len(data) != size:
            raise _stale(members_path(self._path), f"the member at byte {place} has {len(data)} bytes, not {size}")
        # One assignment, so that threads see a number with its own data.
        self._kept = (number, data)
        return data

    def close(self) -> None:
        self._file.close()


class _SoughtBytes(_Bytes):
    """Through ``indexed_gzip``, one thread at a time."""

    def __init__(self, path: str, points: Path) -> None:
        try:
            open_own_file(points).close()
        except FileNotFoundError as error:
            raise MissingInputError(f"{points}: no such file; run 'geotfr index {path}'") from error
        self._lock = threading.Lock()
        self._points = points
        self._file = _indexed_gzip(path, index_file=str(points))

    def read(self, offset: int, length: int) -> bytes:
        with self._lock:
            try:
                self._file.seek(offset)
                return bytes(self._file.read(length))
            except Exception as error:
                # Its own errors share no class.
                raise _stale(self._points, f"byte {offset} can't be reached: {error}") from error

    def close(self) -> None:
        self._file.close()


def _open(path: str, index: RecordIndex, points: Path) -> _Bytes:
    if index.members is None:
        file = open_ranges(path)
        return _PlainBytes(file) if isinstance(file, LocalFile) else _StoredBytes(file)
    return _SoughtBytes(path, points) if index.needs_seek_points else _MemberBytes(path, index.members)


def _indexed_gzip(path: str, *, index_file: str | None) -> Any:
    try:
        library: Any = importlib.import_module("indexed_gzip")
    except ImportError as error:
        raise InputError(
            f"{path}: a gzip member is too large for random access; install geotfr[index] (indexed_gzip), or write"
            " the file again with geotfr's members"
        ) from error
    try:
        place = any_path(path)
        if isinstance(place, StorePath):
            return library.IndexedGzipFile(
                fileobj=place.open("rb"), spacing=SEEK_SPACING_BYTES, index_file=index_file, drop_handles=False
            )
        return library.IndexedGzipFile(path, spacing=SEEK_SPACING_BYTES, index_file=index_file, drop_handles=False)
    except Exception as error:
        # Its own errors share no class.
        raise _stale(seek_points_path(path), str(error)) from error


def _text(first: NDArray[np.int64], second: NDArray[np.int64]) -> bytes:
    return "".join(f"{a} {b}\n" for a, b in zip(first.tolist(), second.tolist(), strict=True)).encode()


def _columns(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The two columns of an index file, which may be of anyone's making."""
    text = bytearray()
    try:
        with open_own_file(path) if is_local(path) else path.open("rb") as file:
            while piece := file.read(_TEXT_BYTES):
                text += piece
                if len(text) > _MOST_TEXT_BYTES:
                    raise LimitError(f"{path}: an index of more than {_MOST_TEXT_BYTES:,} bytes; index the file again")
                if piece.translate(None, b"0123456789 \n"):
                    raise _stale(path, "it is no lines of two numbers")
    except FileNotFoundError as error:
        raise MissingInputError(f"{path}: no such index; run 'geotfr index' on the record file") from error
    except LimitError:
        raise
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror}") from error
    fields = bytes(text).split()
    is_whole = len(fields) == 2 * text.count(b"\n") and (not text or text.endswith(b"\n"))
    # 18 digits fit an int64.
    if not is_whole or max(map(len, fields), default=0) > 18:
        raise _stale(path, "it is torn, or no lines of two numbers")
    numbers = np.array(fields, dtype=bytes).astype(np.int64).reshape(-1, 2)
    return numbers[:, 0], numbers[:, 1]


def _stale(path: Path, problem: str) -> RecordError:
    return RecordError(f"{path}: the index doesn't fit the file: {problem}; run 'geotfr index --overwrite'")

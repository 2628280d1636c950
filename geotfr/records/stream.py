"""A record file as a stream of its uncompressed bytes, whatever its compression and its name.

A file is opened by its content. A record header proves itself by its checksum, so plain files are known for certain;
gzip and zlib are known by their magic bytes; a text file is named as such.
"""

from __future__ import annotations

import codecs
import io
import os
import stat
from typing import TYPE_CHECKING, BinaryIO, Literal, cast

from geotfr.errors import InputError, MissingInputError, RecordError, UsageError
from geotfr.records.bytestream import ByteStream, Compression, PlainStream
from geotfr.records.crc import masked_crc32c
from geotfr.records.inflate import CHUNK_BYTES, GZIP_MAGIC, GzipStream, ZlibStream
from geotfr.records.layout import HEADER_BYTES
from geotfr.stores.path import StorePath, input_path

if TYPE_CHECKING:
    from geotfr.records.faults import ReadReport
    from geotfr.records.summed import FileSum

__all__ = ["ByteStream", "Compression", "open_stream"]

_DEFLATE = 8
_PACKED = {
    b"PK\x03\x04": "a zip archive",
    b"PK\x05\x06": "an empty zip archive",
    b"\x28\xb5\x2f\xfd": "a zstd file",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ\0": "an xz file",
    b"\x04\x22\x4d\x18": "an lz4 file",
    b"\xff\x06\0\0sNaPpY": "a snappy file",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!\x1a\x07": "a rar archive",
}
"""How files begin that may hold another one."""

_FORMATS = {
    b"II*\0": "a TIFF file",
    b"MM\0*": "a TIFF file",
    b"II+\0": "a BigTIFF file",
    b"MM\0+": "a BigTIFF file",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file",
    b"CDF\x01": "a netCDF file",
    b"CDF\x02": "a netCDF file",
    b"CDF\x05": "a netCDF file",
    b"\x89PNG\r\n\x1a\n": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"RIFF": "a RIFF file, as WebP is",
    b"\0\0\0\x0cjP  ": "a JPEG 2000 picture",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"\x93NUMPY": "a NumPy array",
    b"SQLite format 3\0": "an SQLite file, as GeoPackage is",
    b"fgb\x03": "a FlatGeobuf file",
    b"\0\0\x27\x0a": "a Shapefile",
    b"%PDF": "a PDF file",
}
"""How files of other formats begin."""

_NAMES = {"none": "plain TFRecord", "gzip": "gzip", "zlib": "zlib"}
# Printable ASCII, white space, and what UTF-8 is made of.
_TEXT_BYTES = bytes((*range(0x20, 0x7F), 0x09, 0x0A, 0x0C, 0x0D, *range(0x80, 0x100)))


def open_stream(
    path: str, compression: Compression = "auto", report: ReadReport | None = None, *, sums: FileSum | None = None
) -> ByteStream:
    """The stream of the file at ``path``, opened by its content.

    Parameters
    ----------
    compression
        ``auto``, or what the file must be; anything else there is an error that says what it is.
    report
        Takes the notes and warnings.
    sums
        Sums up the bytes of the file.

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
    if sums is not None:
        file = sums.of(file)
    try:
        head = _first_bytes(file, path)
        found = _compression_of(path, head)
        found_name = _NAMES[found] if found != "none" or _is_header(head) else "no TFRecord header, gzip or zlib"
        named_gzip = path.endswith(".gz")
        if not head:
            if named_gzip or compression in ("gzip", "zlib"):
                wanted = "gzip" if compression in ("auto", "none") else compression
                raise RecordError(f"{path}: 0 bytes, but even an empty {wanted} file has a header; export it again")
        elif compression not in ("auto", found):
            raise RecordError(
                f"{path}: compression={compression!r} was asked, but the content is {found_name}; "
                "use compression='auto', or fetch the file again"
            )
        if report is not None and head and named_gzip != (found == "gzip"):
            report.notes.append(f"{path}: the content is {found_name}, whatever the name says; read by its content")
        file.seek(0)
    except BaseException:
        file.close()
        raise
    if found == "none":
        return PlainStream(path, cast("BinaryIO", file), file_bytes)
    buffered: BinaryIO = io.BufferedReader(file, CHUNK_BYTES)
    return (GzipStream if found == "gzip" else ZlibStream)(path, buffered, file_bytes)


def _open_file(path: str) -> tuple[io.RawIOBase, int]:
    place = input_path(path)
    if isinstance(place, StorePath):
        stored = place.raw()
        return stored, stored.size
    try:
        # Asked first: opening a pipe would wait for its other end.
        if not stat.S_ISREG(place.stat().st_mode):
            raise InputError(f"{path}: not a regular file; give a TFRecord file")
        file = io.FileIO(place)
    except FileNotFoundError as error:
        raise MissingInputError(f"{path}: no such file") from error
    except OSError as error:
        raise InputError(f"{path}: can't be opened: {error.strerror or error}") from error
    return file, os.fstat(file.fileno()).st_size


def _first_bytes(file: io.RawIOBase, path: str) -> bytes:
    try:
        return file.read(512) or b""
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}") from error


def _compression_of(path: str, head: bytes) -> Literal["none", "gzip", "zlib"]:
    """What a file that begins with ``head`` is; raises RecordError for text, and for another format that is known."""
    if not head or _is_header(head):
        return "none"
    if head.startswith(GZIP_MAGIC):
        return "gzip"
    other = _other_format(head)
    if other:
        raise RecordError(f"{path}: {other[0]}, not TFRecord; {other[1]}")
    # A damaged header of a plain file has zeros in the upper half of its length; deflate has not.
    if head[0] & 0x8F == _DEFLATE and int.from_bytes(head[:2], "big") % 31 == 0 and head[4:8].strip(b"\0"):
        return "zlib"
    kind = _text_kind(head)
    if kind:
        raise RecordError(f"{path}: {kind}, not TFRecord; fetch the file itself")
    return "none"


def _other_format(head: bytes) -> tuple[str, str] | None:
    """The name of the format that ``head`` begins with, and what to do; None for one that isn't known."""
    for begin, name in _PACKED.items():
        if head.startswith(begin):
            return name, "unpack it, and give the file inside"
    for begin, name in _FORMATS.items():
        if head.startswith(begin):
            return name, "give the TFRecord file"
    return ("a tar archive", "unpack it, and give the file inside") if head[257:262] == b"ustar" else None


def _is_header(head: bytes) -> bool:
    """Whether ``head`` begins with a length that its checksum proves."""
    return len(head) >= HEADER_BYTES and masked_crc32c(head[:8]) == int.from_bytes(head[8:12], "little")


def _text_kind(head: bytes) -> str | None:
    """What kind of text ``head`` is, or None if it isn't text."""
    if len(head) < HEADER_BYTES or head.translate(None, _TEXT_BYTES):
        return None
    try:
        # Not to the end, which may cut a character.
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return None
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer (text)"
    if start.startswith((b"<!doctype html", b"<html")):
        return "an HTML page (text)"
    if start.startswith((b"{", b"[")):
        return "JSON text"
    return "a text file"

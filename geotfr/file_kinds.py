"""What a file is, by its first bytes: a name proves nothing, and opening is where hostile files strike."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HEAD_BYTES", "FileKind", "is_tiff", "kind_of"]

HEAD_BYTES = 512
"""How many bytes of a file :func:`kind_of` wants."""

TIFF_MAGICS = (b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+")
"""TIFF and BigTIFF, each in both byte orders."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file.

    Attributes
    ----------
    words
        What it is, as an error says it.
    driver
        GDAL's driver for it; empty where GDAL has none, or where the bytes don't tell which.
    """

    words: str
    driver: str = ""


_MAGICS: tuple[tuple[bytes, FileKind], ...] = (
    *((magic, FileKind("a TIFF", "GTiff")) for magic in TIFF_MAGICS),
    (b"\x89PNG\r\n\x1a\n", FileKind("a PNG picture", "PNG")),
    (b"\xff\xd8\xff", FileKind("a JPEG picture", "JPEG")),
    (b"GIF8", FileKind("a GIF picture", "GIF")),
    (b"BM", FileKind("a BMP picture", "BMP")),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", FileKind("a JPEG 2000 file", "JP2OpenJPEG")),
    (b"\xff\x4f\xff\x51", FileKind("a JPEG 2000 codestream", "JP2OpenJPEG")),
    (b"\x89HDF\r\n\x1a\n", FileKind("an HDF5 (or NetCDF-4) file", "netCDF")),
    (b"\x0e\x03\x13\x01", FileKind("an HDF4 file", "HDF4")),
    (b"CDF\x01", FileKind("a NetCDF file", "netCDF")),
    (b"CDF\x02", FileKind("a NetCDF file", "netCDF")),
    (b"CDF\x05", FileKind("a NetCDF file", "netCDF")),
    (b"EHFA_HEADER_TAG", FileKind("an Erdas Imagine file", "HFA")),
    (b"NITF", FileKind("a NITF file", "NITF")),
    (b"GRIB", FileKind("a GRIB file", "GRIB")),
    (b"%PDF", FileKind("a PDF document")),
    (b"PK\x03\x04", FileKind("a zip archive")),
    (b"\x1f\x8b", FileKind("a gzip file")),
    (b"SQLite format 3\x00", FileKind("an SQLite or GeoPackage file")),
    (b"version https://git-lfs", FileKind("a Git LFS pointer, not the file itself")),
)

_XML_STARTS: tuple[tuple[bytes, FileKind], ...] = (
    (b"<VRTDataset", FileKind("a VRT (XML that names other files)", "VRT")),
    (b"<MRF_META", FileKind("an MRF description (XML)", "MRF")),
    (b"<GDAL_WMS", FileKind("a WMS description (XML)", "WMS")),
    (b"<html", FileKind("an HTML page")),
    (b"<!doctype html", FileKind("an HTML page")),
    (b"<", FileKind("an XML file")),
    (b"{", FileKind("a JSON file")),
)

_TFRECORD_LIMIT = 1 << 40
"""A record's length that no real record reaches: eight bytes below it read as a TFRecord's header."""


def is_tiff(head: bytes) -> bool:
    """Whether ``head`` starts as TIFF or BigTIFF does.

    >>> is_tiff(b"MM\\x00*rest"), is_tiff(b"<VRTDataset")
    (True, False)
    """
    return head.startswith(TIFF_MAGICS)


def kind_of(head: bytes) -> FileKind:
    """What a file with the first bytes ``head`` is.

    >>> kind_of(b"MM\\x00*rest").driver
    'GTiff'
    >>> kind_of(b"  <VRTDataset>").words
    'a VRT (XML that names other files)'
    """
    for magic, kind in _MAGICS:
        if head.startswith(magic):
            return kind
    if not head:
        return FileKind("an empty file")
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    for start, kind in _XML_STARTS:
        if text[: len(start)].lower() == start.lower():
            return kind
    if _is_text(head):
        return FileKind("a text file")
    if len(head) >= 16 and 0 < int.from_bytes(head[:8], "little") < _TFRECORD_LIMIT and head[12:13] == b"\x0a":
        return FileKind("a TFRecord file")
    return FileKind("of a kind that is not known")


def _is_text(head: bytes) -> bool:
    printable = sum(byte >= 0x20 or byte in b"\t\n\r\f" for byte in head)
    return printable == len(head)

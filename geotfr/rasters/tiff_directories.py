"""The directories of a TIFF, read without GDAL: how many images it has, and the texts of their CRSs and nodata.

GDAL interprets a CRS when it opens a raster, so its text is read before; and it makes a number of any nodata.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from geotfr.errors import InputError

__all__ = ["TiffDirectory", "read_directories"]

ReadAt = Callable[[int, int], bytes]
"""Bytes of a file: (position, how many at most)."""

MOST_DIRECTORIES = 1 << 16
MOST_TEXT_BYTES = 1 << 20
_MOST_ENTRIES = 1 << 12
_MOST_NODATA_BYTES = 256
_KIND_OF_IMAGE, _GEO_TEXTS, _NODATA = 254, 34737, 42113
_REDUCED_OR_MASK = 1 | 4
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}


@dataclass(frozen=True, slots=True)
class TiffDirectory:
    """An image of a TIFF.

    Attributes
    ----------
    is_page
        Whether it is an image of its own, not an overview or a mask of another one.
    crs_texts
        The texts of its GeoTIFF keys.
    nodata
        The text of GDAL's nodata tag; None without one.
    """

    is_page: bool
    crs_texts: str
    nodata: str | None


def read_directories(read_at: ReadAt, *, where: str, most: int = MOST_DIRECTORIES) -> list[TiffDirectory]:
    """The first ``most`` directories, in order; those up to where the file is damaged, as GDAL tells the damage.

    **Source**: TIFF 6.0; BigTIFF; GeoTIFF 1.1, GeoAsciiParamsTag.

    Raises
    ------
    InputError
        Texts of GeoTIFF keys that have more than 1 MiB, or lie beyond the file's end.
    """
    head = read_at(0, 16)
    order = ">" if head[:2] == b"MM" else "<"
    is_big = 43 in head[2:4]
    offset_form, count_form, entry = ("Q", "Q", 20) if is_big else ("I", "H", 12)
    found: list[TiffDirectory] = []
    seen: set[int] = set()
    try:
        (at,) = struct.unpack_from(order + offset_form, head, 8 if is_big else 4)
        while at and at not in seen and len(found) < most:
            seen.add(at)
            start = struct.calcsize(count_form)
            (count,) = struct.unpack(order + count_form, read_at(at, start))
            if count > _MOST_ENTRIES and is_big:
                break
            table = read_at(at + start, count * entry + struct.calcsize(offset_form))
            found.append(_directory(table, count, order, read_at, is_big=is_big, where=where))
            (at,) = struct.unpack_from(order + offset_form, table, count * entry)
    except struct.error:
        pass
    return found


def _directory(table: bytes, count: int, order: str, read_at: ReadAt, *, is_big: bool, where: str) -> TiffDirectory:
    form, inline = ("HHQ8s", 8) if is_big else ("HHI4s", 4)
    size = struct.calcsize(order + form)
    is_page, texts, nodata = True, [], None
    for index in range(min(count, len(table) // size)):
        tag, kind, values, value = struct.unpack_from(order + form, table, index * size)
        if tag == _KIND_OF_IMAGE and kind in (3, 4):
            (flags,) = struct.unpack_from(order + ("H" if kind == 3 else "I"), value)
            is_page = not flags & _REDUCED_OR_MASK
        if tag in (_GEO_TEXTS, _NODATA):
            length = values * _SIZES.get(kind, 8)
            if length > inline:
                (at,) = struct.unpack(order + ("Q" if is_big else "I"), value)
                value = b"" if length > MOST_TEXT_BYTES else read_at(at, length)
            if tag == _NODATA:
                nodata = value[: min(length, _MOST_NODATA_BYTES)].partition(b"\0")[0].decode("latin-1")
            elif len(value) < length:
                raise InputError(
                    f"{where}: the texts of its GeoTIFF keys have {length:,} bytes, of which the file holds"
                    f" {len(value):,} and {MOST_TEXT_BYTES:,} are allowed; remove its georeference"
                )
            else:
                texts.append(value.decode("latin-1"))
    return TiffDirectory(is_page, "\n".join(texts), nodata)

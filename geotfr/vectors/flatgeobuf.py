"""The texts of a FlatGeobuf's CRS, read before GDAL opens the file.

**Source**: flatgeobuf's ``header.fbs``, and FlatBuffers' binary format.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from geotfr.errors import InputError, LimitError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["MAX_HEADER_BYTES", "crs_texts"]

MAX_HEADER_BYTES = 16 << 20
"""Of a FlatGeobuf's header; a table of 10,000 columns takes 1 MiB."""

_HEADER_AT = 12
_CRS = 10
_TEXTS_OF_CRS = (0, 4, 5)
"""Fields ``org``, ``wkt`` and ``code_string``."""


def crs_texts(path: Path) -> list[str]:
    """The texts that define the CRS of the file.

    Raises
    ------
    InputError
        The header is cut or damaged.
    LimitError
        It is larger than :data:`MAX_HEADER_BYTES`.
    """
    with path.open("rb") as file:
        start = file.read(_HEADER_AT)
        size = int.from_bytes(start[8:], "little")
        if size > MAX_HEADER_BYTES:
            raise LimitError(f"{path}: a header of {size:,} bytes; allowed are {MAX_HEADER_BYTES:,}")
        header = file.read(size)
    try:
        (root,) = struct.unpack_from("<I", header)
        return [_text(header, at) for crs in _fields(header, root, _CRS) for at in _fields(header, crs, *_TEXTS_OF_CRS)]
    except (struct.error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: can't be read: its header is cut or damaged") from error


def _fields(buffer: bytes, table: int, *numbers: int) -> Iterator[int]:
    """Where the tables or texts of these fields begin, for those that are there."""
    vtable = table - struct.unpack_from("<i", buffer, table)[0]
    if vtable < 0:
        raise struct.error
    (size,) = struct.unpack_from("<H", buffer, vtable)
    for number in numbers:
        place = 4 + 2 * number
        offset = struct.unpack_from("<H", buffer, vtable + place)[0] if place < size else 0
        if offset:
            yield table + offset + struct.unpack_from("<I", buffer, table + offset)[0]


def _text(buffer: bytes, at: int) -> str:
    (size,) = struct.unpack_from("<I", buffer, at)
    return buffer[at + 4 : at + 4 + size].decode()

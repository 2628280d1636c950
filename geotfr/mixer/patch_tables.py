"""Patch tables by their content, without the library that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geotfr.errors import InputError
from geotfr.records.ranges import open_ranges

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PATCH_TABLE_KEY", "is_patch_table"]

PATCH_TABLE_KEY = "geotfr.patch_table"
"""Under this key of the file's metadata stands what the table belongs to, as JSON."""

_MAGIC = b"PAR1"
_TAIL_BYTES = 8
_LARGEST_FOOTER_BYTES = 64 << 20


def is_patch_table(path: str | Path) -> bool:
    """Whether ``path`` is a Parquet file whose metadata have the key of a patch table."""
    try:
        with open_ranges(str(path)) as file:
            end = file.size
            tail = file.pread(_TAIL_BYTES, max(end - _TAIL_BYTES, 0))
            size = int.from_bytes(tail[:4], "little")
            if tail[4:] != _MAGIC or not 0 < size <= min(end - _TAIL_BYTES, _LARGEST_FOOTER_BYTES):
                return False
            footer = file.pread(size, end - _TAIL_BYTES - size)
    except (OSError, InputError):
        return False
    return PATCH_TABLE_KEY.encode() in footer

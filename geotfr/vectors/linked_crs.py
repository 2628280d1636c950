"""GeoJSON whose CRS is a link, or names a file: GDAL would fetch or open it while it opens the GeoJSON.

GDAL has no switch for that, so the file's text is searched for a ``crs`` member, whatever its case and escapes, and the
member's own text decides.
"""

from __future__ import annotations

import json
import mmap
import re
from typing import TYPE_CHECKING, Any

from geotfr.errors import InputError
from geotfr.grid.crs import check_crs_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["check_no_linked_crs"]

_CRS_MEMBER = re.compile(
    rb'"(?:[cC]|\\u00[46]3)(?:[rR]|\\u00[57]2)(?:[sS]|\\u00[57]3)"\s*:\s*(?=\{)',
)
# As much as decides that a file is GeoJSON.
_HEAD_BYTES = 512
_MOST_CRS_BYTES = 1 << 16
_NAMED = ("name", "epsg", "ogc")


def check_no_linked_crs(path: Path) -> None:
    """Refuse a JSON file with a CRS that is not given by its name, or whose name is a file's.

    Raises
    ------
    InputError
        A ``crs`` member is a link, names a file or an address, or isn't JSON.
    """
    with path.open("rb") as file:
        if not file.read(_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            for member in _CRS_MEMBER.finditer(text):
                _check(path, text[member.end() : member.end() + _MOST_CRS_BYTES])


def _check(path: Path, text: bytes) -> None:
    try:
        found, _ = json.JSONDecoder(object_pairs_hook=list).raw_decode(text.decode("utf-8", errors="replace"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: its member 'crs' is not JSON; remove it, and give --crs") from error
    kinds = [str(value).lower() for key, value in found if str(key).lower() == "type"]
    if any(kind not in _NAMED for kind in kinds):
        raise InputError(
            f"{path}: its CRS is of type {kinds[0]!r}, which is not followed; remove the member 'crs', and give --crs"
        )
    for name in _texts(found):
        check_crs_text(name, where=str(path))


def _texts(pairs: Any) -> Iterator[str]:
    """All texts in nested lists of pairs, however the names that lead to them are spelt or repeated."""
    if isinstance(pairs, str):
        yield pairs
    elif isinstance(pairs, list | tuple):
        for part in pairs:
            yield from _texts(part)

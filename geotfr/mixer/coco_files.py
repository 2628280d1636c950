"""COCO files of sets by how they begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geotfr.errors import InputError
from geotfr.records.ranges import open_ranges

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["COCO_HEAD", "is_coco"]

COCO_HEAD = '{"info": {"description": "shapes in the patches of a geotfr set'
"""What such a file begins with."""


def is_coco(path: str | Path) -> bool:
    """Whether ``path`` is a COCO file of a set."""
    try:
        with open_ranges(str(path)) as file:
            return file.pread(len(COCO_HEAD), 0) == COCO_HEAD.encode()
    except (OSError, InputError):
        return False

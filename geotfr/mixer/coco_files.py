"""COCO files of sets by how they begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geotfr.stores.path import any_path

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["COCO_HEAD", "is_coco"]

COCO_HEAD = '{"info": {"description": "shapes in the patches of a geotfr set'
"""What such a file begins with."""


def is_coco(path: str | Path) -> bool:
    """Whether ``path`` is a COCO file of a set."""
    try:
        with any_path(path).open("rb") as file:
            return file.read(len(COCO_HEAD)) == COCO_HEAD.encode()
    except OSError:
        return False

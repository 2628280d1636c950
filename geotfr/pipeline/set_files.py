"""Files of a set: which of a folder's are its own, and those that are a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geotfr.mixer import is_manifest, is_mixer

if TYPE_CHECKING:
    from collections.abc import Callable

    from geotfr.mixer import SetNames
    from geotfr.storage import AtomicFile, OutputSet

__all__ = ["belongs_to", "text_file"]


def belongs_to(names: SetNames) -> Callable[[str], bool]:
    """Whether a file of the folder belongs to the set; a JSON file by its content too, for users have others."""

    def belongs(file_name: str) -> bool:
        if not names.is_of_set(file_name):
            return False
        path = names.folder / file_name
        return not file_name.endswith(".json") or is_mixer(path) or is_manifest(path)

    return belongs


def text_file(outputs: OutputSet, text: str) -> AtomicFile:
    """A finished file of the set that holds ``text``."""
    file = outputs.create()
    file.write(text.encode())
    file.finish()
    return file

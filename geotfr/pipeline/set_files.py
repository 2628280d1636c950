"""Files of a set: which of a folder's are its own, and those that are a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geotfr.mixer import is_manifest, is_mixer
from geotfr.mixer.coco_files import is_coco
from geotfr.mixer.patch_tables import is_patch_table
from geotfr.mixer.strict_json import read_json
from geotfr.storage.outputs import open_outputs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from geotfr.mixer import SetNames
    from geotfr.storage import AtomicFile, OutputSet

__all__ = ["belongs_to", "set_at", "text_file"]


def belongs_to(names: SetNames) -> Callable[[str], bool]:
    """Whether a file of the folder belongs to the set; JSON and tables by content too, as users have others."""

    def belongs(file_name: str) -> bool:
        path = names.folder / file_name
        if file_name in names.patch_tables:
            return is_patch_table(path)
        if file_name in names.coco_files:
            return is_coco(path)
        if file_name in names.stac_items:
            return _is_stac_item(path)
        if not names.is_of_set(file_name):
            return False
        return not file_name.endswith(".json") or is_mixer(path) or is_manifest(path)

    return belongs


def _is_stac_item(path: Path) -> bool:
    try:
        found = read_json(path, what="STAC Item")
    except (OSError, ValueError, MemoryError):
        return False
    return found.get("type") == "Feature" and "stac_version" in found


def set_at(
    names: SetNames,
    *,
    overwrite: bool,
    resume: bool = False,
    part: str = "",
    shares_set: bool = False,
    adopts: bool = False,
    makes_folder: bool = True,
    run: str = "",
) -> OutputSet:
    """The output set that has these names, locked; see :func:`geotfr.storage.outputs.open_outputs`."""
    return open_outputs(
        names.folder,
        name=names.name,
        belongs=belongs_to(names),
        overwrite=overwrite,
        make_folder=makes_folder and not names.name,
        resume=resume,
        part=part,
        shares_set=shares_set,
        adopts=adopts,
        run=run,
    )


def text_file(outputs: OutputSet, name: str, text: str) -> AtomicFile:
    """A finished file of the set that holds ``text``, to be called ``name``."""
    file = outputs.create(name)
    file.write(text.encode())
    file.finish()
    return file

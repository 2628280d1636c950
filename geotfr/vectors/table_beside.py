"""The patch table that is meant, and the shards beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from geotfr.errors import DamagedError, MissingInputError
from geotfr.mixer.names import plain_name
from geotfr.mixer.patch_tables import is_patch_table
from geotfr.stores.path import input_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geotfr.vectors.patch_table import PatchTable

    PathLike = str | os.PathLike[str]

__all__ = ["changed_shard", "is_table_name", "shards_beside", "table_of", "wish"]


def is_table_name(path: PathLike) -> bool:
    """Whether a file of that name is a table.

    >>> is_table_name("out/scene-patches.parquet"), is_table_name("out/")
    (True, False)
    """
    return Path(path).suffix.lower() in (".parquet", ".geoparquet")


def table_of(source: PathLike | Sequence[PathLike]) -> Path | None:
    """The patch table that ``source`` names: the file itself, or the one beside a manifest or in a folder.

    Raises
    ------
    MissingInputError
        A table is named that isn't there.
    """
    given = [source] if isinstance(source, str | os.PathLike) else list(source)
    if len(given) != 1:
        return None
    path = input_path(given[0])
    if is_table_name(path):
        if not path.is_file():
            raise MissingInputError(f"{path}: no such file; 'geotfr table' makes a patch table")
        return path
    if path.is_dir():
        tables = [each for each in sorted(path.glob("*patches.parquet")) if is_patch_table(each)]
        return tables[0] if len(tables) == 1 else None
    for word in ("manifest.json", "mixer.json", ".json"):
        if path.name.endswith(word):
            prefix = path.name.removesuffix(word)
            beside = [path.with_name(f"{prefix}{joint}patches.parquet") for joint in ("", "-")]
            return next((each for each in beside if is_patch_table(each)), None)
    return None


def shards_beside(table: PatchTable, numbers: Sequence[int] | None = None) -> list[Path]:
    """The shards of the sets ``numbers``, or of all sets, each once, in order.

    Raises
    ------
    DamagedError
        A shard is missing, or of another size than the table knows.
    """
    sets = table.sets if numbers is None else [table.sets[number] for number in numbers]
    known = dict.fromkeys((name, size) for patches in sets for name, size, _ in patches.shards)
    found = []
    for name, size in known:
        path = table.path.parent / plain_name(name, where=table.path)
        there = path.stat().st_size if path.is_file() else None
        if there != size:
            raise changed_shard(
                path, "is missing" if there is None else f"has {there:,} bytes, the table knows {size:,}"
            )
        found.append(path)
    return found


def changed_shard(path: Path, told: str) -> DamagedError:
    """The error of a shard that isn't the one that the table knows, and what to do."""
    return DamagedError(
        f"{path}: the shard {told}; fetch the set again, or make the table again with 'geotfr table --overwrite'"
    )


def wish(split: str | None, where: str | None) -> str:
    """What is asked of patches, for a message.

    >>> wish("train", "mean_b1 > 3"), wish(None, "mean_b1 > 3")
    ("is in split 'train' and has mean_b1 > 3", 'has mean_b1 > 3')
    """
    asked = [] if split is None else [f"is in split {split!r}"]
    return " and ".join([*asked, *([] if where is None else [f"has {where}"])]) or "is there"

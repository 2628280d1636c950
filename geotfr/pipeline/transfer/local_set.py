"""The files of one set, in the order in which they may appear elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from geotfr.errors import DamagedError, InputError, MissingInputError
from geotfr.mixer import is_manifest, natural_key, read_manifest
from geotfr.mixer.names import SetNames, plain_name
from geotfr.pipeline.set_files import belongs_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from geotfr.mixer import Manifest, ShardInfo

__all__ = [
    "files_of_member",
    "files_of_set",
    "is_member",
    "listed_shards",
    "may_be_member",
    "may_belong",
    "order_of",
    "set_names",
]


def set_names(prefix: str | Path) -> SetNames:
    """The names of the set with ``prefix``, by either naming."""
    return SetNames.for_prefix(prefix, naming="drive", compressed_suffix=".gz")


def may_belong(names: SetNames) -> Callable[[str], bool]:
    """Whether an object may be one of the set by its name alone: a store isn't asked for its content."""
    others = {*names.patch_tables, *names.coco_files}
    return lambda name: name in others or names.is_of_set(name)


def order_of(names: Iterable[str]) -> list[str]:
    """Shards first, then tables, then the mixer, then the manifest, which says that all is there."""

    def rank(name: str) -> int:
        if not name.endswith(".json"):
            return 1 if name.endswith(".parquet") else 0
        return 4 if name.endswith("manifest.json") else 2 if name.endswith("coco.json") else 3

    return sorted(names, key=lambda name: (rank(name), natural_key(name)))


def may_be_member(names: SetNames) -> Callable[[str], bool]:
    """Whether a file name is one that a raster's manifest has where rasters share the set's shards."""
    return lambda name: name.startswith(names.name) and name.endswith("manifest.json") and name not in names.tellers


def is_member(names: SetNames, manifest: Manifest) -> bool:
    """Whether a raster's records are in the shards of ``names``; a raster without records has none anywhere."""
    return manifest.collection is not None and all(names.is_of_set(shard.name) for shard in manifest.shards)


def files_of_member(manifest: str) -> tuple[str, ...]:
    """The names that a raster's own files may have, by that of its manifest."""
    stem = manifest.removesuffix("manifest.json")
    return f"{stem}patches.parquet", f"{stem}mixer.json", manifest


def listed_shards(manifest: Path) -> dict[str, ShardInfo]:
    """The shards that a manifest lists, by name."""
    return {plain_name(shard.name, where=manifest): shard for shard in read_manifest(manifest).shards}


def files_of_set(prefix: str | Path) -> tuple[list[Path], dict[str, ShardInfo]]:
    """The files of the set at ``prefix`` in order, and what its manifest tells of each shard.

    Of a collection whose rasters share the shards, the files of all of them.

    Raises
    ------
    MissingInputError
        There is no such folder, or nothing of the set in it.
    DamagedError
        The manifest lists a shard that isn't there.
    """
    names = set_names(prefix)
    belongs = belongs_to(names)
    try:
        files = [entry.name for entry in names.folder.iterdir() if entry.is_file()]
        found = [name for name in files if belongs(name)]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingInputError(f"{names.folder}: no such folder; give the PREFIX of an export") from error
    except OSError as error:
        raise InputError(f"{names.folder}: the folder can't be read: {error.strerror}") from error
    if not any(not name.endswith((".json", ".parquet")) for name in found):
        raise MissingInputError(f"{prefix}: no shards with this prefix; give the PREFIX of an export")
    listed: dict[str, ShardInfo] = {}
    manifests = [name for name in found if name.endswith(".json") and is_manifest(names.folder / name)]
    for name in filter(may_be_member(names), files):
        path = names.folder / name
        if is_manifest(path) and is_member(names, read_manifest(path)):
            manifests.append(name)
            found += [each for each in files_of_member(name) if each in files]
    for name in manifests:
        listed |= listed_shards(names.folder / name)
    if manifests:
        missing = sorted(listed.keys() - set(found))
        if missing:
            raise DamagedError(
                f"{names.folder / missing[0]}: the manifest lists this shard, and it is not there; export it again"
            )
        found = [name for name in found if name in listed or name.endswith((".json", ".parquet"))]
    return [names.folder / name for name in order_of(found)], listed

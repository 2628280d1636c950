"""Which files are meant: shards, a mixer, a manifest or a folder, in any mixture."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from geotfr.errors import InputError, MissingInputError, UsageError
from geotfr.mixer import (
    Manifest,
    Mixer,
    is_manifest,
    is_shard_name,
    natural_key,
    read_manifest,
    read_mixer,
    shard_number,
    shard_pattern,
    shard_stem,
)
from geotfr.mixer.names import plain_name
from geotfr.mixer.sets import manifest_beside
from geotfr.mixer.store_hint import store_hint
from geotfr.records.faults import Fault
from geotfr.stores.path import input_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    PathLike = str | os.PathLike[str]

__all__ = ["Inputs", "find_inputs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The files of a request.

    Attributes
    ----------
    shards
        Record files, in natural order.
    mixer, mixer_path, manifest, manifest_path
        What tells what the shards should be, if it was named or found; otherwise None.
    faults
        Shards that are missing.
    """

    shards: tuple[Path, ...]
    mixer: Mixer | None = None
    mixer_path: Path | None = None
    manifest: Manifest | None = None
    manifest_path: Path | None = None
    faults: tuple[Fault, ...] = ()


def find_inputs(paths: PathLike | Sequence[PathLike]) -> Inputs:
    """Sort out ``paths``: record files, folders, at most one mixer and one manifest.

    A manifest alone stands for its shards; a mixer alone for the shards that bear its name, or all of its folder.

    Raises
    ------
    MissingInputError, UsageError
        Nothing there, or several sets at once.
    DamagedError
        A mixer or manifest that can't be read.
    """
    given = [input_path(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    if not given:
        raise UsageError("no files; name TFRecord files, a folder, a mixer or a manifest")
    for path in given:
        if not path.exists():
            raise MissingInputError(f"{path}: no such file{store_hint(path)}")
    files = [file for path in given for file in (_members(path) if path.is_dir() else [path])]
    shards = [path for path in files if path.suffix != ".json"]
    documents = [path for path in files if path.suffix == ".json"]
    manifests = [path for path in documents if is_manifest(path)]
    mixers = [path for path in documents if path not in manifests]
    if len(manifests) > 1:
        members = [read_manifest(path) for path in manifests]
        if all(member.collection is not None for member in members):
            return _of_collection(manifests, members, shards)
    for kind, found in (("mixers", mixers), ("manifests", manifests)):
        if len(found) > 1:
            names = ", ".join(path.name for path in found[:6])
            raise UsageError(f"{len(found)} {kind} ({names}); name the files of one set at a time")
    mixer = read_mixer(mixers[0]) if mixers else None
    manifest = read_manifest(manifests[0]) if manifests else None
    if mixer is not None and manifest is None:
        manifest = manifest_beside(mixers[0], mixer)
    if not shards and manifest is not None:
        folder = (manifests or mixers)[0].parent
        shards = [folder / plain_name(shard.name, where=(manifests or mixers)[0]) for shard in manifest.shards]
    elif not shards and mixers:
        shards = _shards_of_mixer(mixers[0])
    if not shards and manifest is None:
        raise MissingInputError(f"{given[0]}: no TFRecord files there (*.tfrecord, *.tfrecord.gz); name them")
    ordered = tuple(sorted(dict.fromkeys(shards), key=natural_key))
    return Inputs(
        shards=ordered,
        mixer=mixer,
        mixer_path=mixers[0] if mixers else None,
        manifest=manifest,
        manifest_path=manifests[0] if manifests else None,
        faults=tuple(_gaps(ordered)),
    )


def _of_collection(paths: Sequence[Path], members: Sequence[Manifest], named: Sequence[Path]) -> Inputs:
    """The shards of rasters that share them, as one set."""
    listed = {paths[0].parent / plain_name(shard.name, where=paths[0]): shard for m in members for shard in m.shards}
    ordered = tuple(sorted({*listed, *named}, key=natural_key))
    whole = replace(
        members[0],
        patches_written=sum(member.patches_written for member in members),
        patches_dropped=(),
        shards=tuple(listed.values()),
        sources=tuple(source for member in members for source in member.sources),
        collection=None,
    )
    return Inputs(shards=ordered, manifest=whole, manifest_path=paths[0], faults=tuple(_gaps(ordered)))


def _members(folder: Path) -> list[Path]:
    """The record files of ``folder``, and its JSON files that are a mixer or a manifest by their names or content."""
    from geotfr.mixer import is_mixer

    try:
        entries = sorted((p for p in folder.iterdir() if p.is_file() and not p.name.startswith(".")), key=natural_key)
    except OSError as error:
        raise InputError(f"{folder}: the folder can't be read: {error.strerror}") from error
    return [
        path
        for path in entries
        if is_shard_name(path.name) or (path.suffix == ".json" and (is_mixer(path) or is_manifest(path)))
    ]


def _shards_of_mixer(mixer: Path) -> list[Path]:
    shards = [path for path in _members(mixer.parent) if path.suffix != ".json"]
    prefix = mixer.name.removesuffix(".json").removesuffix("mixer")
    named = [path for path in shards if path.name.startswith(prefix) and _is_rest(path.name[len(prefix) :])]
    if prefix and named:
        return named
    if len({shard_pattern(path) for path in shards}) > 1:
        raise UsageError(f"{mixer}: several sets of shards lie beside it; name the shards too")
    return shards


def _is_rest(rest: str) -> bool:
    """Whether ``rest`` is what a shard's name has behind its prefix: a number perhaps, then a suffix."""
    return is_shard_name(rest) and shard_stem(rest) == str(Path())


def _gaps(shards: Sequence[Path]) -> list[Fault]:
    sets: dict[str, list[tuple[int, Path]]] = {}
    for path in shards:
        number = shard_number(path)
        if number is not None:
            sets.setdefault(shard_pattern(path), []).append((number, path))
    return [
        Fault(
            path=str(path),
            problem=f"{'shard' if after == before + 2 else 'shards'} {_range(before + 1, after - 1)} missing before it",
            hint="fetch or export what is missing",
        )
        for numbered in sets.values()
        for (before, _), (after, path) in pairwise(sorted(numbered))
        if after > before + 1
    ]


def _range(first: int, last: int) -> str:
    return f"{first} is" if first == last else f"{first} to {last} are"

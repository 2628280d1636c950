"""Which files belong together: a mixer, its manifest, and the shards of one set, in order."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from geotfr.errors import DamagedError, InputError, MissingInputError, UsageError
from geotfr.mixer.manifest import Manifest, is_manifest, read_manifest
from geotfr.mixer.mixer import Mixer, is_mixer, read_mixer
from geotfr.mixer.names import natural_key, shard_number, shard_stem

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

__all__ = ["PredictionSet", "find_predictions", "manifest_beside", "ordered_shards"]

_SHARD_SUFFIXES = (".tfrecord", ".tfrecords", ".tfrecord.gz", ".tfrecords.gz", ".tfrecord.zlib")
_SHOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionSet:
    """What belongs together.

    Attributes
    ----------
    mixer, mixer_path
        The grid, and its file; where the export left patches out there is no mixer, and the manifest stands in for it.
    manifest
        The manifest beside it, or None.
    shards
        In the order in which they are read.
    dropped
        Numbers of the patches that the export left out: no record is theirs.
    """

    mixer: Mixer
    mixer_path: Path
    manifest: Manifest | None
    shards: tuple[Path, ...]
    dropped: tuple[int, ...] = ()


def find_predictions(
    mixer_or_folder: str | os.PathLike[str],
    shards: Iterable[str | os.PathLike[str]] = (),
    *,
    shard_order: str = "natural",
) -> PredictionSet:
    """The set that a mixer and shards make, or that lies in a folder.

    Raises
    ------
    UsageError
        A mixer without shards, a shard named twice, or a folder where more than one set could be meant.
    MissingInputError
        A file or folder that isn't there, or a folder without mixer or shards.
    DamagedError
        The mixer is none, or the shards' numbers have a gap.
    """
    where = Path(mixer_or_folder)
    paths = [Path(shard) for shard in shards]
    if where.is_dir():
        mixer_path = _only_mixer(where)
        paths = paths or _only_shards(where)
    else:
        mixer_path = where
        if not paths:
            raise UsageError(
                f"{where}: a mixer alone; name the prediction shards after it, or give their folder instead"
            )
    mixer = read_mixer(mixer_path)
    return PredictionSet(
        mixer=mixer,
        mixer_path=mixer_path,
        manifest=manifest_beside(mixer_path, mixer),
        shards=ordered_shards(paths, shard_order=shard_order),
    )


def ordered_shards(paths: Sequence[Path], *, shard_order: str) -> tuple[Path, ...]:
    """``paths`` sorted by the numbers in their names (``natural``), or as ``given``; see :func:`find_predictions`."""
    seen: dict[Path, Path] = {}
    for path in paths:
        if not path.is_file():
            raise MissingInputError(
                f"{path}: {'is a folder' if path.is_dir() else 'no such file'}; a shard is expected"
            )
        real = path.resolve()
        if real in seen:
            raise UsageError(f"{path}: the shard is named twice (also as {seen[real]}); name each once")
        seen[real] = path
        if is_mixer(path):
            raise UsageError(f"{path}: a second mixer; one mixer goes with one set of shards")
    if shard_order == "given":
        return tuple(paths)
    ordered = sorted(paths, key=natural_key)
    _check_gaps(ordered)
    return tuple(ordered)


def manifest_beside(mixer_path: Path, mixer: Mixer) -> Manifest | None:
    """The manifest that geotfr wrote beside ``mixer_path``, if there is one and it tells of the same grid."""
    name = mixer_path.name
    stem = name.removesuffix(".json")
    wanted = {
        f"{stem.removesuffix('mixer')}manifest.json",
        f"{stem}-manifest.json",
        f"{stem}manifest.json",
    }
    for candidate in sorted(wanted - {name}):
        path = mixer_path.with_name(candidate)
        if not path.is_file() or not is_manifest(path):
            continue
        try:
            manifest = read_manifest(path)
        except DamagedError:
            continue
        same = (
            (manifest.patch_yx[1], manifest.patch_yx[0]) == mixer.patch_xy
            and manifest.columns == mixer.patches_per_row
            and manifest.rows == mixer.rows
            and manifest.geobox.affine == mixer.affine
        )
        if same:
            return manifest
    return None


def _only_mixer(folder: Path) -> Path:
    mixers = sorted((p for p in _files(folder) if p.suffix == ".json" and is_mixer(p)), key=natural_key)
    if not mixers:
        raise MissingInputError(f"{folder}: no mixer in this folder; name the mixer's file and the shards instead")
    if len(mixers) > 1:
        raise UsageError(
            f"{folder}: {len(mixers)} mixers ({_listed(mixers)}); which one is meant? Name it and its shards instead"
        )
    return mixers[0]


def _only_shards(folder: Path) -> list[Path]:
    shards = [path for path in _files(folder) if path.name.endswith(_SHARD_SUFFIXES)]
    if not shards:
        raise MissingInputError(f"{folder}: no shards (*.tfrecord, *.tfrecord.gz) in this folder; name them instead")
    # One prefix may stand with and without number; that is two sets.
    sets = sorted({(shard_stem(path), shard_number(path) is None) for path in shards})
    if len(sets) > 1:
        stems = [Path(stem).name + ("" if single else "*") for stem, single in sets]
        raise UsageError(
            f"{folder}: {len(sets)} sets of shards ({', '.join(stems[:_SHOWN])}); which are the predictions? Name the"
            " mixer and the shards instead"
        )
    return shards


def _files(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{folder}: the folder can't be read: {error.strerror}") from error


def _check_gaps(shards: Sequence[Path]) -> None:
    """Shards of one set whose numbers skip one: a file was forgotten."""
    by_stem: dict[str, list[tuple[int, Path]]] = {}
    for path in shards:
        number = shard_number(path)
        if number is not None:
            by_stem.setdefault(shard_stem(path), []).append((number, path))
    for numbered in by_stem.values():
        numbered.sort(key=lambda item: item[0])
        for (before, _), (after, path) in pairwise(numbered):
            if after > before + 1:
                raise DamagedError(
                    f"{path}: shard {before + 1} is missing before it; name all shards, or --shard-order given if this"
                    " is the whole set"
                )


def _listed(paths: Sequence[Path]) -> str:
    names = [path.name for path in paths[:_SHOWN]]
    return ", ".join(names) + (", …" if len(paths) > _SHOWN else "")

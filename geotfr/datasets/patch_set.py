"""What a data set is made of: shards, and the grid that a mixer or manifest tells."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from geotfr.errors import MissingInputError, UsageError
from geotfr.mixer.manifest import is_manifest
from geotfr.mixer.mixer import is_mixer
from geotfr.mixer.sets import find_beside, find_predictions, find_shards
from geotfr.stores.address import address_scheme
from geotfr.stores.path import input_path

if TYPE_CHECKING:
    from geotfr.mixer import Manifest, Mixer
    from geotfr.mixer.sets import PredictionSet

    PathLike = str | os.PathLike[str]

__all__ = ["GRID_SUFFIX", "PatchSet", "expanded", "find_set"]

GRID_SUFFIX = ".json"
"""Of mixers and manifests, which are else known by their content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchSet:
    """Shards in order, and what is known of their grid.

    Attributes
    ----------
    shards
        The record files.
    mixer
        The grid; None where only shards were named.
    manifest
        geotfr's own, if there is one.
    """

    shards: tuple[Path, ...]
    mixer: Mixer | None = None
    manifest: Manifest | None = None
    run: range | None = None
    """Which records of the shards are the set's where they hold those of other rasters too; None: all."""


def find_set(source: PathLike | Sequence[PathLike], *, shard_order: str = "natural") -> PatchSet:
    """The set that ``source`` names: a mixer or manifest (shards beside it), a folder, shards, or a mixer and shards.

    Names may hold ``*``, ``?`` and ``[…]``, where no file has the name as it is.

    Raises
    ------
    UsageError
        Nothing is named, or more than one set could be meant.
    MissingInputError
        A file isn't there, or nothing matches.
    DamagedError
        A mixer that is none, or a gap in the shards' numbers.
    """
    paths = expanded(source)
    if len(paths) == 1 and paths[0].is_dir():
        return _in_folder(paths[0], shard_order)
    grids = [path for path in paths if path.suffix == GRID_SUFFIX]
    if len(grids) > 1:
        raise UsageError(f"{grids[1]}: a second mixer; one mixer goes with one set of shards")
    if grids:
        shards = [path for path in paths if path != grids[0]]
        return _of(find_beside(grids[0], shards, shard_order=shard_order))
    return PatchSet(shards=find_shards(paths, shard_order=shard_order))


def expanded(source: PathLike | Sequence[PathLike]) -> list[Path]:
    """The paths that ``source`` names, wildcards replaced by what they match, sorted."""
    given = [source] if isinstance(source, str | os.PathLike) else list(source)
    paths: list[Path] = []
    for each in given:
        name = os.fspath(each)
        if os.path.exists(name) or not glob.has_magic(name) or address_scheme(name):  # noqa: PTH110  # perhaps with a wildcard
            paths.append(input_path(name))
            continue
        found = sorted(glob.glob(name))  # noqa: PTH207  # the pattern holds its folder
        if not found:
            raise MissingInputError(f"{name}: no file matches")
        paths += map(Path, found)
    if not paths:
        raise UsageError("no files; name a mixer, a folder, or TFRecord files")
    return paths


def _in_folder(folder: Path, shard_order: str) -> PatchSet:
    has_grid = any(path.suffix == GRID_SUFFIX and (is_mixer(path) or is_manifest(path)) for path in folder.iterdir())
    if has_grid:
        return _of(find_predictions(folder, shard_order=shard_order))
    return PatchSet(shards=find_shards([folder], shard_order=shard_order))


def _of(found: PredictionSet) -> PatchSet:
    return PatchSet(shards=found.shards, mixer=found.mixer, manifest=found.manifest, run=found.run)

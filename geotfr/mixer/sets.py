"""Which files belong together: a mixer, its manifest, and the shards of one set, in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from geotfr.errors import DamagedError, InputError, MissingInputError, UsageError
from geotfr.grid.crs import crs_wkt
from geotfr.mixer.manifest import Manifest, is_manifest, read_manifest
from geotfr.mixer.mixer import Mixer, is_mixer, read_mixer
from geotfr.mixer.names import is_shard_name, natural_key, plain_name, shard_number, shard_pattern, shard_stem
from geotfr.stores.path import input_path

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from geotfr.grid import GeoBox

__all__ = [
    "PredictionSet",
    "find_beside",
    "find_each",
    "find_predictions",
    "find_shards",
    "manifest_beside",
    "of_collection",
    "ordered_shards",
]

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
    geobox
        The raster's own grid where patches reach beyond it; None: as the mixer and the manifest tell.
    is_cut_elsewhere
        Whether there is no mixer: ``mixer_path`` is the raster that another tool cut.
    """

    mixer: Mixer
    mixer_path: Path
    manifest: Manifest | None
    shards: tuple[Path, ...]
    dropped: tuple[int, ...] = ()
    geobox: GeoBox | None = None
    is_cut_elsewhere: bool = False
    run: range | None = None
    """Which records of the shards are the patches' where they hold those of other rasters too; None: all."""


def find_predictions(
    mixer_or_folder: str | os.PathLike[str],
    shards: Iterable[str | os.PathLike[str]] = (),
    *,
    shard_order: str = "natural",
) -> PredictionSet:
    """The set that a mixer and shards make, or that lies in a folder.

    Where the export left patches out it wrote no mixer: its manifest stands in for one. In a folder that holds the
    exported shards alone, the manifest tells which they are.

    Raises
    ------
    UsageError
        A mixer without shards, a shard named twice, or a folder where more than one set could be meant.
    MissingInputError
        A file or folder that isn't there, or a folder without mixer or shards.
    DamagedError
        The mixer is none, or the shards' numbers have a gap.
    """
    where = input_path(mixer_or_folder)
    paths = [input_path(shard) for shard in shards]
    mixer_path = grid_file(where) if where.is_dir() else where
    mixer, manifest = _grid_of(mixer_path)
    if where.is_dir() and not paths:
        paths = _only_shards(where, manifest)
    if not paths:
        raise UsageError(f"{where}: a mixer alone; name the prediction shards after it, or give their folder instead")
    return _set(mixer_path, mixer, manifest, ordered_shards(paths, shard_order=shard_order))


def find_each(folder: str | os.PathLike[str], *, shard_order: str = "natural") -> dict[str, PredictionSet]:
    """All sets in a folder and in the folders right below it, by a name of their own.

    A mixer goes with the shards whose names begin with its own, without ``mixer.json``; the longest such name wins. A
    folder below may hold one set of any names, and gives it its name.

    Raises
    ------
    UsageError
        Shards that go with no mixer, or that make more than one set with it; a mixer without shards.
    MissingInputError
        No such folder, or no sets in it.
    DamagedError
        See :func:`find_predictions`.
    """
    top = input_path(folder)
    if not top.is_dir():
        raise MissingInputError(f"{top}: no such folder; the sets of --each lie in one")
    found: dict[str, PredictionSet] = {}
    mixers = {_stem_of(path): path for path in _grid_files(top)}
    groups: dict[str, list[Path]] = {stem: [] for stem in mixers}
    for path in _shard_files(top) if mixers else ():
        own = [stem for stem in mixers if _goes_with(path.name, stem)]
        if not own:
            raise UsageError(f"{path}: goes with no mixer of the folder; name them alike, or give them a folder")
        groups[max(own, key=len)].append(path)
    for stem, paths in groups.items():
        mixer, manifest = _grid_of(mixers[stem])
        if not paths:
            raise UsageError(f"{mixers[stem]}: no shards whose names begin with {stem!r}; name them alike")
        shards = ordered_shards(_one_set(top, paths, manifest), shard_order=shard_order)
        found[stem or top.name] = _set(mixers[stem], mixer, manifest, shards)
    for below in sorted((path for path in top.iterdir() if path.is_dir()), key=natural_key):
        if not below.name.startswith(".") and _grid_files(below):
            if below.name in found:
                raise UsageError(f"{below}: the set {below.name} lies in {top} too; give one another name")
            found[below.name] = find_predictions(below, shard_order=shard_order)
    if not found:
        raise MissingInputError(f"{top}: no mixer in this folder and right below it; --each wants pairs of both")
    return found


def find_beside(
    mixer_or_manifest: str | os.PathLike[str],
    shards: Iterable[str | os.PathLike[str]] = (),
    *,
    shard_order: str = "natural",
) -> PredictionSet:
    """The set whose mixer or manifest is named, with its shards: those given, or those that lie beside it.

    Beside it a manifest's own list counts, then names that begin with the mixer's own, then the only set of shards
    that there is. Raises as :func:`find_predictions`.
    """
    where = input_path(mixer_or_manifest)
    mixer, manifest = _grid_of(where)
    paths = [input_path(shard) for shard in shards]
    if not paths:
        folder = where.parent
        stem = _stem_of(where)
        if manifest is not None and manifest.shards:
            # First: a web server lists nothing.
            paths = [folder / plain_name(shard.name, where=where) for shard in manifest.shards]
        elif manifest is not None:
            # Other shards that lie there are another set's.
            raise MissingInputError(
                f"{where}: the set has no shards: each patch was left out; export it with a greater masked threshold or"
                " other choices"
            )
        else:
            named = [path for path in _shard_files(folder) if stem and _goes_with(path.name, stem)]
            paths = _one_set(folder, named, manifest) if named else _only_shards(folder, manifest)
    return _set(where, mixer, manifest, ordered_shards(paths, shard_order=shard_order))


def find_shards(paths: Iterable[str | os.PathLike[str]], *, shard_order: str = "natural") -> tuple[Path, ...]:
    """The shards that are named, or that lie in the one folder that is named, where no mixer tells the grid.

    Raises as :func:`find_predictions`.
    """
    given = [input_path(path) for path in paths]
    if len(given) == 1 and given[0].is_dir():
        given = _only_shards(given[0], None)
    return ordered_shards(given, shard_order=shard_order)


def of_collection(found: PredictionSet) -> PredictionSet:
    """``found`` where its shards hold the predictions of a whole collection, in the order of its records.

    Raises
    ------
    UsageError
        No manifest tells that the raster shares shards with others.
    """
    if found.manifest is None or found.manifest.collection is None:
        raise UsageError(
            f"{found.mixer_path}: of_collection: no manifest beside it tells of shards that rasters share; leave"
            " --of-collection (of_collection=True) out"
        )
    first = found.manifest.collection.first_record
    return replace(found, run=range(first, first + found.manifest.records))


def _set(mixer_path: Path, mixer: Mixer, manifest: Manifest | None, shards: tuple[Path, ...]) -> PredictionSet:
    try:
        crs_wkt(mixer.crs)
    except InputError as error:
        raise InputError(f"{mixer_path}: {error}") from error
    dropped = manifest.patches_dropped if manifest is not None else ()
    run = None
    if manifest is not None and manifest.collection is not None:
        # The exported shards hold other rasters' records too; predictions of one raster alone don't.
        exported = [mixer_path.parent / shard.name for shard in manifest.shards]
        run = manifest.run if [path.resolve() for path in shards] == [path.resolve() for path in exported] else None
    return PredictionSet(mixer=mixer, mixer_path=mixer_path, manifest=manifest, shards=shards, dropped=dropped, run=run)


def _grid_of(path: Path) -> tuple[Mixer, Manifest | None]:
    """The grid in a mixer, with the manifest beside it, or in a manifest."""
    if not path.is_file() or not is_manifest(path):
        mixer = read_mixer(path)
        return mixer, manifest_beside(path, mixer)
    manifest = read_manifest(path)
    height, width = manifest.patch_yx
    mixer = Mixer(
        crs=manifest.geobox.crs,
        affine=manifest.geobox.affine,
        patch_xy=(width, height),
        patches_per_row=manifest.columns,
        total_patches=manifest.rows * manifest.columns,
    )
    return mixer, manifest


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
    """The manifest that geotfr wrote beside ``mixer_path``, if there is one and it tells of the same grid.

    Raises
    ------
    DamagedError
        There is one, but not whole, or of a newer format.
    """
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
        # One that is damaged is no reason to go on without it: it tells kernel, bands, masks and dropped patches.
        manifest = read_manifest(path)
        same = (
            (manifest.patch_yx[1], manifest.patch_yx[0]) == mixer.patch_xy
            and manifest.columns == mixer.patches_per_row
            and manifest.rows == mixer.rows
            and manifest.geobox.affine == mixer.affine
        )
        if same:
            return manifest
    return None


def grid_file(folder: Path) -> Path:
    """The one mixer of a folder, or the manifest that stands in for it; raises as :func:`find_predictions`."""
    mixers = _grid_files(folder)
    if not mixers:
        raise MissingInputError(f"{folder}: no mixer in this folder; name the mixer's file and the shards instead")
    if len(mixers) > 1:
        raise UsageError(
            f"{folder}: {len(mixers)} mixers ({_listed(mixers)}); which one is meant? Name it and its shards instead"
        )
    return mixers[0]


def _grid_files(folder: Path) -> list[Path]:
    """The mixers in a folder; without one the manifests that stand in for them."""
    files = sorted((path for path in _files(folder) if path.suffix == ".json"), key=natural_key)
    return [path for path in files if is_mixer(path)] or [path for path in files if is_manifest(path)]


def _shard_files(folder: Path) -> list[Path]:
    return [path for path in _files(folder) if is_shard_name(path.name)]


def _only_shards(folder: Path, manifest: Manifest | None) -> list[Path]:
    shards = _shard_files(folder)
    if not shards:
        raise MissingInputError(f"{folder}: no shards (*.tfrecord, *.tfrecord.gz) in this folder; name them instead")
    return _one_set(folder, shards, manifest)


def _one_set(folder: Path, shards: list[Path], manifest: Manifest | None) -> list[Path]:
    """``shards``, if they are one set; those of the manifest, if it is theirs."""
    if manifest is not None:
        names = [shard.name for shard in manifest.shards]
        own = {shard_stem(name) for name in names}
        if names and all(shard_stem(path.name) in own for path in shards):
            # What an older export left behind is not in the list.
            return [folder / plain_name(name, where=folder) for name in names]
    # One prefix may stand with and without number; that is two sets.
    sets = sorted({shard_pattern(path) for path in shards})
    if len(sets) > 1:
        stems = [Path(each).name for each in sets]
        raise UsageError(
            f"{folder}: {len(sets)} sets of shards ({', '.join(stems[:_SHOWN])}); which are the predictions? Name the"
            " mixer and the shards instead"
        )
    return shards


def _stem_of(mixer: Path) -> str:
    """What the names of a mixer's shards begin with."""
    stem = mixer.name.removesuffix(".json")
    for word in ("mixer", "manifest"):
        stem = stem.removesuffix(word)
    return stem.rstrip("-_")


def _goes_with(name: str, stem: str) -> bool:
    return not stem or (name.startswith(stem) and name[len(stem)] in "-_.0123456789")


def _files(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{folder}: the folder can't be read: {error.strerror}") from error


def _check_gaps(shards: Sequence[Path]) -> None:
    """Shards of one set whose numbers skip one: a file was forgotten."""
    by_set: dict[str, list[tuple[int, Path]]] = {}
    for path in shards:
        number = shard_number(path)
        if number is not None:
            by_set.setdefault(shard_pattern(path), []).append((number, path))
    for numbered in by_set.values():
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

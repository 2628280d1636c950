"""Many rasters with grids of their own, exported as one collection: a set and a mixer each, one table of all.

Each raster's set has the prefix ``PREFIX-NAME``; ``PREFIX-patches.parquet`` has the rows of all of them. A raster whose
set is there and whole, made of the same file with the same options, is left as it is: so rasters are added later
without rewriting what is there.
"""

from __future__ import annotations

import glob
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from geotfr.errors import InputError, MissingInputError, OutputExistsError, UsageError
from geotfr.mixer import SetNames, is_manifest, natural_key, read_manifest
from geotfr.options import ExportOptions
from geotfr.pipeline.catalog.collect import TableRequest
from geotfr.pipeline.export.run import export_image
from geotfr.pipeline.sizes import human_bytes
from geotfr.storage import atomic_output
from geotfr.storage.atomic import check_output
from geotfr.vectors.joined_tables import write_joined_tables
from geotfr.vectors.patch_table import read_patch_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from geotfr.options import ExportKeywords, Size
    from geotfr.pipeline.export.run import ExportResult
    from geotfr.vectors.patch_table import PatchTable

    PathLike = str | os.PathLike[str]

__all__ = ["CollectionResult", "export_collection"]

_RASTER_SUFFIXES = (".tif", ".tiff")


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionResult:
    """What a collection's export wrote.

    Attributes
    ----------
    table
        The patch table of all rasters.
    manifests
        Raster's name -> its manifest, in order.
    exported, kept
        Names of the rasters that were exported now, and of those whose sets were there already.
    patches
        Rows of the table.
    size_bytes
        Bytes of the shards written now.
    pixels_unreadable
        Pixels that couldn't be read, and were masked by ``on_read_error="mask"``.
    seconds
        Wall time.
    warnings
        What a user should know, one line each.
    """

    table: Path
    manifests: dict[str, Path]
    exported: tuple[str, ...]
    kept: tuple[str, ...]
    patches: int
    size_bytes: int
    pixels_unreadable: int
    seconds: float
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON types."""
        return {
            "table": str(self.table),
            "manifests": {name: str(path) for name, path in self.manifests.items()},
            "exported": list(self.exported),
            "kept": list(self.kept),
            "patches": self.patches,
            "bytes": self.size_bytes,
            "pixels_unreadable": self.pixels_unreadable,
            "seconds": round(self.seconds, 3),
            "warnings": list(self.warnings),
        }

    def to_text(self) -> str:
        """The summary for a person."""
        return "\n".join(
            (
                f"wrote     {len(self.exported):,} rasters, {human_bytes(self.size_bytes)}, in {self.seconds:.1f} s",
                f"kept      {len(self.kept):,} rasters whose sets are there",
                f"table     {self.table}: {self.patches:,} patches of {len(self.manifests):,} rasters",
            )
        )


def export_collection(
    sources: PathLike | Sequence[PathLike],
    prefix: PathLike,
    *,
    overwrite: bool = False,
    on_read_error: str = "error",
    class_bands: str | Sequence[str] = (),
    workers: int | None = None,
    memory_limit: Size | None = None,
    progress: bool = False,
    on_raster: Callable[[str, int, int], None] | None = None,
    **options: Unpack[ExportKeywords],
) -> CollectionResult:
    """Export many rasters, each on its own grid, as sets that share one patch table.

    Parameters
    ----------
    sources
        A folder (its .tif and .tiff files), a pattern with wildcards, or a list of paths.
    prefix
        Folder and beginning of all names; the set of ``a.tif`` is ``PREFIX-a``, that of a prefix that ends in ``/``
        ``a``.
    overwrite
        Export again rasters that changed since, or whose sets were made with other options.
    on_raster
        Called with (name, its place from 1, how many) before each raster that is exported.
    on_read_error, class_bands, workers, memory_limit, progress, options
        As in :func:`geotfr.export_image`.

    Raises
    ------
    UsageError
        No raster, or two whose sets would have one name.
    OutputExistsError
        A set was made of another file or with other options, and ``overwrite`` is False.
    As :func:`geotfr.export_image`; what was exported before the error stays, and a later call goes on behind it.

    Examples
    --------
    >>> export_collection("scenes/", "patches/all", patch_dimensions=256)  # doctest: +SKIP
    """
    started = time.perf_counter()
    TableRequest.checked(patch_table=True, class_bands=class_bands)
    checked = ExportOptions.checked(**options)
    rasters = _rasters(sources)
    names = SetNames.for_prefix(os.fspath(prefix), naming=checked.naming, compressed_suffix="")
    _make_folder(names)
    table = names.folder / names.patch_table
    check_output(table, overwrite=True)
    before = read_patch_table(table) if table.is_file() else None
    _earlier(before, {})
    sets = {
        name: SetNames.for_prefix(_prefix(names, name), naming=checked.naming, compressed_suffix="") for name in rasters
    }
    wanted = [name for name in rasters if not _is_there(rasters[name], sets[name], checked, overwrite=overwrite)]
    results: list[ExportResult] = []
    for place, name in enumerate(wanted, 1):
        if on_raster is not None:
            on_raster(name, place, len(wanted))
        results.append(
            export_image(
                rasters[name],
                _prefix(names, name),
                overwrite=overwrite,
                on_read_error=on_read_error,
                patch_table=True,
                class_bands=class_bands,
                workers=workers,
                memory_limit=memory_limit,
                progress=progress,
                **options,
            )
        )
    # Sets of an earlier call whose rasters aren't named now stay in the table.
    members = {name: sets[name].folder / sets[name].patch_table for name in rasters}
    tables = [read_patch_table(path) for path in (*_earlier(before, members), *members.values())]
    with atomic_output(table, overwrite=True) as file:
        patches = write_joined_tables(file, tables, before=before)
    return CollectionResult(
        table=table,
        manifests={name: sets[name].folder / sets[name].manifest for name in rasters},
        exported=tuple(wanted),
        kept=tuple(name for name in rasters if name not in wanted),
        patches=patches,
        size_bytes=sum(result.size_bytes for result in results),
        pixels_unreadable=sum(result.pixels_unreadable for result in results),
        seconds=time.perf_counter() - started,
        warnings=tuple(
            f"{name}: {warning}" for name, result in zip(wanted, results, strict=True) for warning in result.warnings
        ),
    )


def _rasters(sources: PathLike | Sequence[PathLike]) -> dict[str, Path]:
    """Name of its set -> raster, in natural order of folders, in the given order else."""
    given = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    paths: list[Path] = []
    for each in given:
        path = Path(each)
        if path.is_dir():
            found = [entry for entry in path.iterdir() if entry.suffix.lower() in _RASTER_SUFFIXES and entry.is_file()]
            if not found:
                raise MissingInputError(f"{path}: no rasters (*.tif, *.tiff) in this folder")
            paths += sorted(found, key=natural_key)
        elif path.exists() or not glob.has_magic(str(path)):
            paths.append(path)
        else:
            matches = sorted(glob.glob(str(path)), key=natural_key)  # noqa: PTH207  (the pattern holds its folder)
            if not matches:
                raise MissingInputError(f"{path}: no file matches")
            paths += map(Path, matches)
    if not paths:
        raise UsageError("no rasters; name a folder, a pattern, or the files of the collection")
    named: dict[str, Path] = {}
    for path in dict.fromkeys(paths):
        if not path.is_file():
            raise MissingInputError(f"{path}: no such file")
        name = path.stem
        if name in named:
            raise UsageError(
                f"{path}: {named[name]} has the same name, and would have the same set; rename one of them"
            )
        if (
            name.rpartition("-")[2].isdecimal()
            and len(name.rpartition("-")[2]) >= 5
            and name.rpartition("-")[0] in named
        ):
            raise UsageError(
                f"{path}: its set would have the names of {named[name.rpartition('-')[0]]}'s shards; rename it"
            )
        named[name] = path
    return named


def _prefix(names: SetNames, name: str) -> str:
    """The prefix of one raster's set."""
    joint = "" if not names.name else "-" if names.naming == "drive" else "_"
    return os.fspath(names.folder / f"{names.name}{joint}{name}")


def _make_folder(names: SetNames) -> None:
    if not names.name and not names.folder.exists() and names.folder.parent.is_dir():
        names.folder.mkdir()


def _is_there(raster: Path, names: SetNames, options: ExportOptions, *, overwrite: bool) -> bool:
    """Whether the set of ``raster`` is whole, and of the same file and options.

    Raises OutputExistsError where it is another one's and mustn't be replaced.
    """
    path, table = names.folder / names.manifest, names.folder / names.patch_table
    if not is_manifest(path):
        return False
    manifest = read_manifest(path)
    facts = raster.stat()
    problem = None
    if manifest.options != options.as_used():
        used = options.as_used()
        key = next(key for key in {**manifest.options, **used} if manifest.options.get(key) != used.get(key))
        problem = f"was made with other options ({key}: {manifest.options.get(key)!r}, now {used.get(key)!r})"
    elif [(source.name, source.bytes) for source in manifest.sources] != [(raster.name, facts.st_size)]:
        problem = "was made of another file"
    elif facts.st_mtime_ns > path.stat().st_mtime_ns:
        problem = f"is older than {raster}"
    if problem is None:
        # A table that is missing is made by exporting once more.
        return table.is_file() or _refuse(path, "has no patch table", overwrite=overwrite)
    return _refuse(path, problem, overwrite=overwrite)


def _refuse(path: Path, problem: str, *, overwrite: bool) -> bool:
    if not overwrite:
        raise OutputExistsError(f"{path}: the set {problem}; --overwrite (overwrite=True) exports it again")
    return False


def _earlier(table: PatchTable | None, members: dict[str, Path]) -> list[Path]:
    """The tables of sets that an earlier call put into ``table``, beside the sets of this call."""
    if table is None:
        return []
    names = table.extra.get("members")
    if not isinstance(names, list):
        raise InputError(f"{table.path}: a patch table of one set; give the collection another --output")
    paths = [table.path.with_name(str(name)) for name in names if Path(str(name)).name == name]
    return [path for path in paths if path not in members.values() and path.is_file()]

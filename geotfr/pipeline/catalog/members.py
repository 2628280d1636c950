"""What is there of a collection: the sets of its rasters, and the table that has the rows of all."""

from __future__ import annotations

import contextlib
import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING

from geotfr.errors import DamagedError, GeotfrError, InputError, MissingInputError, OutputExistsError, UsageError
from geotfr.mixer import Manifest, SetNames, is_manifest, natural_key, read_manifest
from geotfr.storage import atomic_output
from geotfr.storage.atomic import check_output
from geotfr.stores.path import input_path
from geotfr.vectors.joined_tables import write_joined_tables
from geotfr.vectors.patch_table import read_patch_table
from geotfr.vectors.table_beside import shards_beside

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from geotfr.options import ExportOptions
    from geotfr.vectors.patch_table import PatchTable

    PathLike = str | os.PathLike[str]

__all__ = ["Members", "find_rasters", "named"]

_RASTER_SUFFIXES = (".tif", ".tiff")


@contextlib.contextmanager
def named(raster: Path) -> Iterator[None]:
    """Errors that name ``raster``: those of an export of one raster needn't."""
    try:
        yield
    except GeotfrError as error:
        if raster.name in str(error):
            raise
        raise type(error)(f"{raster}: {error}") from error


def find_rasters(sources: PathLike | Sequence[PathLike]) -> dict[str, Path]:
    """Name of its set -> raster, in natural order of folders, in the given order else."""
    given = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    paths: list[Path] = []
    for each in given:
        path = input_path(each)
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


class Members:
    """The sets of a collection: those of the rasters that are named, and those of earlier calls.

    Parameters
    ----------
    prefix, rasters
        Of the collection; the name of each raster's set, and its file.
    options, is_shared
        How the rasters are exported, and whether their records fill common shards.

    Attributes
    ----------
    names
        Of the collection's own files.
    sets
        Raster's name -> the names of its set's files.
    table
        Path of the table of all.

    Raises
    ------
    OutputError
        The table can't be written.
    InputError
        There is a table of one set.
    """

    def __init__(
        self, prefix: PathLike, rasters: Mapping[str, Path], options: ExportOptions, *, is_shared: bool
    ) -> None:
        self.names = SetNames.for_prefix(os.fspath(prefix), naming=options.naming, compressed_suffix="")
        if not self.names.name and not self.names.folder.exists() and self.names.folder.parent.is_dir():
            self.names.folder.mkdir()
        self._rasters, self._options, self._is_shared = rasters, options, is_shared
        self.sets = {
            name: SetNames.for_prefix(self.prefix_of(name), naming=options.naming, compressed_suffix="")
            for name in rasters
        }
        self.table = self.names.folder / self.names.patch_table
        check_output(self.table, overwrite=True)
        self._before = read_patch_table(self.table) if self.table.is_file() else None
        self._named = {name: own.folder / own.patch_table for name, own in self.sets.items()}
        self._known = _tables_of(self._before)

    def prefix_of(self, name: str) -> str:
        """The prefix of one raster's set."""
        joint = "" if not self.names.name else "-" if self.names.naming == "drive" else "_"
        return os.fspath(self.names.folder / f"{self.names.name}{joint}{name}")

    def state(self) -> object:
        """What is another one where a run changed the collection."""
        facts = self.table.stat() if self.table.is_file() else None
        return facts and (facts.st_size, facts.st_mtime_ns)

    def join(self) -> int:
        """Write the table of all sets; its rows."""
        # Sets of an earlier call whose rasters aren't named now stay in the table.
        paths = [*(path for path in self._known if path not in self._named.values()), *self._named.values()]
        if self._is_shared:
            # The rows stand in the order of the records.
            paths.sort(key=lambda path: _first_record(_manifest_of(path)))
        tables = [read_patch_table(path) for path in paths]
        with atomic_output(self.table, overwrite=True) as file:
            return write_joined_tables(file, tables, before=self._before)

    def missing(self, *, overwrite: bool) -> list[str]:
        """The rasters with shards of their own that have no whole set of the same file and options.

        Raises
        ------
        OutputExistsError
            A set is another one's and mustn't be replaced.
        UsageError
            The rasters that are there share shards.
        """
        if self._known and _manifest_of(self._known[0]).collection is not None:
            raise UsageError(
                f"{self.table}: the rasters of this collection share shards; give --collection-shards shared"
                " (shards='shared'), or another --output"
            )
        return [name for name in self._rasters if not self._is_there(name, overwrite=overwrite)]

    def missing_in_shared(self, *, overwrite: bool) -> tuple[list[str], list[Manifest]]:
        """The rasters whose records aren't in the shared shards, and the manifests of those that stay there.

        Where one changed all are exported again, for they share shards.

        Raises
        ------
        OutputExistsError
            A raster changed, or its set has shards of its own, and mustn't be replaced.
        UsageError
            All are exported again, and one isn't named.
        DamagedError
            A shard that stays is missing, or has another size.
        """
        manifests = {path: _manifest_of(path) for path in self._known}
        there = [name for name, path in self._named.items() if path in manifests]
        is_kept = all(self._is_there(name, overwrite=overwrite) for name in there)
        if is_kept and manifests:
            path, manifest = next(iter(manifests.items()))
            problem = self._problem_of_options(manifest)
            is_kept = problem is None or _refuse(path, problem, overwrite=overwrite)
        if not is_kept:
            for path in manifests:
                if path not in self._named.values():
                    raise UsageError(
                        f"{path}: its raster shares shards with those that are exported again; name it too"
                    )
            return list(self._rasters), []
        if self._before is not None:
            shards_beside(self._before)
        return [name for name in self._rasters if name not in there], list(manifests.values())

    def _is_there(self, name: str, *, overwrite: bool) -> bool:
        """Whether the set of a raster is whole, and of the same file and options.

        Raises OutputExistsError where it is another one's and mustn't be replaced.
        """
        raster, names = self._rasters[name], self.sets[name]
        path, table = names.folder / names.manifest, names.folder / names.patch_table
        if not is_manifest(path):
            return False
        manifest = read_manifest(path)
        facts = raster.stat()
        problem = self._problem_of_options(manifest)
        if problem is None:
            if [(source.name, source.bytes) for source in manifest.sources] != [(raster.name, facts.st_size)]:
                problem = "was made of another file"
            elif facts.st_mtime_ns > path.stat().st_mtime_ns:
                problem = f"is older than {raster}"
            elif not table.is_file():
                # It is made by exporting once more.
                problem = "has no patch table"
        return problem is None or _refuse(path, problem, overwrite=overwrite)

    def _problem_of_options(self, manifest: Manifest) -> str | None:
        """What tells that a set was made otherwise than it would be now."""
        if (manifest.collection is not None) != self._is_shared:
            return f"has shards {'of its own' if self._is_shared else 'that it shares'}"
        used = self._options.as_used()
        if manifest.options == used:
            return None
        key = next(key for key in {**manifest.options, **used} if manifest.options.get(key) != used.get(key))
        return f"was made with other options ({key}: {manifest.options.get(key)!r}, now {used.get(key)!r})"


def _refuse(path: Path, problem: str, *, overwrite: bool) -> bool:
    if not overwrite:
        raise OutputExistsError(f"{path}: the set {problem}; --overwrite (overwrite=True) exports it again")
    return False


def _tables_of(table: PatchTable | None) -> list[Path]:
    """The tables of the sets that earlier calls put into ``table``, and that are still there."""
    if table is None:
        return []
    names = table.extra.get("members")
    if not isinstance(names, list):
        raise InputError(f"{table.path}: a patch table of one set; give the collection another --output")
    paths = [table.path.with_name(str(name)) for name in names if Path(str(name)).name == name]
    return [path for path in paths if path.is_file()]


def _manifest_of(table: Path) -> Manifest:
    """The manifest beside a set's table."""
    return read_manifest(table.with_name(table.name.removesuffix("patches.parquet") + "manifest.json"))


def _first_record(manifest: Manifest) -> int:
    if manifest.collection is None:
        raise DamagedError("a set with shards of its own in a collection of shared ones; export it again")
    return manifest.collection.first_record

"""The index of a record file, written beside it or in another folder, and found again."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from geotfr.errors import MissingInputError, OutputError
from geotfr.records.index import (
    IndexedRecords,
    RecordIndex,
    idx_path,
    index_names,
    members_path,
    read_index,
    scan_index,
    seek_points,
    seek_points_path,
)
from geotfr.storage.atomic import atomic_output, check_output
from geotfr.storage.output_error import output_error
from geotfr.stores.path import StorePath, any_path, is_local, is_there

if TYPE_CHECKING:
    PathLike = str | os.PathLike[str]

__all__ = ["WrittenIndex", "cache_folder", "forget_index", "indexed_records", "write_index_files"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenIndex:
    """An index and the files that hold it."""

    index: RecordIndex
    files: tuple[Path, ...]


def cache_folder() -> Path:
    """Where indices go that can't stand beside their file: ``geotfr`` in ``$XDG_CACHE_HOME``, or in ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "geotfr"


def write_index_files(path: PathLike, *, base: PathLike | None = None, overwrite: bool = False) -> WrittenIndex:
    """Index the record file at ``path``: every record is checked on the way.

    Parameters
    ----------
    base
        What the names of the index files begin with; None is ``path``.

    Raises
    ------
    RecordError
        A damaged file; nothing is written.
    OutputError
        The index can't be written, or exists and ``overwrite`` is False.
    LockedError
        Another process writes it.
    InputError
        A zlib file, or ``indexed_gzip`` isn't installed where a gzip member is too large to do without.
    """
    base = path if base is None else base
    check_output(idx_path(base), overwrite=overwrite)
    return _write(path, scan_index(path), base, overwrite=overwrite)


def _write(path: PathLike, index: RecordIndex, base: PathLike, *, overwrite: bool) -> WrittenIndex:
    contents: list[tuple[Path, bytes]] = []
    if index.needs_seek_points:
        contents.append((seek_points_path(base), seek_points(path)))
    if index.members is not None:
        contents.append((members_path(base), index.members_text()))
    # The last one: without it there is no index.
    contents.append((idx_path(base), index.idx_text()))
    made: list[Path] = []
    try:
        for target, content in contents:
            is_new = is_local(target) and not target.exists()
            with atomic_output(target, overwrite=overwrite) as file:
                file.write(content)
            made += [target] if is_new else []
    except BaseException:
        # Half an index is none, and would be in the way of the next run.
        for target in made:
            target.unlink(missing_ok=True)
        raise
    return WrittenIndex(index=index, files=tuple(target for target, _ in contents))


def forget_index(path: Path) -> None:
    """Remove the index that lies beside ``path``, which is about to be replaced: it would be another file's.

    Raises OutputError.
    """
    for name in index_names(path.name) if is_local(path) else ():
        index = path.parent / name
        try:
            if is_there(index):
                index.unlink(missing_ok=True)
        except OSError as error:
            raise output_error(index, error) from error


def indexed_records(path: PathLike, *, folder: PathLike | None = None) -> IndexedRecords:
    """The records of ``path`` by number, through an index that is made where there is none.

    It is looked for and written beside the file, and where that folder can't be written to in the cache folder. If
    neither takes it, or another process is writing it, the index stays in memory.

    Parameters
    ----------
    folder
        Look for the index and write it here instead.

    Raises
    ------
    MissingInputError, InputError, RecordError
        As :func:`geotfr.records.index.scan_index`; a stale index beside the file.
    """
    name = os.fspath(path)
    bases = [_base_in(Path(folder), name)] if folder is not None else [any_path(name), _base_in(cache_folder(), name)]
    for base in bases:
        if idx_path(base).exists():
            return _records(name, read_index(name, base=base), base)
    index = scan_index(name)
    refusal: OSError | None = None
    for base in bases:
        try:
            if is_local(base) and base != Path(name):
                base.parent.mkdir(parents=True, exist_ok=True)
            _write(name, index, base, overwrite=True)
        except OSError as error:
            # No permission, no space, or another process is writing it.
            refusal = error
            continue
        return _records(name, index, base)
    if index.needs_seek_points:
        raise OutputError(
            f"{seek_points_path(bases[-1])}: can't be written ({refusal}); a gzip member of {name} is too large to be"
            " read from its middle without; give a folder for the index"
        ) from refusal
    return IndexedRecords(name, index)


def _records(path: str, index: RecordIndex, base: Path) -> IndexedRecords:
    points = seek_points_path(base)
    if index.needs_seek_points and not points.exists():
        raise MissingInputError(f"{points}: no such file; run 'geotfr index --overwrite {path}'")
    return IndexedRecords(path, index, seek_points=points)


def _base_in(folder: Path, path: str) -> Path:
    """A name for the index of one state of one file."""
    real = any_path(path).resolve()
    if isinstance(real, StorePath):
        stored = real.found()
        state = f"{real}\0{stored.size}\0{stored.etag or stored.change}"
    else:
        try:
            found = real.stat()
        except OSError as error:
            raise MissingInputError(f"{path}: no such file") from error
        state = f"{real}\0{found.st_size}\0{found.st_mtime_ns}"
    state_bytes = state.encode(errors="surrogateescape")
    digest = hashlib.blake2b(state_bytes, digest_size=12).hexdigest()
    return folder / digest

"""Outputs in a store: made in a folder of this machine, and sent when they are whole.

The folder's name is made of the output's, and it is locked while it is used: what a killed run left of the same output
is removed by the next.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from geotfr.errors import GeotfrError, OutputError, OutputExistsError
from geotfr.storage.lock import remove_folder
from geotfr.storage.remote.lock import StoreLock
from geotfr.storage.remote.sending import file_digest
from geotfr.storage.remote.store import Store
from geotfr.storage.style_files import is_own_style, style_path
from geotfr.stores.client import retry_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geotfr.stores.path import StorePath

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["check_store_output", "locked_store", "opened_store", "scratch_folder", "scratch_parent", "sent_file"]

_HAS_LOCKS = fcntl is not None
_SIDE_FILES = (".aux.xml", ".ovr", ".msk")


def scratch_parent() -> Path:
    """Where folders for outputs on their way into a store are made: as ``TMPDIR`` says."""
    return Path(tempfile.gettempdir())


@contextlib.contextmanager
def scratch_folder(place: StorePath, output: Path) -> Iterator[Path]:
    """A new folder of this machine for what is to come to the folder ``place`` of a store; gone when the block ends.

    Those of killed runs of the same ``output``, a file or a set, are removed.

    Errors that name files in it name the store's instead, except where this machine refuses to write them.
    """
    key = hashlib.blake2b(os.fsencode(f"{place}/{output.name}"), digest_size=6).hexdigest()
    stem = f"geotfr-{key}-"
    _remove_abandoned(stem)
    try:
        folder, descriptor = _locked_folder(stem)
    except OSError as error:
        raise OutputError(
            f"{place}: no folder can be made in {scratch_parent()} for what is to be sent: {error.strerror}; set TMPDIR"
        ) from error
    try:
        yield folder
    except GeotfrError as error:
        if not isinstance(error.__cause__, OSError):
            error.args = (str(error).replace(str(folder), str(place)), *error.args[1:])
        raise
    finally:
        remove_folder(folder)
        if descriptor >= 0:
            os.close(descriptor)


def _locked_folder(stem: str) -> tuple[Path, int]:
    """A new folder whose name begins with ``stem``, and what holds its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=stem))
        if not _HAS_LOCKS:
            return folder, -1
        # Between these two calls another run may take the folder for an abandoned one.
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(folder, os.O_RDONLY)
            if _locked(descriptor) is not False and folder.exists():
                return folder, descriptor
            os.close(descriptor)


def _remove_abandoned(stem: str) -> None:
    """Remove the folders of this name that no process holds."""
    for folder in scratch_parent().glob(f"{stem}*") if _HAS_LOCKS else ():
        # Another user's, or gone.
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
            try:
                if _locked(descriptor):
                    remove_folder(folder)
            finally:
                os.close(descriptor)


def _locked(descriptor: int) -> bool | None:
    """Whether an open folder is locked now, and not by another; None where there are no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


def opened_store(place: StorePath) -> Store:
    """The folder ``place``, to be written to.

    Raises
    ------
    OutputError
        It is on a web server, or the store refuses.
    """
    if not place.is_writable_place:
        raise OutputError(
            f"{place}: a web server can't be written to; give a folder, or an s3://, gs:// or az:// address"
        )
    return Store(place.address, retry_s=retry_seconds())


def check_store_output(path: StorePath, *, overwrite: bool) -> None:
    """Refuse an output that is there already, or where nothing can be written.

    Raises
    ------
    OutputExistsError
        There is such an object, and ``overwrite`` is False.
    OutputError
        The store refuses.
    """
    store = opened_store(path.parent)
    if not path.key:
        raise OutputError(f"{path}: is a bucket; a name in it is expected")
    if not overwrite and store.head(path.name, is_writing=True) is not None:
        raise OutputExistsError(f"{path}: exists already; --overwrite (overwrite=True) replaces it")


@contextlib.contextmanager
def locked_store(place: StorePath, output: Path, *, part: str = "") -> Iterator[tuple[Store, StoreLock]]:
    """The folder ``place`` of a store, and the lock of ``output``, or of its ``part``, in it.

    Raises
    ------
    LockedError
        Another process writes it.
    OutputError
        The store refuses, or there is no such bucket.
    """
    store = opened_store(place)
    with StoreLock(store, output, part=part) as lock:
        yield store, lock


@contextlib.contextmanager
def sent_file(target: StorePath, *, overwrite: bool) -> Iterator[Path]:
    """A local path to write to, which is sent to ``target`` when the block ends well, and what lies beside it.

    Raises
    ------
    OutputExistsError
        There is such an object, and ``overwrite`` is False.
    LockedError
        Another process writes it.
    OutputError
        The store refuses, or what arrived differs.
    """
    check_store_output(target, overwrite=overwrite)
    with locked_store(target.parent, target) as (store, lock), scratch_folder(target.parent, target) as folder:
        yield folder / target.name
        lock.renew(at_once=True)
        _send(store, folder / target.name, target)


def _send(store: Store, path: Path, target: StorePath) -> None:
    store.upload(path, path.name, digest=file_digest(path))
    # What described the file that was replaced, and what describes this one; a style of the user's own stays.
    style, is_raster = style_path(path), path.suffix.lower() in (".tif", ".tiff")
    has_old_style = is_raster and is_own_style(target.with_name(style.name))
    for side in (*(path.with_name(f"{path.name}{suffix}") for suffix in _SIDE_FILES), style):
        if side.is_file() and side != path:
            store.upload(side, side.name, digest=file_digest(side))
        elif is_raster and (side != style or has_old_style):
            store.remove(side.name)

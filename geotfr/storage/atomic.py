"""Files that appear whole or not at all.

An output is written under a temporary name in its own folder, counted and hashed on the way, synced to disk, closed,
and renamed; then the folder is synced. What fails on the way removes the temporary file and leaves the final name as
it was.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from geotfr.errors import DamagedError, GeotfrError, OutputError, OutputExistsError
from geotfr.mixer.store_hint import store_hint
from geotfr.records.crc import crc32c
from geotfr.regular_files import open_regular
from geotfr.storage.digest import crc_of_descriptor, crc_of_stored
from geotfr.storage.lock import OutputLock, staging_stem
from geotfr.storage.output_error import output_error
from geotfr.storage.remote.staging import check_store_output, sent_file
from geotfr.stores.path import StorePath, any_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

__all__ = [
    "AtomicFile",
    "atomic_output",
    "atomic_path",
    "check_folder",
    "check_output",
    "file_mode",
    "is_whole",
    "keep_mode",
    "sync_folder",
    "temporary_path",
]

_MAX_NAME_BYTES = 255


def check_output(path: Path, *, overwrite: bool) -> None:
    """Refuse, before any work, an output whose folder is missing, whose name is too long, or that is there already.

    Raises
    ------
    OutputExistsError
        ``path`` exists and ``overwrite`` is False.
    OutputError
        The folder is missing or not writable, the name is too long, or ``path`` is a folder.
    """
    if isinstance(path, StorePath):
        check_store_output(path, overwrite=overwrite)
        return
    folder = path.parent
    try:
        _check_folder(folder, path)
        if len(os.fsencode(path.name)) > _MAX_NAME_BYTES:
            raise OutputError(
                f"{path}: the name has {len(os.fsencode(path.name))} bytes; file systems allow {_MAX_NAME_BYTES}"
            )
        if path.is_dir():
            raise OutputError(f"{path}: is a folder; a file name is expected")
        if not overwrite and (path.exists() or path.is_symlink()):
            raise OutputExistsError(f"{path}: exists already; --overwrite (overwrite=True) replaces it")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise OutputError(f"{path}: the folder {folder} is not writable for this user")
    except OutputError:
        raise
    except OSError as error:
        raise output_error(path, error) from error


def check_folder(folder: Path) -> None:
    """Refuse, before any work, a folder for outputs that is missing or not writable.

    Raises OutputError.
    """
    try:
        _check_folder(folder, folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise OutputError(f"{folder}: the folder is not writable for this user")
    except OutputError:
        raise
    except OSError as error:
        raise output_error(folder, error) from error


def _check_folder(folder: Path, told: Path) -> None:
    if not folder.is_dir():
        hint = store_hint(told) or "; make it first"
        where = "the folder" if told == folder else f"the folder {folder}"
        raise OutputError(f"{told}: {where} is missing{hint}")


def temporary_path(output: Path) -> Path:
    """A fresh name beside ``output``, hidden and short whatever the length of its own; its suffix is kept."""
    suffix = output.suffix if len(output.suffix) <= 16 else ""
    return output.with_name(f"{staging_stem(output)}-{secrets.token_hex(4)}.tmp{suffix}")


def file_mode(path: Path) -> int | None:
    """The permissions of the regular file ``path``; None where there is none."""
    try:
        found = path.lstat().st_mode
    except OSError:
        return None
    return found & 0o777 if stat.S_ISREG(found) else None


def keep_mode(path: Path, old: Path | int) -> None:
    """Give ``path`` the permissions of the file ``old``, or ``old`` itself."""
    mode = old if isinstance(old, int) else file_mode(old)
    if mode is not None:
        # Another user's file, or a file system without permissions.
        with contextlib.suppress(OSError):
            path.chmod(mode)


def sync_folder(folder: Path) -> None:
    """Make renames within ``folder`` last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems can't sync a folder; the files themselves are synced.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def is_whole(path: Path, *, size: int, crc: int) -> bool:
    """Whether ``path`` is a file, not a link, of ``size`` bytes with the CRC32C ``crc``; all of it is read.

    Raises InputError where a store refuses.
    """
    if isinstance(path, StorePath):
        return path.is_file() and path.stat().st_size == size and crc_of_stored(path) == crc
    try:
        descriptor = open_regular(path)
    except (OSError, DamagedError):
        return False
    try:
        if os.fstat(descriptor).st_size != size:
            return False
        return crc_of_descriptor(descriptor) == crc
    except OSError:
        return False
    finally:
        os.close(descriptor)


class AtomicFile:
    """A file being written under a temporary name.

    ``write`` appends; ``finish`` syncs and closes it; ``publish`` gives it its final name; ``discard`` removes it
    (and does nothing once it is published).

    Attributes
    ----------
    size
        Bytes written so far.
    crc
        CRC32C of them.

    Parameters
    ----------
    path
        The final name.
    temporary
        The name until then; a fresh one beside ``path`` by default.
    expected_bytes
        The size that it will have, where that is known; the space is reserved.
    finished
        (size, CRC32C) of a file that is whole under its temporary name already; it can't be written to.
    """

    def __init__(
        self,
        path: Path,
        *,
        temporary: Path | None = None,
        expected_bytes: int | None = None,
        finished: tuple[int, int] | None = None,
    ) -> None:
        self.path = path
        self.size, self.crc = finished or (0, 0)
        self._temporary = temporary or temporary_path(path)
        self._is_published = False
        self._descriptor = -1
        if finished is not None:
            return
        try:
            self._descriptor = open_regular(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            if expected_bytes:
                self._reserve(expected_bytes)
        except OSError as error:
            self.discard()
            raise output_error(path, error) from error

    def _reserve(self, size: int) -> None:
        """Take the space now: a full disk is told before the work, and writing is a third faster."""
        if not hasattr(os, "posix_fallocate"):
            return
        try:
            os.posix_fallocate(self._descriptor, 0, size)
        except OSError as error:
            # Some file systems can't; the writes themselves will tell.
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENODEV):
                raise

    @property
    def staged_path(self) -> Path:
        """Where the file is until it is published."""
        return self._temporary

    def write(self, data: Buffer) -> None:
        """Append all of ``data``."""
        view = memoryview(data).cast("B")
        self.crc = crc32c(view, self.crc)
        self.size += len(view)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            raise output_error(self.path, error) from error

    def finish(self) -> None:
        """Sync and close; the size on disk is compared with the bytes written."""
        try:
            os.fsync(self._descriptor)
            on_disk = os.fstat(self._descriptor).st_size
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)
        except OSError as error:
            raise output_error(self.path, error) from error
        if on_disk != self.size:
            raise OutputError(f"{self.path}: {on_disk} bytes are on disk, {self.size} were written; run again")

    def publish(self, path: Path | None = None, *, mode: int | None = None) -> None:
        """Take the final name, replacing what has it, whose permissions stay.

        ``path`` names another file of the same folder instead. ``mode`` are the permissions of what had the name, where
        that is gone already.
        """
        if path is not None:
            self.path = path
        try:
            keep_mode(self._temporary, self.path if mode is None else mode)
            self._temporary.replace(self.path)
        except OSError as error:
            raise output_error(self.path, error) from error
        self._is_published = True

    def discard(self) -> None:
        """Remove the temporary file, if it isn't published."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with contextlib.suppress(OSError):
                os.close(descriptor)
        if not self._is_published:
            with contextlib.suppress(OSError):
                self._temporary.unlink()


@contextlib.contextmanager
def atomic_output(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[AtomicFile]:
    """A file to ``write`` to, at ``path`` when the block ends well, gone when it raises.

    Raises
    ------
    OutputExistsError
        ``path`` exists and ``overwrite`` is False.
    LockedError
        Another process writes it.
    OutputError
        The folder is missing, or a write, the sync, the close or the rename fails.
    """
    path = any_path(path)
    if isinstance(path, StorePath):
        with sent_file(path, overwrite=overwrite) as local, atomic_output(local) as file:
            yield file
        return
    check_output(path, overwrite=overwrite)
    with OutputLock(path):
        file = AtomicFile(path)
        try:
            yield file
            file.finish()
            file.publish()
        finally:
            file.discard()
        _sync(path)


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """A temporary path for a library that writes by name (GDAL); what it wrote is at ``path`` when the block ends well.

    The block closes the file. Side files that GDAL makes beside the temporary name are removed.
    Raises as :func:`atomic_output`.
    """
    path = any_path(path)
    if isinstance(path, StorePath):
        with sent_file(path, overwrite=overwrite) as local, atomic_path(local) as temporary:
            yield temporary
        return
    check_output(path, overwrite=overwrite)
    with OutputLock(path):
        temporary = temporary_path(path)
        try:
            yield temporary
            try:
                descriptor = open_regular(temporary)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                keep_mode(temporary, path)
                temporary.replace(path)
            except OSError as error:
                raise output_error(path, error) from error
        except GeotfrError as error:
            # The library spoke of the temporary name; the user knows the final one.
            error.args = (str(error).replace(str(temporary), str(path)), *error.args[1:])
            raise
        finally:
            for leftover in path.parent.glob(f"{temporary.name}*"):
                with contextlib.suppress(OSError):
                    leftover.unlink()
        _sync(path)


def _sync(path: Path) -> None:
    try:
        sync_folder(path.parent)
    except OSError as error:
        raise output_error(path, error) from error

"""One writer for each output: a second one stops before it touches anything.

The lock is held by the process (``flock``), so the lock of a killed process is free at once; what that process left
under temporary names is removed by the next writer of the same output. File systems without locks work unlocked.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Self

from geotfr.errors import LockedError
from geotfr.regular_files import open_regular
from geotfr.storage.output_error import output_error

if TYPE_CHECKING:
    from collections.abc import Collection

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["OutputLock", "remove_folder", "staging_stem"]

_UNSUPPORTED = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


def staging_stem(output: Path, part: str = "") -> str:
    """What the temporary names of an output, or of one part of it, begin with: hidden, short, the same for each run."""
    stem = f".geotfr-{hashlib.blake2b(os.fsencode(output.name), digest_size=6).hexdigest()}"
    return f"{stem}.{part}" if part else stem


def remove_folder(folder: Path) -> None:
    """Remove a temporary folder and what is in it; what can't be removed is left for the next writer."""
    # Where closing fails, rmtree closes twice, and raises in spite of ignore_errors.
    with contextlib.suppress(OSError):
        shutil.rmtree(folder, ignore_errors=True)


class OutputLock:
    """The lock of one output (a file, a set's prefix, or a part of it); held from creation until :meth:`release`.

    Parameters
    ----------
    output
        What is locked.
    keeps_leftovers
        Leave what a killed writer of the output left, for the one who continues its work.
    part
        Which part of the output is locked; the others, and the whole, are locked on their own.
    is_shared
        Let others share the lock; it only excludes who wants it alone.

    Raises
    ------
    LockedError
        Another process writes the same output; its id and host are told.
    DamagedError
        Something else has the lock's name: a link, a pipe, a folder.
    """

    def __init__(self, output: Path, *, keeps_leftovers: bool = False, part: str = "", is_shared: bool = False) -> None:
        self._output = output
        self._is_shared = is_shared
        self._part = part
        self._stem = staging_stem(output, part)
        self._path = output.with_name(f"{self._stem}.lock")
        self._descriptor = -1
        if fcntl is not None:
            self._acquire()
        if not keeps_leftovers:
            self.remove_leftovers()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Let others write; a second call does nothing."""
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        # Removed while it is held: who opened the old file finds out and makes a new one. Others may hold a shared one.
        with contextlib.suppress(OSError):
            if not self._is_shared and os.path.samestat(os.fstat(descriptor), self._path.lstat()):
                self._path.unlink()
        # What was opened to lock holds nothing that a failed close could lose.
        with contextlib.suppress(OSError):
            os.close(descriptor)

    def _acquire(self) -> None:
        while self._descriptor < 0:
            try:
                descriptor = open_regular(self._path, os.O_RDWR | os.O_CREAT)
            except OSError as error:
                raise output_error(self._output, error) from error
            try:
                if self._hold(descriptor):
                    self._descriptor = descriptor
            finally:
                if self._descriptor < 0:
                    os.close(descriptor)
        owner = f"process {os.getpid()} on {socket.gethostname()}\n".encode()
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, owner, 0)

    def _hold(self, descriptor: int) -> bool:
        """Whether the lock is held now, on the file that has the name; False: look again."""
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if self._is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                owner = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another process"
                what = f"{self._part.replace('-', ' ')} of it" if self._part else "it"
                raise LockedError(
                    f"{self._output}: {owner} is writing {what}; wait for it to end, or give another output"
                ) from error
            if error.errno in _UNSUPPORTED:
                return True
            raise output_error(self._output, error) from error
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.lstat())
        except FileNotFoundError:
            return False
        except OSError as error:
            raise output_error(self._output, error) from error

    def remove_leftovers(self, *, besides: Collection[Path] = ()) -> None:
        """Remove temporary files and folders that a killed writer of this output left, but those of ``besides``."""
        with contextlib.suppress(OSError):
            for entry in self._output.parent.iterdir():
                if not entry.name.startswith(f"{self._stem}-") or entry in besides:
                    continue
                if entry.is_dir() and not entry.is_symlink():
                    remove_folder(entry)
                else:
                    entry.unlink(missing_ok=True)

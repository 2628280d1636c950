"""Files opened as files: regular ones only, and no more bytes than are expected.

A file that a user names may be a pipe or a device, which has no end, or waits for its writer: :func:`open_input`.

A name that geotfr gives (of a lock, a journal, an index, a staged file) may have been planted there as a link to
another file, a pipe that nobody writes, or a device without an end. Those names are opened without following links.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import IO, TYPE_CHECKING

from geotfr.errors import DamagedError, InputError, LimitError, MissingInputError

if TYPE_CHECKING:
    import io
    from pathlib import Path

__all__ = ["open_input", "open_own_file", "open_regular", "read_regular"]

_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_IS_LINK = frozenset({errno.ELOOP, errno.EMLINK})
# What opening a pipe without a reader, a socket or a folder for writing ends in.
_IS_NO_FILE = frozenset({errno.ENXIO, errno.EISDIR, errno.ENODEV, errno.EOPNOTSUPP})


def open_regular(path: str | os.PathLike[str], flags: int = os.O_RDONLY, *, follows_links: bool = False) -> int:
    """A descriptor of the regular file ``path``, opened with ``flags``.

    Parameters
    ----------
    follows_links
        Whether ``path`` may be a link, as files that users give may be; those of geotfr's own names may not.

    Raises
    ------
    DamagedError
        It is a link, a folder, a pipe or a device; or a file with a second name, and it is opened to be written.
    InputError
        The same, with ``follows_links``.
    OSError
        What else the system says.
    """
    refusal = InputError if follows_links else DamagedError
    try:
        descriptor = os.open(path, flags | _FLAGS | (0 if follows_links else _NOFOLLOW), 0o666)
    except OSError as error:
        if error.errno in _IS_LINK and not follows_links:
            raise refusal(f"{os.fspath(path)}: is a link, and none is followed here; remove it") from error
        if error.errno in _IS_NO_FILE:
            raise refusal(f"{os.fspath(path)}: is no regular file; remove it, or give another path") from error
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise refusal(f"{os.fspath(path)}: is no regular file; remove it, or give another path")
        if found.st_nlink > 1 and flags & (os.O_WRONLY | os.O_RDWR) and not follows_links:
            raise refusal(f"{os.fspath(path)}: has a second name elsewhere, a hard link; remove it")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_own_file(path: Path) -> IO[bytes]:
    """The file ``path``, whose name is geotfr's own, to be read; raises as :func:`open_regular`."""
    return os.fdopen(open_regular(path), "rb")


def read_regular(path: str | os.PathLike[str], *, most_bytes: int, what: str, follows_links: bool = False) -> bytes:
    """All bytes of the file ``path``, which is a ``what``.

    Raises
    ------
    LimitError
        It has more than ``most_bytes``.
    DamagedError, InputError, OSError
        As :func:`open_regular`.
    """
    with os.fdopen(open_regular(path, follows_links=follows_links), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        # A file of the system's own, as in /proc, tells no size; another one may grow.
        data = file.read(most_bytes + 1) if size <= most_bytes else b""
    if size > most_bytes or len(data) > most_bytes:
        raise LimitError(
            f"{os.fspath(path)}: {max(size, len(data)):,} bytes are too many for a {what}; allowed are {most_bytes:,}"
        )
    return data


def open_input(path: Path, *, wanted: str) -> io.BufferedReader:
    """The file ``path``, open for reading; ``wanted`` is what it should hold, as "a table".

    Raises
    ------
    MissingInputError
        There is no such file.
    InputError
        It is a folder, a pipe, a socket or a device, or can't be read.
    """
    try:
        file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115  (the caller closes it)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingInputError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: a folder, not {wanted}; name the file in it") from error
    except (OSError, ValueError) as error:  # ValueError: a zero byte, which no path has
        raise InputError(f"{path}: can't be read: {getattr(error, 'strerror', None) or error}") from error
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise InputError(f"{path}: a pipe or device, not {wanted}; write it to a file first")


def _without_waiting(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

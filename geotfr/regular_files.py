"""Files that a user names, opened as files: a pipe or a device has no end, or waits for its writer."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from geotfr.errors import InputError, MissingInputError

if TYPE_CHECKING:
    import io
    from pathlib import Path

__all__ = ["open_regular"]


def open_regular(path: Path, *, wanted: str) -> io.BufferedReader:
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

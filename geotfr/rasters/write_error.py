"""What a refusal to write becomes, GDAL's and the system's."""

from __future__ import annotations

import os

from geotfr.errors import OutputError

__all__ = ["DISK_HINT", "write_error"]

DISK_HINT = "; is the disk full, or a limit of file sizes reached?"
"""GDAL's words tell the scan line and not the cause."""


def write_error(path: str | os.PathLike[str], error: Exception) -> OutputError:
    """What to raise for an error of the system, or of the writer itself, met while the file ``path`` is written."""
    if not isinstance(error, OSError):
        return OutputError(f"{os.fspath(path)}: can't be written: {error}")
    return OutputError(f"{os.fspath(path)}: can't be written: {error.strerror or error}{DISK_HINT}")

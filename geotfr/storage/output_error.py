"""What an operating system's refusal to write becomes."""

from __future__ import annotations

import errno
from pathlib import Path

from geotfr.errors import OutputError

__all__ = ["output_error"]


def output_error(path: Path | str, error: OSError) -> OutputError:
    """What to raise for an ``OSError`` met while ``path`` is written."""
    hint = {
        errno.ENOSPC: "; free some space and run again",
        errno.EDQUOT: "; the quota is used up",
        errno.EFBIG: "; the file size limit (ulimit -f) or the file system allows no larger file",
        errno.EACCES: "; the folder or file is not writable for this user",
        errno.EROFS: "; the file system is read-only",
    }.get(error.errno or 0, "")
    return OutputError(f"{path}: can't be written: {error.strerror or error}{hint}")

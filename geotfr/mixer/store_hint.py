"""What to do where an address of an object store arrives as the path of a file."""

from __future__ import annotations

import os
import re

__all__ = ["store_hint"]

# A path has lost one of the slashes.
_ADDRESS = re.compile(r"(s3|gs|az|https?):/[^/]")


def store_hint(path: str | os.PathLike[str]) -> str:
    """The end of a message that ``path`` isn't there: why an address isn't seen as one; empty for other paths.

    >>> from pathlib import Path
    >>> store_hint(Path("s3://bucket/scene-mixer.json"))
    '; an address is given as text, not as a Path, which drops a slash'
    >>> store_hint("scene-mixer.json")
    ''
    """
    if not _ADDRESS.match(os.fspath(path)):
        return ""
    return "; an address is given as text, not as a Path, which drops a slash"

"""What to do where a set's files are named by an address of an object store."""

from __future__ import annotations

import os
import re

__all__ = ["store_hint"]

# A path has lost one of the slashes.
_ADDRESS = re.compile(r"(s3|gs|az):/")


def store_hint(path: str | os.PathLike[str], *, is_output: bool = False) -> str:
    """The end of a message that ``path`` isn't there: how to get what an object store has; empty for other paths.

    >>> store_hint("s3://bucket/scene-mixer.json")
    "; an object store's set is fetched with 'geotfr pull' first"
    >>> store_hint("scene-mixer.json")
    ''
    """
    if not _ADDRESS.match(os.fspath(path)):
        return ""
    if is_output:
        return "; write to a folder, and send the set with 'geotfr push'"
    return "; an object store's set is fetched with 'geotfr pull' first"

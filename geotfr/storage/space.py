"""Whether an output can fit before it is begun."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from geotfr.errors import OutputError
from geotfr.storage.output_error import output_error
from geotfr.storage.remote.staging import scratch_parent
from geotfr.stores.path import is_local

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["check_space", "free_bytes"]


def free_bytes(folder: Path) -> int:
    """Bytes that are free in ``folder``.

    Raises
    ------
    OutputError
        If it can't be asked.
    """
    try:
        return shutil.disk_usage(folder).free
    except OSError as error:
        raise output_error(folder, error) from error


def check_space(
    folder: Path, needed_bytes: int, *, what: str, advice: str = "give another --output", in_store: str = ""
) -> None:
    """Refuse, before any work, what can't fit into ``folder``.

    ``in_store`` is more advice for an output in a store.

    Raises
    ------
    OutputError
        Fewer than ``needed_bytes`` are free there.
    """
    if not is_local(folder):
        folder, advice = (
            scratch_parent(),
            "set TMPDIR to another folder: what goes to a store is made there first" + in_store,
        )
    free = free_bytes(folder)
    if free < needed_bytes:
        raise OutputError(
            f"{folder}: {what} takes at least {needed_bytes:,} bytes; {free:,} are free there; free some space, or"
            f" {advice}"
        )

"""What the kernel (inotify) tells of files that nobody should open."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

_OPENED_OR_READ = 0x20 | 0x01


class Watch:
    """Counts what the kernel tells of a file: opened, read."""

    def __init__(self, *paths: Path) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK)
        for path in paths:
            assert self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), _OPENED_OR_READ) >= 0

    def events(self) -> bytes:
        """What happened since the last call; empty: nothing."""
        with contextlib.suppress(BlockingIOError):
            return os.read(self._descriptor, 4096)
        return b""

    def close(self) -> None:
        """Stop watching."""
        os.close(self._descriptor)

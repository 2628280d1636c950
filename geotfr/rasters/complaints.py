"""GDAL's complaints that rasterio doesn't raise.

When GDAL fails to close a file, and so to write what is left of it, rasterio raises nothing: it logs GDAL's message at
level INFO. The same holds for creation options that mean nothing. So whoever writes listens to that logger.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Complaints", "listening"]

LOGGER = "rasterio._env"


@dataclass(frozen=True, slots=True)
class Complaints:
    """What GDAL said, in order, a line each.

    Attributes
    ----------
    warnings
        Its warnings.
    errors
        Its errors, raised by rasterio or not.
    """

    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@contextmanager
def listening() -> Iterator[Complaints]:
    """A context that collects what GDAL says in this thread, and keeps it from the log."""
    listener = _listener()
    listener.local.complaints = complaints = Complaints()
    try:
        yield complaints
    finally:
        listener.local.complaints = None


class _Listener(logging.Filter):
    """Collects the records of threads that listen, and lets the others through as if it weren't there."""

    def __init__(self) -> None:
        super().__init__()
        self.local = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        complaints: Complaints | None = getattr(self.local, "complaints", None)
        if complaints is None:
            # The logger's own level is lowered, so that errors get here: its parent's counts.
            return record.levelno >= logging.getLogger("rasterio").getEffectiveLevel()
        words = " ".join(record.getMessage().split())
        if "signalled an error" in words:
            complaints.errors.append(words.partition("msg=")[2].strip("'\""))
        elif record.levelno >= logging.ERROR:
            complaints.errors.append(words)
        elif record.levelno >= logging.WARNING:
            complaints.warnings.append(words)
        return False


@cache
def _listener() -> _Listener:
    logger, listener = logging.getLogger(LOGGER), _Listener()
    logger.setLevel(logging.INFO)
    logger.addFilter(listener)
    return listener

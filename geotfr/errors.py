"""The errors: one root, one class per cause, the process exit code on the class.

A message is one line with four parts: what failed, where (file, record, byte offset, option), found against
allowed, what to do next. Each class also derives from the built-in error a caller would catch.
"""

from __future__ import annotations

from geotfr.plain_text import redact

__all__ = [
    "DamagedError",
    "EngineLostError",
    "GeotfrError",
    "InputError",
    "LimitError",
    "LockedError",
    "MissingInputError",
    "OutputError",
    "OutputExistsError",
    "ReadError",
    "RecordError",
    "UsageError",
    "WorkerLostError",
]


class GeotfrError(Exception):
    """Root of all errors that geotfr raises on purpose.

    ``exit_code`` is what the command line returns; 1 means a fault in geotfr itself. Secrets in addresses (a
    password, a signed query) aren't kept in the message.
    """

    exit_code: int = 1

    def __init__(self, *args: object) -> None:
        super().__init__(*(redact(each) if isinstance(each, str) else each for each in args))


class UsageError(GeotfrError, ValueError):
    """An option, or a combination of options, that has no legal meaning."""

    exit_code = 2


class InputError(GeotfrError, ValueError):
    """An input that is there, but that geotfr can't use: another format, no georeference, complex bands."""

    exit_code = 10


class MissingInputError(InputError, FileNotFoundError):
    """An input that isn't there."""

    # FileNotFoundError.__str__ formats errno and file name; the message is the first argument alone.
    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class LockedError(GeotfrError, OSError):
    """Another process works on the same output."""

    exit_code = 11


class DamagedError(GeotfrError, ValueError):
    """An input whose bytes are damaged or contradict each other."""

    exit_code = 12


class RecordError(DamagedError):
    """A TFRecord file that is damaged, cut, or holds records of another make than announced."""


class ReadError(DamagedError, OSError):
    """A raster whose pixels can't be read."""


class LimitError(GeotfrError, MemoryError):
    """Work refused because it passes a limit: memory, record size, header size."""

    exit_code = 13


class OutputError(GeotfrError, OSError):
    """An output that can't be written: no folder, no permission, no space."""

    exit_code = 14


class OutputExistsError(OutputError, FileExistsError):
    """An output that is there already; ``--overwrite`` (``overwrite=True``) replaces it."""


class WorkerLostError(GeotfrError, RuntimeError):
    """A worker process that ended before its work was done."""

    exit_code = 15


class EngineLostError(GeotfrError, ConnectionError):
    """What runs the work is gone: a cluster's scheduler, or workers that die again and again; it can be resumed."""

    exit_code = 15

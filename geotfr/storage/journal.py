"""What a run has finished so far, beside its outputs, so that a later run can continue.

A journal is a text file of JSON objects, one a line, each synced as it is added. The first line says what is made and
from what. A line that a killed run wrote half is no line.

A journal grants nothing: it may have been put there by others. Each line is checked before any is used, and names in it
are names of the journal's own folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any

from geotfr.errors import DamagedError, LimitError
from geotfr.mixer.strict_json import parse_json
from geotfr.regular_files import read_regular
from geotfr.storage.output_error import output_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["MAX_JOURNAL_BYTES", "Journal", "check_shape", "journal_lines"]

MAX_JOURNAL_BYTES = 256 * 2**20
"""About ten times what a part of 1 TB notes."""

_CRC = re.compile(r"[0-9a-f]{8}")
_NAME = re.compile(r"[^/\\\0]{1,255}")
_LINES = {
    "facts": {"bytes": int, "crc32c": _CRC, "facts": dict},
    "whole": {"whole": dict},
    "publish": {"publish": [_NAME], "incomplete_without": [_NAME]},
}
_REMEDY = "remove the file, and run without --resume (resume=True)"


class Journal:
    """The journal of one output; a file appears with :meth:`start`.

    Parameters
    ----------
    path
        Its file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    @property
    def is_open(self) -> bool:
        """Whether lines can be added."""
        return self._descriptor >= 0

    def read(self) -> list[dict[str, Any]]:
        """The whole lines of the file, the first one first; empty where there is none.

        Raises
        ------
        DamagedError
            It is no regular file, or a line isn't one that is written here.
        LimitError
            It is too large.
        OutputError
            It can't be read.
        """
        try:
            text = read_regular(self._path, most_bytes=MAX_JOURNAL_BYTES, what="journal")
        except FileNotFoundError:
            return []
        except LimitError:
            raise
        except OSError as error:
            raise output_error(self._path, error) from error
        return journal_lines(text, name=str(self._path))

    def start(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Begin the file with ``lines``; they replace what is there at once."""
        temporary = self._path.with_name(f"{self._path.name}.new")
        try:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
            self._descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)
            self._append(lines)
            temporary.replace(self._path)
        except OSError as error:
            self.close()
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise output_error(self._path, error) from error

    def add(self, line: Mapping[str, Any]) -> None:
        """Append one line."""
        try:
            self._append([line])
        except OSError as error:
            raise output_error(self._path, error) from error

    def close(self) -> None:
        """Close the file; it stays."""
        if self.is_open:
            descriptor, self._descriptor = self._descriptor, -1
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def remove(self) -> None:
        """Close and remove the file that :meth:`start` made."""
        if self.is_open:
            self.close()
            with contextlib.suppress(OSError):
                self._path.unlink()

    def _append(self, lines: Sequence[Mapping[str, Any]]) -> None:
        text = "".join(json.dumps(line, ensure_ascii=True, allow_nan=False) + "\n" for line in lines)
        data = memoryview(text.encode())
        while data:
            data = data[os.write(self._descriptor, data) :]
        os.fsync(self._descriptor)


def journal_lines(text: bytes, *, name: str) -> list[dict[str, Any]]:
    """The whole lines of a journal's ``text``.

    Raises
    ------
    DamagedError
        A line is none that is written here.
    LimitError
        A line is nested too deep, or holds a number of too many digits.
    """
    found = []
    # What follows the last line feed was cut while it was written.
    lines = text.split(b"\n")[:-1]
    for number, line in enumerate(lines, start=1):
        where = f"{name}: line {number}"
        try:
            found.append(parse_json(line, name=where, what="line of a journal"))
        except (DamagedError, LimitError):
            if 1 < number == len(lines):
                break  # a power failure may leave the last line half written
            raise
        if number > 1:
            shape = next((each for key, each in _LINES.items() if key in found[-1]), None)
            if shape is None:
                raise DamagedError(f"{where}: not a line of a journal: none of {', '.join(_LINES)} is there; {_REMEDY}")
            check_shape(found[-1], shape, where=where)
    return found


def check_shape(value: Any, shape: Any, *, where: str) -> None:
    """Refuse a JSON ``value`` that isn't of the ``shape``.

    Parameters
    ----------
    shape
        A type; ``int`` is a whole number from 0 to 2^63 - 1. A pattern, for a text that matches it. ``[shape]`` for a
        list of such values, a tuple of shapes for a list of just as many values, and a dictionary for an object that
        has these keys, and may have others.

    Raises
    ------
    DamagedError
        With ``where``, and the keys that lead to what differs.
    """
    if isinstance(shape, dict) and isinstance(value, dict):
        for key, each in shape.items():
            if key not in value:
                raise DamagedError(f"{where}: {key} is missing; {_REMEDY}")
            check_shape(value[key], each, where=f"{where}: {key}")
        return
    if isinstance(shape, list | tuple) and isinstance(value, list):
        shapes = shape * len(value) if isinstance(shape, list) else shape
        if len(shapes) == len(value):
            for each, wanted in zip(value, shapes, strict=True):
                check_shape(each, wanted, where=where)
            return
    elif shape is int:
        if type(value) is int and 0 <= value < 2**63:
            return
    elif isinstance(shape, re.Pattern):
        if isinstance(value, str) and shape.fullmatch(value):
            return
    elif isinstance(shape, type | UnionType) and isinstance(value, shape):
        return
    found = type(value).__name__ if isinstance(value, dict | list) else repr(value)[:60]
    raise DamagedError(f"{where}: found {found}, which geotfr doesn't note there; {_REMEDY}")

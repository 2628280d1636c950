"""What a run has finished so far, beside its outputs, so that a later run can continue.

A journal is a text file of JSON objects, one a line, each synced as it is added. The first line says what is made and
from what. A line that a killed run wrote half is no line.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geotfr.errors import DamagedError, LimitError
from geotfr.mixer.strict_json import parse_json, understanding
from geotfr.storage.output_error import output_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Journal", "journal_lines"]


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
        """The whole lines of the file, the first one first; empty where there is none."""
        try:
            text = self._path.read_bytes()
        except OSError:
            return []
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
    """The whole lines of a journal's ``text``, until one that is none."""
    found = []
    # What follows the last line feed was cut while it was written.
    for line in text.split(b"\n")[:-1]:
        try:
            found.append(parse_json(line, name=name, what="journal"))
        except (DamagedError, LimitError):
            break
    for each in found[1:]:
        _check_line(each, name)
    return found


def _check_line(line: Mapping[str, Any], name: str) -> None:
    """Refuse a line that no run has written: of a file that is whole, of names, or of the end."""
    with understanding(name, "journal; remove it to begin anew"):
        if "facts" in line:
            is_right = isinstance(line["facts"], dict) and type(line["bytes"]) is int and int(line["crc32c"], 16) >= 0
        elif "publish" in line:
            lists = [line["publish"], line["incomplete_without"]]
            is_right = all(isinstance(each, list) and all(isinstance(one, str) for one in each) for each in lists)
        else:
            is_right = isinstance(line["whole"], dict)
        if not is_right:
            raise TypeError(f"a line of {', '.join(line)}")

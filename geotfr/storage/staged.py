"""The parts of a set that other runs have staged: found and read by the one who puts them together."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from geotfr.storage.journal import Journal
from geotfr.storage.lock import staging_stem
from geotfr.storage.output_error import output_error
from geotfr.storage.output_set import set_output

__all__ = ["PartKind", "StagedFile", "StagedPart", "find_parts", "part_name", "remove_parts"]


PartKind = Literal["part", "task"]
"""Parts are a user's, tasks an executor's of one run; they don't get into each other's way."""


def part_name(number: int, total: int, kind: PartKind = "part") -> str:
    """What a part is called in its lock, journal and temporary names."""
    return f"{kind}-{number}-of-{total}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """One finished file of a part: its ``path``, ``size`` in bytes, ``crc`` (CRC32C), and the ``facts`` noted of it."""

    path: Path
    size: int
    crc: int
    facts: dict[str, Any]


class StagedPart:
    """One part as its journal tells it; who reads it holds the set's lock, so that no part is being written.

    Parameters
    ----------
    output
        What stands for the set: see :func:`geotfr.storage.output_set.set_output`.
    name
        What the part is called.

    Attributes
    ----------
    head
        What it was made from.
    files
        Its finished files, in order.
    whole
        What its last line tells; None where the part isn't finished, or isn't there.
    """

    def __init__(self, output: Path, name: str) -> None:
        self._folder = output.parent
        self._stem = staging_stem(output, name)
        self._path = output.with_name(f"{self._stem}-journal")
        lines = Journal(self._path).read()
        self.head: dict[str, Any] = lines[0] if lines else {}
        self.whole: dict[str, Any] | None = next((line["whole"] for line in lines[1:] if "whole" in line), None)
        self.files = [
            StagedFile(
                path=output.with_name(f"{self._stem}-{place:05d}.tmp"),
                size=line["bytes"],
                crc=int(line["crc32c"], 16),
                facts=line["facts"],
            )
            for place, line in enumerate(line for line in lines[1:] if "facts" in line)
        ]

    def remove_files(self) -> None:
        """Remove the part's files, but not its journal."""
        for file in self.files:
            with contextlib.suppress(OSError):
                file.path.unlink(missing_ok=True)

    def remove_journal(self) -> None:
        """Remove what tells of the part."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def remove_parts(folder: Path, name: str, kind: PartKind) -> None:
    """Remove all that parts of the set ``name`` left in ``folder``; who calls holds the set's lock."""
    stem = staging_stem(set_output(folder, name))
    with contextlib.suppress(OSError):
        for entry in folder.iterdir():
            if entry.name.startswith(f"{stem}.{kind}-"):
                entry.unlink(missing_ok=True)


def find_parts(folder: Path, name: str, kind: PartKind = "part") -> list[tuple[int, int]]:
    """(number, total) of each part of the set ``name`` that left a journal in ``folder``, in order.

    Raises
    ------
    OutputError
        The folder can't be read.
    """
    stem = staging_stem(set_output(folder, name))
    pattern = re.compile(re.escape(f"{stem}.{kind}") + r"-(\d{1,9})-of-(\d{1,9})-journal")
    try:
        found = (pattern.fullmatch(entry.name) for entry in folder.iterdir())
        return sorted((int(each[1]), int(each[2])) for each in found if each)
    except OSError as error:
        raise output_error(folder, error) from error

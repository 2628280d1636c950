"""The parts of a set that other runs have staged: found and read by the one who puts them together."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from geotfr.storage.journal import Journal
from geotfr.storage.lock import staging_stem
from geotfr.storage.output_error import output_error
from geotfr.storage.output_set import set_output
from geotfr.storage.remote.staged import StoredParts
from geotfr.stores.path import StorePath

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["PartKind", "StagedFile", "StagedPart", "StagedParts", "part_name"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPart:
    """One part as its journal tells it; who reads it holds the set's lock, so that no part is being written.

    Attributes
    ----------
    head
        What it was made from; empty where the part isn't there.
    files
        Its finished files, in order.
    whole
        What its last line tells; None where the part isn't finished, or isn't there.
    """

    head: dict[str, Any]
    files: tuple[StagedFile, ...]
    whole: dict[str, Any] | None

    @staticmethod
    def told(lines: list[dict[str, Any]], places: Sequence[Path]) -> StagedPart:
        """The part whose journal has these ``lines``, and whose files are at these ``places``."""
        return StagedPart(
            head=lines[0] if lines else {},
            files=tuple(
                StagedFile(path=place, size=line["bytes"], crc=int(line["crc32c"], 16), facts=line["facts"])
                for place, line in zip(places, _files(lines), strict=True)
            ),
            whole=next((line["whole"] for line in lines[1:] if "whole" in line), None),
        )


def _files(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines[1:] if "facts" in line]


class StagedParts:
    """The parts of the set ``name`` in ``folder``, of this machine or of a store.

    Its methods raise OutputError where these can't be read; what can't be removed stays.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._output = set_output(folder, name)
        self._stem = staging_stem(self._output)
        self._stored = StoredParts(folder, name) if isinstance(folder, StorePath) else None

    def find(self, kind: PartKind = "part") -> list[tuple[int, int]]:
        """(number, total) of each part that left a journal, in order."""
        pattern = re.compile(re.escape(f"{self._stem}.{kind}") + r"-(\d{1,9})-of-(\d{1,9})-journal")
        found = (pattern.fullmatch(name) for name in self._names())
        return sorted((int(each[1]), int(each[2])) for each in found if each)

    def read(self, numbered: Sequence[tuple[int, int]], kind: PartKind = "part") -> list[StagedPart]:
        """The parts of these (number, total), in this order, those that aren't there too."""
        names = [part_name(number, total, kind) for number, total in numbered]
        if self._stored is not None:
            return [StagedPart.told(lines, places) for lines, places in self._stored.journals(names)]
        return [self._read(name) for name in names]

    def _read(self, name: str) -> StagedPart:
        lines = Journal(self._output.with_name(f"{self._stem}.{name}-journal")).read()
        count = len(_files(lines))
        places = [self._output.with_name(f"{self._stem}.{name}-{place:05d}.tmp") for place in range(count)]
        return StagedPart.told(lines, places)

    def remove(self, kind: PartKind, *, journals: bool) -> None:
        """Remove all that parts left, or but their ``journals``; who calls holds the set's lock."""
        with contextlib.suppress(OSError):
            found = [name for name in self._names() if name.startswith(f"{self._stem}.{kind}-")]
            gone = [name for name in found if journals or not name.endswith("-journal")]
            if self._stored is not None:
                self._stored.remove(gone)
                return
            for name in gone:
                self._output.with_name(name).unlink(missing_ok=True)

    def remove_journals(self, numbered: Sequence[tuple[int, int]], kind: PartKind = "part") -> None:
        """Remove what tells of the parts of these (number, total)."""
        names = [f"{self._stem}.{part_name(number, total, kind)}-journal" for number, total in numbered]
        with contextlib.suppress(OSError):
            if self._stored is not None:
                self._stored.remove(names)
                return
            for name in names:
                self._output.with_name(name).unlink(missing_ok=True)

    def _names(self) -> list[str]:
        if self._stored is not None:
            return self._stored.names()
        try:
            return [entry.name for entry in self._output.parent.iterdir()]
        except OSError as error:
            raise output_error(self._output.parent, error) from error

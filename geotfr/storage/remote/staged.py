"""The parts of a set that other runs have staged in a store; see :mod:`geotfr.storage.staged`."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from geotfr.storage.lock import staging_stem
from geotfr.storage.output_set import set_output
from geotfr.storage.remote.daemons import for_each
from geotfr.storage.remote.journal import StoreJournal
from geotfr.storage.remote.staging import opened_store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from geotfr.storage.remote.store import StoredObject
    from geotfr.stores.path import StorePath

__all__ = ["StoredParts"]

_READ_AT_ONCE = 16


class StoredParts:
    """Objects in the folder ``place`` of a store that parts of the set ``name`` left."""

    def __init__(self, place: StorePath, name: str) -> None:
        self._place = place
        self._store = opened_store(place)
        self._stem = staging_stem(set_output(place, name))

    def names(self) -> list[str]:
        """Of all of them. Raises OutputError where the store refuses."""
        return [name for name in self._objects() if name.startswith(f"{self._stem}.")]

    def journals(self, parts: Sequence[str]) -> list[tuple[list[dict[str, Any]], list[Path]]]:
        """(lines, places of the files) of the journal of each of these parts, named in order; empty where it has none.

        A file that has changed has a size of -1; one that is gone is asked for when it is needed.
        """
        objects = self._objects()
        read = functools.partial(self._journal, objects)
        return for_each(read, parts, at_once=_READ_AT_ONCE)

    def remove(self, names: Sequence[str]) -> None:
        """Remove objects."""
        self._store.remove_all(names)

    def _objects(self) -> dict[str, StoredObject]:
        return self._store.list(is_writing=True)

    def _journal(self, objects: dict[str, StoredObject], part: str) -> tuple[list[dict[str, Any]], list[Path]]:
        name = f"{self._stem}.{part}-journal"
        if name not in objects:
            return [], []
        lines = StoreJournal(self._store, name).read()
        return lines, [self._file(objects, line) for line in lines[1:] if "facts" in line]

    def _file(self, objects: dict[str, StoredObject], line: dict[str, Any]) -> Path:
        name = str(line["object"])
        found = objects.get(name)
        if not name.startswith(f"{self._stem}."):
            name, found = f"{self._stem}.of-no-part", None
        if found is None:
            return self._place / name
        is_same = (found.etag, found.size) == (line["etag"], line["bytes"])
        return (self._place / name).with_found(found if is_same else replace(found, size=-1))

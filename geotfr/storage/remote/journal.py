"""The journal of a set, or of a part of it, as an object of the store.

An object can't be added to, so it is replaced, and only by who wrote it last or has read it: the store compares its
ETag. So of two processes that make the same part at once, one of which may have been thought dead, one finds out when
it notes its next file, and what the other one has noted stays. As the names of files are of one run each, nothing that
is noted is ever overwritten.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from geotfr.errors import DamagedError, LimitError, LockedError
from geotfr.storage.journal import MAX_JOURNAL_BYTES, Journal, journal_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geotfr.storage.remote.store import Store
    from geotfr.stores.client import StoredObject

__all__ = ["StoreJournal"]

_SMALL_BYTES = 64 << 10
_PAUSE_S = 10.0
"""A large journal is sent so often at most: what was noted since is made again after a kill."""


class StoreJournal(Journal):
    """The journal ``name`` in the folder of ``store``; see :class:`Journal`. Look at it before it is started."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name
        self._etag: str | None = None
        self._text = b""
        self._is_open = False
        self.is_own = False
        """Whether it is what was started and sent here, as far as is known."""
        self._sent = 0.0

    @property
    def is_open(self) -> bool:
        """Whether lines can be added."""
        return self._is_open

    def look(self) -> StoredObject | None:
        """What the store tells of the object that is there, the one that :meth:`start` replaces.

        Raises OutputError where the store refuses.
        """
        found = self._store.head(self._name, is_writing=True)
        self._etag = None if found is None else found.etag
        return found

    def read(self) -> list[dict[str, Any]]:
        """The lines, the first one first; empty where there is none.

        Raises
        ------
        InputError
            The store refuses, or another process changed it meanwhile.
        DamagedError
            It is something else.
        """
        found = self.look()
        if found is None:
            return []
        place = self._store.address.object(self._name)
        if found.size > MAX_JOURNAL_BYTES:
            raise LimitError(f"{place}: {found.size:,} bytes are too many for a journal; remove the object")
        lines = journal_lines(b"".join(self._store.read(found)), name=place)
        if not all(map(_is_line, lines)):
            raise DamagedError(
                f"{place}: no journal of staged files; remove the object, and run without --resume (resume=True)"
            )
        return lines

    def start(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Begin with ``lines``; they replace what is there.

        Raises
        ------
        LockedError
            Another process has replaced it.
        OutputError
            The store refuses.
        """
        self._text = b""
        self._is_open = True
        self._append(lines)
        self.send()

    def add(self, line: Mapping[str, Any]) -> None:
        """Append one line; raises as :meth:`start`."""
        self._append([line])
        if len(self._text) <= _SMALL_BYTES or time.monotonic() - self._sent > _PAUSE_S:
            self.send()

    def send(self) -> None:
        """Have the store hold all lines; raises as :meth:`start`."""
        etag = self._store.put(self._name, self._text, replacing=self._etag)
        if etag is None:
            # A request that was repeated may have been answered for the second time alone.
            found = self._store.head(self._name, is_writing=True)
            if found is None or b"".join(self._store.read(found)) != self._text:
                self._is_open = self.is_own = False
                raise LockedError(
                    f"{self._store.address.object(self._name)}: another process makes the same; run again when it has"
                    " ended"
                )
            etag = found.etag
        self._etag = etag
        self.is_own = True
        self._sent = time.monotonic()

    def close(self) -> None:
        """Add nothing more; it stays."""
        self._is_open = False

    def remove(self) -> None:
        """Remove it."""
        self._is_open = False
        self._store.remove(self._name)

    def _append(self, lines: Sequence[Mapping[str, Any]]) -> None:
        self._text += "".join(json.dumps(line, ensure_ascii=True, allow_nan=False) + "\n" for line in lines).encode()


def _is_line(line: Mapping[str, Any]) -> bool:
    """Whether a line is one that is written here: where it tells of a file, all that it has to."""
    return "facts" not in line or all(isinstance(line.get(key), str) for key in ("object", "etag"))

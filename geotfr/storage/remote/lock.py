"""One writer for each set of a store: a small object that the store makes for one of two.

The lock of a process that died can't end by itself: one that wasn't renewed for an hour is taken over, by an exchange
that succeeds for one of two as well. Who lost the lock finds out before the next object.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from geotfr.errors import GeotfrError, InputError, LockedError
from geotfr.storage.lock import staging_stem

if TYPE_CHECKING:
    from pathlib import Path

    from geotfr.storage.remote.store import Store, StoredObject

__all__ = ["STALE_S", "StoreLock"]

STALE_S = 3600.0
"""Seconds without renewal after which a lock is taken over."""

_RENEW_S = 60.0


class StoreLock:
    """The lock of the set that ``output`` names, in the folder of ``store``.

    Raises
    ------
    LockedError
        Another process writes the set.
    OutputError
        The store refuses.
    """

    def __init__(self, store: Store, output: Path) -> None:
        self._store = store
        self._name = f"{staging_stem(output)}.lock"
        self._id = secrets.token_hex(8)
        self._etag = self._acquire()
        self._renewed = time.monotonic()
        self._renewing = threading.Lock()
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        # Long work between two objects, or one that takes long to send, shall not look like a death.
        threading.Thread(target=self._keep, name="geotfr-lock", daemon=True).start()
        return self

    def _keep(self) -> None:
        while not self._ended.wait(_RENEW_S):
            # Who goes on finds out before the next object.
            with contextlib.suppress(GeotfrError):
                self.renew()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        # What can't be removed is taken over when it is stale; the error that ends the work says more.
        with contextlib.suppress(GeotfrError):
            found = self._store.head(self._name)
            if found is not None and found.etag == self._etag:
                self._store.remove(self._name)

    def renew(self, *, at_once: bool = False) -> None:
        """Say that the work goes on, if that was a minute ago, or ``at_once``.

        Raises
        ------
        LockedError
            Another process took the lock over.
        """
        with self._renewing:
            if not at_once and time.monotonic() - self._renewed < _RENEW_S:
                return
            etag = self._store.put(self._name, self._text(), replacing=self._etag)
            if etag is None:
                raise LockedError(
                    f"{self._store.address.object(self._name)}: another process took over after an hour without news;"
                    " run again when it has ended"
                )
            self._etag = etag
            self._renewed = time.monotonic()

    def _text(self) -> bytes:
        facts = {
            "owner": f"process {os.getpid()} on {socket.gethostname()}",
            "id": self._id,
            "time": datetime.now(UTC).isoformat(timespec="microseconds"),
        }
        return json.dumps(facts).encode()

    def _acquire(self) -> str:
        etag = self._store.put(self._name, self._text(), replacing=None)
        if etag is not None:
            return etag
        found = self._store.head(self._name)
        if found is None:
            etag = self._store.put(self._name, self._text(), replacing=None)
            owner = "another process"
        else:
            facts = self._facts(found)
            if facts.get("id") == self._id:
                # The first answer was lost on the way, and the request repeated.
                return found.etag
            owner = facts.get("owner", "another process")
            is_stale = (datetime.now(UTC) - found.change).total_seconds() > STALE_S
            etag = self._store.put(self._name, self._text(), replacing=found.etag) if is_stale else None
        if etag is None:
            raise LockedError(
                f"{self._store.address.folder}: {owner} is writing this set; wait for it to end, or, if it is dead,"
                f" remove the object {self._name}"
            )
        return etag

    def _facts(self, found: StoredObject) -> dict[str, str]:
        with contextlib.suppress(InputError, ValueError):
            facts = json.loads(b"".join(self._store.read(found)))
            if isinstance(facts, dict):
                return {str(key): " ".join(str(value).split())[:200] for key, value in facts.items()}
        return {}

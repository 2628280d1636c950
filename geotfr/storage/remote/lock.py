"""One writer for each set of a store, or part of it: a small object that the store makes for one of two.

The lock of a process that died can't end by itself. One whose process was of this machine, and is gone, is taken over
at once; another one when it wasn't renewed for an hour, a part's for five minutes. Taking over is an exchange that
succeeds for one of two as well, and who lost the lock finds out before the next object.

Parts don't lock each other, but the set and its parts do: each makes its own lock first, and then looks for the
other's, so of two that begin at once one sees the other, or both do and both stop.
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

from geotfr.background import run_at_most
from geotfr.errors import GeotfrError, InputError, LimitError, LockedError
from geotfr.mixer.strict_json import parse_json
from geotfr.storage.lock import staging_stem
from geotfr.storage.remote.process import is_gone, process_mark

if TYPE_CHECKING:
    from pathlib import Path

    from geotfr.storage.remote.store import Store, StoredObject

__all__ = ["INTERRUPTED_S", "PART_STALE_S", "STALE_S", "StoreLock", "held_by", "was_interrupted"]

STALE_S = 3600.0
"""Seconds without renewal after which a lock is taken over."""

PART_STALE_S = 300.0
"""The same for a part's: taking over what still lives does no harm there, see :mod:`~geotfr.storage.remote.journal`."""

_RENEW_S = 60.0
_MOST_BYTES = 64 << 10

INTERRUPTED_S = 0.7
"""The time for what a run that a signal ends still has to tell the store."""


class StoreLock:
    """The lock of the set that ``output`` names, or of its ``part``, in the folder of ``store``.

    Raises
    ------
    LockedError
        Another process writes the set, or the part; or a part of the set, where the lock is the whole set's.
    OutputError
        The store refuses.
    """

    def __init__(self, store: Store, output: Path, *, part: str = "") -> None:
        self._store = store
        self._stem = staging_stem(output)
        self._part = part
        self._name = f"{staging_stem(output, part)}.lock"
        self.id = secrets.token_hex(8)
        """Tells it from all others."""
        self._etag = self._acquire()
        self._renewed = time.monotonic()
        self._renewing = threading.Lock()
        self._ended = threading.Event()
        try:
            self.objects = self._check_others()
            """What the folder holds, listed when the lock was had."""
        except BaseException:
            self.release()
            raise

    def __enter__(self) -> Self:
        # Long work between two objects, or one that takes long to send, shall not look like a death.
        threading.Thread(target=self._keep, name="geotfr-lock", daemon=True).start()
        return self

    def _keep(self) -> None:
        while not self._ended.wait(_RENEW_S):
            # Who goes on finds out before the next object.
            with contextlib.suppress(GeotfrError):
                self.renew()

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        if was_interrupted(kind):
            run_at_most(INTERRUPTED_S, self.release)
        else:
            self.release()

    def release(self) -> None:
        """Let others write."""
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
                etag = self._own_etag()
            if etag is None:
                raise LockedError(
                    f"{self._store.address.object(self._name)}: another process took over after a long time without"
                    " news; run again when it has ended"
                )
            self._etag = etag
            self._renewed = time.monotonic()

    def _text(self) -> bytes:
        facts = {
            "owner": f"process {os.getpid()} on {socket.gethostname()}",
            "id": self.id,
            "process": process_mark(os.getpid()),
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
            facts = lock_facts(self._store, found)
            if facts.get("id") == self.id:
                # The first answer was lost on the way, and the request repeated.
                return found.etag
            owner = facts.get("owner", "another process")
            is_over = self._is_over(found, facts)
            etag = self._store.put(self._name, self._text(), replacing=found.etag) if is_over else None
        if etag is None:
            raise self._locked(owner, self._name, self._part)
        return etag

    def _own_etag(self) -> str | None:
        """The lock's ETag, if it is this one: a request that was repeated is answered for the second time alone."""
        found = self._store.head(self._name, is_writing=True)
        is_own = found is not None and lock_facts(self._store, found).get("id") == self.id
        return found.etag if found is not None and is_own else None

    def _check_others(self) -> dict[str, StoredObject]:
        """Refuse a part of a set that is being written, and a set of which a part is; the objects of the folder."""
        parts = f"{self._stem}.part-"
        objects = self._store.list(is_writing=True)
        for name, found in objects.items():
            is_other = name == f"{self._stem}.lock" if self._part else name.startswith(parts)
            if is_other and name.endswith(".lock"):
                facts = lock_facts(self._store, found)
                if not self._is_over(found, facts):
                    part = name.removeprefix(f"{self._stem}.").removesuffix(".lock") if not self._part else ""
                    raise self._locked(facts.get("owner", "another process"), name, part)
        return objects

    def _locked(self, owner: str, name: str, part: str) -> LockedError:
        what = f"{part.replace('-', ' ')} of this set" if part else "this set"
        return LockedError(
            f"{self._store.address.folder}: {owner} is writing {what}; wait for it to end, or, if it is dead, remove"
            f" the object {name}"
        )

    @staticmethod
    def _is_over(found: StoredObject, facts: dict[str, str]) -> bool:
        """Whether the owner of the lock ``found`` is dead, or silent for so long that it seems so."""
        if is_gone(facts.get("process", "")):
            return True
        limit = PART_STALE_S if ".part-" in found.name else STALE_S
        return (datetime.now(UTC) - found.change).total_seconds() > limit


def was_interrupted(kind: type[BaseException] | None) -> bool:
    """Whether what ends a block is a signal: the store, which may be out of reach, is given little time then."""
    return kind is not None and not issubclass(kind, Exception)


def held_by(store: Store, output: Path) -> str:
    """The :attr:`StoreLock.id` of who holds the set ``output``; empty where nobody does."""
    found = store.head(f"{staging_stem(output)}.lock")
    return "" if found is None else lock_facts(store, found).get("id", "")


def lock_facts(store: Store, found: StoredObject) -> dict[str, str]:
    """What a lock tells of its owner; empty where it is gone or can't be read."""
    with contextlib.suppress(InputError, ValueError, LimitError):
        # It may be renewed meanwhile: then its time is another, and nothing else.
        facts = parse_json(store.read_range(found.name, 0, min(found.size, _MOST_BYTES)), name=found.name, what="lock")
        return {str(key): " ".join(str(value).split())[:200] for key, value in facts.items()}
    return {}

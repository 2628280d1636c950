"""A set of files that appears together in a store: made in a folder of this machine, and sent.

Shards go first, then what tells that the set is whole. They are sent at the end; or each when it is finished, where its
name is known then and no whole set is there. What arrived stays if the sending breaks; it isn't sent again by a later
run that makes the same bytes.
"""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from typing import TYPE_CHECKING, Any

from geotfr.background import run_at_most
from geotfr.errors import DamagedError, GeotfrError, OutputExistsError
from geotfr.storage.atomic import AtomicFile
from geotfr.storage.output_set import OutputSet, set_output
from geotfr.storage.remote.daemons import DaemonThreads
from geotfr.storage.remote.lock import INTERRUPTED_S, was_interrupted
from geotfr.storage.remote.sending import Sending, check_none_differs, file_digest
from geotfr.storage.remote.staging import locked_store, opened_store, scratch_folder
from geotfr.stores.path import StorePath

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from concurrent.futures import Future
    from pathlib import Path
    from types import TracebackType

    from geotfr.storage.remote.digest import ContentDigest
    from geotfr.storage.remote.lock import StoreLock
    from geotfr.storage.remote.store import Store, StoredObject

__all__ = ["LOCAL_FILES", "StagedFile", "StoreOutputSet"]

_WAITING = 1
"""Files that wait while another is sent."""

LOCAL_FILES = _WAITING + 2
"""The most that this machine holds at once: with the one that is sent, and the one that is written."""


class StoreOutputSet(OutputSet):
    """As :class:`OutputSet`, in the folder ``place`` of a store.

    Objects of a set without a manifest or mixer are what an earlier run sent before it broke: they stay where they have
    the bytes of the new files, and are refused where they haven't, without ``overwrite``.

    Parameters
    ----------
    place
        The folder.
    part
        Which part of the set is made.
    is_locked
        Whether the set, or the part, is locked; else who started it holds the set's lock.

    Raises
    ------
    OutputExistsError
        The set is there and ``overwrite`` is False.
    LockedError
        Another process writes the set.
    OutputError
        The store refuses, or there is no such bucket.
    """

    def __init__(
        self,
        place: StorePath,
        *,
        name: str,
        belongs: Callable[[str], bool],
        overwrite: bool,
        part: str = "",
        is_locked: bool = True,
    ) -> None:
        self.place = place
        self._is_of_set = belongs
        self._may_replace = overwrite
        self._own: Collection[str] = ()
        self._store_lock: StoreLock | None = None
        self._store: Store
        self._sender = DaemonThreads(1)
        self._pending: deque[Future[None]] = deque()
        self._has_failed = False
        self._names: Sequence[str] = ()
        self._sent: list[str] = []
        self._is_published = False
        output = set_output(place, name)
        with contextlib.ExitStack() as stack:
            if is_locked:
                self._store, self._store_lock = stack.enter_context(locked_store(place, output, part=part))
                self._objects = self._store_lock.objects
            else:
                self._store = opened_store(place)
                self._objects = self._store.list(is_writing=True)
            self._read_journal(output, part)
            self._first = self._there(self._objects)
            self._told = [name for name in self._first if name.endswith(".json") and name not in self._own]
            if self._told and not overwrite:
                raise OutputExistsError(
                    f"{place / self._told[0]}: exists already"
                    + (f" with {len(self._first) - 1} more files of this set" if len(self._first) > 1 else "")
                    + "; --overwrite (overwrite=True) replaces the set"
                )
            folder = stack.enter_context(scratch_folder(place, output))
            super().__init__(folder, name=name, belongs=lambda _: False, overwrite=True)
            self._opened = stack.pop_all()

    @property
    def run(self) -> str:
        return "" if self._store_lock is None else self._store_lock.id

    def _read_journal(self, output: Path, part: str) -> None:
        """Look for what a stopped run left in the store: nothing here."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._end(error)
            super().__exit__(kind, error, trace)
        finally:
            self._opened.__exit__(kind, error, trace)

    def _end(self, error: BaseException | None) -> None:
        """End what is under way, and keep or remove what is in the store."""
        for future in self._pending:
            # A file that is under way shall arrive and be listed, unless it is the store that fails, or a signal came.
            if not future.cancel() and isinstance(error, Exception) and not self._has_failed:
                with contextlib.suppress(Exception):
                    future.result()
        self._sender.end()
        leave = functools.partial(self._leave, error)
        if was_interrupted(None if error is None else type(error)):
            run_at_most(INTERRUPTED_S, leave)
        else:
            leave()

    def _leave(self, error: BaseException | None) -> None:
        """Remove what was sent by a run that failed, unless it was the store that failed: the next run needs it."""
        if error is not None and not self._has_failed and not self._is_published:
            with contextlib.suppress(GeotfrError):
                self._store.remove_all(self._sent)

    def create(self, name: str = "", *, expected_bytes: int | None = None) -> AtomicFile:
        number = len(self._files)
        file = StagedFile(
            self.folder / (name or self._output.name),
            temporary=self.folder / f"{number:05d}.tmp",
            expected_bytes=expected_bytes,
        )
        self._files.append(file)
        return file

    def local_bytes(self, total: int, largest: int) -> int:
        return min(total, LOCAL_FILES * largest) if self._names else total

    def begin(self, head: Mapping[str, Any]) -> list[tuple[AtomicFile, dict[str, Any]]]:
        """Nothing: no run is continued."""
        del head
        return []

    def finished(self, file: AtomicFile, facts: Mapping[str, Any]) -> None:
        """Have a finished file sent, if its name is known; waits where too many files wait already."""
        del facts
        if self._names:
            assert isinstance(file, StagedFile)
            name = self._names[len(self._listed)]
            self._listed.append(file)
            self._submit(functools.partial(self._send_named, file, name))

    def _submit(self, call: Callable[[], None]) -> None:
        self._settle(_WAITING)
        self._pending.append(self._sender.submit(functools.partial(self._in_turn, call)))

    def _in_turn(self, call: Callable[[], None]) -> None:
        """Behind a file that didn't arrive none is sent: what is there is in order."""
        if self._has_failed:
            return
        try:
            call()
        except BaseException:
            self._has_failed = True
            raise

    def settle(self) -> None:
        """Wait until all finished files have arrived; raises what kept one from it."""
        self._settle(0)

    def _settle(self, waiting: int) -> None:
        """Wait until no more than ``waiting`` files do; raises what kept one from being sent."""
        while len(self._pending) > waiting:
            self._pending.popleft().result()

    def _digest(self, file: StagedFile) -> ContentDigest:
        """The checksums of a finished file, read again; before it is sent the lock is renewed."""
        if self._store_lock is not None:
            self._store_lock.renew()
        digest = file_digest(file.staged_path)
        if (digest.size, digest.crc) != (file.size, file.crc):
            raise DamagedError(
                f"{file.staged_path}: CRC32C {digest.crc:08x} before it is sent, {file.crc:08x} was written; run again"
            )
        return digest

    def _send_named(self, file: StagedFile, name: str) -> None:
        digest = self._digest(file)
        found = self._first.get(name)
        if found is None or not self._store.holds(found, digest):
            if not self._may_replace and name not in self._own:
                check_none_differs(self._store, [name] if found is not None else [])
            found = self._store.upload(file.staged_path, name, digest=digest)
            self._sent.append(name)
        file.sent((self.place / name).with_found(found))

    def check_expected(self, sizes: Mapping[str, int | None], *, in_order: Sequence[str]) -> None:
        """See :meth:`OutputSet.check_expected`; bytes are compared when they are known."""
        if not self._told:
            self._names = in_order
        if not self._may_replace:
            differing = [
                name
                for name, found in self._first.items()
                if name not in self._own and (name not in sizes or sizes[name] not in (None, found.size))
            ]
            check_none_differs(self._store, sorted(differing))

    def publish(self, named: Sequence[tuple[str, AtomicFile]], *, incomplete_without: Sequence[str]) -> None:
        """Send the finished files in this order; see :meth:`OutputSet.publish`.

        Raises
        ------
        OutputExistsError
            Objects of the set are there with other bytes, and ``overwrite`` is False.
        LockedError
            Another process took over.
        OutputError
            The store refuses. What arrived stays, and never looks complete.
        """
        self.settle()
        self._is_published = True
        there = self._there(self._store.list(is_writing=True))
        sending = Sending(
            self._store,
            {name: file.staged_path for name, file in named},
            listed={name: (file.size, f"{file.crc:08x}") for name, file in named},
            there=there,
            tellers=[name for name in reversed(incomplete_without) if name in there],
            replaceable=there if self._may_replace else self._own,
        )
        sending.check_differing(overwrite=self._may_replace)
        assert self._store_lock is not None
        sending.run(self._store_lock)
        self.unchanged = [name for name in sending.kept if name not in self._sent]

    def _there(self, objects: Mapping[str, StoredObject]) -> dict[str, StoredObject]:
        return {name: each for name, each in objects.items() if self._is_of_set(name)}


class StagedFile(AtomicFile):
    """A file on its way: of this machine while it is written, then an object of the store."""

    def sent(self, place: StorePath) -> None:
        """Be the object at ``place`` from now on."""
        super().discard()
        self._temporary = place

    @property
    def stored(self) -> StoredObject:
        """What the store told of the object."""
        assert isinstance(self._temporary, StorePath)
        return self._temporary.found()

    def discard(self) -> None:
        """Remove the file of this machine; the object is the set's."""
        if not isinstance(self._temporary, StorePath):
            super().discard()

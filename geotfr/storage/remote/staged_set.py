"""A set in a store whose files are sent as they are finished, under hidden names, and get their own at the end.

So a run that was stopped can be continued, on any machine, and parts that were made on several are found by the one who
makes the set of them. A journal in the store lists the files (:mod:`geotfr.storage.remote.journal`). A thread sends
while the next file is made: this machine holds three files at most. At the end the store copies them, first the shards,
and then what tells that the set is whole is sent; what had the hidden names is removed.
"""

from __future__ import annotations

import contextlib
import functools
import secrets
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geotfr.background import run_at_most
from geotfr.errors import DamagedError, GeotfrError, LockedError, WorkerLostError
from geotfr.storage.atomic import AtomicFile
from geotfr.storage.lock import staging_stem
from geotfr.storage.output_set import check_head
from geotfr.storage.remote.daemons import DaemonThreads
from geotfr.storage.remote.journal import StoreJournal
from geotfr.storage.remote.lock import INTERRUPTED_S, held_by, was_interrupted
from geotfr.storage.remote.output_set import StoreOutputSet
from geotfr.storage.remote.sending import file_digest
from geotfr.stores.path import StorePath

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future
    from types import TracebackType

    from geotfr.storage.remote.store import StoredObject

__all__ = ["StagedStoreSet"]

_WAITING = 1
"""Files that wait while another is sent."""

LOCAL_FILES = _WAITING + 2
"""The most that this machine holds at once: with the one that is sent, and the one that is written."""


class StagedStoreSet(StoreOutputSet):
    """As :class:`StoreOutputSet`, of files that are in the store before they are published.

    Parameters
    ----------
    resume, part, shares_set
        As for :class:`geotfr.storage.output_set.OutputSet`. Parts of one set have locks of their own, and none where
        ``shares_set`` is False.
    run
        Who holds the set for which a part without a lock is made: work that goes on behind the end of that run would
        leave files that are nobody's.

    Raises
    ------
    WorkerLostError
        The run has ended.
    GeotfrError
        What :class:`StoreOutputSet` raises.
    """

    def __init__(
        self,
        place: StorePath,
        *,
        name: str,
        belongs: Callable[[str], bool],
        overwrite: bool,
        resume: bool,
        part: str = "",
        shares_set: bool = False,
        run: str = "",
    ) -> None:
        self._continues = resume
        self._wanted_by = run
        super().__init__(
            place, name=name, belongs=belongs, overwrite=overwrite, part=part, is_locked=shares_set or not part
        )
        self._attempt = secrets.token_hex(4)
        self._sender = DaemonThreads(1)
        self._pending: deque[Future[None]] = deque()
        self._made = 0
        self._has_failed = False
        self._resume = resume
        self._journal, self._lines = self._store_journal, self._store_lines

    def _read_journal(self, output: Path, part: str) -> None:
        if self._wanted_by and held_by(self._store, output) != self._wanted_by:
            raise WorkerLostError(f"{output}: the run for which this was made has ended; nothing more is written")
        self._set_stem, self._object_stem = staging_stem(output), staging_stem(output, part)
        self._store_journal = StoreJournal(self._store, f"{self._object_stem}-journal")
        self._store_lines: list[dict[str, Any]] = []
        if self._continues:
            self._store_lines = self._store_journal.read()
        else:
            self._store_journal.look()
        self._own = {name for line in self._store_lines for name in line.get("publish", ())}

    def local_bytes(self, total: int, largest: int) -> int:
        return min(total, LOCAL_FILES * largest)

    def begin(self, head: Mapping[str, Any]) -> list[tuple[AtomicFile, dict[str, Any]]]:
        """Start the journal; see :meth:`OutputSet.begin`. A file is taken for whole by its size and ETag."""
        if self._lines:
            check_head(self._output, self._lines[0], head)
        # Nobody else has written files of this stem since.
        objects = self._objects
        published = [line["publish"] for line in self._lines if "publish" in line]
        lines = [line for line in self._lines[1:] if "facts" in line]
        found: list[tuple[AtomicFile, dict[str, Any]]] = []
        for number, line in enumerate(lines):
            place = self._place_of(line, objects, published[-1][number : number + 1] if published else ())
            if place is None:
                break
            file = _Staged(self.folder / place.name, temporary=place, finished=(line["bytes"], int(line["crc32c"], 16)))
            found.append((file, line))
        self._files = [file for file, _ in found]
        self._listed = list(self._files)
        if len(found) == len(lines):
            self.whole = next((line["whole"] for line in self._lines[1:] if "whole" in line), None)
        ends = [] if self.whole is None else [{"whole": self.whole}]
        # What a stopped run was giving its names stays its own.
        ends += [line for line in self._lines if "publish" in line]
        self._journal.start([head, *(line for _, line in found), *ends])
        kept = {line["object"] for _, line in found}
        self._store.remove_all(sorted(name for name in objects if self._is_staged_name(name) and name not in kept))
        return [(file, line["facts"]) for file, line in found]

    def _place_of(
        self, line: Mapping[str, Any], objects: Mapping[str, StoredObject], names: Sequence[str]
    ) -> StorePath | None:
        """Where the file of a journal's line is: under its hidden name, or at one of ``names``, that it was given."""
        found = objects.get(line["object"])
        if found is not None and (found.etag, found.size) == (line["etag"], line["bytes"]):
            # A journal leads to nothing but staged files.
            return (self.place / found.name).with_found(found) if found.name.startswith(self._set_stem) else None
        for given in (objects[name] for name in names if name in objects and self._is_of_set(name)):
            if given.size == line["bytes"] and (
                given.etag == line["etag"] or f"{self._store.crc_of(given):08x}" == line["crc32c"]
            ):
                return (self.place / given.name).with_found(given)
        return None

    def _is_staged_name(self, name: str) -> bool:
        return name.startswith(f"{self._object_stem}-") and name != f"{self._object_stem}-journal"

    def create(self, *, expected_bytes: int | None = None) -> AtomicFile:
        number = len(self._files)
        file = _Staged(
            self.folder / f"file {number} of the set",
            temporary=self.folder / f"{number:05d}.tmp",
            expected_bytes=expected_bytes,
        )
        self._files.append(file)
        return file

    def finished(self, file: AtomicFile, facts: Mapping[str, Any]) -> None:
        """Have a finished file sent and listed, if a journal was begun; waits where too many files wait already."""
        assert isinstance(file, _Staged)
        if self._journal.is_open:
            self._submit(functools.partial(self._send, file, facts), waiting=_WAITING)
            self._listed.append(file)

    def adopt(self, file: Path, *, size: int, crc: int, facts: Mapping[str, Any]) -> AtomicFile:
        """Make a staged file of another part the set's next one: it is listed, and stays where it is."""
        assert isinstance(file, StorePath)
        adopted = _Staged(self.folder / file.name, temporary=file, finished=(size, crc))
        self._submit(functools.partial(self._note, adopted, facts), waiting=_WAITING)
        self._listed.append(adopted)
        self._files.append(adopted)
        return adopted

    def _submit(self, call: Callable[[], None], *, waiting: int) -> None:
        self._settle(waiting)
        self._pending.append(self._sender.submit(functools.partial(self._in_turn, call)))

    def _in_turn(self, call: Callable[[], None]) -> None:
        """Behind a file that didn't arrive none is listed: what is listed is in order."""
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

    def _send(self, file: _Staged, facts: Mapping[str, Any]) -> None:
        if self._store_lock is not None:
            self._store_lock.renew()
        digest = file_digest(file.staged_path)
        if (digest.size, digest.crc) != (file.size, file.crc):
            raise DamagedError(
                f"{file.staged_path}: CRC32C {digest.crc:08x} before it is sent, {file.crc:08x} was written; run again"
            )
        name = f"{self._object_stem}-{self._attempt}-{self._made:05d}.tmp"
        self._made += 1
        file.sent((self.place / name).with_found(self._store.upload(file.staged_path, name, digest=digest)))
        try:
            if not self._journal.is_open:
                # The run ended meanwhile.
                raise LockedError(f"{self._output}: {name} came too late")
            self._note(file, facts)
        except LockedError:
            with contextlib.suppress(GeotfrError):
                self._store.remove(name)
            raise

    def _note(self, file: _Staged, facts: Mapping[str, Any]) -> None:
        found = file.stored
        self._journal.add(
            {
                "bytes": file.size,
                "crc32c": f"{file.crc:08x}",
                "object": found.name,
                "etag": found.etag,
                "facts": facts,
            }
        )

    def complete(self, facts: Mapping[str, Any]) -> None:
        """Note in the journal that no file will follow, when all have arrived; see :meth:`OutputSet.complete`."""
        self.settle()
        if self.whole is None:
            self._journal.add({"whole": facts})
            self._store_journal.send()

    def publish(self, named: Sequence[tuple[str, AtomicFile]], *, incomplete_without: Sequence[str]) -> None:
        """Have the store copy what was sent, and send the rest; see :meth:`StoreOutputSet.publish`."""
        self.settle()
        self._journal.add({"publish": [name for name, _ in named], "incomplete_without": list(incomplete_without)})
        self._store_journal.send()
        super().publish(named, incomplete_without=incomplete_without)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._end(error)
        finally:
            # The files of this machine go with their folder.
            super().__exit__(kind, error, trace)

    def _end(self, error: BaseException | None) -> None:
        is_kept = self._is_staged or (error is not None and self._resume and bool(self._listed))
        for future in self._pending:
            # A file that is under way shall arrive and be listed, unless it is the store that fails, or a signal came.
            if not future.cancel() and isinstance(error, Exception) and not self._has_failed:
                with contextlib.suppress(Exception):
                    future.result()
        self._sender.end()
        if was_interrupted(None if error is None else type(error)):
            run_at_most(INTERRUPTED_S, functools.partial(self._leave, error, is_kept=is_kept))
        else:
            self._leave(error, is_kept=is_kept)

    def _leave(self, error: BaseException | None, *, is_kept: bool) -> None:
        """Keep or remove what is in the store."""
        # What can't be removed is hidden, and removed by the next run.
        with contextlib.suppress(GeotfrError):
            if is_kept:
                if self._journal.is_open:
                    self._store_journal.send()
                self._journal.close()
            elif self._store_journal.is_own:
                if error is not None:
                    self._journal.remove()
                self._store.remove_all(sorted(filter(self._is_staged_name, self._store.list())))
                # Last where the set is whole: without it, files that are left would be nobody's.
                self._journal.remove()


class _Staged(AtomicFile):
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

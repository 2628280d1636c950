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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geotfr.errors import GeotfrError, LockedError, WorkerLostError
from geotfr.storage.atomic import AtomicFile
from geotfr.storage.lock import staging_stem
from geotfr.storage.output_set import check_head
from geotfr.storage.remote.journal import StoreJournal
from geotfr.storage.remote.lock import held_by
from geotfr.storage.remote.output_set import LOCAL_FILES, StagedFile, StoreOutputSet
from geotfr.stores.path import StorePath

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from geotfr.storage.remote.store import StoredObject

__all__ = ["StagedStoreSet"]


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
        self._made = 0
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
            file = StagedFile(
                self.folder / place.name, temporary=place, finished=(line["bytes"], int(line["crc32c"], 16))
            )
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

    def finished(self, file: AtomicFile, facts: Mapping[str, Any]) -> None:
        """Have a finished file sent and listed, if a journal was begun; waits where too many files wait already."""
        assert isinstance(file, StagedFile)
        if self._journal.is_open:
            self._submit(functools.partial(self._send, file, facts))
            self._listed.append(file)

    def adopt(self, file: Path, *, size: int, crc: int, facts: Mapping[str, Any]) -> AtomicFile:
        """Make a staged file of another part the set's next one: it is listed, and stays where it is."""
        assert isinstance(file, StorePath)
        adopted = StagedFile(self.folder / file.name, temporary=file, finished=(size, crc))
        self._submit(functools.partial(self._note, adopted, facts))
        self._listed.append(adopted)
        self._files.append(adopted)
        return adopted

    def _send(self, file: StagedFile, facts: Mapping[str, Any]) -> None:
        digest = self._digest(file)
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

    def _note(self, file: StagedFile, facts: Mapping[str, Any]) -> None:
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

    def _leave(self, error: BaseException | None) -> None:
        """Keep or remove what is in the store."""
        is_kept = self._is_staged or (error is not None and self._resume and bool(self._listed))
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

"""A set of files that appears together: shards, then the mixer, then the manifest.

Every file is written and synced under a temporary name first. Publishing removes what could make a mixture look whole
(the old manifest and mixer), renames in the order given, so that the manifest comes last, and removes what the old set
had more. The index of what is replaced or removed goes first: it would be another file's. What fails before publishing
leaves the old set as it was and no temporary file.

A set with a journal can be resumed: a run that was killed leaves its finished files and the journal that lists them,
and so does one that was asked to resume and failed. The next run that resumes checks each by size and CRC32C and
continues behind the last good one; one that doesn't resume removes them.

A part of a set is staged instead of published: its files stay under their temporary names, and its journal says that
they are all (:mod:`geotfr.storage.staged` reads it).
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from geotfr.errors import DamagedError, OutputError, OutputExistsError, UsageError
from geotfr.records.index import index_names
from geotfr.regular_files import open_own_file
from geotfr.storage.atomic import AtomicFile, check_folder, check_output, file_mode, is_whole, sync_folder
from geotfr.storage.journal import Journal
from geotfr.storage.lock import OutputLock, staging_stem
from geotfr.storage.output_error import output_error
from geotfr.stores.path import is_there

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

__all__ = ["OutputSet", "check_head", "differences", "set_output"]


_COMPARED_BYTES = 1 << 20


class OutputSet:
    """Files of one folder that take their final names together.

    Parameters
    ----------
    folder
        Where they go. A folder that is missing is made if ``make_folder`` is set and its parent exists.
    name
        What the set is called: it is locked by this name.
    belongs
        Whether a file name of the folder is one that this set may have.
    overwrite
        Whether an older set may be replaced.
    resume
        Whether to continue what a stopped run left, and to leave what is finished if this one fails.
    part
        Which part of the set is made; each has a lock, a journal and temporary names of its own.
    shares_set
        Whether a part shares the set's lock with other parts; else who started it holds that.

    Raises
    ------
    OutputExistsError
        The folder holds files of the set and ``overwrite`` is False.
    LockedError
        Another process writes the set.
    OutputError
        The folder is missing or not writable.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str,
        belongs: Callable[[str], bool],
        overwrite: bool,
        make_folder: bool = False,
        resume: bool = False,
        part: str = "",
        shares_set: bool = False,
    ) -> None:
        self.folder = folder
        self._belongs = belongs
        self._overwrite = overwrite
        self._resume = resume
        self.unchanged: list[str] = []
        """Files of an older set that had the bytes of the new one and were left alone."""
        self._files: list[AtomicFile] = []
        self._listed: list[AtomicFile] = []
        self._modes: dict[str, int | None] = {}
        self._made_folder = False
        if make_folder and not folder.exists() and folder.parent.is_dir():
            try:
                # Other parts of the set may make it meanwhile.
                folder.mkdir(exist_ok=True)
            except OSError as error:
                raise output_error(folder, error) from error
            self._made_folder = True
        self._output = set_output(folder, name)
        check_folder(folder)
        self._stem = staging_stem(self._output, part)
        self._journal = Journal(folder / f"{self._stem}-journal")
        self._is_staged = False
        self.whole: dict[str, Any] | None = None
        """What :meth:`complete` was given by an earlier run, if :meth:`begin` found all of its files."""
        self._locks = contextlib.ExitStack()
        try:
            if shares_set:
                self._locks.enter_context(OutputLock(self._output, keeps_leftovers=True, is_shared=True))
            self._lock = self._locks.enter_context(OutputLock(self._output, keeps_leftovers=resume, part=part))
            self._lines = self._journal.read() if resume else []
            # What the stopped run was giving its names is taken back, not overwritten.
            own = {name for line in self._lines for name in line.get("publish", ())}
            self._check_present([name for name in self._present() if name not in own])
        except BaseException:
            self._locks.close()
            raise

    def _check_present(self, present: Sequence[str]) -> None:
        if present and not self._overwrite:
            raise OutputExistsError(
                f"{self.folder / present[0]}: exists already"
                + (f" with {len(present) - 1} more files of this set" if len(present) > 1 else "")
                + (" and there is nothing to resume" if self._resume and not self._lines else "")
                + "; --overwrite (overwrite=True) replaces the set"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_kept = self._is_staged or (error is not None and self._resume and bool(self._listed))
        for file in self._files:
            if not (is_kept and file in self._listed):
                file.discard()
        if is_kept:
            self._journal.close()
        else:
            self._journal.remove()
        self._locks.close()
        if self._made_folder:
            # Only if nothing was published into it.
            with contextlib.suppress(OSError):
                self.folder.rmdir()

    @property
    def noted(self) -> Mapping[str, Any]:
        """The head of a stopped run's journal, to be compared with what is made now; empty where there is none."""
        return self._lines[0] if self._lines else {}

    def begin(self, head: Mapping[str, Any]) -> list[tuple[AtomicFile, dict[str, Any]]]:
        """Start the journal with ``head``; what a stopped run with the same head finished, in order.

        Parameters
        ----------
        head
            What is made, and from what, in JSON types.

        Returns
        -------
        list of (file, facts)
            Files that are whole under their temporary names, and the facts that :meth:`finished` was given.

        Raises
        ------
        UsageError
            The stopped run had another head. What it left stays.
        OutputError
            The journal can't be written.
        """
        if self._lines:
            check_head(self._output, self._lines[0], head)
            self._take_back()
        found = []
        for number, line in enumerate(line for line in self._lines[1:] if "facts" in line):
            path = self._staging(number)
            if not is_whole(path, size=line["bytes"], crc=int(line["crc32c"], 16)):
                break
            file = AtomicFile(path, temporary=path, finished=(line["bytes"], int(line["crc32c"], 16)))
            found.append((file, line))
        self._files = [file for file, _ in found]
        self._listed = list(self._files)
        if len(found) == sum("facts" in line for line in self._lines[1:]):
            self.whole = next((line["whole"] for line in self._lines[1:] if "whole" in line), None)
        ends = [] if self.whole is None else [{"whole": self.whole}]
        self._journal.start([head, *(line for _, line in found), *ends])
        kept = {self.folder / f"{self._stem}-journal", *(self._staging(number) for number in range(len(found)))}
        self._lock.remove_leftovers(besides=kept)
        return [(file, line["facts"]) for file, line in found]

    def finished(self, file: AtomicFile, facts: Mapping[str, Any]) -> None:
        """List a finished file in the journal, if one was begun, with what a later run needs to continue behind it."""
        if self._journal.is_open:
            self._journal.add({"bytes": file.size, "crc32c": f"{file.crc:08x}", "facts": facts})
            self._listed.append(file)

    def adopt(self, file: Path, *, size: int, crc: int, facts: Mapping[str, Any]) -> AtomicFile:
        """Make a whole file of the folder the set's next one, without copying it.

        Raises
        ------
        OutputError
            It isn't there, or can't be renamed.
        """
        path = self._staging(len(self._files))
        adopted = AtomicFile(file, temporary=path, finished=(size, crc))
        # Listed first: a file that the journal doesn't know is removed by the next run.
        self.finished(adopted, facts)
        try:
            file.replace(path)
        except OSError as error:
            raise output_error(file, error) from error
        self._files.append(adopted)
        return adopted

    @property
    def run(self) -> str:
        """What tells this run from others to those who make parts for it; empty where their locks do."""
        return ""

    def settle(self) -> None:
        """Wait until all finished files are where they stay until they are published."""

    def local_bytes(self, total: int, largest: int) -> int:
        """How many of a set's ``total`` bytes lie in :attr:`folder` at once; the ``largest`` file has so many."""
        del largest
        return total

    def check_expected(self, sizes: Mapping[str, int | None], *, in_order: Sequence[str]) -> None:
        """Refuse what a set has there and this one won't: other names, or other sizes where these are known.

        In a folder all that is there was refused before. ``in_order`` are the names of the files that will be
        :meth:`finished`, if they may be elsewhere then.
        """

    def complete(self, facts: Mapping[str, Any]) -> None:
        """Note in the journal that no file will follow those that are finished, and ``facts`` of the whole."""
        if self.whole is None:
            self._sync()
            self._journal.add({"whole": facts})

    def stage(self) -> None:
        """Leave the files under their temporary names, and the journal that lists them, for good."""
        self._is_staged = True

    def _take_back(self) -> None:
        """Give the files that a stopped run had named their temporary names again; first what calls them whole."""
        for line in self._lines:
            if "publish" in line:
                self._remove([name for name in line["incomplete_without"] if self._belongs(name)])
                for number, name in enumerate(line["publish"]):
                    is_shard = name not in line["incomplete_without"] and self._belongs(name)
                    if is_shard and not self._staging(number).exists():
                        with contextlib.suppress(FileNotFoundError):
                            self._rename(self.folder / name, self._staging(number))

    @staticmethod
    def _rename(path: Path, target: Path) -> None:
        try:
            path.replace(target)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise output_error(path, error) from error

    def _staging(self, number: int) -> Path:
        return self.folder / f"{self._stem}-{number:05d}.tmp"

    def create(self, name: str = "", *, expected_bytes: int | None = None) -> AtomicFile:
        """A new file of the set, to be written, finished, and named at :meth:`publish`; see :class:`AtomicFile`.

        Errors call it ``name``, as it is likely to be named, or else as the set.
        """
        number = len(self._files)
        file = AtomicFile(
            self.folder / (name or self._output.name),
            temporary=self._staging(number),
            expected_bytes=expected_bytes,
        )
        self._files.append(file)
        return file

    def withdraw(self, named: Sequence[tuple[str, AtomicFile]], *, incomplete_without: Sequence[str]) -> None:
        """Make the old set look incomplete, before :meth:`publish` with the same arguments does.

        Raises
        ------
        OutputError
            As :meth:`publish`, where a name can't be taken; the old set is whole then.
        """
        for name, _ in named:
            check_output(self.folder / name, overwrite=self._overwrite)
        old = self._present()
        self._modes = {name: file_mode(self.folder / name) for name in old}
        self._remove([name for name in incomplete_without if name in old])

    def publish(self, named: Sequence[tuple[str, AtomicFile]], *, incomplete_without: Sequence[str]) -> None:
        """Give each finished file its name, in this order; ``incomplete_without`` names what is removed first.

        A file of the old set with the very bytes of the new one stays as it is: :attr:`unchanged` names it.

        Raises
        ------
        OutputError
            A name is too long or can't be taken. The set then lacks its last files and never looks complete.
        """
        for name, _ in named:
            check_output(self.folder / name, overwrite=self._overwrite)
        new = {name for name, _ in named}
        old = self._present()
        if self._journal.is_open:
            names = [name for name, _ in named]
            self._journal.add({"publish": names, "incomplete_without": list(incomplete_without)})
        modes = {name: file_mode(self.folder / name) for name in old} | self._modes
        self._remove([name for name in incomplete_without if name in old])
        last = len(named) - 1
        for position, (name, file) in enumerate(named):
            if position == last:
                # Surplus files of the old set go before the last file says that this one is complete.
                self._remove([other for other in old if other not in new and other not in incomplete_without])
                self._sync()
            if position < last and name in old and name not in incomplete_without and self._is_same(name, file):
                file.discard()
                self.unchanged.append(name)
            else:
                self._remove_index(name)
                file.publish(self.folder / name, mode=modes.get(name))
        self._sync()

    def _is_same(self, name: str, file: AtomicFile) -> bool:
        """Whether the file that has the name holds the bytes of ``file``: sizes first, then all of both."""
        path = self.folder / name
        try:
            return path.stat().st_size == file.size and _is_same_content(path, file.staged_path)
        except (OSError, DamagedError):
            # What can't be read, or is a link, is replaced.
            return False

    def _present(self) -> list[str]:
        try:
            return sorted(entry.name for entry in self.folder.iterdir() if self._belongs(entry.name))
        except OSError as error:
            raise output_error(self.folder, error) from error

    def _remove(self, names: Sequence[str]) -> None:
        """Remove files of the set, and their indices."""
        for name in names:
            self._remove_index(name)
            self._unlink(name)

    def _remove_index(self, name: str) -> None:
        for index in index_names(name):
            if is_there(self.folder / index):
                self._unlink(index)

    def _unlink(self, name: str) -> None:
        path = self.folder / name
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"{path}: the old file can't be removed: {error.strerror}") from error

    def _sync(self) -> None:
        try:
            sync_folder(self.folder)
        except OSError as error:
            raise output_error(self.folder, error) from error


def _is_same_content(path: Path, other: Path) -> bool:
    """Whether two files hold the same bytes."""
    with open_own_file(path) as one, other.open("rb") as two:
        while piece := one.read(_COMPARED_BYTES):
            if piece != two.read(_COMPARED_BYTES):
                return False
        return not two.read(1)


def set_output(folder: Path, name: str) -> Path:
    """What stands for a set in its lock and temporary names; a set without a name is the folder's own."""
    return folder / (name or "set")


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """(dotted name, old value, new value) of what differs in two journals' heads, in JSON types."""
    then, now = dict(_flat(old)), dict(_flat(new))
    return [
        (key, then.get(key), now.get(key)) for key in sorted(then.keys() | now.keys()) if then.get(key) != now.get(key)
    ]


def check_head(output: Path, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to continue what was begun otherwise; the first three things that differ are named."""
    # Through JSON, as the journal went: tuples become lists, keys text.
    differing = differences(then, json.loads(json.dumps(now)))
    if differing:
        told = "; ".join(f"{key} was {old!r}, is {new!r}" for key, old, new in differing[:3])
        more = f"; and {len(differing) - 3} more" if len(differing) > 3 else ""
        raise UsageError(
            f"{output}: the stopped run can't be resumed: {told}{more}; repeat its options, or leave --resume"
            " (resume=True) out to start again"
        )


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted name, value) of everything in nested objects and lists."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _flat(part, f"{name}.{key}" if name else str(key))
    else:
        yield name, value

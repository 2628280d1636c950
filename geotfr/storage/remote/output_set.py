"""A set of files that appears together in a store: made in a folder of this machine, and sent at the end.

Shards go first, then what tells that the set is whole. What arrived stays if the sending breaks; it isn't sent again by
a later run that makes the same bytes.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from geotfr.errors import OutputExistsError
from geotfr.storage.output_set import OutputSet, set_output
from geotfr.storage.remote.sending import Sending, check_none_differs
from geotfr.storage.remote.staging import locked_store, opened_store, scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from geotfr.storage.atomic import AtomicFile
    from geotfr.storage.remote.lock import StoreLock
    from geotfr.storage.remote.store import Store, StoredObject
    from geotfr.stores.path import StorePath

__all__ = ["StoreOutputSet"]


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
            told = [name for name in self._first if name.endswith(".json") and name not in self._own]
            if told and not overwrite:
                raise OutputExistsError(
                    f"{place / told[0]}: exists already"
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
            super().__exit__(kind, error, trace)
        finally:
            self._opened.__exit__(kind, error, trace)

    def check_expected(self, sizes: Mapping[str, int | None]) -> None:
        """See :meth:`OutputSet.check_expected`; bytes are compared when they are known."""
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
        self.unchanged = list(sending.kept)

    def _there(self, objects: Mapping[str, StoredObject]) -> dict[str, StoredObject]:
        return {name: each for name, each in objects.items() if self._is_of_set(name)}

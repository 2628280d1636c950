"""A set of files that appears together in a store: made in a folder of this machine, and sent at the end.

Shards go first, then what tells that the set is whole. What arrived stays if the sending breaks; it isn't sent again by
a later run that makes the same bytes.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from geotfr.errors import OutputExistsError, UsageError
from geotfr.storage.output_set import OutputSet, set_output
from geotfr.storage.remote.sending import Sending
from geotfr.storage.remote.staging import locked_store, scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from geotfr.storage.atomic import AtomicFile
    from geotfr.storage.remote.store import StoredObject
    from geotfr.stores.path import StorePath

__all__ = ["StoreOutputSet"]


class StoreOutputSet(OutputSet):
    """As :class:`OutputSet`, in the folder ``place`` of a store.

    Objects of a set without a manifest or mixer are what an earlier run sent before it broke: they stay where they have
    the bytes of the new files, and are refused at the end where they haven't, without ``overwrite``.

    Raises
    ------
    UsageError
        ``resume`` is asked for.
    OutputExistsError
        The set is there and ``overwrite`` is False.
    LockedError
        Another process writes the set.
    OutputError
        The store refuses, or there is no such bucket.
    """

    def __init__(
        self, place: StorePath, *, name: str, belongs: Callable[[str], bool], overwrite: bool, resume: bool
    ) -> None:
        if resume:
            raise UsageError(
                f"{place}: --resume (resume=True) needs an output folder, where a stopped run leaves its shards; export"
                " to a folder and send the set with 'geotfr push', or leave it out"
            )
        self._is_of_set = belongs
        self._may_replace = overwrite
        with contextlib.ExitStack() as stack:
            self._store, self._store_lock = stack.enter_context(locked_store(place, set_output(place, name)))
            there = self._there()
            told = [name for name in there if name.endswith(".json")]
            if told and not overwrite:
                raise OutputExistsError(
                    f"{place / told[0]}: exists already"
                    + (f" with {len(there) - 1} more files of this set" if len(there) > 1 else "")
                    + "; --overwrite (overwrite=True) replaces the set"
                )
            folder = stack.enter_context(scratch_folder(place))
            super().__init__(folder, name=name, belongs=lambda _: False, overwrite=True)
            self._opened = stack.pop_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self._opened.__exit__(kind, error, trace)

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
        there = self._there()
        sending = Sending(
            self._store,
            {name: file.staged_path for name, file in named},
            listed={name: (file.size, f"{file.crc:08x}") for name, file in named},
            there=there,
            tellers=[name for name in reversed(incomplete_without) if name in there],
        )
        sending.check_differing(overwrite=self._may_replace)
        sending.run(self._store_lock)
        self.unchanged = list(sending.kept)

    def _there(self) -> dict[str, StoredObject]:
        found = self._store.list(is_writing=True)
        return {name: each for name, each in found.items() if self._is_of_set(name)}

"""A set of files that appears together: shards, then the mixer, then the manifest.

Every file is written and synced under a temporary name first. Publishing removes what could make a mixture look whole
(the old manifest and mixer), renames in the order given, so that the manifest comes last, and removes what the old set
had more. What fails before publishing leaves the old set as it was and no temporary file.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Self

from geotfr.errors import OutputError, OutputExistsError
from geotfr.storage.atomic import AtomicFile, check_output, sync_folder, temporary_path
from geotfr.storage.lock import OutputLock
from geotfr.storage.output_error import output_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

__all__ = ["OutputSet"]


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
        self, folder: Path, *, name: str, belongs: Callable[[str], bool], overwrite: bool, make_folder: bool = False
    ) -> None:
        self.folder = folder
        self._belongs = belongs
        self._overwrite = overwrite
        self._files: list[AtomicFile] = []
        self._made_folder = False
        if make_folder and not folder.exists() and folder.parent.is_dir():
            try:
                folder.mkdir()
            except OSError as error:
                raise output_error(folder, error) from error
            self._made_folder = True
        # A set without a name is the folder's own.
        self._output = folder / (name or "set")
        check_output(folder / "x", overwrite=True)
        self._lock = OutputLock(self._output)
        present = self._present()
        if present and not overwrite:
            self._lock.release()
            raise OutputExistsError(
                f"{folder / present[0]}: exists already"
                + (f" with {len(present) - 1} more files of this set" if len(present) > 1 else "")
                + "; --overwrite (overwrite=True) replaces the set"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files:
            file.discard()
        self._lock.release()
        if self._made_folder:
            # Only if nothing was published into it.
            with contextlib.suppress(OSError):
                self.folder.rmdir()

    def create(self, *, expected_bytes: int | None = None) -> AtomicFile:
        """A new file of the set, to be written, finished, and named at :meth:`publish`; see :class:`AtomicFile`."""
        file = AtomicFile(
            self.folder / f"file {len(self._files)} of the set",
            temporary=temporary_path(self._output),
            expected_bytes=expected_bytes,
        )
        self._files.append(file)
        return file

    def publish(self, named: Sequence[tuple[str, AtomicFile]], *, incomplete_without: Sequence[str]) -> None:
        """Give each finished file its name, in this order; ``incomplete_without`` names what is removed first.

        Raises
        ------
        OutputError
            A name is too long or can't be taken. The set then lacks its last files and never looks complete.
        """
        for name, _ in named:
            check_output(self.folder / name, overwrite=self._overwrite)
        new = {name for name, _ in named}
        old = self._present()
        self._remove([name for name in incomplete_without if name in old])
        last = len(named) - 1
        for position, (name, file) in enumerate(named):
            if position == last:
                # Surplus files of the old set go before the last file says that this one is complete.
                self._remove([other for other in old if other not in new and other not in incomplete_without])
                self._sync()
            file.publish(self.folder / name)
        self._sync()

    def _present(self) -> list[str]:
        try:
            return sorted(entry.name for entry in self.folder.iterdir() if self._belongs(entry.name))
        except OSError as error:
            raise output_error(self.folder, error) from error

    def _remove(self, names: Sequence[str]) -> None:
        for name in names:
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

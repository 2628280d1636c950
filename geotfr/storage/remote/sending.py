"""Local files to a folder of a store: what it lacks or has otherwise, in order, what calls a set whole the last."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from geotfr.errors import DamagedError, InputError, OutputExistsError
from geotfr.storage.remote.digest import digest_of, part_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from geotfr.storage.remote.digest import ContentDigest
    from geotfr.storage.remote.lock import StoreLock
    from geotfr.storage.remote.store import Store, StoredObject

__all__ = ["Sending", "file_digest"]


class Sending:
    """Files on their way into a store: which of them it lacks, has, or has otherwise.

    Parameters
    ----------
    store
        The folder.
    files
        Name -> local file, in the order in which they are sent.
    listed
        Name -> (size, CRC32C as 8 hex digits), of files of which that is known: they are compared with it.
    there
        The objects of the set that the store has.
    tellers
        Names of those of ``there`` that could make a mixture of two sets look whole, in their order. Where anything
        differs they are removed first, the last one before the others, and sent anew.

    Attributes
    ----------
    new, kept
        Names of files that are to be sent, and that are there with the same bytes.
    surplus
        Names of objects that aren't among the files.

    Raises
    ------
    DamagedError
        A file differs from what is listed of it.
    InputError
        A file can't be read, or the store refuses.
    """

    def __init__(
        self,
        store: Store,
        files: Mapping[str, Path],
        *,
        listed: Mapping[str, tuple[int, str]],
        there: Mapping[str, StoredObject],
        tellers: Sequence[str],
    ) -> None:
        self._store = store
        self._files = files
        self._listed = listed
        self._there = there
        self._digests: dict[str, ContentDigest] = {}
        same = {name for name in files if name in there and self._is_there(name)}
        self.surplus = sorted(there.keys() - files.keys())
        self._differing = [*(name for name in files if name in there.keys() - same), *self.surplus]
        self._tellers = list(tellers) if self._differing else []
        self.kept = [name for name in files if name in same and name not in self._tellers]
        self.new = [name for name in files if name not in self.kept]

    @property
    def new_bytes(self) -> int:
        """Size of what is to be sent."""
        return sum(self._files[name].stat().st_size for name in self.new)

    def check_differing(self, *, overwrite: bool) -> None:
        """Refuse to replace or remove objects without being told to."""
        if self._differing and not overwrite:
            more = f" and {len(self._differing) - 1} more" if len(self._differing) > 1 else ""
            raise OutputExistsError(
                f"{self._store.address.object(self._differing[0])}{more}: there with other bytes than this set's, or"
                " not of it; --overwrite (overwrite=True) replaces the set"
            )

    def run(self, lock: StoreLock) -> None:
        """Remove what tells of an older set, the manifest first, and send what is new."""
        for name in reversed(self._tellers):
            self._store.remove(name)
        for position, name in enumerate(self.new):
            is_last = position == len(self.new) - 1
            lock.renew(at_once=is_last)
            if is_last:
                self._remove_surplus()
            self._store.upload(self._files[name], name, digest=self._digest(name))
        if not self.new:
            self._remove_surplus()

    def _remove_surplus(self) -> None:
        for name in self.surplus:
            self._store.remove(name)

    def _is_there(self, name: str) -> bool:
        found = self._there[name]
        return found.size == self._files[name].stat().st_size and self._store.holds(found, self._digest(name))

    def _digest(self, name: str) -> ContentDigest:
        if name not in self._digests:
            path = self._files[name]
            digest = self._digests[name] = file_digest(path)
            listed = self._listed.get(name)
            if listed is not None and listed != (digest.size, f"{digest.crc:08x}"):
                raise DamagedError(
                    f"{path}: {digest.size} bytes with CRC32C {digest.crc:08x}, the manifest says {listed[0]} and"
                    f" {listed[1]}; export that shard again"
                )
        return self._digests[name]


def file_digest(path: Path) -> ContentDigest:
    """The checksums of a local file, read in upload parts.

    Raises
    ------
    InputError
        It can't be read.
    """
    return digest_of(_parts(path))


def _parts(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            step = part_bytes(os.fstat(file.fileno()).st_size)
            while part := file.read(step):
                yield part
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror}") from error

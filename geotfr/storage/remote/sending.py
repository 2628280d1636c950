"""Files to a folder of a store: what it lacks or has otherwise, in order, what calls a set whole the last.

Files that are objects of the folder already, under other names, are copied by the store.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from geotfr.errors import DamagedError, InputError, OutputExistsError
from geotfr.records.index import index_names
from geotfr.storage.remote.daemons import for_each
from geotfr.storage.remote.digest import digest_of, part_bytes
from geotfr.stores.path import StorePath

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from geotfr.storage.remote.digest import ContentDigest
    from geotfr.storage.remote.lock import StoreLock
    from geotfr.storage.remote.store import Store, StoredObject

__all__ = ["Sending", "check_none_differs", "file_digest"]

_COPIES_AT_ONCE = 8


class Sending:
    """Files on their way into a store: which of them it lacks, has, or has otherwise.

    Parameters
    ----------
    store
        The folder.
    files
        Name -> local file, or object of the same folder, in the order in which they are sent: copies, then the others.
    listed
        Name -> (size, CRC32C as 8 hex digits), of files of which that is known, as it is of all objects: they are
        compared with it.
    there
        The objects of the set that the store has.
    tellers
        Names of those of ``there`` that could make a mixture of two sets look whole, in their order. Where anything
        differs they are removed first, the last one before the others, and sent anew.
    replaceable
        Names of those of ``there`` that may be replaced without being told to.

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
        replaceable: Collection[str] = (),
    ) -> None:
        self._store = store
        self._files = files
        self._listed = listed
        self._there = there
        self._replaceable = replaceable
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
        differing = [name for name in self._differing if name not in self._replaceable]
        if not overwrite:
            check_none_differs(self._store, differing)

    def run(self, lock: StoreLock) -> None:
        """Remove what tells of an older set, the manifest first, and indices of what is replaced; send what is new."""
        for name in reversed(self._tellers):
            self._store.remove(name)
        replaced = [name for name in self._differing if not name.endswith(".json")]
        self._store.remove_all(index for name in replaced for index in index_names(name))
        copied = {name: path for name, path in self._files.items() if name in self.new and isinstance(path, StorePath)}

        def copy(name: str) -> None:
            lock.renew()
            self._store.copy(copied[name].found(), name)

        for_each(copy, copied, at_once=_COPIES_AT_ONCE)
        uploaded = [name for name in self.new if name not in copied]
        for position, name in enumerate(uploaded):
            is_last = position == len(uploaded) - 1
            lock.renew(at_once=is_last)
            if is_last:
                self._remove_surplus()
            self._store.upload(self._files[name], name, digest=self._digest(name))
        if not uploaded:
            self._remove_surplus()

    def _remove_surplus(self) -> None:
        self._store.remove_all(self.surplus)

    def _is_there(self, name: str) -> bool:
        found, path = self._there[name], self._files[name]
        if isinstance(path, StorePath):
            if found.size != path.found().size:
                return False
            if found.etag == path.found().etag:
                return True
            # Copies of large objects have ETags of another kind. Making one again is faster than reading it.
            return name not in self._replaceable and f"{self._store.crc_of(found):08x}" == self._listed[name][1]
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


def check_none_differs(store: Store, names: Sequence[str]) -> None:
    """Raise OutputExistsError where there are ``names``: objects that a set would replace or remove."""
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        raise OutputExistsError(
            f"{store.address.object(names[0])}{more}: there with other bytes than this set's, or not of it; --overwrite"
            " (overwrite=True) replaces the set"
        )


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

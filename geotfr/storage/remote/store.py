"""A folder of an object store that is written to: objects appear whole, and are compared when they have arrived.

An object appears when its upload is completed; parts that were sent before are invisible.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from typing import TYPE_CHECKING, Any

from geotfr.errors import OutputError
from geotfr.records.crc import crc32c
from geotfr.storage.remote.daemons import DaemonThreads
from geotfr.storage.remote.digest import PART_BYTES, ContentDigest, digest_of, part_bytes
from geotfr.stores.client import RETRY_S, StoreClient, StoredObject, safe_cause

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from geotfr.stores.address import StoreAddress

__all__ = ["RETRY_S", "Store", "StoredObject"]

_PARTS_AT_ONCE = 4
_MOST_COPIED = 5 << 30
_REMOVED_AT_ONCE = 1000


class Store(StoreClient):
    """The folder at ``address``, with the credentials of the environment.

    Parameters
    ----------
    address
        The folder.
    retry_s
        Seconds for which a request that fails is repeated.

    Raises
    ------
    UsageError
        The extra ``cloud`` isn't installed.
    OutputError
        The environment's settings make no store.
    """

    def __init__(self, address: StoreAddress, *, retry_s: float = RETRY_S) -> None:
        self.address = address
        super().__init__(address.folder, retry_s=retry_s, is_writing=True)

    def list(self, *, is_writing: bool = False) -> dict[str, StoredObject]:
        """The objects right in the folder, by name; ``is_writing`` makes a refusal one of an output."""
        return self.list_folder(is_writing=is_writing)[0]

    def read(self, found: StoredObject, *, step: int = PART_BYTES) -> Iterator[bytes]:
        """The bytes of an object, ``step`` at a time, each by a request of its own.

        Raises
        ------
        InputError
            The store refuses, or the object was replaced meanwhile.
        """
        for start in range(0, found.size, step):
            yield self.read_range(found.name, start, min(start + step, found.size), etag=found.etag)

    def upload(self, path: Path, name: str, *, digest: ContentDigest) -> StoredObject:
        """Make the object ``name`` of the file ``path``; in parts where it is large; compared when it has arrived.

        A part that fails is sent again by itself, as any request is.

        Raises
        ------
        OutputError
            The store refuses, or what arrived has other checksums than ``digest``: it is removed again.
        """
        step = part_bytes(digest.size)
        try:
            self._ask(
                lambda: self._api.put(
                    self._store,
                    name,
                    path,
                    use_multipart=digest.size > step,
                    chunk_size=step,
                    max_concurrency=_PARTS_AT_ONCE,
                )
            )
        except Exception as error:
            raise self._error(name, error, is_writing=True) from safe_cause(error)
        found = self.head(name)
        if found is None or not self.holds(found, digest):
            with contextlib.suppress(OutputError):
                self.remove(name)
            raise OutputError(
                f"{self.address.object(name)}: what arrived differs from {path}; was the file changed meanwhile?"
                " Run again"
            )
        return found

    def copy(self, found: StoredObject, name: str) -> None:
        """Make the object ``name`` of another one of this folder, within the store.

        One over 5 GiB, which S3 doesn't copy, goes through this machine's memory, in parts.

        Raises
        ------
        OutputError
            The store refuses, or what is there then has another size.
        """
        step = part_bytes(found.size)
        try:
            if found.size <= _MOST_COPIED:
                self._ask(lambda: self._api.copy(self._store, found.name, name))
            else:
                parts = _in_a_thread(self.read(found, step=step))
                self._ask(
                    lambda: self._api.put(
                        self._store, name, parts, use_multipart=True, chunk_size=step, max_concurrency=_PARTS_AT_ONCE
                    )
                )
        except Exception as error:
            raise self._error(name, error, is_writing=True) from safe_cause(error)
        made = self.head(name, is_writing=True)
        if made is None or made.size != found.size:
            raise OutputError(
                f"{self.address.object(name)}: {0 if made is None else made.size:,} bytes were copied of"
                f" {found.size:,}; run again"
            )

    def crc_of(self, found: StoredObject) -> int:
        """The CRC32C of an object, which is read for it."""
        crc = 0
        for part in self.read(found):
            crc = crc32c(part, crc)
        return crc

    def holds(self, found: StoredObject, digest: ContentDigest) -> bool:
        """Whether an object has the bytes of ``digest``: by size and ETag, or else by reading it.

        An ETag of other making (Google's, Azure's, of encrypted objects or other parts) tells nothing.
        """
        if found.size != digest.size:
            return False
        if found.etag == digest.etag:
            return True
        read = digest_of(self.read(found, step=part_bytes(found.size)))
        return (read.size, read.etag) == (digest.size, digest.etag)

    def put(self, name: str, data: bytes, *, replacing: str | None) -> str | None:
        """Write a small object if it isn't there (``replacing`` None), or if it has this ETag still; its new ETag.

        None: another writer was faster.
        """
        mode: Any = "create" if replacing is None else {"e_tag": f'"{replacing}"'}
        try:
            told = self._ask(lambda: self._api.put(self._store, name, data, mode=mode, use_multipart=False))
        except FileNotFoundError as error:
            # What was to be replaced is gone.
            if replacing is not None and "NoSuchBucket" not in str(error):
                return None
            raise self._error(name, error, is_writing=True) from safe_cause(error)
        except Exception as error:
            # The store may have taken the first of two equal requests, and answered the second.
            if type(error).__name__ in ("AlreadyExistsError", "PreconditionError"):
                return None
            raise self._error(name, error, is_writing=True) from safe_cause(error)
        return str(told["e_tag"] or "").strip('"')

    def remove(self, name: str) -> None:
        """Remove the object ``name``, if it is there."""
        try:
            self._ask(lambda: self._api.delete(self._store, name))
        except FileNotFoundError:
            return
        except Exception as error:
            raise self._error(name, error, is_writing=True) from safe_cause(error)

    def remove_all(self, names: Iterable[str]) -> None:
        """Remove the objects of these names, those that are there."""
        for some in _batches(names):
            try:
                self._ask(functools.partial(self._api.delete, self._store, some))
            except FileNotFoundError:
                # A store that removes one by one has stopped at it.
                for name in some:
                    self.remove(name)
            except Exception as error:
                raise self._error("", error, is_writing=True) from safe_cause(error)


def _in_a_thread(parts: Iterator[bytes]) -> Iterator[bytes]:
    """``parts``, asked for by a thread of their own: who sends what an iterator brings can't wait for a store."""
    threads = DaemonThreads(1)
    try:
        while part := threads.submit(lambda: next(parts, b"")).result():
            yield part
    finally:
        threads.end()


def _batches(names: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(names)
    while some := list(itertools.islice(rest, _REMOVED_AT_ONCE)):
        yield some

"""A folder of an object store that is written to: objects appear whole, and are compared when they have arrived.

An object appears when its upload is completed; parts that were sent before are invisible.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from geotfr.errors import OutputError
from geotfr.storage.remote.digest import PART_BYTES, ContentDigest, digest_of, part_bytes
from geotfr.stores.client import RETRY_S, StoreClient, StoredObject, safe_cause

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from geotfr.stores.address import StoreAddress

__all__ = ["RETRY_S", "Store", "StoredObject"]

_PARTS_AT_ONCE = 4


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

    def upload(self, path: Path, name: str, *, digest: ContentDigest) -> None:
        """Make the object ``name`` of the file ``path``; in parts where it is large; compared when it has arrived.

        Raises
        ------
        OutputError
            The store refuses, or what arrived has other checksums than ``digest``: it is removed again.
        """
        step = part_bytes(digest.size)
        try:
            self._api.put(
                self._store,
                name,
                path,
                use_multipart=digest.size > step,
                chunk_size=step,
                max_concurrency=_PARTS_AT_ONCE,
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
            told = self._api.put(self._store, name, data, mode=mode, use_multipart=False)
        except Exception as error:
            # The store may have taken the first of two equal requests, and answered the second.
            if type(error).__name__ in ("AlreadyExistsError", "PreconditionError"):
                return None
            raise self._error(name, error, is_writing=True) from safe_cause(error)
        return str(told["e_tag"] or "").strip('"')

    def remove(self, name: str) -> None:
        """Remove the object ``name``, if it is there."""
        try:
            self._api.delete(self._store, name)
        except FileNotFoundError:
            return
        except Exception as error:
            raise self._error(name, error, is_writing=True) from safe_cause(error)

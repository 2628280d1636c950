"""A folder of an object store: objects that are listed, read in ranges, written whole, and removed.

Requests are repeated by obstore after connections that break and answers of 500 and above, with waits that grow and
vary. An object appears when its upload is completed; parts that were sent before are invisible.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from geotfr.errors import OutputError
from geotfr.extras import load_extra
from geotfr.storage.remote.digest import PART_BYTES, ContentDigest, digest_of, part_bytes
from geotfr.storage.remote.store_error import store_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from geotfr.storage.remote.address import StoreAddress

__all__ = ["RETRY_S", "Store", "StoredObject"]

RETRY_S = 120.0
"""How long a request is repeated."""

_REQUEST_S = 120.0
_PARTS_AT_ONCE = 4
_WORDS = "addresses of object stores"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """What a store tells of an object: ``name``, ``size`` in bytes, ``etag`` without quotes, time of ``change``."""

    name: str
    size: int
    etag: str
    change: datetime


class Store:
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
        self._api: Any = load_extra("obstore", extra="cloud", what=_WORDS)
        stores: Any = load_extra("obstore.store", extra="cloud", what=_WORDS)
        allows_http = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes", "on")
        try:
            self._store = stores.from_url(
                address.folder,
                client_options={"timeout": f"{_REQUEST_S:g}s", "connect_timeout": "10s", "allow_http": allows_http},
                retry_config={
                    "max_retries": 10,
                    "retry_timeout": timedelta(seconds=retry_s),
                    "backoff": {
                        "init_backoff": timedelta(seconds=0.1),
                        "max_backoff": timedelta(seconds=15),
                        "base": 2,
                    },
                },
            )
        except Exception as error:
            raise self._error("", error, is_writing=True) from _safe(error)

    def list(self, *, is_writing: bool = False) -> dict[str, StoredObject]:
        """The objects right in the folder, by name; ``is_writing`` makes a refusal one of an output."""
        try:
            found = self._api.list_with_delimiter(self._store)["objects"]
        except Exception as error:
            raise self._error("", error, is_writing=is_writing) from _safe(error)
        objects = (self._told(meta) for meta in found)
        return {each.name: each for each in objects}

    def head(self, name: str) -> StoredObject | None:
        """What the store tells of the object ``name``; None where there is none."""
        try:
            return self._told(self._api.head(self._store, name))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._error(name, error, is_writing=False) from _safe(error)

    def read(self, found: StoredObject, *, step: int = PART_BYTES) -> Iterator[bytes]:
        """The bytes of an object, ``step`` at a time, each by a request of its own.

        Raises
        ------
        InputError
            The store refuses, or the object was replaced meanwhile.
        """
        for start in range(0, found.size, step):
            options: dict[str, Any] = {"range": (start, min(start + step, found.size))}
            if found.etag:
                options["if_match"] = f'"{found.etag}"'
            try:
                data = bytes(self._api.get(self._store, found.name, options=options).bytes())
            except Exception as error:
                raise self._error(found.name, error, is_writing=False) from _safe(error)
            yield data

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
            raise self._error(name, error, is_writing=True) from _safe(error)
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
            raise self._error(name, error, is_writing=True) from _safe(error)
        return str(told["e_tag"] or "").strip('"')

    def remove(self, name: str) -> None:
        """Remove the object ``name``, if it is there."""
        try:
            self._api.delete(self._store, name)
        except FileNotFoundError:
            return
        except Exception as error:
            raise self._error(name, error, is_writing=True) from _safe(error)

    def _told(self, meta: Any) -> StoredObject:
        return StoredObject(
            name=str(meta["path"]).rpartition("/")[2],
            size=int(meta["size"]),
            etag=str(meta["e_tag"] or "").strip('"'),
            change=meta["last_modified"],
        )

    def _error(self, name: str, error: Exception, *, is_writing: bool) -> Exception:
        address = self.address.object(name) if name else self.address.folder
        return store_error(address, error, is_writing=is_writing)


def _safe(error: Exception) -> Exception | None:
    """``error`` as a cause to show, unless its text may carry a signed address."""
    return None if "sig=" in str(error).lower() or "signature=" in str(error).lower() else error

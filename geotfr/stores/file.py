"""An object of a store as a file: read from front to back in large blocks, or anywhere in ranges."""

from __future__ import annotations

import io
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from concurrent.futures import Future

    from typing_extensions import Buffer

    from geotfr.stores.client import StoreClient, StoredObject

__all__ = ["BLOCK_BYTES", "StoreFile"]

FIRST_BYTES = 64 << 10
"""Of the first block: a look at a file's head shall not cost more. Those behind it double."""

BLOCK_BYTES = 8 << 20
"""Of the largest block: two of them are in memory, the one that is read and the one behind it."""


class StoreFile(io.RawIOBase):
    """The object ``found`` under the ``key``; it must stay the same object while it is read.

    Reading on fetches the block behind the one that is read meanwhile; :meth:`pread` fetches just what is asked for.
    """

    def __init__(self, client: StoreClient, key: str, found: StoredObject, *, path: str) -> None:
        self.name = path
        self.size = found.size
        self._client = client
        self._key = key
        self._etag = found.etag
        self._place = 0
        self._start = 0
        self._block = b""
        self._step = FIRST_BYTES
        self._ahead: tuple[int, Future[bytes]] | None = None
        self._pool: ThreadPoolExecutor | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self.size}[whence]
        return self._place

    def pread(self, length: int, offset: int) -> bytes:
        """``length`` bytes from ``offset``, fewer at the end; by one request, from any thread."""
        stop = min(offset + length, self.size)
        return self._client.read_range(self._key, offset, stop, etag=self._etag) if stop > offset else b""

    def readinto(self, target: Buffer) -> int:
        view = memoryview(target).cast("B")
        inside = self._place - self._start
        if not 0 <= inside < len(self._block):
            if self._place >= self.size or not view:
                return 0
            self._fetch()
            inside = 0
        part = self._block[inside : inside + len(view)]
        view[: len(part)] = part
        self._place += len(part)
        return len(part)

    def _fetch(self) -> None:
        """Make the block that begins at the present place the current one, and ask for the next."""
        place = self._place
        is_next = place == self._start + len(self._block)
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == place:
            self._block = ahead[1].result()
        else:
            if not is_next:
                self._step = FIRST_BYTES
            self._block = self.pread(self._step, place)
        self._start = place
        self._step = min(2 * self._step, BLOCK_BYTES)
        behind = place + len(self._block)
        if is_next and place and behind < self.size:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="geotfr-ahead")
            self._ahead = behind, self._pool.submit(self.pread, self._step, behind)

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
        self._ahead = None
        self._block = b""
        super().close()

"""Requests to an object store or a web server: what is there, and its bytes in ranges.

Requests are repeated by obstore after connections that break and answers of 500 and above, with waits that grow and
vary.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from geotfr.background import run_in_background
from geotfr.errors import UsageError
from geotfr.extras import load_extra
from geotfr.stores.store_error import store_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from geotfr.errors import GeotfrError

__all__ = ["RETRY_S", "RETRY_VARIABLE", "StoreClient", "StoredObject", "azure_endpoint", "client_of", "safe_cause"]

T = TypeVar("T")

RETRY_S = 120.0
"""How long a request is repeated."""

RETRY_VARIABLE = "GEOTFR_RETRY_SECONDS"
"""Tells it in the environment, for commands without an option of their own."""

_REQUEST_S = 120.0
_WORDS = "addresses of object stores"
_SETTINGS = ("AWS_", "GOOGLE_", "AZURE_", RETRY_VARIABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """What a store tells of an object: ``name``, ``size`` in bytes, ``etag`` without quotes, time of ``change``.

    The name is the last part of its key, or all of it where the client says so.
    """

    name: str
    size: int
    etag: str
    change: datetime


class StoreClient:
    """The store or server at the address ``url``, with the credentials of the environment; safe in several threads.

    Parameters
    ----------
    url
        A bucket, or a folder of one, without a slash at its end; keys are counted from there.
    retry_s
        Seconds for which a request that fails is repeated.
    is_writing
        Whether a refusal to connect is one of an output.

    Raises
    ------
    UsageError
        The extra ``cloud`` isn't installed, or the process was forked from one that had used it.
    InputError, OutputError
        The environment's settings make no store.
    """

    def __init__(self, url: str, *, retry_s: float = RETRY_S, is_writing: bool = False) -> None:
        self.url = url
        if _first_process() != os.getpid():
            raise UsageError(
                f"{url}: this process was forked from one that had used a store, whose threads are gone here; start"
                " workers by 'spawn' or 'forkserver'"
            )
        self._api: Any = load_extra("obstore", extra="cloud", what=_WORDS)
        stores: Any = load_extra("obstore.store", extra="cloud", what=_WORDS)
        allows_http = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes", "on")
        if url.startswith("az://"):
            allows_http |= azure_endpoint().startswith("http://")
        try:
            self._store = stores.from_url(
                url,
                client_options={
                    "timeout": f"{_REQUEST_S:g}s",
                    "connect_timeout": "10s",
                    "allow_http": allows_http or url.startswith("http://"),
                },
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
            raise self._error("", error, is_writing=is_writing) from safe_cause(error)

    def head(self, name: str, *, is_writing: bool = False) -> StoredObject | None:
        """What the store tells of the object ``name``; None where there is none."""
        try:
            return self._told(self._ask(lambda: self._api.head(self._store, name)))
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise self._error(name, error, is_writing=is_writing) from safe_cause(error)
            return None
        except Exception as error:
            raise self._error(name, error, is_writing=is_writing) from safe_cause(error)

    def list_folder(
        self, prefix: str | None = None, *, is_writing: bool = False
    ) -> tuple[dict[str, StoredObject], list[str]]:
        """Objects right in the folder ``prefix`` (None: the client's own) by name, and the names of folders in it."""
        try:
            found = self._ask(lambda: self._api.list_with_delimiter(self._store, prefix))
        except Exception as error:
            raise self._error(prefix or "", error, is_writing=is_writing) from safe_cause(error)
        objects = (self._told(meta) for meta in found["objects"])
        folders = sorted(str(each).rstrip("/").rpartition("/")[2] for each in found["common_prefixes"])
        return {each.name: each for each in objects}, folders

    def read_range(self, name: str, start: int, stop: int, *, etag: str = "") -> bytes:
        """Bytes ``start`` to ``stop`` of the object ``name``, fewer where it ends before.

        Raises
        ------
        InputError
            The store refuses, or the object hasn't this ``etag`` any more.
        """
        options: dict[str, Any] = {"range": (start, stop)}
        if etag:
            options["if_match"] = f'"{etag}"'
        try:
            return self._ask(lambda: bytes(self._api.get(self._store, name, options=options).bytes()))
        except Exception as error:
            raise self._error(name, error, is_writing=False) from safe_cause(error)

    def _ask(self, request: Callable[[], T]) -> T:
        """What ``request`` returns or raises; it is one call of the library, in which a signal isn't seen."""
        return run_in_background(request) if threading.current_thread() is threading.main_thread() else request()

    def _told(self, meta: Any) -> StoredObject:
        return StoredObject(
            name=str(meta["path"]).rpartition("/")[2],
            size=int(meta["size"]),
            etag=str(meta["e_tag"] or "").strip('"'),
            change=meta["last_modified"],
        )

    def _error(self, name: str, error: Exception, *, is_writing: bool) -> GeotfrError:
        return store_error(f"{self.url}/{name}" if name else self.url, error, is_writing=is_writing)


def azure_endpoint() -> str:
    """Where the environment says that Azure's storage is; empty for Microsoft's own."""
    return os.environ.get("AZURE_STORAGE_ENDPOINT") or os.environ.get("AZURE_ENDPOINT") or ""


@cache
def _first_process() -> int:
    """The process in which the library was first used: a forked one would wait for its threads for ever."""
    return os.getpid()


def client_of(url: str) -> StoreClient:
    """A client for reading at ``url``: one for a process, so that connections are used again.

    Raises as :class:`StoreClient`.
    """
    settings = tuple(sorted(each for each in os.environ.items() if each[0].startswith(_SETTINGS)))
    # The library's threads don't survive a fork.
    return _client(url, settings, os.getpid())


@lru_cache(maxsize=16)
def _client(url: str, settings: tuple[tuple[str, str], ...], _process: int) -> StoreClient:
    return StoreClient(url, retry_s=retry_seconds(dict(settings)))


def retry_seconds(settings: dict[str, str] | None = None) -> float:
    """How long requests are repeated where no option tells: ``GEOTFR_RETRY_SECONDS``, or 120.

    Raises
    ------
    UsageError
        The variable holds no number from 0.
    """
    text = (os.environ if settings is None else settings).get(RETRY_VARIABLE, "")
    if not text:
        return RETRY_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise UsageError(f"{RETRY_VARIABLE}: {text!r} in the environment; a number of seconds from 0 is expected")
    return seconds


def safe_cause(error: Exception) -> Exception | None:
    """``error`` as a cause to show, unless its text may carry a signed address."""
    return None if "sig=" in str(error).lower() or "signature=" in str(error).lower() else error

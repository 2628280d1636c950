"""Rasters at addresses of web servers and object stores, which are opened where the user allows the network."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

import rasterio

from geotfr.errors import InputError, MissingInputError
from geotfr.stores.address import STORE_SCHEMES, StoreAddress, address_scheme
from geotfr.stores.client import azure_endpoint
from geotfr.stores.path import StorePath

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["HTTP_OPTIONS", "NO_ADDRESS", "RemoteFile", "ask", "fetching", "gdal_name", "is_readable_address"]

TIMEOUT_S = 30
"""How long a server may take to answer."""

HTTP_OPTIONS = {
    "GDAL_HTTP_CONNECTTIMEOUT": str(TIMEOUT_S),
    "GDAL_HTTP_LOW_SPEED_LIMIT": "1",
    "GDAL_HTTP_LOW_SPEED_TIME": str(TIMEOUT_S),
    "GDAL_HTTP_MAX_RETRY": "3",
    "GDAL_HTTP_RETRY_DELAY": "1",
}
"""GDAL's configuration of its own fetching."""

_HEAD_BYTES = 1 << 14
_ALLOWED = "CPL_VSIL_CURL_ALLOWED_FILENAME"
NO_ADDRESS = {_ALLOWED: "none"}
"""GDAL's configuration for opening nothing through its virtual file systems of the network (``/vsicurl/`` and all that
are built on it), as a VRT may ask for."""

_SYSTEMS = {"http": "/vsicurl/http://", "https": "/vsicurl/https://", "s3": "/vsis3/", "gs": "/vsigs/", "az": "/vsiaz/"}
"""GDAL's file systems of the network."""

_SAME_SETTINGS = {
    "AZURE_STORAGE_ACCOUNT_NAME": "AZURE_STORAGE_ACCOUNT",
    "AZURE_STORAGE_ACCOUNT_KEY": "AZURE_STORAGE_ACCESS_KEY",
}
"""Variables of the environment that obstore reads -> GDAL's options; the others have the same names in both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """What a server tells of a file.

    Attributes
    ----------
    address
        Where it is.
    size_bytes
        Its size.
    version
        Its ETag, or else its time of change; empty if the server tells neither.
    head
        Its first bytes, 16 KiB at most: the directory of a cloud-optimised GeoTIFF is among them.
    """

    address: str
    size_bytes: int
    version: str
    head: bytes

    def read_at(self, start: int, size: int) -> bytes:
        """``size`` bytes from ``start`` on, fewer where the file ends before.

        Raises
        ------
        InputError
            The server refuses, or can't be reached.
        """
        stop = min(start + size, self.size_bytes)
        if stop <= len(self.head) or stop <= start:
            return self.head[start:stop]
        if address_scheme(self.address) in STORE_SCHEMES:
            place = StorePath(StoreAddress.of_folder(self.address).folder)
            return place.client.read_range(place.key, start, stop)
        with _fetched(self.address, start, stop) as answer:
            if answer.status != HTTPStatus.PARTIAL_CONTENT:
                answer.read(start)
            return bytes(answer.read(stop - start))


def fetching(remote: RemoteFile | None) -> AbstractContextManager[object]:
    """A context in which GDAL opens the address of ``remote`` and no other; without one, no address at all.

    Nothing is looked for beside the file: a server's ``.ovr`` or ``.aux.xml`` may name files of this machine.
    """
    options = NO_ADDRESS
    if remote is not None:
        name = gdal_name(remote.address)
        options = {**HTTP_OPTIONS, _ALLOWED: name, "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR"}
        if address_scheme(remote.address) in STORE_SCHEMES:
            options |= _store_options(name)
    environment: AbstractContextManager[object] = rasterio.Env(**options)
    return environment


def gdal_name(path: str) -> str:
    """What GDAL calls the file that an address names; other paths are as they are.

    >>> gdal_name("https://example.org/x.tif"), gdal_name("s3://bucket/x.tif"), gdal_name("x.tif")
    ('/vsicurl/https://example.org/x.tif', '/vsis3/bucket/x.tif', 'x.tif')
    """
    system = _SYSTEMS.get(address_scheme(path))
    return path if system is None else system + path.partition("://")[2]


def _store_options(name: str) -> dict[str, str]:
    """GDAL's configuration for a store: what obstore takes from the environment under names that GDAL hasn't.

    Keys with the same name in both are found by GDAL itself. Files of profiles are left unread, as obstore does.
    """
    environ = os.environ
    options = {
        # An object that was replaced shall not be read from what is remembered of the old one.
        "CPL_VSIL_CURL_NON_CACHED": name,
        "CPL_AWS_CREDENTIALS_FILE": os.devnull,
        "AWS_CONFIG_FILE": os.devnull,
        **{theirs: environ[ours] for ours, theirs in _SAME_SETTINGS.items() if environ.get(ours)},
    }
    endpoint = environ.get("AWS_ENDPOINT") or environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        scheme, _, host = endpoint.rpartition("://")
        is_virtual = _is_set(environ.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST"))
        options |= {
            "AWS_S3_ENDPOINT": host.rstrip("/"),
            "AWS_HTTPS": "NO" if scheme == "http" else "YES",
            "AWS_VIRTUAL_HOSTING": "TRUE" if is_virtual else "FALSE",
        }
    azure, is_anonymous = azure_endpoint(), _is_set(environ.get("AZURE_SKIP_SIGNATURE"))
    if azure:
        # GDAL wants a key in the text, where it signs nothing, too.
        unused = "AAAA" if is_anonymous else None
        facts = {
            "BlobEndpoint": azure.rstrip("/"),
            "AccountName": environ.get("AZURE_STORAGE_ACCOUNT_NAME"),
            "AccountKey": environ.get("AZURE_STORAGE_ACCOUNT_KEY") or environ.get("AZURE_STORAGE_ACCESS_KEY") or unused,
            "SharedAccessSignature": environ.get("AZURE_STORAGE_SAS_TOKEN") or environ.get("AZURE_STORAGE_SAS_KEY"),
        }
        options["AZURE_STORAGE_CONNECTION_STRING"] = ";".join(f"{key}={value}" for key, value in facts.items() if value)
    if is_anonymous:
        options["AZURE_NO_SIGN_REQUEST"] = "YES"
    if _is_set(environ.get("AWS_SKIP_SIGNATURE")):
        options["AWS_NO_SIGN_REQUEST"] = "YES"
    return options


def _is_set(value: str | None) -> bool:
    return (value or "").lower() in ("1", "true", "yes", "on")


def ask(address: str) -> RemoteFile:
    """Fetch the first bytes of the file at ``address``, and what the server or store tells of it.

    Raises
    ------
    MissingInputError
        The server has no such file.
    InputError
        The address is of another kind, or the server can't be reached, refuses, or doesn't tell the size.
    UsageError
        An address of a store that carries a key, or the extra ``cloud`` isn't installed.
    """
    if address_scheme(address) in STORE_SCHEMES:
        return _ask_store(address)
    if not is_readable_address(address):
        raise InputError(
            f"{address}: an address of a kind that can't be read; allowed are https://, http://, s3://, gs:// and az://"
        )
    with _fetched(address, 0, _HEAD_BYTES) as answer:
        head = answer.read(_HEAD_BYTES)
        told, status = answer.headers, answer.status
    text = told.get("Content-Range", "").rpartition("/")[2] if status == HTTPStatus.PARTIAL_CONTENT else ""
    text = text or told.get("Content-Length", "")
    if not text.isdecimal():
        raise InputError(f"{address}: the server doesn't tell the file's size; fetch the file and name it instead")
    version = told.get("ETag") or told.get("Last-Modified") or ""
    return RemoteFile(address=address, size_bytes=int(text), version=version, head=head)


@contextmanager
def _fetched(address: str, start: int, stop: int) -> Iterator[Any]:
    """The server's answer when asked for some bytes; one that knows no ranges sends all."""
    try:
        request = urllib.request.Request(address, headers={"Range": f"bytes={start}-{stop - 1}"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        kind = MissingInputError if error.code in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE) else InputError
        raise kind(f"{address}: the server answers {error.code} {error.reason}") from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise InputError(f"{address}: can't be fetched: {' '.join(str(reason).split())}") from error


def is_readable_address(path: str) -> bool:
    """Whether ``path`` is an address of a kind that is read where the network is allowed."""
    return address_scheme(path) in _SYSTEMS


def _ask_store(address: str) -> RemoteFile:
    place = StorePath(StoreAddress.of_folder(address).folder)
    found = place.found()
    head = place.client.read_range(place.key, 0, min(_HEAD_BYTES, found.size), etag=found.etag) if found.size else b""
    return RemoteFile(
        address=str(place), size_bytes=found.size, version=found.etag or found.change.isoformat(), head=head
    )

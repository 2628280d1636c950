"""Rasters at web addresses, which are opened where the user allows the network."""

from __future__ import annotations

import urllib.error
import urllib.request
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException

import rasterio

from geotfr.errors import InputError, MissingInputError
from geotfr.options.addresses import address_scheme
from geotfr.rasters.formats import HEAD_BYTES

__all__ = ["HTTP_OPTIONS", "NO_ADDRESS", "RemoteFile", "ask", "fetching", "gdal_name"]

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

_ALLOWED = "CPL_VSIL_CURL_ALLOWED_FILENAME"
NO_ADDRESS = {_ALLOWED: "none"}
"""GDAL's configuration for opening nothing through its virtual file systems of the network (``/vsicurl/`` and all that
are built on it), as a VRT may ask for."""

_READ = ("http", "https")


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
        Its first bytes.
    """

    address: str
    size_bytes: int
    version: str
    head: bytes


def fetching(remote: RemoteFile | None) -> AbstractContextManager[object]:
    """A context in which GDAL opens the address of ``remote`` and no other; without one, no address at all.

    Nothing is looked for beside the file: a server's ``.ovr`` or ``.aux.xml`` may name files of this machine.
    """
    options = NO_ADDRESS
    if remote is not None:
        options = {**HTTP_OPTIONS, _ALLOWED: gdal_name(remote.address), "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR"}
    environment: AbstractContextManager[object] = rasterio.Env(**options)
    return environment


def gdal_name(path: str) -> str:
    """What GDAL calls the file that an address names; other paths are as they are.

    >>> gdal_name("https://example.org/x.tif"), gdal_name("x.tif")
    ('/vsicurl/https://example.org/x.tif', 'x.tif')
    """
    return f"/vsicurl/{path}" if address_scheme(path) in _READ else path


def ask(address: str) -> RemoteFile:
    """Fetch the first bytes of the file at ``address``, and what the server tells of it.

    Raises
    ------
    MissingInputError
        The server has no such file.
    InputError
        The address is of another kind, or the server can't be reached, refuses, or doesn't tell the size.
    """
    if address_scheme(address) not in _READ:
        raise InputError(f"{address}: an address of a kind that can't be read; allowed are https:// and http://")
    try:
        request = urllib.request.Request(address, headers={"Range": f"bytes=0-{HEAD_BYTES - 1}"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            head = answer.read(HEAD_BYTES)
            told, status = answer.headers, answer.status
    except urllib.error.HTTPError as error:
        kind = MissingInputError if error.code in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE) else InputError
        raise kind(f"{address}: the server answers {error.code} {error.reason}") from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise InputError(f"{address}: can't be fetched: {' '.join(str(reason).split())}") from error
    text = told.get("Content-Range", "").rpartition("/")[2] if status == HTTPStatus.PARTIAL_CONTENT else ""
    text = text or told.get("Content-Length", "")
    if not text.isdecimal():
        raise InputError(f"{address}: the server doesn't tell the file's size; fetch the file and name it instead")
    version = told.get("ETag") or told.get("Last-Modified") or ""
    return RemoteFile(address=address, size_bytes=int(text), version=version, head=head)

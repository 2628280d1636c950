"""Where in which object store something is."""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass

from geotfr.errors import UsageError

__all__ = ["STORE_SCHEMES", "WEB_SCHEMES", "StoreAddress", "address_scheme"]

STORE_SCHEMES = ("s3", "gs", "az")
"""Object stores: read, listed, written."""

WEB_SCHEMES = ("https", "http")
"""Web servers: read alone."""

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)


def address_scheme(text: str) -> str:
    """The scheme of an address, in small letters; empty for the name of a file.

    >>> address_scheme("HTTPS://example.org/x.tif"), address_scheme("C:/x.tif"), address_scheme("/vsicurl/http://x")
    ('https', '', '')
    """
    found = _SCHEME.match(text)
    return found[1].lower() if found else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAddress:
    """A folder of an object store, and what names in it begin with.

    Attributes
    ----------
    folder
        As ``s3://bucket/sets``, without a slash at its end.
    name
        What the names begin with; empty where the folder itself is meant.

    Examples
    --------
    >>> StoreAddress.of_prefix("s3://bucket/sets/scene")
    StoreAddress(folder='s3://bucket/sets', name='scene')
    >>> StoreAddress.of_folder("gs://bucket/sets/").object("scene-mixer.json")
    'gs://bucket/sets/scene-mixer.json'
    """

    folder: str
    name: str = ""

    @staticmethod
    def of_folder(text: str) -> StoreAddress:
        """The folder at the address ``text``.

        Raises
        ------
        UsageError
            It is no address of an object store, has no bucket, or carries a key or a query.
        """
        scheme = address_scheme(text)
        if scheme not in STORE_SCHEMES:
            raise UsageError(f"{text}: no address of an object store; allowed are s3://, gs:// and az://")
        parts = urllib.parse.urlsplit(text)
        if "@" in parts.netloc or parts.query or parts.fragment:
            # The text may hold a key: it isn't repeated.
            raise UsageError(
                f"{scheme}:// address with a user, a query or a fragment; give bucket and folder alone, credentials"
                " come from the environment"
            )
        steps = [step for step in parts.path.split("/") if step]
        if not parts.netloc or any(step in (".", "..") for step in steps):
            raise UsageError(f"{text}: names no bucket and folder; give {scheme}://BUCKET/FOLDER")
        return StoreAddress(folder="/".join([f"{scheme}://{parts.netloc}", *steps]))

    @staticmethod
    def of_prefix(text: str) -> StoreAddress:
        """The folder and the beginning of the names that ``text`` gives, the folder alone where a slash ends it.

        Raises as :meth:`of_folder`.
        """
        whole = StoreAddress.of_folder(text)
        if text.endswith("/") or whole.folder.count("/") == 2:
            return whole
        folder, _, name = whole.folder.rpartition("/")
        return StoreAddress(folder=folder, name=name)

    @property
    def scheme(self) -> str:
        """``s3``, ``gs`` or ``az``."""
        return address_scheme(self.folder)

    def object(self, name: str) -> str:
        """The address of the object ``name`` of this folder."""
        return f"{self.folder}/{name}"

"""What a file is called without its folder."""

from __future__ import annotations

import re
import urllib.parse
from pathlib import PurePath, PurePosixPath

from geotfr.stores.address import address_scheme

__all__ = ["name_of"]

_BAND = re.compile(r"(.*?)(:[0-9]+)?", re.DOTALL)


def name_of(path: str) -> str:
    """A file's name without its folder; of an address, without what is asked of the server: that may be a key.

    A band's number at the end stays.

    >>> name_of("https://example.org/a/x.tif?key=1:2"), name_of("a/x?.tif")
    ('x.tif:2', 'x?.tif')
    """
    if not address_scheme(path):
        return PurePath(path).name
    address, band = _BAND.fullmatch(path).groups(default="")  # type: ignore[union-attr]
    try:
        return PurePosixPath(urllib.parse.unquote(urllib.parse.urlsplit(address).path)).name + band
    except ValueError:
        # A host in brackets that is none: no server will be asked either.
        return band

"""The CRC32C of a whole file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from geotfr.records.crc import crc32c
from geotfr.regular_files import open_regular
from geotfr.stores.path import StorePath, input_path

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["crc_of_descriptor", "crc_of_stored", "file_crc32c"]

_READ_BYTES = 4 << 20


def crc_of_descriptor(descriptor: int) -> int:
    """CRC32C of what is read from ``descriptor`` until its end."""
    crc = 0
    while chunk := os.read(descriptor, _READ_BYTES):
        crc = crc32c(chunk, crc)
    return crc


def crc_of_stored(place: StorePath) -> int:
    """CRC32C of all bytes of an object of a store. Raises InputError where the store refuses."""
    crc = 0
    with place.raw() as file:
        while chunk := file.read(_READ_BYTES):
            crc = crc32c(chunk, crc)
    return crc


def file_crc32c(path: Path | str) -> int:
    """CRC32C of all bytes of the file ``path``.

    Raises
    ------
    OSError
        The file can't be read.
    """
    place = input_path(path)
    if isinstance(place, StorePath):
        return crc_of_stored(place)
    descriptor = open_regular(path, follows_links=True)
    try:
        return crc_of_descriptor(descriptor)
    finally:
        os.close(descriptor)

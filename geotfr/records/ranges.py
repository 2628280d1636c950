"""Files read anywhere: local ones, and objects of a store, in the same way."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol, Self

from geotfr.errors import InputError, MissingInputError
from geotfr.regular_files import open_regular
from geotfr.stores.path import StorePath, any_path

if TYPE_CHECKING:
    from geotfr.stores.file import StoreFile

__all__ = ["LocalFile", "RangeFile", "open_ranges"]


class RangeFile(Protocol):
    """A file that is read in ranges, by several threads."""

    size: int

    def pread(self, length: int, offset: int, /) -> bytes:
        """``length`` bytes from ``offset``; fewer at the end."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class LocalFile:
    """A local file by its descriptor."""

    def __init__(self, path: str) -> None:
        try:
            self.descriptor = open_regular(path, follows_links=True)
        except FileNotFoundError as error:
            raise MissingInputError(f"{path}: no such file") from error
        except OSError as error:
            raise InputError(f"{path}: can't be opened: {error.strerror}") from error
        self.size = os.fstat(self.descriptor).st_size

    def pread(self, length: int, offset: int, /) -> bytes:
        return os.pread(self.descriptor, length, offset)

    def close(self) -> None:
        os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_ranges(path: str) -> LocalFile | StoreFile:
    """The file at ``path``, a local one or an address.

    Raises
    ------
    MissingInputError, InputError
        There is no such file, or it can't be opened.
    """
    place = any_path(path)
    return place.raw() if isinstance(place, StorePath) else LocalFile(path)

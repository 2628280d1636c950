"""The checksum of a file, made of what is read of it anyway."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

from geotfr.records.crc import crc32c

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["FileSum"]


class FileSum:
    """The CRC32C of the bytes of a file from its beginning on, as far as they have been read without a gap.

    Examples
    --------
    >>> sums = FileSum()
    >>> file = sums.of(io.FileIO(os.devnull))
    >>> file.read(9), sums.crc_of(0), sums.crc_of(1)
    (b'', 0, None)
    >>> file.close()
    """

    def __init__(self) -> None:
        self._done = self._crc = 0

    def of(self, file: io.RawIOBase) -> io.RawIOBase:
        """``file``, to be read through what is returned, which closes it."""
        return _Summed(file, self)

    def crc_of(self, size: int) -> int | None:
        """The CRC32C of all ``size`` bytes of the file; None where some of them were not read."""
        return self._crc if self._done == size else None

    def add(self, place: int, data: memoryview) -> None:
        """Take note of the bytes at ``place``, those that are known already too."""
        if place <= self._done < place + len(data):
            new = data[self._done - place :]
            self._crc = crc32c(new, self._crc)
            self._done += len(new)


class _Summed(io.RawIOBase):
    def __init__(self, file: io.RawIOBase, sums: FileSum) -> None:
        self._file = file
        self._sums = sums

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, target: Buffer) -> int | None:
        place = self._file.tell()
        got: int | None = self._file.readinto(target)
        if got:
            self._sums.add(place, memoryview(target).cast("B")[:got])
        return got

    def close(self) -> None:
        self._file.close()
        super().close()

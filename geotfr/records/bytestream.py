"""A stream of uncompressed bytes, and the plain file as one.

A stream ends at its end or at damage. Everything before the damage is delivered first, so that the damage is placed
on the record it hits; :attr:`ByteStream.fault` then tells which of both it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import BinaryIO, Literal

__all__ = ["ByteStream", "Compression", "PlainStream"]

Compression = Literal["auto", "none", "gzip", "zlib"]


class ByteStream(ABC):
    """The uncompressed bytes of one file, once, from front to back.

    Attributes
    ----------
    path
        The file, as it was given.
    compression
        ``none``, ``gzip`` or ``zlib``: what the file is.
    file_bytes
        Size of the file.
    delivered
        Uncompressed bytes read so far.
    fault
        Why the stream ended early; None while it has not, and at a clean end.
    is_fault_behind_data
        Whether all the data were there and only the checksum behind them is wrong.
    """

    compression: Compression

    def __init__(self, path: str, file: BinaryIO, file_bytes: int) -> None:
        self.path = path
        self.file_bytes = file_bytes
        self.delivered = 0
        self.fault: str | None = None
        self.is_fault_behind_data = False
        self._file = file

    @abstractmethod
    def readinto(self, view: memoryview) -> int:
        """Fill ``view`` from its start; returns the number of bytes, 0 at the end or at damage."""

    @abstractmethod
    def resume(self) -> int | None:
        """Go on behind the damage and clear :attr:`fault`; None if nothing more is to be had.

        Returns how many bytes of the uncompressed stream are missing in between, 0 where that can't be known.
        """

    def bytes_left(self, position: int) -> int | None:  # noqa: ARG002
        """Bytes from uncompressed ``position`` to the end, or None where only reading tells."""
        return None

    def member_at(self, position: int) -> int | None:  # noqa: ARG002
        """Number of the gzip member that holds uncompressed byte ``position``; None for other files."""
        return None

    @property
    def member_count(self) -> int | None:
        """Gzip members met so far; None for other files."""
        return None

    def member_places(self) -> list[tuple[int, int]]:
        """(place in the file, place in the uncompressed stream) of each gzip member met so far."""
        return []

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> ByteStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PlainStream(ByteStream):
    """A file that isn't compressed."""

    compression: Compression = "none"

    def readinto(self, view: memoryview) -> int:
        got: int = self._file.readinto(view)  # type: ignore[attr-defined]  # a FileIO
        self.delivered += got
        return got

    def resume(self) -> int | None:
        return None

    def bytes_left(self, position: int) -> int | None:
        return self.file_bytes - position

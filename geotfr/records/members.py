"""Where the gzip members of a finished file are, without inflating what geotfr wrote."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from geotfr.errors import InputError
from geotfr.records.gzip import MEMBER_HEAD, MEMBER_SUBFIELD
from geotfr.records.ranges import open_ranges
from geotfr.records.stream import open_stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["gzip_members"]

_SIZE_BYTES = 4
_SKIP_BYTES = 8 << 20


def gzip_members(path: str | os.PathLike[str]) -> NDArray[np.int64]:
    """``(m + 1, 2) int64``: place of each gzip member in the file and in the uncompressed stream, then both ends.

    Members whose headers tell their sizes, as geotfr writes them, are skipped over; another file is read to its end.

    Raises
    ------
    InputError
        The file can't be read.
    RecordError
        It is damaged, or no gzip file.
    """
    try:
        found = _skipped(os.fspath(path))
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: can't be read: {error.strerror}") from error
    return _read(path) if found is None else found


def _skipped(path: str) -> NDArray[np.int64] | None:
    places = [(0, 0)]
    with open_ranges(path) as file:
        end = file.size
        place = made = 0
        while place < end:
            head = file.pread(MEMBER_HEAD.size, place)
            if len(head) < MEMBER_HEAD.size:
                return None
            _, _, _, _, subfield, _, size = MEMBER_HEAD.unpack(head)
            if subfield != MEMBER_SUBFIELD or size <= MEMBER_HEAD.size or place + size > end:
                return None
            place += size
            made += int.from_bytes(file.pread(_SIZE_BYTES, place - _SIZE_BYTES), "little")
            places.append((place, made))
    return np.array(places, np.int64)


def _read(path: str | os.PathLike[str]) -> NDArray[np.int64]:
    buffer = memoryview(bytearray(_SKIP_BYTES))
    with open_stream(os.fspath(path), "gzip") as stream:
        while stream.readinto(buffer):
            pass
        return np.array([*stream.member_places(), (stream.file_bytes, stream.delivered)], np.int64)

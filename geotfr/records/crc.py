"""CRC32C as TFRecord uses it: the Castagnoli checksum, masked; for one buffer and for many equal rows.

Many tiny rows are done column by column. CRC is linear over GF(2): the checksum of a row is that of a row
of zeros, XORed with one term for each byte, and the term depends on the byte's value and place alone. So each
column is one look-up in a table of 256 terms, or two columns one in a table of 65,536. Columns that never change cost
nothing: they are part of the constant.

**Source**: TensorFlow's ``crc32c.h``; the mask keeps a checksum of data that holds checksums from being weak.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

import google_crc32c
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    ByteSource = bytes | bytearray | memoryview | NDArray[np.uint8]

__all__ = ["RowCrc", "crc32c", "mask", "mask_all", "masked_crc32c", "masked_crc32c_rows", "masked_crc32c_runs"]

MASK_DELTA = 0xA282EAD8
POLYNOMIAL = 0x82F63B78
"""Castagnoli's polynomial, lowest bit first."""

TABLE_COLUMNS = 96
"""Up to so many columns the tables (about 2 ns a column) beat one call a row (about 200 ns)."""

_WORTH_PAIRS = 4096
"""Rows from which on two columns are looked up at once: a table of pairs is 256 KiB."""
_PAIRS_KEPT = 96


def crc32c(data: ByteSource, crc: int = 0) -> int:
    """CRC32C of ``data``, continued from ``crc``; the interpreter lock is released meanwhile.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    # google_crc32c takes bytes and ndarrays only.
    return int(google_crc32c.extend(crc, np.frombuffer(data, np.uint8)))


def mask(crc: int) -> int:
    """``crc`` rotated right by 15 bits plus a constant, modulo 2^32: the form that TFRecord stores.

    >>> hex(mask(0xe3069283))
    '0xc78ab0e5'
    """
    return (((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF


def masked_crc32c(data: ByteSource) -> int:
    """The masked CRC32C of ``data``, as stored behind a record's length and behind its payload."""
    return mask(crc32c(data))


def masked_crc32c_rows(rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """The masked CRC32C of each row of ``rows`` ``(n, m) uint8``, as ``(n,) uint32``; rows may be strided.

    >>> [hex(crc) for crc in masked_crc32c_rows(np.frombuffer(b"123456789" * 2, np.uint8).reshape(2, 9))]
    ['0xc78ab0e5', '0xc78ab0e5']
    """
    count, length = rows.shape
    if length > TABLE_COLUMNS or count < 8:
        extend = google_crc32c.extend
        return mask_all(np.fromiter((extend(0, row) for row in rows), np.uint32, count))
    return RowCrc(length).masked(rows)


def masked_crc32c_runs(
    data: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """The masked CRC32C of each ``data[start:stop]``, as ``(n,) uint32``."""
    extend = google_crc32c.extend
    bounds = zip(starts.tolist(), stops.tolist(), strict=True)
    return mask_all(np.fromiter((extend(0, data[start:stop]) for start, stop in bounds), np.uint32, len(starts)))


class RowCrc:
    """Checksums of rows that are ``template`` everywhere but in the columns of ``spans``.

    Parameters
    ----------
    length
        Bytes a row.
    template
        A row ``(length,) uint8``; without one every column counts.
    spans
        (start, stop) of the columns that vary, not overlapping. The bytes of the other columns are taken from
        ``template`` and never read from the rows.
    """

    __slots__ = ("_constant", "_length", "_spans")

    def __init__(
        self,
        length: int,
        template: NDArray[np.uint8] | None = None,
        spans: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        base = np.zeros(length, np.uint8) if template is None else template.copy()
        self._spans = [(0, length)] if spans is None else list(spans)
        for start, stop in self._spans:
            base[start:stop] = 0
        self._constant = crc32c(base)
        self._length = length

    def masked(self, rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
        """The masked CRC32C ``(n,) uint32`` of ``rows`` ``(n, length) uint8``."""
        crc = np.full(len(rows), self._constant, np.uint32)
        places, terms = np.empty(len(rows), np.intp), np.empty(len(rows), np.uint32)
        for column, width in self._steps(in_pairs=len(rows) >= _WORTH_PAIRS and rows.strides[1] == 1):
            behind = self._length - width - column
            if width == 2:
                places[:] = rows[:, column : column + 2].view("<u2")[:, 0]
                table = _pair_table(behind)
            else:
                places[:] = rows[:, column]
                table = _tables(_power_of_two(self._length))[behind]
            # No place is beyond a table, so nothing is wrapped, but the check for it is what takes time otherwise.
            table.take(places, out=terms, mode="wrap")
            crc ^= terms
        return mask_all(crc)

    def _steps(self, *, in_pairs: bool) -> Iterator[tuple[int, int]]:
        """The columns that are looked up at once: the first, and how many."""
        for start, stop in self._spans:
            paired = start + (stop - start) // 2 * 2 if in_pairs else start
            yield from ((column, 2) for column in range(start, paired, 2))
            yield from ((column, 1) for column in range(paired, stop))


def mask_all(crc: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """:func:`mask` of each of ``crc`` ``(n,) uint32``."""
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(MASK_DELTA)


def _power_of_two(length: int) -> int:
    return 1 << max(length - 1, 0).bit_length()


@cache
def _tables(length: int) -> NDArray[np.uint32]:
    """``(length, 256) uint32``: the term of byte value v with d bytes behind it, at [d, v]."""
    values = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        halved = values >> np.uint32(1)
        values = np.where(values & 1, halved ^ np.uint32(POLYNOMIAL), halved)
    tables = np.empty((length, 256), np.uint32)
    tables[0] = values
    for distance in range(1, length):
        last = tables[distance - 1]
        tables[distance] = (last >> np.uint32(8)) ^ values[last & np.uint32(0xFF)]
    return tables


@lru_cache(maxsize=_PAIRS_KEPT)
def _pair_table(behind: int) -> NDArray[np.uint32]:
    """``(65536,) uint32``: the term of two bytes, little endian, with ``behind`` bytes behind them."""
    tables = _tables(_power_of_two(behind + 2))
    found: NDArray[np.uint32] = (tables[behind][:, np.newaxis] ^ tables[behind + 1]).reshape(-1)
    return found

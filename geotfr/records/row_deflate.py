"""Deflate of rows that differ in some columns only, at the speed of copies.

Framed records of one layout are such rows. A compressor finds out anew for each of them that all but its values stands
in the row before; here that is found out once for all rows. The first row is stored. Each other row is the same
sequence of codes: a repeat of the row before for each stretch of columns that never change, a literal for each other
byte. The literals' codes all have nine bits, so rows take equally many, and the repeats' codes are as long as makes
these whole bytes. Then packed rows are copies of a template too, with the literals put in by look-ups.

What is lost is the coding of literals by how frequent they are: noise has none to lose.

**Source**: RFC 1951.
"""

from __future__ import annotations

import heapq
import itertools
import struct
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["RowCode", "row_code"]

MAX_ROW_BYTES = 1 << 15
"""How far back a repeat can reach."""
_SHORTEST, _LONGEST = 3, 258
"""Bytes of a repeat."""
_LITERALS = 256
_LITERAL_BITS = 9
_END = 256
_LENGTH_SYMBOLS, _DISTANCE_SYMBOLS = 286, 30
_MOST_CODE_BITS = 15
_BLOCK_OF_FIXED_CODES = 0b010
_LAST_BLOCK_OF_OWN_CODES = 0b101
_STORED = struct.Struct("<BHH")

_LENGTH_EXTRA = [*[0] * 8, *[1] * 4, *[2] * 4, *[3] * 4, *[4] * 4, *[5] * 4, 0]
_LENGTH_BASE = [*itertools.accumulate((1 << bits for bits in _LENGTH_EXTRA[:-2]), initial=_SHORTEST), _LONGEST]
_DISTANCE_EXTRA = [0, 0, *(bits for bits in range(14) for _ in range(2))]
_DISTANCE_BASE = list(itertools.accumulate((1 << bits for bits in _DISTANCE_EXTRA[:-1]), initial=1))

_UNIT_BYTES = 6
"""Literals that are put in at once: with up to 7 bits before them they fit 64."""


@dataclass(slots=True)
class _Bits:
    """Bits one after the other, the first the lowest of the first byte."""

    value: int = 0
    size: int = 0

    def add(self, value: int, bits: int) -> None:
        self.value |= value << self.size
        self.size += bits

    def to_bytes(self) -> bytes:
        """With zeros up to a whole byte."""
        return self.value.to_bytes((self.size + 7) // 8, "little")


@dataclass(frozen=True, slots=True)
class _Repeat:
    """Bytes that stand in the row before too."""

    size: int

    @property
    def symbol(self) -> int:
        return 257 + bisect_right(_LENGTH_BASE, self.size) - 1

    @property
    def extra_bits(self) -> int:
        return _LENGTH_EXTRA[self.symbol - 257]


@dataclass(frozen=True, slots=True)
class _Literals:
    """Bytes of their own, from ``column`` on."""

    column: int
    size: int


@dataclass(frozen=True, slots=True)
class _Unit:
    """Literals that are put in at once, and the bit of the packed row at which they start."""

    column: int
    size: int
    bit: int


@dataclass(frozen=True, slots=True)
class RowCode:
    """How rows that vary in given columns are deflated.

    Attributes
    ----------
    packed_bytes
        Bytes that each row but the first takes.
    """

    packed_bytes: int
    _head: bytes
    _template: bytes
    _units: tuple[_Unit, ...]
    _end: bytes
    _literals: NDArray[np.uint64] = field(repr=False)

    def deflate(self, rows: NDArray[np.uint8]) -> bytes:
        """``rows`` ``(n, m) uint8`` as a deflate stream."""
        count, size = len(rows) - 1, self.packed_bytes
        # Literals are put in as words of eight bytes, the last of them beyond the last row.
        buffer = np.empty(count * size + 8, np.uint8)
        buffer[-8:] = 0
        packed = buffer[:-8]
        packed.reshape(count, size)[:] = np.frombuffer(self._template, np.uint8)
        codes, terms, places = np.empty(count, np.uint64), np.empty(count, np.uint64), np.empty(count, np.intp)
        for unit in self._units:
            for first in range(0, unit.size, 2):
                self._look_up(rows[1:, unit.column + first : unit.column + unit.size], places, terms)
                np.left_shift(terms, np.uint64(unit.bit % 8 + first * _LITERAL_BITS), out=terms if first else codes)
                if first:
                    codes |= terms
            words = np.ndarray((count,), "<u8", buffer=buffer.data, offset=unit.bit // 8, strides=(size,))
            words |= codes
        length = rows.shape[1]
        stored = _STORED.pack(0, length, length ^ 0xFFFF) + rows[0].tobytes()
        return b"".join((stored, self._head, packed.data, self._end))

    def _look_up(self, values: NDArray[np.uint8], places: NDArray[np.intp], codes: NDArray[np.uint64]) -> None:
        """The ``codes`` of the first two columns of literals, or of the only one."""
        if values.shape[1] > 1:
            places[:] = values[:, :2].view("<u2")[:, 0]
            table = self._literals
        else:
            places[:] = values[:, 0]
            table = self._literals[:_LITERALS] & np.uint64((1 << _LITERAL_BITS) - 1)
        # No place is beyond the table, so nothing is wrapped, but the check for it is what takes time otherwise.
        table.take(places, out=codes, mode="wrap")


def row_code(rows: NDArray[np.uint8]) -> RowCode | None:
    """The code of ``rows`` ``(n, m) uint8``; None where they are too few, too long, or share no stretch of columns.

    None too, rarely, where no length of a repeat's code makes a row whole bytes: two repeats of one length in rows of
    an odd number of bits.

    >>> import zlib
    >>> rows = np.frombuffer(b"key: 1, key: 8, key: 5, ", np.uint8).reshape(3, 8)
    >>> code = row_code(rows)
    >>> zlib.decompress(code.deflate(rows), -15)
    b'key: 1, key: 8, key: 5, '
    >>> code.packed_bytes
    4
    """
    count, length = rows.shape
    if count < 3 or length > MAX_ROW_BYTES:
        return None
    return _code_of(_varying(rows).tobytes())


def _varying(rows: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which columns of C-contiguous ``rows`` vary, ``(m,) bool``."""
    length = rows.shape[1]
    flat = rows.reshape(-1)
    # One row after the other, so that each step is one pass over memory.
    changes = flat[length:] ^ flat[:-length]
    left = len(rows) - 1
    while left > 1:
        half = left // 2
        changes[: half * length] |= changes[(left - half) * length : left * length]
        left -= half
    found: NDArray[np.bool_] = changes[:length] != 0
    return found


# Batch after batch has the same few.
@lru_cache(maxsize=64)
def _code_of(varying: bytes) -> RowCode | None:
    """The code of rows of which these columns vary."""
    chosen = _shortest(_stretches(np.frombuffer(varying, np.bool_)), len(varying))
    if chosen is None:
        return None
    stretches, lengths = chosen
    lengths |= dict.fromkeys(range(_LITERALS), _LITERAL_BITS)
    distance = bisect_right(_DISTANCE_BASE, len(varying)) - 1
    # A second distance, which isn't used: one alone is an incomplete code.
    distance_lengths = {distance: 1, (distance + 1) % _DISTANCE_SYMBOLS: 1}
    codes, distance_code = _codes(lengths), _codes(distance_lengths)[distance]
    template, units = _Bits(), []
    for stretch in stretches:
        if isinstance(stretch, _Repeat):
            template.add(codes[stretch.symbol], lengths[stretch.symbol])
            template.add(stretch.size - _LENGTH_BASE[stretch.symbol - 257], stretch.extra_bits)
            template.add(distance_code, 1)
            template.add(len(varying) - _DISTANCE_BASE[distance], _DISTANCE_EXTRA[distance])
            continue
        for start in range(0, stretch.size, _UNIT_BYTES):
            size = min(_UNIT_BYTES, stretch.size - start)
            units.append(_Unit(stretch.column + start, size, template.size))
            template.add(0, size * _LITERAL_BITS)
    end = _Bits()
    end.add(codes[_END], lengths[_END])
    return RowCode(
        packed_bytes=template.size // 8,
        _head=_head(lengths, distance_lengths),
        _template=template.to_bytes(),
        _units=tuple(units),
        _end=end.to_bytes(),
        _literals=_pairs(codes[0]),
    )


def _stretches(varying: NDArray[np.bool_]) -> list[_Repeat | _Literals]:
    """What a row is made of, in order."""
    is_literal = varying.copy()
    for start, stop in _runs(varying):
        if stop - start < _SHORTEST:
            is_literal[start:stop] = True
    found: list[_Repeat | _Literals] = []
    for start, stop in _runs(is_literal):
        if is_literal[start]:
            found.append(_Literals(start, stop - start))
        else:
            pieces = -(-(stop - start) // _LONGEST)
            bounds = [(stop - start) * number // pieces for number in range(pieces + 1)]
            found += [_Repeat(after - before) for before, after in itertools.pairwise(bounds)]
    return found


def _runs(values: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Bounds of the runs of equal values."""
    edges = np.flatnonzero(values[1:] != values[:-1]) + 1
    return itertools.pairwise([0, *edges.tolist(), len(values)])


def _shortest(
    stretches: Sequence[_Repeat | _Literals], row_bytes: int
) -> tuple[Sequence[_Repeat | _Literals], dict[int, int]] | None:
    """The stretches and code lengths of the symbols behind the literals with which a row is fewest whole bytes.

    Whole bytes come about by a longer code for one symbol; where each is used too often for that, by cutting a repeat.
    """
    found = []
    distance_bits = 1 + _DISTANCE_EXTRA[bisect_right(_DISTANCE_BASE, row_bytes) - 1]
    for cut in _with_a_cut(stretches):
        repeats = [each for each in cut if isinstance(each, _Repeat)]
        counts = Counter(each.symbol for each in repeats)
        lengths = _huffman(counts)
        bits = sum(each.size * _LITERAL_BITS for each in cut if isinstance(each, _Literals))
        bits += sum(lengths[each.symbol] + each.extra_bits + distance_bits for each in repeats)
        for symbol, longer in itertools.product(counts, range(8)):
            total = bits + counts[symbol] * longer
            if total % 8 == 0 and max(max(lengths.values()), lengths[symbol] + longer) <= _MOST_CODE_BITS:
                found.append((total, cut, _made_longer(lengths, symbol, longer)))
    return min(found, key=lambda each: each[0])[1:] if found else None


def _with_a_cut(stretches: Sequence[_Repeat | _Literals]) -> Iterator[Sequence[_Repeat | _Literals]]:
    """The stretches as they are; and with the first repeat cut in two, in a few ways."""
    yield stretches
    for number, each in enumerate(stretches):
        if isinstance(each, _Repeat):
            for size in range(_SHORTEST, min(2 * _SHORTEST, each.size - _SHORTEST) + 1):
                yield [*stretches[:number], _Repeat(size), _Repeat(each.size - size), *stretches[number + 1 :]]
            return


def _huffman(counts: Mapping[int, int]) -> dict[int, int]:
    """Code lengths of these symbols and the end's, which take half of all codes; literals have the other half."""
    lengths = dict.fromkeys([*counts, _END], 1)
    heap: list[tuple[int, int, tuple[int, ...]]] = [(counts.get(symbol, 0), symbol, (symbol,)) for symbol in lengths]
    heapq.heapify(heap)
    while len(heap) > 1:
        (rare, first, some), (more, _, others) = heapq.heappop(heap), heapq.heappop(heap)
        for symbol in some + others:
            lengths[symbol] += 1
        heapq.heappush(heap, (rare + more, first, some + others))
    return lengths


def _made_longer(lengths: Mapping[int, int], symbol: int, longer: int) -> dict[int, int]:
    """A longer code for ``symbol``; symbols that aren't used fill the gap, as decoders want complete codes."""
    found = dict(lengths)
    found[symbol] += longer
    unused = (each for each in range(_END + 1, _LENGTH_SYMBOLS) if each not in lengths)
    found.update(zip(unused, range(lengths[symbol] + 1, found[symbol] + 1), strict=False))
    return found


def _codes(lengths: Mapping[int, int]) -> dict[int, int]:
    """The canonical codes of symbols, their first bit the lowest."""
    codes, code, last = {}, 0, 0
    for length, symbol in sorted((length, symbol) for symbol, length in lengths.items()):
        code <<= length - last
        codes[symbol] = _reversed(code, length)
        code, last = code + 1, length
    return codes


def _reversed(code: int, bits: int) -> int:
    return int(f"{code:0{bits}b}"[::-1], 2)


@lru_cache(maxsize=4)
def _pairs(first: int) -> NDArray[np.uint64]:
    """The codes of two literals one behind the other, by their bytes as a number, where literal 0 has this code."""
    start = _reversed(first, _LITERAL_BITS)
    singles = np.array([_reversed(start + value, _LITERAL_BITS) for value in range(_LITERALS)], np.uint64)
    return (singles | singles[:, np.newaxis] << np.uint64(_LITERAL_BITS)).reshape(-1)


def _head(lengths: Mapping[int, int], distance_lengths: Mapping[int, int]) -> bytes:
    """The start of the block of rows, up to its first code: whole bytes."""
    bits = _Bits()
    # Each code length as four bits; then three empty blocks are what makes whole bytes of all.
    for _ in range(3):
        bits.add(_BLOCK_OF_FIXED_CODES, 3)
        bits.add(0, 7)
    bits.add(_LAST_BLOCK_OF_OWN_CODES, 3)
    bits.add(_LENGTH_SYMBOLS - 257, 5)
    bits.add(_DISTANCE_SYMBOLS - 1, 5)
    bits.add(19 - 4, 4)
    # 16, 17 and 18, which would repeat lengths, come first and have no code.
    for number in range(19):
        bits.add(4 if number > 2 else 0, 3)
    for symbols, known in ((_LENGTH_SYMBOLS, lengths), (_DISTANCE_SYMBOLS, distance_lengths)):
        for symbol in range(symbols):
            bits.add(_reversed(known.get(symbol, 0), 4), 4)
    return bits.to_bytes()

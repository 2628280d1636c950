"""Deflate, one bit at a time: what a damaged stream still holds up to the very bit that makes no sense.

**Source**: RFC 1951.
"""

from __future__ import annotations

__all__ = ["NonsenseError", "inflate"]

_LENGTHS = [(3 + i, 0) for i in range(8)] + [
    (base, extra)
    for extra, bases in enumerate(((11, 13, 15, 17), (19, 23, 27, 31), (35, 43, 51, 59), (67, 83, 99, 115)), 1)
    for base in bases
]
_LENGTHS += [(131, 5), (163, 5), (195, 5), (227, 5), (258, 0)]
_DISTANCES = [(1, 0), (2, 0), (3, 0), (4, 0)]
for _extra in range(1, 14):
    _base = (1 << _extra + 1) + 1
    _DISTANCES += [(_base, _extra), (_base + (1 << _extra), _extra)]
_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)


class NonsenseError(Exception):
    """The stream can't be read on, or ends too early."""


class _Bits:
    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, count: int) -> int:
        value = 0
        for shift in range(count):
            if self.place >= 8 * len(self.data):
                raise NonsenseError("end")
            value |= (self.data[self.place >> 3] >> (self.place & 7) & 1) << shift
            self.place += 1
        return value


def _codes(lengths: list[int]) -> dict[tuple[int, int], int]:
    """(length, code) -> symbol; raises for lengths that make no code."""
    codes, code = {}, 0
    for length in range(1, 16):
        code <<= 1
        for symbol, own in enumerate(lengths):
            if own == length:
                codes[length, code] = symbol
                code += 1
        if code > 1 << length:
            raise NonsenseError("over-subscribed")
    used = [length for length in lengths if length]
    # One code of one bit is allowed to be alone.
    if sum(1 << 15 - length for length in used) < 1 << 15 and used not in ([], [1]):
        raise NonsenseError("incomplete")
    return codes


def _symbol(bits: _Bits, codes: dict[tuple[int, int], int]) -> int:
    code = 0
    for length in range(1, 16):
        code = code << 1 | bits.take(1)
        if (length, code) in codes:
            return codes[length, code]
    raise NonsenseError("no such code")


def _tables(bits: _Bits) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int], int]]:
    literals, distances, count = bits.take(5) + 257, bits.take(5) + 1, bits.take(4) + 4
    if literals > 286 or distances > 30:
        raise NonsenseError("too many symbols")
    short = [0] * 19
    for index in range(count):
        short[_ORDER[index]] = bits.take(3)
    if not any(short):
        raise NonsenseError("no code lengths")
    codes = _codes(short)
    lengths: list[int] = []
    while len(lengths) < literals + distances:
        symbol = _symbol(bits, codes)
        if symbol < 16:
            lengths.append(symbol)
        elif symbol == 16:
            if not lengths:
                raise NonsenseError("repeats nothing")
            lengths += lengths[-1:] * (3 + bits.take(2))
        else:
            lengths += [0] * (3 + bits.take(3) if symbol == 17 else 11 + bits.take(7))
    if len(lengths) > literals + distances or not lengths[256]:
        raise NonsenseError("too many lengths, or no end of block")
    return _codes(lengths[:literals]), _codes(lengths[literals:])


def _block(
    bits: _Bits,
    literal_codes: dict[tuple[int, int], int],
    distance_codes: dict[tuple[int, int], int],
    out: bytearray,
    begin: int,
) -> None:
    while (symbol := _symbol(bits, literal_codes)) != 256:
        if symbol < 256:
            out.append(symbol)
            continue
        if symbol > 285:
            raise NonsenseError("no such length")
        base, extra = _LENGTHS[symbol - 257]
        length = base + bits.take(extra)
        symbol = _symbol(bits, distance_codes)
        if symbol > 29:
            raise NonsenseError("no such distance")
        base, extra = _DISTANCES[symbol]
        distance = base + bits.take(extra)
        if distance > len(out) - begin:
            raise NonsenseError("too far back")
        for _ in range(length):
            out.append(out[-distance])


def inflate(data: bytes, out: bytearray) -> int:
    """Append what the raw deflate stream at the start of ``data`` holds to ``out``; returns its bytes in ``data``."""
    bits, begin, is_last = _Bits(data), len(out), False
    while not is_last:
        is_last, kind = bool(bits.take(1)), bits.take(2)
        if kind == 3:
            raise NonsenseError("no such block")
        if kind == 0:
            bits.place = (bits.place + 7) // 8 * 8
            length, complement = bits.take(16), bits.take(16)
            if length ^ 0xFFFF != complement:
                raise NonsenseError("stored length")
            for _ in range(length):
                out.append(bits.take(8))
            continue
        if kind == 1:
            literal_codes = _codes([8] * 144 + [9] * 112 + [7] * 24 + [8] * 8)
            distance_codes = _codes([5] * 32)
        else:
            literal_codes, distance_codes = _tables(bits)
        _block(bits, literal_codes, distance_codes, out, begin)
    return (bits.place + 7) // 8

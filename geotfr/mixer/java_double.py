"""Numbers as Java's ``Double.toString`` writes them, the form in Earth Engine's mixers."""

from __future__ import annotations

from decimal import Decimal

__all__ = ["java_double"]


def java_double(number: float) -> str:
    """``number`` with the shortest digits that read back equal: decimal from 1e-3 to below 1e7, else ``E`` notation.

    **Source**: ``Double.toString`` since JDK 19, and the numbers in exported mixers.

    >>> [java_double(v) for v in (1.0, 0.001, 8.983152841195215e-05, 1e7, -12345678.9, 0.0)]
    ['1.0', '0.001', '8.983152841195215E-5', '1.0E7', '-1.23456789E7', '0.0']
    """
    if number == 0:
        return "-0.0" if str(number).startswith("-") else "0.0"
    # repr gives the shortest digits; Decimal takes them apart without rounding.
    sign, digits, exponent = Decimal(repr(float(number))).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    assert isinstance(exponent, int)  # not NaN or infinity: a mixer's numbers are finite
    point = len(digits) + exponent  # digits in front of the decimal point
    minus = "-" if sign else ""
    if 1e-3 <= abs(number) < 1e7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{text}"
        whole = text[:point].ljust(point, "0")
        return f"{minus}{whole}.{text[point:] or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"

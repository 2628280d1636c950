"""What a feature's length says of its shape.

A mixer holds no kernel, so the number of values decides: the patch itself, or the patch with its margins. What fits
neither, or could be meant in two ways, is refused with the readings listed; nothing is guessed silently.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Reading", "UnreadableLengthError", "reading_of"]

_MOST_BANDS = 4096


class UnreadableLengthError(Exception):
    """No reading, or more than one; the message lists them. ``is_ambiguous`` tells which."""

    def __init__(self, message: str, *, is_ambiguous: bool) -> None:
        super().__init__(message)
        self.is_ambiguous = is_ambiguous


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the values of one feature are laid out.

    Attributes
    ----------
    block_yx
        (rows, columns) that a record holds, row-major.
    margin_yx
        (rows, columns) to trim on each side to get the patch.
    """

    block_yx: tuple[int, int]
    margin_yx: tuple[int, int]


def reading_of(length: int, patch_yx: tuple[int, int], kernel_yx: tuple[int, int] | None) -> Reading:
    """How ``length`` values are laid out around a patch of ``patch_yx``.

    ``kernel_yx`` is the kernel that padded values carry; None where it isn't known, then an even excess of a square
    patch gives the margin.

    >>> reading_of(144, (8, 8), None)
    Reading(block_yx=(12, 12), margin_yx=(2, 2))

    Raises
    ------
    UnreadableLengthError
        No reading fits, or more than one.
    """
    height, width = patch_yx
    if length == height * width:
        return Reading(block_yx=patch_yx, margin_yx=(0, 0))
    if kernel_yx is not None:
        margin = kernel_yx[0] // 2, kernel_yx[1] // 2
        block = height + 2 * margin[0], width + 2 * margin[1]
        if length == block[0] * block[1]:
            return Reading(block_yx=block, margin_yx=margin)
    padded = _square_margin(length, patch_yx) if kernel_yx is None else None
    bands = length // (height * width) if length and length % (height * width) == 0 else 0
    bands = bands if bands <= _MOST_BANDS else 0
    if padded is not None and not bands:
        return padded
    raise UnreadableLengthError(_explain(length, patch_yx, kernel_yx, padded, bands), is_ambiguous=padded is not None)


def _square_margin(length: int, patch_yx: tuple[int, int]) -> Reading | None:
    side = math.isqrt(length)
    excess = side - patch_yx[0]
    if patch_yx[0] != patch_yx[1] or side * side != length or excess <= 0 or excess % 2:
        return None
    return Reading(block_yx=(side, side), margin_yx=(excess // 2, excess // 2))


def _explain(
    length: int,
    patch_yx: tuple[int, int],
    kernel_yx: tuple[int, int] | None,
    padded: Reading | None,
    bands: int,
) -> str:
    height, width = patch_yx
    fits = []
    if padded is not None:
        side = padded.block_yx[0]
        fits.append(f"a block of {side} x {side} (--kernel-size {2 * padded.margin_yx[0]})")
    if bands:
        fits.append(f"{bands} bands of {width} x {height} (write one feature a band)")
    expected = f"the patch {width} x {height} = {height * width}"
    if kernel_yx is not None:
        block = height + kernel_yx[0] // 2 * 2, width + kernel_yx[1] // 2 * 2
        expected += f", with kernel {kernel_yx[1]} x {kernel_yx[0]} {block[1]} x {block[0]} = {block[0] * block[1]}"
    return f"{length} values; expected {expected}; it could be {' or '.join(fits) or 'no other known shape'}"

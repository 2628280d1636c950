"""What a feature's length says of its shape.

A mixer holds no kernel and no bands, so the number of values decides: the patch itself, the patch with its margins, or
some channels of either. What fits no reading, or could be meant in two ways, is refused with the readings listed;
nothing is guessed silently. Coarser and finer predictions, and single values for a patch, are read where they are asked
for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Reading", "UnreadableLengthError", "reading_of"]

_MOST_CHANNELS = 4096
_SAME_PIXELS = Fraction(1)


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
    channels
        Bands in the feature.
    channels_last
        Whether the channels of a pixel stand together, (row, col, channel), instead of (channel, row, col).
    is_constant
        Whether a record holds one value a channel, which stands for the whole block.
    """

    block_yx: tuple[int, int]
    margin_yx: tuple[int, int]
    channels: int = 1
    channels_last: bool = False
    is_constant: bool = False

    def patches(self, values: NDArray[Any], channel: int) -> NDArray[Any]:
        """One channel of ``values`` ``(n, length)``, trimmed: a read-only view ``(n, row, col)``."""
        (height, width), (margin_y, margin_x) = self.block_yx, self.margin_yx
        return self.blocks(values, channel)[:, margin_y : height - margin_y, margin_x : width - margin_x]

    def blocks(self, values: NDArray[Any], channel: int) -> NDArray[Any]:
        """One channel of ``values`` ``(n, length)`` with its margins: a read-only view ``(n, row, col)``."""
        height, width = self.block_yx
        record, step = values.strides
        strides = (record, width * step, step)
        origin = values[:, channel * height * width :]
        if self.channels_last:
            origin = values[:, channel:]
            strides = (record, width * step * self.channels, step * self.channels)
        if self.is_constant:
            origin, strides = values[:, channel:], (record, 0, 0)
        return np.lib.stride_tricks.as_strided(origin, (len(values), height, width), strides, writeable=False)


def reading_of(
    length: int,
    patch_yx: tuple[int, int],
    kernel_yx: tuple[int, int] | None,
    *,
    depth: int | None = None,
    channels: str | None = None,
    kernel_is_asked: bool = True,
    scale: Fraction = _SAME_PIXELS,
) -> Reading:
    """How ``length`` values are laid out around a patch of ``patch_yx``.

    Parameters
    ----------
    kernel_yx
        The kernel that padded values carry; None where it isn't known, then an even excess of a square patch gives the
        margin.
    depth
        Channels that the feature is known to have; (channel, row, col) unless ``channels`` says otherwise.
    channels
        ``first`` or ``last``: the feature may have several channels, in this order.
    kernel_is_asked
        Whether the user said that the values carry the kernel. One that is only known of the export doesn't decide
        between margins and ``channels``, which the user said.
    scale
        Sides of the predictions' patch for each of the exported one: kernels are told in exported pixels.

    Raises
    ------
    UnreadableLengthError
        No reading fits, or more than one.

    Examples
    --------
    >>> reading_of(144, (8, 8), None)
    Reading(block_yx=(12, 12), margin_yx=(2, 2), channels=1, channels_last=False, is_constant=False)
    """
    plain = Reading(block_yx=patch_yx, margin_yx=(0, 0))
    shapes = [plain]
    if kernel_yx is not None:
        shapes.append(_padded(patch_yx, (kernel_yx[0] // 2, kernel_yx[1] // 2)))
    is_open = channels is not None and depth is None and not kernel_is_asked and length % _pixels(plain) == 0
    for shape in shapes[:1] if is_open else shapes:
        for count in (1, depth or 1):
            if length == count * _pixels(shape):
                return Reading(
                    block_yx=shape.block_yx,
                    margin_yx=shape.margin_yx,
                    channels=count,
                    channels_last=count > 1 and channels == "last",
                )
    found: list[Reading] = []
    if kernel_yx is None:
        found += _square_margin(length, patch_yx, scale)
    banded = [
        Reading(
            block_yx=shape.block_yx,
            margin_yx=shape.margin_yx,
            channels=length // _pixels(shape),
            channels_last=channels == "last",
        )
        for shape in dict.fromkeys(shapes)
        if length and length % _pixels(shape) == 0 and length // _pixels(shape) <= _MOST_CHANNELS
    ]
    if channels is not None or found:
        found += banded
    if len(found) == 1:
        return found[0]
    message = _explain(length, shapes, dict.fromkeys([*found, *banded]), has_channels=channels is not None, scale=scale)
    raise UnreadableLengthError(message, is_ambiguous=len(found) > 1)


def _pixels(shape: Reading) -> int:
    return shape.block_yx[0] * shape.block_yx[1]


def _padded(patch_yx: tuple[int, int], margin_yx: tuple[int, int]) -> Reading:
    return Reading(block_yx=(patch_yx[0] + 2 * margin_yx[0], patch_yx[1] + 2 * margin_yx[1]), margin_yx=margin_yx)


def _square_margin(length: int, patch_yx: tuple[int, int], scale: Fraction) -> list[Reading]:
    side = math.isqrt(length)
    excess = side - patch_yx[0]
    if patch_yx[0] != patch_yx[1] or side * side != length or excess <= 0 or excess % 2:
        return []
    if (excess // 2 / scale).denominator > 1:
        return []
    return [_padded(patch_yx, (excess // 2, excess // 2))]


def _explain(
    length: int, shapes: list[Reading], found: dict[Reading, None], *, has_channels: bool, scale: Fraction
) -> str:
    expected = " or ".join(f"{s.block_yx[1]} x {s.block_yx[0]} = {_pixels(s)}" for s in dict.fromkeys(shapes))
    readings = []
    for reading in found:
        height, width = reading.block_yx
        if reading.channels == 1:
            readings.append(f"a block of {width} x {height} (--kernel-size {_kernel_text(reading, scale)})")
        else:
            # Where several channels are allowed already, no kernel tells them from a margin; one that is known stays.
            names = f"--class-names with {reading.channels}"
            kernel = names if any(reading.margin_yx) else f"--kernel-size 1, or {names}"
            option = kernel if has_channels else "--channels first or last, and --class-names"
            readings.append(f"{reading.channels} channels of {width} x {height} ({option})")
    readings += _other_resolutions(length, shapes[0].block_yx)
    if length == 1 or (not readings and length < _pixels(shapes[0])):
        readings.append(f"{length} value{'s' if length > 1 else ''} for the whole patch (--per-patch pixel or fill)")
    return f"{length} values; expected {expected}; it could be {' or '.join(readings) or 'no other known shape'}"


def _kernel_text(reading: Reading, scale: Fraction) -> str:
    """The kernel of the margins as the option takes it, in pixels of the exported patch."""
    high, wide = (max(2 * margin / scale, Fraction(1)) for margin in reading.margin_yx)
    return f"{wide}" if high == wide else f"{wide},{high}"


def _other_resolutions(length: int, patch_yx: tuple[int, int]) -> list[str]:
    """Readings of ``length`` as one band of pixels that a whole factor makes larger or smaller."""
    height, width = patch_yx
    finer = math.isqrt(length // (height * width))
    if finer > 1 and finer * finer * height * width == length:
        return [f"{width * finer} x {height * finer} finer pixels (--finer {finer})"]
    coarser = math.isqrt(height * width // length) if length else 0
    is_whole = coarser > 1 and not height % coarser and not width % coarser
    if is_whole and length * coarser * coarser == height * width and length > 1:
        return [f"{width // coarser} x {height // coarser} coarser pixels (--coarser {coarser})"]
    return []

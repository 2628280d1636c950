"""What a count of values may mean: the patch, or the patch and kernel, that would hold it."""

from __future__ import annotations

import math

__all__ = ["shapes_that_fit"]


def shapes_that_fit(found: int, dims: tuple[int, ...]) -> str:
    """Advice for a feature with ``found`` values that was asked for with shape ``dims``.

    A patch of (height, width) exported with a kernel has the same margin on all sides, so the margin follows
    from the count. **Source**: Earth Engine's ``kernelSize``: margin = kernel // 2.

    >>> shapes_that_fit(144, (8, 8))
    '144 = 12x12: use shape [12, 12], which is a patch of 8x8 with kernel 4 (or 5)'
    >>> shapes_that_fit(256, (4, 4))
    '256 = 16x16: use shape [16, 16], which is a patch of 4x4 with kernel 12 (or 13), or one of 16x16 without'
    >>> shapes_that_fit(144, (8, 8, 1))
    '144 = 12x12x1: use shape [12, 12, 1], which is a patch of 8x8 with kernel 4 (or 5)'
    >>> shapes_that_fit(7, (2,))
    'use shape [7], or VarLenFeature where the count varies'
    """
    # Models often want (height, width, 1).
    channel = [1] if len(dims) == 3 and dims[-1] == 1 else []
    dims = dims[: len(dims) - len(channel)]
    leading, last = dims[:-2], dims[-2:]
    planes = math.prod(leading)
    if len(last) == 2 and 0 not in dims and found % planes == 0:
        height, width = last
        pixels = found // planes
        margin = _margin(pixels, height, width)
        side = math.isqrt(pixels)
        square = side * side == pixels
        if margin:
            block = [*leading, height + 2 * margin, width + 2 * margin, *channel]
            text = (
                f"{found} = {_product(block)}: use shape {block}, "
                f"which is a patch of {width}x{height} with kernel {2 * margin} (or {2 * margin + 1})"
            )
            # A margin wider than half the patch is rare: then the patch was probably taken too small.
            is_rare = square and 2 * margin > min(height, width)
            return text + (f", or one of {side}x{side} without" if is_rare else "")
        if square:
            shape = [*leading, side, side, *channel]
            return f"{found} = {_product(shape)}: use shape {shape} if the patch is square"
    return f"use shape [{found}], or VarLenFeature where the count varies"


def _product(sizes: list[int]) -> str:
    return "x".join(str(size) for size in sizes)


def _margin(pixels: int, height: int, width: int) -> int:
    """The margin a with (height + 2a)(width + 2a) = ``pixels``, or 0 where there is none."""
    root = math.isqrt((height - width) ** 2 + 4 * pixels)
    margin = (root - height - width) // 4
    return margin if margin > 0 and (height + 2 * margin) * (width + 2 * margin) == pixels else 0

"""Pyramids: the next level of a raster, half as wide and half as high.

**Source**: Earth Engine's pyramiding policies. A pixel of a level stands for the 2 x 2 pixels below it, fewer at an odd
edge; masked pixels take no part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from geotfr.patches.votes import most_frequent

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Policy", "halved", "level_shapes"]

Policy = Literal["mean", "mode", "min", "max", "sample"]


def level_shapes(shape_yx: tuple[int, int], *, smallest: int) -> list[tuple[int, int]]:
    """(rows, columns) of the levels above a raster, until one has at most ``smallest`` pixels along its longer side.

    >>> level_shapes((1000, 300), smallest=256)
    [(500, 150), (250, 75)]
    """
    shapes = []
    while max(shape_yx) > smallest:
        shape_yx = -(-shape_yx[0] // 2), -(-shape_yx[1] // 2)
        shapes.append(shape_yx)
    return shapes


def halved(data: NDArray[Any], valid: NDArray[np.bool_], policy: Policy) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The next level of ``data``, in its dtype, and where it has a valid value.

    Parameters
    ----------
    data, valid
        (row, column), any size from 1 x 1.
    policy
        ``mean`` of the valid pixels, rounded half up for integers; ``mode``, the most frequent, the smallest of equally
        frequent ones; ``min``; ``max``; ``sample``, the upper left pixel, valid or not.

    Examples
    --------
    >>> data = np.array([[1, 2, 9], [3, 5, 9]], np.uint8)
    >>> halved(data, data < 9, "mean")
    (array([[3, 0]], dtype=uint8), array([[ True, False]]))
    """
    if policy == "sample":
        return data[::2, ::2].copy(), valid[::2, ::2].copy()
    candidates, known = _quarters(data), _quarters(valid)
    is_valid = np.asarray(known.any(axis=0))
    if policy == "mode":
        return most_frequent(candidates, known), is_valid
    if policy == "mean":
        return _mean(candidates, known, is_valid), is_valid
    # What isn't valid must not win.
    limits = np.finfo(data.dtype) if data.dtype.kind == "f" else np.iinfo(data.dtype)
    worst, best = (limits.max, np.minimum) if policy == "min" else (limits.min, np.maximum)
    if data.dtype.kind == "f":
        worst = np.inf if policy == "min" else -np.inf
    level = best.reduce(np.where(known, candidates, data.dtype.type(worst)))
    return np.where(is_valid, level, data.dtype.type(0)), is_valid


def _quarters(array: NDArray[Any]) -> NDArray[Any]:
    """The four pixels below each pixel of the next level, ``(4, row, column)``; 0 and False beyond an odd edge."""
    rows, cols = array.shape
    whole = np.pad(array, ((0, rows % 2), (0, cols % 2)))
    return np.stack([whole[row::2, col::2] for row in (0, 1) for col in (0, 1)])


def _mean(candidates: NDArray[Any], known: NDArray[np.bool_], is_valid: NDArray[np.bool_]) -> NDArray[Any]:
    dtype = candidates.dtype
    count = np.maximum(known.sum(axis=0), 1)
    total = np.where(known, candidates, dtype.type(0)).astype(np.float64).sum(axis=0)
    mean = total / count
    if dtype.kind != "f":
        # An int64 or uint64 beyond 2**53 is a float64 that may lie outside the type.
        limits = np.iinfo(dtype)
        mean = np.clip(np.floor(mean + 0.5), float(limits.min), _largest(limits))
    return np.where(is_valid, mean, 0).astype(dtype)


def _largest(limits: np.iinfo[Any]) -> float:
    """The largest float64 that the integer type holds."""
    largest = float(limits.max)
    return largest if int(largest) <= limits.max else float(np.nextafter(largest, 0))

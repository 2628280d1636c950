"""The pixels of patches a slab at a time: as many rows as stay in the cache as float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Channel = tuple[NDArray[Any], NDArray[np.bool_] | None]

__all__ = ["SLAB_VALUES", "masked", "room", "scratch_memory", "slabs"]

# 128 Ki values are 1 MiB as float64: what stays in a core's second cache.
SLAB_VALUES = 2**17


def scratch_memory() -> NDArray[np.float64]:
    """Memory that :func:`statistics_of` may use again and again, one for each thread."""
    return np.empty(SLAB_VALUES, np.float64)


def room(values: NDArray[Any], scratch: NDArray[np.float64]) -> NDArray[np.float64]:
    """Room for ``values`` as float64."""
    if len(scratch) < values.size:
        return np.empty(values.shape, np.float64)
    return scratch[: values.size].reshape(values.shape)


def slabs(channels: Sequence[Channel]) -> Iterator[Channel]:
    """Some pixel rows of all patches at a time; None where all of a slab is valid."""
    for values, valid in channels:
        rows = max(SLAB_VALUES // max(values.shape[0] * values.shape[2], 1), 1)
        for start in range(0, max(values.shape[1], 1), rows):
            part = slice(start, start + rows)
            seen = None if valid is None else valid[:, part]
            yield values[:, part], None if seen is None or seen.all() else seen


def masked(values: NDArray[Any], valid: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """A copy of ``values`` ``(n, row, col)`` with 0 where they are masked; least and greatest valid value, ``(n,)``.

    Bits are chosen by other bits: numpy's ``where`` takes ten times as long, as it guesses at every pixel.
    """
    whole = np.dtype(f"i{values.dtype.itemsize}")
    seen = np.negative(valid.view(np.int8).astype(whole))
    kept = values.view(whole) & seen
    np.invert(seen, out=seen)
    least, most = (np.array(limit, values.dtype).view(whole) for limit in _limits(values.dtype))
    return (
        kept.view(values.dtype),
        (kept | (seen & most)).view(values.dtype).min(axis=(1, 2)),
        (kept | (seen & least)).view(values.dtype).max(axis=(1, 2)),
    )


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind == "f":
        return dtype.type(-np.inf), dtype.type(np.inf)
    if dtype.kind == "b":
        return False, True
    info = np.iinfo(dtype)
    return dtype.type(info.min), dtype.type(info.max)

"""Runs of bytes, one a row, joined row by row without a step of Python for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = ["Runs", "heads", "join_runs", "splits_of"]

LONG_RUN_BYTES = 256
"""Runs longer than this on average are copied one by one: an index of each byte costs more."""


def splits_of(lengths: NDArray[np.int64], dtype: str = "int64") -> NDArray[Any]:
    """Bounds ``(n + 1,)`` of runs of the given ``lengths`` ``(n,)``, one after the other.

    >>> splits_of(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    splits = np.zeros(len(lengths) + 1, dtype)
    np.cumsum(lengths, out=splits[1:])
    return splits


@dataclass(frozen=True, slots=True)
class Runs:
    """``n`` runs of bytes: run i is ``data[starts[i]:starts[i] + sizes[i]]``; runs may overlap and stand anywhere.

    ``data`` is uint8, ``starts`` and ``sizes`` are ``(n,) int64``.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]


def join_runs(parts: Sequence[Runs], *, spare: int = 0) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Row by row the runs of all ``parts``, then ``spare`` bytes: the bytes, and the rows' bounds ``(n + 1,) int64``.

    >>> one = Runs(np.frombuffer(b"abc", np.uint8), np.array([0, 1]), np.array([1, 2]))
    >>> out, splits = join_runs([one, one])
    >>> out.tobytes(), splits.tolist()
    (b'aabcbc', [0, 2, 6])
    """
    totals = [int(part.sizes.sum()) for part in parts]
    rows = len(parts[0].sizes)
    splits = splits_of(np.sum([part.sizes for part in parts], axis=0) + spare)
    out = np.empty(splits[-1], np.uint8)
    places = splits[:-1].copy()
    short: list[tuple[Runs, NDArray[np.int64]]] = []
    for part, total in zip(parts, totals, strict=True):
        if total > LONG_RUN_BYTES * rows:
            for start, size, place in zip(part.starts.tolist(), part.sizes.tolist(), places.tolist(), strict=True):
                out[place : place + size] = part.data[start : start + size]
        else:
            short.append((part, places.copy()))
        places += part.sizes
    _copy_short(short, out)
    return out, splits


def _copy_short(placed: Sequence[tuple[Runs, NDArray[np.int64]]], out: NDArray[np.uint8]) -> None:
    """Copy each run to its place in ``out``, all bytes of all runs in one step."""
    if not placed:
        return
    pool = np.concatenate([part.data for part, _ in placed])
    bases = splits_of(np.array([len(part.data) for part, _ in placed], np.int64))
    starts = np.stack([part.starts + base for (part, _), base in zip(placed, bases.tolist(), strict=False)], axis=1)
    sizes = np.stack([part.sizes for part, _ in placed], axis=1).reshape(-1)
    places = np.stack([place for _, place in placed], axis=1).reshape(-1)
    # Byte j of all runs together is byte j - before[i] of its own run i.
    before = splits_of(sizes)[:-1]
    index = np.arange(int(sizes.sum()), dtype=np.int64)
    source = pool.take(index + np.repeat(starts.reshape(-1) - before, sizes))
    if len(source) == len(out):
        out[:] = source
    else:
        index += np.repeat(places - before, sizes)
        out[index] = source


def heads(sizes: NDArray[np.int64], make: Callable[[int], bytes]) -> Runs:
    """``make(size)`` for each of ``sizes`` ``(n,)``, called once for each that is different."""
    distinct, which = np.unique(sizes, return_inverse=True)
    made = [make(size) for size in distinct.tolist()]
    lengths = np.fromiter(map(len, made), np.int64, len(made))
    return Runs(np.frombuffer(b"".join(made), np.uint8), splits_of(lengths)[:-1][which], lengths[which])

"""Runs of bytes, one a row, joined row by row without a step of Python for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from geotfr.vectors.columns import splits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = ["Runs", "copy_runs", "heads", "join_runs"]

LONG_RUN_BYTES = 256
"""Runs longer than this on average are copied one by one: an index of each byte costs more."""


@dataclass(frozen=True, slots=True)
class Runs:
    """``n`` runs of bytes: run i is ``data[starts[i]:starts[i] + sizes[i]]``; runs may overlap and stand anywhere.

    ``data`` is uint8, ``starts`` and ``sizes`` are ``(n,) int64``.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]


def copy_runs(runs: Runs, out: NDArray[np.uint8], places: NDArray[np.int64]) -> None:
    """Copy run i to ``out[places[i]:]``."""
    total = int(runs.sizes.sum())
    if total > LONG_RUN_BYTES * len(runs.sizes):
        for start, size, place in zip(runs.starts.tolist(), runs.sizes.tolist(), places.tolist(), strict=True):
            out[place : place + size] = runs.data[start : start + size]
        return
    # Byte j of all runs together is byte j - before[i] of its own run i.
    before = splits_of(runs.sizes)[:-1]
    index = np.arange(total, dtype=np.int64)
    source = runs.data[index + np.repeat(runs.starts - before, runs.sizes)]
    index += np.repeat(places - before, runs.sizes)
    out[index] = source


def join_runs(parts: Sequence[Runs], *, spare: int = 0) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Row by row the runs of all ``parts``, then ``spare`` bytes: the bytes, and the rows' bounds ``(n + 1,) int64``.

    >>> one = Runs(np.frombuffer(b"abc", np.uint8), np.array([0, 1]), np.array([1, 2]))
    >>> out, splits = join_runs([one, one])
    >>> out.tobytes(), splits.tolist()
    (b'aabcbc', [0, 2, 6])
    """
    splits = splits_of(np.sum([part.sizes for part in parts], axis=0) + spare)
    out = np.empty(splits[-1], np.uint8)
    places = splits[:-1].copy()
    for part in parts:
        copy_runs(part, out, places)
        places += part.sizes
    return out, splits


def heads(sizes: NDArray[np.int64], make: Callable[[int], bytes]) -> Runs:
    """``make(size)`` for each of ``sizes`` ``(n,)``, called once for each that is different."""
    distinct, which = np.unique(sizes, return_inverse=True)
    made = [make(size) for size in distinct.tolist()]
    lengths = np.fromiter(map(len, made), np.int64, len(made))
    return Runs(np.frombuffer(b"".join(made), np.uint8), splits_of(lengths)[:-1][which], lengths[which])

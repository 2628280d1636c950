"""Draws of patches: the same seed draws the same on any machine, and a patch's luck doesn't depend on the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from geotfr.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["draw", "strata_of"]

SHARE_STRATA = 10
"""Strata of a share: none at all, and tenths of what is above it."""


def strata_of(shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """The stratum of each share ``(n,)``: 0 for nothing, 1 for up to a tenth, to 10 for more than nine.

    >>> strata_of(np.array([0.0, 0.01, 0.1, 0.11, 1.0])).tolist()
    [0, 1, 1, 2, 10]
    """
    return np.asarray(np.ceil(shares * SHARE_STRATA).astype(np.int64))


def draw(
    allowed: NDArray[np.bool_], strata: NDArray[np.int64] | None, *, count: int | None, is_balanced: bool, seed: int
) -> NDArray[np.bool_]:
    """Which of the ``allowed`` ``(n,) bool`` are drawn, ``(n,) bool``.

    Parameters
    ----------
    strata
        ``(n,) int64``; None: all are of one.
    count
        How many at most; None: as many as balance allows.
    is_balanced
        Draw the same number from each stratum, that of the smallest at most; else each stratum's share of ``count``.
    seed
        Decides the luck of each place.

    Raises
    ------
    UsageError
        Fewer than one for each stratum.

    Examples
    --------
    >>> strata = np.array([0, 0, 0, 0, 1, 1])
    >>> drawn = draw(np.ones(6, np.bool_), strata, count=None, is_balanced=True, seed=7)
    >>> [int(drawn[strata == stratum].sum()) for stratum in (0, 1)]
    [2, 2]
    """
    places = np.flatnonzero(allowed)
    # Raw bits of a counter-based generator: they are the same in every version of numpy.
    luck = np.random.Philox(key=seed).random_raw(len(allowed))[places]
    groups = np.zeros(len(places), np.int64) if strata is None else strata[places]
    names, sizes = np.unique(groups, return_counts=True)
    if is_balanced:
        each = int(sizes.min())
        if count is not None:
            each = min(each, count // len(names))
        if not each:
            raise UsageError(
                f"--sample {count}: {count} patches can't be shared out evenly to {len(names)} strata; raise it"
            )
        quotas = np.full(len(names), each)
    else:
        quotas = sizes if count is None else _shares(sizes, count)
    drawn = np.zeros(len(allowed), np.bool_)
    for name, quota in zip(names.tolist(), quotas.tolist(), strict=True):
        mine = np.flatnonzero(groups == name)
        drawn[places[mine[np.argsort(luck[mine], kind="stable")[:quota]]]] = True
    return drawn


def _shares(sizes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """``count`` shared out by ``sizes``: the whole part of each share, then one for the largest rests."""
    total = int(sizes.sum())
    if count >= total:
        return sizes
    whole = [int(size) * count // total for size in sizes]
    rests = [int(size) * count % total for size in sizes]
    for place in sorted(range(len(rests)), key=lambda place: (-rests[place], place))[: count - sum(whole)]:
        whole[place] += 1
    return np.array(whole, np.int64)

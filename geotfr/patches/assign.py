"""Patches into splits: shares kept, classes balanced, the same on any machine.

What is random here is an order by a hash of seed and key, computed in whole numbers, so no generator's version and no
platform changes a split.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["assigned_patches", "assigned_units", "hashed", "text_key"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_STEPS = 10


def text_key(text: str) -> int:
    """A number of 64 bits for a text, the same everywhere.

    >>> text_key("scene.tif") == text_key("scene.tif")
    True
    """
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def hashed(seed: int, *keys: NDArray[np.int64] | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of ``seed`` and of one number from each of ``keys`` ``(n,)``: ``(n,) uint64``.

    **Source**: Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014), the finisher of SplitMix64.

    >>> hashed(1, np.array([0, 1])).tolist() == hashed(1, np.array([0, 1])).tolist()
    True
    """
    state = np.full(len(keys[0]), np.uint64(seed % 2**64), np.uint64)
    # Whole numbers wrap around, as they shall.
    with np.errstate(over="ignore"):
        for key in keys:
            state = _mixed(state + _GOLDEN) ^ key.astype(np.uint64)
        return _mixed(state + _GOLDEN)


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * _MIX_1
    state = (state ^ (state >> np.uint64(27))) * _MIX_2
    return state ^ (state >> np.uint64(31))


def assigned_patches(
    order: NDArray[np.uint64], shares: Sequence[float], classes: NDArray[np.float64] | None = None
) -> NDArray[np.int64]:
    """The split of each patch: ``(n,) int64``; the counts are ``shares`` of n, rounded.

    Parameters
    ----------
    order
        ``(n,)``: what is random.
    classes
        ``(n, k)``: shares of classes. Patches are ranked by their largest class and its share, and neighbours in that
        ranking are spread over the splits, so each split has about the same mixture.

    >>> assigned_patches(hashed(0, np.arange(10)), [0.8, 0.2]).tolist().count(1)
    2
    """
    count = len(order)
    if classes is None or not classes.shape[1]:
        places = np.argsort(order, kind="stable")
    else:
        largest = classes.argmax(axis=1)
        step = np.floor(np.nan_to_num(classes[np.arange(count), largest]) * _STEPS)
        ranking = np.lexsort((order, step, largest))
        # Steps of the golden ratio fill the circle evenly, however many are taken in a row.
        with np.errstate(over="ignore"):
            turns = np.arange(count, dtype=np.uint64) * _GOLDEN
        places = ranking[np.argsort(turns, kind="stable")]
    splits = np.empty(count, np.int64)
    splits[places] = np.repeat(np.arange(len(shares)), _rounded(count, shares))
    return splits


def assigned_units(
    order: NDArray[np.uint64],
    weights: NDArray[np.float64],
    shares: Sequence[float],
    kept: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """The split of each unit, whose patches stay together: ``(n,) int64``.

    Units come in ``order``; each goes where it reduces most what is still missing. So no split is off its share by more
    than a unit's weight where units are alike.

    Parameters
    ----------
    weights
        ``(n, k)``: of each unit its patches, and perhaps the sums of their class shares.
    kept
        ``(n,)``: the split that a unit has already, -1 for none. It counts towards the shares.

    >>> assigned_units(hashed(0, np.arange(4)), np.array([[1.0], [1], [1], [1]]), [0.5, 0.5]).tolist().count(0)
    2
    """
    total = weights.sum(axis=0)
    relative = weights[:, total > 0] / total[total > 0]
    wanted = np.array(shares, np.float64)[:, np.newaxis]
    filled = np.zeros((len(shares), relative.shape[1]))
    splits = np.zeros(len(weights), np.int64)
    is_kept = np.zeros(len(weights), np.bool_) if kept is None else kept >= 0
    if kept is not None:
        splits[is_kept] = kept[is_kept]
        np.add.at(filled, kept[is_kept], relative[is_kept])
    ordered = np.argsort(order, kind="stable")
    for unit in ordered[~is_kept[ordered]].tolist():
        score = ((wanted - filled) / wanted) @ relative[unit]
        best = int(score.argmax())
        splits[unit] = best
        filled[best] += relative[unit]
    return splits


def _rounded(count: int, shares: Sequence[float]) -> NDArray[np.int64]:
    """``shares`` of ``count`` in whole numbers that add up to it: the largest remainders are rounded up."""
    exact = np.array(shares, np.float64) * count
    whole = np.floor(exact + 1e-9).astype(np.int64)
    rest = count - int(whole.sum())
    up = np.argsort(-(exact - whole), kind="stable")[:rest]
    whole[up] += 1
    return whole

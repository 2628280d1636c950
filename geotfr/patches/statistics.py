"""What a patch holds: how many valid values, their range, mean and deviation, for many patches at once.

Sums are taken in float64, a slab of rows that stays in the cache at a time, and slabs are merged pairwise by Chan's
formula, so one pass over the pixels gives what two would. Integers of up to 16 bits are summed exactly. A patch's
statistics are the same bits whichever patches are counted with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.patches.slabs import SLAB_VALUES, masked, room, scratch_memory, slabs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geotfr.patches.slabs import Channel

__all__ = [
    "PatchStatistics",
    "class_counts",
    "empty_statistics",
    "merged_statistics",
    "scratch_memory",
    "statistics_of",
    "statistics_of_all",
]

# Squares of so many 16 bit integers sum up exactly in float64.
_EXACT_VALUES = 2**21


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchStatistics:
    """Statistics of some patches; all arrays are ``(n,)``.

    Attributes
    ----------
    counts
        int64: valid values.
    lows, highs, means
        float64: of the valid values; NaN where there is none.
    squares
        float64: sum of the squared differences from the mean; 0 where there is no valid value.

    Examples
    --------
    >>> found = statistics_of([(np.array([[[1, 2], [3, 6]]], np.uint8), None)])
    >>> found.counts, found.means, found.deviations.round(3)
    (array([4]), array([3.]), array([1.871]))
    """

    counts: NDArray[np.int64]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]
    means: NDArray[np.float64]
    squares: NDArray[np.float64]

    @property
    def deviations(self) -> NDArray[np.float64]:
        """Standard deviation of the valid values themselves (divided by their count); NaN where there is none."""
        with np.errstate(invalid="ignore", divide="ignore"):
            found: NDArray[np.float64] = np.sqrt(self.squares / self.counts)
        return found

    def part(self, part: slice | NDArray[Any]) -> PatchStatistics:
        """Some of the patches."""
        return PatchStatistics(
            counts=self.counts[part],
            lows=self.lows[part],
            highs=self.highs[part],
            means=self.means[part],
            squares=self.squares[part],
        )

    @staticmethod
    def joined(parts: Sequence[PatchStatistics]) -> PatchStatistics:
        """The patches of ``parts``, at least one, one behind the other."""
        if len(parts) == 1:
            return parts[0]
        return PatchStatistics(
            counts=np.concatenate([part.counts for part in parts]),
            lows=np.concatenate([part.lows for part in parts]),
            highs=np.concatenate([part.highs for part in parts]),
            means=np.concatenate([part.means for part in parts]),
            squares=np.concatenate([part.squares for part in parts]),
        )

    def total(self) -> PatchStatistics:
        """All patches as one: arrays of length 1."""
        whole = self if len(self.counts) else empty_statistics(1)
        while len(whole.counts) > 1:
            half = -(-len(whole.counts) // 2)
            rest = empty_statistics(half * 2 - len(whole.counts))
            later = PatchStatistics.joined([whole.part(slice(half, None)), rest])
            whole = merged_statistics(whole.part(slice(half)), later)
        return whole


def empty_statistics(patches: int) -> PatchStatistics:
    """The statistics of ``patches`` patches without a valid value."""
    return PatchStatistics(
        counts=np.zeros(patches, np.int64),
        lows=np.full(patches, np.nan),
        highs=np.full(patches, np.nan),
        means=np.full(patches, np.nan),
        squares=np.zeros(patches),
    )


def merged_statistics(one: PatchStatistics, other: PatchStatistics) -> PatchStatistics:
    """The statistics of patch i's values in both, for every i.

    **Source**: Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances (1979).
    """
    counts = one.counts + other.counts
    has_both = (one.counts > 0) & (other.counts > 0)
    with np.errstate(invalid="ignore", over="ignore"):
        share = other.counts / np.maximum(counts, 1)
        step = other.means - one.means
        means = np.where(has_both, one.means + step * share, np.where(one.counts > 0, one.means, other.means))
        squares = one.squares + other.squares + np.where(has_both, step * step * one.counts * share, 0.0)
    return PatchStatistics(
        counts=counts,
        lows=np.fmin(one.lows, other.lows),
        highs=np.fmax(one.highs, other.highs),
        means=means,
        squares=squares,
    )


def statistics_of(channels: Sequence[Channel], *, scratch: NDArray[np.float64] | None = None) -> PatchStatistics:
    """The statistics of patches over some channels: :func:`statistics_of_all` of one feature."""
    return statistics_of_all([channels], scratch=scratch)[0]


def statistics_of_all(
    features: Sequence[Sequence[Channel]], *, scratch: NDArray[np.float64] | None = None
) -> list[PatchStatistics]:
    """The statistics of the same patches over the channels of each feature.

    Parameters
    ----------
    features
        Of each feature its channels, at least one; of each channel its values ``(n, row, col)`` in any numeric dtype,
        and their validity ``(n, row, col) bool``, True = valid, or None if all are.
    scratch
        What :func:`scratch_memory` gave, in place of fresh memory for every slab.
    """
    memory = scratch_memory() if scratch is None else scratch
    whole = [
        place
        for place, channels in enumerate(features)
        if channels and all(_is_small(values) for values, _ in channels)
    ]
    # What is done once for all features: of a few patches, numpy's calls take as long as the pixels.
    alike = _alike([features[place] for place in whole])
    if alike:
        exact = iter(_of_whole_patches(alike, memory))
    else:
        exact = iter(_of_sums([_sums(features[place], memory) for place in whole]) if whole else ())
    return [next(exact) if place in whole else _by_slabs(channels, memory) for place, channels in enumerate(features)]


def _by_slabs(channels: Sequence[Channel], scratch: NDArray[np.float64]) -> PatchStatistics:
    """The statistics of floats and of wide integers: of each patch the same bits, whichever patches come with it.

    Sums of floats depend on their order. So a patch is cut by its own shape, and its values are added as they stand.
    """
    if not channels:
        return empty_statistics(0)
    patches, height, width = channels[0][0].shape
    rows = max(min(SLAB_VALUES // max(width, 1), height), 1)
    at_once = max(SLAB_VALUES // max(rows * width, 1), 1)
    parts = []
    for first in range(0, patches, at_once):
        found: PatchStatistics | None = None
        for values, valid in channels:
            for start in range(0, max(height, 1), rows):
                part = slice(first, first + at_once), slice(start, start + rows)
                slab = _of_slab(values[part], None if valid is None else valid[part], scratch)
                found = slab if found is None else merged_statistics(found, slab)
        if found is not None:
            parts.append(found)
    return PatchStatistics.joined(parts) if parts else empty_statistics(0)


def class_counts(values: NDArray[Any], valid: NDArray[np.bool_] | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The classes among the valid values ``(n, row, col)`` of an integer band, and how many pixels each patch has.

    Returns
    -------
    classes
        ``(k,) int64``, ascending.
    counts
        ``(n, k) int64``.
    """
    patches = len(values)
    flat = values.reshape(patches, -1)
    seen = None if valid is None else valid.reshape(patches, -1)
    if values.dtype == np.uint8:
        keys = flat.astype(np.int64) + np.arange(patches, dtype=np.int64)[:, np.newaxis] * 256
        taken = keys.ravel() if seen is None else keys[seen]
        table = np.bincount(taken, minlength=patches * 256).reshape(patches, 256)
        classes = np.flatnonzero(table.any(axis=0))
        return classes.astype(np.int64), table[:, classes].astype(np.int64)
    classes, places = np.unique(flat if seen is None else flat[seen], return_inverse=True)
    owners = np.broadcast_to(np.arange(patches)[:, np.newaxis], flat.shape)
    owners = owners.ravel() if seen is None else owners[seen]
    counts = np.bincount(owners * len(classes) + places.ravel(), minlength=patches * len(classes))
    return classes.astype(np.int64), counts.reshape(patches, len(classes)).astype(np.int64)


@dataclass(slots=True)
class _Sums:
    """Of each patch ``(n,)``, all exact: valid values, their range, their sum and that of their squares."""

    counts: NDArray[np.int64]
    lows: NDArray[Any]
    highs: NDArray[Any]
    sums: NDArray[np.int64]
    squares: NDArray[np.int64]


def _is_small(values: NDArray[Any]) -> bool:
    """Whether the sums of a slab of such values, and those of their squares, are exact in float64."""
    return values.dtype.kind in "iu" and values.dtype.itemsize <= 2 and values.shape[2] <= _EXACT_VALUES


def _sums(channels: Sequence[Channel], scratch: NDArray[np.float64]) -> _Sums:
    """The sums of integers of up to 16 bits."""
    coming = slabs(channels)
    found = _sums_of_slab(*next(coming), scratch)
    for values, valid in coming:
        slab = _sums_of_slab(values, valid, scratch)
        found.counts += slab.counts
        found.sums += slab.sums
        found.squares += slab.squares
        found.lows, found.highs = np.minimum(found.lows, slab.lows), np.maximum(found.highs, slab.highs)
    return found


def _sums_of_slab(values: NDArray[Any], valid: NDArray[np.bool_] | None, scratch: NDArray[np.float64]) -> _Sums:
    patches, pixels = values.shape[0], values.shape[1] * values.shape[2]
    if valid is None:
        counts = np.full(patches, pixels, np.int64)
        lows, highs = values.min(axis=(1, 2)), values.max(axis=(1, 2))
    else:
        counts = np.count_nonzero(valid, axis=(1, 2)).astype(np.int64)
        values, least, most = masked(values, valid)
        # Channels of several types are joined: what no value has been seen of is beyond all of them.
        lows, highs = np.where(counts, least, np.inf), np.where(counts, most, -np.inf)
    numbers = room(values, scratch)
    numbers[...] = values
    return _Sums(
        counts=counts,
        lows=lows,
        highs=highs,
        sums=numbers.sum(axis=(1, 2)).astype(np.int64),
        squares=_squares(numbers).astype(np.int64),
    )


def _alike(features: Sequence[Sequence[Channel]]) -> list[NDArray[Any]]:
    """The values of features that have one channel each, of one type, all valid, in one slab; else none."""
    values = [channels[0][0] for channels in features]
    is_alike = all(
        len(channels) == 1
        and 0 < each.size <= SLAB_VALUES
        and (each.dtype, each.shape) == (values[0].dtype, values[0].shape)
        and (channels[0][1] is None or channels[0][1].all())
        for each, channels in zip(values, features, strict=True)
    )
    return values if is_alike else []


def _of_whole_patches(features: Sequence[NDArray[Any]], scratch: NDArray[np.float64]) -> list[PatchStatistics]:
    """The statistics of features that are alike: what most patches are."""
    first = features[0]
    patches, height, width = first.shape
    lows, highs = (np.empty((len(features), patches), first.dtype) for _ in range(2))
    rows = np.empty((2, len(features), patches, height))
    numbers, ones = room(first, scratch), np.ones(width)
    left, right = numbers[..., np.newaxis, :], numbers[..., :, np.newaxis]
    for place, values in enumerate(features):
        np.minimum.reduce(values, axis=(1, 2), out=lows[place])
        np.maximum.reduce(values, axis=(1, 2), out=highs[place])
        numbers[...] = values
        # Whole numbers: in which order they are added doesn't matter, and a dot product adds fastest.
        np.matmul(numbers, ones, out=rows[0, place])
        np.matmul(left, right, out=rows[1, place][..., np.newaxis, np.newaxis])
    sums, squares = rows.sum(axis=3).astype(np.int64)
    counts = np.full((len(features), patches), height * width, np.int64)
    means, spread = _exact_moments(sums, squares, counts)
    lows, highs = lows.astype(np.float64), highs.astype(np.float64)
    return [
        PatchStatistics(counts=counts[k], lows=lows[k], highs=highs[k], means=means[k], squares=spread[k])
        for k in range(len(features))
    ]


def _of_sums(features: Sequence[_Sums]) -> list[PatchStatistics]:
    """The statistics of each feature."""
    counts, lows, highs, sums, squares = (
        # Of a few patches a fifth of the time that np.stack takes.
        np.concatenate(parts).reshape(len(features), -1)
        for parts in zip(*((f.counts, f.lows, f.highs, f.sums, f.squares) for f in features), strict=True)
    )
    lows, highs = lows.astype(np.float64), highs.astype(np.float64)
    means, spread = _exact_moments(sums, squares, np.maximum(counts, 1))
    is_empty = counts == 0
    if is_empty.any():
        for each in (lows, highs, means):
            each[is_empty] = np.nan
        spread[is_empty] = 0.0
    return [
        PatchStatistics(counts=counts[k], lows=lows[k], highs=highs[k], means=means[k], squares=spread[k])
        for k in range(len(features))
    ]


def _of_slab(values: NDArray[Any], valid: NDArray[np.bool_] | None, scratch: NDArray[np.float64]) -> PatchStatistics:
    """The statistics of some rows of some patches; those of a patch have the same bits by either way."""
    if valid is not None and valid.all():
        valid = None
    # A copy, for it is changed; it lies as its shape says, so that numbers are added in this order.
    numbers = room(values, scratch)
    if valid is None:
        counts = np.full(len(values), values.shape[1] * values.shape[2], np.int64)
        lows, highs = values.min(axis=(1, 2)), values.max(axis=(1, 2))
        with np.errstate(invalid="ignore"):
            numbers[...] = values
    else:
        counts = np.count_nonzero(valid, axis=(1, 2)).astype(np.int64)
        # What is masked may be NaN, and NaN times 0 is no 0: it is 0 here.
        numbers[...], lows, highs = masked(values, valid)
    is_empty = counts == 0
    some = np.maximum(counts, 1)
    with np.errstate(over="ignore", invalid="ignore"):
        means = numbers.reshape(len(values), -1).sum(axis=1) / some
        numbers -= means[:, np.newaxis, np.newaxis]
        if valid is not None:
            numbers *= valid
        squares = _squares(numbers)
    # Of both zeros the least is one by chance; their sum with 0 is 0.
    lows, highs = lows.astype(np.float64) + 0.0, highs.astype(np.float64) + 0.0
    if is_empty.any():
        for each in (lows, highs, means):
            each[is_empty] = np.nan
        squares[is_empty] = 0.0
    return PatchStatistics(counts=counts, lows=lows, highs=highs, means=means, squares=squares)


def _squares(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of the squares of each patch: a dot product for each pixel row, two thirds of einsum's time."""
    rows = np.matmul(numbers[..., np.newaxis, :], numbers[..., :, np.newaxis])
    found: NDArray[np.float64] = rows.sum(axis=(1, 2, 3))
    return found


def _exact_moments(
    sums: NDArray[np.int64], squares: NDArray[np.int64], some: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and sum of squared differences of ``some`` integers, from their sum and the sum of their squares."""
    whole = sums // some
    rest = sums - some * whole
    # Around the mean's whole part: what is left to divide is smaller than a count.
    around = squares - 2 * whole * sums + some * whole * whole
    share = rest / some
    return whole + share, around - share * rest

"""From a strip's planes to the values of features: cast, filled where they are masked, and what was lost counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import InputError
from geotfr.patches.cut import count_inexact, fill_masked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geotfr.patches.cut import Run, Strip
    from geotfr.patches.features import FeatureSpec

__all__ = ["LIST_DTYPE", "EncodeCounts", "count_overwritten", "fill_channel", "fill_feature"]

_INT64_MAX = 2**63 - 1


@dataclass(slots=True)
class EncodeCounts:
    """What encoding met, patch cores only.

    Attributes
    ----------
    inexact
        Integers that float32 can't hold exactly.
    infinite
        float64 values that became infinite.
    overwritten
        Samples that are valid in their band, but masked with their pixel.
    """

    inexact: int = 0
    infinite: int = 0
    overwritten: int = 0

    def add(self, other: EncodeCounts) -> None:
        """Count ``other`` in."""
        self.inexact += other.inexact
        self.infinite += other.infinite
        self.overwritten += other.overwritten

    def warnings(self) -> list[str]:
        """What a user should know of values that float32 can't hold, one line each."""
        found = []
        if self.inexact:
            found.append(f"{self.inexact:,} integers beyond 2^24 can't be held exactly by float32 and were rounded")
        if self.infinite:
            found.append(f"{self.infinite:,} float64 values beyond float32's range became infinite")
        return found


LIST_DTYPE: dict[str, np.dtype[Any]] = {
    "bytes": np.dtype(np.uint8),
    "int64": np.dtype(np.int64),
    "float": np.dtype(np.float32),
}
"""What a list of each kind holds before it is encoded; int64 values become varints."""


def fill_feature(
    strip: Strip, run: Run, feature: FeatureSpec, values: NDArray[Any], rows: range, counts: EncodeCounts
) -> None:
    """Write a feature of the patches of ``run`` into ``values`` ``(*run.shape, channel, row, col)``."""
    for channel in range(len(feature.planes)):
        fill_channel(strip, run, feature, channel, values[..., channel, :, :], rows, counts)


def fill_channel(
    strip: Strip,
    run: Run,
    feature: FeatureSpec,
    channel: int,
    values: NDArray[Any],
    rows: range,
    counts: EncodeCounts,
) -> None:
    """Write one channel of the patches of ``run`` into ``values`` ``(*run.shape, row, col)``: cast, count, fill."""
    if feature.is_validity:
        values[...] = 1 if strip.valid is None else strip.blocks(strip.valid, run)[..., rows.start : rows.stop, :]
        return
    plane, fill = feature.planes[channel], feature.fills[channel]
    if plane is None:
        values[...] = _as_written(fill, values.dtype)
        return
    pixels = strip.blocks(strip.planes[plane], run)[..., rows.start : rows.stop, :]
    mask = strip.plane_valid[plane]
    valid = None if mask is None else strip.blocks(mask, run)[..., rows.start : rows.stop, :]
    if values.dtype.kind == "i" and pixels.dtype == np.uint64:
        _check_int64(strip, run, feature, pixels, valid)
    if values.dtype.kind == "f" and pixels.dtype.itemsize > 2 and pixels.dtype != np.float32:
        # float64 beyond float32 becomes infinite; that is counted and told, not warned of here.
        with np.errstate(over="ignore", invalid="ignore"):
            values[...] = pixels
        _count_narrowed(strip, pixels, values, valid, rows, counts)
    else:
        values[...] = pixels
    if valid is not None:
        fill_masked(values, valid, _as_written(fill, values.dtype))


def _as_written(fill: float, dtype: np.dtype[Any]) -> float:
    """A fill as the list holds it; one beyond float32 becomes infinite, as pixels do."""
    if dtype.kind != "f":
        # uint64 fills beyond int64 can't be written; the largest that can stands for them.
        return min(int(fill), _INT64_MAX)
    with np.errstate(over="ignore"):
        return float(np.float32(fill))


def _count_narrowed(
    strip: Strip,
    pixels: NDArray[Any],
    values: NDArray[Any],
    valid: NDArray[np.bool_] | None,
    rows: range,
    counts: EncodeCounts,
) -> None:
    """Count what float32 can't hold, patch cores only: margins would count a pixel several times."""
    (margin_y, margin_x), (height, width) = strip.layout.margin_yx, strip.layout.patch_yx
    lines = slice(max(margin_y - rows.start, 0), max(margin_y + height - rows.start, 0))
    core = (..., lines, slice(margin_x, margin_x + width))
    inexact, infinite = count_inexact(pixels[core], values[core], None if valid is None else valid[core])
    counts.inexact += inexact
    counts.infinite += infinite


def _check_int64(
    strip: Strip, run: Run, feature: FeatureSpec, pixels: NDArray[Any], valid: NDArray[np.bool_] | None
) -> None:
    bad = pixels > _INT64_MAX
    if valid is not None:
        bad &= valid
    if bad.any():
        row, column = divmod(int(np.flatnonzero(bad.any(axis=(-2, -1)))[0]), run.count)
        number = (strip.rows.start + run.row + row) * strip.layout.columns + strip.columns.start + run.column + column
        raise InputError(
            f"band {feature.name!r}, patch {number}: {pixels[bad][0]} is beyond {_INT64_MAX}, the largest that an"
            " int64 list holds; use --feature-kinds float, or mask it with --nodata"
        )


def count_overwritten(strip: Strip, run: Run, counts: EncodeCounts) -> None:
    """Count the samples that are valid in their band, but masked because their pixel is masked in another."""
    if strip.valid is None or not strip.own_valid:
        return
    valid = strip.cores(strip.valid, run)
    masked = valid.size - int(np.count_nonzero(valid))
    if masked:
        for own in strip.own_valid:
            counts.overwritten += masked - (valid.size - int(np.count_nonzero(strip.cores(own, run))))

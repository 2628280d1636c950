"""From predictions to pixels: reduced to classes, masked, scaled, checked against the output's type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import RecordError, UsageError
from geotfr.options.values import MAX_NODATA
from geotfr.patches.cut import count_inexact

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from geotfr.options import IngestOptions
    from geotfr.pipeline.ingest.overlap import PatchRun
    from geotfr.pipeline.ingest.source_mask import SourceMask

    _Where = Callable[[int, int, int], str]
    """(patch, row, column) of a run to the words for it."""

__all__ = ["Extremes", "Finish", "FinishCounts", "reduced_dtype", "reduced_names"]

_INTEGERS = tuple(np.dtype(name) for name in ("u1", "i1", "u2", "i2", "u4", "i4", "i8"))


def reduced_names(names: Sequence[str], options: IngestOptions) -> tuple[str, ...]:
    """The output's band names."""
    if not options.argmax:
        return tuple(names)
    if len(names) < 2:
        raise UsageError(
            f"argmax: chooses among bands; found one, {names[0]}; --channels tells of several in a feature"
        )
    return ("class", "confidence") if options.confidence else ("class",)


def reduced_dtype(dtype: np.dtype[Any], bands: int, options: IngestOptions) -> np.dtype[Any]:
    """The type that holds what the predictions are reduced to."""
    if options.argmax:
        if options.confidence:
            return np.dtype(np.float32)
        return np.dtype(np.uint8 if bands <= 256 else np.uint16)
    return np.dtype(np.uint8) if options.threshold is not None else dtype


class Extremes:
    """The least and the greatest of all valid values, to choose a type or a nodata value from.

    Attributes
    ----------
    are_known
        Whether the values were looked at; else they are the ends of what may come.
    """

    def __init__(self) -> None:
        self.are_known = True
        self.low: int | None = None
        self.high: int | None = None

    def add(self, values: NDArray[Any], valid: NDArray[np.bool_] | None) -> None:
        """Take note of whole numbers."""
        chosen = values if valid is None else values[valid]
        if chosen.size:
            low, high = int(chosen.min()), int(chosen.max())
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)

    def smallest_dtype(self, also: float | None) -> np.dtype[Any]:
        """The smallest integer type that holds all, and the value ``also``."""
        seen = [value for value in (self.low, self.high, None if also is None else int(also)) if value is not None]
        low, high = min(seen, default=0), max(seen, default=0)
        return next(dtype for dtype in _INTEGERS if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max)

    def unused(self, dtype: np.dtype[Any]) -> int | None:
        """The end of ``dtype``'s range that is its nodata, unsigned the greatest, signed the least value; None where
        values reach it. Of 64 bits what GDAL is given exactly counts."""
        limits = np.iinfo(dtype)
        if dtype.kind == "u":
            end = min(int(limits.max), MAX_NODATA)
            return end if self.high is None or self.high < end else None
        end = max(int(limits.min), -MAX_NODATA)
        return end if self.low is None or self.low > end else None


@dataclass(slots=True, kw_only=True)
class FinishCounts:
    """Values that changed on their way into the output's type, and that are nodata by chance.

    Attributes
    ----------
    rounded
        Lost a fraction.
    inexact
        Whole numbers that the float type can't hold.
    clamped
        Were moved into the type's range.
    equal_nodata
        Are the nodata value.
    nan_blended
        Are NaN, and took no part where predictions were blended.
    """

    rounded: int = 0
    inexact: int = 0
    clamped: int = 0
    equal_nodata: int = 0
    nan_blended: int = 0

    def add(self, other: FinishCounts) -> None:
        """Count what was met elsewhere too."""
        self.rounded += other.rounded
        self.inexact += other.inexact
        self.clamped += other.clamped
        self.equal_nodata += other.equal_nodata
        self.nan_blended += other.nan_blended


class Finish:
    """The last step of every pixel.

    Parameters
    ----------
    options
        What to reduce to, and how to scale.
    dtype, nodata
        Of the output.
    mask
        Where the source is masked, or None.
    has_mask_plane
        Whether the last plane that is written tells, 1 or 0, which pixels are valid.
    leaves_gaps
        Whether pixels somewhere have no prediction, so that one that is nodata is mistaken for them.
    classes
        The class values that may occur; None: any.

    Attributes
    ----------
    met
        What was met on the way.
    """

    def __init__(
        self,
        options: IngestOptions,
        *,
        dtype: np.dtype[Any],
        nodata: float | None,
        mask: SourceMask | None,
        has_mask_plane: bool,
        leaves_gaps: bool,
        classes: frozenset[int] | None,
    ) -> None:
        self._options = options
        self._dtype = dtype
        self._nodata = nodata
        self._mask = mask
        self._has_mask_plane = has_mask_plane
        self._leaves_gaps = leaves_gaps
        self._classes = None if classes is None else sorted(classes)
        self.met = FinishCounts()

    def reduced(self, run: PatchRun) -> tuple[Sequence[NDArray[Any]], Sequence[NDArray[np.bool_] | None]]:
        """What ``run`` is reduced to, band by band ``(patch, row, col)``, and where it is valid (None: everywhere)."""
        self.met.nan_blended += run.nan_values
        values = run.bands
        valid: list[NDArray[np.bool_] | None] = [None] * len(values) if run.valid is None else list(run.valid)
        if self._options.argmax:
            values, valid = _argmax(values, valid, with_confidence=self._options.confidence)
        elif self._options.threshold is not None:
            valid = [_known(value, known) for value, known in zip(values, valid, strict=True)]
            threshold = self._options.threshold
            values = [(value >= threshold).view(np.uint8) for value in values]
        if self._mask is not None:
            own = self._mask.patches(run.row, run.column, len(run))
            valid = [own if known is None else known & own for known in valid]
        return values, valid

    def place(self, run: PatchRun, which: slice, rows: slice, planes: NDArray[Any], values: Any, valid: Any) -> None:
        """Put pixel ``rows`` of patches ``which`` of a reduced run into ``planes`` ``(plane, patch, row, col)``.

        The planes are of the output's type, and hold those rows alone.
        """
        is_valid: NDArray[np.bool_] | None = None

        def where(patch: int, row: int, col: int) -> str:
            return f"{run.where(which.start + patch)}: row {rows.start + row}, column {col}"

        for index, (value, known) in enumerate(zip(values, valid, strict=True)):
            kept = None if known is None else known[which, rows]
            # Behind the class, the confidence is no class.
            classes = None if self._options.confidence and index else self._classes
            kept = self._band(value[which, rows], kept, planes[index], classes, where)
            if kept is not None:
                is_valid = kept if is_valid is None else is_valid & kept
        if self._has_mask_plane:
            planes[-1] = 1 if is_valid is None else is_valid

    def _band(
        self,
        block: NDArray[Any],
        valid: NDArray[np.bool_] | None,
        place: NDArray[Any],
        classes: Sequence[int] | None,
        where: _Where,
    ) -> NDArray[np.bool_] | None:
        is_whole = self._dtype.kind != "f"
        if is_whole and block.dtype.kind == "f" and (self._nodata is not None or valid is not None):
            is_number = ~np.isnan(block)
            if not is_number.all():
                valid = is_number if valid is None else valid & is_number
        if valid is not None and valid.all():
            valid = None
        if valid is not None and is_whole and self._nodata is None and not self._has_mask_plane:
            patch, row, col = (int(index) for index in np.argwhere(~valid)[0])
            raise RecordError(
                f"{where(patch, row, col)}: no prediction, and {self._dtype.name} has no value for that; give --nodata"
            )
        if valid is not None:
            block = np.where(valid, block, block.dtype.type(0))
        if classes is not None:
            self._check_classes(block, valid, classes, where)
        if self._options.is_quantised:
            block = self._quantised(block)
        self._convert(block, place, where)
        if self._nodata is not None and (self._leaves_gaps or valid is not None):
            equal = place == self._nodata
            self.met.equal_nodata += int(np.count_nonzero(equal if valid is None else valid & equal))
        if valid is not None:
            place[~valid] = np.nan if self._nodata is None and not is_whole else self.fill
        return valid

    @property
    def fill(self) -> float:
        """What the place of a patch without record holds."""
        return 0 if self._nodata is None else self._nodata

    def _quantised(self, block: NDArray[Any]) -> NDArray[Any]:
        """``(value - offset) / scale``, rounded, and clamped to the type's range without nodata at its end."""
        scale, offset = self._options.scale, self._options.offset
        pixels = (block.astype(np.float64) - (offset or 0.0)) / (1.0 if scale is None else scale)
        limits = np.iinfo(self._dtype)
        least, most = int(limits.min), int(limits.max)
        least, most = least + (self._nodata == least), most - (self._nodata == most)
        pixels = np.rint(pixels)
        # The ends of 64-bit types aren't float64s; the next ones inside are.
        ends = (_float_within(least, up=True), _float_within(most, up=False))
        outside = (pixels < ends[0]) | (pixels > ends[1])
        self.met.clamped += int(np.count_nonzero(outside))
        # What is NaN still is told by the conversion.
        return np.clip(pixels, *ends)

    def _check_classes(
        self,
        block: NDArray[Any],
        valid: NDArray[np.bool_] | None,
        classes: Sequence[int],
        where: _Where,
    ) -> None:
        known = np.isin(block, np.array(classes))
        if self._nodata is not None:
            known |= block == self._nodata
        if block.dtype.kind == "f":
            known |= np.isnan(block)
        if valid is not None:
            known |= ~valid
        if not known.all():
            patch, row, col = (int(index[0]) for index in np.nonzero(~known))
            value = block[patch, row, col]
            if value != np.floor(value):
                raise RecordError(
                    f"{where(patch, row, col)}: {value} is no class; --classes names classes: make them of"
                    " probabilities by --argmax or --threshold, or leave it out"
                )
            raise RecordError(
                f"{where(patch, row, col)}: class {value:.0f} is not in the file of --classes; add it there"
            )

    def _convert(self, block: NDArray[Any], place: NDArray[Any], where: _Where) -> None:
        """Copy ``block`` into ``place``; values that the output's type can't hold are refused."""
        # numpy calls the cast of int64 to float64 safe.
        may_round = (
            self._dtype.kind == "f" and block.dtype.kind in "iu" and block.dtype.itemsize >= self._dtype.itemsize
        )
        is_safe = np.can_cast(block.dtype, self._dtype, "safe") and not may_round
        if is_safe or block.dtype.newbyteorder("=") == self._dtype:
            place[...] = block
            return
        if self._dtype.kind == "f":
            with np.errstate(over="ignore"):
                place[...] = block
            bad = np.isinf(place) & np.isfinite(block)
            self.met.inexact += count_inexact(block, place, None)[0]
        else:
            limits = np.iinfo(self._dtype)
            if block.dtype.kind == "f":
                whole = np.rint(block)
                self.met.rounded += int(np.count_nonzero((whole != block) & np.isfinite(block)))
                # Limits as floats: the largest int64 rounds up, so it is compared with less-than.
                bad = ~((whole >= float(limits.min)) & (whole < float(limits.max) + 1.0))
            else:
                whole = block
                bad = (block < limits.min) | (block > limits.max)
            if not bad.any():
                place[...] = whole
        if bad.any():
            patch, row, col = (int(index[0]) for index in np.nonzero(bad))
            value = block[patch, row, col]
            advice = "choose a larger --dtype, or leave it out"
            if not np.isfinite(value):
                advice = "leave --dtype out" if np.isinf(value) else "give --nodata, or leave --dtype out"
            raise RecordError(f"{where(patch, row, col)}: {value} doesn't fit {self._dtype.name}; {advice}")


def _known(value: NDArray[Any], valid: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    """Where a value is a number."""
    if value.dtype.kind != "f":
        return valid
    is_number: NDArray[np.bool_] = ~np.isnan(value)
    return is_number if valid is None else valid & is_number


def _argmax(
    values: Sequence[NDArray[Any]], valid: Sequence[NDArray[np.bool_] | None], *, with_confidence: bool
) -> tuple[list[NDArray[Any]], list[NDArray[np.bool_] | None]]:
    """The number of the greatest band, the first of equal ones, and its value; valid where all bands are."""
    best = values[0].copy()
    chosen = np.zeros(best.shape, np.uint8 if len(values) <= 256 else np.uint16)
    known = _known(values[0], valid[0])
    for number, (value, is_valid) in enumerate(zip(values[1:], valid[1:], strict=True), 1):
        wins = value > best
        chosen[wins] = number
        np.copyto(best, value, where=wins)
        own = _known(value, is_valid)
        known = own if known is None else known if own is None else known & own
    return ([chosen, best], [known, known]) if with_confidence else ([chosen], [known])


def _float_within(value: int, *, up: bool) -> float:
    """The float64 next to the integer ``value`` that isn't beyond it."""
    near = float(value)
    if up:
        return near if int(near) >= value else float(np.nextafter(near, np.inf))
    return near if int(near) <= value else float(np.nextafter(near, -np.inf))

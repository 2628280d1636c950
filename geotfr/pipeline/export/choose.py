"""Which patches of the grid an export writes, and which it leaves out.

Some conditions are known before a pixel is read: numbers, places, and a draw among all. Others are counted strip by
strip: masked pixels and the shares of classes. A draw among patches that pixels decide on needs them all first, so that
the strips are read twice.

Left out patches keep their numbers: the manifest lists them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from geotfr.errors import InputError, UsageError
from geotfr.options.values import nearest
from geotfr.patches.cut import count_masked
from geotfr.pipeline.export.draw import draw, strata_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from geotfr.options.choice import ChoiceOptions
    from geotfr.patches import PatchLayout
    from geotfr.patches.cut import Strip
    from geotfr.pipeline.export.resume import Tally

__all__ = ["ClassBand", "PatchChoice"]

VALID, MASKED, MAJORITY, SHARE = "valid_share", "masked_share", "majority", "share_"
"""Columns that pixels make; the first two and the shares are those of the patch table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassBand:
    """The band whose values are the classes.

    Attributes
    ----------
    name
        Its name.
    plane
        Its plane in a strip.
    classes
        Class -> value; empty where the values have no names.
    """

    name: str
    plane: int
    classes: Mapping[str, int]

    def value_of(self, name: str, option: str) -> int:
        """The value of the class ``name``, which may be the value itself.

        Raises
        ------
        UsageError
            There is no such class.
        """
        if name in self.classes:
            return self.classes[name]
        try:
            return int(name)
        except ValueError as error:
            raise UsageError(
                f"{option}: band {self.name!r} has no class {name!r}{nearest(name, self.classes)}; it has"
                f" {', '.join(self.classes) or 'numbers'}"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Survey:
    """What pixels say of all patches: ``masked`` and, of each class value, its pixels, each ``(patch,) int64``."""

    masked: NDArray[np.int64]
    classes: dict[int, NDArray[np.int64]] = field(default_factory=dict)


class PatchChoice:
    """Decides on patches.

    Parameters
    ----------
    layout
        The patches.
    threshold
        Earth Engine's masked threshold.
    options
        What else is asked for, or None.
    classes
        The band of the classes, or None.
    given
        ``(patch,) bool``: the patches that numbers and places allow, or None for all.
    columns
        Name -> ``(patch,)`` codes of the values of a column of the user's, -1 where it has none.
    warnings
        What a user should know of how numbers and places were read, one line each.
    """

    def __init__(
        self,
        layout: PatchLayout,
        threshold: float,
        options: ChoiceOptions | None,
        *,
        classes: ClassBand | None,
        given: NDArray[np.bool_] | None,
        columns: Mapping[str, NDArray[np.int64]],
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.warnings = warnings
        self._layout = layout
        self._threshold = threshold
        self._options = options
        self._wanted = given
        self._columns = columns
        self._plane = None if classes is None else classes.plane
        self._min_valid = 0.0 if options is None or options.min_valid is None else options.min_valid
        shares = () if options is None else options.min_shares
        if shares and classes is None:
            raise UsageError("--min-share: there are no classes; give --labels, or name a band with --class-band")
        self._min_shares = tuple(
            (classes.value_of(name, "--min-share"), share) for name, share in shares if classes is not None
        )
        self._counted = self._counted_classes(classes)
        self._is_drawn = options is None or not options.draws
        if given is not None and not given.any():
            raise InputError("--keep, --within: none of the patches is there; check the file and its CRS")

    def _counted_classes(self, classes: ClassBand | None) -> tuple[int, ...]:
        """Values whose pixels a draw has to know."""
        column = None if self._options is None else self._options.column
        if column is None or column in self._columns or column in (VALID, MASKED):
            return ()
        option = "--stratify" if self._options is not None and self._options.stratify else "--balance"
        if column == MAJORITY or column.startswith(SHARE):
            if classes is None:
                raise UsageError(
                    f"{option} {column}: there are no classes; give --labels, or name a band with --class-band"
                )
            if column != MAJORITY:
                return (classes.value_of(column.removeprefix(SHARE), option),)
            if not classes.classes:
                raise UsageError(
                    f"{option} {MAJORITY}: the classes of band {classes.name!r} aren't known; list them with"
                    " --label-classes"
                )
            return tuple(classes.classes.values())
        known = [VALID, MASKED, MAJORITY, *self._columns]
        raise UsageError(
            f"{option}: no column {column!r}{nearest(column, known)}; there are {', '.join(known)}, {SHARE}CLASS, and"
            " the columns of a --keep table of numbers"
        )

    @property
    def keeps_all(self) -> bool:
        """Whether it is known beforehand that every patch is written."""
        return self._threshold == 1 and self._options is None

    @property
    def needs_survey(self) -> bool:
        """Whether patches have to be looked at before they are drawn."""
        return not self._is_drawn

    @property
    def _reads_pixels(self) -> bool:
        """Whether pixels decide."""
        column = None if self._options is None else self._options.column
        is_made = column is not None and column not in self._columns
        return self._threshold < 1 or self._min_valid > 0 or bool(self._min_shares) or is_made

    @property
    def count(self) -> int:
        """Patches that are looked at: those that numbers, places and the draw leave."""
        return self._layout.count if self._wanted is None else int(self._wanted.sum())

    def wants_some(self, rows: range, columns: range) -> bool:
        """Whether a strip of these patches has to be read."""
        if self._wanted is None:
            return True
        grid = self._wanted.reshape(self._layout.rows, self._layout.columns)
        return bool(grid[rows.start : rows.stop, columns.start : columns.stop].any())

    def draw(self, strips: Iterable[Strip]) -> None:
        """Draw patches, if that is wanted; ``strips`` are all of the export's, and are read if pixels decide.

        Raises
        ------
        InputError
            No patch is left to draw from.
        """
        if self._is_drawn or self._options is None:
            return
        options, count = self._options, self._layout.count
        allowed = np.ones(count, np.bool_) if self._wanted is None else self._wanted.copy()
        survey = _Survey(masked=np.zeros(count, np.int64))
        if self._reads_pixels:
            survey = self._surveyed(strips, allowed)
        if not allowed.any():
            raise InputError("--sample, --balance: no patch meets the conditions; loosen them")
        strata = None if options.column is None else self._strata(options.column, survey)
        self._wanted = draw(
            allowed, strata, count=options.sample, is_balanced=options.balance is not None, seed=options.seed
        )
        self._is_drawn = True

    def positions(self, strip: Strip, tally: Tally) -> NDArray[np.int64]:
        """Positions within the strip of the patches to write; the others' numbers go into the tally."""
        asked, kept = self._asked(strip), self._kept(strip)
        tally.masked_pixels += int(strip.masked_counts.ravel()[asked].sum())
        kept &= asked
        if not kept.all():
            tally.dropped += strip.numbers(np.flatnonzero(~kept)).tolist()
        return np.flatnonzero(kept)

    def _asked(self, strip: Strip) -> NDArray[np.bool_]:
        count = strip.masked_counts.size
        if self._wanted is None:
            return np.ones(count, np.bool_)
        return self._wanted[strip.numbers(np.arange(count))]

    def _kept(self, strip: Strip) -> NDArray[np.bool_]:
        """``(patch,) bool``: whether what pixels say of each patch of the strip meets the conditions."""
        if not strip.is_read:
            return np.zeros(strip.masked_counts.size, np.bool_)
        pixels = self._layout.patch_yx[0] * self._layout.patch_yx[1]
        masked = strip.masked_counts.ravel()
        # A division rounds as the threshold's text did: a share that just meets it is kept.
        kept = np.ones(masked.size, np.bool_)
        if masked.any():
            kept = (masked / pixels <= self._threshold) & ((pixels - masked) / pixels >= self._min_valid)
        for value, share in self._min_shares:
            kept &= self._count_class(strip, value) / pixels >= share
        return np.asarray(kept)

    def _count_class(self, strip: Strip, value: int) -> NDArray[np.int64]:
        """Pixels of a class in each patch of the strip, masked ones not counted: ``(patch,) int64``."""
        if self._plane is None:
            raise ValueError("there is no band of classes")
        plane, valid = strip.planes[self._plane], strip.plane_valid[self._plane]
        limits = np.iinfo(plane.dtype) if plane.dtype.kind in "iu" else None
        if limits is not None and not limits.min <= value <= limits.max:
            return np.zeros(strip.masked_counts.size, np.int64)
        is_class = plane == value
        if valid is not None:
            is_class &= valid
        others = count_masked(is_class, self._layout, len(strip.rows), len(strip.columns)).ravel()
        return self._layout.patch_yx[0] * self._layout.patch_yx[1] - others

    def _surveyed(self, strips: Iterable[Strip], allowed: NDArray[np.bool_]) -> _Survey:
        """What all strips say; clears ``allowed`` where a patch doesn't meet the conditions."""
        count = self._layout.count
        survey = _Survey(
            masked=np.zeros(count, np.int64), classes={value: np.zeros(count, np.int64) for value in self._counted}
        )
        for strip in strips:
            if not strip.is_read:
                continue
            numbers = strip.numbers(np.arange(strip.masked_counts.size))
            survey.masked[numbers] = strip.masked_counts.ravel()
            allowed[numbers] &= self._kept(strip)
            for value, found in survey.classes.items():
                found[numbers] = self._count_class(strip, value)
        return survey

    def _strata(self, column: str, survey: _Survey) -> NDArray[np.int64]:
        """``(patch,) int64``: the stratum of each patch."""
        if column in self._columns:
            return self._columns[column]
        pixels = self._layout.patch_yx[0] * self._layout.patch_yx[1]
        if column == MAJORITY:
            counts = np.stack(list(survey.classes.values()))
            # Patches without any class are a stratum of their own.
            return np.where(counts.any(axis=0), counts.argmax(axis=0), -1)
        if column in (VALID, MASKED):
            counted = survey.masked if column == MASKED else pixels - survey.masked
        else:
            (counted,) = survey.classes.values()
        return strata_of(counted / pixels)

"""Time series of files: which dates their names tell, and which one of them has no file.

Dates are read from names that differ in a date alone (``t_2020-01.tif``, ``t_20200117.tif``), or given as a range in
braces (``t_{2020-01..2020-12}.tif``). Numbers in names are no dates, but a gap in them is told.
"""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from pathlib import PurePath

from geotfr.errors import UsageError

__all__ = ["Gaps", "expanded", "gaps_between"]

_MOST_FILES = 1 << 16
_RANGE = re.compile(r"\{([0-9_-]+)\.\.([0-9_-]+)(?:/([1-9][0-9]{0,5}))?\}")
_LEAST_FILES = 3


@dataclass(frozen=True, slots=True)
class _Form:
    """How names tell a moment: as a number of days, months or years, or a plain number."""

    pattern: str
    unit: str

    def number(self, text: str) -> int | None:
        """The moment that ``text`` tells; None if it isn't of this form."""
        found = re.fullmatch(self.pattern, text, re.ASCII)
        if found is None:
            return None
        if self.unit == "number":
            return int(text)
        year, month, day = (*(int(each) for each in found.groups() if each not in ("", "-", "_")), 1, 1)[:3]
        if not (1800 <= year <= 2200 and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]):
            return None
        return {"day": date(year, month, day).toordinal(), "month": 12 * year + month - 1, "year": year}[self.unit]

    def text(self, number: int, like: str) -> str:
        """The moment ``number`` as ``like`` is written."""
        if self.unit == "number":
            return str(number).zfill(len(like))
        moment = date.fromordinal(number) if self.unit == "day" else date(*_year_month(self.unit, number), 1)
        sign = next((sign for sign in "-_" if sign in like), "")
        parts = [f"{moment.year:04d}", f"{moment.month:02d}", f"{moment.day:02d}"]
        return sign.join(parts[: {"day": 3, "month": 2, "year": 1}[self.unit]])


def _year_month(unit: str, number: int) -> tuple[int, int]:
    return (number, 1) if unit == "year" else (number // 12, number % 12 + 1)


_DATES = (
    _Form(r"([0-9]{4})([-_]?)([0-9]{2})\2([0-9]{2})", "day"),
    _Form(r"([0-9]{4})([-_]?)([0-9]{2})", "month"),
    _Form(r"([0-9]{4})", "year"),
)
_NUMBER = _Form(r"[0-9]{1,9}", "number")


def expanded(pattern: str) -> list[str] | None:
    """The names of all moments of a range in braces, ``{FIRST..LAST}`` or ``{FIRST..LAST/STEP}``; None without one.

    Raises
    ------
    UsageError
        Its ends are no dates or numbers of one form in order, or there are too many.

    >>> expanded("t_{2020-11..2021-01}.tif"), expanded("t_{08..10}.tif"), expanded("t_*.tif")
    (['t_2020-11.tif', 't_2020-12.tif', 't_2021-01.tif'], ['t_08.tif', 't_09.tif', 't_10.tif'], None)
    """
    found = _RANGE.search(pattern)
    if found is None:
        return None
    first, last, step = found[1], found[2], int(found[3] or 1)
    for form in (*_DATES, _NUMBER):
        start, stop = form.number(first), form.number(last)
        if start is not None and stop is not None and (len(first) == len(last) or form is _NUMBER):
            if start > stop or (stop - start) // step >= _MOST_FILES:
                break
            moments = range(start, stop + 1, step)
            return [pattern[: found.start()] + form.text(each, first) + pattern[found.end() :] for each in moments]
    raise UsageError(
        f"{pattern}: {found[0]} is no range; allowed are dates or numbers in order, as {{2020-01..2020-12}},"
        " {20200101..20201231/16} or {01..12}"
    )


@dataclass(frozen=True, slots=True)
class Gaps:
    """What names of files leave out.

    Attributes
    ----------
    are_dates
        Whether the names tell dates; else numbers.
    missing
        Place in the files before which something is missing -> the texts of what is.
    """

    are_dates: bool
    missing: dict[int, list[str]]


def gaps_between(paths: Sequence[str]) -> Gaps | None:
    """The dates or numbers that the names of ``paths``, in order, step over; None where they tell no regular series.

    >>> gaps_between(["t_2020-01.tif", "t_2020-02.tif", "t_2020-03.tif", "t_2020-05.tif"])
    Gaps(are_dates=True, missing={3: ['2020-04']})
    """
    if len(paths) < _LEAST_FILES or len({str(PurePath(path).parent) for path in paths}) > 1:
        return None
    names = [PurePath(path).name for path in paths]
    for form in (*_DATES, _NUMBER):
        found = _told(names, form)
        if found is not None:
            return _stepped_over(*found, form)
    return None


def _told(names: Sequence[str], form: _Form) -> tuple[list[int], str] | None:
    """The moments that names tell which differ in nothing else, and the first as it is written."""
    for token in re.finditer(rf"(?<![0-9])(?:{form.pattern})(?![0-9])", names[0], re.ASCII):
        head, tail = names[0][: token.start()], names[0][token.end() :]
        if not all(name.startswith(head) and name.endswith(tail) and len(name) > len(head + tail) for name in names):
            continue
        moments = [form.number(name[len(head) : len(name) - len(tail)]) for name in names]
        known = [moment for moment in moments if moment is not None]
        if len(known) == len(names) and all(before < after for before, after in pairwise(known)):
            return known, token[0]
    return None


def _stepped_over(moments: list[int], like: str, form: _Form) -> Gaps | None:
    """The moments between ``moments`` at the step that most of them have."""
    day = None
    if form.unit == "day" and len({date.fromordinal(each).day for each in moments}) == 1:
        # The same day of each month: months are the step.
        day = min(date.fromordinal(moments[0]).day, 28)
        moments = [12 * each.year + each.month - 1 for each in map(date.fromordinal, moments)]

    def told(each: int) -> str:
        return form.text(each if day is None else date(*_year_month("month", each), day).toordinal(), like)

    steps = [after - before for before, after in pairwise(moments)]
    step = math.gcd(*steps)
    missing = {
        place: [told(each) for each in range(before + step, after, step)]
        for place, (before, after) in enumerate(pairwise(moments), 1)
        if after - before > step
    }
    # What is missing more often than not is no gap.
    is_regular = 2 * steps.count(step) >= len(steps) and sum(map(len, missing.values())) < len(moments)
    return Gaps(form is not _NUMBER, missing) if is_regular else None

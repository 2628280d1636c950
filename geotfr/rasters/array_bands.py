"""Array bands: named, ordered groups of raster bands, as a user writes them."""

from __future__ import annotations

import glob
import re
from dataclasses import dataclass
from pathlib import PurePath

from geotfr.errors import MissingInputError, UsageError
from geotfr.rasters.bands import SourceSpec, parse_source
from geotfr.rasters.safe_open import split_page
from geotfr.rasters.series import Gaps, expanded, gaps_between
from geotfr.stores.address import address_scheme
from geotfr.stores.path import is_there

__all__ = ["ArrayBandSpec", "MissingFile", "parse_array_band"]

_SHOWN = 6
_NUMBERS = re.compile(r"([0-9]+)(?:-([0-9]+))?")


@dataclass(frozen=True, slots=True)
class MissingFile:
    """The place of a raster that isn't there: masked elements, as many as the raster ``like`` has."""

    like: SourceSpec


@dataclass(frozen=True, slots=True)
class ArrayBandSpec:
    """An array band: its name, and its elements in order.

    ``elements`` are bands of the stack by number from 1, bands of rasters, or places of rasters that are missing.
    """

    name: str
    elements: tuple[int | SourceSpec | MissingFile, ...]
    warnings: tuple[str, ...] = ()


_Element = int | SourceSpec | MissingFile


def parse_array_band(text: str) -> ArrayBandSpec:
    """The array band that ``text`` describes: ``NAME=ELEMENTS``, elements separated by commas.

    Parameters
    ----------
    text
        Elements are bands of the stack (``evi=3-14``, ``evi=3,5,7``; ``evi=14-3`` counts down), or rasters
        (``evi=a.tif:1,b.tif:1``), also by a pattern (``evi=stack_*.tif:2``), whose files come in natural order:
        ``stack_2`` before ``stack_10``. Where their names tell dates in regular steps, one that has no file keeps its
        place, masked; so does one of a range, ``evi=t_{2020-01..2020-12}.tif:2``. A warning tells them.

    Raises
    ------
    UsageError
        Without ``=``, a name or elements, for an element given twice, or a pattern that fits no file.
    MissingInputError
        For a raster that isn't there.

    Examples
    --------
    >>> parse_array_band("evi=3-5,8")
    ArrayBandSpec(name='evi', elements=(3, 4, 5, 8), warnings=())
    """
    name, equals, rest = text.partition("=")
    name = name.strip()
    if not equals or not name:
        raise UsageError(f"--array-band {text!r}: write NAME=BANDS, as in evi=3-14 or evi=stack_*.tif:2")
    elements: list[_Element] = []
    warnings: list[str] = []
    # A file's name may hold a comma.
    for item in [rest] if is_there(rest) else rest.split(","):
        elements += _elements(item.strip(), text, warnings)
    there = [element for element in elements if not isinstance(element, MissingFile)]
    twice = next((element for element in there if there.count(element) > 1), None)
    if twice is not None:
        words = f"band {twice}" if isinstance(twice, int) else twice.path
        raise UsageError(f"--array-band {text!r}: {words} is given twice")
    return ArrayBandSpec(name, tuple(elements), tuple(warnings))


def _elements(item: str, text: str, warnings: list[str]) -> list[_Element]:
    numbers = _NUMBERS.fullmatch(item)
    if numbers and not is_there(item):
        first, last = int(numbers[1]), int(numbers[2] or numbers[1])
        if first == 0 or last == 0:
            raise UsageError(f"--array-band {text!r}: band 0; bands count from 1")
        if abs(last - first) > 1 << 16:
            raise UsageError(f"--array-band {text!r}: no raster has {abs(last - first) + 1:,} bands")
        return list(range(first, last + 1) if first <= last else range(first, last - 1, -1))
    if not item:
        raise UsageError(f"--array-band {text!r}: an element is missing; write NAME=BANDS, as in evi=3-14")
    spec = parse_source(item)
    if address_scheme(spec.path) or is_there(split_page(spec.path)[0]):
        return [spec]
    given = expanded(spec.path)
    if given is not None:
        return _of_range(given, spec, text, warnings)
    if not glob.has_magic(spec.path):
        raise MissingInputError(f"--array-band {text!r}: {spec.path}: no such file")
    found = sorted(glob.glob(spec.path, recursive=True), key=_natural)  # noqa: PTH207  (absolute patterns too)
    if not found:
        raise UsageError(f"--array-band {text!r}: no file fits {spec.path}; check the pattern and its folder")
    elements: list[_Element] = [SourceSpec(path, spec.band) for path in found]
    gaps = gaps_between(found)
    if gaps is not None and gaps.missing:
        _tell_gaps(gaps, spec.path, warnings)
        if gaps.are_dates:
            for place in sorted(gaps.missing, reverse=True):
                like = SourceSpec(found[place], spec.band)
                elements[place:place] = [MissingFile(like)] * len(gaps.missing[place])
    return elements


def _of_range(paths: list[str], spec: SourceSpec, text: str, warnings: list[str]) -> list[_Element]:
    """The rasters of a range of dates or numbers, and the places of those that aren't there."""
    there = {path for path in paths if is_there(path)}
    if not there:
        raise MissingInputError(f"--array-band {text!r}: none of the {len(paths):,} files of {spec.path} is there")
    like = SourceSpec(next(path for path in paths if path in there), spec.band)
    missing = [PurePath(path).name for path in paths if path not in there]
    if missing:
        warnings.append(
            f"array band {text.partition('=')[0].strip()}: {_listed(missing)} of {len(paths):,} files not there; masked"
            " elements keep their places"
        )
    return [SourceSpec(path, spec.band) if path in there else MissingFile(like) for path in paths]


def _tell_gaps(gaps: Gaps, pattern: str, warnings: list[str]) -> None:
    missing = [each for place in sorted(gaps.missing) for each in gaps.missing[place]]
    kept = (
        "masked elements keep their places"
        if gaps.are_dates
        else "later elements move up; a range keeps places, as in t_{1..12}.tif"
    )
    warnings.append(f"array band of {PurePath(pattern).name}: no file for {_listed(missing)}; {kept}")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _natural(path: str) -> list[tuple[int, int, str]]:
    """A key by which numbers in names sort by their value."""
    parts = re.split(r"([0-9]+)", path)
    return [(1, int(part), part) if part.isdecimal() and part.isascii() else (0, 0, part) for part in parts]

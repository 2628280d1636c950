"""Array bands: named, ordered groups of raster bands, as a user writes them."""

from __future__ import annotations

import glob
import re
from dataclasses import dataclass

from geotfr.errors import MissingInputError, UsageError
from geotfr.rasters.bands import SourceSpec, parse_source
from geotfr.rasters.safe_open import split_page
from geotfr.stores.address import address_scheme
from geotfr.stores.path import is_there

__all__ = ["ArrayBandSpec", "parse_array_band"]

_NUMBERS = re.compile(r"([0-9]+)(?:-([0-9]+))?")


@dataclass(frozen=True, slots=True)
class ArrayBandSpec:
    """An array band: its name, and its elements in order.

    ``elements`` are bands of the stack by number from 1, or bands of rasters.
    """

    name: str
    elements: tuple[int | SourceSpec, ...]


def parse_array_band(text: str) -> ArrayBandSpec:
    """The array band that ``text`` describes: ``NAME=ELEMENTS``, elements separated by commas.

    Parameters
    ----------
    text
        Elements are bands of the stack (``evi=3-14``, ``evi=3,5,7``; ``evi=14-3`` counts down), or rasters
        (``evi=a.tif:1,b.tif:1``), also by a pattern (``evi=stack_*.tif:2``), whose files come in natural order:
        ``stack_2`` before ``stack_10``.

    Raises
    ------
    UsageError
        Without ``=``, a name or elements, for an element given twice, or a pattern that fits no file.
    MissingInputError
        For a raster that isn't there.

    Examples
    --------
    >>> parse_array_band("evi=3-5,8")
    ArrayBandSpec(name='evi', elements=(3, 4, 5, 8))
    """
    name, equals, rest = text.partition("=")
    name = name.strip()
    if not equals or not name:
        raise UsageError(f"--array-band {text!r}: write NAME=BANDS, as in evi=3-14 or evi=stack_*.tif:2")
    elements: list[int | SourceSpec] = []
    # A file's name may hold a comma.
    for item in [rest] if is_there(rest) else rest.split(","):
        elements += _elements(item.strip(), text)
    twice = next((element for element in elements if elements.count(element) > 1), None)
    if twice is not None:
        words = f"band {twice}" if isinstance(twice, int) else twice.path
        raise UsageError(f"--array-band {text!r}: {words} is given twice")
    return ArrayBandSpec(name, tuple(elements))


def _elements(item: str, text: str) -> list[int | SourceSpec]:
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
    if not glob.has_magic(spec.path):
        raise MissingInputError(f"--array-band {text!r}: {spec.path}: no such file")
    found = sorted(glob.glob(spec.path, recursive=True), key=_natural)  # noqa: PTH207  (absolute patterns too)
    if not found:
        raise UsageError(f"--array-band {text!r}: no file fits {spec.path}; check the pattern and its folder")
    return [SourceSpec(path, spec.band) for path in found]


def _natural(path: str) -> list[tuple[int, int, str]]:
    """A key by which numbers in names sort by their value."""
    parts = re.split(r"([0-9]+)", path)
    return [(1, int(part), part) if part.isdecimal() and part.isascii() else (0, 0, part) for part in parts]

"""Values as users write them, read once: numbers, pairs, sizes, names."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "MAX_NODATA",
    "PairXY",
    "Size",
    "at_least_one",
    "band_list",
    "check_nodata",
    "checked_choice",
    "checked_number",
    "checked_share",
    "nearest",
    "nodata_text",
    "parse_pair_yx",
    "parse_size",
    "resolve_workers",
    "texts",
]

MAX_NODATA = 2**53
"""Of an output: rasterio hands nodata to GDAL as a float64, and of one with 19 digits GDAL reads the first."""
PairXY = int | str | tuple[int, int] | list[int]
"""A (width, height) pair: ``256``, ``"256"``, ``"256,128"``, ``"256x128"``, ``(256, 128)``."""
Size = int | float | str
"""A number of bytes: ``104857600``, ``"100MiB"``, ``"100MB"``, ``1e9``."""
_UNITS = {"": 1, "B": 1} | {
    f"{letter}{suffix}": base**power
    for power, letter in enumerate("KMGT", start=1)
    for suffix, base in (("", 1000), ("B", 1000), ("iB", 1024))
}


def nearest(word: str, known: Iterable[str]) -> str:
    """``; did you mean …?`` if one of ``known`` is near ``word``, else nothing; case does not count."""
    by_folded = {name.lower().replace("_", ""): name for name in known}
    found = difflib.get_close_matches(word.lower().replace("_", ""), by_folded, n=1, cutoff=0.6)
    return f"; did you mean {by_folded[found[0]]}?" if found else ""


def parse_pair_yx(name: str, value: Any, *, least: int) -> tuple[int, int]:
    """``value``, an (x, y) pair in any of the forms users write, as (y, x).

    >>> parse_pair_yx("patch_dimensions", "256x128", least=1)
    (128, 256)
    """
    parts: list[Any]
    if isinstance(value, str):
        parts = [part.strip() for part in re.split(r"[,x]", value.strip().strip("[]()"))]
    elif isinstance(value, Iterable):
        parts = list(value)
    else:
        parts = [value]
    numbers: list[int] = []
    for part in parts:
        try:
            number = float(part) if not isinstance(part, bool) else math.nan
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not (math.isfinite(number) and number == int(number) and least <= number <= _LARGEST_SIDE):
            raise UsageError(
                f"{name}: found {value!r}; allowed are one or two whole numbers from {least} to {_LARGEST_SIDE},"
                " (width, height), as 256 or 256,128 or 256x128"
            )
        numbers.append(int(number))
    if len(numbers) not in (1, 2):
        raise UsageError(f"{name}: found {value!r}; allowed are one or two numbers, (width, height)")
    return numbers[-1], numbers[0]


_LARGEST_SIDE = 2**31 - 1


def parse_size(name: str, value: Any) -> int:
    """``value`` as a number of bytes, at least 1.

    >>> parse_size("max_file_size", "100MiB"), parse_size("max_file_size", 1e9)
    (104857600, 1000000000)
    """
    number = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str):
        found = re.fullmatch(r"\s*([0-9.]+(?:e[+]?[0-9]+)?)\s*([A-Za-z]*)\s*", value, re.IGNORECASE)
        units = {unit.lower(): factor for unit, factor in _UNITS.items()}
        if found and found[2].lower() in units:
            try:
                number = float(found[1]) if not found[1].isdecimal() else int(found[1])
            except ValueError:
                number = math.nan
            number *= units[found[2].lower()]
    if not (1 <= number < 2**63 and number == int(number)):
        raise UsageError(
            f"{name}: found {value!r}; allowed is a whole number of bytes, at least 1, as 104857600, 100MiB or 1e9"
        )
    return int(number)


def resolve_workers(workers: int | None, cores: int) -> int:
    """``workers``, or the smaller of ``cores`` and 4 if it is None."""
    if workers is None:
        return max(min(cores, 4), 1)
    if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= 1024:
        raise UsageError(f"workers: found {workers!r}; allowed is a whole number from 1 to 1024")
    return workers


def at_least_one(pair: tuple[int, int]) -> tuple[int, int]:
    return max(pair[0], 1), max(pair[1], 1)


def checked_number(name: str, value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        number = int(value) if isinstance(value, int) else float(value)
        is_finite = math.isfinite(number)
    except (TypeError, ValueError, OverflowError):
        is_finite = False
    if not is_finite:
        raise UsageError(f"{name}: found {value!r}; allowed is a finite number")
    return number


def checked_share(name: str, value: Any) -> float:
    number = checked_number(name, value)
    if not 0 <= number <= 1:
        raise UsageError(f"{name}: found {value!r}; allowed is a share from 0 to 1")
    return float(number)


def checked_choice(name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    if value not in allowed:
        raise UsageError(f"{name}: found {value!r}; allowed are {', '.join(allowed)}{nearest(str(value), allowed)}")
    return value


def band_list(bands: str | Sequence[str | int] | None) -> tuple[str, ...] | None:
    if bands is None:
        return None
    # A name in a list is taken as it is; around commas blanks don't count.
    names = tuple(part.strip() for part in bands.split(",")) if isinstance(bands, str) else tuple(map(str, bands))
    if not names or not all(names):
        raise UsageError(f"bands: found {bands!r}; allowed are numbers from 1 or names, as 1,2 or B4,B3 or red=B4")
    return names


def texts(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None) -> tuple[str, ...]:
    if paths is None:
        return ()
    if isinstance(paths, str | os.PathLike):
        return (os.fspath(paths),)
    return tuple(os.fspath(path) for path in paths)


def nodata_text(nodata: float | str | None) -> str | None:
    """The text form, so that a large integer keeps its digits."""
    if nodata is None:
        return None
    text = str(nodata).strip().lower()
    if text == "none":
        return text
    try:
        float(text)
    except ValueError as error:
        raise UsageError(f"nodata: found {nodata!r}; allowed are a number, nan, or none") from error
    return text


def check_nodata(nodata: float | None, dtype: np.dtype[Any]) -> None:
    """Refuse a nodata value that ``dtype`` can't hold."""
    if nodata is None:
        return
    if dtype.kind == "f":
        fits = not math.isfinite(nodata) or abs(nodata) <= float(np.finfo(dtype).max)
    else:
        limits = np.iinfo(dtype)
        fits = math.isfinite(nodata) and nodata == int(nodata) and limits.min <= nodata <= limits.max
        if fits and abs(int(nodata)) > MAX_NODATA:
            raise UsageError(f"nodata: {nodata} is beyond 2^53, which GDAL is not given exactly; give another --nodata")
    if not fits:
        raise UsageError(f"nodata: {nodata} can't be held by {dtype.name}; give another --nodata or --dtype")

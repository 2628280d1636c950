"""Bands of a stack of rasters: their names, and which of them are asked for, in which order."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from geotfr.errors import UsageError
from geotfr.plain_text import without_query
from geotfr.stores.path import is_there, local_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np

__all__ = ["SourceBand", "SourceSpec", "band_names", "parse_source", "select_bands"]


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A raster, and one of its bands (from 1) or, with ``band=None``, all of them."""

    path: str
    band: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBand:
    """One band of a stack.

    Attributes
    ----------
    name
        The feature's name: unique in the stack.
    dtype
        The type of the pixels that are read: the file's own, unless they are scaled, are a part of complex numbers, or
        belong to an array band of several types.
    nodata
        Values of ``file_dtype`` that mean 'masked'. NaN isn't listed: it masks in every float band.
    scale, offset
        The physical value is ``pixel * scale + offset``; (1, 0) where the file has none.
    description
        The band's description in the file; empty where it has none.
    source
        The file's name without its folder.
    source_number
        Position of the file in the stack, from 0; -1 for a band without one: labels, and what is missing of a series.
    index
        The band's number in the file, from 1.
    is_alpha
        Whether the file calls the band its alpha: a mask, and data only when asked for.
    stored_dtype
        The pixel type in the file; None where it is ``dtype``.
    part
        ``real`` or ``imag`` of a complex band; else empty.
    is_unscaled
        Whether ``scale`` and ``offset`` are applied on reading.
    """

    name: str
    dtype: np.dtype[np.generic]
    nodata: tuple[float, ...]
    scale: float
    offset: float
    description: str
    source: str
    source_number: int
    index: int
    is_alpha: bool
    stored_dtype: np.dtype[np.generic] | None = None
    part: Literal["", "real", "imag"] = ""
    is_unscaled: bool = False

    @property
    def file_dtype(self) -> np.dtype[np.generic]:
        """The pixel type in the file."""
        return self.dtype if self.stored_dtype is None else self.stored_dtype

    @property
    def can_mask(self) -> bool:
        """Whether its own values can mask: it has nodata, or could hold NaN."""
        return bool(self.nodata) or self.file_dtype.kind in "fc"

    @property
    def is_converted(self) -> bool:
        """Whether the pixels that are read differ from the file's."""
        return self.is_unscaled or bool(self.part) or self.file_dtype != self.dtype


def parse_source(text: str) -> SourceSpec:
    """The raster and band that ``text`` names: ``FILE`` or ``FILE:3``.

    Only a trailing ``:digits`` is a band's number, so ``s3://…`` and ``C:\\…`` are paths; a file whose name
    really ends so wins.

    Raises
    ------
    UsageError
        If the number is 0: bands count from 1.

    Examples
    --------
    >>> parse_source("scene.tif:3")
    SourceSpec(path='scene.tif', band=3)
    >>> parse_source("s3://bucket/scene.tif").band is None
    True
    """
    text = local_text(text)
    match = re.fullmatch(r"(.+):([0-9]+)", text, re.DOTALL)
    if match is None or is_there(text):
        return SourceSpec(text)
    band = int(match[2])
    if band == 0:
        raise UsageError(f"{text}: band 0; bands count from 1")
    return SourceSpec(match[1], band)


def band_names(bands: Sequence[SourceBand], *, band_counts: Sequence[int]) -> tuple[SourceBand, ...]:
    """``bands`` with their names set: the description, or one made from the file and the band's number.

    Parameters
    ----------
    bands
        All bands of the stack, in order.
    band_counts
        Bands in each file, by ``source_number``.

    Returns
    -------
    tuple of SourceBand
        A band without description is ``b1``, ``b2``, … in a single file, and in several files the file's stem
        if it has one band, else ``stem_b1``. A name used before gets ``_1``, ``_2``, …, and never takes
        another band's own name.
    """
    return tuple(
        replace(band, name=name)
        for band, name in zip(bands, _distinct([_own_name(band, band_counts) for band in bands]), strict=True)
    )


def _own_name(band: SourceBand, band_counts: Sequence[int]) -> str:
    if band.description:
        return band.description
    if len(band_counts) == 1:
        return f"b{band.index}"
    stem = Path(without_query(band.source)).stem
    return stem if band_counts[band.source_number] == 1 else f"{stem}_b{band.index}"


def _distinct(names: Sequence[str], reserved: Iterable[str] = ()) -> list[str]:
    """``names``, each later use of a name with the first free ``_1``, ``_2``, … behind it."""
    originals = set(names)
    used = set(reserved)
    result = []
    for name in names:
        chosen, number = name, 0
        while chosen in used or (number and chosen in originals):
            number += 1
            chosen = f"{name}_{number}"
        used.add(chosen)
        result.append(chosen)
    return result


def select_bands(bands: Sequence[SourceBand], wanted: Sequence[str]) -> tuple[SourceBand, ...]:
    """The bands that ``wanted`` names, in its order.

    Parameters
    ----------
    bands
        All bands of the stack, named.
    wanted
        Each a number from 1 through the stack, a name, or ``new=old`` where old is either; alpha bands count
        too.

    Raises
    ------
    UsageError
        For a band that isn't there, or a new name that is given twice.
    """
    picked: list[SourceBand] = []
    renamed: list[str | None] = []
    by_name = {band.name: band for band in bands}
    for item in wanted:
        new, equals, old = item.partition("=")
        if not equals or item in by_name:
            new, old = "", item
        elif not new:
            raise UsageError(f"--bands {item!r}: no new name before '='; write new=old")
        if new in renamed:
            raise UsageError(f"--bands: the new name {new!r} is given twice")
        picked.append(_find(bands, by_name, old.strip()))
        renamed.append(new.strip() or None)
    kept = [band.name for band, new in zip(picked, renamed, strict=True) if new is None]
    others = iter(_distinct(kept, reserved=[new for new in renamed if new is not None]))
    return tuple(
        replace(band, name=new if new is not None else next(others)) for band, new in zip(picked, renamed, strict=True)
    )


def _find(bands: Sequence[SourceBand], by_name: dict[str, SourceBand], text: str) -> SourceBand:
    if text.isascii() and text.isdigit() and 1 <= int(text) <= len(bands):
        return bands[int(text) - 1]
    if text in by_name:
        return by_name[text]
    names = list(by_name)
    folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(text.casefold(), folded, n=1)
    hint = f"; did you mean {folded[near[0]]!r}?" if near else ""
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    raise UsageError(f"--bands: no band {text!r}; there are 1 to {len(bands)}: {shown}{hint}")

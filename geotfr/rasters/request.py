"""What an export asks of its sources."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from geotfr.errors import UsageError
from geotfr.grid.export_grid import GridRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RESAMPLINGS", "Resampling", "SourceRequest"]

Resampling = Literal["nearest", "bilinear", "cubic", "average", "mode"]

RESAMPLINGS: tuple[Resampling, ...] = ("nearest", "bilinear", "cubic", "average", "mode")
"""How a pixel of a warped source is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRequest:
    """How rasters become the bands of an export; the defaults take them as they are.

    Attributes
    ----------
    bands
        Which bands of the stack are scalar bands, see :func:`geotfr.rasters.bands.select_bands`; None: all but alpha
        bands, and but the bands that array bands use.
    nodata
        The nodata value of all bands, in place of the files' own.
    allow_ungeoreferenced
        Take rasters that say nothing of their place on the ground.
    allow_drivers, allow_network
        See :func:`geotfr.rasters.safe_open.safe_open`.
    grid
        The grid of the export.
    resampling
        How pixels of sources on another grid are made.
    array_bands
        Array bands, see :func:`geotfr.rasters.array_bands.parse_array_band`.
    masks
        Rasters (``FILE`` or ``FILE:BAND``) that mask where they are 0, warped by nearest.
    unscale
        Give ``pixel * scale + offset`` as float32.
    complex_parts
        Take a complex band as two, ``NAME_real`` and ``NAME_imag``; else complex bands are refused.
    threads
        Threads that decode compressed blocks and warp.

    Raises
    ------
    UsageError
        For a resampling that isn't there.
    """

    bands: Sequence[str] | None = None
    nodata: str | float | None = None
    allow_ungeoreferenced: bool = False
    allow_drivers: tuple[str, ...] = ("GTiff",)
    allow_network: bool = False
    grid: GridRequest = field(default_factory=GridRequest)
    resampling: Resampling = "nearest"
    array_bands: tuple[str, ...] = ()
    masks: tuple[str, ...] = ()
    unscale: bool = False
    complex_parts: bool = False
    threads: int = 1

    def __post_init__(self) -> None:
        if self.resampling not in RESAMPLINGS:
            raise UsageError(f"--resampling {self.resampling}: there are {', '.join(RESAMPLINGS)}")

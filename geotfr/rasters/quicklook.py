"""A small picture of a raster: its colour table if it has one, else its values stretched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geotfr.errors import OutputError
from geotfr.rasters.pictures import write_png
from geotfr.rasters.reduced import picture_of, reduced_of
from geotfr.rasters.safe_open import GDAL_ERRORS, gdal_words, safe_open

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["write_quicklook"]


def write_quicklook(raster: Path, picture: Path) -> None:
    """Write ``raster`` as the PNG ``picture``, at most 1024 pixels along its longer side.

    Three and more bands make red, green and blue of the first three; one or two make grey. Each is stretched between
    its 2nd and 98th percentile; masked pixels are white.

    Raises
    ------
    OutputError
        If the raster can't be read, or the picture not be written.
    """
    try:
        with safe_open(raster) as dataset:
            reduced = reduced_of(dataset, str(raster))
    except GDAL_ERRORS as error:
        raise OutputError(f"{raster}: can't be read back: {gdal_words(error)}") from error
    write_png(picture, picture_of(reduced))

"""A small picture of a raster: its colour table if it has one, else its values stretched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rasterio.errors import RasterioError

from geotfr.errors import OutputError
from geotfr.rasters.pictures import write_png
from geotfr.rasters.safe_open import GDAL_ERRORS, gdal_words, safe_open

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from rasterio.io import DatasetReader

__all__ = ["write_quicklook"]

_SIDE = 1024
_STRETCH = (2, 98)
_MASKED = 255


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
            factor = max(1.0, max(dataset.height, dataset.width) / _SIDE)
            shape = max(round(dataset.height / factor), 1), max(round(dataset.width / factor), 1)
            bands = [1, 2, 3] if dataset.count >= 3 else [1]
            pixels = dataset.read(bands, out_shape=(len(bands), *shape))
            valid = dataset.read_masks(bands, out_shape=(len(bands), *shape)).all(axis=0)
            colours = _colours(dataset)
    except GDAL_ERRORS as error:
        raise OutputError(f"{raster}: can't be read back: {gdal_words(error)}") from error
    if colours is not None:
        rgb = np.moveaxis(colours[pixels[0]], -1, 0)
    else:
        rgb = np.stack([_stretched(band, valid) for band in pixels])
        rgb = np.broadcast_to(rgb, (3, *shape)).copy()
    rgb[:, ~valid] = _MASKED
    write_png(picture, np.ascontiguousarray(rgb))


def _colours(dataset: DatasetReader) -> NDArray[np.uint8] | None:
    """(value, 3) of the first band's colour table, if it has one."""
    try:
        table = dataset.colormap(1)
    except (ValueError, RasterioError):
        return None
    found = np.zeros((1 << (8 * np.dtype(dataset.dtypes[0]).itemsize), 3), np.uint8)
    for value, rgba in table.items():
        found[value] = rgba[:3]
    return found


def _stretched(band: NDArray[Any], valid: NDArray[np.bool_]) -> NDArray[np.uint8]:
    values = band.astype(np.float64)
    chosen = values[valid & np.isfinite(values)]
    if not chosen.size:
        return np.zeros(band.shape, np.uint8)
    low, high = np.percentile(chosen, _STRETCH)
    share = (np.nan_to_num(values, nan=low, posinf=high, neginf=low) - low) / (high - low if high > low else 1.0)
    stretched: NDArray[np.uint8] = (np.clip(share, 0, 1) * 254).astype(np.uint8)
    return stretched

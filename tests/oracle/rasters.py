"""Rasters for the tests, written through rasterio, and read back to be compared."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import rasterio
from rasterio.transform import Affine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NORTH_UP = Affine(10, 0, 500000, 0, -10, 4000000)
SOUTH_UP = Affine(0.5, 0, -180, 0, 0.5, -90)
_SIDE = 10 * 0.5**0.5
ROTATED = Affine(_SIDE, _SIDE, 100, _SIDE, -_SIDE, 200)
"""10 m pixels, turned by 45 degrees, the corner at (100, 200)."""


def write_raster(
    path: Path,
    data: np.ndarray,
    *,
    transform: Affine = NORTH_UP,
    crs: str | None = "EPSG:32618",
    nodata: float | None = None,
    mask: np.ndarray | None = None,
    external_mask: bool = False,
    alpha: np.ndarray | None = None,
    descriptions: Sequence[str | None] = (),
    scales: Sequence[float] = (),
    offsets: Sequence[float] = (),
    **creation: Any,
) -> Path:
    """A GeoTIFF of ``data``, (h, w) or (c, h, w).

    ``mask`` is bool, True = valid, written inside the file or as ``.msk`` beside it; ``alpha`` becomes the
    last band. ``scales`` and ``offsets`` are one for each band.
    """
    bands = data[np.newaxis] if data.ndim == 2 else data
    count, height, width = bands.shape
    if alpha is not None:
        creation["alpha"] = "yes"
        count += 1
    internal = {"GDAL_TIFF_INTERNAL_MASK": not external_mask}
    with (
        rasterio.Env(**internal),
        rasterio.open(
            path,
            "w",
            driver="GTiff",
            width=width,
            height=height,
            count=count,
            dtype=bands.dtype,
            transform=transform,
            crs=crs,
            nodata=nodata,
            **creation,
        ) as target,
    ):
        target.write(bands, list(range(1, len(bands) + 1)))
        if alpha is not None:
            target.write(alpha.astype(bands.dtype), count)
        for number, text in enumerate(descriptions, 1):
            if text is not None:
                target.set_band_description(number, text)
        if mask is not None:
            target.write_mask(mask)
        if scales:
            target.scales = scales
        if offsets:
            target.offsets = offsets
    return path


def read_raster(path: Path) -> tuple[np.ndarray, dict[str, Any], tuple[str | None, ...]]:
    """((c, h, w) pixels, profile, descriptions)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        with rasterio.open(path) as source:
            return source.read(), dict(source.profile), source.descriptions


def numbered(count: int, height: int, width: int, dtype: str = "float32") -> np.ndarray:
    """(count, height, width) with a value of its own in each pixel of each band, from 1."""
    return np.arange(1, count * height * width + 1).reshape(count, height, width).astype(dtype)

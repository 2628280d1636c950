"""The version of the library that decodes and encodes rasters."""

from __future__ import annotations

import rasterio

__all__ = ["gdal_version"]


def gdal_version() -> str:
    """GDAL's version, as ``3.10.3``.

    >>> gdal_version().count(".") >= 1
    True
    """
    return str(rasterio.__gdal_version__)

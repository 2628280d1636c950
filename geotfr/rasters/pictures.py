"""Pictures: an RGB array as a PNG file, by GDAL's own driver."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import rasterio

from geotfr.errors import OutputError
from geotfr.rasters.safe_open import GDAL_ERRORS, gdal_words, quiet_georeference

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["write_png"]


def write_png(path: str | os.PathLike[str], rgb: NDArray[np.uint8]) -> None:
    """Write ``rgb`` (3, row, column) as the PNG file ``path``, and nothing beside it.

    Raises
    ------
    OutputError
        If it can't be written.
    """
    bands, rows, cols = rgb.shape
    absolute = os.path.abspath(path)  # noqa: PTH100  (not resolved: a name, never an address)
    try:
        Path(absolute).unlink(missing_ok=True)
        # PNG can't be written by parts: rasterio collects the picture in memory and copies it when it closes.
        with (
            rasterio.Env(GDAL_PAM_ENABLED="NO"),
            quiet_georeference(),
            rasterio.open(absolute, "w", driver="PNG", height=rows, width=cols, count=bands, dtype="uint8") as picture,
        ):
            picture.write(rgb)
    except GDAL_ERRORS as error:
        raise OutputError(f"{os.fspath(path)}: can't be written: {gdal_words(error)}") from error

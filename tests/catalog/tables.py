"""Patch tables for tests, made by exports of small rasters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from oracle.rasters import NORTH_UP, write_raster

import geotfr

if TYPE_CHECKING:
    from pathlib import Path


def table_of_grid(folder: Path, rows: int, columns: int, *, kernel: int = 1, name: str = "set", **options: Any) -> Path:
    """The table of ``rows`` x ``columns`` patches of 2 x 2 pixels of 10 m, every value its own."""
    pixels = options.pop("pixels", None)
    if pixels is None:
        pixels = np.arange(rows * columns * 4, dtype="float32").reshape(rows * 2, columns * 2)
    source = write_raster(folder / f"{name}.tif", pixels, **{"transform": NORTH_UP, **options})
    result = geotfr.export_image(source, folder / name, patch_dimensions=2, kernel_size=kernel, patch_table=True)
    assert result.patch_table is not None
    return result.patch_table

"""The rasters that the benchmarks work on: big, seeded, made once and kept in ``benchmarks/data``.

Values are spatially correlated, as the ground is, plus sensor noise: what compresses as real scenes do. They
are made one block row at a time, so any size takes the same memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import rasterio
from rasterio import Affine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

DATA = Path(__file__).resolve().parent / "data"
BLOCK = 256
CELLS_PX = (1024, 256, 64, 16)
"""Sizes of the cells of random values that are interpolated and added: hills, fields, trees."""

NOISE = 0.001
"""Standard deviation of the sensor's noise, in reflectance: a signal-to-noise ratio of 100 over dark
ground."""


def big_raster(
    *, size: int = 8192, width: int | None = None, bands: int = 6, dtype: str = "uint16", seed: int = 1
) -> Path:
    """A GeoTIFF of ``size`` rows and ``width`` columns (``size`` unless told), made unless it is there.

    DEFLATE, tiles of 256, pixel-interleaved, UTM, no nodata: ``uint16`` holds reflectances times 10000,
    ``float32`` values from 0 to 1.
    """
    cols = width or size
    path = DATA / f"{dtype}-{bands}x{size}x{cols}-seed{seed}.tif"
    if path.exists():
        return path
    DATA.mkdir(exist_ok=True)
    temporary = path.with_suffix(".part")
    with rasterio.open(
        temporary,
        "w",
        driver="GTiff",
        height=size,
        width=cols,
        count=bands,
        dtype=dtype,
        crs="EPSG:32633",
        transform=Affine(10, 0, 399960, 0, -10, 5300040),
        tiled=True,
        blockxsize=BLOCK,
        blockysize=BLOCK,
        interleave="pixel",
        compress="deflate",
        bigtiff="IF_SAFER",
        num_threads="ALL_CPUS",
    ) as raster:
        raster.descriptions = tuple(f"B{band}" for band in range(1, bands + 1))
        for row, block in block_rows((bands, size, cols), np.dtype(dtype), seed):
            raster.write(block, window=((row, row + block.shape[1]), (0, cols)))
    temporary.replace(path)
    return path


def block_rows(
    shape: tuple[int, int, int], dtype: np.dtype[np.generic], seed: int
) -> Iterator[tuple[int, NDArray[np.generic]]]:
    """(row, pixels (band, row, column)) of each block row, from the top."""
    bands, rows, cols = shape
    random = np.random.default_rng(seed)
    grids = [
        random.random((bands, rows // cell + 2, cols // cell + 2), np.float32) * (cell / CELLS_PX[0]) ** 0.5
        for cell in CELLS_PX
    ]
    total = sum((cell / CELLS_PX[0]) ** 0.5 for cell in CELLS_PX)
    scale = 1.0 if dtype.kind == "f" else 10_000.0
    for row in range(0, rows, BLOCK):
        height = min(BLOCK, rows - row)
        block = np.empty((bands, height, cols), dtype)
        for band in range(bands):
            ground = np.zeros((height, cols), np.float32)
            for cell, grid in zip(CELLS_PX, grids, strict=True):
                ground += _interpolated(grid[band], cell, row, height, cols)
            ground *= np.float32(0.5 / total)
            ground += random.standard_normal((height, cols), np.float32) * np.float32(NOISE)
            np.clip(ground, 0, 1, out=ground)
            block[band] = ground * np.float32(scale)
        yield row, block


def _interpolated(grid: NDArray[np.float32], cell: int, row: int, height: int, cols: int) -> NDArray[np.float32]:
    """``height`` rows from ``row`` of ``grid``, whose values are ``cell`` pixels apart, interpolated
    linearly."""
    upper, down = _places(np.arange(row, row + height), cell)
    left, right = _places(np.arange(cols), cell)
    down = down[:, np.newaxis]
    lines = grid[upper] * (1 - down) + grid[upper + 1] * down
    return lines[:, left] * (1 - right) + lines[:, left + 1] * right


def _places(pixels: NDArray[np.int64], cell: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The grid's line before each pixel, and how far towards the next one the pixel lies (0 to 1)."""
    return pixels // cell, ((pixels % cell) / cell).astype(np.float32)

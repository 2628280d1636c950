"""GDAL's creation options for GeoTIFF: their names, checked, because GDAL takes a misspelt one in silence."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import numpy as np

from geotfr.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GTIFF_OPTIONS", "creation_options"]

GTIFF_OPTIONS = frozenset(
    [
        "ALPHA",
        "BIGTIFF",
        "BLOCKXSIZE",
        "BLOCKYSIZE",
        "COMPRESS",
        "COPY_SRC_OVERVIEWS",
        "DISCARD_LSB",
        "ENDIANNESS",
        "GEOTIFF_KEYS_FLAVOR",
        "GEOTIFF_VERSION",
        "INTERLEAVE",
        "JPEG_QUALITY",
        "JPEGTABLESMODE",
        "LZMA_PRESET",
        "MAX_Z_ERROR",
        "MAX_Z_ERROR_OVERVIEW",
        "NBITS",
        "NUM_THREADS",
        "PHOTOMETRIC",
        "PIXELTYPE",
        "PREDICTOR",
        "PROFILE",
        "SOURCE_ICC_PROFILE",
        "SOURCE_PRIMARIES_BLUE",
        "SOURCE_PRIMARIES_GREEN",
        "SOURCE_PRIMARIES_RED",
        "SOURCE_WHITEPOINT",
        "SPARSE_OK",
        "STREAMABLE_OUTPUT",
        "TFW",
        "TIFFTAG_TRANSFERFUNCTION_BLUE",
        "TIFFTAG_TRANSFERFUNCTION_GREEN",
        "TIFFTAG_TRANSFERFUNCTION_RED",
        "TIFFTAG_TRANSFERRANGE_BLACK",
        "TIFFTAG_TRANSFERRANGE_WHITE",
        "TILED",
        "WEBP_LEVEL",
        "WEBP_LOSSLESS",
        "ZLEVEL",
        "ZSTD_LEVEL",
    ]
)
"""**Source**: the option list of GDAL 3.10's GTiff driver, which rasterio doesn't hand out; a test asks GDAL
for each."""

TIFF_LIMIT_BYTES = 1 << 32
"""What a classic TIFF's 32-bit offsets reach."""

WITH_PREDICTOR = ("DEFLATE", "LZW", "ZSTD")
"""Compressions that take a predictor."""


def creation_options(
    given: Mapping[str, str],
    *,
    shape: tuple[int, int, int],
    dtype: np.dtype[np.generic],
    block_yx: tuple[int, int],
    threads: int,
) -> dict[str, str]:
    """All options for a new GeoTIFF: tiles, DEFLATE at level 1 with the type's predictor, and what is
    ``given``.

    Parameters
    ----------
    given
        Option to value, names in any case; they win.
    shape
        (bands, rows, columns).
    dtype
        The pixel type.
    block_yx
        (rows, columns) of a tile, multiples of 16.
    threads
        Threads that compress.

    Raises
    ------
    UsageError
        For an option that GDAL doesn't have, or one given twice in different cases.

    Examples
    --------
    >>> options = creation_options(
    ...     {"zlevel": "6"}, shape=(3, 512, 512), dtype=np.dtype("f4"), block_yx=(256, 256), threads=1
    ... )
    >>> options["COMPRESS"], options["ZLEVEL"], options["PREDICTOR"], options["BIGTIFF"]
    ('DEFLATE', '6', '3', 'NO')
    """
    chosen: dict[str, str] = {}
    for name, value in given.items():
        key = name.upper()
        if key not in GTIFF_OPTIONS:
            near = difflib.get_close_matches(key, GTIFF_OPTIONS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"--creation-option {name}: GeoTIFF has no such option{hint}")
        if key in chosen:
            raise UsageError(f"--creation-option {name}: given twice")
        chosen[key] = str(value)
    compression = chosen.get("COMPRESS", "DEFLATE").upper()
    options = {
        "TILED": "YES",
        "BLOCKXSIZE": str(block_yx[1]),
        "BLOCKYSIZE": str(block_yx[0]),
        "COMPRESS": compression,
        "BIGTIFF": "YES" if _may_pass_limit(shape, dtype, block_yx) else "NO",
    }
    if compression == "DEFLATE":
        options["ZLEVEL"] = "1"  # on floats with predictor 3 level 6 is no smaller, and 1.4 times slower
    if compression in WITH_PREDICTOR and "NBITS" not in chosen:
        options["PREDICTOR"] = "3" if dtype.kind == "f" else "2"
    if threads > 1 and compression != "NONE":
        options["NUM_THREADS"] = str(threads)
    return {**options, **chosen}


def _may_pass_limit(shape: tuple[int, int, int], dtype: np.dtype[np.generic], block_yx: tuple[int, int]) -> bool:
    """Whether the file could pass 4 GiB: GDAL's IF_NEEDED trusts compression to prevent it, and fails
    late."""
    bands, rows, cols = shape
    tiles = -(-rows // block_yx[0]) * -(-cols // block_yx[1])
    pixels = tiles * block_yx[0] * block_yx[1] * bands * dtype.itemsize
    # Overviews add up to a third, values that don't compress up to 1%, a tile's place in the index 16 bytes.
    return pixels * 4 / 3 * 1.01 + tiles * bands * 16 + (1 << 20) >= TIFF_LIMIT_BYTES

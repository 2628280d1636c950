"""GDAL's creation options for GeoTIFF: their names, checked, because GDAL takes a misspelt one in silence."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import numpy as np

from geotfr.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["GTIFF_OPTIONS", "check_lossless", "creation_options"]

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

LOSSLESS = ("NONE", "DEFLATE", "ZSTD", "LZW", "LZMA", "PACKBITS", "LERC", "LERC_DEFLATE", "LERC_ZSTD")
_TRUE = ("YES", "TRUE", "ON", "1")


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
        For an option that GDAL doesn't have, one given twice in different cases, or a lossy compression.

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
    check_lossless(chosen, webp=("WEBP_LOSSLESS", "YES"))
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


def check_lossless(chosen: Mapping[str, str], *, webp: tuple[str, str], allowed: Sequence[str] = LOSSLESS) -> None:
    """Refuse a compression that changes pixels: what is read back from the output must be what was written.

    ``webp`` is the driver's option, and its value, by which WEBP keeps them; ``allowed`` are those that always
    do.

    Raises
    ------
    UsageError
        A lossy compression, or one that isn't known.

    Examples
    --------
    >>> check_lossless({"COMPRESS": "JPEG"}, webp=("WEBP_LOSSLESS", "YES"))
    Traceback (most recent call last):
    geotfr.errors.UsageError: --creation-option COMPRESS: found 'JPEG'; allowed are NONE, DEFLATE, ZSTD, LZW, LZMA, \
PACKBITS, LERC, LERC_DEFLATE, LERC_ZSTD, which keep all pixels, and WEBP with WEBP_LOSSLESS=YES
    """
    compression = chosen.get("COMPRESS", "DEFLATE")
    given = chosen.get(webp[0], "").upper()
    is_lossless_webp = compression.upper() == "WEBP" and (given == webp[1] or (webp[1] in _TRUE and given in _TRUE))
    if compression.upper() not in allowed and not is_lossless_webp:
        raise UsageError(
            f"--creation-option COMPRESS: found {compression!r}; allowed are {', '.join(allowed)}, which keep all"
            f" pixels, and WEBP with {'='.join(webp)}"
        )
    for name in ("MAX_Z_ERROR", "DISCARD_LSB"):
        value = chosen.get(name, "0")
        if any(_is_not_zero(part) for part in value.split(",")):
            raise UsageError(f"--creation-option {name}: found {value!r}, which changes pixels; allowed is 0")


def _is_not_zero(text: str) -> bool:
    try:
        return float(text) != 0
    except ValueError:
        return True


def _may_pass_limit(shape: tuple[int, int, int], dtype: np.dtype[np.generic], block_yx: tuple[int, int]) -> bool:
    """Whether the file could pass 4 GiB: GDAL's IF_NEEDED trusts compression to prevent it, and fails
    late."""
    bands, rows, cols = shape
    tiles = -(-rows // block_yx[0]) * -(-cols // block_yx[1])
    pixels = tiles * block_yx[0] * block_yx[1] * bands * dtype.itemsize
    # Overviews add up to a third, values that don't compress up to 1%, a tile's place in the index 16 bytes.
    return pixels * 4 / 3 * 1.01 + tiles * bands * 16 + (1 << 20) >= TIFF_LIMIT_BYTES

"""The last copy: raster and overviews into one GeoTIFF or cloud-optimised GeoTIFF."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import rasterio.shutil

from geotfr.background import run_in_background
from geotfr.errors import UsageError
from geotfr.rasters import creation
from geotfr.rasters.safe_open import quiet_georeference, raster_env
from geotfr.rasters.sink import gdal_calls
from geotfr.rasters.write_error import DISK_HINT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np

__all__ = ["COG_OPTIONS", "cog_options", "copy_raster", "gtiff_copy_options"]

COG_OPTIONS = frozenset(
    [
        "BIGTIFF",
        "BLOCKSIZE",
        "COMPRESS",
        "GEOTIFF_VERSION",
        "LEVEL",
        "MAX_Z_ERROR",
        "MAX_Z_ERROR_OVERVIEW",
        "NBITS",
        "NUM_THREADS",
        "OVERVIEW_COMPRESS",
        "OVERVIEW_PREDICTOR",
        "OVERVIEW_QUALITY",
        "PREDICTOR",
        "QUALITY",
        "SPARSE_OK",
    ]
)
"""**Source**: the option list of GDAL 3.10's COG driver, without those that resample: the grid and the overviews are
made here. A test asks GDAL for each."""

_CACHE_BYTES = 32 << 20


def cog_options(
    given: Mapping[str, str], *, shape: tuple[int, int, int], dtype: np.dtype[np.generic], threads: int
) -> dict[str, str]:
    """All options for a new COG: tiles of 512, DEFLATE at level 1 with the type's predictor, and what is ``given``.

    Raises
    ------
    UsageError
        For an option that GDAL's COG driver doesn't have or that would change the grid, one given twice, or a lossy
        compression.
    """
    chosen: dict[str, str] = {}
    for name, value in given.items():
        key = name.upper()
        if key not in COG_OPTIONS:
            near = difflib.get_close_matches(key, COG_OPTIONS, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(sorted(COG_OPTIONS))}"
            raise UsageError(f"--creation-option {name}: not for a COG{hint}")
        if key in chosen:
            raise UsageError(f"--creation-option {name}: given twice")
        chosen[key] = str(value)
    side = chosen.get("BLOCKSIZE", "512")
    # GDAL 3.10 ends the process for some other values.
    if not (side.isascii() and side.isdecimal() and 128 <= int(side) <= 4096 and int(side) % 16 == 0):
        raise UsageError(f"--creation-option BLOCKSIZE: found {side!r}; allowed are multiples of 16 from 128 to 4096")
    creation.check_lossless(
        chosen, webp=("QUALITY", "100"), allowed=[name for name in creation.LOSSLESS if name != "PACKBITS"]
    )
    compression = chosen.get("COMPRESS", "DEFLATE").upper()
    options = {"COMPRESS": compression, "BLOCKSIZE": "512", "NUM_THREADS": str(threads)}
    options["BIGTIFF"] = creation.creation_options({}, shape=shape, dtype=dtype, block_yx=(512, 512), threads=1)[
        "BIGTIFF"
    ]
    if compression in creation.WITH_PREDICTOR:
        options["PREDICTOR"] = "YES"
    if compression in ("DEFLATE", "ZSTD"):
        options["LEVEL"] = "1"
    return {**options, **chosen, "OVERVIEWS": "FORCE_USE_EXISTING"}


def gtiff_copy_options(
    given: Mapping[str, str],
    *,
    shape: tuple[int, int, int],
    dtype: np.dtype[np.generic],
    block_yx: tuple[int, int],
    threads: int,
) -> dict[str, str]:
    """All options for a GeoTIFF with overviews; see :func:`geotfr.rasters.creation.creation_options`."""
    options = creation.creation_options(given, shape=shape, dtype=dtype, block_yx=block_yx, threads=threads)
    return {**options, "COPY_SRC_OVERVIEWS": "YES"}


def copy_raster(source: Path, target: Path, *, driver: str, options: Mapping[str, str]) -> None:
    """Copy ``source``, a VRT with overviews, to ``target``; a signal ends the wait at once.

    Raises
    ------
    UsageError
        For an option whose value GDAL doesn't take.
    OutputError
        If it can't be written; a GeoTIFF fails while it is written, a COG when it is closed.
    """

    def copy() -> None:
        # Env and the ear for complaints are a thread's own.
        with (
            raster_env(cache_bytes=_CACHE_BYTES),
            gdal_calls(str(target), "can't be written", DISK_HINT) as complaints,
            quiet_georeference(),
        ):
            rasterio.shutil.copy(str(source), str(target), driver=driver, **options)
        refused = [words for words in complaints.warnings if "option" in words or "value not recognised" in words]
        if refused:
            raise UsageError(f"--creation-option: {refused[0].partition(' in ')[2]}")

    run_in_background(copy)

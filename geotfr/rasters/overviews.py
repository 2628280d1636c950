"""A raster's overviews, level by level, each band by its own policy.

GDAL makes overviews of all bands by one method, and knows neither min nor max. So each level is a file of its own,
halved from the one below, and a VRT names them as the overviews of each band; GDAL then copies raster and overviews
together.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import rasterio
import rasterio.shutil

from geotfr.errors import OutputError
from geotfr.grid import GeoBox
from geotfr.patches.pyramid import halved, level_shapes
from geotfr.rasters.safe_open import GDAL_ERRORS, gdal_words, quiet_georeference, safe_open
from geotfr.rasters.sink import GeoTiffSink, gdal_calls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from rasterio.io import DatasetReader

    from geotfr.patches.pyramid import Policy

__all__ = ["STAGE_OPTIONS", "overview_shapes", "with_overviews", "write_levels"]

STAGE_OPTIONS = {"COMPRESS": "ZSTD", "ZSTD_LEVEL": "1"}
"""Creation options of files that GDAL reads once more: the fastest compression that spares the disk."""

_SMALLEST_LEVEL = 512
_SIDE = 512


def overview_shapes(shape_yx: tuple[int, int]) -> list[tuple[int, int]]:
    """(rows, columns) of the overviews of a raster, the largest first."""
    return level_shapes(shape_yx, smallest=_SMALLEST_LEVEL)


def write_levels(base: Path, policies: Sequence[Policy], *, threads: int) -> list[Path]:
    """The overview levels of ``base`` as GeoTIFFs beside it, the largest first.

    Parameters
    ----------
    base
        A GeoTIFF of this run.
    policies
        One for each band.

    Raises
    ------
    OutputError
        If a level can't be written.
    """
    levels: list[Path] = []
    with safe_open(base) as dataset:
        shapes = overview_shapes((dataset.height, dataset.width))
    below = base
    for number, shape in enumerate(shapes, 1):
        level = base.with_name(f"level-{number}.tif")
        _write_level(below, level, shape, policies, threads=threads)
        levels.append(level)
        below = level
    return levels


def with_overviews(base: Path, levels: Sequence[Path]) -> Path:
    """A VRT beside ``base`` that is ``base`` with ``levels`` as its overviews.

    Raises
    ------
    OutputError
        If it can't be written.
    """
    path = base.with_suffix(".vrt")
    with gdal_calls(str(path), "can't be written"), quiet_georeference():
        rasterio.shutil.copy(str(base), str(path), driver="VRT")
    try:
        tree = ET.parse(path)
        root = tree.getroot()
        for band in root.findall("VRTRasterBand"):
            _name_levels(band, levels, band.attrib["band"])
        for mask in root.findall("MaskBand/VRTRasterBand"):
            _name_levels(mask, levels, "mask,1")
        tree.write(path)
    except OSError as error:
        raise OutputError(f"{path}: can't be written: {error.strerror}") from error
    return path


def _name_levels(band: ET.Element, levels: Sequence[Path], source_band: str) -> None:
    for level in levels:
        overview = ET.SubElement(band, "Overview")
        ET.SubElement(overview, "SourceFilename", relativeToVRT="1").text = level.name
        ET.SubElement(overview, "SourceBand").text = source_band


def _write_level(below: Path, level: Path, shape: tuple[int, int], policies: Sequence[Policy], *, threads: int) -> None:
    with safe_open(below, threads=threads) as dataset:
        has_mask = dataset.nodata is None and rasterio.enums.MaskFlags.per_dataset in dataset.mask_flag_enums[0]
        sink = GeoTiffSink(
            level,
            geobox=GeoBox(shape_yx=shape, affine=tuple(dataset.transform)[:6], crs=""),
            dtype=dataset.dtypes[0],
            band_names=[""] * dataset.count,
            nodata=dataset.nodata,
            creation_options=STAGE_OPTIONS,
            threads=threads,
        )
        with sink:
            for row, col, window in _windows(shape, (dataset.height, dataset.width)):
                mask = _read(dataset, None, window) > 0 if has_mask else None
                bands, valid = [], []
                for index, policy in enumerate(policies, 1):
                    pixels = _read(dataset, index, window)
                    half, known = halved(pixels, _valid(pixels, dataset.nodata, mask), policy)
                    if dataset.nodata is not None:
                        half[known & (half == dataset.nodata)] = _beside(dataset.nodata, half.dtype)
                        half[~known] = dataset.nodata
                    elif half.dtype.kind == "f":
                        half[~known] = np.nan
                    bands.append(half)
                    valid.append(known)
                sink.write(row, col, np.stack(bands))
                if has_mask:
                    sink.write_mask(row, col, np.logical_or.reduce(valid))


def _windows(
    shape: tuple[int, int], below: tuple[int, int]
) -> Iterator[tuple[int, int, tuple[tuple[int, int], tuple[int, int]]]]:
    """(row, column) of squares of a level, and the window below each."""
    for row in range(0, shape[0], _SIDE):
        for col in range(0, shape[1], _SIDE):
            rows = 2 * row, min(2 * (row + _SIDE), below[0])
            yield row, col, (rows, (2 * col, min(2 * (col + _SIDE), below[1])))


def _read(dataset: DatasetReader, index: int | None, window: Any) -> NDArray[Any]:
    """The pixels of band ``index``, or the mask."""
    try:
        pixels: NDArray[Any] = (
            dataset.dataset_mask(window=window) if index is None else dataset.read(index, window=window)
        )
    except GDAL_ERRORS as error:
        raise OutputError(f"{dataset.name}: can't be read back: {gdal_words(error)}") from error
    return pixels


def _beside(nodata: float, dtype: np.dtype[Any]) -> float:
    """The value next to nodata, for a mean that is nodata by chance.

    **Source**: GDAL's overviews, which take the one above unless nodata is the greatest value.
    """
    if dtype.kind != "f":
        return nodata - 1 if nodata == np.iinfo(dtype).max else nodata + 1
    greatest = np.finfo(dtype).max
    return float(np.nextafter(dtype.type(nodata), dtype.type(0) if nodata == greatest else greatest))


def _valid(pixels: NDArray[Any], nodata: float | None, mask: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    valid = ~np.isnan(pixels) if pixels.dtype.kind == "f" else np.ones(pixels.shape, np.bool_)
    if nodata is not None:
        valid &= pixels != nodata
    if mask is not None:
        valid &= mask
    return valid

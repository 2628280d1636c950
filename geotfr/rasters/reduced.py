"""Rasters reduced to the size of a picture: every n-th pixel, with its mask, colours and names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from rasterio.errors import RasterioError

from geotfr.errors import InputError, MissingInputError, ReadError, UsageError
from geotfr.grid import GeoBox
from geotfr.patches.stretch import PERCENTILES, limits_of, shades
from geotfr.rasters.describe import describe_file
from geotfr.rasters.memory import MemoryRaster, is_memory_source, memory_raster
from geotfr.rasters.safe_open import GDAL_ERRORS, gdal_words, raster_env, safe_open, split_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from rasterio.io import DatasetReader

__all__ = ["ReducedRaster", "band_names", "picture_of", "read_reduced", "reduced_of"]

SIDE = 1024


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReducedRaster:
    """Some bands of a raster, reduced.

    Attributes
    ----------
    name
        Of the raster, without folder.
    geobox
        The whole raster's grid.
    names
        The bands' descriptions, or ``b1`` and so on.
    pixels
        (band, row, col) in the raster's type.
    valid
        (row, col), True where all bands are.
    colours
        The first band's colour table (value, 3) uint8, or None.
    """

    name: str
    geobox: GeoBox
    names: tuple[str, ...]
    pixels: NDArray[Any]
    valid: NDArray[np.bool_]
    colours: NDArray[np.uint8] | None

    @property
    def is_whole(self) -> bool:
        """Whether no pixel was left out."""
        return self.valid.shape == self.geobox.shape_yx


def read_reduced(source: Any, *, bands: Sequence[str | int] | None = None, side: int = SIDE) -> ReducedRaster:
    """A raster's bands, at most ``side`` pixels along the longer side.

    Parameters
    ----------
    source
        A path, or a raster in memory, see :func:`geotfr.rasters.memory.memory_raster`.
    bands
        Numbers from 1, or descriptions; by default the first three, or the first of one or two.

    Raises
    ------
    MissingInputError, InputError
        No raster, or none that can be opened.
    UsageError
        A band that isn't there.
    ReadError
        Its pixels can't be read.
    """
    if is_memory_source(source):
        return _of_memory(source, bands, side)
    path = os.fspath(source)
    with raster_env(), _opened(path) as dataset:
        try:
            return reduced_of(dataset, path, bands=bands, side=side)
        except GDAL_ERRORS as error:
            raise ReadError(f"{path}: can't be read: {gdal_words(error)}") from error


def band_names(source: Any) -> tuple[str, ...]:
    """The names of all bands of a raster, as :func:`read_reduced` takes them; raises as it does."""
    if is_memory_source(source):
        return _memory_names(memory_raster(source))
    with raster_env(), _opened(os.fspath(source)) as dataset:
        return _names(dataset)


def reduced_of(
    dataset: DatasetReader, path: str, *, bands: Sequence[str | int] | None = None, side: int = SIDE
) -> ReducedRaster:
    """As :func:`read_reduced`, of an open raster; GDAL's errors come as they are."""
    names = _names(dataset)
    chosen = _chosen(names, bands, path)
    if np.dtype(dataset.dtypes[chosen[0] - 1] if not dataset.dtypes[0].startswith("complex_") else "c8").kind == "c":
        raise InputError(f"{path}: complex pixels have no picture; export their parts with --complex")
    shape = _reduced_shape((dataset.height, dataset.width), side)
    pixels = dataset.read(chosen, out_shape=(len(chosen), *shape))
    valid = dataset.read_masks(chosen, out_shape=(len(chosen), *shape)).all(axis=0)
    return ReducedRaster(
        name=os.path.basename(path),  # noqa: PTH119  (a name as it is given)
        geobox=describe_file(dataset, path, allow_ungeoreferenced=True).geobox,
        names=tuple(names[number - 1] for number in chosen),
        pixels=pixels,
        valid=valid & _known(pixels),
        colours=_colours(dataset, chosen[0]),
    )


def picture_of(
    reduced: ReducedRaster, percentiles: tuple[float, float] = PERCENTILES, *, masked: int = 255
) -> NDArray[np.uint8]:
    """An RGB picture (3, row, col): by the colour table, or stretched; three bands are red, green and blue."""
    if reduced.colours is not None:
        rgb = np.moveaxis(reduced.colours[reduced.pixels[0]], -1, 0).copy()
    else:
        each = [shades(band, limits_of(band, reduced.valid, percentiles)) for band in reduced.pixels]
        rgb = np.stack(each if len(each) == 3 else each[:1] * 3)
    rgb[:, ~reduced.valid] = masked
    return np.ascontiguousarray(rgb)


def _opened(path: str) -> DatasetReader:
    if not os.path.exists(split_page(path)[0]):  # noqa: PTH110  (a name as it is given)
        raise MissingInputError(f"{path}: no such file; a raster is expected")
    return safe_open(path)


def _names(dataset: DatasetReader) -> tuple[str, ...]:
    try:
        descriptions = dataset.descriptions
    except UnicodeDecodeError:
        descriptions = (None,) * dataset.count
    return tuple(text or f"b{number}" for number, text in enumerate(descriptions, 1))


def _of_memory(source: Any, bands: Sequence[str | int] | None, side: int) -> ReducedRaster:
    raster = memory_raster(source)
    names = _memory_names(raster)
    chosen = _chosen(names, bands, "the array")
    rows, cols = raster.geobox.shape_yx
    height, width = _reduced_shape((rows, cols), side)
    # The middle of each pixel of the picture.
    at_rows = ((np.arange(height) + 0.5) * rows / height).astype(np.int64)
    at_cols = ((np.arange(width) + 0.5) * cols / width).astype(np.int64)
    # One axis at a time: lazy arrays take no more.
    pixels = np.asarray(raster.pixels[:, at_rows][:, :, at_cols][[number - 1 for number in chosen]])
    if pixels.dtype.kind == "c":
        raise InputError("the array: complex pixels have no picture; take their real or imaginary part")
    valid = _known(pixels)
    if raster.nodata is not None:
        valid &= (pixels != raster.nodata).all(axis=0)
    if raster.mask is not None:
        valid &= raster.mask[np.ix_(at_rows, at_cols)]
    return ReducedRaster(
        name="array",
        geobox=raster.geobox,
        names=tuple(names[number - 1] for number in chosen),
        pixels=pixels,
        valid=valid,
        colours=None,
    )


def _memory_names(raster: MemoryRaster) -> tuple[str, ...]:
    names = raster.names or ("",) * len(raster.pixels)
    return tuple(name or f"b{number}" for number, name in enumerate(names, 1))


def _reduced_shape(shape_yx: tuple[int, int], side: int) -> tuple[int, int]:
    factor = max(1.0, max(shape_yx) / side)
    return max(round(shape_yx[0] / factor), 1), max(round(shape_yx[1] / factor), 1)


def _chosen(names: Sequence[str], bands: Sequence[str | int] | None, path: str) -> list[int]:
    """Band numbers from 1."""
    if bands is None:
        return [1, 2, 3] if len(names) >= 3 else [1]
    found = []
    for band in bands:
        text = str(band).strip()
        number = names.index(text) + 1 if text in names else int(text) if text.isdecimal() else 0
        if not 1 <= number <= len(names):
            raise UsageError(
                f"bands: {path} has no band {text!r}; it has {', '.join(names[:12])}, or 1 to {len(names)}"
            )
        found.append(number)
    if not found:
        raise UsageError("bands: none are given; leave it out for the first ones")
    return found


def _known(pixels: NDArray[Any]) -> NDArray[np.bool_]:
    if pixels.dtype.kind != "f":
        return np.ones(pixels.shape[1:], np.bool_)
    known: NDArray[np.bool_] = ~np.isnan(pixels).any(axis=0)
    return known


def _colours(dataset: DatasetReader, band: int) -> NDArray[np.uint8] | None:
    """(value, 3) of a band's colour table, if it has one."""
    try:
        table = dataset.colormap(band)
    except (ValueError, RasterioError):
        return None
    found = np.zeros((1 << (8 * np.dtype(dataset.dtypes[band - 1]).itemsize), 3), np.uint8)
    for value, rgba in table.items():
        found[value] = rgba[:3]
    return found

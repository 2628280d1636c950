"""Rasters in memory: an array with its place on the ground, and a mask if it has one; lazy arrays too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import UsageError
from geotfr.grid import Affine6, GeoBox
from geotfr.grid.crs import crs_text, crs_wkt
from geotfr.rasters.data_array import is_data_array, read_data_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["MemoryRaster", "is_memory_source", "memory_raster"]

FORMS = "(array, transform, crs) or (array, transform, crs, mask), or an xarray DataArray"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryRaster:
    """A raster in memory.

    Attributes
    ----------
    pixels
        (band, row, column), of a type that a GeoTIFF has; the caller's own array where it has that form. A lazy one is
        computed where it is read.
    mask
        (row, column), True = valid; None: nothing masks but NaN and nodata.
    geobox
        Its grid.
    nodata
        The value of masked pixels, or None.
    names
        Of the bands, empty texts where they have none; or empty.
    chunk_yx
        (rows, columns) of a lazy array that are computed at once; None where the pixels are in memory.
    """

    pixels: NDArray[np.generic]
    mask: NDArray[np.bool_] | None
    geobox: GeoBox
    nodata: float | None = None
    names: tuple[str, ...] = ()
    chunk_yx: tuple[int, int] | None = None

    def read(self, indexes: Sequence[int], rows: slice, cols: slice) -> Sequence[NDArray[np.generic]]:
        """Bands ``indexes``, from 1, of a window; a lazy array is computed once for all of them."""
        if self.chunk_yx is None:
            return [self.pixels[index - 1, rows, cols] for index in indexes]
        found: NDArray[np.generic] = np.asarray(self.pixels[[index - 1 for index in indexes], rows, cols])
        return list(found)


def is_memory_source(source: object) -> bool:
    """Whether ``source`` is a tuple that begins with an array, or a labelled array, not a path."""
    return (isinstance(source, tuple) and len(source) > 0 and isinstance(source[0], np.ndarray)) or is_data_array(
        source
    )


def memory_raster(source: Any) -> MemoryRaster:
    """The raster that ``source`` holds, checked; its array isn't copied, and never changed.

    Parameters
    ----------
    source
        ``(array, transform, crs)`` or ``(array, transform, crs, mask)``: the array (row, column) or
        (band, row, column); the transform an ``affine.Affine`` or six numbers in its order, see
        :data:`geotfr.grid.Affine6`; the CRS a text, a CRS of pyproj or rasterio, or None; the mask (row, column), True
        = valid, or None. The valid pixels of a masked array are those that it doesn't mask. Or a ``DataArray`` of
        xarray, see :func:`geotfr.rasters.data_array.read_data_array`.

    Raises
    ------
    UsageError
        For another form, shape, type or transform.
    InputError
        For a CRS that pyproj can't parse.

    Examples
    --------
    >>> memory_raster((np.zeros((4, 5), np.uint8), (10, 0, 500, 0, -10, 800), "EPSG:32633")).geobox.shape_yx
    (4, 5)
    """
    if is_data_array(source):
        return _of_data_array(source)
    if len(source) not in (3, 4):
        raise UsageError(f"a source in memory is {FORMS}, found {len(source)} parts")
    array, transform, crs, mask = (*source, None)[:4]
    pixels = _plain(np.ma.getdata(array))
    return MemoryRaster(
        pixels=pixels,
        mask=_mask(array, mask, (pixels.shape[1], pixels.shape[2])),
        geobox=GeoBox(
            shape_yx=(pixels.shape[1], pixels.shape[2]), affine=_affine(transform), crs=_crs(crs) if crs else ""
        ),
    )


def _of_data_array(source: Any) -> MemoryRaster:
    found = read_data_array(source)
    pixels = _plain(found.data)
    rows, cols = pixels.shape[1:]
    return MemoryRaster(
        pixels=pixels,
        mask=None,
        geobox=GeoBox(shape_yx=(rows, cols), affine=_affine(found.affine), crs=_crs(found.crs) if found.crs else ""),
        nodata=found.nodata,
        names=found.names,
        chunk_yx=found.chunk_yx,
    )


def _plain(pixels: Any) -> Any:
    """``pixels`` as (band, row, column) of a type that a GeoTIFF has; lazy ones stay lazy."""
    if pixels.ndim not in (2, 3) or 0 in pixels.shape:
        raise UsageError(f"a source in memory: its array is (row, column) or (band, row, column), found {pixels.shape}")
    if pixels.ndim == 2:
        pixels = pixels[np.newaxis]
    if pixels.dtype.kind not in "biufc" or pixels.dtype.itemsize > (16 if pixels.dtype.kind == "c" else 8):
        raise UsageError(f"a source in memory: {pixels.dtype} is no type of pixels; use an integer or float type")
    if pixels.dtype.kind == "b":
        return pixels.view(np.uint8)
    if pixels.dtype == np.float16:
        return pixels.astype(np.float32)
    return pixels if pixels.dtype.isnative else pixels.astype(pixels.dtype.newbyteorder("="))


def _mask(array: Any, mask: Any, shape_yx: tuple[int, int]) -> NDArray[np.bool_] | None:
    found: list[NDArray[np.bool_]] = []
    if mask is not None:
        given = np.asarray(mask)
        if given.shape != shape_yx or given.dtype != np.bool_:
            raise UsageError(
                f"a source in memory: its mask is bool {shape_yx} (row, column), True = valid,"
                f" found {given.dtype} {given.shape}"
            )
        found.append(given)
    if np.ma.is_masked(array):
        hidden = np.ma.getmaskarray(array)
        found.append(np.logical_not(hidden if hidden.ndim == 2 else hidden.any(axis=0)))
    return np.logical_and.reduce(found) if found else None


def _affine(transform: Any) -> Affine6:
    try:
        a, b, c, d, e, f = (float(number) for number in tuple(transform)[:6])
    except (TypeError, ValueError) as error:
        raise UsageError(f"a source in memory: {transform!r} is no transform; give six numbers or an Affine") from error
    if not np.isfinite([a, b, c, d, e, f]).all() or a * e == b * d:
        raise UsageError(f"a source in memory: its transform {(a, b, c, d, e, f)} maps pixels to no area")
    return a, b, c, d, e, f


def _crs(crs: Any) -> str:
    if isinstance(crs, int) and not isinstance(crs, bool):
        crs = f"EPSG:{crs}"
    if not isinstance(crs, str) and not hasattr(crs, "to_wkt"):
        raise UsageError(f"a source in memory: its CRS is {crs!r}; allowed are text, an EPSG number, or a CRS object")
    return crs_text(crs_wkt(crs if isinstance(crs, str) else crs.to_wkt()))

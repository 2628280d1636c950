"""Rasters in memory: an array with its place on the ground, and a mask if it has one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import UsageError
from geotfr.grid import Affine6, GeoBox
from geotfr.grid.crs import crs_text, crs_wkt

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MemoryRaster", "is_memory_source", "memory_raster"]

FORMS = "(array, transform, crs) or (array, transform, crs, mask)"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryRaster:
    """A raster in memory.

    Attributes
    ----------
    pixels
        (band, row, column), of a type that a GeoTIFF has; the caller's own array where it has that form.
    mask
        (row, column), True = valid; None: nothing masks but NaN and nodata.
    geobox
        Its grid.
    """

    pixels: NDArray[np.generic]
    mask: NDArray[np.bool_] | None
    geobox: GeoBox


def is_memory_source(source: object) -> bool:
    """Whether ``source`` is a tuple that begins with an array, not a path."""
    return isinstance(source, tuple) and len(source) > 0 and isinstance(source[0], np.ndarray)


def memory_raster(source: tuple[Any, ...]) -> MemoryRaster:
    """The raster that the tuple ``source`` holds, checked; its array isn't copied, and never changed.

    Parameters
    ----------
    source
        ``(array, transform, crs)`` or ``(array, transform, crs, mask)``: the array (row, column) or
        (band, row, column); the transform an ``affine.Affine`` or six numbers in its order, see
        :data:`geotfr.grid.Affine6`; the CRS a text, a CRS of pyproj or rasterio, or None; the mask (row, column), True
        = valid, or None. The valid pixels of a masked array are those that it doesn't mask.

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
    if len(source) not in (3, 4):
        raise UsageError(f"a source in memory is {FORMS}, found {len(source)} parts")
    array, transform, crs, mask = (*source, None)[:4]
    pixels = np.ma.getdata(array)
    if pixels.ndim == 2:
        pixels = pixels[np.newaxis]
    if pixels.ndim != 3 or 0 in pixels.shape:
        raise UsageError(f"a source in memory: its array is (row, column) or (band, row, column), found {array.shape}")
    if pixels.dtype.kind not in "biufc" or pixels.dtype.itemsize > (16 if pixels.dtype.kind == "c" else 8):
        raise UsageError(f"a source in memory: {pixels.dtype} is no type of pixels; use an integer or float type")
    if pixels.dtype.kind == "b":
        pixels = pixels.view(np.uint8)
    elif pixels.dtype == np.float16:
        pixels = pixels.astype(np.float32)
    elif not pixels.dtype.isnative:
        pixels = pixels.astype(pixels.dtype.newbyteorder("="))
    return MemoryRaster(
        pixels=pixels,
        mask=_mask(array, mask, (pixels.shape[1], pixels.shape[2])),
        geobox=GeoBox(
            shape_yx=(pixels.shape[1], pixels.shape[2]), affine=_affine(transform), crs=_crs(crs) if crs else ""
        ),
    )


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

"""Shapes burnt into pixels, window by window, as over the whole grid at once.

Shapes are kept in pixel coordinates of the grid, (column, row) from its upper-left corner. A window's corner is whole
pixels away from there, so that GDAL computes with the same differences in it, and a pixel is burnt or not as in any
other window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import shapely
from rasterio.features import rasterize
from rasterio.transform import Affine

from geotfr.rasters.safe_open import quiet_georeference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geotfr.grid import GeoBox, Window

__all__ = ["BurntBand", "burnt_dtype", "in_pixels"]

# The types that GDAL burns into, the smallest first.
_DTYPES = tuple(np.dtype(name) for name in ("uint8", "uint16", "int16", "int32", "uint32"))


def burnt_dtype(values: Sequence[int]) -> np.dtype[np.generic]:
    """The smallest type that holds all ``values``, whole numbers of up to 32 bits.

    >>> burnt_dtype([0, 255]), burnt_dtype([-1, 3]), burnt_dtype([70_000])
    (dtype('uint8'), dtype('int16'), dtype('int32'))
    """
    low, high = min(values), max(values)
    for dtype in _DTYPES:
        limits = np.iinfo(dtype)
        if limits.min <= low and high <= limits.max:
            return dtype
    raise ValueError(f"no type of 32 bits holds both {low} and {high}")


def in_pixels(shapes: NDArray[np.object_], geobox: GeoBox) -> NDArray[np.object_]:
    """``shapes`` ``(n,)`` of the grid's CRS in its pixel coordinates (column, row); None stays None."""
    a, b, c, d, e, f = geobox.affine
    scale = a * e - b * d

    def moved(xy: NDArray[np.float64]) -> NDArray[np.float64]:
        x, y = xy[:, 0] - c, xy[:, 1] - f
        return np.stack([(e * x - b * y) / scale, (a * y - d * x) / scale], axis=1)

    return np.asarray(shapely.transform(shapes, moved), object)


class BurntBand:
    """A band that shapes are burnt into.

    Parameters
    ----------
    name
        The band's name.
    shapes
        ``(n,)`` shapely geometries in pixel coordinates, none missing; where they overlap, the later one is seen.
    values
        ``(n,)`` whole numbers, what each is burnt as.
    background
        What no shape is burnt into.
    dtype
        Holds the values and the background.
    all_touched
        Whether to burn all pixels that a shape touches, not only those whose centre is inside. Lines and points burn
        what they run through.
    """

    def __init__(
        self,
        name: str,
        shapes: NDArray[np.object_],
        values: NDArray[np.int64],
        *,
        background: int,
        dtype: np.dtype[np.generic],
        all_touched: bool,
    ) -> None:
        # GDAL takes no collections; a part is burnt as its whole.
        parts, whole = shapely.get_parts(shapes, return_index=True)
        is_collection = shapely.get_type_id(shapes) == shapely.GeometryType.GEOMETRYCOLLECTION
        self.name = name
        self.dtype = dtype
        if is_collection.any():
            self._shapes, self._values = parts, values[whole]
        else:
            self._shapes, self._values = shapes, values
        self._tree = shapely.STRtree(self._shapes)
        self._background = background
        self._all_touched = all_touched

    def read(self, window: Window, out: NDArray[np.generic]) -> None:
        """Fill ``out`` (row, col) with the pixels of ``window``."""
        near = shapely.box(window.col - 1, window.row - 1, window.col_stop + 1, window.row_stop + 1)
        found = np.sort(self._tree.query(near))
        out[...] = np.array(self._background, self.dtype)
        if not len(found):
            return
        # GDAL writes into memory of its own layout.
        pixels = np.full(out.shape, self._background, self.dtype)
        with quiet_georeference():
            rasterize(
                zip(self._shapes[found], self._values[found].tolist(), strict=True),
                out=pixels,
                transform=Affine.translation(window.col, window.row),
                all_touched=self._all_touched,
            )
        out[...] = pixels

    def close(self) -> None:
        """Nothing is open."""

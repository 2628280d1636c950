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

__all__ = ["REACH_PX", "BurntBand", "burnt_dtype", "cut_to_reach", "in_pixels"]

REACH_PX = 1 << 22
"""How far beyond the grid shapes are kept whole. GDAL walks along edges, and counts pixels in 32 bits."""

_FARTHEST_PX = 1e15
"""Where coordinates have no whole pixels any more, nearly."""

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
    """``shapes`` ``(n,)`` of the grid's CRS in its pixel coordinates (column, row); None stays None.

    Vertices too far away for a number become infinite.
    """
    a, b, c, d, e, f = geobox.affine
    scale = a * e - b * d

    def moved(xy: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(over="ignore", invalid="ignore"):
            x, y = xy[:, 0] - c, xy[:, 1] - f
            return np.stack([(e * x - b * y) / scale, (a * y - d * x) / scale], axis=1)

    return np.asarray(shapely.transform(shapes, moved), object)


def cut_to_reach(
    places: NDArray[np.object_], shape_yx: tuple[int, int]
) -> tuple[NDArray[np.object_], NDArray[np.bool_]]:
    """Shapes that reach far beyond the grid, cut off :data:`REACH_PX` away from it.

    Parameters
    ----------
    places
        ``(n,)`` shapes in pixel coordinates of the grid, none missing.
    shape_yx
        The grid's size.

    Returns
    -------
    places, is_cut
        The shapes, and where they were cut, ``(n,) bool``. A shape with a vertex too far away to be placed becomes
        None; one that is cut away whole is empty.
    """
    rows, cols = shape_yx
    left, top, right, bottom = shapely.bounds(places).reshape(-1, 4).T
    is_near = (left >= -REACH_PX) & (top >= -REACH_PX) & (right <= cols + REACH_PX) & (bottom <= rows + REACH_PX)
    xy, owner = shapely.get_coordinates(places, return_index=True)
    is_placed = np.ones(len(places), np.bool_)
    is_placed[owner[~(np.abs(xy) <= _FARTHEST_PX).all(axis=1)]] = False
    if (is_near & is_placed).all():
        return places, np.zeros(len(places), np.bool_)
    places = places.copy()
    places[~is_placed] = None
    is_cut = is_placed & ~is_near
    reach = shapely.box(-REACH_PX, -REACH_PX, cols + REACH_PX, rows + REACH_PX)
    places[is_cut] = shapely.intersection(shapely.make_valid(places[is_cut]), reach)
    return places, is_cut


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

"""A raster's bands on the grid of an export: cut where the raster's pixels are the grid's, warped where they aren't."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

from geotfr.errors import InputError
from geotfr.grid import Window
from geotfr.grid.crs import is_geographic, metres_per_unit, same_crs
from geotfr.grid.export_grid import LATTICE_PX, lattice_offset, to_pixels
from geotfr.grid.region import LON_LAT
from geotfr.rasters.describe import grid_words, outside
from geotfr.rasters.readers import distinct, make_reader
from geotfr.rasters.warp import WarpedLayer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geotfr.grid import GeoBox
    from geotfr.rasters.bands import SourceBand
    from geotfr.rasters.describe import SourceFile
    from geotfr.rasters.readers import BandReader
    from geotfr.rasters.request import Resampling

__all__ = ["JoinedLayer", "LatticeLayer", "Layer", "make_layer"]

TURN = 360.0
"""Degrees of longitude once round the Earth."""


class Layer(Protocol):
    """Bands of one raster, read by windows of the export's grid."""

    @property
    def block_shape_yx(self) -> tuple[int, int]:
        """(rows, columns) of the grid that are made together."""
        ...

    @property
    def block_bytes(self) -> int:
        """The least memory that reading takes."""
        ...

    @property
    def can_mask(self) -> bool:
        """Whether pixels may be masked, apart from the bands' own values."""
        ...

    @property
    def is_warped(self) -> bool:
        """Whether pixels are resampled."""
        ...

    def read(self, window: Window, out: Sequence[NDArray[np.generic]], kept: Sequence[NDArray[np.bool_]]) -> None:
        """As :meth:`BandReader.read`, in a window of the export's grid; pixels that the raster doesn't have are cleared
        in ``kept``."""
        ...

    def close(self) -> None:
        """Close the handles; a later read opens them again."""
        ...


def make_layer(
    file: SourceFile,
    bands: Sequence[SourceBand],
    grid: GeoBox,
    *,
    resampling: Resampling,
    allow_drivers: Sequence[str],
    threads: int,
) -> Layer:
    """The layer of ``bands`` of ``file`` on ``grid``.

    Longitudes come round after 360 degrees: a raster in degrees fills the columns of a grid in degrees on each turn of
    the Earth that both meet.

    Raises
    ------
    InputError
        If ``file`` lies outside ``grid``, has no CRS to warp it by, or its ends can't be joined in ``grid``.
    """

    def layer(file: SourceFile, grid: GeoBox) -> Layer:
        if same_crs(file.geobox.crs, grid.crs):
            offset = lattice_offset(grid, file.geobox)
            if offset is not None:
                indexes = tuple(band.index for band in bands)
                reader = make_reader(file, indexes, allow_drivers=allow_drivers, threads=threads)
                return LatticeLayer(reader, file, grid, offset)
        return WarpedLayer(file, bands, grid, resampling=resampling, allow_drivers=allow_drivers, threads=threads)

    if (not file.geobox.crs or not grid.crs) and file.geobox.crs != grid.crs:
        raise InputError(
            f"{file.path}: {grid_words(file.geobox)}, but the export: {grid_words(grid)}; one of them has no CRS, so"
            " none can be warped onto the other; say which one with --crs"
        )
    turns = _turns(file.geobox, grid)
    if len(turns) < 2:
        return layer(_turned(file, turns[0]) if turns else file, grid)
    if any(box.affine[1] or box.affine[3] for box in (file.geobox, grid)) or grid.affine[0] < 0:
        raise InputError(
            f"{file.path}: {grid_words(file.geobox)}: the export's grid lies across its ends: {grid_words(grid)}; they"
            " can't be joined on a rotated or mirrored grid; export both sides on their own"
        )
    parts = _parts(file.geobox, grid, turns)
    layers = [layer(_turned(file, turn), _columns(grid, cols)) for turn, cols in parts]
    return JoinedLayer(layers, [cols for _, cols in parts])


def _turns(geobox: GeoBox, grid: GeoBox) -> list[int]:
    """By how many turns of 360 degrees the raster ``geobox`` is moved to meet ``grid``: all ways, from west to east;
    none unless both are in degrees."""
    if not (_is_in_degrees(geobox.crs) and _is_in_degrees(grid.crs)):
        return []
    (west, _, east, _), (least, _, most, _) = geobox.bounds(), grid.bounds()
    slack = LATTICE_PX * (east - west) / geobox.shape_yx[1]
    if west - slack <= least and most <= east + slack:
        return [0]  # a raster a little more than 360 degrees wide would also meet it elsewhere
    from shapely import Polygon, box

    rows, cols = geobox.shape_yx
    raster = box(LATTICE_PX, LATTICE_PX, cols - LATTICE_PX, rows - LATTICE_PX)
    height, width = grid.shape_yx
    corners = np.array([grid.xy(*corner) for corner in ((0, 0), (width, 0), (width, height), (0, height))])
    return [
        turn
        for turn in range(math.floor((least - east) / TURN), math.ceil((most - west) / TURN) + 1)
        if raster.intersects(Polygon(to_pixels(geobox.affine, corners - (turn * TURN, 0.0))))
    ]


def _is_in_degrees(crs: str) -> bool:
    return is_geographic(crs) and math.isclose(metres_per_unit(crs), metres_per_unit(LON_LAT))


def _turned(file: SourceFile, turn: int) -> SourceFile:
    """``file`` moved by ``turn`` turns of 360 degrees to the east."""
    a, b, c, d, e, f = file.geobox.affine
    return replace(file, geobox=replace(file.geobox, affine=(a, b, c + turn * TURN, d, e, f)))


def _parts(geobox: GeoBox, grid: GeoBox, turns: Sequence[int]) -> list[tuple[int, range]]:
    """(turn, columns of ``grid``) from left to right, each turn of the raster ``geobox`` up to where the next begins.

    A column goes by its middle.
    """
    west, width = geobox.bounds()[0], grid.shape_yx[1]
    side, start = grid.affine[0], grid.affine[2]
    firsts = [math.ceil((west + turn * TURN - start) / side - 0.5 - LATTICE_PX) for turn in turns]
    ends = [0, *(min(max(first, 0), width) for first in firsts[1:]), width]
    return [(turn, range(*cols)) for turn, cols in zip(turns, pairwise(ends), strict=True) if cols[0] < cols[1]]


def _columns(grid: GeoBox, cols: range) -> GeoBox:
    """Columns ``cols`` of ``grid``."""
    a, b, _, d, e, _ = grid.affine
    x, y = grid.xy(cols.start, 0)
    return replace(grid, shape_yx=(grid.shape_yx[0], len(cols)), affine=(a, b, x, d, e, y))


class JoinedLayer:
    """Layers side by side: each has some columns of the grid.

    Where they are warped, the kernels of each see its own pixels alone, as at the end of any raster.
    """

    def __init__(self, layers: Sequence[Layer], columns: Sequence[range]) -> None:
        self._layers = layers
        self._columns = columns

    @property
    def block_shape_yx(self) -> tuple[int, int]:
        """The greatest of the layers' blocks."""
        rows, cols = zip(*(layer.block_shape_yx for layer in self._layers), strict=True)
        return max(rows), max(cols)

    @property
    def block_bytes(self) -> int:
        """What all layers take together."""
        return sum(layer.block_bytes for layer in self._layers)

    @property
    def can_mask(self) -> bool:
        """Whether any layer can."""
        return any(layer.can_mask for layer in self._layers)

    @property
    def is_warped(self) -> bool:
        """Whether any layer is."""
        return any(layer.is_warped for layer in self._layers)

    @property
    def is_mixed(self) -> bool:
        """Whether some layers are cut and others warped: the raster's ends don't meet on the edge of a pixel."""
        return len({layer.is_warped for layer in self._layers}) > 1

    def read(self, window: Window, out: Sequence[NDArray[np.generic]], kept: Sequence[NDArray[np.bool_]]) -> None:
        """See :meth:`Layer.read`."""
        every = slice(None)
        for layer, cols in zip(self._layers, self._columns, strict=True):
            first, stop = max(window.col, cols.start), min(window.col_stop, cols.stop)
            if first < stop:
                part = replace(window, col=first - cols.start, width=stop - first)
                places = slice(first - window.col, stop - window.col)
                layer.read(part, [pixels[:, places] for pixels in out], _views(kept, every, places))

    def close(self) -> None:
        """Close all layers; a later read opens them again."""
        for layer in self._layers:
            layer.close()


class LatticeLayer:
    """Bands of a raster whose pixels are those of the grid, shifted by whole rows and columns; they are never
    resampled."""

    is_warped = False

    def __init__(self, reader: BandReader, file: SourceFile, grid: GeoBox, offset_rc: tuple[int, int]) -> None:
        self._reader = reader
        self._shape_yx = file.geobox.shape_yx
        self._offset_rc = offset_rc
        self._has_mask = file.has_mask
        self.block_shape_yx = file.block_shape_yx
        self.block_bytes = file.block_bytes
        rows, cols = grid.shape_yx
        wanted = Window(row=offset_rc[0], col=offset_rc[1], height=rows, width=cols)
        inside = wanted.clipped(self._shape_yx)
        self._is_covering = inside == wanted
        if not inside.height or not inside.width:
            raise outside(file, grid)

    @property
    def can_mask(self) -> bool:
        """Whether the raster has masks, or ends within the grid."""
        return self._has_mask or not self._is_covering

    def read(self, window: Window, out: Sequence[NDArray[np.generic]], kept: Sequence[NDArray[np.bool_]]) -> None:
        """See :meth:`Layer.read`."""
        rows, cols = self._offset_rc
        there = Window(row=window.row + rows, col=window.col + cols, height=window.height, width=window.width)
        inside = there.clipped(self._shape_yx)
        if inside == there:
            self._reader.read(there, out, kept)
            return
        lines = slice(inside.row - there.row, inside.row_stop - there.row)
        places = slice(inside.col - there.col, inside.col_stop - there.col)
        for pixels in out:
            pixels.fill(0)
        for valid in distinct(kept):
            beside = np.ones(valid.shape, np.bool_)
            if inside.height and inside.width:
                beside[lines, places] = False
            valid[beside] = False
        if inside.height and inside.width:
            self._reader.read(inside, [pixels[lines, places] for pixels in out], _views(kept, lines, places))

    def close(self) -> None:
        """Close the raster; a later read opens it again."""
        self._reader.close()


def _views(arrays: Sequence[NDArray[np.bool_]], rows: slice, cols: slice) -> list[NDArray[np.bool_]]:
    """Views of ``arrays``, one object for each object."""
    views = {id(array): array[rows, cols] for array in arrays}
    return [views[id(array)] for array in arrays]

"""A raster's bands on the grid of an export: cut where the raster's pixels are the grid's, warped where they aren't."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from geotfr.errors import InputError
from geotfr.grid import Window
from geotfr.grid.crs import same_crs
from geotfr.grid.export_grid import lattice_offset
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

__all__ = ["LatticeLayer", "Layer", "make_layer"]


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

    Raises
    ------
    InputError
        If ``file`` lies outside ``grid``, or has no CRS to warp it by.
    """
    if same_crs(file.geobox.crs, grid.crs):
        offset = lattice_offset(grid, file.geobox)
        if offset is not None:
            indexes = tuple(band.index for band in bands)
            reader = make_reader(file, indexes, allow_drivers=allow_drivers, threads=threads)
            return LatticeLayer(reader, file, grid, offset)
    elif not file.geobox.crs or not grid.crs:
        raise InputError(
            f"{file.path}: {grid_words(file.geobox)}, but the export: {grid_words(grid)}; one of them has no CRS, so"
            " none can be warped onto the other; say which one with --crs"
        )
    return WarpedLayer(file, bands, grid, resampling=resampling, allow_drivers=allow_drivers, threads=threads)


class LatticeLayer:
    """Bands of a raster whose pixels are those of the grid, shifted by whole rows and columns; they are never
    resampled."""

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

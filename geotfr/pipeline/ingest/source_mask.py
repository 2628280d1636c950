"""The mask of the pixels that the predictions were made from, put back: no data, no prediction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from geotfr.errors import MissingInputError, UsageError
from geotfr.grid import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geotfr.mixer.sets import PredictionSet
    from geotfr.pipeline.ingest.output_grid import OutputGrid
    from geotfr.rasters.source import RasterSource

__all__ = ["FROM_MANIFEST", "SourceMask", "open_source_mask"]

FROM_MANIFEST = "manifest"
"""In place of a raster's name: the sources that the manifest lists."""


class SourceMask:
    """Where a raster on the output's grid is valid in all bands, patch by patch."""

    def __init__(self, source: RasterSource, grid: OutputGrid) -> None:
        self._grid = grid
        self._source = source

    def patches(self, row: int, column: int, count: int) -> NDArray[np.bool_]:
        """Validity ``(patch, row, col)`` of ``count`` patches of patch row ``row``; False beyond the grid.

        Raises
        ------
        ReadError
            If the raster can't be read.
        """
        height, width = self._grid.patch_yx
        whole = Window(row=row * height, col=column * width, height=height, width=count * width)
        inside = whole.clipped(self._grid.geobox.shape_yx)
        valid = np.zeros((height, count * width), np.bool_)
        if inside.height and inside.width:
            shape = inside.height, inside.width
            pixels = [np.empty(shape, band.dtype) for band in self._source.bands]
            known = np.empty(shape, np.bool_)
            self._source.read(inside, pixels, known)
            valid[: inside.height, : inside.width] = known
        return valid.reshape(height, count, width).transpose(1, 0, 2)

    def close(self) -> None:
        """Close the raster; a later read opens it again."""
        self._source.close()


def open_source_mask(mask_from: str, grid: OutputGrid, found: PredictionSet | None = None) -> SourceMask:
    """Where the raster ``mask_from``, or the sources of the set's manifest, are valid; warped by nearest onto the grid.

    Raises
    ------
    UsageError
        No manifest, or a source that is another file than it lists.
    MissingInputError, InputError
        A raster that isn't there or can't be used.
    """
    paths = [mask_from] if found is None or mask_from != FROM_MANIFEST else _listed(found)
    return SourceMask(_opened(paths, grid), grid)


def _listed(found: PredictionSet) -> list[str]:
    manifest = found.manifest
    if manifest is None:
        raise UsageError(f"mask_from: no manifest beside {found.mixer_path}; name the raster instead")
    paths = [found.mixer_path.parent / source.name for source in manifest.sources]
    for path, source in zip(paths, manifest.sources, strict=True):
        if not path.is_file():
            raise MissingInputError(
                f"{path}: the manifest's source isn't beside it; name where it is: --mask-from FILE"
            )
        if path.stat().st_size != source.bytes:
            raise UsageError(
                f"mask_from: {path} has {path.stat().st_size} bytes, the manifest's source {source.bytes}: another"
                " file; name the right one: --mask-from FILE"
            )
    return [str(Path(path)) for path in paths]


def _opened(paths: list[str], grid: OutputGrid) -> RasterSource:
    from geotfr.grid.export_grid import GridRequest
    from geotfr.rasters.request import SourceRequest
    from geotfr.rasters.source import open_export_source

    rows, cols = grid.geobox.shape_yx
    request = GridRequest(crs=grid.geobox.crs or None, crs_transform=grid.geobox.affine, dimensions=(cols, rows))
    return open_export_source(paths, SourceRequest(grid=request))

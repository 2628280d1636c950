"""What the tests of sources share: reading all of a source, or a window of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.grid import Window
from geotfr.grid.export_grid import GridRequest
from geotfr.rasters.request import SourceRequest
from geotfr.rasters.source import RasterSource, open_export_source

if TYPE_CHECKING:
    from collections.abc import Sequence

GRID_NAMES = ("region", "crs", "crs_transform", "scale", "dimensions", "clip_region")


def opened(specs: Sequence[Any], **options: Any) -> RasterSource:
    """The source of ``specs``; options of the grid and of the source in one."""
    grid = {name: options.pop(name) for name in GRID_NAMES if name in options}
    return open_export_source(
        [spec if isinstance(spec, tuple) else str(spec) for spec in specs],
        SourceRequest(grid=GridRequest(**grid), **options),
    )


def whole(source: RasterSource) -> Window:
    rows, cols = source.geobox.shape_yx
    return Window(row=0, col=0, height=rows, width=cols)


def read(source: RasterSource, window: Window | None = None) -> tuple[list[np.ndarray], np.ndarray]:
    """(the bands' pixels, what is valid in all)."""
    window = window or whole(source)
    out = [np.empty((window.height, window.width), band.dtype) for band in source.bands]
    valid = np.empty((window.height, window.width), bool)
    source.read(window, out, valid)
    return out, valid


def read_each(source: RasterSource) -> tuple[list[np.ndarray], np.ndarray, list[np.ndarray]]:
    """(the bands' pixels, what masks whole pixels, what is valid in each band)."""
    window = whole(source)
    out = [np.empty((window.height, window.width), band.dtype) for band in source.bands]
    valid = np.empty((window.height, window.width), bool)
    each = [np.empty((window.height, window.width), bool) for _ in source.bands]
    source.read(window, out, valid, each)
    return out, valid, each

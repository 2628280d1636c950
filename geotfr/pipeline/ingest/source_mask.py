"""The mask of the pixels that the predictions were made from, put back: no data, no prediction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import MissingInputError, UsageError
from geotfr.grid import Window
from geotfr.mixer.names import plain_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geotfr.mixer.sets import PredictionSet
    from geotfr.options import IngestOptions
    from geotfr.pipeline.ingest.output_grid import OutputGrid
    from geotfr.rasters.source import RasterSource, SourceSpec

__all__ = ["FROM_MANIFEST", "SourceMask", "manifest_sources", "open_source_mask"]

FROM_MANIFEST = "manifest"
"""In place of a raster's name: the sources that the manifest lists."""
_SCANNED_PIXELS = 1 << 22


class SourceMask:
    """Where rasters on the output's grid are valid in all bands, patch by patch.

    Attributes
    ----------
    warnings
        How a raster was understood, one line each.
    """

    def __init__(
        self, sources: Sequence[RasterSource], grid: OutputGrid, *, masks: Sequence[RasterSource] = ()
    ) -> None:
        self._grid = grid
        self._sources = tuple(sources)
        # Their zeros mask too.
        self._masks = tuple(masks)
        self.warnings: tuple[str, ...] = ()

    def patches(self, row: int, column: int, count: int) -> NDArray[np.bool_]:
        """Validity ``(patch, row, col)`` of ``count`` patches of patch row ``row``; False beyond the grid.

        Raises
        ------
        ReadError
            If a raster can't be read.
        """
        height, width = self._grid.patch_yx
        whole = Window(row=row * height, col=column * width, height=height, width=count * width)
        inside = whole.clipped(self._grid.geobox.shape_yx)
        valid = np.zeros((height, count * width), np.bool_)
        if inside.height and inside.width:
            found = [_read(source, inside)[1] for source in self._sources]
            for mask in self._masks:
                pixels, known = _read(mask, inside)
                found += [known, *(band != 0 for band in pixels)]
            valid[: inside.height, : inside.width] = np.logical_and.reduce(found)
        return valid.reshape(height, count, width).transpose(1, 0, 2)

    def reopened(self) -> SourceMask:
        """The same mask with handles of its own."""
        sources, masks = ([each.reopen() for each in rasters] for rasters in (self._sources, self._masks))
        return SourceMask(sources, self._grid, masks=masks)

    def close(self) -> None:
        """Close the rasters; a later read opens them again."""
        for source in (*self._sources, *self._masks):
            source.close()


def open_source_mask(
    options: IngestOptions,
    grid: OutputGrid,
    found: PredictionSet | None = None,
    *,
    own: RasterSource | None = None,
) -> SourceMask:
    """Where the rasters of ``mask_from`` are valid, for ``manifest`` the sources of the set; warped by nearest.

    A raster of one band that holds 0 and 1 alone masks by its zeros, as the masks of an export do. A raster of the
    caller's ``own`` masks too.

    Raises
    ------
    UsageError
        No manifest, or a source that is another file than it lists.
    DamagedError
        The manifest names a source in another folder.
    MissingInputError, InputError
        A raster that isn't there or can't be used.
    """
    from geotfr.rasters.source import SourceSpec, parse_source

    sources = [] if own is None else [own]
    masks: list[RasterSource] = []
    warnings: list[str] = []
    for name in options.mask_from:
        if found is not None and name == FROM_MANIFEST:
            listed = manifest_sources(found, options)
            _check_listed(found, listed)
            sources.append(_opened([SourceSpec(str(path)) for path in listed], grid))
            for path, band in _masks_listed(found, listed):
                masks.append(_opened([SourceSpec(str(path), band)], grid))
        else:
            raster = _opened([parse_source(name)], grid)
            is_mask = _holds_zeros_and_ones(raster)
            (masks if is_mask else sources).append(raster)
            if is_mask:
                warnings.append(f"mask_from: {name} holds 0 and 1 alone: it masks where it is 0, as --mask does")
    mask = SourceMask(sources, grid, masks=masks)
    mask.warnings = tuple(warnings)
    return mask


def manifest_sources(found: PredictionSet, options: IngestOptions) -> list[Path]:
    """The sources that the set's manifest lists, beside it or in the folder ``sources``; never where a name leads.

    Raises
    ------
    UsageError
        There is no manifest.
    DamagedError
        It names a source in another folder.
    """
    manifest = found.manifest
    if manifest is None:
        raise UsageError(f"mask_from: no manifest beside {found.mixer_path}; name the raster instead")
    folder = found.mixer_path.parent if options.sources is None else Path(options.sources)
    return [folder / plain_name(each.name, where=found.mixer_path, what="source") for each in manifest.sources]


def _check_listed(found: PredictionSet, paths: Sequence[Path]) -> None:
    """Refuse sources that aren't there, or are other files than the manifest lists."""
    assert found.manifest is not None
    for path, source in zip(paths, found.manifest.sources, strict=True):
        if not path.is_file():
            raise MissingInputError(
                f"{path}: no such file, and the manifest's source is looked for nowhere else; name its folder:"
                " --sources FOLDER (sources=), or the raster: --mask-from FILE"
            )
        if path.stat().st_size != source.bytes:
            raise UsageError(
                f"mask_from: {path} has {path.stat().st_size} bytes, the manifest's source {source.bytes}: another"
                " file; name the right one: --mask-from FILE"
            )


def _masks_listed(found: PredictionSet, paths: Sequence[Path]) -> list[tuple[Path, int | None]]:
    """(path, band) of the sources whose zeros masked in the export."""
    assert found.manifest is not None
    by_name = {path.name: path for path in paths}
    given = found.manifest.options.get("masks") or ()
    texts = [text for text in given if isinstance(text, str)] if isinstance(given, list) else []
    masks: list[tuple[Path, int | None]] = []
    for text in texts:
        name, _, band = text.rpartition(":")
        if text in by_name:
            masks.append((by_name[text], None))
        elif name in by_name and band.isdecimal():
            masks.append((by_name[name], int(band)))
    return masks


def _holds_zeros_and_ones(raster: RasterSource) -> bool:
    """Whether the raster has one band, and 0 and 1 are the values of all its valid pixels; some are 0."""
    if len(raster.bands) != 1:
        return False
    rows, cols = raster.geobox.shape_yx
    step = max(_SCANNED_PIXELS // max(cols, 1), 1)
    has_zeros = False
    for row in range(0, rows, step):
        (pixels,), valid = _read(raster, Window(row=row, col=0, height=min(step, rows - row), width=cols))
        if not np.isin(pixels[valid], (0, 1)).all():
            return False
        has_zeros = has_zeros or bool((pixels[valid] == 0).any())
    return has_zeros


def _read(source: RasterSource, window: Window) -> tuple[list[NDArray[Any]], NDArray[np.bool_]]:
    """The bands' pixels ``(row, col)`` of a window, and where all of them are valid."""
    shape = window.height, window.width
    pixels: list[NDArray[Any]] = [np.empty(shape, band.dtype) for band in source.bands]
    valid = np.empty(shape, np.bool_)
    source.read(window, pixels, valid)
    return pixels, valid


def _opened(specs: Sequence[SourceSpec], grid: OutputGrid) -> RasterSource:
    from geotfr.grid.export_grid import GridRequest
    from geotfr.rasters.request import SourceRequest
    from geotfr.rasters.source import open_export_source

    rows, cols = grid.geobox.shape_yx
    request = GridRequest(crs=grid.geobox.crs or None, crs_transform=grid.geobox.affine, dimensions=(cols, rows))
    return open_export_source(specs, SourceRequest(grid=request))

"""The grid of the predictions: the patches' own, coarser, finer, or one pixel for a patch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from geotfr.errors import UsageError
from geotfr.grid import GeoBox
from geotfr.mixer import Mixer
from geotfr.mixer.sets import PredictionSet, find_shards
from geotfr.options import parse_pair_yx

if TYPE_CHECKING:
    from collections.abc import Iterable

    from geotfr.options import IngestOptions, PairXY

__all__ = ["OutputGrid", "grid_of", "output_grid", "set_on_raster"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputGrid:
    """Where predictions lie.

    Attributes
    ----------
    geobox
        The output's grid; where the export padded its edge, cut to the raster's true size.
    patch_yx
        (rows, columns) of the output's pixels in a patch.
    kernel_yx
        (rows, columns) of the kernel in the output's pixels; None where it isn't known.
    rows, columns
        Patches of the grid.
    """

    geobox: GeoBox
    patch_yx: tuple[int, int]
    kernel_yx: tuple[int, int] | None
    rows: int
    columns: int


def output_grid(found: PredictionSet, options: IngestOptions) -> OutputGrid:
    """The grid that a mixer, the manifest beside it and the options make.

    Raises
    ------
    UsageError
        A patch that isn't whole coarser pixels.
    """
    manifest = found.manifest
    whole = found.geobox or found.mixer.geobox
    if manifest is not None and manifest.pads_edge:
        whole = manifest.geobox
    return grid_of(found.mixer, whole, manifest.kernel_yx if manifest else None, options)


def grid_of(mixer: Mixer, whole: GeoBox, kernel_yx: tuple[int, int] | None, options: IngestOptions) -> OutputGrid:
    """The grid of predictions for a mixer's patches.

    Parameters
    ----------
    whole
        The raster's true size, where a padded edge reaches beyond it; else the mixer's grid.
    kernel_yx
        The kernel of the patches, where it is known and the options don't tell it.

    Raises
    ------
    UsageError
        A patch that isn't whole coarser pixels.
    """
    width, height = mixer.patch_xy
    kernel = options.kernel_yx or kernel_yx
    patch = (height * options.finer, width * options.finer)
    if options.per_patch == "pixel":
        patch, kernel = (1, 1), (1, 1)
    elif options.coarser > 1:
        if height % options.coarser or width % options.coarser:
            raise UsageError(
                f"coarser: {options.coarser} pixels don't divide the patch of {width} x {height}; allowed are divisors"
                " of both sides"
            )
        patch = (height // options.coarser, width // options.coarser)
    if kernel is not None and patch != (height, width):
        kernel = _scaled(kernel, patch, (height, width))
    return OutputGrid(
        geobox=_resampled(whole, patch, (height, width)),
        patch_yx=patch,
        kernel_yx=kernel,
        rows=mixer.rows,
        columns=mixer.patches_per_row,
    )


def _scaled(kernel: tuple[int, int], patch: tuple[int, int], old: tuple[int, int]) -> tuple[int, int]:
    """The kernel in the output's pixels; without margin where that isn't whole: such predictions come trimmed."""
    margins = [(k // 2 * new, side) for k, new, side in zip(kernel, patch, old, strict=True)]
    if any(pixels % side for pixels, side in margins):
        return 1, 1
    (rows, height), (cols, width) = margins
    return max(2 * (rows // height), 1), max(2 * (cols // width), 1)


def _resampled(geobox: GeoBox, patch: tuple[int, int], old: tuple[int, int]) -> GeoBox:
    """``geobox`` with ``patch`` pixels where it has ``old`` ones; a partial pixel at the edge is kept."""
    if patch == old:
        return geobox
    a, b, c, d, e, f = geobox.affine
    (height, width), (rows, cols) = patch, geobox.shape_yx
    x, y = old[1] / width, old[0] / height
    return GeoBox(
        shape_yx=(-(-rows * height // old[0]), -(-cols * width // old[1])),
        affine=(a * x, b * y, c, d * x, e * y, f),
        crs=geobox.crs,
    )


def set_on_raster(
    grid: str | os.PathLike[str],
    patch_dimensions: PairXY | None,
    shards: Iterable[str | os.PathLike[str]],
    *,
    edge: str,
    shard_order: str,
) -> PredictionSet:
    """Shards of patches that another tool cut out of the raster ``grid``, row-major from its upper-left corner.

    ``edge`` tells whether partial patches along the lower and the right edge were left out (``drop``) or filled up
    (``pad``).

    Raises
    ------
    UsageError
        No patch size, or one larger than the raster.
    """
    from geotfr.rasters.source import open_sources

    if patch_dimensions is None:
        raise UsageError("grid: the raster alone doesn't tell the patches; give --patch-dimensions too")
    height, width = parse_pair_yx("patch_dimensions", patch_dimensions, least=1)
    with open_sources([os.fspath(grid)]) as source:
        geobox = source.geobox
    rows, columns = geobox.shape_yx[0] // height, geobox.shape_yx[1] // width
    if edge == "pad":
        rows, columns = -(-geobox.shape_yx[0] // height), -(-geobox.shape_yx[1] // width)
    if not rows * columns:
        raise UsageError(
            f"patch_dimensions: a patch of {width} x {height} is larger than {grid}, {geobox.shape_yx[1]} x"
            f" {geobox.shape_yx[0]} pixels; allowed is its size and less, or --edge pad"
        )
    mixer = Mixer(
        crs=geobox.crs,
        affine=geobox.affine,
        patch_xy=(width, height),
        patches_per_row=columns,
        total_patches=rows * columns,
    )
    return PredictionSet(
        mixer=mixer,
        mixer_path=Path(grid),
        manifest=None,
        shards=find_shards(shards, shard_order=shard_order),
        geobox=geobox if edge == "pad" else None,
        is_cut_elsewhere=True,
    )

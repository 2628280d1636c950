"""Where the patches of a grid lie.

Patches tile the grid from its upper-left corner; each pixel belongs to exactly one, and partial patches along the
greatest x and y edges are left out. A kernel buffers each patch by a margin, so that neighbours overlap: the *patch*
is what is kept of a prediction, the *block* is what a record holds.

**Source**: Earth Engine's guide for the tiling and the dropped edge; its exported files for the margin, which is
``floor(kernel / 2)`` on each side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from geotfr.grid import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geotfr.grid import GeoBox

__all__ = ["PatchLayout", "pixels_inside"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchLayout:
    """The patches of one grid.

    Attributes
    ----------
    geobox
        The grid that is cut.
    patch_yx
        (rows, columns) of a patch without margin, each at least 1.
    kernel_yx
        (rows, columns) of the kernel, each at least 1; 1 adds no margin.
    pads_edge
        Whether the right and lower edge is covered by patches that reach beyond the grid, instead of left out. Earth
        Engine never does.

    Examples
    --------
    >>> from geotfr.grid import GeoBox
    >>> box = GeoBox(shape_yx=(600, 600), affine=(10.0, 0.0, 0.0, 0.0, -10.0, 0.0), crs="")
    >>> layout = PatchLayout(geobox=box, patch_yx=(256, 256), kernel_yx=(128, 128))
    >>> layout.rows, layout.columns, layout.count, layout.block_yx, layout.left_out_yx
    (2, 2, 4, (384, 384), (88, 88))
    """

    geobox: GeoBox
    patch_yx: tuple[int, int]
    kernel_yx: tuple[int, int] = (1, 1)
    pads_edge: bool = False

    @property
    def margin_yx(self) -> tuple[int, int]:
        """(rows, columns) added on each side of a patch."""
        return self.kernel_yx[0] // 2, self.kernel_yx[1] // 2

    @property
    def block_yx(self) -> tuple[int, int]:
        """(rows, columns) of a patch with its margins."""
        return self.patch_yx[0] + 2 * self.margin_yx[0], self.patch_yx[1] + 2 * self.margin_yx[1]

    @property
    def rows(self) -> int:
        """Patch rows."""
        return self._patches_along(0)

    @property
    def columns(self) -> int:
        """Patches per row."""
        return self._patches_along(1)

    def _patches_along(self, axis: int) -> int:
        pixels, side = self.geobox.shape_yx[axis], self.patch_yx[axis]
        return -(-pixels // side) if self.pads_edge else pixels // side

    @property
    def count(self) -> int:
        """Patches in all; they are numbered row-major from 0."""
        return self.rows * self.columns

    @property
    def left_out_yx(self) -> tuple[int, int]:
        """(pixel rows, pixel columns) along the lower and right edge that no patch holds."""
        if self.pads_edge:
            return 0, 0
        return self.geobox.shape_yx[0] % self.patch_yx[0], self.geobox.shape_yx[1] % self.patch_yx[1]

    @property
    def left_out_share(self) -> float:
        """Share of the grid's pixels that no patch holds, 0 to 1."""
        rows, columns = self.left_out_yx
        kept = (self.geobox.shape_yx[0] - rows) * (self.geobox.shape_yx[1] - columns)
        return 1.0 - kept / self.geobox.pixel_count

    def core_window(self, rows: range, columns: range) -> Window:
        """The pixels of a run of patch rows and columns without margins; may pass a padded grid's edges."""
        height, width = self.patch_yx
        return Window(
            row=rows.start * height,
            col=columns.start * width,
            height=len(rows) * height,
            width=len(columns) * width,
        )

    def blocks_window(self, rows: range, columns: range) -> Window:
        """The pixels of a run of patch rows and columns with the margins around them; may pass the grid's edges."""
        core, (margin_y, margin_x) = self.core_window(rows, columns), self.margin_yx
        return Window(
            row=core.row - margin_y,
            col=core.col - margin_x,
            height=core.height + 2 * margin_y,
            width=core.width + 2 * margin_x,
        )


def pixels_inside(
    shape_yx: tuple[int, int], patch_yx: tuple[int, int], columns: int, numbers: NDArray[np.int64]
) -> NDArray[np.int64]:
    """How many rows and columns of the patches ``numbers`` lie inside a raster: ``(n, 2) int64``.

    >>> pixels_inside((10, 10), (12, 6), 2, np.array([0, 1])).tolist()
    [[10, 6], [10, 4]]
    """
    corners = np.stack(np.divmod(numbers, columns), axis=1) * np.array(patch_yx)
    inside: NDArray[np.int64] = np.clip(np.array(shape_yx, np.int64) - corners, 0, patch_yx)
    return inside

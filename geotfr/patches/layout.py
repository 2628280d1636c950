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

from geotfr.grid import Window

if TYPE_CHECKING:
    from geotfr.grid import GeoBox

__all__ = ["PatchLayout"]


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
        return self.geobox.shape_yx[0] // self.patch_yx[0]

    @property
    def columns(self) -> int:
        """Patches per row."""
        return self.geobox.shape_yx[1] // self.patch_yx[1]

    @property
    def count(self) -> int:
        """Patches in all; they are numbered row-major from 0."""
        return self.rows * self.columns

    @property
    def left_out_yx(self) -> tuple[int, int]:
        """(pixel rows, pixel columns) along the lower and right edge that no patch holds."""
        return self.geobox.shape_yx[0] % self.patch_yx[0], self.geobox.shape_yx[1] % self.patch_yx[1]

    @property
    def left_out_share(self) -> float:
        """Share of the grid's pixels that no patch holds, 0 to 1."""
        held = self.count * self.patch_yx[0] * self.patch_yx[1]
        return 1.0 - held / self.geobox.pixel_count

    def patch_window(self, number: int) -> Window:
        """The pixels of patch ``number`` without margin."""
        row, column = divmod(number, self.columns)
        height, width = self.patch_yx
        return Window(row=row * height, col=column * width, height=height, width=width)

    def blocks_window(self, rows: range, columns: range) -> Window:
        """The pixels of a run of patch rows and columns with the margins around them; may pass the grid's edges."""
        (height, width), (margin_y, margin_x) = self.patch_yx, self.margin_yx
        return Window(
            row=rows.start * height - margin_y,
            col=columns.start * width - margin_x,
            height=len(rows) * height + 2 * margin_y,
            width=len(columns) * width + 2 * margin_x,
        )

"""The raster grid: its shape, its place on the ground, and windows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Affine6", "GeoBox", "Window"]

Affine6 = tuple[float, float, float, float, float, float]
"""(xScale, xShear, xTranslation, yShear, yScale, yTranslation): pixel (column, row) to CRS, first row then second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A rectangle of pixels; ``row`` and ``col`` may be negative where a margin lies outside the grid."""

    row: int
    col: int
    height: int
    width: int

    @property
    def row_stop(self) -> int:
        """First row below the window."""
        return self.row + self.height

    @property
    def col_stop(self) -> int:
        """First column right of the window."""
        return self.col + self.width

    def clipped(self, shape_yx: tuple[int, int]) -> Window:
        """The part of the window inside a grid of ``shape_yx``; empty (0 high or 0 wide) where there is none.

        >>> Window(row=-2, col=3, height=5, width=5).clipped((10, 6))
        Window(row=0, col=3, height=3, width=3)
        """
        row, col = max(self.row, 0), max(self.col, 0)
        return Window(
            row=row,
            col=col,
            height=max(min(self.row_stop, shape_yx[0]) - row, 0),
            width=max(min(self.col_stop, shape_yx[1]) - col, 0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GeoBox:
    """A grid of pixels on the ground.

    Attributes
    ----------
    shape_yx
        (rows, columns).
    affine
        Pixel (column, row) to CRS coordinates, see :data:`Affine6`; (0, 0) is the outer upper-left corner of the
        first pixel. Rotated and south-up grids are allowed.
    crs
        ``AUTHORITY:CODE``, WKT, or the empty string for a grid without CRS.
    """

    shape_yx: tuple[int, int]
    affine: Affine6
    crs: str

    @property
    def pixel_count(self) -> int:
        """Rows times columns."""
        return self.shape_yx[0] * self.shape_yx[1]

    def xy(self, col: float, row: float) -> tuple[float, float]:
        """CRS coordinates of the pixel position (``col``, ``row``).

        >>> GeoBox(shape_yx=(2, 2), affine=(10.0, 0.0, 500.0, 0.0, -10.0, 800.0), crs="").xy(1, 2)
        (510.0, 780.0)
        """
        a, b, c, d, e, f = self.affine
        return a * col + b * row + c, d * col + e * row + f

    def bounds(self) -> tuple[float, float, float, float]:
        """(west, south, east, north) of all four corners, in the CRS's units; right for rotated grids too.

        >>> GeoBox(shape_yx=(2, 3), affine=(1.0, 0.0, 0.0, 0.0, 1.0, 5.0), crs="").bounds()
        (0.0, 5.0, 3.0, 7.0)
        """
        rows, cols = self.shape_yx
        corners: Sequence[tuple[float, float]] = [self.xy(c, r) for c in (0, cols) for r in (0, rows)]
        xs, ys = zip(*corners, strict=True)
        return min(xs), min(ys), max(xs), max(ys)

    def same_grid(self, other: GeoBox, *, tolerance_px: float = 1e-4) -> bool:
        """Whether both have one shape and put every corner within ``tolerance_px`` of a pixel; CRSs aren't compared."""
        if self.shape_yx != other.shape_yx:
            return False
        rows, cols = self.shape_yx
        a, b, _, d, e, _ = self.affine
        allowed = tolerance_px * max(min((a * a + d * d) ** 0.5, (b * b + e * e) ** 0.5), 1e-300)
        return all(
            abs(here - there) <= allowed
            for c in (0, cols)
            for r in (0, rows)
            for here, there in zip(self.xy(c, r), other.xy(c, r), strict=True)
        )

"""Where patches lie: numbers, rows and columns, transforms and bounds of many at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.datasets.features import ArraySpec
from geotfr.grid import GeoBox

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geotfr.mixer import Mixer

__all__ = ["PLACE_SPECS", "PatchPlace", "Places"]

PLACE_SPECS = {
    "number": ArraySpec(dtype=np.dtype(np.int64), shape=()),
    "row": ArraySpec(dtype=np.dtype(np.int64), shape=()),
    "column": ArraySpec(dtype=np.dtype(np.int64), shape=()),
    "transform": ArraySpec(dtype=np.dtype(np.float64), shape=(6,)),
    "bounds": ArraySpec(dtype=np.dtype(np.float64), shape=(4,)),
}
"""What :meth:`Places.arrays` tells of a patch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchPlace:
    """Where one item lies.

    Attributes
    ----------
    number, row, column
        The patch's number in the grid, row-major from 0, and its patch row and column.
    shard, record
        The file, and the record's number in it.
    patch
        The patch without margins on the ground.
    block
        The pixels of the item's arrays on the ground, margins included.
    """

    number: int
    row: int
    column: int
    shard: str
    record: int
    patch: GeoBox
    block: GeoBox


class Places:
    """The patches of a mixer's grid.

    Parameters
    ----------
    mixer
        The grid.
    margin_yx
        (rows, columns) around a patch that the arrays hold.
    """

    def __init__(self, mixer: Mixer, margin_yx: tuple[int, int]) -> None:
        self._mixer = mixer
        self._margin_yx = margin_yx

    def geobox(self, number: int, *, margin_yx: tuple[int, int] | None = None) -> GeoBox:
        """One patch on the ground, with its margins unless told otherwise."""
        margin_y, margin_x = self._margin_yx if margin_yx is None else margin_yx
        width, height = self._mixer.patch_xy
        affine = self._transforms(np.array([number], np.int64), (margin_y, margin_x))[0].tolist()
        return GeoBox(shape_yx=(height + 2 * margin_y, width + 2 * margin_x), affine=tuple(affine), crs=self._mixer.crs)

    def arrays(self, numbers: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Of the patches ``numbers`` ``(n,) int64``: number, row, column, transform and bounds.

        ``transform`` ``(n, 6)``: xScale, xShear, xTranslation, yShear, yScale, yTranslation, of the arrays' outer
        upper-left corner. ``bounds`` ``(n, 4)``: west, south, east, north of the arrays, in the grid's CRS.
        """
        rows, columns = np.divmod(numbers, self._mixer.patches_per_row)
        transforms = self._transforms(numbers, self._margin_yx)
        width, height = (
            side + 2 * margin for side, margin in zip(self._mixer.patch_xy, self._margin_yx[::-1], strict=True)
        )
        a, b, c, d, e, f = transforms.T
        xs = np.stack([c, c + a * width, c + b * height, c + a * width + b * height])
        ys = np.stack([f, f + d * width, f + e * height, f + d * width + e * height])
        bounds = np.stack([xs.min(axis=0), ys.min(axis=0), xs.max(axis=0), ys.max(axis=0)], axis=1)
        return {"number": numbers, "row": rows, "column": columns, "transform": transforms, "bounds": bounds}

    def _transforms(self, numbers: NDArray[np.int64], margin_yx: tuple[int, int]) -> NDArray[np.float64]:
        rows, columns = np.divmod(numbers, self._mixer.patches_per_row)
        width, height = self._mixer.patch_xy
        y, x = rows * height - margin_yx[0], columns * width - margin_yx[1]
        a, b, c, d, e, f = self._mixer.affine
        made = np.empty((len(numbers), 6))
        made[:] = self._mixer.affine
        made[:, 2] = a * x + b * y + c
        made[:, 5] = d * x + e * y + f
        return made

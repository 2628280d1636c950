"""The shapes of labels as the blocks of patches cut them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geotfr.patches import PatchLayout
    from geotfr.pipeline.export.labels import LabelShapes

__all__ = ["BlockShapes", "CutShapes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CutShapes:
    """The shapes in some blocks: by block, then by their numbers in the source.

    Attributes
    ----------
    blocks
        ``(n,) int64``: which of the blocks that were asked for, ascending.
    places
        ``(n,) int64``: which of the labels' shapes.
    shapes
        ``(n,) object``: what lies in the block, shapely geometries in pixels of the grid.
    origins
        ``(n, 2) float64``: (x, y) of the block's corner, in pixels of the grid.
    """

    blocks: NDArray[np.int64]
    places: NDArray[np.int64]
    shapes: NDArray[np.object_]
    origins: NDArray[np.float64]

    def bounds(self) -> NDArray[np.float64]:
        """Left, top, right and bottom ``(n, 4)`` in pixels of the block."""
        import shapely

        found: NDArray[np.float64] = shapely.bounds(self.shapes).reshape(-1, 4) - np.tile(self.origins, 2)
        return found

    def only(self, wanted: NDArray[np.bool_]) -> CutShapes:
        """Those whose shape is wanted, ``wanted`` ``(shapes,) bool``."""
        taken = wanted[self.places]
        if taken.all():
            return self
        return CutShapes(
            blocks=self.blocks[taken],
            places=self.places[taken],
            shapes=self.shapes[taken],
            origins=self.origins[taken],
        )


class BlockShapes:
    """Cuts shapes by the blocks of patches; safe in several threads.

    Parameters
    ----------
    layout
        The patches.
    shapes
        In pixels of the grid.
    """

    def __init__(self, layout: PatchLayout, shapes: LabelShapes) -> None:
        import shapely

        self._layout = layout
        self._numbers = shapes.numbers
        self._whole = shapely.make_valid(shapes.shapes)
        self._dimensions = shapely.get_dimensions(shapes.shapes)
        self._tree = shapely.STRtree(self._whole)

    def cut(self, numbers: NDArray[np.int64]) -> CutShapes:
        """The shapes in the blocks of the patches ``numbers``, cut off at the blocks' edges and at the grid's."""
        import shapely

        blocks, origins = self._blocks(numbers)
        block, shape = self._tree.query(blocks, predicate="intersects")
        order = np.lexsort((self._numbers[shape], block))
        block, shape = block[order], shape[order]
        cut = shapely.intersection(self._whole[shape], blocks[block])
        # What only touches the block is less than it was: an edge of an area, an end of a line.
        is_there = ~shapely.is_empty(cut) & (shapely.get_dimensions(cut) >= self._dimensions[shape])
        block, shape = block[is_there], shape[is_there]
        return CutShapes(blocks=block, places=shape, shapes=cut[is_there], origins=origins[block])

    def near(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of block and shape, all that :meth:`cut` can find and some more: their bounds touch."""
        block, shape = self._tree.query(self._blocks(numbers)[0])
        return block, shape

    def _blocks(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.object_], NDArray[np.float64]]:
        """The blocks, as far as the grid goes, and their corners."""
        import shapely

        layout = self._layout
        rows, columns = np.divmod(numbers, layout.columns)
        top = rows * layout.patch_yx[0] - layout.margin_yx[0]
        left = columns * layout.patch_yx[1] - layout.margin_yx[1]
        height, width = layout.block_yx
        # Beyond the grid a block holds no picture.
        blocks = shapely.box(
            np.maximum(left, 0.0),
            np.maximum(top, 0.0),
            np.minimum(left + width, float(layout.geobox.shape_yx[1])),
            np.minimum(top + height, float(layout.geobox.shape_yx[0])),
        )
        return blocks, np.stack([left, top], axis=1).astype(np.float64)

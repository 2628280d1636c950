"""Going on where a source's pixels can't be read: they are masked, and counted.

A window that fails is read again, storage block by storage block, and what fails then is masked in all bands. A block
that several windows touch counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geotfr.errors import ReadError
from geotfr.grid import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from geotfr.rasters.labelled import LabelledSource
    from geotfr.rasters.source import RasterSource

__all__ = ["UnreadableMasked", "pixels_of"]


class UnreadableMasked:
    """The pixels of ``source``; those that can't be read are masked.

    Parameters
    ----------
    source
        What is read.
    """

    has_mask = True

    def __init__(self, source: RasterSource | LabelledSource) -> None:
        self._source = source
        self._blocks: dict[tuple[int, int], None] = {}
        self.first_error = ""
        """What the first of them said."""

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """The storage blocks that can't be read, as (block row, block column), in the order in which they were met."""
        return list(self._blocks)

    def add(self, blocks: Iterable[tuple[int, int]]) -> None:
        """Count blocks in that another run couldn't read."""
        self._blocks.update(dict.fromkeys(blocks))

    @property
    def pixels(self) -> int:
        """Pixels of the grid in these blocks."""
        return pixels_of(self.blocks, self._source.block_shape_yx, self._source.geobox.shape_yx)

    def read(
        self,
        window: Window,
        out: Sequence[NDArray[Any]],
        valid: NDArray[np.bool_],
        band_valid: Sequence[NDArray[np.bool_]] | None = None,
    ) -> None:
        """See ``RasterSource.read``."""
        try:
            self._source.read(window, out, valid, band_valid)
        except ReadError:
            for block, part in self._parts(window):
                lines = slice(part.row - window.row, part.row_stop - window.row)
                cols = slice(part.col - window.col, part.col_stop - window.col)
                pixels = [plane[lines, cols] for plane in out]
                own = [each[lines, cols] for each in band_valid or ()]
                try:
                    self._source.read(part, pixels, valid[lines, cols], own if band_valid is not None else None)
                except ReadError as error:
                    self.first_error = self.first_error or str(error)
                    self._blocks[block] = None
                    for plane in pixels:
                        plane[...] = 0
                    for each in (valid[lines, cols], *own):
                        each[...] = False

    def _parts(self, window: Window) -> Iterator[tuple[tuple[int, int], Window]]:
        """The storage blocks that ``window`` touches, and the part of it within each."""
        height, width = self._source.block_shape_yx
        for row in range(window.row // height, -(-window.row_stop // height)):
            for col in range(window.col // width, -(-window.col_stop // width)):
                first_row, first_col = max(row * height, window.row), max(col * width, window.col)
                yield (
                    (row, col),
                    Window(
                        row=first_row,
                        col=first_col,
                        height=min((row + 1) * height, window.row_stop) - first_row,
                        width=min((col + 1) * width, window.col_stop) - first_col,
                    ),
                )


def pixels_of(
    blocks: Iterable[tuple[int, int]], block_shape_yx: tuple[int, int], grid_shape_yx: tuple[int, int]
) -> int:
    """Pixels of a grid in some of its storage blocks, (block row, block column) each.

    >>> pixels_of([(0, 0), (1, 1)], (4, 4), (6, 6))
    20
    """
    height, width = block_shape_yx
    windows = (
        Window(row=row * height, col=col * width, height=height, width=width).clipped(grid_shape_yx)
        for row, col in blocks
    )
    return sum(window.height * window.width for window in windows)

"""Patches back into a raster: rows of patches gathered in memory, written in whole tiles.

Patches come row-major. Where tiles divide a patch's height, each row of patches is written at once, in groups of
columns if the raster is wide. Otherwise rows wait until a row of tiles is whole; a raster too wide for that is written
in several passes over the records, each for some of the columns. So memory depends on neither height nor width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from geotfr.pipeline.ingest.output_grid import OutputGrid

__all__ = ["MosaicArea", "MosaicPlan", "MosaicWriter", "plan_mosaic"]

BUDGET_BYTES = 48 * 2**20
_TILE = 256
_LEAST_TILE = 128
_MOST_TILE = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class MosaicArea:
    """Some of the raster, made on its own.

    Attributes
    ----------
    columns, rows
        Patch columns, and the patch rows that have pixels in it.
    top, bottom
        Its first row of pixels, and the one behind its last; rows of tiles begin at both.
    patches
        How many patches it counts for: those of rows that two areas share are the lower one's.
    """

    columns: range
    rows: range
    top: int
    bottom: int
    patches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MosaicPlan:
    """How the raster is put together.

    Attributes
    ----------
    patch_yx
        (rows, columns) of a patch.
    rows, columns
        Patches of the grid.
    tile_yx
        (rows, columns) of a tile of the output, multiples of 16.
    passes
        The patch columns of each pass over the records; one pass has all.
    group
        Patch columns that are gathered before they are written.
    buffer_yx
        (pixel rows, pixel columns) gathered.
    """

    patch_yx: tuple[int, int]
    rows: int
    columns: int
    tile_yx: tuple[int, int]
    passes: tuple[range, ...]
    group: int
    buffer_yx: tuple[int, int]

    def area(self, columns: range, rows: range) -> MosaicArea:
        """What patch rows ``rows`` complete of the patch columns ``columns``: whole rows of tiles.

        Areas of adjoining rows adjoin; the last one has what is left.
        """
        height = self.patch_yx[0]
        top, bottom = (row * height // self.tile_yx[0] * self.tile_yx[0] for row in (rows.start, rows.stop))
        if rows.stop == self.rows:
            bottom = self.rows * height
        return MosaicArea(
            columns=columns,
            rows=range(top // height, -(-bottom // height)),
            top=top,
            bottom=bottom,
            patches=len(rows) * len(columns),
        )

    @property
    def is_aligned(self) -> bool:
        """Whether a row of patches is whole rows of tiles."""
        return self.patch_yx[0] % self.tile_yx[0] == 0


def plan_mosaic(
    grid: OutputGrid,
    *,
    pixel_bytes: int,
    tile_yx: tuple[int | None, int | None] = (None, None),
    most_columns: int | None = None,
    budget: int = BUDGET_BYTES,
) -> MosaicPlan:
    """How to put a grid's patches together in about ``budget`` bytes.

    ``pixel_bytes`` is the size of a pixel in all bands; ``tile_yx`` the tile that the user wants, None for a good one;
    ``most_columns`` how many patch columns a pass may have, None for any number.
    """
    height, width = grid.patch_yx
    tile_height, tile_width = tile_yx[0] or _good_tile(height), tile_yx[1] or _good_tile(width)
    is_aligned = height % tile_height == 0
    rows_px = height if is_aligned else tile_height + height
    fitting = max(budget // (rows_px * pixel_bytes * width), 1)
    # Groups begin and end at a tile's edge, or tiles would be written twice.
    step = tile_width // math.gcd(tile_width, width)
    most = grid.columns if most_columns is None else max(most_columns // step, 1) * step
    group = min(grid.columns, most)
    if fitting < group:
        group = min(max(fitting // step, 1) * step, group)
    columns = range(grid.columns)
    width_of_pass = min(most, grid.columns) if is_aligned else group
    passes = tuple(columns[start : start + width_of_pass] for start in range(0, len(columns), width_of_pass))
    return MosaicPlan(
        patch_yx=(height, width),
        rows=grid.rows,
        columns=grid.columns,
        tile_yx=(tile_height, tile_width),
        passes=passes,
        group=group,
        buffer_yx=(rows_px, group * width),
    )


def _good_tile(side: int) -> int:
    """A tile side that divides a patch's side if one near 256 does, else 256."""
    candidates = (_TILE, *range(_MOST_TILE, _LEAST_TILE - 1, -16))
    return next((tile for tile in candidates if side % tile == 0), _TILE)


class MosaicWriter:
    """Gathers the patches of one pass and writes them tile row by tile row.

    Parameters
    ----------
    plan
        How.
    columns, rows
        The patch columns of this pass, and the patch rows that come; rows of tiles that these don't fill are left out.
    dtype, bands
        Of the output.
    write
        Called with (pixel row, pixel column, data ``(band, row, col)``); data is valid during the call only.
    fill
        What a patch that never comes leaves.
    """

    def __init__(
        self,
        plan: MosaicPlan,
        columns: range,
        rows: range,
        *,
        dtype: np.dtype[Any],
        bands: int,
        fill: float,
        write: Callable[[int, int, NDArray[Any]], None],
    ) -> None:
        self._plan = plan
        self._columns = columns
        self._rows = rows
        self._write = write
        self._fill = fill
        self._buffer = np.full((bands, *plan.buffer_yx), fill, dtype)
        self._first_row_px = rows.start * plan.patch_yx[0]  # the raster's row that the buffer's row 0 is
        self._first_column = columns.start
        self._row = rows.start  # patch row that is being gathered

    def places(self, first: int, count: int) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Where patches ``first`` to ``first + count`` go, run by run, in order of their numbers.

        Yields (which of the patches, a writable view ``(band, patch, row, col)``). Patches outside this pass have no
        place. Numbers must not go back between calls.
        """
        plan = self._plan
        height, width = plan.patch_yx
        number = first
        while number < first + count:
            row, column = divmod(number, plan.columns)
            stop = min(first + count, (row + 1) * plan.columns)
            start_column = max(column, self._columns.start)
            stop_column = min(column + stop - number, self._columns.stop)
            while start_column < stop_column:
                self._advance(row, start_column)
                group_stop = min(stop_column, self._first_column + plan.group)
                run = group_stop - start_column
                top = row * height - self._first_row_px
                left = (start_column - self._first_column) * width
                view = self._buffer[:, top : top + height, left : left + run * width]
                offset = row * plan.columns + start_column - first
                yield (
                    slice(offset, offset + run),
                    view.reshape(len(self._buffer), height, run, width).transpose(0, 2, 1, 3),
                )
                start_column = group_stop
            number = stop

    def finish(self) -> None:
        """Write what is left; patches that never came are filled."""
        self._advance(self._rows.stop, self._columns.start)

    def _advance(self, row: int, column: int) -> None:
        """Write what is complete before patch (``row``, ``column``), and make place for it."""
        plan = self._plan
        while self._row < row or column >= self._first_column + plan.group:
            group_stop = min(self._first_column + plan.group, self._columns.stop)
            self._flush(self._row, group_stop)
            if group_stop < self._columns.stop:
                self._first_column = group_stop
            else:
                self._first_column = self._columns.start
                self._row += 1

    def _flush(self, row: int, group_stop: int) -> None:
        """Write the whole rows of tiles of the group that patch row ``row`` completes; keep the rest."""
        plan = self._plan
        height, width = plan.patch_yx
        row_stop_px = (row + 1) * height
        is_last = row == plan.rows - 1
        ready = row_stop_px if is_last else row_stop_px // plan.tile_yx[0] * plan.tile_yx[0]
        count = ready - self._first_row_px
        cols = (group_stop - self._first_column) * width
        if count > 0:
            self._write(self._first_row_px, self._first_column * width, self._buffer[:, :count, :cols])
            kept = row_stop_px - ready
            if kept:
                self._buffer[:, :kept] = self._buffer[:, count : count + kept].copy()
            self._buffer[:, kept:] = self._fill
            if group_stop == self._columns.stop:
                self._first_row_px = ready

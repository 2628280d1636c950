"""Reading a raster strip by strip, each storage block once.

A strip needs the rows of its patches and the margins around them. The rows that it shares with the strip before are
copied, the others are read into the same buffer, up to the end of the last storage block they touch; what lies outside
the raster stays invalid. With two buffers the next strip is read by a thread while this one is encoded.
"""

from __future__ import annotations

import itertools
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from geotfr.grid import Window
from geotfr.patches.cut import Strip, count_masked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from geotfr.pipeline.plan import ExportPlan

__all__ = ["PixelSource", "StripReader"]


class PixelSource(Protocol):
    """What the reader needs of a raster source."""

    @property
    def has_mask(self) -> bool:
        """Whether any pixel could be masked."""
        ...

    def read(self, window: Window, out: Sequence[NDArray[Any]], valid: NDArray[np.bool_]) -> None:
        """Fill ``out``, one (row, col) array per band, and ``valid``; see ``RasterSource.read``."""
        ...


class _Buffer:
    """Pixels of one strip: a (row, col) array per band, those of one dtype in one allocation, and a validity array."""

    def __init__(self, dtypes: Sequence[np.dtype[Any]], rows: int, cols: int) -> None:
        together = {dtype: np.empty((dtypes.count(dtype), rows, cols), dtype) for dtype in dict.fromkeys(dtypes)}
        taken: dict[np.dtype[Any], Iterator[int]] = {dtype: itertools.count() for dtype in together}
        self.bands = tuple(together[dtype][next(taken[dtype])] for dtype in dtypes)
        self.valid = np.zeros((rows, cols), np.bool_)
        self.stacks = (*together.values(), self.valid)
        # What the buffer holds: pixel columns of the grid from `col`, pixel rows [row, row_stop) from line 0 on.
        self.window = Window(row=0, col=0, height=0, width=0)
        self.held = range(0)


class StripReader:
    """The strips of a plan, in order.

    A strip's arrays are overwritten two strips later (one later with a single buffer): consume it before asking for
    the next.
    """

    def __init__(self, plan: ExportPlan, source: PixelSource) -> None:
        self._plan = plan
        self._source = source
        dtypes = [band.dtype for band in plan.bands]
        strips = plan.strips
        self._buffers = [_Buffer(dtypes, strips.rows_px, strips.cols_px) for _ in range(strips.buffers)]

    def __iter__(self) -> Iterator[Strip]:
        ranges = self._plan.strip_ranges()
        buffers = itertools.cycle(self._buffers)
        previous: _Buffer | None = None
        if len(self._buffers) == 1:
            for rows, columns in ranges:
                buffer = next(buffers)
                yield self._load(buffer, previous, rows, columns)
                previous = buffer
            return
        with ThreadPoolExecutor(1, thread_name_prefix="geotfr-read") as thread:
            loading: Future[Strip] | None = None
            for rows, columns in ranges:
                buffer = next(buffers)
                strip = loading.result() if loading else None
                # The strip before `strip` is consumed: its buffer is free for the one after.
                loading = thread.submit(self._load, buffer, previous, rows, columns)
                previous = buffer
                if strip is not None:
                    yield strip
            if loading is not None:
                yield loading.result()

    def _load(self, buffer: _Buffer, previous: _Buffer | None, rows: range, columns: range) -> Strip:
        layout, source = self._plan.layout, self._source
        window = layout.blocks_window(rows, columns)
        grid_rows = layout.geobox.shape_yx[0]
        inside = window.clipped(layout.geobox.shape_yx)
        step = self._plan.strips.read_rows_px
        stop = min(-(-inside.row_stop // step) * step, grid_rows, window.row + self._plan.strips.rows_px)
        first = inside.row
        held, shift = range(0), 0
        if previous is not None and previous.window.col == window.col and previous.window.width == window.width:
            held, shift = previous.held, window.row - previous.window.row
        kept = range(first, max(min(held.stop, stop), first)) if first in held else range(first, first)
        if previous is not None and kept:
            target = slice(kept.start - window.row, kept.stop - window.row)
            origin = slice(target.start + shift, target.stop + shift)
            for mine, theirs in zip(buffer.stacks, previous.stacks, strict=True):
                mine[..., target, :] = theirs[..., origin, :]
        buffer.window, buffer.held = window, range(first, stop)
        self._invalidate_outside(buffer, window, inside, stop)
        if kept.stop < stop:
            fresh = Window(row=kept.stop, col=inside.col, height=stop - kept.stop, width=inside.width)
            lines = slice(fresh.row - window.row, fresh.row_stop - window.row)
            cols = slice(inside.col - window.col, inside.col_stop - window.col)
            source.read(fresh, [band[lines, cols] for band in buffer.bands], buffer.valid[lines, cols])
        return self._strip(buffer, window, inside, rows, columns)

    @staticmethod
    def _invalidate_outside(buffer: _Buffer, window: Window, inside: Window, stop: int) -> None:
        """Clear validity where the window passes the raster's edges."""
        buffer.valid[: inside.row - window.row] = False
        buffer.valid[stop - window.row :] = False
        buffer.valid[:, : inside.col - window.col] = False
        buffer.valid[:, inside.col_stop - window.col :] = False

    def _strip(self, buffer: _Buffer, window: Window, inside: Window, rows: range, columns: range) -> Strip:
        layout = self._plan.layout
        valid: NDArray[np.bool_] | None = buffer.valid[: window.height, : window.width]
        if inside == window and (not self._source.has_mask or np.all(valid)):
            valid = None
        if valid is None or not self._source.has_mask:
            masked_counts = np.zeros((len(rows), len(columns)), np.int64)
        else:
            masked_counts = count_masked(valid, layout, len(rows), len(columns))
        return Strip(
            layout=layout,
            rows=rows,
            columns=columns,
            bands=tuple(band[: window.height, : window.width] for band in buffer.bands),
            valid=valid,
            masked_counts=masked_counts,
        )

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
    from collections.abc import Callable, Generator, Iterator, Sequence

    from numpy.typing import NDArray

    from geotfr.patches.features import BandSpec
    from geotfr.pipeline.export.plan import ExportPlan

__all__ = ["PixelSource", "StripReader"]


class PixelSource(Protocol):
    """What the reader needs of a raster source."""

    @property
    def has_mask(self) -> bool:
        """Whether any pixel could be masked."""
        ...

    def read(
        self,
        window: Window,
        out: Sequence[NDArray[Any]],
        valid: NDArray[np.bool_],
        band_valid: Sequence[NDArray[np.bool_]] | None = None,
    ) -> None:
        """Fill ``out``, one (row, col) array per plane, and the validity; see ``RasterSource.read``."""
        ...


class _Buffer:
    """Pixels of one strip: a (row, col) array per plane, those of one dtype in one allocation, and their validity."""

    def __init__(self, dtypes: Sequence[np.dtype[Any]], rows: int, cols: int, *, has_mask: bool) -> None:
        together = {dtype: np.empty((dtypes.count(dtype), rows, cols), dtype) for dtype in dict.fromkeys(dtypes)}
        taken: dict[np.dtype[Any], Iterator[int]] = {dtype: itertools.count() for dtype in together}
        self.planes = tuple(together[dtype][next(taken[dtype])] for dtype in dtypes)
        self.valid = np.zeros((rows, cols), np.bool_)
        # Each plane's own validity, where it can differ from the pixel's.
        self.plane_valid = np.zeros((len(dtypes) if has_mask else 0, rows, cols), np.bool_)
        self.stacks = (*together.values(), self.valid, self.plane_valid)
        # What the buffer holds: pixel columns of the grid from `col`, pixel rows [row, row_stop) from line 0 on.
        self.window = Window(row=0, col=0, height=0, width=0)
        self.held = range(0)


class StripReader:
    """The strips of a plan's patches, from ``first_patch`` to before ``stop_patch``, in order.

    A strip of patch rows and columns of which ``wants`` says no isn't read.

    A strip's arrays are overwritten two strips later (one later with a single buffer): consume it before asking for
    the next.
    """

    def __init__(
        self,
        plan: ExportPlan,
        source: PixelSource,
        bands: Sequence[BandSpec],
        *,
        mask_mode: str,
        first_patch: int = 0,
        stop_patch: int | None = None,
        wants: Callable[[range, range], bool] | None = None,
    ) -> None:
        self._plan = plan
        self._wants = wants
        self._patches = first_patch, stop_patch
        self._source = source
        self._bands = bands
        self._is_pixel_mode = mask_mode == "pixel"
        strips = plan.strips
        self._buffers = [
            _Buffer(plan.plane_dtypes, strips.rows_px, strips.cols_px, has_mask=source.has_mask)
            for _ in range(strips.buffers)
        ]

    def __iter__(self) -> Generator[Strip, None, None]:
        ranges = self._plan.strip_ranges(*self._patches)
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
        layout = self._plan.layout
        if self._wants is not None and not self._wants(rows, columns):
            return Strip(
                layout=layout,
                rows=rows,
                columns=columns,
                planes=(),
                valid=None,
                plane_valid=(),
                own_valid=(),
                masked_counts=np.zeros((len(rows), len(columns)), np.int64),
                is_read=False,
            )
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
            self._read(buffer, fresh, lines, cols)
        return self._strip(buffer, window, inside, rows, columns)

    def _read(self, buffer: _Buffer, window: Window, lines: slice, cols: slice) -> None:
        """Read pixels and validity into part of a buffer, and derive the pixels' validity from the planes'."""
        out = [plane[lines, cols] for plane in buffer.planes]
        valid = buffer.valid[lines, cols]
        if not self._source.has_mask:
            self._source.read(window, out, valid)
            return
        own = [plane[lines, cols] for plane in buffer.plane_valid]
        self._source.read(window, out, valid, own)
        for plane in own:
            plane &= valid
        for band in self._bands:
            if band.is_array:
                # An array pixel is there if one of its elements is.
                some = own[band.planes[0]].copy()
                for number in band.planes[1:]:
                    some |= own[number]
                valid &= some
            else:
                valid &= own[band.planes[0]]
        if self._is_pixel_mode:
            for band in self._bands:
                if band.is_array:
                    for number in band.planes:
                        own[number] &= valid

    @staticmethod
    def _invalidate_outside(buffer: _Buffer, window: Window, inside: Window, stop: int) -> None:
        """Clear validity where the window passes the grid's edges."""
        for valid in (buffer.valid, *buffer.plane_valid):
            valid[: inside.row - window.row] = False
            valid[stop - window.row :] = False
            valid[:, : inside.col - window.col] = False
            valid[:, inside.col_stop - window.col :] = False

    def _strip(self, buffer: _Buffer, window: Window, inside: Window, rows: range, columns: range) -> Strip:
        layout = self._plan.layout
        part = slice(window.height), slice(window.width)
        planes = tuple(plane[part] for plane in buffer.planes)
        valid = buffer.valid[part]
        is_whole = inside == window and (not self._source.has_mask or bool(valid.all()))
        is_core_inside = layout.core_window(rows, columns).clipped(layout.geobox.shape_yx) == layout.core_window(
            rows, columns
        )
        if is_whole or (is_core_inside and not self._source.has_mask):
            masked_counts = np.zeros((len(rows), len(columns)), np.int64)
        else:
            masked_counts = count_masked(valid, layout, len(rows), len(columns))
        return Strip(
            layout=layout,
            rows=rows,
            columns=columns,
            planes=planes,
            valid=None if is_whole else valid,
            plane_valid=self._plane_valid(buffer, part, None if is_whole else valid),
            own_valid=self._own_valid(buffer, part),
            masked_counts=masked_counts,
        )

    def _plane_valid(
        self, buffer: _Buffer, part: tuple[slice, slice], valid: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.bool_] | None, ...]:
        """What decides where each plane is filled: the pixel's validity, or its own."""
        found: list[NDArray[np.bool_] | None] = [valid] * len(buffer.planes)
        if self._source.has_mask:
            for band in self._bands:
                if band.is_array or not self._is_pixel_mode:
                    for number in band.planes:
                        found[number] = buffer.plane_valid[number][part]
        return tuple(found)

    def _own_valid(self, buffer: _Buffer, part: tuple[slice, slice]) -> tuple[NDArray[np.bool_], ...]:
        if not (self._source.has_mask and self._is_pixel_mode):
            return ()
        # A label beneath a masked pixel is no sample that is lost.
        scalars = (band for band in self._bands if not (band.is_array or band.is_label))
        return tuple(buffer.plane_valid[band.planes[0]][part] for band in scalars)

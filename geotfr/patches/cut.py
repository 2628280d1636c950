"""Cutting patches out of a strip: views, casts and fills, whole runs of patches at once.

A *strip* is some patch rows by some patch columns with the margins around them, held as one array per plane and their
validity. A *run* is consecutive patches of one patch row in it, or the same of some rows. Patches are strided views
of the strip, so the only copy is the cast into the record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from geotfr.patches.layout import PatchLayout

__all__ = ["Run", "Strip", "clamped_fill", "count_inexact", "count_masked", "fill_masked", "rectangles", "runs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """``count`` consecutive patches of a patch row of a strip, or of each of ``rows``.

    ``row`` and ``column`` count patches from the strip's corner.
    """

    row: int
    column: int
    count: int
    rows: int = 1

    @property
    def patches(self) -> int:
        """How many there are."""
        return self.rows * self.count

    @property
    def shape(self) -> tuple[int, ...]:
        """``(patch,)``, or ``(patch row, patch)`` for several rows."""
        return (self.count,) if self.rows == 1 else (self.rows, self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """The pixels of some patch rows and columns, margins included.

    Attributes
    ----------
    layout
        The patch layout of the whole grid.
    rows, columns
        Which patch rows and columns of it the strip holds.
    planes
        One (row, col) array per plane in its native dtype; content outside the raster is arbitrary.
    valid
        (row, col) bool, True where the pixel is not masked; None if that is everywhere.
    plane_valid
        For each plane the (row, col) bool array that says where it is not filled, None if that is everywhere. Planes
        may share one array.
    own_valid
        The validity of each scalar band alone, where its pixels are filled by the mask of all bands; else empty.
    masked_counts
        (patch row, patch column) int64: masked pixels of each patch, margins not counted.
    is_read
        False where no patch of it is wanted: then it has no planes, and the counts are 0.
    """

    layout: PatchLayout
    rows: range
    columns: range
    planes: tuple[NDArray[Any], ...]
    valid: NDArray[np.bool_] | None
    plane_valid: tuple[NDArray[np.bool_] | None, ...]
    own_valid: tuple[NDArray[np.bool_], ...]
    masked_counts: NDArray[np.int64]
    is_read: bool = True

    def numbers(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers in the whole grid of the patches at ``positions`` (row-major within the strip)."""
        if len(self.columns) == self.layout.columns:
            return self.rows.start * self.layout.columns + positions
        rows, columns = np.divmod(positions, len(self.columns))
        return (self.rows.start + rows) * self.layout.columns + self.columns.start + columns

    def blocks(self, array: NDArray[Any], run: Run) -> NDArray[Any]:
        """The blocks of ``run``: an overlapping read-only view of a strip's array, ``(*run.shape, row, col)``."""
        height, width = self.layout.block_yx
        return self._windows(array, run, (0, 0), (height, width))

    def cores(self, array: NDArray[Any], run: Run) -> NDArray[Any]:
        """The patches of ``run`` without margins: a view of a strip's array, ``(*run.shape, row, col)``."""
        return self._windows(array, run, self.layout.margin_yx, self.layout.patch_yx)

    def _windows(
        self, array: NDArray[Any], run: Run, offset_yx: tuple[int, int], shape_yx: tuple[int, int]
    ) -> NDArray[Any]:
        patch_height, patch_width = self.layout.patch_yx
        row, col = run.row * patch_height + offset_yx[0], run.column * patch_width + offset_yx[1]
        if run.patches == 1:
            # Plain slicing takes a tenth of the time of as_strided, and large patches come one by one.
            return array[np.newaxis, row : row + shape_yx[0], col : col + shape_yx[1]]
        corner = array[row:, col:]
        row_stride, col_stride = array.strides
        return np.lib.stride_tricks.as_strided(
            corner,
            shape=(*run.shape, *shape_yx),
            strides=(patch_height * row_stride, patch_width * col_stride, row_stride, col_stride)[
                -len(run.shape) - 2 :
            ],
            writeable=False,
        )


def runs(positions: NDArray[np.int64], columns: int) -> Iterator[Run]:
    """The runs that ascending patch ``positions`` (row * columns + column within the strip) fall into.

    >>> [(r.row, r.column, r.count) for r in runs(np.array([1, 2, 3, 4, 7]), columns=4)]
    [(0, 1, 3), (1, 0, 1), (1, 3, 1)]
    """
    if not len(positions):
        return
    first, last = int(positions[0]), int(positions[-1])
    if last - first == len(positions) - 1 and first // columns == last // columns:
        yield Run(row=first // columns, column=first % columns, count=len(positions))
        return
    is_start = np.ones(len(positions), bool)
    is_start[1:] = (np.diff(positions) != 1) | (positions[1:] % columns == 0)
    starts = np.flatnonzero(is_start)
    for start, stop in zip(starts, [*starts[1:], len(positions)], strict=True):
        row, column = divmod(int(positions[start]), columns)
        yield Run(row=row, column=column, count=int(stop - start))


def rectangles(positions: NDArray[np.int64], columns: int) -> Iterator[Run]:
    """As :func:`runs`, those of equal columns in rows that follow each other as one.

    >>> [(r.row, r.rows, r.column, r.count) for r in rectangles(np.arange(3, 14), columns=4)]
    [(0, 1, 3, 1), (1, 2, 0, 4), (3, 1, 0, 2)]
    """
    last: Run | None = None
    for run in _whole_rows(positions, columns) or runs(positions, columns):
        if last is not None:
            if (run.column, run.count, run.row) == (last.column, last.count, last.row + last.rows):
                last = replace(last, rows=last.rows + 1)
                continue
            yield last
        last = run
    if last is not None:
        yield last


def _whole_rows(positions: NDArray[np.int64], columns: int) -> list[Run]:
    """The one run of all patches of some rows, if that is what the positions are."""
    count = len(positions)
    if not count or count % columns or positions[0] % columns or positions[-1] - positions[0] != count - 1:
        return []
    return [Run(row=int(positions[0]) // columns, column=0, count=columns, rows=count // columns)]


def count_masked(valid: NDArray[np.bool_], layout: PatchLayout, rows: int, columns: int) -> NDArray[np.int64]:
    """Masked pixels of each patch of a strip, margins not counted: ``(patch row, patch column) int64``."""
    (height, width), (margin_y, margin_x) = layout.patch_yx, layout.margin_yx
    core = valid[margin_y : margin_y + rows * height, margin_x : margin_x + columns * width]
    # First down the rows, where numpy adds whole lines, then along the few sums that are left.
    per_column = core.view(np.uint8).reshape(rows, height, columns * width).sum(axis=1, dtype=np.uint32)
    counts: NDArray[np.int64] = per_column.reshape(rows, columns, width).sum(axis=2, dtype=np.int64)
    return height * width - counts


def clamped_fill(default_value: float, dtype: np.dtype[Any]) -> float:
    """``default_value`` as a band of ``dtype`` can hold it: the fraction dropped for integers, then clamped.

    >>> [clamped_fill(v, np.dtype("uint8")) for v in (300, -5, 1.9)]
    [255, 0, 1]
    """
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return int(min(max(int(default_value), int(limits.min)), int(limits.max)))
    largest = float(np.finfo(dtype).max)
    return min(max(float(default_value), -largest), largest)


def fill_masked(values: NDArray[Any], valid: NDArray[np.bool_] | None, fill: float) -> None:
    """Set ``values`` to ``fill`` where ``valid`` is False, in place; None is valid everywhere."""
    if valid is not None and not valid.all():
        np.copyto(values, fill, where=np.logical_not(valid), casting="unsafe")


def count_inexact(
    band: NDArray[Any], written: NDArray[np.floating[Any]], valid: NDArray[np.bool_] | None
) -> tuple[int, int]:
    """(inexact integers, floats that became infinite) among the valid values of a band written as floats.

    Arrays are of equal shape. Types that the floats always hold cost nothing; the others a minimum and a maximum.
    """
    kind, size = band.dtype.kind, band.dtype.itemsize
    if kind in "iu" and size >= written.dtype.itemsize:
        exact = 2 ** (np.finfo(written.dtype).nmant + 1)
        if band.size and (int(band.max()) > exact or int(band.min()) < -exact):
            # The way back overflows for the largest integers, which the floats can't hold either.
            with np.errstate(invalid="ignore"):
                inexact = (written.astype(band.dtype) != band) | (written >= float(np.iinfo(band.dtype).max) + 1)
            return _count(inexact, valid), 0
    elif kind == "f" and size == 8:
        infinite = np.isinf(written)
        if infinite.any():
            return 0, _count(infinite & np.isfinite(band), valid)
    return 0, 0


def _count(flags: NDArray[np.bool_], valid: NDArray[np.bool_] | None) -> int:
    return int(np.count_nonzero(flags if valid is None else flags & valid))

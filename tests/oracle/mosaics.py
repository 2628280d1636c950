"""What an ingest must write: patches where their numbers say, margins thrown away, one pixel at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def mosaic(
    records: Sequence[Mapping[str, np.ndarray | list[bytes]]],
    key: str,
    *,
    patch_xy: tuple[int, int],
    margin_xy: tuple[int, int],
    patches_per_row: int,
) -> np.ndarray:
    """(rows, columns) float64 of feature ``key`` over all patches; bytes features are raw uint8."""
    width, height = patch_xy
    margin_x, margin_y = margin_xy
    stride = width + 2 * margin_x
    grid_rows = len(records) // patches_per_row
    out = np.full((grid_rows * height, patches_per_row * width), np.nan)
    for number, record in enumerate(records):
        values = record[key]
        if isinstance(values, list):
            values = np.frombuffer(values[0], np.uint8)
        assert len(values) == stride * (height + 2 * margin_y)
        for row in range(height):
            for col in range(width):
                top, left = (number // patches_per_row) * height, (number % patches_per_row) * width
                out[top + row, left + col] = values[(row + margin_y) * stride + col + margin_x]
    return out


def cut(
    array: np.ndarray, number: int, *, patch_xy: tuple[int, int], margin_xy: tuple[int, int] = (0, 0)
) -> np.ndarray:
    """Patch ``number`` of a (rows, columns) array with its margin (0 outside the array), flat row-major."""
    per_row = array.shape[1] // patch_xy[0]
    top, left = (number // per_row) * patch_xy[1], (number % per_row) * patch_xy[0]
    values = [
        array[row, col] if 0 <= row < array.shape[0] and 0 <= col < array.shape[1] else array.dtype.type(0)
        for row in range(top - margin_xy[1], top + patch_xy[1] + margin_xy[1])
        for col in range(left - margin_xy[0], left + patch_xy[0] + margin_xy[0])
    ]
    return np.array(values, array.dtype)

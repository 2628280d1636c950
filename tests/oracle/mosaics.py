"""What an ingest must write: patches where their numbers say, margins thrown away, one pixel at a time."""

from __future__ import annotations

import math
from collections import Counter
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


def profile(overlap: str, patch: int, margin: int) -> list[float]:
    """The weights along one side of a block, from the words of the documentation."""
    side = patch + 2 * margin
    weights = []
    for place in range(side):
        from_edge = min(place, side - 1 - place) + 0.5
        share = min(1.0, from_edge / (2 * margin)) if margin else 1.0
        if overlap == "linear":
            weights.append(share)
        elif overlap == "cosine":
            weights.append(math.sin(math.pi * share / 2) ** 2)
        elif overlap == "gaussian":
            weights.append(math.exp(-0.5 * ((place + 0.5 - side / 2) / (side / 8)) ** 2))
        else:
            weights.append(1.0)
    return weights


def candidates(
    blocks: np.ndarray, *, patch_xy: tuple[int, int], margin_xy: tuple[int, int], patches_per_row: int
) -> dict[tuple[int, int], list[tuple[int, int, int]]]:
    """For each pixel (row, col) of the raster, the (block, row, col) places that predict it, blocks in order."""
    (width, height), (margin_x, margin_y) = patch_xy, margin_xy
    rows, cols = len(blocks) // patches_per_row * height, patches_per_row * width
    found: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for number in range(len(blocks)):
        top, left = number // patches_per_row * height - margin_y, number % patches_per_row * width - margin_x
        for row in range(height + 2 * margin_y):
            for col in range(width + 2 * margin_x):
                if 0 <= top + row < rows and 0 <= left + col < cols:
                    found.setdefault((top + row, left + col), []).append((number, row, col))
    return found


def blend(
    blocks: np.ndarray, overlap: str, *, patch_xy: tuple[int, int], margin_xy: tuple[int, int], patches_per_row: int
) -> np.ndarray:
    """(band, rows, columns) float64 of ``blocks`` (block, band, row, col), pixel by pixel; NaN takes no part."""
    (width, height), (margin_x, margin_y) = patch_xy, margin_xy
    along_y, along_x = profile(overlap, height, margin_y), profile(overlap, width, margin_x)
    bands = blocks.shape[1]
    out = np.full((bands, len(blocks) // patches_per_row * height, patches_per_row * width), np.nan)
    places = candidates(blocks, patch_xy=patch_xy, margin_xy=margin_xy, patches_per_row=patches_per_row)
    for (row, col), sources in places.items():
        if overlap == "max-probability":
            pixels = [blocks[n, :, y, x] for n, y, x in sources if not np.isnan(blocks[n, :, y, x]).all()]
            for band in range(bands):
                known = [pixel for pixel in pixels if not np.isnan(pixel[band])]
                if known:
                    out[band, row, col] = max(known, key=np.nanmax)[band]
            continue
        own = row // height * patches_per_row + col // width
        for band in range(bands):
            votes = [(float(blocks[n, band, y, x]), along_y[y] * along_x[x], n == own) for n, y, x in sources]
            votes = [vote for vote in votes if not math.isnan(vote[0])]
            if not votes:
                continue
            if overlap == "vote":
                counts = Counter(value for value, _, _ in votes)
                preferred = {value for value, _, is_own in votes if is_own}
                out[band, row, col] = min(counts, key=lambda value: (-counts[value], value not in preferred, value))
            else:
                total = sum(weight for _, weight, _ in votes)
                out[band, row, col] = sum(value * weight for value, weight, _ in votes) / total
    return out

"""Scenes, and what a model must make of them, by whole arrays in numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

Place = tuple[tuple[float, ...], str]
PLACE: Place = ((10.0, 0.0, 500000.0, 0.0, -10.0, 4000000.0), "EPSG:32618")


def scene(bands: int, rows: int, cols: int, seed: int = 0) -> np.ndarray:
    """(band, row, col) float32 noise."""
    return np.random.default_rng(seed).normal(0, 10, (bands, rows, cols)).astype("float32")


def blocks_of(pixels: np.ndarray, patch: int, margin: int, fill: float = 0) -> np.ndarray:
    """(patch, band, row, col): the whole patches of (band, row, col) pixels, with what lies around them."""
    rows, cols = pixels.shape[1] // patch, pixels.shape[2] // patch
    around = np.pad(pixels, ((0, 0), (margin, margin), (margin, margin)), constant_values=fill)
    side = patch + 2 * margin
    return np.stack(
        [
            around[:, row * patch : row * patch + side, col * patch : col * patch + side]
            for row in range(rows)
            for col in range(cols)
        ]
    )


def mosaic_of(patches: np.ndarray, per_row: int) -> np.ndarray:
    """(band, row, col) of (patch, band, row, col)."""
    rows = len(patches) // per_row
    lines = [np.concatenate(list(patches[row * per_row : (row + 1) * per_row]), axis=2) for row in range(rows)]
    return np.concatenate(lines, axis=1)


def neighbour_sum(batch: np.ndarray) -> np.ndarray:
    """A model that looks around: for each pixel the sum of its own and the four beside it, over all bands; no edge."""
    total = batch.sum(axis=1)
    inner = total[:, 1:-1, 1:-1]
    return inner + total[:, :-2, 1:-1] + total[:, 2:, 1:-1] + total[:, 1:-1, :-2] + total[:, 1:-1, 2:]


def spying(model: Callable[[np.ndarray], object]) -> tuple[Callable[[np.ndarray], object], list[tuple[int, ...]]]:
    """``model``, and the shapes of the batches that it gets."""
    shapes: list[tuple[int, ...]] = []

    def spy(batch: np.ndarray) -> object:
        shapes.append(batch.shape)
        return model(batch)

    return spy, shapes

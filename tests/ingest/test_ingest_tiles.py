"""How a mosaic is cut into tiles, by whom and within which memory it is written never shows in the pixels."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import wire
from oracle.rasters import NORTH_UP, read_raster

import geotfr


def write_large_set(
    folder: Path,
    picture: np.ndarray,
    *,
    patch: tuple[int, int],
    margin: tuple[int, int],
    shards: int,
    compression: str,
) -> tuple[Path, list[Path]]:
    """Mixer and shards of a (band, row, col) float32 or uint8 picture; margins hold -1 (255)."""
    (width, height), (margin_x, margin_y) = patch, margin
    per_row, rows = picture.shape[2] // width, picture.shape[1] // height
    around = ((0, 0), (margin_y, margin_y), (margin_x, margin_x))
    feature: Any = wire.float_feature if picture.dtype == np.float32 else lambda v: wire.bytes_feature([v.tobytes()])
    payloads = []
    for number in range(per_row * rows):
        top, left = number // per_row * height, number % per_row * width
        block = np.pad(picture[:, top : top + height, left : left + width], around, constant_values=255)
        payloads.append(wire.example((f"b{n}", feature(band.ravel())) for n, band in enumerate(block, 1)))
    size = -(-len(payloads) // shards)
    paths = [
        wire.write_shard(
            folder / f"pred-{start // size}.tfrecord",
            payloads[start : start + size],
            compression=compression,
        )
        for start in range(0, len(payloads), size)
    ]
    mixer = folder / "mixer.json"
    mixer.write_text(wire.mixer_text("EPSG:32618", NORTH_UP[:6], patch, per_row, len(payloads)))
    return mixer, paths


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32 - 1),
    patch=st.tuples(st.integers(20, 130), st.integers(20, 130)),
    margin=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    grid=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    bands=st.integers(1, 3),
    dtype=st.sampled_from(["float32", "uint8"]),
    shards=st.integers(1, 4),
    compression=st.sampled_from(["", "GZIP", "ZLIB"]),
    tiles=st.sampled_from(
        [
            {},
            {"BLOCKXSIZE": "64", "BLOCKYSIZE": "32"},
            {"TILED": "NO"},
            {"INTERLEAVE": "BAND"},
            {"INTERLEAVE": "PIXEL", "COMPRESS": "NONE"},
        ]
    ),
)
def test_every_patch_lands_in_its_place_whatever_the_tiles(
    seed: int,
    patch: tuple[int, int],
    margin: tuple[int, int],
    grid: tuple[int, int],
    bands: int,
    dtype: str,
    shards: int,
    compression: str,
    tiles: dict[str, str],
) -> None:
    shape = (bands, grid[1] * patch[1], grid[0] * patch[0])
    picture = np.random.default_rng(seed).integers(0, 250, shape).astype(dtype)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        mixer, paths = write_large_set(
            folder, picture, patch=patch, margin=margin, shards=shards, compression=compression
        )
        kernel = (2 * margin[0] + 1, 2 * margin[1] + 1)
        geotfr.ingest_predictions(mixer, paths, folder / "out.tif", kernel_size=kernel, creation_options=tiles or None)
        np.testing.assert_array_equal(read_raster(folder / "out.tif")[0], picture)


@pytest.mark.parametrize("grid", [(40, 1), (1, 40)], ids=["wide", "tall"])
def test_long_rows_and_columns_of_patches_are_put_together_right(grid: tuple[int, int], tmp_path: Path) -> None:
    shape = (1, grid[1] * 50, grid[0] * 70)
    picture = np.random.default_rng(8).normal(0, 1, shape).astype("float32")
    mixer, paths = write_large_set(tmp_path, picture, patch=(70, 50), margin=(0, 0), shards=7, compression="")
    geotfr.ingest_predictions(mixer, paths, tmp_path / "out.tif")
    np.testing.assert_array_equal(read_raster(tmp_path / "out.tif")[0], picture)

"""What was exported and comes back is the raster itself, whatever becomes of the margins; real exports too."""

from __future__ import annotations

import json
import math
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from oracle import wire
from oracle.rasters import NORTH_UP, ROTATED, SOUTH_UP, read_raster, write_raster
from oracle.run import DATA, assert_refused, needs_data, run
from rasterio.transform import Affine

import geotfr

OVERLAPS = ["crop", "average", "linear", "cosine", "gaussian", "vote", "max-probability"]
PLACES = {
    "north-up": (NORTH_UP, "EPSG:32618"),
    "south-up": (SOUTH_UP, "EPSG:4326"),
    "rotated": (ROTATED, "EPSG:3577"),
    "large origin": (Affine(20, 0, 50200, 0, -20, 7799840), "EPSG:32735"),
}


@dataclass(frozen=True)
class Scene:
    """A raster and how it is cut."""

    size_xy: tuple[int, int]
    patch_xy: tuple[int, int]
    kernel_xy: tuple[int, int]
    edge: str
    dtype: str
    place: str
    masked_share: float
    seed: int


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    patch = draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    # One row or one column of patches is as likely as several.
    counts = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    more = draw(st.tuples(st.integers(0, patch[0] - 1), st.integers(0, patch[1] - 1)))
    return Scene(
        size_xy=(patch[0] * counts[0] + more[0], patch[1] * counts[1] + more[1]),
        patch_xy=patch,
        kernel_xy=draw(st.tuples(st.integers(0, 12), st.integers(0, 12))),
        edge=draw(st.sampled_from(["drop", "pad"])),
        dtype=draw(st.sampled_from(["float32", "uint8", "int16"])),
        place=draw(st.sampled_from(sorted(PLACES))),
        masked_share=draw(st.sampled_from([0.0, 0.0, 0.2])),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scene=scenes(), overlap=st.sampled_from(OVERLAPS))
@example(Scene((844 // 4, 1280 // 4), (64, 64), (32, 32), "drop", "float32", "north-up", 0.0, 6), "gaussian")
@example(Scene((33, 17), (16, 16), (8, 8), "pad", "uint8", "south-up", 0.0, 5), "vote")
@example(Scene((1, 9), (1, 3), (5, 4), "drop", "int16", "rotated", 0.2, 1), "average")
@example(Scene((9, 1), (3, 1), (12, 12), "drop", "float32", "north-up", 0.2, 1), "max-probability")
def test_an_export_that_is_ingested_is_the_raster(scene: Scene, overlap: str) -> None:
    source = np.random.default_rng(scene.seed)
    cols, rows = scene.size_xy
    pixels = source.integers(1, 200, (2, rows, cols)).astype(scene.dtype)
    if scene.dtype == "float32":
        pixels += source.random(pixels.shape, "float32")
    pixels[:, source.random((rows, cols)) < scene.masked_share] = 0
    transform, crs = PLACES[scene.place]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_raster(folder / "scene.tif", pixels, transform=transform, crs=crs, nodata=0)
        # Masked pixels are 0 in every block that holds them, and in the raster that comes back.
        result = geotfr.export_image(
            folder / "scene.tif",
            folder / "set",
            patch_dimensions=scene.patch_xy,
            kernel_size=scene.kernel_xy,
            edge=scene.edge,
            compressed=False,
        )
        geotfr.ingest_predictions(result.mixer, result.shards, folder / "back.tif", overlap=overlap, dtype=scene.dtype)
        back, profile, names = read_raster(folder / "back.tif")
    if scene.edge == "drop":
        pixels = pixels[
            :, : rows // scene.patch_xy[1] * scene.patch_xy[1], : cols // scene.patch_xy[0] * scene.patch_xy[0]
        ]
    np.testing.assert_array_equal(back, pixels)
    assert back.dtype == scene.dtype
    assert profile["transform"] == transform
    assert profile["crs"].to_string() == crs
    assert names == ("b1", "b2")


# Earth Engine's own.

STEM = "TEST_coeff_output_SIF_C_S_Amer"
SHARD = DATA / "earth-engine" / f"{STEM}-00005.tfrecord"
MIXER = DATA / "earth-engine" / f"{STEM}-mixer.json"
PATCH, MARGIN = 256, 30
PLACE_OF_FIRST = (3, 1)
"""Patch row and column of the shard's first record, number 10 of rows of 3."""


def cores() -> tuple[list[str], np.ndarray]:
    """Names, and what the two records' blocks hold without their margins, (band, row, col), side by side."""
    records = wire.read_shard(SHARD, checked=0)
    side = PATCH + 2 * MARGIN
    inner = slice(MARGIN, MARGIN + PATCH)
    bands = [
        np.hstack([np.asarray(record[name], np.float32).reshape(side, side)[inner, inner] for record in records])
        for name in records[0]
    ]
    return list(records[0]), np.array(bands)


@needs_data
@pytest.mark.parametrize("overlap", ["crop", "average", "vote"])
def test_a_real_padded_shard_becomes_its_own_cores(overlap: str, tmp_path: Path) -> None:
    names, wanted = cores()
    a, _, x, _, e, y = json.loads(MIXER.read_text())["projection"]["affine"]["doubleMatrix"]
    row, col = PLACE_OF_FIRST
    transform = (a, 0.0, x + a * col * PATCH, 0.0, e, y + e * row * PATCH)
    # A grid of the two patches that the shard holds.
    mixer = tmp_path / "mixer.json"
    mixer.write_text(wire.mixer_text("EPSG:4326", transform, (PATCH, PATCH), 2, 2))
    # Their margins agree: what is masked in one block is -9999 in its neighbour.
    geotfr.ingest_predictions(mixer, SHARD, tmp_path / "o.tif", overlap=overlap)
    pixels, profile, descriptions = read_raster(tmp_path / "o.tif")
    np.testing.assert_array_equal(pixels, wanted)
    assert tuple(profile["transform"])[:6] == transform
    assert list(descriptions) == names


@needs_data
def test_a_real_shard_among_the_others_lands_where_the_real_mixer_says(tmp_path: Path) -> None:
    stream = SHARD.read_bytes()
    (length,) = struct.unpack_from("<Q", stream)
    blank = stream[: length + 16]  # the first record is masked: all -9999
    for number in range(8):
        content = stream if number == 5 else blank * (1 if number == 7 else 2)
        (tmp_path / f"{STEM}-{number:05d}.tfrecord").write_bytes(content)
    (tmp_path / MIXER.name).write_bytes(MIXER.read_bytes())
    outcome = run("ingest-predictions", tmp_path, "-o", tmp_path / "o.tif", "--quiet", "--nodata", "-9999")
    assert outcome.code == 0, outcome.told
    pixels, profile, _ = read_raster(tmp_path / "o.tif")
    _, wanted = cores()
    assert pixels.shape == (5, 5 * PATCH, 3 * PATCH)
    row, col = (place * PATCH for place in PLACE_OF_FIRST)
    np.testing.assert_array_equal(pixels[:, row : row + PATCH, col:], wanted)
    pixels[:, row : row + PATCH, col:] = -9999
    assert (pixels == -9999).all()
    want = json.loads(MIXER.read_text())["projection"]["affine"]["doubleMatrix"]
    assert all(math.isclose(*pair, rel_tol=0, abs_tol=1e-12) for pair in zip(profile["transform"], want, strict=False))


@needs_data
def test_a_real_shard_alone_is_refused_by_its_mixer(tmp_path: Path) -> None:
    outcome = run("ingest-predictions", MIXER, SHARD, "-o", tmp_path / "o.tif")
    assert_refused(outcome, {2, 12}, "15", SHARD.name)
    assert list(tmp_path.iterdir()) == []


def test_pixels_of_blocks_around_patches_of_one_pixel_come_back(tmp_path: Path) -> None:
    pixels = np.arange(12, dtype=np.uint8).reshape(1, 3, 4)
    source = (pixels, (10, 0, 0, 0, -10, 0), "EPSG:32633")
    made = geotfr.export_image(source, tmp_path / "s", patch_dimensions=1, kernel_size=(2, 4), sequence_data=True)
    geotfr.ingest_predictions(made.manifest, made.shards, tmp_path / "o.tif")
    np.testing.assert_array_equal(read_raster(tmp_path / "o.tif")[0], pixels)


@pytest.mark.parametrize("side", [1, 2])
def test_the_number_of_a_patch_is_no_band(side: int, tmp_path: Path) -> None:
    pixels = np.arange(16, dtype=np.uint8).reshape(1, 4, 4)
    source = (pixels, (10, 0, 0, 0, -10, 0), "EPSG:32633")
    made = geotfr.export_image(source, tmp_path / "s", patch_dimensions=side, patch_index="n")
    with pytest.raises(geotfr.RecordError, match=r"'n' is the patch's number, as the manifest tells.* --patch-index n"):
        geotfr.ingest_predictions(made.manifest, made.shards, tmp_path / "o.tif")
    for options in ({"patch_index": "n"}, {"bands": ["b1"]}):
        geotfr.ingest_predictions(made.manifest, made.shards, tmp_path / "o.tif", overwrite=True, **options)
        np.testing.assert_array_equal(read_raster(tmp_path / "o.tif")[0], pixels)

"""Predictions reduced to classes, thresholded and scaled: what a pixel then holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import rasterio
from oracle.rasters import numbered, read_raster
from oracle.run import assert_refused, run
from oracle.sets import write_blocks, write_set

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

GRID = {"patch": (3, 2), "per_row": 2}


def probabilities(classes: int) -> np.ndarray:
    """(record, class, row, col) of a grid of 2 x 2 patches."""
    return np.random.default_rng(classes).random((4, classes, 2, 3), "float32")


def laid(blocks: np.ndarray) -> np.ndarray:
    """(row, col) of four patches of 2 x 3."""
    return np.block([[blocks[0], blocks[1]], [blocks[2], blocks[3]]])


@pytest.mark.parametrize("order", ["first", "last"])
def test_argmax_is_the_number_of_the_greatest_channel(order: str, tmp_path: Path) -> None:
    blocks = probabilities(5)
    stored = blocks if order == "first" else blocks.transpose(0, 2, 3, 1)
    mixer, shards = write_blocks(tmp_path, {"p": np.ascontiguousarray(stored)}, **GRID)
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", channels=order, argmax=True, confidence=True)
    pixels, _, names = read_raster(tmp_path / "o.tif")
    assert names == ("class", "confidence")
    np.testing.assert_array_equal(pixels[0], laid(blocks.argmax(axis=1)))
    np.testing.assert_array_equal(pixels[1], laid(blocks.max(axis=1)))


def test_argmax_over_features_is_a_byte(tmp_path: Path) -> None:
    blocks = probabilities(3)
    features = {name: blocks[:, place] for place, name in enumerate(("a", "b", "c"))}
    mixer, shards = write_blocks(tmp_path, features, **GRID)
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", argmax=True, bands="c,a,b")
    pixels, _, names = read_raster(tmp_path / "o.tif")
    assert (names, pixels.dtype) == (("class",), np.uint8)
    np.testing.assert_array_equal(pixels[0], laid(blocks[:, [2, 0, 1]].argmax(axis=1)))


def test_a_pixel_with_a_nan_probability_has_no_class(tmp_path: Path) -> None:
    blocks = probabilities(3)
    blocks[1, 2, 0, 0] = np.nan
    mixer, shards = write_blocks(tmp_path, {"p": blocks}, **GRID)
    with pytest.raises(geotfr.RecordError, match=r"record 1.*no prediction.*--nodata"):
        geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", channels="first", argmax=True)
    assert not (tmp_path / "o.tif").exists()
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", channels="first", argmax=True, nodata=255)
    wanted = laid(blocks.argmax(axis=1))
    wanted[0, 3] = 255
    np.testing.assert_array_equal(read_raster(tmp_path / "o.tif")[0][0], wanted)


def test_blended_probabilities_are_reduced_after_the_blend(tmp_path: Path) -> None:
    blocks = np.zeros((2, 2, 2, 4), "float32")  # two blocks of 4 x 2 over patches of 2 x 2, a margin of 1 x 0
    blocks[0, 0], blocks[0, 1] = 0.6, 0.4
    blocks[1, 0], blocks[1, 1] = 0.1, 0.9
    mixer, shards = write_blocks(tmp_path, {"p": blocks}, patch=(2, 2), per_row=2)
    options = {"kernel_size": (2, 1), "class_names": "dry,wet", "argmax": True}
    geotfr.ingest_predictions(mixer, shards, tmp_path / "a.tif", overlap="average", **options)
    # The mean of the overlap, (0.35, 0.65), is class 1 on both sides of the seam.
    assert read_raster(tmp_path / "a.tif")[0][0].tolist() == [[0, 1, 1, 1]] * 2
    geotfr.ingest_predictions(mixer, shards, tmp_path / "c.tif", **options)
    assert read_raster(tmp_path / "c.tif")[0][0].tolist() == [[0, 0, 1, 1]] * 2


def test_a_threshold_makes_zero_and_one(tmp_path: Path) -> None:
    picture = np.array([[[0.2, 0.5], [np.nan, 0.7]]], "float32")
    mixer, shards = write_set(tmp_path, picture, patch=(2, 2))
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", threshold=0.5, nodata=9)
    pixels, _, _ = read_raster(tmp_path / "o.tif")
    assert (pixels.dtype, pixels.tolist()) == (np.uint8, [[[0, 1], [9, 1]]])


def test_scaled_values_read_back_as_they_were(tmp_path: Path) -> None:
    picture = np.random.default_rng(1).uniform(-1, 1, (2, 4, 6)).astype("float32")
    mixer, shards = write_set(tmp_path, picture, patch=(2, 2), names=("a", "b"))
    result = geotfr.ingest_predictions(
        mixer, shards, tmp_path / "o.tif", scale=1e-4, offset=0.25, dtype="int16", nodata=-32768
    )
    assert result.values_clamped == 0
    with rasterio.open(tmp_path / "o.tif") as raster:
        assert (raster.scales, raster.offsets) == ((1e-4,) * 2, (0.25,) * 2)
        back = raster.read() * 1e-4 + 0.25
    np.testing.assert_allclose(back, picture, atol=0.51e-4)


def test_clamped_values_are_counted_told_and_exit_3(tmp_path: Path) -> None:
    picture = np.array([[[-5.0, 0.4], [0.6, 300.0]]], "float32")
    mixer, (shard,) = write_set(tmp_path, picture, patch=(2, 2))
    out = ("--output", tmp_path / "o.tif", "--scale", "1", "--dtype", "uint8")
    outcome = run("ingest-predictions", mixer, shard, *out)
    assert outcome.code == 3, outcome.told
    assert "2 values" in outcome.stderr
    assert "clamped" in outcome.stderr
    assert read_raster(tmp_path / "o.tif")[0].tolist() == [[[0, 0], [1, 255]]]
    # A clamped value keeps off nodata.
    run("ingest-predictions", mixer, shard, *out, "--nodata", "255", "--overwrite")
    assert read_raster(tmp_path / "o.tif")[0].tolist() == [[[0, 0], [1, 254]]]


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32"])
def test_values_beyond_the_type_are_clamped_to_its_end(dtype: str, tmp_path: Path) -> None:
    mixer, shards = write_set(tmp_path, np.array([[[-1e30, 1e30]]], "float32"), patch=(2, 1))
    result = geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", scale=1, dtype=dtype)
    low, high = read_raster(tmp_path / "o.tif")[0][0, 0].tolist()
    limits = np.iinfo(dtype)
    assert result.values_clamped == 2
    assert low == limits.min
    assert limits.max - 2**11 <= high <= limits.max


@pytest.mark.parametrize(
    "options",
    [
        ("--confidence",),
        ("--argmax",),
        ("--argmax", "--threshold", "0.5"),
        ("--argmax", "--confidence", "--dtype", "uint8"),
        ("--argmax", "--overlap", "vote"),
        ("--scale", "0.1"),
        ("--scale", "0", "--dtype", "uint8"),
        ("--offset", "1", "--dtype", "float32"),
        ("--scale", "2", "--dtype", "uint8", "--threshold", "1"),
        ("--threshold", "nan"),
        ("--compress", "zstd", "--creation-option", "COMPRESS=LZW"),
        ("--coarser", "2", "--finer", "2"),
        ("--coarser", "0"),
        ("--coarser", "3"),
        ("--per-patch", "fill", "--overlap", "average"),
        ("--pyramiding-policy", "median"),
        ("--pyramiding-policy", "b2=mean"),
        ("--pyramiding-policy", "b1=mean,b1=max"),
        ("--format", "cog", "--creation-option", "TILING_SCHEME=x"),
        ("--format", "cog", "--creation-option", "BLOCKSIZE=x"),
        ("--format", "cog", "--creation-option", "BLOCKSIZE=0"),
        ("--class-names", "a,b", "--channels", "first", "--kernel-size", "1"),
    ],
    ids=" ".join,
)
def test_options_that_contradict_each_other_are_exit_2(options: tuple[str, ...], tmp_path: Path) -> None:
    picture = numbered(1, 4, 4)
    if "--class-names" in options:
        mixer, shards = write_blocks(tmp_path, {"b1": np.zeros((4, 3, 2, 2), "float32")}, patch=(2, 2), per_row=2)
    else:
        mixer, shards = write_set(tmp_path, picture, patch=(2, 2))
    outcome = run("ingest-predictions", mixer, *shards, "--output", tmp_path / "o.tif", *options)
    assert_refused(outcome, 2)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".tfrecord"]


@pytest.mark.parametrize(("dtype", "digits"), [("float32", 24), ("float64", 53)])
def test_whole_numbers_that_the_floats_of_dtype_round_are_told(dtype: str, digits: int, tmp_path: Path) -> None:
    wide = 2**digits
    numbers = np.array([[[[0, wide], [wide + 1, -wide - 1]]]], np.int64)
    mixer, shards = write_blocks(tmp_path, {"b1": numbers}, patch=(2, 2), per_row=1)
    result = geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", dtype=dtype)
    assert result.warnings == (f"2 whole numbers can't be held exactly by {dtype} and were rounded",)
    exact = np.array([[[[0, wide], [wide - 1, 2 * wide]]]], np.int64)
    mixer, shards = write_blocks(tmp_path, {"b1": exact}, patch=(2, 2), per_row=1)
    assert geotfr.ingest_predictions(mixer, shards, tmp_path / "p.tif", dtype=dtype).warnings == ()

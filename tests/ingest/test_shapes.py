"""Every shape that models give: one value for a patch, coarser and finer pixels, named channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracle.rasters import ROTATED, numbered, read_raster, write_raster
from oracle.run import assert_refused, run
from oracle.sets import write_blocks, write_set
from rasterio.transform import Affine

import geotfr

if TYPE_CHECKING:
    from pathlib import Path


def values(count: int, *shape: int) -> np.ndarray:
    return np.arange(1, count * int(np.prod(shape)) + 1, dtype="float32").reshape(count, *shape)


@pytest.mark.parametrize("transform", [Affine(10, 0, 500, 0, -20, 900), ROTATED], ids=["north-up", "rotated"])
def test_a_value_for_a_patch_is_a_pixel_of_its_size(transform: Affine, tmp_path: Path) -> None:
    blocks = values(6, 1)
    mixer, shards = write_blocks(tmp_path, {"a": blocks}, patch=(4, 3), per_row=3, place=(transform, "EPSG:32618"))
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", per_patch="pixel")
    pixels, profile, names = read_raster(tmp_path / "o.tif")
    assert names == ("a",)
    assert pixels.tolist() == [[[1, 2, 3], [4, 5, 6]]]
    a, b, c, d, e, f = transform[:6]
    np.testing.assert_allclose(profile["transform"][:6], (4 * a, 3 * b, c, 4 * d, 3 * e, f), rtol=1e-12)


def test_values_for_a_patch_fill_it(tmp_path: Path) -> None:
    blocks = values(6, 2)
    mixer, shards = write_blocks(tmp_path, {"a": blocks}, patch=(4, 3), per_row=3)
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", per_patch="fill")
    pixels, _, names = read_raster(tmp_path / "o.tif")
    assert names == ("a_0", "a_1")
    for band in range(2):
        np.testing.assert_array_equal(pixels[band], np.kron(blocks[:, band].reshape(2, 3), np.ones((3, 4))))


def test_class_scores_for_a_patch_become_its_class(tmp_path: Path) -> None:
    blocks = np.array([[0.1, 0.9, 0], [0.5, 0.2, 0.3]], "float32")
    mixer, shards = write_blocks(tmp_path, {"a": blocks}, patch=(4, 3), per_row=2)
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", per_patch="pixel", argmax=True)
    assert read_raster(tmp_path / "o.tif")[0].tolist() == [[[1, 0]]]


@pytest.mark.parametrize(
    ("overlap", "margin"),
    [("crop", (0, 0)), ("crop", (2, 4)), ("average", (0, 0))],
    ids=["trimmed", "padded", "blended"],
)
def test_coarser_predictions_scale_the_transform(overlap: str, margin: tuple[int, int], tmp_path: Path) -> None:
    picture = values(1, 4, 9)  # 4 x 9 coarse pixels: patches of 6 x 4 fine ones, 3 x 2 coarse ones
    mixer, shards = write_set(tmp_path, picture, patch=(3, 2), margin=(margin[0] // 2, margin[1] // 2))
    text = mixer.read_text().replace("[3, 2]", "[6, 4]")
    mixer.write_text(text)
    kernel = (2 * margin[0], 2 * margin[1]) if margin[0] else (1, 1)
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", coarser=2, kernel_size=kernel, overlap=overlap)
    pixels, profile, _ = read_raster(tmp_path / "o.tif")
    np.testing.assert_array_equal(pixels, picture)
    assert profile["transform"] == Affine(20, 0, 500000, 0, -20, 4000000)


def test_finer_predictions_scale_the_transform(tmp_path: Path) -> None:
    picture = values(1, 8, 12)
    mixer, shards = write_set(tmp_path, picture, patch=(6, 4))
    mixer.write_text(mixer.read_text().replace("[6, 4]", "[3, 2]"))
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", finer=2)
    pixels, profile, _ = read_raster(tmp_path / "o.tif")
    np.testing.assert_array_equal(pixels, picture)
    assert profile["transform"] == Affine(5, 0, 500000, 0, -5, 4000000)


def test_a_padded_edge_of_coarser_predictions_keeps_its_partial_pixel(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 5, 7))
    geotfr.export_image(source, tmp_path / "set", patch_dimensions=4, edge="pad")
    _, shards = write_blocks(tmp_path, {"a": values(4, 2, 2)}, patch=(4, 4), per_row=2)
    geotfr.ingest_predictions(tmp_path / "set.json", shards, tmp_path / "o.tif", coarser=2)
    assert read_raster(tmp_path / "o.tif")[0].shape == (1, 3, 4)


def test_channels_take_the_names_of_classes(tmp_path: Path) -> None:
    mixer, shards = write_blocks(tmp_path, {"p": values(4, 3, 2, 2)}, patch=(2, 2), per_row=2)
    geotfr.ingest_predictions(
        mixer, shards, tmp_path / "o.tif", channels="first", class_names=["water", "wood", "town"], kernel_size=1
    )
    assert read_raster(tmp_path / "o.tif")[2] == ("water", "wood", "town")


@pytest.mark.parametrize(
    ("length", "code", "words"),
    [
        (64, 2, ("--kernel-size 4", "4 channels", "--channels", "--finer 2")),
        (4, 12, ("--coarser 2", "2 x 2")),
        (1, 12, ("--per-patch",)),
        (3, 12, ("3 values for the whole patch", "--per-patch")),
        (32, 12, ("2 channels", "--channels")),
        (17, 12, ("no other known shape",)),
    ],
)
def test_a_length_with_several_readings_lists_them_with_the_option_that_decides(
    length: int, code: int, words: tuple[str, ...], tmp_path: Path
) -> None:
    mixer, (shard,) = write_blocks(tmp_path, {"a": values(4, length)}, patch=(4, 4), per_row=2)
    outcome = run("ingest-predictions", mixer, shard, "--output", tmp_path / "o.tif")
    assert_refused(outcome, code, *words)
    assert not (tmp_path / "o.tif").exists()


def test_whole_patches_may_stand_beside_values_that_fill_theirs(tmp_path: Path) -> None:
    features = {"map": values(4, 3, 4), "score": values(4, 1), "padded": values(4, 5, 6)}
    mixer, shards = write_blocks(tmp_path, features, patch=(4, 3), per_row=2)
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", per_patch="fill", kernel_size=2)
    pixels, _, names = read_raster(tmp_path / "o.tif")
    assert names == ("map", "score", "padded")
    np.testing.assert_array_equal(pixels[0], np.block([[*features["map"][:2]], [*features["map"][2:]]]))
    np.testing.assert_array_equal(pixels[1], np.kron(features["score"].reshape(2, 2), np.ones((3, 4))))
    inner = features["padded"][:, 1:-1, 1:-1]
    np.testing.assert_array_equal(pixels[2], np.block([[*inner[:2]], [*inner[2:]]]))


@pytest.mark.parametrize("per_patch", ["pixel", "fill"])
def test_values_that_could_be_bands_or_a_whole_patch_are_asked_about(per_patch: str, tmp_path: Path) -> None:
    mixer, shards = write_blocks(tmp_path, {"a": values(4, 2, 2)}, patch=(2, 2), per_row=2)
    call = ("ingest-predictions", mixer, *shards, "--output", tmp_path / "o.tif", "--per-patch", per_patch)
    assert_refused(run(*call), 2, "4 bands of one value", "--class-names", "2 x 2 pixels", "--bands")
    outcome = run(*call, "--class-names", "a,b,c,d", "--quiet")
    assert outcome.code == 0, outcome.told
    pixels, _, names = read_raster(tmp_path / "o.tif")
    assert names == ("a", "b", "c", "d")
    side = 1 if per_patch == "pixel" else 2
    np.testing.assert_array_equal(pixels[1], np.kron([[2, 6], [10, 14]], np.ones((side, side))))


def test_a_pixel_for_a_patch_takes_no_whole_patches(tmp_path: Path) -> None:
    features = {"map": values(4, 2, 2), "score": values(4, 1)}
    mixer, shards = write_blocks(tmp_path, features, patch=(2, 2), per_row=2)
    call = ("ingest-predictions", mixer, *shards, "--output", tmp_path / "o.tif", "--per-patch", "pixel")
    assert_refused(run(*call), 2, "'map'", "--bands")
    assert run(*call, "--bands", "score", "--quiet").code == 0
    assert read_raster(tmp_path / "o.tif")[0].tolist() == [[[1, 2], [3, 4]]]


def test_channels_of_padded_patches_that_could_be_more_channels_are_decided_by_names(tmp_path: Path) -> None:
    blocks = values(2, 2, 6, 2)
    mixer, shards = write_blocks(tmp_path, {"a": blocks}, patch=(2, 2), per_row=2)
    call = ("ingest-predictions", mixer, *shards, "--output", tmp_path / "o.tif", "--channels", "first", "--quiet")
    call = (*call, "--kernel-size", "1,4")
    words = (
        "6 channels of 2 x 2 (--kernel-size 1, or --class-names with 6)",
        "2 channels of 2 x 6 (--class-names with 2)",
    )
    assert_refused(run(*call), 2, *words)
    assert run(*call, "--class-names", "no,yes").code == 0
    pixels, _, names = read_raster(tmp_path / "o.tif")
    assert names == ("no", "yes")
    np.testing.assert_array_equal(pixels, np.concatenate(list(blocks[:, :, 2:4]), axis=-1))


def test_a_margin_of_finer_predictions_is_told_as_the_kernel_that_the_option_takes(tmp_path: Path) -> None:
    mixer, shards = write_blocks(tmp_path, {"a": values(1, 9, 6, 6)}, patch=(2, 2), per_row=1)
    call = ("ingest-predictions", mixer, *shards, "--output", tmp_path / "o.tif", "--channels", "first", "--quiet")
    call = (*call, "--finer", "3")
    assert_refused(run(*call), 2, "18 x 18 (--kernel-size 4)", "9 channels of 6 x 6")
    assert run(*call, "--kernel-size", "4").code == 0
    assert read_raster(tmp_path / "o.tif")[0].shape == (1, 6, 6)


def test_channels_that_could_be_a_margin_are_decided_by_the_kernel(tmp_path: Path) -> None:
    mixer, shards = write_blocks(tmp_path, {"a": values(1, 9, 2, 2)}, patch=(2, 2), per_row=1)
    call = ("ingest-predictions", mixer, *shards, "--output", tmp_path / "o.tif", "--channels", "first", "--quiet")
    assert_refused(run(*call), 2, "6 x 6 (--kernel-size 4)", "9 channels of 2 x 2 (--kernel-size 1")
    assert run(*call, "--kernel-size", "1").code == 0
    assert len(read_raster(tmp_path / "o.tif")[2]) == 9


def test_a_kernel_of_the_export_doesnt_make_margins_of_channels(tmp_path: Path) -> None:
    # 4 classes of patches that were trimmed have the values of a patch whose kernel is as wide as itself.
    pixels = np.zeros((4, 8), np.uint8)
    geotfr.export_image(
        (pixels, (10, 0, 0, 0, -10, 0), "EPSG:32633"), tmp_path / "in", patch_dimensions=(4, 2), kernel_size=(4, 2)
    )
    blocks = values(4, 4, 2, 4)
    geotfr.write_examples(tmp_path / "out.tfrecord", [{"a": block.ravel()} for block in blocks])
    call = ("ingest-predictions", tmp_path / "in.json", tmp_path / "out.tfrecord", "--output", tmp_path / "o.tif")
    call = (*call, "--channels", "first", "--quiet")
    words = (
        "a block of 8 x 4 (--kernel-size 4,2)",
        "4 channels of 4 x 2 (--kernel-size 1, or --class-names with 4)",
    )
    assert_refused(run(*call), 2, *words)
    assert run(*call, "--kernel-size", "1").code == 0
    np.testing.assert_array_equal(read_raster(tmp_path / "o.tif")[0][:, :2, :4], blocks[0])
    assert run(*call, "--kernel-size", "4,2", "--overwrite").code == 0
    assert read_raster(tmp_path / "o.tif")[0].shape == (1, 4, 8)

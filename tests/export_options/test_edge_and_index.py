"""Edges padded to whole patches, and patches that carry their number: out and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracle import wire
from oracle.images import Options, assert_export, expected_export
from oracle.rasters import NORTH_UP, ROTATED, SOUTH_UP, numbered, read_raster, write_raster
from oracle.run import assert_refused, run

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

    from rasterio.transform import Affine


def test_a_padded_edge_is_masked_and_filled_and_the_mixer_counts_every_patch(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.array([[1, 2, 3]], "uint8"))
    out = tmp_path / "out"
    out.mkdir()
    result = geotfr.export_image(source, out / "set", patch_dimensions=2, edge="pad", default_value=9)
    first, second = wire.read_shard(out / "set.tfrecord.gz")
    assert (first["b1"].tolist(), second["b1"].tolist()) == ([1, 2, 9, 9], [3, 9, 9, 9])
    mixer = json.loads((out / "set.json").read_text())
    assert (mixer["patchesPerRow"], mixer["totalPatches"], mixer["patchDimensions"]) == (2, 2, [2, 2])
    assert result.masked_share == 5 / 8
    manifest = json.loads((out / "set-manifest.json").read_text())
    assert (manifest["grid"]["width"], manifest["grid"]["height"]) == (3, 1)


def test_padded_pixels_count_as_masked_for_the_threshold(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 2, 3))
    result = geotfr.export_image(source, tmp_path / "set", patch_dimensions=2, edge="pad", masked_threshold=0.4)
    assert (result.patches_written, result.patches_dropped) == (1, 1)


def test_a_raster_that_fits_is_the_same_padded_or_not(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 4, 6))
    for edge in ("drop", "pad"):
        (tmp_path / edge).mkdir()
        geotfr.export_image(source, tmp_path / edge / "set", patch_dimensions=2, edge=edge)
    for name in ("set.tfrecord.gz", "set.json"):
        assert (tmp_path / "drop" / name).read_bytes() == (tmp_path / "pad" / name).read_bytes()


@pytest.mark.parametrize("place", [(NORTH_UP, "EPSG:32618"), (SOUTH_UP, "EPSG:4326"), (ROTATED, "EPSG:3577")])
@pytest.mark.parametrize("kinds", ["float", "native"])
def test_padded_patches_come_back_cropped_to_the_true_size(
    place: tuple[Affine, str], kinds: str, tmp_path: Path
) -> None:
    data = numbered(2, 7, 5, "int32")
    source = write_raster(tmp_path / "scene.tif", data, transform=place[0], crs=place[1])
    result = geotfr.export_image(
        source, tmp_path / "set", patch_dimensions=(4, 3), kernel_size=(2, 3), edge="pad", feature_kinds=kinds
    )
    assert result.mixer is not None
    outcome = run("ingest-predictions", result.mixer, *result.shards, "--output", tmp_path / "back.tif", "--quiet")
    assert outcome.code == 0, outcome.told
    pixels, profile, _ = read_raster(tmp_path / "back.tif")
    assert np.array_equal(pixels, data)
    assert profile["transform"] == place[0]


def test_without_the_manifest_the_whole_patches_come_back(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 3, 3))
    result = geotfr.export_image(source, tmp_path / "set", patch_dimensions=2, edge="pad", default_value=-1)
    result.manifest.unlink()
    geotfr.ingest_predictions(result.mixer, result.shards, tmp_path / "back.tif")
    want = np.full((4, 4), -1)
    want[:3, :3] = numbered(1, 3, 3)[0]
    assert np.array_equal(read_raster(tmp_path / "back.tif")[0][0], want)


def test_the_patch_index_is_the_last_feature_and_counts_every_patch_of_the_grid(tmp_path: Path) -> None:
    data = np.array([[0, 2, 3], [4, 5, 6]], "uint8")
    source = write_raster(tmp_path / "scene.tif", data, nodata=0)
    out = tmp_path / "out"
    out.mkdir()
    options = Options(patch=(1, 1), patch_index="number", masked_threshold=0)
    geotfr.export_image(source, out / "set", **options.keywords())
    records = wire.read_shard(out / "set.tfrecord.gz")
    # Patch 0 is dropped, and the others keep their numbers.
    assert [record["number"].tolist() for record in records] == [[1], [2], [3], [4], [5]]
    assert all(list(record) == ["b1", "number"] and record["number"].dtype == np.int64 for record in records)
    assert_export(out, expected_export([source], options, name="set"))


@pytest.mark.parametrize("count", [127, 128, 129, 16385])
def test_the_records_of_large_patch_numbers_are_longer_and_shards_know_it(count: int, tmp_path: Path) -> None:
    # 16385 one-pixel patches: the numbers take one, two, three bytes as varints.
    source = write_raster(tmp_path / "scene.tif", np.zeros((1, count), "uint8"))
    records = [
        len(wire.example([("b1", wire.float_feature([0])), ("i", wire.int64_feature([number]))])) + 16
        for number in range(count)
    ]
    limit = sum(records[-40:])
    geotfr.export_image(
        source, tmp_path / "set", patch_dimensions=1, patch_index="i", compressed=False, max_file_size=limit
    )
    sizes = [0]
    for size in records:
        if sizes[-1] + size > limit:
            sizes.append(0)
        sizes[-1] += size
    assert [path.stat().st_size for path in sorted(tmp_path.glob("*.tfrecord"))] == sizes


def test_a_patch_index_may_not_take_the_name_of_a_band(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(2, 2, 2), descriptions=("a", "b"))
    common = ("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2", "--quiet")
    assert_refused(run(*common, "--patch-index", "b"), 2, "'b'", "name")
    arrays = ("--array-band", "t=1-2", "--tensor-depths", "t=2")
    assert_refused(run(*common, *arrays, "--patch-index", "t"), 2, "'t'", "name")
    assert not list(tmp_path.glob("set*"))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("edge", ["drop", "pad"])
def test_predictions_that_carry_their_number_are_placed_right_in_any_order(
    seed: int, edge: str, tmp_path: Path
) -> None:
    data = numbered(1, 7, 8)
    source = write_raster(tmp_path / "scene.tif", data)
    result = geotfr.export_image(source, tmp_path / "set", patch_dimensions=3, patch_index="number", edge=edge)
    payloads = wire.unframe(wire.inflate(result.shards[0].read_bytes()))
    order = np.random.default_rng(seed).permutation(len(payloads))
    shards = [
        wire.write_shard(tmp_path / f"pred-{part}.tfrecord", [payloads[place] for place in places])
        for part, places in enumerate(np.array_split(order, 2))
    ]
    outcome = run(
        *("ingest-predictions", result.mixer, *shards, "--output", tmp_path / "back.tif", "--quiet"),
        *("--patch-index", "number"),
    )
    assert outcome.code == 0, outcome.told
    pixels, _, descriptions = read_raster(tmp_path / "back.tif")
    # The number places a patch; it is no band.
    assert descriptions == ("b1",)
    assert np.array_equal(pixels, data if edge == "pad" else data[:, :6, :6])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({0: 1}, ("1",)),
        ({0: 99}, ("99", "0 to 3")),
        ({0: -1}, ("-1", "0 to 3")),
        ({0: None}, ("number",)),
    ],
    ids=["a number twice", "beyond the last", "negative", "missing"],
)
def test_numbers_that_do_not_name_each_patch_once_are_told_before_any_output(
    change: dict[int, int | None], words: tuple[str, ...], tmp_path: Path
) -> None:
    mixer = tmp_path / "mixer.json"
    mixer.write_text(wire.mixer_text("EPSG:32618", NORTH_UP[:6], (2, 1), 2, 4))
    payloads = []
    for number in range(4):
        features = [("p", wire.float_feature([number, number]))]
        told = change.get(number, number)
        if told is not None:
            features.append(("number", wire.int64_feature([told])))
        payloads.append(wire.example(features))
    shard = wire.write_shard(tmp_path / "pred.tfrecord", payloads)
    outcome = run(
        *("ingest-predictions", mixer, shard, "--output", tmp_path / "out.tif", "--quiet"),
        *("--patch-index", "number"),
    )
    assert_refused(outcome, 12, "pred.tfrecord", *words)
    assert not (tmp_path / "out.tif").exists()


def test_a_float_number_is_no_patch_index(tmp_path: Path) -> None:
    mixer = tmp_path / "mixer.json"
    mixer.write_text(wire.mixer_text("EPSG:32618", NORTH_UP[:6], (2, 1), 1, 1))
    payload = wire.example([("p", wire.float_feature([1, 2])), ("number", wire.float_feature([0]))])
    shard = wire.write_shard(tmp_path / "pred.tfrecord", [payload])
    outcome = run(
        *("ingest-predictions", mixer, shard, "--output", tmp_path / "out.tif", "--quiet"),
        *("--patch-index", "number"),
    )
    assert_refused(outcome, {2, 12}, "number", "int64")
    assert not (tmp_path / "out.tif").exists()

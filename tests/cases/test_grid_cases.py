"""Cases 1 to 10 and 17: grid and edges."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracle import wire
from oracle.images import Options, assert_export, expected_export
from oracle.rasters import SOUTH_UP, numbered, read_raster, write_raster
from oracle.run import assert_refused, run
from oracle.sets import write_set

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

    from rasterio.transform import Affine


def identity(source: Path, folder: Path, **options: object) -> np.ndarray:
    """The pixels that come back when the exported values are the predictions."""
    folder.mkdir(exist_ok=True)
    geotfr.export_image(source, folder / "set", **options)
    shards = sorted(folder.glob("set*.tfrecord.gz"))
    mixer = next(path for path in (folder / "set.json", folder / "set-mixer.json") if path.exists())
    geotfr.ingest_predictions(mixer, shards, folder / "back.tif", overwrite=True)
    return read_raster(folder / "back.tif")[0]


def test_case_1_the_plan_tells_what_the_edges_leave_out(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.zeros((600, 600), "uint8"))
    outcome = run("export", source, "--output", tmp_path / "set", "--patch-dimensions", "256", "--dry-run")
    assert outcome.code == 0, outcome.told
    assert "88 columns" in outcome.told
    assert "88 rows" in outcome.told
    assert "27.2" in outcome.told
    done = run("export", source, "--output", tmp_path / "set", "--patch-dimensions", "256")
    assert done.code == 0, done.told
    assert "27.2" in done.told
    mixer = json.loads((tmp_path / "set.json").read_text())
    assert (mixer["patchesPerRow"], mixer["totalPatches"]) == (2, 4)


def test_case_1_a_padded_edge_makes_three_by_three_the_rest_masked_and_filled(tmp_path: Path) -> None:
    data = np.ones((600, 600), "uint8")
    source = write_raster(tmp_path / "scene.tif", data)
    out = tmp_path / "out"
    out.mkdir()
    outcome = run(
        *("export", source, "--output", out / "set", "--patch-dimensions", "256", "--edge", "pad"),
        *("--default-value", "7", "--feature-kinds", "native", "--json"),
    )
    assert outcome.code == 0, outcome.told
    told = json.loads(outcome.stdout)
    assert told["patches_written"] == 9
    assert told["masked_share"] == pytest.approx(1 - 600 * 600 / 768**2, abs=1e-6)
    mixer = json.loads((out / "set.json").read_text())
    assert (mixer["patchesPerRow"], mixer["totalPatches"]) == (3, 9)
    padded = np.full((768, 768), 7, "uint8")
    padded[:600, :600] = data
    for number, record in enumerate(wire.read_shard(out / "set.tfrecord.gz", checked=0)):
        top, left = number // 3 * 256, number % 3 * 256
        assert record["b1"] == [padded[top : top + 256, left : left + 256].tobytes()]


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_case_2_a_patch_larger_than_the_raster_is_a_usage_error(tmp_path: Path, more: list[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    source = write_raster(tmp_path / "scene.tif", np.ones((67, 56), "uint8"))
    outcome = run(
        *("export", source, "--output", out / "set", "--patch-dimensions", "128", "--quiet", *more),
    )
    assert_refused(outcome, 2, "0 patches", "56,67", "--edge pad")
    assert list(out.iterdir()) == []


def test_case_2_a_raster_smaller_than_the_patch_is_one_padded_patch(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.ones((67, 56), "uint8"))
    result = geotfr.export_image(source, tmp_path / "set", patch_dimensions=128, edge="pad", default_value=0)
    (record,) = wire.read_shard(tmp_path / "set.tfrecord.gz")
    block = np.asarray(record["b1"]).reshape(128, 128)
    assert block.sum() == 3752
    assert (block[:67, :56] == 1).all()
    assert result.masked_share == 1 - 3752 / 128**2


def test_case_3_a_margin_outside_the_raster_is_the_default_value_and_never_short(tmp_path: Path) -> None:
    data = np.arange(1, 26, dtype="uint8").reshape(5, 5)
    source = write_raster(tmp_path / "scene.tif", data)
    geotfr.export_image(source, tmp_path / "set", patch_dimensions=4, kernel_size=4, default_value=99)
    (record,) = wire.read_shard(tmp_path / "set.tfrecord.gz")
    block = np.asarray(record["b1"]).reshape(8, 8)
    assert (block[:2] == 99).all()
    assert (block[:, :2] == 99).all()
    # Column and row 4 of the raster belong to no patch, yet they are real data in the margin.
    assert np.array_equal(block[2:7, 2:7], data)
    assert (block[7] == 99).all()
    assert (block[:, 7] == 99).all()


def test_case_4_dropped_edges_leave_the_origin_where_it_was(tmp_path: Path) -> None:
    data = numbered(1, 10, 10)
    source = write_raster(tmp_path / "scene.tif", data)
    back = identity(source, tmp_path / "out", patch_dimensions=4)
    assert np.array_equal(back, data[:, :8, :8])
    assert (
        read_raster(tmp_path / "out" / "back.tif")[1]["transform"]
        == read_raster(tmp_path / "scene.tif")[1]["transform"]
    )


def test_case_4_a_padded_identity_is_the_whole_raster_in_its_place(tmp_path: Path) -> None:
    data = numbered(1, 10, 10)
    source = write_raster(tmp_path / "scene.tif", data)
    back = identity(source, tmp_path / "out", patch_dimensions=4, edge="pad")
    assert np.array_equal(back, data)
    assert (
        read_raster(tmp_path / "out" / "back.tif")[1]["transform"]
        == read_raster(tmp_path / "scene.tif")[1]["transform"]
    )


@pytest.mark.parametrize("transform", [None, SOUTH_UP])
def test_case_5_padded_ones_come_back_as_ones_without_a_border_line(transform: Affine | None, tmp_path: Path) -> None:
    place = {} if transform is None else {"transform": transform, "crs": "EPSG:4326"}
    source = write_raster(tmp_path / "scene.tif", np.ones((17, 33), "float32"), **place)
    back = identity(source, tmp_path / "out", patch_dimensions=16, kernel_size=6, default_value=7, edge="pad")
    assert back.shape == (1, 17, 33)
    assert (back == 1).all()


@pytest.mark.parametrize("transform", [None, SOUTH_UP])
def test_case_5_ones_come_back_as_ones_without_a_border_line(transform: Affine | None, tmp_path: Path) -> None:
    place = {} if transform is None else {"transform": transform, "crs": "EPSG:4326"}
    source = write_raster(tmp_path / "scene.tif", np.ones((17, 33), "float32"), **place)
    back = identity(source, tmp_path / "out", patch_dimensions=16, kernel_size=6, default_value=7)
    assert back.shape == (1, 16, 32)
    assert (back == 1).all()


def test_case_6_an_identity_with_a_large_kernel_equals_the_kept_area(tmp_path: Path) -> None:
    # Values below 2^24, so float32 holds each of them.
    data = np.arange(844 * 1280, dtype="int32").reshape(1, 1280, 844)
    source = write_raster(tmp_path / "scene.tif", data)
    back = identity(source, tmp_path / "out", patch_dimensions=256, kernel_size=128)
    assert np.array_equal(back, data[:, :1280, :768])


def test_case_7_patches_of_their_numbers_make_a_mosaic_that_reads_like_a_page(tmp_path: Path) -> None:
    numbers = np.kron(np.arange(6).reshape(2, 3), np.ones((4, 4))).astype("float32")
    mixer, shards = write_set(tmp_path, numbers[np.newaxis], patch=(4, 4), shards=3)
    geotfr.ingest_predictions(mixer, shards, tmp_path / "out.tif")
    pixels = read_raster(tmp_path / "out.tif")[0][0]
    assert pixels[::4, ::4].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert np.array_equal(pixels, numbers)


def test_case_8_a_list_is_row_major(tmp_path: Path) -> None:
    data = np.array([[[1, 2, 3], [4, 5, 6]]], "uint8")
    source = write_raster(tmp_path / "scene.tif", data)
    geotfr.export_image(source, tmp_path / "set", patch_dimensions=(3, 2))
    (record,) = wire.read_shard(tmp_path / "set.tfrecord.gz")
    assert list(record["b1"]) == [1, 2, 3, 4, 5, 6]


def test_case_8_collapsed_bands_are_channels_height_width(tmp_path: Path) -> None:
    data = np.array([[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]]], "uint8")
    source = write_raster(tmp_path / "scene.tif", data, descriptions=("red", "blue"))
    geotfr.export_image(source, tmp_path / "set", patch_dimensions=(3, 2), collapse_bands=True)
    (record,) = wire.read_shard(tmp_path / "set.tfrecord.gz")
    assert record == {"red": [bytes(range(1, 13))]}


def test_case_9_one_options_dict_serves_two_exports_and_is_unchanged(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 6, 6))
    options = {"patchDimensions": [3, 2], "kernelSize": 2, "maxFileSize": 1e9}
    before = copy.deepcopy(options)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        geotfr.export_image(source, tmp_path / name / "set", format_options=options)
        expected = expected_export([source], Options(patch=(3, 2), kernel=(2, 2)), name="set")
        assert_export(tmp_path / name, expected)
        assert options == before


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--scale", "30", "--dimensions", "4x4"), ("--scale", "--dimensions")),
        (("--crs-transform", "10,0,500000,0,-10,4000000", "--scale", "30"), ("--crs-transform", "--scale")),
    ],
)
def test_case_10_options_that_contradict_each_other_are_refused_with_the_legal_ones(
    flags: tuple[str, ...], words: tuple[str, ...], tmp_path: Path
) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 6, 6))
    outcome = run("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2", "--quiet", *flags)
    assert_refused(outcome, 2, *words, "legal")
    assert not list(tmp_path.glob("set*"))


def test_case_17_a_mosaic_of_large_patches_has_no_empty_or_doubled_column(tmp_path: Path) -> None:
    side = 2370
    rows, cols = np.ogrid[: 2 * side, : 2 * side]
    picture = ((rows * 31 + cols) % 251).astype("uint8")
    payloads = [
        wire.example(
            [
                (
                    "b1",
                    wire.bytes_feature([picture[top : top + side, left : left + side].tobytes()]),
                )
            ]
        )
        for top in (0, side)
        for left in (0, side)
    ]
    tf = b"".join(_framed_fast(payload) for payload in payloads)
    (tmp_path / "pred.tfrecord").write_bytes(tf)
    (tmp_path / "mixer.json").write_text(
        wire.mixer_text("EPSG:32735", (20, 0, 50200, 0, -20, 7799840), (side, side), 2, 4)
    )
    geotfr.ingest_predictions(tmp_path / "mixer.json", [tmp_path / "pred.tfrecord"], tmp_path / "out.tif")
    pixels, profile, _ = read_raster(tmp_path / "out.tif")
    assert (profile["width"], profile["height"]) == (4740, 4740)
    assert np.array_equal(pixels[0], picture)


def _framed_fast(payload: bytes) -> bytes:
    """``wire.frame`` with a checksum in C: 22 MB are too much for Python's loop."""
    import google_crc32c

    def masked(data: bytes) -> bytes:
        crc = google_crc32c.value(data)
        return ((((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")

    length = len(payload).to_bytes(8, "little")
    return length + masked(length) + payload + masked(payload)

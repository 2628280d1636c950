"""Every real GeoTIFF: exported as the oracle says, or refused with exit 10 and the reason."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest
import rasterio
from oracle import wire
from oracle.images import Options, expected_export, patch_values, read_scene
from oracle.rasters import read_raster
from oracle.run import DATA, assert_refused, needs_data, run
from rasterio.crs import CRS

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_data

REFUSED = {"au-gcp.tif": "GCPs"}
OPTIONS = {
    "RGB.byte.tif": Options(patch=(200, 150), kernel=(20, 11)),
    "all-nodata.tif": Options(patch=(64, 100), kernel=(2, 2), default_value=7),
    "au-3577-rotated.tif": Options(patch=(32, 16), kernel=(8, 8), default_value=-1),
    "cog_dateline.tif": Options(patch=(256, 256), kernel=(32, 32)),
    "cog_nodata_nan.tif": Options(patch=(100, 90), kernel=(5, 5), default_value=-1),
    "cog_scale.tif": Options(patch=(64, 64), kernel=(16, 16), default_value=-32768),
    "cog_uint8_rgb_mask.tif": Options(patch=(64, 60), kernel=(6, 4), default_value=3),
    "cog_uint8_rgb_nodata.tif": Options(patch=(64, 60), kernel=(6, 4), default_value=3),
    "cog_uint8_rgba.tif": Options(patch=(64, 60), kernel=(6, 4), default_value=3),
    "float_nan.tif": Options(patch=(1, 1), kernel=(3, 3), default_value=5),
    "geo-5b.tif": Options(patch=(3, 4), kernel=(4, 4), default_value=-7),
    "inverted_lat.tif": Options(patch=(128, 128), kernel=(33, 33), default_value=2),
    "lowres.tif": Options(patch=(40, 40), kernel=(7, 7)),
}


def test_every_file_has_an_answer() -> None:
    files = {path.name for path in (DATA / "geotiff").glob("*.tif")}
    assert files == {*OPTIONS, *REFUSED}


def export(name: str, folder: Path, options: Options, *more: str) -> None:
    outcome = run(
        *("export", DATA / "geotiff" / name, "--output", folder / "set", "--quiet", "--no-compressed"),
        *("--patch-dimensions", f"{options.patch[0]},{options.patch[1]}"),
        *("--kernel-size", f"{options.kernel[0]}x{options.kernel[1]}"),
        *("--default-value", str(options.default_value), *more),
    )
    assert outcome.code == 0, outcome.told


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_a_real_file_is_exported_right(name: str, tmp_path: Path) -> None:
    options = OPTIONS[name]
    export(name, tmp_path, options)
    scene = read_scene([DATA / "geotiff" / name], options)
    mixer = json.loads((tmp_path / "set.json").read_text(encoding="utf-8"))
    per_row, rows = scene.width // options.patch[0], scene.height // options.patch[1]
    assert mixer["patchesPerRow"] == per_row
    assert mixer["patchDimensions"] == list(options.patch)
    assert mixer["projection"]["affine"]["doubleMatrix"] == list(scene.affine)
    if scene.crs.startswith(("EPSG:", "ESRI:")):
        assert mixer["projection"]["crs"] == scene.crs
    elif scene.crs:
        assert CRS.from_wkt(mixer["projection"]["crs"]) == CRS.from_wkt(scene.crs)
    else:
        assert mixer["projection"]["crs"] == ""
    records = wire.read_shard(tmp_path / "set.tfrecord", checked=2)
    assert len(records) == mixer["totalPatches"] == per_row * rows
    # One pixel at a time is slow: the corners, and every nth patch of the large files.
    step = max(1, scene.width * scene.height // 100_000)
    for number in {0, per_row - 1, per_row * rows - 1, *range(0, per_row * rows, step)}:
        want = patch_values(scene, options, number)
        assert list(records[number]) == list(want)
        for key, values in want.items():
            np.testing.assert_array_equal(records[number][key], values, err_msg=f"patch {number}, {key}")


@pytest.mark.parametrize("name", ["au-3577-rotated.tif", "float_nan.tif", "geo-5b.tif", "lowres.tif"])
def test_a_small_real_file_gives_the_oracles_bytes_at_a_threshold(name: str, tmp_path: Path) -> None:
    found = OPTIONS[name]
    options = Options(
        patch=found.patch,
        kernel=found.kernel,
        default_value=found.default_value,
        compressed=False,
        masked_threshold=0.4,
        max_file_size=60_000,
    )
    export(name, tmp_path, options, "--masked-threshold", "0.4", "--max-file-size", "60000")
    expected = expected_export([DATA / "geotiff" / name], options, name="set")
    assert {path.name for path in tmp_path.iterdir()} == expected.names
    for shard, stream in expected.shards.items():
        assert (tmp_path / shard).read_bytes() == stream


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_a_real_file_comes_back_in_its_place(name: str, tmp_path: Path) -> None:
    options = OPTIONS[name]
    export(name, tmp_path, options)
    geotfr.ingest_predictions(
        tmp_path / "set.json",
        [tmp_path / "set.tfrecord"],
        tmp_path / "back.tif",
        kernel_size=options.kernel,
    )
    scene = read_scene([DATA / "geotiff" / name], options)
    pixels, profile, descriptions = read_raster(tmp_path / "back.tif")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        with rasterio.open(DATA / "geotiff" / name) as source:
            assert profile["transform"] == source.transform
            assert profile["crs"] == source.crs
    assert descriptions == tuple(band.name for band in scene.bands)
    height, width = pixels.shape[1:]
    assert (width, height) == tuple(
        size // patch * patch for size, patch in zip((scene.width, scene.height), options.patch, strict=True)
    )
    for band, got in zip(scene.bands, pixels, strict=True):
        kept = np.where(scene.valid, band.pixels.astype("float32"), np.float32(options.default_value))
        np.testing.assert_array_equal(got, kept[:height, :width])


@pytest.mark.parametrize(("name", "reason"), REFUSED.items())
def test_a_real_file_without_a_place_is_refused_with_the_reason(name: str, reason: str, tmp_path: Path) -> None:
    outcome = run(
        *("export", DATA / "geotiff" / name, "--output", tmp_path / "set"),
        *("--patch-dimensions", "32", "--quiet"),
    )
    assert_refused(outcome, 10, name, reason)
    assert list(tmp_path.iterdir()) == []

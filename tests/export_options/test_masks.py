"""Mask rasters, mask modes, nodata of one's own, and scale and offset."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracle import wire
from oracle.images import Options, assert_export, expected_export
from oracle.rasters import NORTH_UP, write_raster
from oracle.run import assert_refused, contents, run
from rasterio.transform import Affine

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

DATA = np.array([[[1, 0], [3, 4]], [[5, 6], [0, 8]]], "uint8")


def exported(source: object, folder: Path, **options: object) -> dict[str, list[float]]:
    """The only record of an export with a default value of 9 and patches of 2 x 2."""
    folder.mkdir(exist_ok=True)
    geotfr.export_image(source, folder / "set", **{"patch_dimensions": 2, "default_value": 9} | options)
    (record,) = wire.read_shard(folder / "set.tfrecord.gz")
    return {key: np.asarray(values).tolist() for key, values in record.items()}


def test_pixel_mode_masks_all_bands_and_band_mode_each_its_own(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", DATA, nodata=0)
    pixel = {"b1": [1, 9, 9, 4], "b2": [5, 9, 9, 8]}
    assert exported(source, tmp_path / "default") == pixel
    assert exported(source, tmp_path / "pixel", mask_mode="pixel") == pixel
    assert exported(source, tmp_path / "band", mask_mode="band") == {"b1": [1, 9, 3, 4], "b2": [5, 6, 9, 8]}


@pytest.mark.parametrize("mode", ["pixel", "band"])
@pytest.mark.parametrize(("threshold", "kept"), [(0.49, 0), (0.5, 1)])
def test_the_masked_share_counts_pixels_masked_in_any_band_in_both_modes(
    mode: str, threshold: float, kept: int, tmp_path: Path
) -> None:
    source = write_raster(tmp_path / "scene.tif", DATA, nodata=0)
    result = geotfr.export_image(
        source, tmp_path / "set", patch_dimensions=2, mask_mode=mode, masked_threshold=threshold
    )
    assert (result.patches_written, result.patches_dropped) == (kept, 1 - kept)
    assert result.masked_share == 0.5
    assert result.mixer is None


def test_pixel_mode_tells_how_many_valid_samples_it_overwrote(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", DATA, nodata=0)
    outcome = run("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2", "--json")
    assert outcome.code == 0, outcome.told
    told = [line for line in (outcome.stdout + outcome.stderr).splitlines() if "overw" in line.lower()]
    # 3 of band 1 and 6 of band 2.
    assert told
    assert any("2" in line for line in told), told
    band = run("export", source, "--output", tmp_path / "other", "--patch-dimensions", "2", "--mask-mode", "band")
    assert band.code == 0, band.told
    assert "overwr" not in band.stderr.lower()


@pytest.mark.parametrize("mode", ["pixel", "band"])
def test_a_mask_raster_masks_where_it_is_0_in_all_bands_and_modes(mode: str, tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", DATA)
    cloud = write_raster(tmp_path / "cloud.tif", np.array([[0, 1], [255, 2]], "uint8"))
    values = exported(source, tmp_path / "out", masks=[cloud], mask_mode=mode)
    assert values == {"b1": [9, 0, 3, 4], "b2": [9, 6, 0, 8]}


def test_a_mask_names_its_band_and_several_masks_add_up(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", DATA[0])
    first = write_raster(tmp_path / "first.tif", np.array([[[0, 0], [0, 0]], [[0, 1], [1, 1]]], "int16"))
    second = write_raster(tmp_path / "second.tif", np.array([[1, 1], [1, 0]], "float32"))
    outcome = run(
        *("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2", "--default-value", "9"),
        *("--quiet", "--mask", f"{first}:2", "--mask", second),
    )
    assert outcome.code == 0, outcome.told
    (record,) = wire.read_shard(tmp_path / "set.tfrecord.gz")
    assert record["b1"].tolist() == [9, 0, 3, 9]


def test_a_mask_masks_the_margin_too_but_counts_in_the_patch_only(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.arange(1, 10, dtype="uint8").reshape(3, 3))
    clear = np.ones((3, 3), "uint8")
    clear[0, 0] = clear[2, 2] = 0
    cloud = write_raster(tmp_path / "cloud.tif", clear)
    options = Options(patch=(2, 2), kernel=(2, 2), default_value=77, masks=[(cloud, 1)])
    out = tmp_path / "out"
    out.mkdir()
    result = geotfr.export_image(source, out / "set", **options.keywords())
    assert result.masked_share == 0.25
    (record,) = wire.read_shard(out / "set.tfrecord.gz")
    want = [[77, 77, 77, 77], [77, 77, 2, 3], [77, 4, 5, 6], [77, 7, 8, 77]]
    assert record["b1"].reshape(4, 4).tolist() == want
    assert_export(out, expected_export([source], options, name="set"))


def test_a_mask_on_another_grid_is_taken_by_nearest_and_masks_where_it_does_not_reach(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.arange(1, 37, dtype="uint8").reshape(6, 6))
    # Pixels three times as large, and only the left half.
    coarse = write_raster(
        tmp_path / "coarse.tif", np.array([[1], [0]], "uint8"), transform=NORTH_UP @ Affine.scale(3, 3)
    )
    values = exported(source, tmp_path / "out", patch_dimensions=6, masks=[coarse], default_value=0)["b1"]
    want = np.arange(1, 37).reshape(6, 6)
    want[:, 3:] = 0
    want[3:] = 0
    assert np.array_equal(np.reshape(values, (6, 6)), want)


def test_a_missing_mask_and_a_band_it_does_not_have_are_told(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", DATA)
    before = contents(tmp_path)
    common = ("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2", "--quiet", "--mask")
    assert_refused(run(*common, tmp_path / "gone.tif"), 10, "gone.tif")
    assert_refused(run(*common, f"{source}:7"), {2, 10}, "scene.tif", "7")
    assert contents(tmp_path) == before


def test_nodata_of_ones_own_replaces_the_tags_of_every_source_and_element(tmp_path: Path) -> None:
    paths = [
        write_raster(tmp_path / f"t{number}.tif", np.array([[1, 2], [3, 4]], "uint8"), nodata=number)
        for number in (1, 2, 3)
    ]
    options = Options(
        patch=(2, 2),
        default_value=9,
        nodata=4,
        arrays={"t": [(path, 1) for path in paths[1:]]},
        depths={"t": 2},
        mask_mode="band",
    )
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image(paths[0], out / "set", **options.keywords())
    (record,) = wire.read_shard(out / "set.tfrecord.gz")
    assert {key: values.tolist() for key, values in record.items()} == {
        "b1": [1, 2, 3, 9],
        "t": [1, 2, 3, 9, 1, 2, 3, 9],
    }
    none = exported(paths[0], tmp_path / "none", nodata="none")
    assert none == {"b1": [1, 2, 3, 4]}


def test_alpha_masks_wherever_it_stands(tmp_path: Path) -> None:
    import rasterio
    from rasterio.enums import ColorInterp

    source = write_raster(
        tmp_path / "scene.tif", np.array([[[1, 2], [3, 4]], [[255, 0], [1, 255]], [[5, 6], [7, 8]]], "uint8")
    )
    with rasterio.open(source, "r+") as target:
        target.colorinterp = (ColorInterp.gray, ColorInterp.alpha, ColorInterp.undefined)
    assert exported(source, tmp_path / "out") == {"b1": [1, 9, 3, 4], "b3": [5, 9, 7, 8]}


@pytest.mark.parametrize(
    ("scale", "offset", "want"), [(0.5, 0, [0.5, -8, 1.5, 2]), (1, 100, [101, -8, 103, 104]), (2, -3, [-1, -8, 3, 5])]
)
def test_unscale_gives_physical_values_as_float32_and_masks_before(
    scale: float, offset: float, want: list[float], tmp_path: Path
) -> None:
    # -8 is the default value, which the type of the pixels in the file could not hold.
    data = np.array([[1, 0], [3, 4]], "uint8")
    source = write_raster(tmp_path / "scene.tif", data, nodata=0, scales=[scale], offsets=[offset])
    for kinds in ("float", "native"):
        values = exported(source, tmp_path / kinds, unscale=True, default_value=-8, feature_kinds=kinds)
        assert values == {"b1": want}
    raw = exported(source, tmp_path / "raw")
    assert raw == {"b1": [1, 9, 3, 4]}


def test_unscale_makes_a_band_without_scale_float32_too(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.array([[1, 0], [3, 4]], "uint8"), nodata=0)
    values = exported(source, tmp_path / "out", unscale=True, feature_kinds="native", default_value=-8)
    assert values == {"b1": [1.0, -8.0, 3.0, 4.0]}


def test_a_scaled_value_that_equals_nodata_is_valid(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.array([[7, 6], [5, 4]], "int16"), nodata=7, offsets=[1])
    assert exported(source, tmp_path / "out", unscale=True) == {"b1": [9, 7, 6, 5]}


def test_unscale_takes_each_elements_own_scale(tmp_path: Path) -> None:
    paths = [
        write_raster(tmp_path / f"t{number}.tif", np.array([[10]], "int16"), scales=[scale])
        for number, scale in enumerate((0.5, 3))
    ]
    values = exported(
        paths[0],
        tmp_path / "out",
        patch_dimensions=1,
        unscale=True,
        array_bands={"t": f"{paths[0]}:1,{paths[1]}:1"},
        tensor_depths="t=2",
    )
    assert values == {"t": [5, 30]}


def test_without_unscale_a_scale_is_told(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.ones((2, 2), "uint8"), scales=[0.5])
    outcome = run("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2")
    assert outcome.code == 0, outcome.told
    assert "--unscale" in outcome.stderr
    again = run("export", source, "--output", tmp_path / "again", "--patch-dimensions", "2", "--unscale")
    assert again.code == 0, again.told
    assert "--unscale" not in again.stderr


def test_every_patch_over_the_threshold_leaves_a_manifest_only(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", DATA)
    cloud = write_raster(tmp_path / "cloud.tif", np.zeros((2, 2), "uint8"))
    out = tmp_path / "out"
    out.mkdir()
    outcome = run(
        *("export", source, "--output", out / "set", "--patch-dimensions", "1", "--mask", cloud),
        *("--masked-threshold", "0.5"),
    )
    assert outcome.code == 0, outcome.told
    assert "warning" in outcome.stderr.lower()
    assert [path.name for path in out.iterdir()] == ["set-manifest.json"]
    assert json.loads((out / "set-manifest.json").read_text())["patches_dropped"] == [0, 1, 2, 3]

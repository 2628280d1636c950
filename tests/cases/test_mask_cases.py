"""Cases 24 to 27, 29, 30, 32 and 37: masks, values and band names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import rasterio
from oracle import wire
from oracle.images import Options, assert_export, expected_export
from oracle.rasters import numbered, read_raster, write_raster
from oracle.run import DATA, needs_data, run

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

NAN = float("nan")


def exported(source: Path, folder: Path, **options: object) -> dict[str, np.ndarray]:
    """The features of an export of one patch."""
    folder.mkdir(exist_ok=True)
    geotfr.export_image(source, folder / "set", **options)
    (record,) = wire.read_shard(folder / "set.tfrecord.gz")
    return {key: np.asarray(values) for key, values in record.items()}


@needs_data
@pytest.mark.parametrize(("threshold", "kept"), [(0.1, 0), (0.16, 0), (0.17, 1), (1, 1)])
def test_case_24_a_nan_nodata_counts_one_of_six(threshold: float, kept: int, tmp_path: Path) -> None:
    geotfr.export_image(
        DATA / "geotiff" / "float_nan.tif",
        tmp_path / "set",
        patch_dimensions=(3, 2),
        masked_threshold=threshold,
    )
    assert len(list(tmp_path.glob("*.tfrecord.gz"))) == kept


def test_case_25_nan_and_nodata_both_mask_and_infinity_is_valid(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.array([[NAN, -9999, 1]], "float32"), nodata=-9999)
    assert exported(source, tmp_path / "a", patch_dimensions=(3, 1), default_value=5)["b1"].tolist() == [
        5,
        5,
        1,
    ]
    infinite = write_raster(tmp_path / "infinite.tif", np.array([[NAN, np.inf, -np.inf]], "float32"))
    values = exported(infinite, tmp_path / "b", patch_dimensions=(3, 1), default_value=5)["b1"]
    assert values.tolist() == [5, np.inf, -np.inf]
    for threshold, kept in ((0.3, 0), (0.34, 1)):
        folder = tmp_path / str(threshold)
        folder.mkdir()
        geotfr.export_image(infinite, folder / "set", patch_dimensions=(3, 1), masked_threshold=threshold)
        assert len(list(folder.glob("*.tfrecord.gz"))) == kept


def test_case_26_nodata_is_compared_in_the_bands_type(tmp_path: Path) -> None:
    lowest = np.finfo(np.float32).min
    source = tmp_path / "scene.tif"
    write_raster(source, np.array([[lowest, 1, 2]], "float32"), nodata=float(lowest))
    # The text as other tools write it: close to, but not, the float32 value.
    with rasterio.open(source, "r+") as target:
        target.nodata = -3.39999999999999996e38
    values = exported(source, tmp_path / "other", patch_dimensions=(3, 1), default_value=5)["b1"]
    assert values.tolist() == [lowest, 1, 2]
    data = np.array([[-3.39999999999999996e38, 1, 2]], "float32")
    source = write_raster(tmp_path / "close.tif", data, nodata=-3.39999999999999996e38)
    assert exported(source, tmp_path / "same", patch_dimensions=(3, 1), default_value=5)["b1"].tolist() == [
        5,
        1,
        2,
    ]


def test_case_27_a_zero_without_nodata_is_valid_and_the_ring_is_masked(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.array([[0, 1], [2, 3]], "float32"))
    block = exported(source, tmp_path / "out", patch_dimensions=2, kernel_size=2, default_value=9)["b1"]
    assert block.reshape(4, 4).tolist() == [[9, 9, 9, 9], [9, 0, 1, 9], [9, 2, 3, 9], [9, 9, 9, 9]]
    # Nothing of the patch itself is masked, so it stays at the strictest threshold.
    again = exported(
        source, tmp_path / "strict", patch_dimensions=2, kernel_size=2, default_value=9, masked_threshold=0
    )
    assert np.array_equal(again["b1"], block)


@needs_data
def test_case_29_mask_nodata_and_alpha_give_three_equal_exports(tmp_path: Path) -> None:
    streams = []
    for kind in ("mask", "nodata"):
        folder = tmp_path / kind
        folder.mkdir()
        geotfr.export_image(
            DATA / "geotiff" / f"cog_uint8_rgb_{kind}.tif", folder / "set", patch_dimensions=64, kernel_size=4
        )
        streams.append(wire.inflate((folder / "set.tfrecord.gz").read_bytes()))
    rgba = DATA / "geotiff" / "cog_uint8_rgba.tif"
    geotfr.export_image(rgba, tmp_path / "set", patch_dimensions=64, kernel_size=4)
    streams.append(wire.inflate((tmp_path / "set.tfrecord.gz").read_bytes()))
    first = wire.decode_example(wire.unframe(streams[0])[0])
    assert list(first) == ["b1", "b2", "b3"]
    assert streams[0] == streams[1] == streams[2]


@needs_data
def test_case_29_alpha_is_kept_as_data_where_its_band_is_asked_for(tmp_path: Path) -> None:
    rgba = DATA / "geotiff" / "cog_uint8_rgba.tif"
    outcome = run(
        *("export", rgba, "--output", tmp_path / "set", "--patch-dimensions", "64"),
        *("--bands", "1,2,3,4", "--quiet"),
    )
    assert outcome.code == 0, outcome.told
    records = wire.read_shard(tmp_path / "set.tfrecord.gz", checked=1)
    with rasterio.open(rgba) as opened:
        alpha = opened.read(4)
    for number, record in enumerate(records):
        assert list(record) == ["b1", "b2", "b3", "b4"]
        top, left = number // 4 * 64, number % 4 * 64
        assert np.array_equal(record["b4"], alpha[top : top + 64, left : left + 64].ravel())


def test_case_30_an_external_mask_is_honoured(tmp_path: Path) -> None:
    valid = np.array([[True, False], [True, True]])
    data = np.array([[1, 2], [3, 4]], "uint8")
    source = write_raster(tmp_path / "scene.tif", data, mask=valid, external_mask=True)
    assert (tmp_path / "scene.tif.msk").exists()
    assert exported(source, tmp_path / "out", patch_dimensions=2, default_value=9)["b1"].tolist() == [
        1,
        9,
        3,
        4,
    ]


def test_case_30_alpha_and_nodata_mask_together(tmp_path: Path) -> None:
    data = np.array([[1, 2], [7, 4]], "uint8")
    alpha = np.array([[255, 0], [255, 1]], "uint8")
    source = write_raster(tmp_path / "scene.tif", data, alpha=alpha, nodata=7)
    values = exported(source, tmp_path / "out", patch_dimensions=2, default_value=9)
    # Alpha 1 is nearly nothing, but not 0: the pixel is valid.
    assert {key: flat.tolist() for key, flat in values.items()} == {"b1": [1, 9, 9, 4]}


def test_case_30_a_mask_and_nodata_mask_together(tmp_path: Path) -> None:
    data = np.array([[[1, 2], [3, 4]], [[5, 6], [0, 8]]], "uint8")
    valid = np.array([[True, False], [True, True]])
    source = write_raster(tmp_path / "scene.tif", data, mask=valid, nodata=0)
    values = exported(source, tmp_path / "out", patch_dimensions=2, default_value=9)
    assert {key: flat.tolist() for key, flat in values.items()} == {"b1": [1, 9, 9, 4], "b2": [5, 9, 9, 8]}


def test_a_pixel_masked_in_one_band_is_the_default_value_in_each(tmp_path: Path) -> None:
    data = np.array([[[1, 0], [3, 4]], [[5, 6], [7, 0]]], "uint8")
    source = write_raster(tmp_path / "scene.tif", data, nodata=0)
    values = exported(source, tmp_path / "out", patch_dimensions=2, default_value=9)
    assert {key: flat.tolist() for key, flat in values.items()} == {"b1": [1, 9, 3, 9], "b2": [5, 9, 7, 9]}


@pytest.mark.parametrize(("value", "shown"), [(300, 255), (-5, 0), (1.9, 1)])
def test_case_32_the_default_value_is_clamped_to_uint8(value: float, shown: int, tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.array([[0, 7]], "uint8"), nodata=0)
    out = exported(source, tmp_path / "out", patch_dimensions=(2, 1), default_value=value)
    assert out["b1"].tolist() == [shown, 7]


def test_case_37_descriptions_name_the_features_and_none_overwrites_another(tmp_path: Path) -> None:
    data = numbered(3, 4, 4)
    source = write_raster(tmp_path / "scene.tif", data, descriptions=("B4", "B4", None))
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image(source, out / "set", patch_dimensions=2)
    expected = expected_export([source], Options(patch=(2, 2)), name="set")
    assert [band.name for band in expected.scene.bands] == ["B4", "B4_1", "b3"]
    assert_export(out, expected)
    geotfr.ingest_predictions(out / "set.json", [out / "set.tfrecord.gz"], tmp_path / "back.tif")
    pixels, _, descriptions = read_raster(tmp_path / "back.tif")
    assert descriptions == ("B4", "B4_1", "b3")
    assert np.array_equal(pixels, data)


def test_case_37_a_made_name_never_takes_one_that_is_there(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(4, 2, 2), descriptions=("B4", "B4", "B4_1", "b1"))
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image(source, out / "set", patch_dimensions=2)
    (record,) = wire.read_shard(out / "set.tfrecord.gz")
    assert len(record) == 4
    assert [float(np.asarray(values)[0]) for values in record.values()] == [1, 5, 9, 13]


def test_case_37_names_beyond_ascii_are_kept(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(2, 2, 2), descriptions=("Grün", "赤"))
    values = exported(source, tmp_path / "out", patch_dimensions=2)
    assert list(values) == ["Grün", "赤"]
    geotfr.ingest_predictions(
        tmp_path / "out" / "set.json", [tmp_path / "out" / "set.tfrecord.gz"], tmp_path / "back.tif"
    )
    assert read_raster(tmp_path / "back.tif")[2] == ("Grün", "赤")


@pytest.mark.parametrize("chosen", ["B8,B4", "3,1", "B8,1"])
def test_bands_are_chosen_by_number_or_name(chosen: str, tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(3, 2, 2), descriptions=("B4", "B5", "B8"))
    outcome = run(
        *("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2"),
        *("--bands", chosen, "--quiet"),
    )
    assert outcome.code == 0, outcome.told
    (record,) = wire.read_shard(tmp_path / "set.tfrecord.gz")
    assert {key: np.asarray(values).tolist() for key, values in record.items()} == {
        "B8": [9, 10, 11, 12],
        "B4": [1, 2, 3, 4],
    }
    assert list(record) == ["B8", "B4"]


def test_bands_can_be_renamed(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(2, 2, 2), descriptions=("B4", None))
    outcome = run(
        *("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2"),
        *("--bands", "red=B4,second=2", "--quiet"),
    )
    assert outcome.code == 0, outcome.told
    assert list(wire.read_shard(tmp_path / "set.tfrecord.gz")[0]) == ["red", "second"]


def test_case_35_inexact_integers_are_counted_and_told_once(tmp_path: Path) -> None:
    data = np.full((4, 4), 2**24, "int32")
    data[0, :3] = 2**24 + 1
    source = write_raster(tmp_path / "scene.tif", data)
    outcome = run("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2")
    assert outcome.code == 0, outcome.told
    told = [line for line in outcome.stderr.splitlines() if "warning" in line.lower()]
    assert len(told) == 1, outcome.stderr
    assert "3" in told[0]


def test_float64_beyond_float32_is_counted_and_told_once(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.array([[1e300, -1e300], [1, np.inf]], "float64"))
    outcome = run("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2")
    assert outcome.code == 0, outcome.told
    told = [line for line in outcome.stderr.splitlines() if "warning" in line.lower()]
    assert len(told) == 1, outcome.stderr
    assert "2" in told[0]
    (record,) = wire.read_shard(tmp_path / "set.tfrecord.gz")
    assert np.asarray(record["b1"]).tolist() == [np.inf, -np.inf, 1, np.inf]

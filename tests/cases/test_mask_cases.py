"""Cases 24 to 37: masks, values and band names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import rasterio
from oracle import wire
from oracle.images import Options, assert_export, expected_export
from oracle.rasters import NORTH_UP, numbered, read_raster, write_raster
from oracle.run import DATA, assert_refused, needs_data, run
from rasterio.transform import Affine

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


@pytest.mark.parametrize("how", ["no nodata", "alpha", "internal", "external"])
def test_case_28_the_corners_that_a_rotation_leaves_empty_are_masked(how: str, tmp_path: Path) -> None:
    data = np.ones((10, 10), "uint8")
    masks: dict[str, object] = {}
    valid = np.ones((10, 10), bool)
    valid[4:6, 4:6] = False
    if how == "alpha":
        masks = {"alpha": valid * 255}
    elif how != "no nodata":
        masks = {"mask": valid, "external_mask": how == "external"}
    source = write_raster(tmp_path / "scene.tif", data, **masks)
    # The same middle, turned by 45 degrees, and large enough to hold the whole square.
    middle = NORTH_UP @ (5, 5)
    turned = Affine.translation(*middle) @ Affine.rotation(45) @ Affine.scale(10, -10) @ Affine.translation(-8, -8)
    values = exported(
        source,
        tmp_path / "out",
        patch_dimensions=16,
        default_value=9,
        crs="EPSG:32618",
        crs_transform=list(turned)[:6],
        dimensions=(16, 16),
    )
    block = values["b1"].reshape(16, 16)
    seen = 0
    for row in range(16):
        for col in range(16):
            x, y = ~NORTH_UP @ (turned @ (col + 0.5, row + 0.5))
            if min(abs(x - round(x)), abs(y - round(y))) < 0.01:
                continue  # the middle is on an edge between pixels: either is right
            inside = 0 < x < 10 and 0 < y < 10
            shown = inside and (how == "no nodata" or bool(valid[int(y), int(x)]))
            assert block[row, col] == (1 if shown else 9), (row, col)
            seen += shown
    assert seen > 50
    assert (block[[0, 0, 15, 15], [0, 15, 0, 15]] == 9).all()


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


def test_case_31_masks_that_differ_by_band_mask_all_bands_or_each_its_own(tmp_path: Path) -> None:
    data = np.array([[[1, 0], [3, 4]], [[5, 6], [7, 0]]], "uint8")
    source = write_raster(tmp_path / "scene.tif", data, nodata=0)
    for name, mode, want in (
        ("default", (), {"b1": [1, 9, 3, 9], "b2": [5, 9, 7, 9]}),
        ("band", ("--mask-mode", "band"), {"b1": [1, 9, 3, 4], "b2": [5, 6, 7, 9]}),
    ):
        outcome = run(
            *("export", source, "--output", tmp_path / name, "--patch-dimensions", "2", "--default-value", "9"),
            *("--quiet", *mode),
        )
        assert outcome.code == 0, outcome.told
        (record,) = wire.read_shard(tmp_path / f"{name}.tfrecord.gz")
        assert {key: np.asarray(flat).tolist() for key, flat in record.items()} == want


@pytest.mark.parametrize("kinds", ["float", "native"])
@pytest.mark.parametrize(("value", "shown"), [(300, 255), (-5, 0), (1.9, 1)])
def test_case_32_the_default_value_is_clamped_in_every_kind(
    value: float, shown: int, kinds: str, tmp_path: Path
) -> None:
    source = write_raster(tmp_path / "scene.tif", np.array([[0, 7]], "uint8"), nodata=0)
    (tmp_path / "out").mkdir()
    geotfr.export_image(
        source, tmp_path / "out" / "set", patch_dimensions=(2, 1), default_value=value, feature_kinds=kinds
    )
    (record,) = wire.read_shard(tmp_path / "out" / "set.tfrecord.gz")
    values = record["b1"]
    assert (list(values[0]) if isinstance(values, list) else values.tolist()) == [shown, 7]


@needs_data
def test_case_33_scaled_bands_are_raw_with_a_note_by_default_and_physical_with_unscale(tmp_path: Path) -> None:
    source = DATA / "geotiff" / "cog_scale.tif"
    with rasterio.open(source) as opened:
        raw = opened.read()
    masked = (raw == 0).any(axis=0)
    common = ("--patch-dimensions", "64", "--default-value", "-1")
    outcome = run("export", source, "--output", tmp_path / "raw", *common)
    assert outcome.code == 0, outcome.told
    assert "--unscale" in outcome.stderr
    outcome = run("export", source, "--output", tmp_path / "physical", *common, "--unscale")
    assert outcome.code == 0, outcome.told
    physical = [raw[0] * 1e-4 + 1000, raw[1] * 1e-3 + 2000]
    for name, bands in (("raw", raw), ("physical", physical)):
        records = wire.read_shard(tmp_path / f"{name}.tfrecord.gz", checked=1)
        assert len(records) == 16
        for number, record in enumerate(records):
            top, left = number // 4 * 64, number % 4 * 64
            for key, band in zip(record, bands, strict=True):
                want = np.where(masked, -1, band).astype("float32")[top : top + 64, left : left + 64]
                np.testing.assert_array_equal(record[key], want.ravel())


@pytest.mark.parametrize(("scale", "offset"), [(0.5, None), (None, 7), (0.5, 7)])
def test_case_33_a_scale_or_an_offset_alone_works_too(
    scale: float | None, offset: float | None, tmp_path: Path
) -> None:
    source = write_raster(
        tmp_path / "scene.tif",
        np.array([[2, 4], [0, 8]], "int16"),
        nodata=0,
        scales=[] if scale is None else [scale],
        offsets=[] if offset is None else [offset],
    )
    values = exported(source, tmp_path / "out", patch_dimensions=2, default_value=-1, unscale=True)["b1"]
    want = [value * (scale or 1) + (offset or 0) if value else -1 for value in (2, 4, 0, 8)]
    assert values.tolist() == want


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_case_34_complex_bands_are_refused_with_a_hint_or_taken_in_parts(dtype: str, tmp_path: Path) -> None:
    data = np.array([[1 + 2j, -3 + 0.5j], [0, 4j]], dtype)
    source = write_raster(tmp_path / "scene.tif", data)
    common = ("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2", "--quiet")
    assert_refused(run(*common), 10, "complex", "--complex")
    assert not list(tmp_path.glob("set*"))
    outcome = run(*common, "--complex", "real,imag")
    assert outcome.code == 0, outcome.told
    (record,) = wire.read_shard(tmp_path / "set.tfrecord.gz")
    assert [np.asarray(values).tolist() for values in record.values()] == [[1, -3, 0, 0], [2, 0.5, 0, 4]]
    real, imag = record
    assert "real" in real
    assert "imag" in imag


@pytest.mark.parametrize(("threshold", "kept"), [(0.4, 0), (0.5, 1)])
def test_case_34_both_parts_of_a_complex_nan_are_masked(threshold: float, kept: int, tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.array([[complex(NAN, 1), 2 + 3j]], "complex64"))
    outcome = run(
        *("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2,1", "--quiet"),
        *("--complex", "real,imag", "--default-value", "9", "--masked-threshold", str(threshold)),
    )
    assert outcome.code == 0, outcome.told
    shards = list(tmp_path.glob("*.tfrecord.gz"))
    assert len(shards) == kept
    for shard in shards:
        (record,) = wire.read_shard(shard)
        assert [np.asarray(values).tolist() for values in record.values()] == [[9, 2], [9, 3]]


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


def test_case_35_native_writes_large_integers_exactly_and_warns_of_none(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.array([[16777217, -16777217]], "int32"))
    outcome = run(
        *("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2,1"),
        *("--feature-kinds", "native"),
    )
    assert outcome.code == 0, outcome.told
    assert "warning" not in outcome.stderr.lower()
    (record,) = wire.read_shard(tmp_path / "set.tfrecord.gz")
    assert record["b1"].tolist() == [16777217, -16777217]


def test_case_35_a_uint64_that_no_int64_holds_is_an_error(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.array([[1, 2**63]], "uint64"))
    common = ("export", source, "--patch-dimensions", "2,1", "--quiet")
    outcome = run(*common, "--output", tmp_path / "set", "--feature-kinds", "native")
    assert_refused(outcome, {10, 13}, "b1", str(2**63), "float")
    assert not list(tmp_path.glob("set*"))
    fine = run(*common, "--output", tmp_path / "set")
    assert fine.code == 0, fine.told
    (record,) = wire.read_shard(tmp_path / "set.tfrecord.gz")
    assert record["b1"].tolist() == [1, 2.0**63]


def test_float64_beyond_float32_is_counted_and_told_once(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.array([[1e300, -1e300], [1, np.inf]], "float64"))
    outcome = run("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2")
    assert outcome.code == 0, outcome.told
    told = [line for line in outcome.stderr.splitlines() if "warning" in line.lower()]
    assert len(told) == 1, outcome.stderr
    assert "2" in told[0]
    (record,) = wire.read_shard(tmp_path / "set.tfrecord.gz")
    assert np.asarray(record["b1"]).tolist() == [np.inf, -np.inf, 1, np.inf]

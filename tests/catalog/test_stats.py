"""``geotfr stats`` against numpy over the whole raster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.rasters import numbered, write_raster
from oracle.run import DATA, assert_refused, needs_data, run

import geotfr
from geotfr.patches.order_statistics import OrderStatistics
from geotfr.patches.statistics import PatchStatistics, merged_statistics, statistics_of

pytest.importorskip("pyarrow")

PERCENTILES = [0, 1, 10, 50, 90, 100]


def export(folder: Path, pixels: np.ndarray, nodata: float | None = None, **options: Any) -> geotfr.ExportResult:
    path = write_raster(folder / "scene.tif", pixels, nodata=nodata)
    return geotfr.export_image(path, folder / "set", **{"patch_dimensions": 4, "patch_table": True, **options})


def assert_statistics(found: dict[str, Any], values: np.ndarray) -> None:
    """``found`` is what numpy says of ``values`` (n,)."""
    exact = values.astype(np.float64)
    assert found["count"] == len(exact)
    assert (found["min"], found["max"]) == (exact.min(), exact.max())
    assert found["mean"] == pytest.approx(exact.mean(), rel=1e-13, abs=1e-12)
    assert found["std"] == pytest.approx(exact.std(), rel=1e-12, abs=1e-12)
    expected = np.percentile(exact, PERCENTILES)
    np.testing.assert_allclose([found["percentiles"][f"{p:g}"] for p in PERCENTILES], expected, rtol=1e-12)
    counts, edges = np.histogram(exact, bins=7)
    assert found["histogram"] == {"edges": edges.tolist(), "counts": counts.tolist()}


def random_pixels(dtype: str) -> np.ndarray:
    """(2, 12, 16), with 0 among the values."""
    rng = np.random.default_rng(3)
    if np.dtype(dtype).kind == "f":
        return rng.normal(0, 100, (2, 12, 16)).round(1).astype(dtype)
    return rng.integers(0, 200, (2, 12, 16)).astype(dtype)


@pytest.mark.parametrize("kinds", ["float", "native"])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
@pytest.mark.parametrize("kernel", [1, 3])
def test_statistics_of_all_patches_are_numpys(tmp_path: Path, dtype: str, kinds: str, kernel: int) -> None:
    pixels = random_pixels(dtype)
    result = export(tmp_path, pixels, feature_kinds=kinds, kernel_size=kernel, max_file_size=2000)
    found = geotfr.compute_statistics(result.patch_table, percentiles=PERCENTILES, bins=7)
    assert found.patches == 12
    for band in (0, 1):
        assert_statistics(found.bands[f"b{band + 1}"], pixels[band].ravel())
    assert not found.warnings


@pytest.mark.parametrize("mask_mode", ["pixel", "band"])
@pytest.mark.parametrize("default_value", [0, 7, -1000])
def test_masked_pixels_are_left_out_though_records_hold_the_default_value(
    tmp_path: Path, mask_mode: str, default_value: int
) -> None:
    # 0 and 7 are valid values too, in patches that have masked pixels.
    pixels = random_pixels("int16")
    pixels[0, :5, :7] = -9999
    pixels[1, 8:, 13] = -9999
    pixels[:, 0, 8:10] = 7
    result = export(tmp_path, pixels, nodata=-9999, mask_mode=mask_mode, default_value=default_value)
    found = geotfr.compute_statistics(result.manifest, percentiles=PERCENTILES, bins=7)
    valid = pixels != -9999
    if mask_mode == "pixel":
        valid[:] = valid.all(axis=0)
    for band in (0, 1):
        assert_statistics(found.bands[f"b{band + 1}"], pixels[band][valid[band]])


def test_without_a_table_default_values_count_and_that_is_told(tmp_path: Path) -> None:
    pixels = numbered(1, 4, 4, "int16")
    pixels[0, 0] = -9999
    result = export(tmp_path, pixels, nodata=-9999, patch_table=False)
    done = run("stats", result.manifest, "--json")
    assert done.code == 0
    assert "nothing tells which pixels are masked" in done.stderr
    assert json.loads(done.stdout)["bands"]["b1"]["min"] == 0


def test_a_condition_chooses_patches(tmp_path: Path) -> None:
    pixels = numbered(1, 8, 8, "int16")
    result = export(tmp_path, pixels)
    found = geotfr.compute_statistics(result.patch_table, where="row = 1", percentiles=PERCENTILES, bins=7)
    assert found.patches == 2
    assert_statistics(found.bands["b1"], pixels[0, 4:].ravel())


def test_classes_are_counted(tmp_path: Path) -> None:
    pixels = np.array([[[1, 1, 2, 0], [1, 7, 2, 2], [0, 0, 1, 1], [1, 1, 1, 1]]], "uint8")
    result = export(tmp_path, pixels, nodata=0, patch_dimensions=2)
    found = geotfr.compute_statistics(result.patch_table, class_bands="b1", bins=0, percentiles=())
    assert found.classes == {"b1": {"1": 9, "2": 3, "7": 1}}


def test_a_tensor_has_a_number_for_each_channel(tmp_path: Path) -> None:
    pixels = random_pixels("float32")
    result = export(tmp_path, pixels, array_bands=["t=1-2"], tensor_depths="t=2")
    band = geotfr.compute_statistics(result.patch_table, percentiles=[50], bins=4).bands["t"]
    assert band["mean"] == pytest.approx([pixels[0].mean(dtype=float), pixels[1].mean(dtype=float)])
    assert band["percentiles"]["50"] == pytest.approx(np.median(pixels.reshape(2, -1).astype(float), axis=1))
    dataset = geotfr.PatchDataset(result.mixer, normalize={"bands": {"t": band}})
    values = np.stack([item["t"] for item in dataset])
    np.testing.assert_allclose(values.mean(axis=(0, 2, 3)), 0, atol=1e-5)


def test_the_file_normalises_a_data_set(tmp_path: Path) -> None:
    pixels = random_pixels("float32")
    result = export(tmp_path, pixels)
    done = run("stats", result.patch_table or "", "-o", tmp_path / "stats.json")
    assert done.code == 0, done.told
    values = np.stack([item["b1"] for item in geotfr.PatchDataset(result.mixer, normalize=tmp_path / "stats.json")])
    assert (abs(values.mean()) < 1e-6, abs(values.std() - 1) < 1e-5) == (True, True)
    assert_refused(run("stats", result.patch_table or "", "-o", tmp_path / "stats.json"), 14, "--overwrite")


@needs_data
def test_earth_engines_own_export_has_statistics(tmp_path: Path) -> None:
    shard = next((DATA / "earth-engine").glob("*.tfrecord"))
    mixer = next((DATA / "earth-engine").glob("*.json"))
    (tmp_path / shard.name).symlink_to(shard)
    made = geotfr.make_patch_table(
        [mixer, tmp_path / shard.name], tmp_path / "t.parquet", first_patch=10, masked_value=-9999
    )
    found = geotfr.compute_statistics(made.table, bins=0)
    # What -9999 is, the table was told: it is masked, in each band.
    assert not found.warnings
    assert all(band["min"] != -9999 for band in found.bands.values())
    with_masks = geotfr.read_patch_table(made.table)
    assert with_masks.column("count_constant")[0] == 0


BAD = {
    "no split": (("--split", "train"), 2, "no split 'train'", "geotfr split"),
    "no rows": (("--where", "row > 99"), 2, "no patch has row > 99"),
    "no condition": (("--where", "row >"), 2, "character 7"),
    "no code": (("--where", "__import__('os').getpid()"), 2, "where"),
    "no column": (("--where", "rows > 1"), 10, "rows"),
    "percentile": (("--percentiles", "101"), 2, "0 to 100"),
    "no number": (("--percentiles", "x"), 2, "numbers from 0 to 100"),
    "class band": (("--class-bands", "b7"), 2, "no band 'b7'"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_what_means_nothing_is_refused(tmp_path: Path, case: tuple[tuple[str, ...], int, str]) -> None:
    options, code, *words = case
    result = export(tmp_path, numbered(1, 4, 4))
    assert_refused(run("stats", result.patch_table or "", *options), code, *words)


def test_a_table_whose_shards_changed_is_refused(tmp_path: Path) -> None:
    result = export(tmp_path, numbered(1, 4, 4))
    with result.shards[0].open("ab") as file:
        file.write(b"\0")
    assert_refused(run("stats", result.patch_table or ""), 12, "the table knows", "geotfr table")
    result.shards[0].unlink()
    assert_refused(run("stats", result.patch_table or ""), 12, "is missing")


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20), min_size=1),
    st.lists(st.floats(0, 100), min_size=1, max_size=4),
)
def test_percentiles_in_batches_are_numpys(batches: list[list[float]], percentiles: list[float]) -> None:
    found = OrderStatistics(np.dtype(np.float32))
    arrays = [np.array(batch, np.float32) for batch in batches]
    for array in arrays:
        found.count(array)
    found.narrow(percentiles)
    for array in arrays:
        found.refine(array)
    whole = np.concatenate(arrays).astype(np.float64)
    scale = np.abs(whole).max()
    np.testing.assert_allclose(
        found.percentiles(), np.percentile(whole, percentiles), rtol=1e-9, atol=float(scale) * 1e-12
    )


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1), st.floats(0, 100))
def test_percentiles_of_whole_numbers_are_numpys(values: list[int], percentile: float) -> None:
    array = np.array(values, np.int64)
    found = OrderStatistics(array.dtype)
    found.count(array)
    found.narrow([percentile])
    found.refine(array)
    assert found.percentiles()[0] == pytest.approx(np.percentile(array, percentile), rel=1e-9, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 65535), max_size=12), min_size=1, max_size=9))
def test_merged_statistics_are_those_of_all_values(parts: list[list[int]]) -> None:
    each = [statistics_of([(np.array(part, np.uint16).reshape(1, 1, -1), None)]) for part in parts if part]
    if not each:
        return
    whole = np.array([value for part in parts for value in part], np.float64)
    total = PatchStatistics.joined(each).total()
    assert total.counts[0] == len(whole)
    assert total.means[0] == pytest.approx(whole.mean(), rel=1e-13)
    assert total.deviations[0] == pytest.approx(whole.std(), rel=1e-10, abs=1e-9)
    twice = merged_statistics(total, total)
    assert (twice.counts[0], twice.means[0]) == (2 * len(whole), total.means[0])


@pytest.mark.parametrize("has_table", [True, False])
def test_pixel_records_are_refused_and_not_taken_for_patches(tmp_path: Path, has_table: bool) -> None:
    result = export(tmp_path, random_pixels("int16"), sequence_data=True, patch_table=has_table)
    assert_refused(run("stats", result.manifest), 2, "a record is a pixel here, not a patch", "geotfr.stream")


def test_a_set_without_patches_is_not_another_set_beside_it(tmp_path: Path) -> None:
    write_raster(tmp_path / "t.tif", np.zeros((1, 8, 8), np.uint8), nodata=0)
    empty = geotfr.export_image(tmp_path / "t.tif", tmp_path / "empty", patch_dimensions=4, masked_threshold=0.5)
    geotfr.export_image(tmp_path / "t.tif", tmp_path / "full", patch_dimensions=4)
    for words in (["stats"], ["table"], ["preview", "patches", "-o", tmp_path / "x.png"]):
        assert_refused(run(*words, empty.manifest), 10, "empty-manifest.json", "no shards", "masked threshold")
    with pytest.raises(geotfr.MissingInputError, match="no shards"):
        geotfr.PatchDataset(empty.manifest)

"""``geotfr table``: the table of a set that is there already."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.rasters import numbered, write_raster
from oracle.run import DATA, assert_refused, needs_data, run
from oracle.sets import write_set

import geotfr

pytest.importorskip("pyarrow")
geopandas = pytest.importorskip("geopandas")
pandas = pytest.importorskip("pandas")


def scene(folder: Path) -> Path:
    """2 bands of 13 x 11 int16 with nodata."""
    pixels = np.random.default_rng(7).integers(1, 9, (2, 11, 13)).astype("int16")
    pixels[0, :4, :5] = -9
    return write_raster(folder / "scene.tif", pixels, nodata=-9, descriptions=("red", "kind"))


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "small shards": {"max_file_size": 300},
    "native": {"feature_kinds": "native", "compressor": "ee"},
    "threshold": {"masked_threshold": 0.3},
    "tensor": {"array_bands": ["evi=1-2"], "tensor_depths": {"evi": 3}},
    "collapsed": {"collapse_bands": True},
    "sequences": {"sequence_data": True, "compressed": False},
    "index": {"patch_index": "id"},
    "cloud": {"naming": "cloud-storage"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_with_its_rasters_a_set_gives_the_table_of_the_export(tmp_path: Path, options: dict[str, Any]) -> None:
    path = scene(tmp_path)
    result = geotfr.export_image(
        path, tmp_path / "set", patch_dimensions=(3, 2), kernel_size=3, patch_table=True, **options
    )
    assert result.patch_table is not None
    exported = result.patch_table.read_bytes()
    again = geotfr.make_patch_table(result.manifest, rasters=path, overwrite=True)
    assert again.table == result.patch_table
    assert again.table.read_bytes() == exported


def test_without_rasters_masks_are_not_known_and_that_is_told(tmp_path: Path) -> None:
    result = geotfr.export_image(scene(tmp_path), tmp_path / "set", patch_dimensions=(3, 2))
    made = geotfr.make_patch_table(result.manifest)
    assert "don't tell which pixels are masked" in made.warnings[0]
    table = geopandas.read_parquet(made.table)
    assert table["masked_share"].isna().all()
    assert table["min_red"][0] == 0
    assert (table["count_red"] == 6).all()


def test_a_masked_value_gives_the_statistics_of_the_valid_pixels(tmp_path: Path) -> None:
    path = scene(tmp_path)
    result = geotfr.export_image(path, tmp_path / "a", patch_dimensions=(3, 2), default_value=-99, patch_table=True)
    made = geotfr.make_patch_table(result.manifest, tmp_path / "b.parquet", masked_value=-99)
    assert not made.warnings
    one, other = geopandas.read_parquet(result.patch_table), geopandas.read_parquet(made.table)
    pandas.testing.assert_frame_equal(pandas.DataFrame(one), pandas.DataFrame(other), rtol=1e-12, check_dtype=False)


def test_predictions_of_others_have_a_table(tmp_path: Path) -> None:
    bands = numbered(1, 6, 8)
    mixer, shards = write_set(tmp_path, bands, patch=(4, 3), margin=(1, 1), shards=2, compression="GZIP")
    made = geotfr.make_patch_table([mixer, *shards], kernel_size=2)
    table = geopandas.read_parquet(made.table)
    assert table["shard"].tolist() == ["pred-00000.tfrecord"] * 2 + ["pred-00001.tfrecord"] * 2
    assert table["mean_b1"][3] == bands[0, 3:, 4:].mean()
    assert table["sha256"].tolist() == [hashlib.sha256(each).digest() for each in geotfr.read_records(shards)]
    assert made.table.name == "scene-patches.parquet"


@needs_data
def test_earth_engines_own_export_has_a_table(tmp_path: Path) -> None:
    folder = DATA / "earth-engine"
    made = geotfr.make_patch_table(folder, tmp_path / "t.parquet", first_patch=10, masked_value=-9999)
    table = geopandas.read_parquet(made.table)
    assert table["number"].tolist() == [10, 11]
    assert (table["row"].tolist(), table["column"].tolist()) == ([3, 3], [1, 2])
    assert table["masked_share"][0] == 1
    assert table["mean_constant"].isna().tolist() == [True, False]
    assert table["max_constant"][1] <= 0.666556
    assert table["west"][0] == pytest.approx(-105 + 256 * 0.05)
    assert table["length"].sum() == 3_994_516


@needs_data
def test_a_part_of_a_set_is_refused_without_its_place(tmp_path: Path) -> None:
    done = run("table", DATA / "earth-engine", "-o", tmp_path / "t.parquet")
    assert_refused(done, 12, "2 patches in 1 shards", "15 by the mixer", "--first-patch")


def test_columns_of_the_users_are_joined_by_number(tmp_path: Path) -> None:
    result = geotfr.export_image(scene(tmp_path), tmp_path / "set", patch_dimensions=(4, 5))
    (tmp_path / "mine.csv").write_text("site,number,rain\nalm,4,1.5\nfen,1,2.5\n")
    done = run("table", result.manifest, "--join", tmp_path / "mine.csv", "--masked-value", "0")
    assert done.code == 0, done.told
    table = geopandas.read_parquet(tmp_path / "set-patches.parquet")
    assert table["site"].fillna("-").tolist() == ["-", "fen", "-", "-", "alm", "-"]
    assert table["rain"].fillna(-1).tolist() == [-1, 2.5, -1, -1, 1.5, -1]


BAD_JOINS = {
    "no number": ("site\nalm\n", 2, "no column 'number'"),
    "twice": ("number,a\n1,2\n1,3\n", 12, "patch 1 has two rows"),
    "none fits": ("number,a\n77,2\n", 2, "no row is of a patch"),
    "nothing": ("number\n1\n", 2, "nothing to add"),
    "taken": ("number,row\n1,2\n", 2, "'row' is the table's own"),
}


@pytest.mark.parametrize(("text", "code", "words"), BAD_JOINS.values(), ids=BAD_JOINS)
def test_a_join_that_means_nothing_is_refused(tmp_path: Path, text: str, code: int, words: str) -> None:
    result = geotfr.export_image(scene(tmp_path), tmp_path / "set", patch_dimensions=(4, 5))
    (tmp_path / "mine.csv").write_text(text)
    assert_refused(run("table", result.manifest, "--join", tmp_path / "mine.csv", "-q"), code, words)
    assert not (tmp_path / "set-patches.parquet").exists()


def test_other_rasters_than_those_exported_are_refused(tmp_path: Path) -> None:
    result = geotfr.export_image(scene(tmp_path), tmp_path / "set", patch_dimensions=(3, 2))
    other = write_raster(tmp_path / "other.tif", numbered(2, 11, 13, "int16"), nodata=-9, descriptions=("red", "kind"))
    done = run("table", result.manifest, "--source", other)
    assert_refused(done, 12, "20 of 20 patches differ", "first patch 0")


def test_shards_without_a_grid_are_refused(tmp_path: Path) -> None:
    result = geotfr.export_image(scene(tmp_path), tmp_path / "set", patch_dimensions=(3, 2))
    assert_refused(run("table", *result.shards), 2, "no mixer or manifest")


def test_a_table_is_not_replaced_unasked(tmp_path: Path) -> None:
    result = geotfr.export_image(scene(tmp_path), tmp_path / "set", patch_dimensions=(3, 2), patch_table=True)
    assert_refused(run("table", result.manifest), 14, "exists already", "--overwrite")


def test_a_file_that_is_no_patch_table_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    pandas.DataFrame({"a": [1]}).to_parquet(tmp_path / "b.parquet")
    for name, words in (("a", "no Parquet file"), ("b", "no patch table"), ("c", "no such file")):
        with pytest.raises(geotfr.InputError, match=words):
            geotfr.read_patch_table(tmp_path / f"{name}.parquet")


def test_a_table_opened_tells_its_sets_and_columns(tmp_path: Path) -> None:
    result = geotfr.export_image(scene(tmp_path), tmp_path / "set", patch_dimensions=(3, 2), patch_table=True)
    assert result.patch_table is not None
    table = geotfr.read_patch_table(result.patch_table)
    assert len(table) == 20
    assert table.features == ("red", "kind")
    assert table.sets[0].geobox == result.plan.layout.geobox
    assert table.sets[0].fills == {"red": 0, "kind": 0}
    assert table.column("number").tolist() == list(range(20))
    with pytest.raises(geotfr.UsageError, match="no column 'blue'"):
        table.column("blue")

"""Many rasters as one collection."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from oracle.rasters import NORTH_UP, numbered, write_raster
from oracle.run import assert_refused, contents, run

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("pyarrow")
geopandas = pytest.importorskip("geopandas")


def scenes(folder: Path, *names: str, crs: str = "EPSG:32618", offset: float = 0) -> list[Path]:
    """Rasters of different sizes, side by side."""
    folder.mkdir(exist_ok=True)
    made = []
    for number, name in enumerate(names):
        pixels = numbered(1, 4 + 2 * number, 6) + 1000 * number
        transform = type(NORTH_UP)(10, 0, 500000 + offset + 100 * number, 0, -10, 4000000)
        made.append(write_raster(folder / f"{name}.tif", pixels, transform=transform, crs=crs))
    return made


def test_each_raster_has_its_set_and_one_table_has_all(tmp_path: Path) -> None:
    paths = scenes(tmp_path / "in", "a", "b")
    (tmp_path / "out").mkdir()
    result = geotfr.export_collection(tmp_path / "in", tmp_path / "out" / "all", patch_dimensions=2, kernel_size=3)
    for path in paths:
        (tmp_path / "alone").mkdir(exist_ok=True)
        geotfr.export_image(
            path, tmp_path / "alone" / f"all-{path.stem}", patch_dimensions=2, kernel_size=3, patch_table=True
        )
    files = contents(tmp_path / "out")
    table = geopandas.read_parquet(tmp_path / "out" / "all-patches.parquet")
    del files["all-patches.parquet"]
    assert files == contents(tmp_path / "alone")
    assert (result.exported, result.kept, result.patches) == (("a", "b"), (), 15)
    assert table["source"].tolist() == ["a.tif"] * 6 + ["b.tif"] * 9
    assert set(table["shard"]) == {"all-a.tfrecord.gz", "all-b.tfrecord.gz"}
    assert table.crs.to_epsg() == 32618


def test_rasters_are_added_without_rewriting_what_is_there(tmp_path: Path) -> None:
    scenes(tmp_path / "in", "a", "b")
    prefix = tmp_path / "all"
    geotfr.export_collection(tmp_path / "in", prefix, patch_dimensions=2)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.glob("all-*.tfrecord.gz")}
    scenes(tmp_path / "in2", "c", offset=5000)
    result = geotfr.export_collection(tmp_path / "in2" / "*.tif", prefix, patch_dimensions=2)
    assert (result.exported, result.patches) == (("c",), 21)
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    (tmp_path / "in2" / "c.tif").rename(tmp_path / "in" / "c.tif")
    again = geotfr.export_collection(tmp_path / "in", prefix, patch_dimensions=2)
    assert (again.exported, again.kept, again.patches) == ((), ("a", "b", "c"), 21)
    table = geopandas.read_parquet(again.table)
    assert table["source"].unique().tolist() == ["a.tif", "b.tif", "c.tif"]


def test_rasters_of_several_crs_have_outlines_in_degrees(tmp_path: Path) -> None:
    scenes(tmp_path / "in", "a")
    scenes(tmp_path / "in", "b", crs="EPSG:32619")
    result = geotfr.export_collection(tmp_path / "in", tmp_path / "all", patch_dimensions=2)
    table = geopandas.read_parquet(result.table)
    assert table.crs.to_authority() == ("OGC", "CRS84")
    bounds = table.geometry.bounds.to_numpy()
    np.testing.assert_allclose(bounds, table[["west", "south", "east", "north"]].to_numpy())
    assert bounds[0, 0] == pytest.approx(-75)
    assert bounds[6, 0] == pytest.approx(-69)


def test_a_data_set_a_split_and_statistics_go_over_all_rasters(tmp_path: Path) -> None:
    paths = scenes(tmp_path / "in", "a", "b")
    result = geotfr.export_collection(paths, tmp_path / "all", patch_dimensions=2)
    geotfr.split_patches(result.table, by="group", column="source", shares="train=0.5,test=0.5")
    dataset = geotfr.PatchDataset(result.table, columns=["source", "split"])
    assert len(dataset) == 15
    values = np.concatenate([item["b1"].ravel() for item in dataset])
    assert sorted(values.tolist()) == sorted([*numbered(1, 4, 6).ravel(), *(numbered(1, 6, 6) + 1000).ravel()])
    splits = {str(item["source"]): str(item["split"]) for item in dataset}
    assert sorted(splits.values()) == ["test", "train"]
    found = geotfr.compute_statistics(result.table, split=splits["b.tif"], bins=0)
    assert found.bands["b1"]["mean"] == (numbered(1, 6, 6) + 1000).mean()


def test_a_split_stays_when_rasters_are_added(tmp_path: Path) -> None:
    scenes(tmp_path / "in", "a", "b")
    result = geotfr.export_collection(tmp_path / "in", tmp_path / "all", patch_dimensions=2)
    geotfr.split_patches(result.table, by="random", shares="train=0.5,test=0.5")
    before = geopandas.read_parquet(result.table)["split"].tolist()
    scenes(tmp_path / "in2", "c", offset=5000)
    geotfr.export_collection(tmp_path / "in2", tmp_path / "all", patch_dimensions=2)
    table = geopandas.read_parquet(result.table)
    assert table["split"][:15].tolist() == before
    assert table["split"][15:].isna().all()
    assert len(geotfr.PatchDataset(result.table, split="train")) == before.count("train")


def test_a_table_of_one_set_is_no_collections(tmp_path: Path) -> None:
    paths = scenes(tmp_path / "in", "a", "b")
    geotfr.export_image(paths[0], tmp_path / "all", patch_dimensions=2, patch_table=True)
    done = run("export", tmp_path / "in", "--collection", "-o", tmp_path / "all", "--patch-dimensions", "2", "-q")
    assert_refused(done, 10, "a patch table of one set", "another --output")
    assert not list(tmp_path.glob("all-a*"))


def test_a_raster_that_changed_is_exported_again_only_if_asked(tmp_path: Path) -> None:
    paths = scenes(tmp_path / "in", "a", "b")
    arguments: tuple[Any, ...] = ("export", tmp_path / "in", "--collection", "-o", tmp_path / "all")
    assert run(*arguments, "--patch-dimensions", "2", "-q").code == 0
    write_raster(paths[1], numbered(1, 8, 8))
    os.utime(paths[1], ns=(2**61, 2**61))
    assert_refused(run(*arguments, "--patch-dimensions", "2", "-q"), 14, "all-b-manifest.json", "--overwrite")
    done = run(*arguments, "--patch-dimensions", "2", "--overwrite")
    assert done.code == 0, done.told
    assert "1 of 1: b" in done.stderr
    assert len(geopandas.read_parquet(tmp_path / "all-patches.parquet")) == 6 + 16
    assert_refused(run(*arguments, "--patch-dimensions", "3", "-q"), 14, "patch_dimensions: [2, 2], now [3, 3]")


def test_what_means_no_collection_is_refused(tmp_path: Path) -> None:
    scenes(tmp_path / "in", "a")
    scenes(tmp_path / "other", "a")
    (tmp_path / "none").mkdir()
    options: tuple[Any, ...] = ("--collection", "-o", tmp_path / "all", "--patch-dimensions", "2", "-q")
    cases: list[tuple[tuple[Any, ...], int, str]] = [
        ((tmp_path / "none",), 10, "no rasters"),
        ((tmp_path / "*.jp2",), 10, "no file matches"),
        ((tmp_path / "x.tif",), 10, "no such file"),
        ((tmp_path / "in", tmp_path / "other"), 2, "same name"),
        ((tmp_path / "in", "--resume"), 2, "--resume"),
    ]
    for sources, code, words in cases:
        assert_refused(run("export", *sources, *options), code, words)
    assert not list(tmp_path.glob("all*"))


def test_rasters_without_labels_are_background_where_that_is_allowed(tmp_path: Path) -> None:
    shapely = pytest.importorskip("shapely")
    scenes(tmp_path / "in", "a", "b")
    box = shapely.box(500000, 3999980, 500020, 4000000)
    labels = geopandas.GeoDataFrame({"class": ["water"]}, geometry=[box], crs="EPSG:32618")
    labels.to_file(tmp_path / "labels.gpkg")
    arguments: tuple[Any, ...] = ("export", tmp_path / "in", "--collection", "-o", tmp_path / "all")
    wanted = ("--patch-dimensions", "2", "--labels", tmp_path / "labels.gpkg", "--label-field", "class")
    assert_refused(run(*arguments, *wanted, "-q"), 10, "none of its 1 shapes", "--label-allow-empty")
    # What was exported before the refusal stays: the flag changes no record.
    done = run(*arguments, *wanted, "--label-allow-empty", "--label-features", "polygons", "--json", "--overwrite")
    assert done.code == 0, done.told
    assert "b: " in done.stderr
    assert "all of it is background" in done.stderr
    table = geopandas.read_parquet(tmp_path / "all-patches.parquet")
    assert table["share_1"].tolist() == [1.0] + [0.0] * 14


def test_a_split_of_one_name_packs_all_rasters_into_shared_shards(tmp_path: Path) -> None:
    paths = scenes(tmp_path / "in", "a", "b")
    result = geotfr.export_collection(paths, tmp_path / "all", patch_dimensions=2)
    before = geotfr.PatchDataset(result.table)
    made = geotfr.split_patches(result.table, by="random", shares="shared=1", shards_prefix=tmp_path / "all")
    assert [path.name for path in made.shards] == ["all-shared.tfrecord.gz"]
    after = geotfr.PatchDataset(tmp_path / "all-shared-patches.parquet", columns=["source"])
    assert len(after) == len(before) == 15
    assert all((one["b1"] == other["b1"]).all() for one, other in zip(before, after, strict=True))
    assert [str(item["source"]) for item in after] == ["a.tif"] * 6 + ["b.tif"] * 9


@pytest.mark.parametrize("shards", ["separate", "shared"])
def test_an_error_of_one_raster_names_it(tmp_path: Path, shards: str) -> None:
    scenes(tmp_path / "in", "a", "b")
    write_raster(tmp_path / "in" / "small.tif", numbered(1, 1, 1), transform=NORTH_UP, crs="EPSG:32618")
    options = ("--collection", "--patch-dimensions", "2", "--collection-shards", shards)
    outcome = run("export", tmp_path / "in", "--output", tmp_path / "all", *options, "--quiet")
    assert_refused(outcome, 2, "small.tif: 0 patches", "1 x 1")
    # Those that would fit are not written either.
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_places_of_patches_on_several_grids_are_refused_with_what_tells_them(tmp_path: Path) -> None:
    scenes(tmp_path / "in", "a", "b")
    result = geotfr.export_collection(tmp_path / "in", tmp_path / "all", patch_dimensions=2)
    with pytest.raises(geotfr.UsageError, match=r"tells of 2 rasters.*columns=number,row,column,source"):
        geotfr.PatchDataset(result.table, with_place=True)
    dataset = geotfr.PatchDataset(result.table, columns="number,row,column,source")
    assert (dataset[7]["number"], dataset[7]["row"], dataset[7]["source"]) == (1, 0, "b.tif")

"""``PatchDataset`` of a patch table: a split, a condition, columns."""

from __future__ import annotations

import pickle
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from catalog.tables import table_of_grid
from oracle.rasters import numbered, write_raster

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("pyarrow")


def cores(table: Path) -> np.ndarray:
    """All patches of a table of one band, by record."""
    return np.stack([item["b1"] for item in geotfr.PatchDataset(table.with_name("set-manifest.json"))])


def test_a_split_and_a_condition_choose_items(tmp_path: Path) -> None:
    table = table_of_grid(tmp_path, 6, 5)
    geotfr.split_patches(table, by="random", shares="a=0.5,b=0.5")
    opened = geotfr.read_patch_table(table)
    splits, columns = opened.column("split"), opened.column("column")
    expected = np.flatnonzero((splits == "a") & (columns > 1))
    for source in (table, tmp_path, tmp_path / "set-manifest.json"):
        dataset = geotfr.PatchDataset(source, split="a", where="column > 1")
        assert dataset.numbers.tolist() == expected.tolist()
        np.testing.assert_array_equal(np.stack([item["b1"] for item in dataset]), cores(table)[expected])


def test_columns_go_with_their_items(tmp_path: Path) -> None:
    table = table_of_grid(tmp_path, 4, 4)
    geotfr.split_patches(table, by="random", shares="a=0.5,b=0.5")
    opened = geotfr.read_patch_table(table)
    dataset = geotfr.PatchDataset(table, where="number >= 4", columns=["mean_b1", "split", "number"], with_place=False)
    assert dataset.spec["mean_b1"].dtype == np.float64
    batch = dataset[[3, 0, 5]]
    assert batch["number"].tolist() == [7, 4, 9]
    assert batch["mean_b1"].tolist() == opened.column("mean_b1")[[7, 4, 9]].tolist()
    assert batch["split"].tolist() == opened.column("split")[[7, 4, 9]].tolist()
    np.testing.assert_allclose(batch["mean_b1"], batch["b1"].mean(axis=(1, 2)))
    again = pickle.loads(pickle.dumps(dataset)).shard(1, 2)
    assert [int(item["number"]) for item in again] == [5, 7, 9, 11, 13, 15]


def test_places_margins_and_several_shards_hold(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 12, 12), nodata=1)
    options = {"patch_dimensions": 2, "kernel_size": 3, "max_file_size": 400, "masked_threshold": 0.2}
    result = geotfr.export_image(source, tmp_path / "set", patch_table=True, **options)
    assert result.patches_dropped
    assert len(result.shards) > 3
    dataset = geotfr.PatchDataset(result.patch_table or "", where="row = 2", with_place=True)
    assert dataset[0]["b1"].shape == (4, 4)
    assert dataset[:]["number"].tolist() == list(range(12, 18))
    assert dataset[0]["b1"][1, 1] == numbered(1, 12, 12)[0, 4, 0]
    assert dataset.place(3).number == 15


def test_without_a_table_a_split_is_refused(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 4, 4))
    result = geotfr.export_image(source, tmp_path / "set", patch_dimensions=2)
    with pytest.raises(geotfr.UsageError, match="ask a patch table"):
        geotfr.PatchDataset(result.manifest, split="train")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"split": "train"}, geotfr.UsageError, "no split 'train'"),
        ({"where": "row > 77"}, geotfr.UsageError, "no patch has row > 77"),
        ({"where": "row >"}, geotfr.UsageError, "character 7"),
        ({"where": "rwo > 1"}, geotfr.InputError, "rwo"),
        ({"columns": ["b1"]}, geotfr.UsageError, "no column 'b1'"),
        ({"columns": ["number"], "with_place": True}, geotfr.UsageError, "'number' is a feature or a place"),
    ],
    ids=["split", "nothing left", "syntax", "no such column", "columns", "twice"],
)
def test_what_means_nothing_is_refused(tmp_path: Path, options: dict, error: type[Exception], words: str) -> None:
    table = table_of_grid(tmp_path, 2, 2)
    with pytest.raises(error, match=words):
        geotfr.PatchDataset(table, **options)


def test_shards_that_changed_are_refused(tmp_path: Path) -> None:
    table = table_of_grid(tmp_path, 2, 2)
    shard = next(tmp_path.glob("*.tfrecord.gz"))
    shard.write_bytes(shard.read_bytes() + b"\0")
    with pytest.raises(geotfr.DamagedError, match="the table knows"):
        geotfr.PatchDataset(table)


def swapped_sets(tmp_path: Path, **options: Any) -> tuple[geotfr.ExportResult, geotfr.ExportResult]:
    """Two sets of one layout, whose shards have the same names and sizes; they differ in the last patch alone."""
    made = []
    for name, last in (("one", 0), ("other", 5)):
        pixels = numbered(1, 4, 8)
        pixels[0, 3, 7] += last
        (tmp_path / name).mkdir()
        source = write_raster(tmp_path / f"{name}.tif", pixels)
        given = {"patch_dimensions": 2, "compressed": False, "max_file_size": 200, "patch_table": True, **options}
        made.append(geotfr.export_image(source, tmp_path / name / "set", **given))
    return made[0], made[1]


def test_a_shard_swapped_for_one_of_the_same_size_is_noticed_when_it_is_read(tmp_path: Path) -> None:
    one, other = swapped_sets(tmp_path)
    assert len({shard.stat().st_size for shard in one.shards}) == 1
    shutil.copy(one.shards[0], one.shards[1])
    dataset = geotfr.PatchDataset(one.patch_table)
    assert dataset[0]["b1"].tolist() == [[1, 2], [9, 10]]
    for read in (dataset, pickle.loads(pickle.dumps(dataset))):
        with pytest.raises(geotfr.DamagedError, match=r"set-00001\.tfrecord: .* another record 0 than the table"):
            read[7]
    with pytest.raises(geotfr.DamagedError, match="another record 1 than the table knows"):
        geotfr.PatchDataset(one.patch_table, where="number = 5")[0]
    assert geotfr.verify(one.manifest).fault_count
    assert len(geotfr.PatchDataset(other.patch_table)[:]["b1"]) == 8


def test_every_record_is_compared_where_that_is_asked_for(tmp_path: Path) -> None:
    one, other = swapped_sets(tmp_path)
    before = geotfr.PatchDataset(one.manifest, check_digests=True)[[7, 0, 7, 3]]["b1"]
    shutil.copy(other.shards[-1], one.shards[-1])
    # Only the last record is another one.
    assert geotfr.PatchDataset(one.patch_table)[7]["b1"].tolist() == [[23, 24], [31, 37]]
    dataset = geotfr.PatchDataset(one.manifest, check_digests=True)
    np.testing.assert_array_equal(dataset[[0, 3, 6]]["b1"], geotfr.PatchDataset(other.manifest)[[0, 3, 6]]["b1"])
    with pytest.raises(geotfr.DamagedError, match=r"another record 3 than the table knows: its SHA-256 begins with"):
        dataset[[0, 7]]
    np.testing.assert_array_equal(before[0], [[23, 24], [31, 32]])
    np.testing.assert_array_equal(before[0], before[2])


@pytest.mark.parametrize("options", [{"compressed": True}, {"compressor": "ee", "compressed": True}], ids=str)
def test_records_of_compressed_shards_are_compared_too(tmp_path: Path, options: dict[str, Any]) -> None:
    one, _ = swapped_sets(tmp_path, **options)
    dataset = geotfr.PatchDataset(one.patch_table, check_digests=True)
    assert dataset[[5, 1]]["b1"][:, 0, 0].tolist() == [19, 3]


def test_digests_ask_a_table(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 4, 4))
    result = geotfr.export_image(source, tmp_path / "set", patch_dimensions=2)
    with pytest.raises(geotfr.UsageError, match="check_digests ask a patch table"):
        geotfr.PatchDataset(result.manifest, check_digests=True)

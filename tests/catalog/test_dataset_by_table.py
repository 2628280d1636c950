"""``PatchDataset`` of a patch table: a split, a condition, columns."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

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

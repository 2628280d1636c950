"""Array bands whose elements are files in time order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracle import wire
from oracle.images import Options, assert_export, expected_export
from oracle.rasters import write_raster
from oracle.run import assert_refused, contents, run

import geotfr

if TYPE_CHECKING:
    from pathlib import Path


def stack(folder: Path, steps: int = 12) -> list[Path]:
    """Scenes of two bands, stack_1.tif to stack_12.tif: band 2 holds the step's number, band 1 that plus 100."""
    folder.mkdir()
    return [
        write_raster(
            folder / f"stack_{step}.tif",
            np.array([[[step + 100] * 2] * 2, [[step] * 2] * 2], "uint8"),
            descriptions=("mask", "evi"),
        )
        for step in range(1, steps + 1)
    ]


def series(folder: Path, key: str = "evi") -> list[float]:
    """The first pixel's array in the only record."""
    (record,) = wire.read_shard(folder / "set.tfrecord.gz")
    return np.reshape(record[key], (-1, 2, 2))[:, 0, 0].tolist()


def test_a_glob_takes_one_element_of_each_file_in_natural_order(tmp_path: Path) -> None:
    paths = stack(tmp_path / "in")
    outcome = run(
        *("export", paths[0], "--output", tmp_path / "set", "--patch-dimensions", "2", "--quiet", "--bands", "mask"),
        *("--array-band", f"evi={tmp_path}/in/stack_*.tif:2", "--tensor-depths", "evi=12"),
    )
    assert outcome.code == 0, outcome.told
    assert series(tmp_path) == list(range(1, 13))


def test_files_listed_keep_the_order_given(tmp_path: Path) -> None:
    paths = stack(tmp_path / "in", 3)
    listed = ",".join(f"{paths[index]}:2" for index in (2, 0, 1))
    geotfr.export_image(
        paths[0], tmp_path / "set", patch_dimensions=2, array_bands={"evi": listed}, tensor_depths={"evi": 3}
    )
    assert series(tmp_path) == [3, 1, 2]


def test_a_file_without_a_band_number_gives_its_only_band(tmp_path: Path) -> None:
    paths = [write_raster(tmp_path / f"t{step}.tif", np.full((2, 2), step, "uint8")) for step in (1, 2)]
    listed = ",".join(map(str, paths))
    geotfr.export_image(
        paths, tmp_path / "set", patch_dimensions=2, array_bands={"evi": listed}, tensor_depths={"evi": 2}
    )
    (record,) = wire.read_shard(tmp_path / "set.tfrecord.gz")
    # Both bands are in use, so there is no scalar band left.
    assert list(record) == ["evi"]
    assert series(tmp_path) == [1, 2]


def test_sources_that_an_array_band_uses_leave_their_other_bands_as_scalars(tmp_path: Path) -> None:
    paths = stack(tmp_path / "in", 2)
    options = Options(
        patch=(2, 2), arrays={"series": [(path, 2) for path in paths]}, depths={"series": 3}, default_value=5
    )
    out = tmp_path / "out"
    out.mkdir()
    keywords = options.keywords() | {"array_bands": [f"series={tmp_path}/in/stack_*.tif:2"]}
    geotfr.export_image(paths, out / "set", **keywords)
    expected = expected_export(paths, options, name="set")
    assert [band.name for band in expected.scene.bands] == ["mask", "mask_1", "series"]
    assert_export(out, expected)


def test_each_files_own_nodata_masks_its_element_only(tmp_path: Path) -> None:
    data = np.array([[1, 2], [3, 4]], "uint8")
    paths = [write_raster(tmp_path / f"t{value}.tif", data, nodata=value) for value in (1, 2, 3)]
    options = Options(
        patch=(2, 2), arrays={"t": [(path, 1) for path in paths]}, depths={"t": 3}, default_value=9, native=True
    )
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image(paths[0], out / "set", **options.keywords())
    (record,) = wire.read_shard(out / "set.tfrecord.gz")
    assert list(record) == ["t"]
    assert record["t"] == [bytes([9, 2, 3, 4, 1, 9, 3, 4, 1, 2, 9, 4])]
    assert_export(out, expected_export(paths[:1], options, name="set"))


@pytest.mark.parametrize("how", ["alpha", "internal", "external"])
def test_a_files_mask_masks_its_element_only(how: str, tmp_path: Path) -> None:
    clear = np.array([[True, False], [True, True]])
    data = np.array([[1, 2], [3, 4]], "uint8")
    masks = {"alpha": clear * 255} if how == "alpha" else {"mask": clear, "external_mask": how == "external"}
    cloudy = write_raster(tmp_path / "cloudy.tif", data, **masks)
    fine = write_raster(tmp_path / "fine.tif", data + 10)
    options = Options(
        patch=(2, 2), arrays={"t": [(cloudy, 1), (fine, 1)]}, depths={"t": 2}, default_value=9, native=True
    )
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image(fine, out / "set", **options.keywords())
    (record,) = wire.read_shard(out / "set.tfrecord.gz")
    assert record["t"] == [bytes([1, 9, 3, 4, 11, 12, 13, 14])]


def test_an_element_is_masked_where_its_file_does_not_reach(tmp_path: Path) -> None:
    from oracle.rasters import NORTH_UP
    from rasterio.transform import Affine

    whole = write_raster(tmp_path / "whole.tif", np.array([[1, 2], [3, 4]], "uint8"))
    # One pixel, under the lower right one of the other.
    part = write_raster(tmp_path / "part.tif", np.array([[7]], "uint8"), transform=NORTH_UP @ Affine.translation(1, 1))
    options = Options(
        patch=(2, 2), arrays={"t": [(whole, 1), (part, 1)]}, depths={"t": 2}, default_value=9, native=True
    )
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image(whole, out / "set", **options.keywords())
    (record,) = wire.read_shard(out / "set.tfrecord.gz")
    assert record["t"] == [bytes([1, 2, 3, 4, 9, 9, 9, 7])]
    assert_export(out, expected_export([whole], options, name="set"))


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    paths = stack(tmp_path / "in", 2)
    before = contents(tmp_path)
    outcome = run(
        *("export", paths[0], "--output", tmp_path / "set", "--patch-dimensions", "2", "--quiet"),
        *("--array-band", f"evi={paths[0]}:2,{tmp_path}/in/stack_9.tif:2", "--tensor-depths", "evi=2"),
    )
    assert_refused(outcome, 10, "stack_9.tif")
    assert contents(tmp_path) == before


@pytest.mark.parametrize(("element", "words"), [("no_*.tif:2", ("no_*.tif",)), ("stack_1.tif:5", ("stack_1.tif", "5"))])
def test_an_empty_glob_and_a_band_that_is_not_there_are_told(
    element: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    paths = stack(tmp_path / "in", 2)
    before = contents(tmp_path)
    outcome = run(
        *("export", paths[0], "--output", tmp_path / "set", "--patch-dimensions", "2", "--quiet"),
        *("--array-band", f"evi={tmp_path}/in/{element}", "--tensor-depths", "evi=2"),
    )
    assert_refused(outcome, {2, 10}, *words)
    assert contents(tmp_path) == before


def test_scenes_that_do_not_overlap_are_told(tmp_path: Path) -> None:
    from rasterio.transform import Affine

    here = write_raster(tmp_path / "here.tif", np.ones((2, 2), "uint8"))
    there = write_raster(
        tmp_path / "there.tif", np.ones((2, 2), "uint8"), transform=Affine(10, 0, 700000, 0, -10, 1000000)
    )
    outcome = run(
        *("export", here, "--output", tmp_path / "set", "--patch-dimensions", "2", "--quiet"),
        *("--array-band", f"evi={here}:1,{there}:1", "--tensor-depths", "evi=2"),
    )
    assert_refused(outcome, 10, "there.tif")
    assert not list(tmp_path.glob("set*"))


def test_the_files_are_read_only_and_told_in_the_manifest_by_name(tmp_path: Path) -> None:
    import json

    paths = stack(tmp_path / "in", 3)
    before = contents(tmp_path)
    geotfr.export_image(
        paths[0],
        tmp_path / "set",
        patch_dimensions=2,
        array_bands=[f"evi={tmp_path}/in/stack_*.tif:2"],
        tensor_depths="evi=3",
    )
    assert {key: value for key, value in contents(tmp_path).items() if key in before} == before
    text = (tmp_path / "set-manifest.json").read_text()
    assert str(tmp_path) not in text
    assert {source["name"] for source in json.loads(text)["sources"]} == {path.name for path in paths}

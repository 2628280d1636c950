"""Sets as they lie in folders: which shards a mixer goes with, and which list wins."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracle.rasters import NORTH_UP, ROTATED, numbered, read_raster, write_raster
from oracle.run import assert_refused, run
from oracle.sets import write_set
from rasterio.transform import Affine

import geotfr

if TYPE_CHECKING:
    from pathlib import Path


def write_named(folder: Path, name: str, picture: np.ndarray, *, shards: int = 1) -> None:
    """A set whose files begin with ``name``."""
    folder.mkdir(exist_ok=True)
    mixer, paths = write_set(folder, picture, patch=(2, 2), shards=shards)
    mixer.rename(folder / f"{name}-mixer.json")
    for number, path in enumerate(paths):
        path.rename(folder / f"{name}-{number}.tfrecord")


def test_each_set_becomes_a_raster_of_its_name(tmp_path: Path) -> None:
    pictures = {name: place + numbered(1, 4, 6) for place, name in enumerate(("scene-1", "scene-10", "a", "scene-1-b"))}
    for name, picture in pictures.items():
        write_named(tmp_path / "in", name, picture, shards=3)
    below = 100 + numbered(1, 2, 2)
    write_set_in = tmp_path / "in" / "below"
    write_named(write_set_in, "x", below)
    outcome = run("ingest-predictions", tmp_path / "in", "--each", "--output", tmp_path / "out", "--json")
    assert outcome.code == 0, outcome.told
    assert len(json.loads(outcome.stdout)["rasters"]) == 5
    for name, picture in {**pictures, "below": below}.items():
        np.testing.assert_array_equal(read_raster(tmp_path / "out" / f"{name}.tif")[0], picture)


def test_each_checks_all_outputs_before_it_writes_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_named(tmp_path / "in", name, numbered(1, 2, 2))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "b.tif").write_text("mine")
    outcome = run("ingest-predictions", tmp_path / "in", "--each", "--output", tmp_path / "out")
    assert_refused(outcome, 14, "b.tif", "--overwrite")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["b.tif"]


@pytest.mark.parametrize(("extra", "words"), [("c-0.tfrecord", "no mixer"), ("a-x-0.tfrecord", "2 sets")])
def test_a_shard_that_goes_with_no_mixer_is_asked_about(extra: str, words: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_named(tmp_path / "in", name, numbered(1, 2, 2))
    (tmp_path / "in" / extra).write_bytes((tmp_path / "in" / "a-0.tfrecord").read_bytes())
    outcome = run("ingest-predictions", tmp_path / "in", "--each", "--output", tmp_path / "out")
    assert_refused(outcome, 2, words)
    assert not (tmp_path / "out").exists()


def test_the_manifests_list_wins_over_what_an_older_export_left(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 6, 6))
    (tmp_path / "set").mkdir()
    geotfr.export_image(source, f"{tmp_path}/set/", patch_dimensions=2, max_file_size=100, compressed=False)
    shards = sorted((tmp_path / "set").glob("*.tfrecord"))
    (tmp_path / "set" / "00099.tfrecord").write_bytes(shards[0].read_bytes())
    geotfr.ingest_predictions(tmp_path / "set", (), tmp_path / "o.tif")
    np.testing.assert_array_equal(read_raster(tmp_path / "o.tif")[0], numbered(1, 6, 6))
    shards[-1].unlink()
    with pytest.raises(geotfr.MissingInputError, match=shards[-1].name):
        geotfr.ingest_predictions(tmp_path / "set", (), tmp_path / "o.tif", overwrite=True)


def test_predictions_beside_the_exported_shards_are_asked_about(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 6, 6))
    (tmp_path / "set").mkdir()
    geotfr.export_image(source, tmp_path / "set" / "scene", patch_dimensions=2)
    (tmp_path / "set" / "pred.tfrecord.gz").write_bytes((tmp_path / "set" / "scene.tfrecord.gz").read_bytes())
    outcome = run("ingest-predictions", tmp_path / "set", "--output", tmp_path / "o.tif")
    assert_refused(outcome, 2, "2 sets", "pred", "scene")


@pytest.mark.parametrize("transform", [NORTH_UP, ROTATED], ids=["north-up", "rotated"])
def test_patches_of_another_tool_are_laid_on_a_rasters_grid(transform: object, tmp_path: Path) -> None:
    picture = numbered(1, 5, 7)
    write_raster(tmp_path / "scene.tif", picture, transform=transform)  # type: ignore[arg-type]
    (tmp_path / "in").mkdir()
    mixer, shards = write_set(tmp_path / "in", -picture[:, :4, :6], patch=(3, 2), shards=2)
    mixer.unlink()
    outcome = run(
        *("ingest-predictions", *shards[::-1], "--grid", tmp_path / "scene.tif", "--patch-dimensions", "3,2"),
        *("--output", tmp_path / "o.tif"),
    )
    assert outcome.code == 0, outcome.told
    pixels, profile, _ = read_raster(tmp_path / "o.tif")
    np.testing.assert_array_equal(pixels, -picture[:, :4, :6])
    assert profile["transform"] == transform
    geotfr.ingest_predictions(
        None, tmp_path / "in", tmp_path / "p.tif", grid=tmp_path / "scene.tif", patch_dimensions=(3, 2)
    )
    np.testing.assert_array_equal(read_raster(tmp_path / "p.tif")[0], pixels)


@pytest.mark.parametrize(
    ("patch", "code", "words"), [(None, 2, "--patch-dimensions"), ("9", 2, "larger"), ("2", 12, "6 values")]
)
def test_a_grid_without_or_with_other_patches_is_refused(
    patch: str | None, code: int, words: str, tmp_path: Path
) -> None:
    write_raster(tmp_path / "scene.tif", numbered(1, 4, 6))
    (tmp_path / "in").mkdir()
    _, shards = write_set(tmp_path / "in", numbered(1, 4, 6), patch=(3, 2))
    more = () if patch is None else ("--patch-dimensions", patch)
    outcome = run(
        *("ingest-predictions", *shards, "--grid", tmp_path / "scene.tif", "--output", tmp_path / "o.tif", *more)
    )
    assert_refused(outcome, code, words)


def write_tile(folder: Path, picture: np.ndarray, row: int, col: int, *, transform: object = NORTH_UP) -> None:
    """A set of 4 x 6 pixels of ``picture``, whose corner lies at (row, col)."""
    folder.mkdir(parents=True)
    moved = transform @ Affine.translation(col, row)  # type: ignore[operator]
    write_set(folder, picture[:, row : row + 4, col : col + 6], patch=(2, 2), place=(moved, "EPSG:32618"))


@pytest.mark.parametrize("transform", [NORTH_UP, ROTATED], ids=["north-up", "rotated"])
@pytest.mark.parametrize("form", ["gtiff", "cog"])
def test_neighbours_become_one_raster(form: str, transform: object, tmp_path: Path) -> None:
    picture = numbered(1, 8, 12)
    for name, row, col in (("a", 4, 6), ("b", 0, 0), ("c", 4, 0)):
        write_tile(tmp_path / "in" / name, picture, row, col, transform=transform)
    outcome = run(
        *("ingest-predictions", tmp_path / "in", "--mosaic", "--output", tmp_path / "o.tif", "--nodata", "-1"),
        *("--format", form, "--statistics"),
    )
    assert outcome.code == 0, outcome.told
    wanted = picture.copy()
    wanted[:, :4, 6:] = -1
    pixels, profile, _ = read_raster(tmp_path / "o.tif")
    np.testing.assert_array_equal(pixels, wanted)
    np.testing.assert_allclose(profile["transform"][:6], transform[:6], atol=1e-6)  # type: ignore[index]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "o.tif"]


@pytest.mark.parametrize(("row", "col", "words"), [(2, 0, "overlap"), (4, 0.5, "another grid")])
def test_sets_that_are_no_neighbours_are_refused(row: int, col: float, words: str, tmp_path: Path) -> None:
    write_tile(tmp_path / "in" / "a", numbered(1, 8, 12), 0, 0)
    (tmp_path / "in" / "b").mkdir()
    moved = NORTH_UP @ Affine.translation(col, row)
    write_set(tmp_path / "in" / "b", numbered(1, 4, 6), patch=(2, 2), place=(moved, "EPSG:32618"))
    outcome = run("ingest-predictions", tmp_path / "in", "--mosaic", "--output", tmp_path / "o.tif")
    assert_refused(outcome, 2, words, "b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


def test_neighbours_of_another_type_are_refused(tmp_path: Path) -> None:
    write_tile(tmp_path / "in" / "a", numbered(1, 8, 12), 0, 0)
    write_tile(tmp_path / "in" / "b", numbered(1, 8, 12, "int64"), 4, 0)
    outcome = run("ingest-predictions", tmp_path / "in", "--mosaic", "--output", tmp_path / "o.tif")
    assert_refused(outcome, 2, "dtype", "--dtype")


@pytest.mark.parametrize("transform", [NORTH_UP, ROTATED], ids=["north-up", "rotated"])
def test_partial_patches_of_another_tool_are_cut_to_the_raster(transform: object, tmp_path: Path) -> None:
    picture = numbered(1, 10, 11)
    write_raster(tmp_path / "scene.tif", picture, transform=transform)  # type: ignore[arg-type]
    padded = np.pad(picture, ((0, 0), (0, 2), (0, 1)))
    (tmp_path / "in").mkdir()
    _, shards = write_set(tmp_path / "in", padded, patch=(4, 4), shards=2)
    call = ("ingest-predictions", *shards, "--grid", tmp_path / "scene.tif", "--patch-dimensions", "4")
    call = (*call, "--output", tmp_path / "o.tif", "--quiet")
    assert_refused(run(*call), 12, "9 records", "expects 4", "--edge drop")
    outcome = run(*call, "--edge", "pad")
    assert outcome.code == 0, outcome.told
    pixels, profile, _ = read_raster(tmp_path / "o.tif")
    np.testing.assert_array_equal(pixels, picture)
    assert profile["transform"] == transform


def test_the_edge_is_told_by_the_mixer_or_the_manifest(tmp_path: Path) -> None:
    mixer, shards = write_set(tmp_path, numbered(1, 4, 4), patch=(2, 2))
    outcome = run("ingest-predictions", mixer, *shards, "--output", tmp_path / "o.tif", "--edge", "pad")
    assert_refused(outcome, 2, "edge", "--grid")


def test_a_mosaic_refuses_gaps_that_only_a_mask_could_tell(tmp_path: Path) -> None:
    picture = np.arange(256, dtype="uint8").reshape(1, 16, 16)
    (tmp_path / "in" / "a").mkdir(parents=True)
    write_set(tmp_path / "in" / "a", picture, patch=(4, 4))
    write_raster(tmp_path / "mask.tif", (picture != 99).astype("uint8"), nodata=0)
    call = ("ingest-predictions", tmp_path / "in", "--mosaic", "--output", tmp_path / "o.tif")
    assert_refused(run(*call, "--mask-from", tmp_path / "mask.tif"), 2, "only a mask", "--nodata")
    outcome = run(*call, "--mask-from", tmp_path / "mask.tif", "--dtype", "int16", "--nodata", "-1", "--quiet")
    assert outcome.code == 0, outcome.told
    assert read_raster(tmp_path / "o.tif")[0][picture == 99].tolist() == [-1]

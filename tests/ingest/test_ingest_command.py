"""The command line of the ingest, and the folder that holds a whole set."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracle.rasters import numbered, read_raster, write_raster
from oracle.run import contents, run, run_apart
from oracle.sets import write_set

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

PICTURE = numbered(2, 6, 8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A mixer and three shards of twelve patches of 2 x 2, two bands."""
    path = tmp_path / "set"
    path.mkdir()
    write_set(path, PICTURE, patch=(2, 2), names=("a", "b"), shards=3, compression="GZIP")
    return path


def test_a_folder_is_enough_and_its_files_are_not_touched(folder: Path, tmp_path: Path) -> None:
    before = contents(folder)
    outcome = run("ingest-predictions", folder, "--output", tmp_path / "out.tif", "--quiet")
    assert (outcome.code, outcome.stderr) == (0, ""), outcome.told
    assert contents(folder) == before
    assert np.array_equal(read_raster(tmp_path / "out.tif")[0], PICTURE)


def test_json_on_stdout_is_one_document_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    outcome = run("ingest-predictions", folder, "--output", tmp_path / "out.tif", "--json")
    assert outcome.code == 0, outcome.told
    assert isinstance(json.loads(outcome.stdout), dict)


def test_the_options_reach_the_raster(folder: Path, tmp_path: Path) -> None:
    outcome = run(
        *("ingest-predictions", folder, "--output", tmp_path / "out.tif", "--quiet", "--bands", "b,a"),
        *("--dtype", "int32", "--nodata", "-5", "--creation-option", "COMPRESS=ZSTD"),
    )
    assert outcome.code == 0, outcome.told
    pixels, profile, names = read_raster(tmp_path / "out.tif")
    assert (names, pixels.dtype, profile["nodata"]) == (("b", "a"), np.int32, -5)
    assert profile["compress"].lower() == "zstd"
    assert np.array_equal(pixels, PICTURE[::-1])


@pytest.mark.parametrize("kernel", [None, "5"])
def test_the_kernel_comes_from_the_flag_or_the_manifest(kernel: str | None, tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 9, 12))
    geotfr.export_image(source, tmp_path / "set", patch_dimensions=3, kernel_size=5)
    if kernel:
        (tmp_path / "set-manifest.json").unlink()
    outcome = run(
        *("ingest-predictions", tmp_path / "set.json", tmp_path / "set.tfrecord.gz", "--quiet"),
        *("--output", tmp_path / "out.tif", *(["--kernel-size", kernel] if kernel else [])),
    )
    assert outcome.code == 0, outcome.told
    assert np.array_equal(read_raster(tmp_path / "out.tif")[0], numbered(1, 9, 12))


def test_predictions_trimmed_by_the_user_are_read_as_trimmed_though_the_manifest_has_a_kernel(
    tmp_path: Path,
) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 9, 12))
    geotfr.export_image(source, tmp_path / "set", patch_dimensions=3, kernel_size=4)
    (tmp_path / "elsewhere").mkdir()
    _, shards = write_set(tmp_path / "elsewhere", -numbered(1, 9, 12), patch=(3, 3))
    geotfr.ingest_predictions(tmp_path / "set.json", shards, tmp_path / "out.tif")
    assert np.array_equal(read_raster(tmp_path / "out.tif")[0], -numbered(1, 9, 12))


def test_a_renamed_mixer_and_manifest_work(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 9, 12))
    geotfr.export_image(source, tmp_path / "set", patch_dimensions=3, kernel_size=4)
    (tmp_path / "set.json").rename(tmp_path / "the grid.json")
    geotfr.ingest_predictions(
        tmp_path / "the grid.json", tmp_path / "set.tfrecord.gz", tmp_path / "out.tif", kernel_size=4
    )
    assert np.array_equal(read_raster(tmp_path / "out.tif")[0], numbered(1, 9, 12))


def test_an_exported_folder_comes_back_as_it_went(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(2, 9, 12))
    geotfr.export_image(source, f"{tmp_path}/set/", patch_dimensions=3, kernel_size=2, max_file_size=600)
    outcome = run("ingest-predictions", tmp_path / "set", "--output", tmp_path / "out.tif", "--quiet")
    assert outcome.code == 0, outcome.told
    assert np.array_equal(read_raster(tmp_path / "out.tif")[0], numbered(2, 9, 12))


def test_a_process_of_its_own_in_another_folder_does_the_same(folder: Path, tmp_path: Path) -> None:
    outcome = run_apart("ingest-predictions", "set", "--output", "out.tif", "--quiet", cwd=tmp_path)
    assert (outcome.code, outcome.stderr) == (0, ""), outcome.told
    assert np.array_equal(read_raster(tmp_path / "out.tif")[0], PICTURE)


@pytest.mark.parametrize("name", ["with space.tif", "[b].tif", "ünïcode.tif", "-dash.tif", "new\nline.tif"])
def test_odd_names_work(name: str, folder: Path, tmp_path: Path) -> None:
    outcome = run("ingest-predictions", folder, "--output", f"{tmp_path}/{name}", "--quiet")
    assert outcome.code == 0, outcome.told
    assert (tmp_path / name).exists()
    assert {path.name for path in tmp_path.iterdir()} == {"set", name}


def test_a_band_of_a_file_is_a_source(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(3, 4, 4), descriptions=("x", "y", "z"))
    outcome = run(
        *("export", f"{source}:3", f"{source}:1", "--output", tmp_path / "set", "--quiet"),
        *("--patch-dimensions", "2"),
    )
    assert outcome.code == 0, outcome.told
    geotfr.ingest_predictions(tmp_path / "set.json", tmp_path / "set.tfrecord.gz", tmp_path / "out.tif")
    pixels, _, names = read_raster(tmp_path / "out.tif")
    assert names == ("z", "x")
    assert np.array_equal(pixels, numbered(3, 4, 4)[[2, 0]])


def test_a_small_raster_is_a_classic_tiff_and_bigtiff_is_honoured(tmp_path: Path) -> None:
    mixer, shards = write_set(tmp_path, PICTURE, patch=(2, 2), names=("a", "b"))
    geotfr.ingest_predictions(mixer, shards, tmp_path / "big.tif", creation_options={"BIGTIFF": "YES"})
    geotfr.ingest_predictions(mixer, shards, tmp_path / "small.tif")
    assert (tmp_path / "big.tif").read_bytes()[2] == 43
    assert (tmp_path / "small.tif").read_bytes()[2] == 42

"""The manifest for Earth Engine's upload, and the checks before it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracle.rasters import numbered, write_raster
from oracle.run import Outcome, assert_refused, run
from oracle.sets import write_blocks, write_set

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

PLACE = ("--name", "projects/p/assets/maps/a-1", "--uri-prefix", "gs://bucket/map/")


@pytest.fixture
def prediction_set(tmp_path: Path) -> tuple[Path, list[Path]]:
    """Mixer and 12 shards of two bands."""
    mixer, shards = write_set(tmp_path, numbered(2, 6, 8), patch=(2, 2), names=("wood", "town"), shards=12)
    renamed = [shard.rename(tmp_path / f"p-{place}.tfrecord") for place, shard in enumerate(shards)]
    return mixer, renamed


def make(prediction_set: tuple[Path, list[Path]], *more: str | Path) -> Outcome:
    mixer, shards = prediction_set
    return run("upload-manifest", mixer, *shards[::-1], *PLACE, *more)


def test_all_uris_are_one_source_predictions_first_and_the_mixer_last(
    prediction_set: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    outcome = make(
        prediction_set,
        *("--pyramiding-policy", "mode", "--missing-data", "-1", "--start-time", "2024-06-01"),
        *("--end-time", "2024-06-01T12:00:00+02:00", "--property", "run=7", "--property", "model=unet"),
    )
    assert outcome.code == 0, outcome.told
    assert json.loads(outcome.stdout) == {
        "name": "projects/p/assets/maps/a-1",
        "tilesets": [
            {
                "sources": [
                    {
                        "uris": [f"gs://bucket/map/p-{n}.tfrecord" for n in range(12)]
                        + ["gs://bucket/map/scene-mixer.json"]
                    }
                ]
            }
        ],
        "bands": [{"id": "wood", "tilesetBandIndex": 0}, {"id": "town", "tilesetBandIndex": 1}],
        "pyramidingPolicy": "MODE",
        "missingData": {"values": [-1.0]},
        "startTime": "2024-06-01T00:00:00Z",
        "endTime": "2024-06-01T10:00:00Z",
        "properties": {"run": 7, "model": "unet"},
    }


def test_a_file_is_written_whole_and_never_over_another(
    prediction_set: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    out = tmp_path / "upload.json"
    assert make(prediction_set, "--output", out).code == 0
    assert json.loads(out.read_text())["pyramidingPolicy"] == "MEAN"
    assert_refused(make(prediction_set, "--output", out), 14, "--overwrite")


def test_each_band_has_its_own_policy(prediction_set: tuple[Path, list[Path]]) -> None:
    found = json.loads(make(prediction_set, "--pyramiding-policy", "wood=mode,town=mean").stdout)
    assert [band["pyramidingPolicy"] for band in found["bands"]] == ["MODE", "MEAN"]
    assert "pyramidingPolicy" not in found
    assert_refused(make(prediction_set, "--pyramiding-policy", "wood=mode"), 2, "town")
    assert_refused(make(prediction_set, "--pyramiding-policy", "*=mode,x=min"), 2, "'x'")


@pytest.mark.parametrize(
    "more",
    [
        ("--name", "my map"),
        ("--name", "projects/p/assets/a b"),
        ("--name", "projects/p/assets"),
        ("--uri-prefix", "/bucket/x"),
        ("--uri-prefix", "gs://bucket"),
        ("--start-time", "yesterday"),
        ("--start-time", "2024-02-01", "--end-time", "2024-01-01"),
        ("--property", "x"),
    ],
    ids=" ".join,
)
def test_what_earth_engine_would_refuse_is_exit_2(
    more: tuple[str, ...], prediction_set: tuple[Path, list[Path]]
) -> None:
    assert_refused(make(prediction_set, *more), 2)


def test_a_set_that_is_not_whole_is_refused(prediction_set: tuple[Path, list[Path]]) -> None:
    mixer, shards = prediction_set
    assert_refused(run("upload-manifest", mixer, *shards[:-1], *PLACE), 12, "11 records", "12")


@pytest.mark.parametrize(("name", "words"), [("a.tf", ".tfrecord"), ("a.gz", ".tfrecord")])
def test_a_name_that_earth_engine_does_not_know_is_refused(name: str, words: str, tmp_path: Path) -> None:
    mixer, (shard,) = write_set(tmp_path, numbered(1, 2, 2), patch=(2, 2))
    shard = shard.rename(tmp_path / name)
    assert_refused(run("upload-manifest", mixer, shard, *PLACE), 10, words)


@pytest.mark.parametrize("band", ["a band", "é", "a/b", "a.b"])
def test_a_band_that_is_no_asset_band_is_refused(band: str, tmp_path: Path) -> None:
    mixer, (shard,) = write_set(tmp_path, numbered(1, 2, 2), patch=(2, 2), names=(band,))
    assert_refused(run("upload-manifest", mixer, shard, *PLACE), 10, "letters, digits")


def test_lengths_that_fit_no_patch_are_refused(tmp_path: Path) -> None:
    mixer, (shard,) = write_blocks(tmp_path, {"a": np.zeros((4, 7), "float32")}, patch=(2, 2), per_row=2)
    assert_refused(run("upload-manifest", mixer, shard, *PLACE), 12, "7 values")


def test_records_of_pixels_are_refused(tmp_path: Path) -> None:
    mixer, (shard,) = write_blocks(tmp_path, {"a": np.zeros((16, 1), "float32")}, patch=(2, 2), per_row=2)
    mixer.write_text(mixer.read_text().replace('"totalPatches": 16', '"totalPatches": 4'))
    assert_refused(run("upload-manifest", mixer, shard, *PLACE), 10, "each pixel")


def test_a_set_without_mixer_is_refused(tmp_path: Path) -> None:
    scene = numbered(1, 4, 4)[0]
    scene[:2, :2] = np.nan
    source = write_raster(tmp_path / "scene.tif", scene)
    geotfr.export_image(source, tmp_path / "set", patch_dimensions=2, masked_threshold=0)
    manifest, shard = tmp_path / "set-manifest.json", tmp_path / "set.tfrecord.gz"
    assert_refused(run("upload-manifest", manifest, shard, *PLACE), 10, "no mixer")


@pytest.mark.parametrize("prefix", ["gs://bucket/map", "gs://bucket/map/"])
def test_files_are_named_where_the_copy_puts_them(
    prefix: str, prediction_set: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    mixer, shards = prediction_set
    out = tmp_path / "upload.json"
    told = run("upload-manifest", mixer, *shards, *PLACE[:2], "--uri-prefix", prefix, "--output", out).stdout
    uris = json.loads(out.read_text())["tilesets"][0]["sources"][0]["uris"]
    assert uris == [f"gs://bucket/map/{path.name}" for path in (*shards, mixer)]
    assert f"{mixer} gs://bucket/map/\n" in told


@pytest.mark.parametrize(("number", "expected"), [("nan", "NaN"), ("-inf", "-Infinity"), ("-9999", -9999)])
def test_the_manifest_is_json_whatever_the_numbers(
    number: str, expected: object, prediction_set: tuple[Path, list[Path]]
) -> None:
    def refused(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    text = make(prediction_set, "--missing-data", number, "--property", f"x={number}").stdout
    found = json.loads(text, parse_constant=refused)
    assert found["missingData"] == {"values": [expected]}
    assert found["properties"] == {"x": -9999 if number == "-9999" else number}


@pytest.mark.parametrize("older", ["users/me/a", "projects/p/a"])
def test_ids_of_older_assets_get_the_names_that_manifests_want(
    older: str, prediction_set: tuple[Path, list[Path]]
) -> None:
    assert (
        json.loads(make(prediction_set, "--name", older).stdout)["name"]
        == f"projects/earthengine-legacy/assets/{older}"
    )

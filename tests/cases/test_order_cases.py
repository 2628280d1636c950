"""Cases 12 to 14: the order and the count of shards."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracle import wire
from oracle.rasters import numbered, read_raster
from oracle.run import assert_refused, run
from oracle.sets import write_set

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

PICTURE = numbered(1, 12, 12)
"""Twelve shards of three patches, each of 2 x 2, or twelve patches of one shard each."""


def twelve(folder: Path, name: str) -> tuple[Path, list[Path]]:
    """36 patches in 12 shards named by ``name``."""
    mixer, shards = write_set(folder, PICTURE, patch=(2, 2), shards=12)
    return mixer, [path.rename(folder / (name % index + ".tfrecord")) for index, path in enumerate(shards)]


@pytest.mark.parametrize("name", ["p-%d", "p-%05d", "p%d", "p_%d-of-12"])
def test_case_12_shards_are_read_by_their_number_whatever_the_order_given(name: str, tmp_path: Path) -> None:
    mixer, shards = twelve(tmp_path, name)
    random.Random(12).shuffle(shards)
    outcome = run("ingest-predictions", mixer, *shards, "--output", tmp_path / "out.tif", "--quiet")
    assert outcome.code == 0, outcome.told
    assert np.array_equal(read_raster(tmp_path / "out.tif")[0], PICTURE)


def test_case_12_the_order_given_is_kept_when_asked_for(tmp_path: Path) -> None:
    mixer, shards = twelve(tmp_path, "p-%d")
    named = dict(enumerate(shards))
    # The names tell another order than the records.
    swapped = [tmp_path / f"q-{11 - index}.tfrecord" for index in range(12)]
    shards = [path.rename(swapped[index]) for index, path in named.items()]
    outcome = run(
        *("ingest-predictions", mixer, *shards, "--output", tmp_path / "out.tif", "--quiet"),
        *("--shard-order", "given"),
    )
    assert outcome.code == 0, outcome.told
    assert np.array_equal(read_raster(tmp_path / "out.tif")[0], PICTURE)


@pytest.mark.parametrize(
    "name", ["p-%d.tfrecord", "p-%05d-of-00012.tfrecord", "p_%d_of_12.tfrec", "p.tfrecord-%05d-of-00012"]
)
def test_a_folder_finds_the_mixer_and_the_shards_in_natural_order(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    for index, path in enumerate(twelve(folder, "x-%d")[1]):
        path.rename(folder / (name % index))
    outcome = run("ingest-predictions", folder, "--output", tmp_path / "out.tif", "--quiet")
    assert outcome.code == 0, outcome.told
    assert np.array_equal(read_raster(tmp_path / "out.tif")[0], PICTURE)


def test_case_13_too_few_too_many_and_empty_are_told_before_any_output(tmp_path: Path) -> None:
    mixer, shards = twelve(tmp_path, "p-%d")
    payloads = [wire.unframe(path.read_bytes()) for path in shards]

    def refused(paths: list[Path], *words: str) -> None:
        before = {path.name for path in tmp_path.iterdir()}
        outcome = run("ingest-predictions", mixer, *paths, "--output", tmp_path / "out.tif", "--quiet")
        assert_refused(outcome, 12, *words)
        assert {path.name for path in tmp_path.iterdir()} == before

    wire.write_shard(shards[11], payloads[11][:1])
    refused(shards, "34", "36")
    wire.write_shard(shards[11], [*payloads[11], payloads[0][0]])
    refused(shards, "37", "36")
    shards[11].write_bytes(b"")
    refused(shards, "p-11.tfrecord")
    wire.write_shard(shards[11], payloads[11])
    shards[5].write_bytes(b"")
    refused(shards, "p-5.tfrecord")


@pytest.mark.parametrize("more", [(), ("--executor", "serial")])
def test_case_45_records_behind_a_damaged_length_are_missed_by_name(more: tuple[str, ...], tmp_path: Path) -> None:
    mixer, (shard,) = write_set(tmp_path, PICTURE, patch=(2, 2))
    whole = bytearray(shard.read_bytes())
    size = len(whole) // 36
    whole[5 * size + 3] ^= 4
    shard.write_bytes(whole)
    call = ("ingest-predictions", mixer, shard, "--output", tmp_path / "out.tif", "--quiet", "--nodata=-1", *more)
    skipped = run(*call, "--on-bad-record", "skip")
    assert_refused(skipped, 12, "36", f"record 5 at byte {5 * size}", "--on-bad-record repair")
    assert not (tmp_path / "out.tif").exists()
    assert run(*call, "--on-bad-record", "repair").code == 3
    want = PICTURE.copy()
    want[:, 0:2, 10:12] = -1
    assert np.array_equal(read_raster(tmp_path / "out.tif")[0], want)


def test_case_13_a_shard_given_twice_is_an_error_that_names_it(tmp_path: Path) -> None:
    mixer, shards = twelve(tmp_path, "p-%d")
    outcome = run("ingest-predictions", mixer, *shards, shards[3], "--output", tmp_path / "out.tif", "--quiet")
    assert_refused(outcome, {2, 12}, "p-3.tfrecord")
    assert not (tmp_path / "out.tif").exists()


def test_a_gap_in_the_shard_numbers_is_an_error_that_names_the_missing_one(tmp_path: Path) -> None:
    mixer, shards = twelve(tmp_path, "p-%05d")
    outcome = run("ingest-predictions", mixer, *shards[:4], *shards[5:], "--output", tmp_path / "out.tif", "--quiet")
    assert_refused(outcome, {2, 12}, "4")
    assert not (tmp_path / "out.tif").exists()


def test_a_gap_is_found_where_names_tell_the_number_of_all_shards(tmp_path: Path) -> None:
    mixer, shards = twelve(tmp_path, "p-%05d-of-00012")
    outcome = run("ingest-predictions", mixer, *shards[:4], *shards[5:], "--output", tmp_path / "out.tif", "--quiet")
    assert_refused(outcome, 12, "p-00005-of-00012.tfrecord", "shard 4 is missing")
    shards[4].unlink()
    told = run("verify", tmp_path)
    assert told.code == 12
    assert "shard 4 is missing" in told.told


def test_shards_of_another_number_of_all_are_another_set(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    _, shards = twelve(folder, "p-%05d-of-00012")
    (folder / "p-00000-of-00002.tfrecord").write_bytes(shards[0].read_bytes())
    outcome = run("ingest-predictions", folder, "--output", tmp_path / "out.tif", "--quiet")
    assert_refused(outcome, 2, "p-*-of-00002", "p-*-of-00012")


def test_case_14_a_mixer_is_found_by_its_content(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    mixer, (shard,) = write_set(folder, PICTURE, patch=(2, 2), compression="GZIP")
    mixer.rename(folder / "a.json")
    shard.rename(folder / "a.tfrecord.gz")
    (folder / "other.json").write_text('{"some": "other file"}')
    outcome = run("ingest-predictions", folder, "--output", tmp_path / "out.tif", "--quiet")
    assert outcome.code == 0, outcome.told
    assert np.array_equal(read_raster(tmp_path / "out.tif")[0], PICTURE)


def test_case_14_two_mixers_are_an_error_that_asks_which(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    mixer, (shard,) = write_set(folder, PICTURE, patch=(2, 2))
    shard.rename(folder / "a.tfrecord")
    (folder / "a.json").write_bytes(mixer.read_bytes())
    mixer.rename(folder / "a-mixer.json")
    outcome = run("ingest-predictions", folder, "--output", tmp_path / "out.tif", "--quiet")
    assert_refused(outcome, 2, "a.json", "a-mixer.json")
    assert not (tmp_path / "out.tif").exists()


def test_inputs_beside_predictions_in_a_folder_are_asked_about(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    _, (shard,) = write_set(folder, PICTURE, patch=(2, 2))
    (folder / "other-00000.tfrecord").write_bytes(shard.read_bytes())
    outcome = run("ingest-predictions", folder, "--output", tmp_path / "out.tif", "--quiet")
    assert_refused(outcome, 2, "pred", "other")
    assert not (tmp_path / "out.tif").exists()


def test_a_mixer_alone_is_a_usage_error(tmp_path: Path) -> None:
    mixer, _ = write_set(tmp_path, PICTURE, patch=(2, 2))
    outcome = run("ingest-predictions", mixer, "--output", tmp_path / "out.tif", "--quiet")
    assert_refused(outcome, 2)
    assert not (tmp_path / "out.tif").exists()


@pytest.mark.parametrize("order", ["natural", "given"])
def test_the_python_interface_takes_the_order_too(order: str, tmp_path: Path) -> None:
    mixer, shards = twelve(tmp_path, "p-%d")
    geotfr.ingest_predictions(mixer, shards, tmp_path / "out.tif", shard_order=order)
    assert np.array_equal(read_raster(tmp_path / "out.tif")[0], PICTURE)

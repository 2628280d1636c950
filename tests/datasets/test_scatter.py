"""Records that are read straight into arrays are the ones that are read by way of a buffer, or the same errors."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
from datasets.scenes import COUNT, write_scene
from oracle import wire

import geotfr
from geotfr.errors import RecordError
from geotfr.records import scatter
from geotfr.records.gather import IndexedFeatures
from geotfr.records.index import IndexedRecords, hop_index

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let small records go this way too; how many did."""
    done: list[int] = []
    read = scatter.ScatterLayout.read

    def counting(self: scatter.ScatterLayout, *arguments: object) -> np.ndarray:
        good = read(self, *arguments)
        done.append(int(good.sum()))
        return good

    monkeypatch.setattr(scatter, "LEAST_BYTES", 1)
    monkeypatch.setattr("geotfr.datasets.streams.files.LARGE_RECORD_BYTES", 1)
    monkeypatch.setattr(scatter.ScatterLayout, "read", counting)
    return done


@pytest.mark.parametrize("stack", [False, True], ids=["apart", "stacked"])
@pytest.mark.parametrize("features", [["red", "class"], ["red"], ["class"]], ids=",".join)
def test_arrays_are_those_of_the_records(tmp_path: Path, counted: list[int], features: list[str], stack: bool) -> None:
    scene = write_scene(tmp_path)
    dataset = geotfr.PatchDataset(scene.mixer, kernel_size=1, features=features, stack=stack)
    numbers = [7, 0, 19, 7, 12, -1]
    got = dataset[numbers]
    for place, name in enumerate(features):
        values = got["image"][:, place] if stack else got[name]
        np.testing.assert_array_equal(values, scene.blocks(name, [number % COUNT for number in numbers]))
    # Records have several sizes, for their varints; and a class isn't cast on its way into a float image.
    is_cast = stack and len(features) == 2
    assert (sum(counted) > 0) is not is_cast


def test_features_that_are_varints_take_the_other_way(tmp_path: Path, counted: list[int]) -> None:
    scene = write_scene(tmp_path)
    dataset = geotfr.PatchDataset(scene.mixer, kernel_size=1)
    np.testing.assert_array_equal(dataset[:]["code"], scene.blocks("code", range(COUNT)))
    assert sum(counted) == 0


def records(folder: Path, count: int) -> tuple[Path, np.ndarray, list[bytes]]:
    values = np.random.default_rng(5).normal(size=(count, 6)).astype(np.float32)
    payloads = [
        wire.example([("b", wire.float_feature(row)), ("raw", wire.bytes_feature([bytes([n] * 5)]))])
        for n, row in enumerate(values)
    ]
    return wire.write_shard(folder / "a.tfrecord", payloads), values, payloads


def test_streams_batch_the_same_way(tmp_path: Path, counted: list[int]) -> None:
    path, values, _ = records(tmp_path, 30)
    batches = list(geotfr.stream(path).shuffle(9, seed=1).batch(8))
    order = [int(number) for batch in batches for number in batch["raw"][:, 0]]
    assert sorted(order) == list(range(30))
    np.testing.assert_array_equal(np.concatenate([batch["b"] for batch in batches]), values[order])
    # The first record of a batch makes the arrays.
    assert sum(counted) == 30 - len(batches)


def test_no_flipped_bit_passes(tmp_path: Path) -> None:
    path, values, payloads = records(tmp_path, 4)
    dataset = geotfr.PatchDataset(path)
    content, state = path.read_bytes(), path.stat()
    size = len(payloads[0]) + 16
    for place in range(size, 2 * size):
        data = bytearray(content)
        data[place] ^= 1 << place % 8
        path.write_bytes(data)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        with pytest.raises(RecordError, match=f"record 1 at byte {size}: not the {size} bytes"):
            dataset[[0, 1, 2]]
        np.testing.assert_array_equal(dataset[[3, 0]]["b"], values[[3, 0]])


def test_records_of_another_make_between_others_are_read_too(tmp_path: Path) -> None:
    # The same sizes in another order of keys, and a key twice: legal, and nothing that a template takes.
    first = wire.example([("b", wire.float_feature([1, 2])), ("c", wire.float_feature([3, 4]))])
    turned = wire.example([("c", wire.float_feature([7, 8])), ("b", wire.float_feature([5, 6]))])
    twice = wire.example(
        [("b", wire.float_feature([0, 0])), ("b", wire.float_feature([9, 9])), ("c", wire.float_feature([1, 1]))]
    )
    path = wire.write_shard(tmp_path / "a.tfrecord", [first, turned, first, twice])
    got = geotfr.PatchDataset(path)[[3, 1, 0, 2]]
    assert got["b"].tolist() == [[9, 9], [5, 6], [1, 2], [1, 2]]
    assert got["c"].tolist() == [[1, 1], [7, 8], [3, 4], [3, 4]]
    batch = next(iter(geotfr.stream(path).batch(4)))
    assert batch["b"].tolist() == [[1, 2], [5, 6], [1, 2], [9, 9]]


def test_records_of_many_sizes_are_read_and_few_layouts_kept(
    tmp_path: Path, counted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("geotfr.records.gather.MOST_LAYOUTS", 2)
    values = np.random.default_rng(6).normal(size=(12, 3)).astype(np.float32)
    # The last key makes each record longer than the one before; unknown fields keep some from being taken apart.
    payloads = [
        wire.example([("b", wire.float_feature(row)), ("id" * (n + 1), wire.bytes_feature([b"x"]))])
        + (b"\x7a\x01x" if n % 3 == 2 else b"")
        for n, row in enumerate(values)
    ]
    path = wire.write_shard(tmp_path / "a.tfrecord", payloads)
    with IndexedRecords(path, hop_index(path)) as records:
        features = IndexedFeatures(records, ["b"])
        got = np.zeros_like(values)
        for number in (*range(12), 0, 11, 3):
            numbers, is_odd = np.array([number]), number % 3 == 2
            assert features.fill(numbers, numbers, {"b": got}).tolist() == [not is_odd]
            assert np.array_equal(got[number], values[number]) is not is_odd
            (batch,) = features.batches(numbers)
            np.testing.assert_array_equal(batch.features["b"], values[numbers])
        # A feature that the record lacks, and none at all, are for the other way.
        assert not features.fill(np.array([0]), np.array([0]), {"none": got}).any()
        assert features.fill(np.array([], np.int64), np.array([], np.int64), {"b": got}).tolist() == []

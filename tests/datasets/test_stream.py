"""A stream gives what the same steps written as plain loops give, in every form that records flow in."""

from __future__ import annotations

import gc
import json
import os
import pickle
import re
import threading
import traceback
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import islice
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from datasets.scenes import COUNT, write_scene
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import wire

import geotfr
from geotfr.errors import DamagedError, GeotfrError, MissingInputError, RecordError, UsageError, WorkerLostError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def write(folder: Path, count: int, *, files: int = 1, compression: str = "", name: str = "a") -> list[Path]:
    """``count`` records ``{x: float number, y: two int64}`` over some files."""
    payloads = [
        wire.example([("x", wire.float_feature([number])), ("y", wire.int64_feature([number, 2 * number]))])
        for number in range(count)
    ]
    each = -(-count // files)
    return [
        wire.write_shard(
            folder / f"{name}-{file}.tfrecord", payloads[file * each : (file + 1) * each], compression=compression
        )
        for file in range(files)
    ]


def numbers(stream: Any) -> list[int]:
    return [int(np.ravel(element["x"])[0]) for element in stream]


def slow_shuffle(elements: list[int], size: int, *key: int) -> list[int]:
    """TensorFlow's law, one element at a time, on the random bits that the stream draws."""
    bits = np.random.Philox(np.random.SeedSequence(key))
    buffer, rest = elements[:size], elements[size:]
    out = []
    for element in rest:
        place = (int(bits.random_raw()) >> 32) * size >> 32
        out.append(buffer[place])
        buffer[place] = element
    keys = [int(bits.random_raw()) for _ in buffer]
    return out + [element for _, element in sorted(zip(keys, buffer, strict=True), key=lambda pair: pair[0])]


FORMS = ["numbered", "packed", "objects", "mixed"]


def source(form: str, count: int) -> geotfr.Stream:
    """The numbers from 0 in one of the forms that records flow in."""
    arrays = {"x": np.arange(count)}
    if form == "numbered":
        return geotfr.stream(arrays)
    if form == "packed":
        return geotfr.stream(arrays).map(lambda batch: batch, batched=True)
    elements = geotfr.stream(lambda: ({"x": number} for number in range(count)))
    if form == "objects":
        return elements
    return geotfr.stream([0, 1]).flat_map(
        lambda part: elements.take(count // 2) if part == 0 else source("packed", count).skip(count // 2)
    )


# Files.


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_files_give_their_records_in_natural_order(tmp_path: Path, compression: str) -> None:
    write(tmp_path, 55, files=11, compression=compression)
    found = list(geotfr.stream(str(tmp_path / "*.tfrecord")))
    assert [element["x"].tolist() for element in found] == [[number] for number in range(55)]
    assert [element["y"].tolist() for element in found] == [[number, 2 * number] for number in range(55)]
    assert {(element["x"].dtype.name, element["y"].dtype.name) for element in found} == {("float32", "int64")}


def test_features_come_in_the_order_and_shapes_asked_for(tmp_path: Path) -> None:
    (path,) = write(tmp_path, 5)
    assert [list(element) for element in geotfr.stream(path, features="y, x").take(1)] == [["y", "x"]]
    (batch,) = geotfr.stream(path, features=["y"], shapes={"y": (2, 1)}).batch(9)
    assert batch["y"].shape == (5, 2, 1)
    assert [element["x"] for element in geotfr.stream(path, features=["x"], shapes={"x": ()})] == [0, 1, 2, 3, 4]
    with pytest.raises(UsageError, match=r"record 0 at byte 0: no feature 'z'; there are x, y$"):
        list(geotfr.stream(path, features=["z"]))


def test_large_records_are_read_only_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write(tmp_path, 40, files=3)
    expected = [batch["y"].tolist() for batch in geotfr.stream(paths).shuffle(16, seed=3).batch(7)]
    monkeypatch.setattr("geotfr.datasets.streams.files.LARGE_RECORD_BYTES", 1)
    stream = geotfr.stream(paths).shuffle(16, seed=3)
    assert [batch["y"].tolist() for batch in stream.batch(7)] == expected
    stream.set_epoch(0)
    assert [element["y"].tolist() for element in stream] == [row for batch in expected for row in batch]
    # Over the end of an epoch a batch may hold a record twice.
    twice = geotfr.stream(paths).take(3).repeat(2).batch(5)
    assert [batch["x"].reshape(-1).tolist() for batch in twice] == [[0, 1, 2, 0, 1], [2]]
    data = bytearray(paths[1].read_bytes())
    data[20] ^= 1
    state = paths[1].stat()
    paths[1].write_bytes(data)
    os.utime(paths[1], ns=(state.st_atime_ns, state.st_mtime_ns))
    with pytest.raises(RecordError, match=r"a-1\.tfrecord: record 0 at byte 0"):
        list(geotfr.stream(paths))


def test_records_that_differ_flow_as_they_are_and_cannot_be_batched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    payloads = [wire.example([("image", wire.bytes_feature([b"ab" * number]))]) for number in range(1, 4)]
    payloads.append(wire.example([("image", wire.bytes_feature([b"a", b"b"])), ("none", b"")]))
    path = wire.write_shard(tmp_path / "a", payloads)
    for least in (1, 1 << 20):
        monkeypatch.setattr("geotfr.datasets.streams.files.LARGE_RECORD_BYTES", least)
        found = list(geotfr.stream(path).shuffle(1))
        assert [bytes(element["image"]) for element in found[:3]] == [b"ab", b"abab", b"ababab"]
        assert found[3]["image"] == (b"a", b"b")
        assert found[3]["none"].shape == (0,)
        with pytest.raises(UsageError, match=r"batch: image: arrays of the shapes \(2,\) and \(4,\); use padded_batch"):
            list(geotfr.stream(path).take(2).batch(2))


def test_payloads_come_as_they_are(tmp_path: Path) -> None:
    path = wire.write_shard(tmp_path / "a", [b"one", b"", b"three"])
    assert list(geotfr.stream(path, payloads=True)) == [b"one", b"", b"three"]
    (records,) = geotfr.stream(write(tmp_path, 3, name="b")[0], payloads=True).batch(8)
    got = geotfr.parse_example(records, {"y": geotfr.FixedLenFeature((2,), "int64")})["y"]
    assert got.tolist() == [[0, 0], [1, 2], [2, 4]]


@pytest.mark.parametrize("name", ["p-mixer.json", "", "p-*.tfrecord"])
def test_a_mixer_gives_features_the_shape_of_its_patches(tmp_path: Path, name: str) -> None:
    scene = write_scene(tmp_path, margin_xy=(1, 2))
    options = {"patch_dimensions": (5, 4)} if "*" in name else {}
    batches = geotfr.stream(tmp_path / name, kernel_size=(2, 4), **options).batch(8)
    for name in scene.bands:
        got = np.concatenate([batch[name] for batch in batches])
        np.testing.assert_array_equal(got, scene.blocks(name, range(COUNT)))


def test_a_data_set_flows_by_its_numbers(tmp_path: Path) -> None:
    scene = write_scene(tmp_path)
    dataset = geotfr.PatchDataset(scene.mixer, stack=["red", "class"])
    batches = list(geotfr.stream(dataset).shuffle(6, seed=2).batch(6))
    order = slow_shuffle(list(range(COUNT)), 6, 2, 0, 1)
    for batch, start in zip(batches, range(0, COUNT, 6), strict=True):
        np.testing.assert_array_equal(batch["image"][:, 0], scene.blocks("red", order[start : start + 6]))
    pixels = geotfr.stream(dataset.pixels()).shuffle(100).batch(64)
    assert sorted(value for batch in pixels for value in batch["code"].tolist()) == sorted(
        scene.bands["code"].reshape(-1).tolist()
    )


def test_files_take_turns_and_change_places(tmp_path: Path) -> None:
    paths = write(tmp_path, 24, files=4)
    got = numbers(geotfr.stream(paths, cycle_length=2, block_length=2))
    assert got == [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, 12, 13, 18, 19, 14, 15, 20, 21, 16, 17, 22, 23]
    shuffled = geotfr.stream(paths, shuffle_files=5)
    orders = [numbers(shuffled) for _ in range(6)]
    assert len({tuple(order) for order in orders}) > 1
    for order in orders:
        assert sorted(order) == list(range(24))
        assert all(order[n : n + 6] == sorted(order[n : n + 6]) for n in range(0, 24, 6))


# Order.


@settings(max_examples=60, deadline=None)
@given(
    form=st.sampled_from(FORMS),
    count=st.integers(0, 60),
    size=st.integers(1, 70),
    seed=st.integers(0, 5),
    epoch=st.integers(0, 3),
)
def test_shuffling_is_tensorflows_law(form: str, count: int, size: int, seed: int, epoch: int) -> None:
    stream = source(form, count).shuffle(size, seed=seed)
    stream.set_epoch(epoch)
    assert numbers(stream) == slow_shuffle(list(range(count)), size, seed, epoch, stream.node.depth)


@pytest.mark.parametrize("form", ["numbered", "packed"])
def test_shuffling_many_at_once_is_the_same_as_one_at_a_time(form: str) -> None:
    for size in (100, 4096, 9000):
        stream = source(form, 20_000).shuffle(size, seed=1)
        assert numbers(stream) == slow_shuffle(list(range(20_000)), size, 1, 0, stream.node.depth)


def test_each_epoch_has_an_order_of_its_own_the_same_in_each_run() -> None:
    stream = source("numbered", 30).shuffle(10, seed=4)
    first = [numbers(stream) for _ in range(3)]
    assert len({tuple(order) for order in first}) == 3
    again = source("objects", 30).shuffle(10, seed=4)
    assert [numbers(again) for _ in range(3)] == first
    assert numbers(source("numbered", 30).shuffle(10, seed=4).repeat(3)) == [n for order in first for n in order]
    again.set_epoch(1)
    assert numbers(again) == first[1]


def test_repeat_take_skip_and_shard_are_those_of_lists() -> None:
    stream = source("packed", 10)
    for skip in (0, 3, 10, 12):
        assert numbers(stream.skip(skip)) == list(range(10))[skip:]
        assert numbers(stream.skip(skip).take(4)) == list(range(10))[skip:][:4]
    for skip in (8, 10, 12, 25, 30):
        assert numbers(stream.repeat(3).skip(skip).take(15)) == (list(range(10)) * 3)[skip : skip + 15]
        assert numbers(stream.repeat().skip(skip).take(4)) == (list(range(10)) * 4)[skip : skip + 4]
    assert numbers(stream.repeat().take(35)) == (list(range(10)) * 4)[:35]
    assert numbers(stream.filter(lambda _: False).repeat()) == []
    for world in (1, 2, 3, 12):
        parts = [numbers(stream.shard(rank, world)) for rank in range(world)]
        assert parts == [list(range(10))[rank::world] for rank in range(world)]


def test_interleave_takes_blocks_in_turn() -> None:
    def letters(element: dict[str, int]) -> list[str]:
        return [f"{element['x']}{place}" for place in range(3)]

    got = list(source("objects", 3).interleave(letters, cycle_length=2, block_length=2))
    assert got == ["00", "01", "10", "11", "02", "12", "20", "21", "22"]
    assert list(source("numbered", 2).flat_map(letters)) == ["00", "01", "02", "10", "11", "12"]
    nested = source("packed", 3).flat_map(lambda row: source("packed", int(row["x"]) + 1).shuffle(2))
    assert sorted(numbers(nested)) == [0, 0, 0, 1, 1, 2]


# Work.


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_map_and_filter_are_those_of_lists(form: str, workers: int) -> None:
    stream = source(form, 500)
    doubled = stream.map(lambda row: {"x": 2 * row["x"]}, workers=workers)
    assert numbers(doubled) == list(range(0, 1000, 2))
    assert numbers(stream.map(lambda rows: {"x": rows["x"] * 2}, batched=True, workers=workers)) == numbers(doubled)
    assert numbers(doubled.filter(lambda row: row["x"] % 3 == 0)) == [n for n in range(0, 1000, 2) if n % 3 == 0]
    assert numbers(doubled.filter(lambda rows: rows["x"] % 3 == 0, batched=True)) == list(range(0, 1000, 6))
    unordered = stream.map(lambda row: {"x": 2 * row["x"]}, workers=workers, ordered=False)
    assert sorted(numbers(unordered)) == list(range(0, 1000, 2))
    twice = stream.map(lambda rows: {"x": np.repeat(rows["x"], 2)}, batched=True)
    assert numbers(twice) == [number for number in range(500) for _ in range(2)]


def refuse_30(row: dict[str, Any]) -> dict[str, Any]:
    if row["x"] == 30:
        raise KeyError("thirty")
    return row


def own_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("geotfr-")]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("form", ["numbered", "packed", "objects"])
def test_an_error_in_a_worker_reaches_the_consumer_and_threads_end(form: str, ordered: bool) -> None:
    stream = source(form, 200).map(refuse_30, workers=3, ordered=ordered).batch(10).prefetch(2, workers=2)
    got: list[int] = []
    iterator = iter(stream)
    with pytest.raises(KeyError, match="thirty") as caught:
        got.extend(number for batch in iterator for number in batch["x"].tolist())
    assert "in refuse_30" in "".join(traceback.format_exception(caught.value))
    assert "raised in the function refuse_30 of the stream's map" in caught.value.__notes__[0]
    assert 30 not in got
    if ordered:
        assert got == list(range(len(got)))
    del caught
    assert own_threads() == []


def test_threads_end_when_nobody_asks_any_more() -> None:
    endless = source("packed", 100).repeat().map(dict, workers=2).batch(5).prefetch(3)
    iterator = iter(endless)
    next(iterator)
    assert own_threads()
    iterator.close()
    assert own_threads() == []
    assert list(iterator) == []
    for batch in endless:
        assert len(batch["x"]) == 5
        break
    # Left by break: nobody has the iterator any more.
    gc.collect()
    assert own_threads() == []
    with iter(endless) as opened:
        next(opened)
    assert own_threads() == []
    assert endless.state_dict()["taken"] == 1


def test_training_and_evaluation_run_side_by_side() -> None:
    train = source("packed", 40).shuffle(40).batch(4).prefetch(2)
    evaluate = source("objects", 30).batch(3).prefetch(2)
    seen = [[], []]
    for left, right in zip(train, evaluate, strict=True):
        seen[0] += left["x"].tolist()
        seen[1] += right["x"].tolist()
    assert sorted(seen[0]) == list(range(40))
    assert seen[1] == list(range(30))


def test_a_worker_process_that_dies_is_told() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        stream = geotfr.stream([7, 7, 7]).map(os._exit, executor=pool)
        with pytest.raises(WorkerLostError, match="a worker process ended before its work was done") as caught:
            list(stream)
        assert caught.value.exit_code == 15
        with pytest.raises(WorkerLostError):
            list(stream)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda _: 3, "a batched function gave int; a dict of arrays is wanted"),
        (lambda _: {"x": np.zeros(2), "y": np.zeros(3)}, "arrays of several lengths"),
    ],
    ids=["no dict", "lengths"],
)
def test_a_batched_function_that_gives_no_batch_is_told(function: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        list(source("packed", 5).map(function, batched=True))


def test_what_has_no_meaning_is_refused() -> None:
    stream = source("objects", 5)
    cases = {
        r"buffer_size: found 0; allowed is a whole number from 1": lambda: stream.shuffle(0),
        r"size: found 2.5": lambda: stream.batch(2.5),
        r"count: found -1": lambda: stream.repeat(-1),
        r"workers: found True": lambda: stream.map(dict, workers=True),
        r"rank 2 of 2; allowed are 0 to 1": lambda: stream.shard(2, 2),
        r"flat_map: the function gave int": lambda: list(stream.flat_map(lambda _: 3)),
        r"filter: a batched function gave int64 \(5,\); bool": lambda: list(
            source("packed", 5).filter(lambda rows: rows["x"], batched=True)
        ),
        r"arrays of one length are wanted; found a: 2, b: 3": lambda: geotfr.stream({"a": [1, 2], "b": [1, 2, 3]}),
        r"elements with the features a and b": lambda: list(geotfr.stream([{"a": 1}, {"b": 1}]).batch(2)),
    }
    for message, call in cases.items():
        with pytest.raises(UsageError, match=message):
            call()


# Batches.


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 7, 50, 80])
def test_batches_are_all_elements_in_order(form: str, size: int) -> None:
    for is_dropped in (False, True):
        got = [batch["x"].tolist() for batch in source(form, 50).batch(size, drop_remainder=is_dropped)]
        expected = [list(range(50))[start : start + size] for start in range(0, 50, size)]
        assert got == [each for each in expected if len(each) == size or not is_dropped]


def test_batches_hold_tuples_numbers_and_texts() -> None:
    stream = geotfr.stream([(np.ones(2) * number, number, f"t{number}") for number in range(3)])
    ((arrays, whole, texts),) = stream.batch(3)
    assert arrays.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert whole.tolist() == [0, 1, 2]
    assert texts == ["t0", "t1", "t2"]


def test_padded_batches_are_filled_at_their_ends() -> None:
    rows = [{"x": np.arange(number), "s": np.ones((1, number)), "n": f"{number}"} for number in (2, 0, 3)]
    (got,) = geotfr.stream(rows).padded_batch(4, values={"x": -1})
    assert got["x"].tolist() == [[0, 1, -1], [-1, -1, -1], [0, 1, 2]]
    assert got["s"].shape == (3, 1, 3)
    assert got["s"].sum() == 5
    assert got["n"] == ["2", "0", "3"]
    (got,) = geotfr.stream(rows).padded_batch(4, shapes={"s": (2, None), "x": (4,)})
    assert (got["s"].shape, got["x"].shape) == ((3, 2, 3), (3, 4))
    (plain,) = geotfr.stream([np.arange(n) for n in (1, 2)]).padded_batch(2)
    assert plain.tolist() == [[0, 0], [0, 1]]
    for shapes, message in (({"x": (2,)}, r"x: \(3,\) is longer than \(2,\)"), ({"x": (2, 2)}, "to be padded to")):
        with pytest.raises(UsageError, match=message):
            list(geotfr.stream(rows).padded_batch(4, shapes=shapes))
    with pytest.raises(UsageError, match="an element has no feature 'a'"):
        list(geotfr.stream([{"a": 1}, {"b": 1}]).padded_batch(2))


# What is held.


def test_a_cache_reads_its_source_once() -> None:
    calls = []

    def read() -> Iterator[dict[str, int]]:
        calls.append(1)
        yield from ({"x": number} for number in range(20))

    stream = geotfr.stream(read).cache().shuffle(5)
    list(islice(stream, 3))
    assert len(calls) == 1
    for _ in range(3):
        assert sorted(numbers(stream)) == list(range(20))
    assert len(calls) == 2
    held = source("packed", 10).cache().batch(4)
    assert [batch["x"].tolist() for batch in held] == [batch["x"].tolist() for batch in held]
    drawn = source("numbered", 10).shuffle(10, seed=7).cache()
    list(islice(drawn, 3))
    other = source("numbered", 10).shuffle(10, seed=7).cache()
    assert [numbers(drawn), numbers(drawn)] == [numbers(other), numbers(other)]
    copy = pickle.loads(pickle.dumps(geotfr.stream({"x": np.arange(5)}).cache()))
    assert numbers(copy) == [0, 1, 2, 3, 4]


# State.

STEPS = {
    "plain": lambda stream: stream,
    "shuffled": lambda stream: stream.shuffle(7, seed=2).batch(3),
    "repeated": lambda stream: stream.shuffle(7).repeat(3).batch(4, drop_remainder=True).prefetch(2),
    "for ever": lambda stream: stream.shuffle(50, seed=1).map(dict, workers=2).repeat().batch(4).take(15),
    "filtered": lambda stream: stream.filter(lambda row: row["x"] % 3 > 0).shuffle(4).repeat(2),
    "flat": lambda stream: stream.flat_map(lambda row: [row] * int(row["x"] % 3)).batch(2).shard(1, 2),
    "batched": lambda stream: stream.map(lambda rows: {"x": rows["x"][::2]}, batched=True).cache().skip(2),
    "turns": lambda stream: stream.interleave(lambda row: [row] * 3, cycle_length=2).padded_batch(4),
}


@pytest.mark.parametrize("form", ["numbered", "objects"])
@pytest.mark.parametrize("steps", STEPS)
def test_a_resumed_stream_goes_on_where_it_was(steps: str, form: str) -> None:
    def made() -> geotfr.Stream:
        return STEPS[steps](source(form, 20))

    def told(elements: Any) -> list[Any]:
        return [np.asarray(element["x"]).tolist() for element in elements]

    whole = told(made())
    for taken in range(0, len(whole) + 1, 2):
        stream = made()
        iterator = iter(stream)
        assert told(islice(iterator, taken)) == whole[:taken]
        state = json.loads(json.dumps(stream.state_dict()))
        iterator.close()
        other = made()
        other.load_state_dict(state)
        # Behind the last element comes the whole next epoch, as it would without a restart.
        following = made()
        following.set_epoch(1)
        if taken < len(whole):
            assert told(other) == whole[taken:]
        assert told(other) == told(following)


@pytest.mark.parametrize("ends_by", [list, lambda stream: list(zip(stream, range(10), strict=False))])
def test_a_state_at_the_end_of_an_epoch_gives_the_whole_next_epoch(ends_by: Any) -> None:
    def made() -> geotfr.Stream:
        return geotfr.stream(list(range(10))).shuffle(10, seed=7)

    whole = made()
    first, second, third = (list(whole) for _ in range(3))
    stream = made()
    ends_by(stream)
    state = stream.state_dict()
    for _ in range(2):
        # A state that isn't used yet is still the state.
        other = made()
        other.load_state_dict(state)
        state = other.state_dict()
    assert (list(other), list(other)) == (second, third)
    assert sorted(first) == sorted(second)


def test_a_resumed_stream_reads_no_epoch_that_is_over_and_calls_no_map() -> None:
    calls: list[int] = []

    def read() -> Iterator[int]:
        calls.append(-1)
        yield from range(10)

    def made() -> geotfr.Stream:
        return geotfr.stream(read).repeat(5).map(lambda number: calls.append(number) or number)

    stream = made()
    list(islice(iter(stream), 34))
    state = stream.state_dict()
    calls.clear()
    other = made()
    other.load_state_dict(state)
    assert list(other) == [4, 5, 6, 7, 8, 9, *range(10)]
    assert calls.count(-1) == 2
    assert len(calls) == 18


def test_a_state_that_says_nothing_is_refused() -> None:
    state = source("packed", 5).batch(2).state_dict()
    with pytest.raises(UsageError, match=r"load_state_dict: the state is one of .*batch\(2\), this is .*batch\(3\)"):
        source("packed", 5).batch(3).load_state_dict(state)
    for odd in ({"x": 1}, {}, {"version": 1, "steps": state["steps"]}, state | {"steps": 1}, [1], None):
        with pytest.raises(UsageError, match=r"load_state_dict: found .*, which is no state; give what state_dict\(\)"):
            source("packed", 5).batch(2).load_state_dict(odd)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="load_state_dict: the state has version 0, this geotfr"):
        source("packed", 5).batch(2).load_state_dict(state | {"version": 0})
    with pytest.raises(UsageError, match="state_dict: a map with ordered=False gives another order each time"):
        source("packed", 5).map(dict, workers=2, ordered=False).batch(2).state_dict()
    for key, value in (("epoch", -1), ("taken", "3"), ("part", 1), ("epoch_sizes", [1]), ("epoch_sizes", {"a": {}})):
        with pytest.raises(UsageError, match="load_state_dict: the state is damaged: "):
            source("packed", 5).batch(2).load_state_dict(state | {key: value})
    other = source("packed", 5).batch(2)
    other.load_state_dict(state | {"part": 1, "parts": 2})
    with pytest.raises(UsageError, match="part 1 of 2 of the records, this iterator reads part 0 of 1"):
        iter(other)


def strict(row: Any) -> geotfr.Stream:
    return geotfr.stream([row, row]).map(int, workers=2, ordered=False)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda: geotfr.stream(iter([1])), "an iterator that is read once"),
        (lambda: geotfr.stream({"b", "a"}).batch(2), "a set, whose order is another in each process"),
        (lambda: geotfr.stream([1]).map(int, workers=2, ordered=False).cache(), "a map with ordered=False"),
        (lambda: geotfr.stream([1]).map(int, ordered=False, executor=ThreadPoolExecutor(1)), "a map with ordered"),
        (lambda: geotfr.stream([1, 2]).flat_map(strict).batch(2), "a map with ordered=False"),
        (lambda: geotfr.stream(lambda: strict(1)), "a map with ordered=False"),
    ],
)
def test_a_stream_whose_order_may_be_another_has_no_state(made: Any, reason: str) -> None:
    stream = made()
    iterator = iter(stream)
    next(iterator)
    with pytest.raises(UsageError, match=reason):
        stream.state_dict()
    iterator.close()


def test_an_epoch_that_ends_by_an_error_or_is_closed_is_not_over() -> None:
    def read() -> Iterator[int]:
        yield from range(3)
        if is_broken:
            raise OSError("disk")
        yield from range(3, 6)

    is_broken = True
    stream = geotfr.stream(read)
    iterator = iter(stream)
    with pytest.raises(OSError, match="disk"):
        list(iterator)
    assert list(iterator) == []
    is_broken = False
    again = geotfr.stream(read)
    again.load_state_dict(stream.state_dict())
    iterator = iter(again)
    assert next(iterator) == 3
    iterator.close()
    assert list(iterator) == []
    stream.load_state_dict(again.state_dict())
    assert list(stream) == [4, 5]


def test_a_file_that_changed_is_refused_by_name(tmp_path: Path) -> None:
    paths = write(tmp_path, 10, files=2)
    stream = geotfr.stream(paths)
    write(tmp_path, 12, files=2)
    with pytest.raises(DamagedError, match=r"a-0\.tfrecord: the file changed since"):
        list(stream)
    paths[0].unlink()
    with pytest.raises(MissingInputError, match=r"a-0\.tfrecord: no such file"):
        list(stream)


@pytest.mark.parametrize("cut", range(4, 400, 7))
def test_a_cut_file_is_an_error_behind_its_whole_records(tmp_path: Path, cut: int) -> None:
    (path,) = write(tmp_path, 10)
    content = path.read_bytes()
    path.write_bytes(content[: min(cut, len(content) - 1)])
    got: list[int] = []
    stream = geotfr.stream(path)
    is_between_records = cut % (len(content) // 10) == 0
    if is_between_records:
        got = numbers(stream)
    else:
        with pytest.raises(GeotfrError, match=re.escape(str(path))):
            got.extend(int(element["x"][0]) for element in stream)
    assert got == list(range(len(got)))
    assert len(got) < 10

"""Any pipeline of random steps, stopped anywhere, goes on exactly; and its parts give each record once.

The oracle is the same steps over plain lists.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from oracle import wire

import geotfr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from geotfr import Stream

COUNT = 13
FILES = 4
EPOCH_FILES = [list(range(start, min(start + 4, COUNT))) for start in range(0, COUNT, 4)]

# Sources: the stream, and its elements in an epoch.


def random_bits(*key: int) -> Iterator[int]:
    bits = np.random.Philox(np.random.SeedSequence(key))
    while True:
        yield int(bits.random_raw())


def file_order(seed: int, epoch: int) -> list[list[int]]:
    keys = list(islice(random_bits(seed, epoch), FILES))
    return [EPOCH_FILES[place] for place in sorted(range(FILES), key=keys.__getitem__)]


def turns(lists: list[list[Any]], cycle: int, block: int) -> list[Any]:
    waiting, open_lists, out = [list(each) for each in lists], [], []
    while waiting or open_lists:
        while waiting and len(open_lists) < cycle:
            open_lists.append(waiting.pop(0))
        first = open_lists.pop(0)
        out += first[:block]
        # Whether there is more is seen at its next turn, unless the turn was cut short.
        if len(first) >= block:
            open_lists.append(first[block:])
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records")
    for place, numbers in enumerate(EPOCH_FILES):
        payloads = [wire.example([("x", wire.int64_feature([number]))]) for number in numbers]
        wire.write_shard(folder / f"r-{place}.tfrecord", payloads)
        wire.write_shard(folder / f"z-{place}.tfrecord.gz", payloads, compression="GZIP")
        (folder / f"c-{place}.csv").write_text("x\n" + "".join(f"{number}\n" for number in numbers))
        (folder / f"b-{place}.bin").write_bytes(np.array(numbers, "<i4").tobytes())
    return folder


def whole(epoch: int) -> list[int]:
    return list(range(COUNT))


SOURCES: dict[str, tuple[Callable[[Path], Stream], Callable[[int], list[int]]]] = {
    "arrays": (lambda _: geotfr.stream({"x": np.arange(COUNT)}), whole),
    "elements": (lambda _: geotfr.stream([{"x": number} for number in range(COUNT)]), whole),
    "function": (lambda _: geotfr.stream(lambda: ({"x": number} for number in range(COUNT))), whole),
    "stream of a stream": (lambda _: geotfr.stream(lambda: geotfr.stream({"x": np.arange(COUNT)})), whole),
    "files": (lambda folder: geotfr.stream(folder / "r-*.tfrecord", shapes={"x": ()}), whole),
    "gzip": (lambda folder: geotfr.stream(folder / "z-*.gz", shapes={"x": ()}, features=["x"]), whole),
    "shuffled files": (
        lambda folder: geotfr.stream(folder / "r-*.tfrecord", shapes={"x": ()}, shuffle_files=3),
        lambda epoch: [number for each in file_order(3, epoch) for number in each],
    ),
    "files in turn": (
        lambda folder: geotfr.stream(
            folder / "z-*.gz", shapes={"x": ()}, shuffle_files=8, cycle_length=2, block_length=3
        ),
        lambda epoch: turns(file_order(8, epoch), 2, 3),
    ),
    "csv": (lambda folder: geotfr.stream_csv(str(folder / "c-*.csv"), {"x": int}, key=None), whole),
    "binary": (lambda folder: geotfr.stream_binary(str(folder / "b-*.bin"), [("x", "<i4")], key=None), whole),
}

# Steps: what they make of a stream, and of the elements of an epoch. An element is a number, a batch a tuple of them.

Epoch = Any


def shuffled(elements: list[Any], size: int, *key: int) -> list[Any]:
    bits = random_bits(*key)
    buffer, out = elements[:size], []
    for element in elements[size:]:
        place = (next(bits) >> 32) * size >> 32
        out.append(buffer[place])
        buffer[place] = element
    keys = [next(bits) for _ in buffer]
    return out + [buffer[place] for place in sorted(range(len(buffer)), key=keys.__getitem__)]


def total(element: Any) -> int:
    return int(np.sum(element["x"] if isinstance(element, dict) else element))


def batches(elements: list[Any], size: int, *, drop: bool) -> list[Any]:
    made = [tuple(elements[start : start + size]) for start in range(0, len(elements), size)]
    return [each for each in made if len(each) == size or not drop]


def add_one(row: dict[str, Any]) -> dict[str, Any]:
    return {"x": row["x"] + 1}


def is_kept(row: dict[str, Any]) -> bool:
    return total(row) % 3 > 0


def twice(rows: dict[str, Any]) -> dict[str, Any]:
    return {"x": np.repeat(rows["x"], 2, axis=0)}


def some_times(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [row] * (total(row) % 3)


def rows_of(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"x": value} for value in np.atleast_1d(row["x"])]


def nested(row: dict[str, Any]) -> Stream:
    return geotfr.stream({"x": np.arange(3) + total(row)}).shuffle(2, seed=5).repeat(2)


def nested_elements(element: Any, epoch: int) -> list[int]:
    rows = [total(element) + place for place in range(3)]
    return [value for number in (2 * epoch, 2 * epoch + 1) for value in shuffled(rows, 2, 5, number, 1)]


class Plan:
    """A stream and, by plain lists, what it gives in an epoch."""

    def __init__(self, name: str, steps: list[tuple[Any, ...]]) -> None:
        self.name = name
        self.steps = steps

    def stream(self, folder: Path) -> Stream:
        made = SOURCES[self.name][0](folder)
        for step in self.steps:
            made = self._made(made, *step)
        return made

    def _made(self, stream: Stream, kind: str, *options: Any) -> Stream:
        steps: dict[str, Callable[..., Stream]] = {
            "shuffle": lambda size, seed: stream.shuffle(size, seed=seed),
            "repeat": stream.repeat,
            "for ever": lambda count: stream.repeat().take(count),
            "take": stream.take,
            "skip": stream.skip,
            "shard": stream.shard,
            "map": lambda workers: stream.map(add_one, workers=workers),
            "map batched": lambda workers: stream.map(twice, batched=True, workers=workers),
            "filter": lambda: stream.filter(is_kept),
            "flat_map": lambda: stream.flat_map(some_times),
            "nested": lambda: stream.flat_map(nested),
            "interleave": lambda cycle, block: stream.interleave(
                lambda row: [row] * 3, cycle_length=cycle, block_length=block
            ),
            "batch": lambda size, drop: stream.batch(size, drop_remainder=drop),
            "padded_batch": lambda size, drop: stream.padded_batch(size, drop_remainder=drop),
            "unbatch": lambda: stream.flat_map(rows_of),
            "cache": stream.cache,
            "prefetch": lambda size, workers: stream.prefetch(size, workers=workers),
        }
        return steps[kind](*options)

    def elements(self, epoch: int, count: int | None = None) -> list[Any]:
        """The elements of an epoch, behind the first ``count`` steps."""
        count = len(self.steps) if count is None else count
        if count == 0:
            return SOURCES[self.name][1](epoch)
        kind, *options = self.steps[count - 1]
        if kind == "cache":
            return self.elements(0, count - 1)
        if kind == "repeat":
            (times,) = options
            return [each for n in range(times) for each in self.elements(epoch * times + n, count - 1)]
        if kind == "for ever":
            out: list[Any] = []
            number = epoch
            while len(out) < options[0]:
                part = self.elements(number, count - 1)
                if not part:
                    break
                out += part
                number += 1
            return out[: options[0]]
        given = self.elements(epoch, count - 1)
        # A repeat for ever and its take are two steps of the stream.
        depth = count + sum(step[0] == "for ever" for step in self.steps[: count - 1])
        steps: dict[str, Callable[..., list[Any]]] = {
            "shuffle": lambda size, seed: shuffled(given, size, seed, epoch, depth),
            "take": lambda number: given[:number],
            "skip": lambda number: given[number:],
            "shard": lambda rank, world: given[rank::world],
            "map": lambda _: [tuple(v + 1 for v in e) if isinstance(e, tuple) else e + 1 for e in given],
            "map batched": lambda _: [element for element in given for _ in range(2)],
            "filter": lambda: [element for element in given if total(element) % 3 > 0],
            "flat_map": lambda: [element for element in given for _ in range(total(element) % 3)],
            "nested": lambda: [value for element in given for value in nested_elements(element, epoch)],
            "interleave": lambda cycle, block: turns([[element] * 3 for element in given], cycle, block),
            "batch": lambda size, drop: batches(given, size, drop=drop),
            "padded_batch": lambda size, drop: batches(given, size, drop=drop),
            "unbatch": lambda: [v for e in given for v in (e if isinstance(e, tuple) else (e,))],
            "prefetch": lambda *_: given,
        }
        return steps[kind](*options)

    def __repr__(self) -> str:
        return f"{self.name}: {self.steps}"


def plain(element: dict[str, Any]) -> Any:
    value = np.asarray(element["x"]).tolist()
    return tuple(value) if isinstance(value, list) else value


@st.composite
def plans(draw: st.DrawFn, kinds: tuple[str, ...]) -> Plan:
    small, workers = st.integers(1, 5), st.sampled_from([1, 1, 2])
    options: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
        "shuffle": st.tuples(st.integers(1, 20), st.integers(0, 3)),
        "repeat": st.tuples(st.integers(0, 3)),
        "for ever": st.tuples(st.integers(0, 40)),
        "take": st.tuples(st.integers(0, 30)),
        "skip": st.tuples(st.integers(0, 20)),
        "shard": st.sampled_from([(0, 2), (1, 2), (2, 3)]),
        "map": st.tuples(workers),
        "map batched": st.tuples(workers),
        "interleave": st.tuples(small, small),
        "batch": st.tuples(small, st.booleans()),
        "padded_batch": st.tuples(small, st.booleans()),
        "prefetch": st.tuples(small, workers),
    }
    steps: list[tuple[Any, ...]] = []
    is_batched = False
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=6)):
        if is_batched and kind in ("batch", "padded_batch", "map batched"):
            continue
        is_batched = kind in ("batch", "padded_batch") or (is_batched and kind not in ("unbatch", "nested"))
        steps.append((kind, *draw(options.get(kind, st.just(())))))
    return Plan(draw(st.sampled_from(sorted(SOURCES))), steps)


ORDER = ("shuffle", "repeat", "for ever", "take", "skip", "shard", "cache")
WORK = ("map", "map batched", "filter", "flat_map", "nested", "interleave", "unbatch", "prefetch")
ALL_STEPS = (*ORDER, *WORK, "batch", "padded_batch", "cache", "shuffle", "repeat")

ACTIONS = st.lists(
    st.one_of(
        st.just(("begin", 0)),
        st.tuples(st.just("read"), st.integers(0, 9)),
        st.just(("read to the end", 0)),
        st.just(("stop and go on", 0)),
        st.just(("stop and go on", 0)),
        st.tuples(st.just("set_epoch"), st.integers(0, 4)),
    ),
    min_size=1,
    max_size=12,
)


class Reader:
    """Where a reader of a plan's lists is."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.next_epoch = 0
        self.epoch: int | None = None
        self.rest: list[Any] = []
        self.is_resumed = False
        self.taken = 0
        self.is_over = False

    def begin(self) -> None:
        if not self.is_resumed:
            self._start()
        self.is_resumed = False
        self.may_start = self.taken > 0 or self.is_over

    def _start(self) -> None:
        self.epoch, self.taken, self.is_over = self.next_epoch, 0, False
        self.rest = self.plan.elements(self.epoch)
        self.next_epoch += 1

    def read(self, count: int) -> list[Any]:
        if count and not self.rest and self.may_start:
            self._start()
        self.may_start = self.may_start and not count
        found, self.rest = self.rest[:count], self.rest[count:]
        self.taken += len(found)
        self.is_over = self.is_over or len(found) < count
        return found

    def resume(self) -> None:
        if self.epoch is None:
            self._start()
        self.is_resumed = True

    def set_epoch(self, epoch: int) -> None:
        self.next_epoch = epoch
        if self.is_resumed and epoch == self.epoch and not self.is_over:
            self.next_epoch += 1
        else:
            self.is_resumed = False


def check_resuming(folder: Path, plan: Plan, actions: list[tuple[str, int]]) -> None:
    assume(all(len(plan.elements(epoch)) < 600 for epoch in range(3)))
    stream, reader = plan.stream(folder), Reader(plan)
    iterator: Any = None
    for action, number in actions:
        if action == "begin" or (action.startswith("read") and iterator is None):
            if iterator is not None:
                iterator.close()
            iterator = iter(stream)
            reader.begin()
        if action.startswith("read"):
            count = number if action == "read" else 1000
            assert list(map(plain, islice(iterator, count))) == reader.read(count)
        elif action == "stop and go on":
            if reader.epoch is None or iterator is not None or reader.is_resumed:
                reader.resume()
            state = json.loads(json.dumps(stream.state_dict()))
            if iterator is not None:
                iterator.close()
            stream, iterator = plan.stream(folder), None
            stream.load_state_dict(state)
        elif action == "set_epoch" and iterator is None:
            stream.set_epoch(number)
            reader.set_epoch(number)
    if iterator is not None:
        iterator.close()


EASY = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}


@settings(max_examples=150, **EASY)
@given(plan=plans(ALL_STEPS), actions=ACTIONS)
def test_a_pipeline_of_any_steps_goes_on_where_it_was_stopped(folder: Path, plan: Plan, actions: Any) -> None:
    check_resuming(folder, plan, actions)


@pytest.mark.slow
@settings(max_examples=2000, **EASY)
@given(plan=plans(ALL_STEPS), actions=ACTIONS)
def test_2000_pipelines_go_on_where_they_were_stopped(folder: Path, plan: Plan, actions: Any) -> None:
    check_resuming(folder, plan, actions)


# Parts: what ranks and workers read.


def parts_of(plan: Plan, folder: Path, parts: int, epoch: int) -> list[list[Any]]:
    found = []
    for part in range(parts):
        stream = plan.stream(folder)
        stream.set_epoch(epoch)
        found.append(list(map(plain, stream.iterate(part=part, parts=parts))))
    return found


SPLIT = ("shuffle", "repeat", "map", "map batched", "filter", "flat_map", "nested", "interleave", "unbatch", "prefetch")


@settings(max_examples=100, **EASY)
@given(plan=plans((*SPLIT, "cache", "repeat")), parts=st.integers(1, 6), epoch=st.integers(0, 2))
def test_parts_give_each_record_as_often_as_the_whole(folder: Path, plan: Plan, parts: int, epoch: int) -> None:
    assume(len(plan.elements(epoch)) < 600)
    found = parts_of(plan, folder, parts, epoch)
    assert Counter(each for part in found for each in part) == Counter(plan.elements(epoch))


@settings(max_examples=50, **EASY)
@given(plan=plans(("take", "skip", "shard", "map", "prefetch", "cache")), parts=st.integers(1, 6))
def test_parts_take_skip_and_shard_what_the_whole_does(folder: Path, plan: Plan, parts: int) -> None:
    found = parts_of(plan, folder, parts, 0)
    assert sorted(each for part in found for each in part) == sorted(plan.elements(0))


@settings(max_examples=50, **EASY)
@given(plan=plans(ALL_STEPS), parts=st.integers(2, 4), taken=st.integers(0, 12), data=st.data())
def test_a_part_goes_on_where_it_was_stopped(
    folder: Path, plan: Plan, parts: int, taken: int, data: st.DataObject
) -> None:
    assume(len(plan.elements(0)) < 600)
    part = data.draw(st.integers(0, parts - 1))
    whole_part = list(map(plain, plan.stream(folder).iterate(part=part, parts=parts)))
    stream, other = plan.stream(folder), plan.stream(folder)
    iterator = stream.iterate(part=part, parts=parts)
    assert list(map(plain, islice(iterator, taken))) == whole_part[:taken]
    other.load_state_dict(json.loads(json.dumps(stream.state_dict())))
    iterator.close()
    # Of a loader's worker nothing more comes in this epoch, though it is over.
    assert list(map(plain, other.iterate(part=part, parts=parts, is_alone=False))) == whole_part[taken:]

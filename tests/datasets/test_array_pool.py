"""What has been read stays as it is while anybody holds it, though memory is used again."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets.scenes import COUNT, write_scene
from hypothesis import given, settings
from hypothesis import strategies as st

import geotfr
from geotfr.datasets import array_pool
from geotfr.datasets.array_pool import ArrayPool

FLOAT = np.dtype("float32")


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from(["whole", "part", "drop"]), st.integers(0, 5)), max_size=30))
def test_arrays_that_are_held_never_share_memory(steps: list[tuple[str, int]]) -> None:
    pool = ArrayPool()
    held: list[tuple[np.ndarray, int]] = []
    for value, (step, number) in enumerate(steps):
        if step == "drop":
            del held[number : number + 1]
            continue
        array = pool.empty((2, array_pool.LEAST_BYTES // 4 + 64 * (number % 2)), FLOAT)
        array[:] = value
        held.append((array if step == "whole" else array[1, ::2].view(np.int32).view(FLOAT), value))
        del array
    for (first, _), (second, _) in itertools.combinations(held, 2):
        assert not np.shares_memory(first, second)
    for array, value in held:
        np.testing.assert_array_equal(array, value)


def test_batches_that_are_kept_stay_as_they_were_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_pool, "LEAST_BYTES", 1)
    monkeypatch.setattr("geotfr.datasets.streams.files.LARGE_RECORD_BYTES", 1)
    scene = write_scene(tmp_path)
    dataset = geotfr.PatchDataset(scene.mixer, kernel_size=1)

    def read(seed: int) -> None:
        random = np.random.default_rng(seed)
        kept: list[tuple[np.ndarray, np.ndarray]] = []
        for _ in range(60):
            numbers = random.integers(0, COUNT, 4)
            kept.append((dataset[numbers]["red"][1:, :2], numbers[1:]))
            del kept[: random.integers(0, 2)]
            for values, wanted in kept:
                np.testing.assert_array_equal(values, scene.blocks("red", wanted)[:, :2])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(4)))
    batches = list(geotfr.stream(scene.shards).shuffle(8, seed=1).batch(4).prefetch(2, workers=2))
    whole = list(geotfr.stream(scene.shards).shuffle(8, seed=1).batch(COUNT))
    np.testing.assert_array_equal(np.concatenate([batch["red"] for batch in batches]), whole[0]["red"])


def test_idle_memory_has_a_limit_and_does_not_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_pool, "MOST_IDLE_BYTES", 4 * array_pool.LEAST_BYTES)
    pool = ArrayPool()
    made: list[Any] = [pool.empty((array_pool.LEAST_BYTES + 64 * number,), np.dtype("uint8")) for number in range(9)]
    made.clear()
    idle = pool._idle.values()
    assert 0 < sum(memory.nbytes for memory in idle) <= array_pool.MOST_IDLE_BYTES
    assert len(pickle.dumps(pool)) < 200
    # More than the limit at once: nothing is kept.
    del made[:]
    pool.empty((8 * array_pool.LEAST_BYTES,), np.dtype("uint8"))
    assert sum(memory.nbytes for memory in idle) <= array_pool.MOST_IDLE_BYTES


def test_what_lives_to_the_end_of_the_process_ends_silently(tmp_path: Path) -> None:
    scene = write_scene(tmp_path)
    # Modules that something still refers to are emptied one by one, those that were imported first at the end.
    script = f"""
import this_is_first, sys, numpy as np, geotfr
from geotfr.datasets.array_pool import ArrayPool
dataset = geotfr.PatchDataset({str(scene.mixer)!r}, kernel_size=1)
stream = iter(geotfr.stream(dataset).shuffle(4).map(dict, workers=2).batch(2).prefetch(2))
array = ArrayPool().empty((1 << 20,), np.dtype("float32"))
this_is_first.kept = [array, dataset, dataset[3], stream, next(stream)]
sys.kept = list(sys.modules.values())
"""
    (tmp_path / "this_is_first.py").touch()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")

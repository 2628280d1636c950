"""Whoever does the work, the files are the same; a worker that dies is replaced, an engine that is lost is told."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.rasters import write_raster
from oracle.run import assert_refused, contents, run

import geotfr
from geotfr.errors import EngineLostError, OutputExistsError, UsageError
from geotfr.pipeline.executors.tasks import MOST_LOSSES, run_tasks
from geotfr.pipeline.export import chunks
from geotfr.pipeline.export.parts import distribute

GIVEN: dict[str, Any] = {"patch_dimensions": 8, "kernel_size": 4, "max_file_size": 4000}
KINDS: dict[str, dict[str, Any]] = {
    "float": {},
    "native": {"feature_kinds": "native"},
    "Earth Engine's gzip": {"compressor": "ee"},
    "threshold": {"masked_threshold": 0.1},
    "chosen": {"keep": [*range(3, 40), *range(90, 150)]},
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """66 x 200 of two bands, a part of it masked."""
    noise = np.random.default_rng(5).integers(0, 60, (2, 200, 66)).astype("int16")
    noise[:, :, :12] = 0
    return write_raster(tmp_path / "scene.tif", noise, nodata=0, tiled=True, blockxsize=16, blockysize=16)


@pytest.fixture
def large_source(tmp_path: Path) -> Path:
    """768 x 1024 of two bands: 8 parts of two chunks, for processes, where chunks have their true size."""
    noise = np.random.default_rng(5).integers(0, 60, (2, 1024, 768)).astype("int16")
    return write_raster(tmp_path / "scene.tif", noise, tiled=True, blockxsize=128, blockysize=128)


LARGE: dict[str, Any] = {"patch_dimensions": 128, "max_file_size": "1MiB"}


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribute, "_TASK_BYTES", 10_000)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 5_000)


@pytest.fixture
def _large_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribute, "_TASK_BYTES", 2**20)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 2**20)


def whole_of(source: Path, folder: Path, options: dict[str, Any]) -> dict[str, bytes]:
    """The files of one thread's run."""
    folder.mkdir()
    geotfr.export_image(source, folder / "set", workers=1, **options)
    return contents(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_any_executor_writes_the_files_and_tells_the_counts_of_one_thread(
    kind: str, source: Path, tmp_path: Path
) -> None:
    options = {**GIVEN, **KINDS[kind]}
    whole, out = tmp_path / "whole", tmp_path / "out"
    for folder in (whole, out):
        folder.mkdir()
    one = geotfr.export_image(source, whole / "set", executor="serial", **options)
    seen: list[int] = []
    with ThreadPoolExecutor(3) as pool:
        told = geotfr.export_image(
            source, out / "set", executor=pool, progress=lambda patches, _: seen.append(patches), **options
        )
    assert contents(out) == contents(whole)
    assert sum(seen) == told.plan.layout.count
    assert len(seen) > 5
    assert {**told.to_dict(), "plan": 0, "seconds": 0, "shards": 0, "manifest": 0, "mixer": 0, "warnings": 0} == {
        **one.to_dict(),
        "plan": 0,
        "seconds": 0,
        "shards": 0,
        "manifest": 0,
        "mixer": 0,
        "warnings": 0,
    }
    assert sorted(told.warnings) == sorted(one.warnings)


class KillsWorkers(threading.Thread):
    """Kills a process of this one's children after ``wait`` seconds, and then again and again."""

    def __init__(self, chance: random.Random, times: int) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self.killed = 0
        self._chance = chance
        self._times = times

    def run(self) -> None:
        """Kill."""
        while self.killed < self._times and not self.ended.wait(self._chance.uniform(0.05, 1.5)):
            children = multiprocessing.active_children()
            if children:
                os.kill(self._chance.choice(children).pid or 0, signal.SIGKILL)
                self.killed += 1


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
@pytest.mark.usefixtures("_large_tasks")
def test_a_worker_that_is_killed_is_replaced_and_nothing_is_left(seed: int, large_source: Path, tmp_path: Path) -> None:
    expected = whole_of(large_source, tmp_path / "whole", LARGE)
    out = tmp_path / "out"
    out.mkdir()
    killer = KillsWorkers(random.Random(seed), times=1 + seed % 3)
    killer.start()
    geotfr.export_image(large_source, out / "set", executor="processes", workers=2, **LARGE)
    killer.ended.set()
    killer.join()
    assert contents(out) == expected
    assert not multiprocessing.active_children()


class Broken(Executor):
    """Runs some tasks, then breaks."""

    def __init__(self, tasks: int, error: Exception) -> None:
        self.left = tasks
        self.error = error

    def submit(self, fn: Any, /, *args: Any, **more: Any) -> Future[Any]:
        """Run at once."""
        future: Future[Any] = Future()
        self.left -= 1
        if self.left < 0:
            future.set_exception(self.error)
        else:
            future.set_result(fn(*args, **more))
        return future


def test_a_lost_engine_keeps_what_is_finished_and_another_one_continues(source: Path, tmp_path: Path) -> None:
    expected = whole_of(source, tmp_path / "whole", GIVEN)
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(EngineLostError, match=r"lost at task 6 of \d+ .*--resume") as told:
        geotfr.export_image(source, out / "set", executor=Broken(5, BrokenProcessPool("no more")), **GIVEN)
    assert told.value.exit_code == 15
    assert all(name.startswith(".") for name in contents(out))
    with ThreadPoolExecutor(2) as pool:
        result = geotfr.export_image(source, out / "set", executor=pool, resume=True, **GIVEN)
    assert result.shards_resumed >= 5
    assert contents(out) == expected


@pytest.mark.parametrize("resume", [False, True])
def test_a_task_that_fails_ends_the_run_and_leaves_what_was_asked_for(
    resume: bool, source: Path, tmp_path: Path
) -> None:
    expected = whole_of(source, tmp_path / "whole", GIVEN)
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(ZeroDivisionError):
        geotfr.export_image(source, out / "set", executor=Broken(5, ZeroDivisionError()), resume=resume, **GIVEN)
    assert bool(contents(out)) == resume
    with pytest.raises(UsageError, match="default_value was 0, is 3") if resume else pytest.raises(ZeroDivisionError):
        options = {**GIVEN, "default_value": 3}
        geotfr.export_image(source, out / "set", executor=Broken(5, ZeroDivisionError()), resume=resume, **options)
    geotfr.export_image(source, out / "set", executor=Broken(999, ZeroDivisionError()), resume=resume, **GIVEN)
    assert contents(out) == expected


class Losing:
    """An engine that loses its workers at each of ``losses`` submissions."""

    name, width = "losing", 2

    def __init__(self, losses: set[int]) -> None:
        self.losses = losses
        self.submitted = 0
        self.renewed = 0

    def submit(self, fn: Any, number: int, /) -> Future[Any]:
        """Run at once, or break."""
        future: Future[Any] = Future()
        self.submitted += 1
        if self.submitted in self.losses:
            future.set_exception(BrokenProcessPool())
        else:
            future.set_result(fn(number))
        return future

    def lost_worker(self, error: BaseException) -> bool:
        """Broken."""
        return isinstance(error, BrokenProcessPool)

    def lost_engine(self, error: BaseException) -> bool:
        """Never."""
        del error
        return False

    def renew(self) -> None:
        """Count."""
        self.renewed += 1


@pytest.mark.parametrize("losses", [set(), {1}, {3}, {1, 2, 3}, {8, 9, 10, 12, 14}, set(range(3, 7))], ids=str)
def test_results_are_committed_in_order_whatever_is_lost(losses: set[int]) -> None:
    found: list[int] = []
    engine = Losing(losses)
    run_tasks(engine, lambda number: number * number, 20, found.append)
    assert found == [number * number for number in range(20)]
    # What wasn't lost isn't run again.
    assert engine.submitted == 20 + len(losses)


def test_workers_that_die_again_and_again_end_the_run() -> None:
    engine = Losing(set(range(4, 1000)))
    with pytest.raises(EngineLostError, match=r"died 6 times during task 4 of 20.*fewer --workers"):
        run_tasks(engine, lambda number: number, 20, lambda _: None)
    assert engine.renewed == MOST_LOSSES


def test_what_other_processes_can_not_do_is_refused(source: Path, tmp_path: Path) -> None:
    memory = (np.zeros((16, 16), "float32"), (10.0, 0.0, 0.0, 0.0, -10.0, 0.0), "EPSG:32633")
    pool = Broken(0, ZeroDivisionError())
    with pytest.raises(UsageError, match="in memory"):
        geotfr.export_image(memory, tmp_path / "set", executor=pool, patch_dimensions=8)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="scheduler: only the executor dask"):
        geotfr.export_image(source, tmp_path / "set", executor="processes", scheduler="tcp://a:1", **GIVEN)
    with pytest.raises(UsageError, match="allowed are serial, threads, processes, dask"):
        geotfr.export_image(source, tmp_path / "set", executor="dusk", **GIVEN)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="memory"):
        geotfr.export_image(source, tmp_path / "set", executor=pool, memory_limit="1", **GIVEN)
    geotfr.export_image(source, tmp_path / "set", **GIVEN)
    with pytest.raises(OutputExistsError):
        geotfr.export_image(source, tmp_path / "set", executor=pool, **GIVEN)
    assert_refused(
        run("export", source, "-o", tmp_path / "b", "--patch-dimensions", 8, "--split", "0/2", "--executor", "dask"), 2
    )


@pytest.mark.parametrize("what", ["export", "ingest"])
def test_a_script_without_a_main_guard_is_told_what_is_missing(what: str, source: Path, tmp_path: Path) -> None:
    made = geotfr.export_image(source, tmp_path / "made", **GIVEN)
    call = {
        "export": f"export_image({str(source)!r}, {str(tmp_path / 'set')!r}, patch_dimensions=8",
        "ingest": f"ingest_predictions({str(made.mixer)!r}, {[str(shard) for shard in made.shards]!r},"
        f" {str(tmp_path / 'o.tif')!r}",
    }[what]
    script = tmp_path / "script.py"
    script.write_text(f'import geotfr\ngeotfr.{call}, executor="processes", workers=2)\n')
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr.count('below if __name__ == "__main__":') == 1
    assert done.stderr.rstrip().endswith('below if __name__ == "__main__":')
    assert "died" not in done.stderr
    assert "AttributeError" not in done.stderr
    assert not list(tmp_path.glob("set*"))
    assert not (tmp_path / "o.tif").exists()


def test_the_command_tells_how_to_resume(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any, **__: Any) -> Any:
        raise EngineLostError("gone")

    monkeypatch.setattr(distribute.Distributed, "export", lost)
    args = ["export", source, "-o", tmp_path / "a b", "--patch-dimensions", "8", "--executor", "processes"]
    assert_refused(run(*args), 15, "gone; continue with: geotfr export", "'" + str(tmp_path / "a b") + "'", "--resume")


@pytest.mark.usefixtures("_large_tasks")
def test_a_process_pool_of_the_callers_is_left_open(large_source: Path, tmp_path: Path) -> None:
    expected = whole_of(large_source, tmp_path / "whole", LARGE)
    out = tmp_path / "out"
    out.mkdir()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        geotfr.export_image(large_source, out / "set", executor=pool, **LARGE)
        assert pool.submit(abs, -1).result() == 1
    assert contents(out) == expected

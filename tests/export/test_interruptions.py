"""A run that is stopped leaves only whole shards, no mixer and no manifest, and the next run works."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import wire
from oracle.images import Options, assert_export, expected_export
from oracle.rasters import numbered, write_raster
from oracle.run import contents
from oracle.sets import write_set

import geotfr

OPTIONS = Options(patch=(10, 10), kernel=(4, 4), max_file_size=7000)
GIVEN: dict[str, Any] = {"patch_dimensions": 10, "kernel_size": 4, "max_file_size": 7000}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """80 x 80 of two bands: 64 patches in 22 shards of three."""
    return write_raster(tmp_path / "scene.tif", numbered(2, 80, 80), tiled=True, blockxsize=16, blockysize=16)


@pytest.fixture(autouse=True)
def _ctrl_c_is_heard() -> Iterator[None]:
    """A test process that runs beside others may ignore SIGINT; a user's doesn't."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Stopper:
    """A progress function that stops the run at its ``step``-th call."""

    def __init__(self, step: int, stop: BaseException | None) -> None:
        self.left = step
        self.stop = stop

    def __call__(self, *done: int) -> None:
        """Count; then raise, or press Ctrl-C."""
        del done
        self.left -= 1
        if self.left == 0:
            if self.stop is not None:
                raise self.stop
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("step", [1, 2, 5])
@pytest.mark.parametrize(
    "stop", [None, OSError("the reader is gone"), MemoryError()], ids=["SIGINT", "OSError", "memory"]
)
def test_a_stopped_export_leaves_whole_shards_only_and_the_next_run_works(
    stop: BaseException | None, step: int, workers: int, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    expected = expected_export([source], OPTIONS, name="set")
    wanted: type[BaseException] = KeyboardInterrupt if stop is None else type(stop)
    try:
        geotfr.export_image(source, out / "set", workers=workers, progress=Stopper(step, stop), **GIVEN)
    except wanted:
        left = contents(out)
        assert set(left) <= set(expected.shards), "a temporary file, a mixer or a manifest is left"
        for name, content in left.items():
            assert wire.inflate(content) == expected.shards[name]
    geotfr.export_image(source, out / "set", workers=workers, overwrite=True, **GIVEN)
    assert_export(out, expected)


@pytest.mark.parametrize("step", [1, 3, 6, 12])
def test_a_stopped_overwrite_never_looks_complete(step: int, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image(source, out / "set", **GIVEN)
    before = contents(out)
    other = write_raster(tmp_path / "other.tif", -numbered(2, 80, 80))
    stopper = Stopper(step, OSError("the reader is gone"))
    with pytest.raises(OSError, match="the reader is gone"):
        geotfr.export_image(other, out / "set", overwrite=True, progress=stopper, **GIVEN)
    # Either the first shard is not replaced yet, or the files that call the set complete are gone.
    assert contents(out) == before or not list(out.glob("*.json"))
    geotfr.export_image(other, out / "set", overwrite=True, **GIVEN)
    assert_export(out, expected_export([other], OPTIONS, name="set"))


@pytest.mark.parametrize("stop", [None, OSError("the reader is gone")], ids=["SIGINT", "OSError"])
def test_a_stopped_ingest_leaves_nothing_and_the_next_run_works(stop: BaseException | None, tmp_path: Path) -> None:
    picture = np.random.default_rng(0).normal(0, 1, (1, 80, 80)).astype("float32")
    mixer, shards = write_set(tmp_path, picture, patch=(10, 10), shards=4)
    before = contents(tmp_path)
    wanted: type[BaseException] = KeyboardInterrupt if stop is None else type(stop)
    with pytest.raises(wanted):
        geotfr.ingest_predictions(mixer, shards, tmp_path / "out.tif", progress=Stopper(1, stop))
    assert contents(tmp_path) == before
    geotfr.ingest_predictions(mixer, shards, tmp_path / "out.tif")


class Watched:
    """Reading and closing of a source, watched: each read but the first waits until it may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from geotfr.rasters.readers import FileReader

        self.is_reading = threading.Event()
        self.may_go_on = threading.Event()
        self.busy = 0
        self.busy_at_close: list[int] = []
        self.reads = 0
        read, close = FileReader.read, FileReader.close

        def slow(*given: Any) -> None:
            self.reads += 1
            self.busy += 1
            if self.reads > 1:
                self.is_reading.set()
                self.may_go_on.wait(30)
            read(*given)
            self.busy -= 1

        def watched(reader: FileReader) -> None:
            self.busy_at_close.append(self.busy)
            close(reader)

        monkeypatch.setattr(FileReader, "read", slow)
        monkeypatch.setattr(FileReader, "close", watched)

    def fail(self, *done: int) -> None:
        """Fail while the next strip is being read, once something is done; it is read on a little later."""
        if done and not done[0]:
            return
        assert self.is_reading.wait(30), "no second strip is read"
        threading.Timer(0.05, self.may_go_on.set).start()
        raise RuntimeError("no more")


@pytest.fixture
def tall(tmp_path: Path) -> Path:
    """1024 x 80 of two bands: several strips."""
    return write_raster(tmp_path / "tall.tif", numbered(2, 1024, 80), tiled=True, blockxsize=16, blockysize=16)


def test_sources_are_not_closed_under_the_thread_that_reads_them(
    tall: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(monkeypatch)
    with pytest.raises(RuntimeError, match="no more"):
        geotfr.export_image(tall, tmp_path / "out", workers=2, progress=watched.fail, **GIVEN)
    assert set(watched.busy_at_close) == {0}


def test_sources_are_not_closed_under_a_thread_that_nothing_waits_for(
    tall: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A signal may come while an executor starts its thread: the executor then doesn't know the thread.
    monkeypatch.setattr("concurrent.futures.ThreadPoolExecutor.shutdown", lambda *_, **__: None)
    watched = Watched(monkeypatch)
    with pytest.raises(RuntimeError, match="no more"):
        geotfr.export_image(tall, tmp_path / "out", workers=2, progress=watched.fail, **GIVEN)
    assert set(watched.busy_at_close) == {0}


def test_a_model_that_fails_does_not_close_the_sources_under_the_thread_that_reads_them(
    tall: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(monkeypatch)
    calls = 0

    def model(batch: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls > 1:
            watched.fail()
        return batch[:, :1]

    with pytest.raises(RuntimeError, match="no more") as failure:
        geotfr.predict(model, tall, tmp_path / "out.tif", workers=2, patch_dimensions=10, batch_size=8)
    assert failure.traceback, "what holds the frames is still there"
    assert set(watched.busy_at_close) == {0}
    assert not [thread.name for thread in threading.enumerate() if "geotfr-read" in thread.name]

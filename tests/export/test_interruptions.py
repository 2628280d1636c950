"""A run that is stopped leaves only whole shards, no mixer and no manifest, and the next run works."""

from __future__ import annotations

import os
import signal
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

"""On dask, a cluster of the run's own or one that is there: the same files; a lost scheduler ends with exit 15."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.rasters import write_raster
from oracle.run import contents, run_apart

import geotfr
from geotfr.errors import EngineLostError
from geotfr.pipeline.executors.on_dask import dask_engine
from geotfr.pipeline.export.parts import distribute
from geotfr.pipeline.ingest.parts import distribute as ingest_distribute

pytestmark = [
    pytest.mark.interop,
    # distributed leaves sockets to the garbage collector when a scheduler goes.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

distributed = pytest.importorskip("distributed")

GIVEN: dict[str, Any] = {"patch_dimensions": 128, "max_file_size": "1MiB"}


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribute, "_TASK_BYTES", 2**20)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """768 x 1024 of two bands."""
    noise = np.random.default_rng(5).integers(0, 60, (2, 1024, 768)).astype("int16")
    return write_raster(tmp_path / "scene.tif", noise, tiled=True, blockxsize=128, blockysize=128)


@pytest.fixture
def expected(source: Path, tmp_path: Path) -> dict[str, bytes]:
    """The files of one thread's run; ``out`` is made beside them."""
    (tmp_path / "whole").mkdir()
    (tmp_path / "out").mkdir()
    geotfr.export_image(source, tmp_path / "whole" / "set", workers=1, **GIVEN)
    return contents(tmp_path / "whole")


@contextlib.contextmanager
def cluster(workers: int) -> Iterator[tuple[str, subprocess.Popen[bytes], list[subprocess.Popen[bytes]]]]:
    """(address, scheduler, workers), each a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port), "--no-dashboard", "--no-show"], **silent
    )
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard"]
    started = [subprocess.Popen([*command, "--no-nanny", "--death-timeout", "20"], **silent) for _ in range(workers)]
    try:
        with distributed.Client(address, timeout=30) as client:
            client.wait_for_workers(workers, timeout=60)
        yield address, scheduler, started
    finally:
        for process in (*started, scheduler):
            process.kill()
            process.wait()


def test_a_cluster_of_the_runs_own(source: Path, expected: dict[str, bytes], tmp_path: Path) -> None:
    told = run_apart(
        "export", source, "-o", tmp_path / "out" / "set", "--patch-dimensions", "128", "--max-file-size", "1MiB",
        "--executor", "dask", "--workers", "2", "--quiet",
    )  # fmt: skip
    assert (told.code, told.stderr) == (0, "")
    assert contents(tmp_path / "out") == expected


def test_workers_of_the_runs_own_cluster_keep_the_memory_that_is_free() -> None:
    with dask_engine(None, 1) as engine:
        found = engine.submit(lambda _: (os.getenv("MALLOC_TRIM_THRESHOLD_"), os.getenv("OMP_NUM_THREADS")), 0).result()
    # Only that one of dask's settings is left out.
    assert found == (None, "1")


def test_a_cluster_that_is_there_loses_a_worker_and_then_its_scheduler(
    source: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with cluster(2) as (address, scheduler, workers):
        geotfr.export_image(source, out / "set", scheduler=address, **GIVEN)
        assert contents(out) == expected

        # The progress is told when a part is done: then one of two workers is killed.
        def kill_worker(*_: object) -> None:
            if workers[0].poll() is None:
                os.kill(workers[0].pid, signal.SIGKILL)

        geotfr.export_image(source, out / "set", scheduler=address, overwrite=True, progress=kill_worker, **GIVEN)
        assert contents(out) == expected
        assert workers[0].wait() == -signal.SIGKILL

        def kill_scheduler(*_: object) -> None:
            if scheduler.poll() is None:
                os.kill(scheduler.pid, signal.SIGKILL)
                scheduler.wait()

        with pytest.raises(EngineLostError, match="--resume") as lost:
            geotfr.export_image(
                source, out / "set", scheduler=address, overwrite=True, progress=kill_scheduler, **GIVEN
            )
        assert lost.value.exit_code == 15
        # The old set is still there.
        assert {name: data for name, data in contents(out).items() if not name.startswith(".")} == expected
    result = geotfr.export_image(source, out / "set", executor="processes", resume=True, overwrite=True, **GIVEN)
    assert result.shards_resumed
    assert contents(out) == expected
    assert threading.active_count() < 20


def test_a_scheduler_that_is_not_there_is_told(source: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    told = run_apart(
        "export", source, "-o", tmp_path / "set", "--patch-dimensions", "128", "--scheduler", address, "--quiet"
    )
    assert told.code == 15
    (line,) = told.stderr.splitlines()
    assert address in line
    assert "continue with: geotfr export" in line
    assert "--resume" in line
    assert not [name for name in contents(tmp_path) if name.startswith((".", "set"))]


def test_an_ingest_on_a_cluster_loses_a_worker_and_then_its_scheduler(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_distribute, "_AREA_BYTES", 2**20)
    (tmp_path / "set").mkdir()
    (tmp_path / "out").mkdir()
    geotfr.export_image(source, tmp_path / "set" / "p", feature_kinds="native", **GIVEN)
    geotfr.ingest_predictions(tmp_path / "set", (), tmp_path / "one.tif", creation_options=("BLOCKYSIZE=128",))
    expected, target = (tmp_path / "one.tif").read_bytes(), tmp_path / "out" / "map.tif"
    given: dict[str, Any] = {"creation_options": ("BLOCKYSIZE=128",), "overwrite": True}
    with cluster(2) as (address, scheduler, workers):

        def kill_worker(*_: object) -> None:
            if workers[0].poll() is None:
                os.kill(workers[0].pid, signal.SIGKILL)

        geotfr.ingest_predictions(tmp_path / "set", (), target, scheduler=address, progress=kill_worker, **given)
        assert contents(tmp_path / "out") == {"map.tif": expected}
        assert workers[0].wait() == -signal.SIGKILL

        def kill_scheduler(*_: object) -> None:
            if scheduler.poll() is None:
                os.kill(scheduler.pid, signal.SIGKILL)
                scheduler.wait()

        with pytest.raises(EngineLostError, match="run it again"):
            geotfr.ingest_predictions(tmp_path / "set", (), target, scheduler=address, progress=kill_scheduler, **given)
    # The older raster stays as it was.
    assert contents(tmp_path / "out") == {"map.tif": expected}


@pytest.mark.parametrize("given", ["executor", "scheduler"])
def test_a_client_does_the_work_and_stays_open(source: Path, expected: dict[str, bytes], given: str) -> None:
    out = source.parent / "out"
    with distributed.Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as client:
        result = geotfr.export_image(source, out / "set", **{given: client}, **GIVEN)
        assert contents(out) == expected
        geotfr.ingest_predictions(result.mixer, result.shards, out / "map.tif", **{given: client})
        geotfr.ingest_predictions(result.mixer, result.shards, out / "one.tif")
        assert client.submit(abs, -1).result() == 1
    assert (out / "map.tif").read_bytes() == (out / "one.tif").read_bytes()


def test_a_client_that_cannot_work_is_refused(source: Path) -> None:
    out = source.parent / "out"
    out.mkdir()
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            with pytest.raises(EngineLostError, match="no worker"):
                geotfr.export_image(source, out / "set", executor=client, **GIVEN)
            for wrong in ({"executor": client, "scheduler": client}, {"executor": "threads", "scheduler": client}):
                with pytest.raises(geotfr.UsageError, match="scheduler"):
                    geotfr.export_image(source, out / "set", **wrong, **GIVEN)
        with pytest.raises(EngineLostError, match="no worker"):
            geotfr.export_image(source, out / "set", scheduler=cluster, **GIVEN)
        for wrong in ({"executor": cluster}, {"scheduler": 8786}):
            with pytest.raises(geotfr.UsageError, match="client"):
                geotfr.export_image(source, out / "set", **wrong, **GIVEN)
    with pytest.raises(EngineLostError, match="closed"):
        geotfr.export_image(source, out / "set", scheduler=client, **GIVEN)
    assert not list(out.iterdir())

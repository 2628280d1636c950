"""Parts, executors and resuming with an output in a store: a server of S3, processes, kills, storms."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.rasters import write_raster
from oracle.run import Outcome, assert_refused, contents, run
from oracle.store import Fault, Shop

import geotfr
from geotfr.pipeline.export.parts import distribute
from geotfr.storage.remote import Store, StoreAddress, StoreLock
from geotfr.stores.path import StorePath

pytestmark = pytest.mark.interop

OUT = "s3://sets/a/scene"
GIVEN = ("--patch-dimensions", "32", "--kernel-size", "4", "--max-file-size", "40000", "--quiet")
NATIVE = ("--feature-kinds", "native")


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where outputs are made before they are sent, for other processes too."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setenv("GEOTFR_RETRY_SECONDS", "0.3")
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """224 x 448 of two bands: 7 x 14 patches."""
    noise = np.random.default_rng(5).integers(0, 60, (2, 448, 224)).astype("int16")
    return write_raster(tmp_path / "scene.tif", noise, tiled=True, blockxsize=32, blockysize=32)


def whole_of(source: Path, *more: str) -> dict[str, bytes]:
    """The files of one run into a folder, by their keys in the store."""
    folder = source.parent / "whole"
    folder.mkdir()
    assert run("export", source, "-o", folder / "scene", *GIVEN, *more).code == 0
    return {f"a/{name}": data for name, data in contents(folder).items()}


def export(source: Path, *more: object) -> Outcome:
    return run("export", source, "-o", OUT, *GIVEN, *more)


def started(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "geotfr_cli", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def refusing(shop: Shop, word: str) -> threading.Event:
    """Let the store refuse to take objects whose names hold ``word``; set when one was tried."""
    tried = threading.Event()

    def fault(request: str) -> Fault:
        if request.startswith("PUT") and word in request:
            tried.set()
            return 503
        return None

    shop.fault = fault
    return tried


@pytest.mark.parametrize("more", [(), NATIVE], ids=["float", "native"])
def test_parts_of_processes_with_folders_of_their_own_make_the_objects_of_one_run(
    shop: Shop, source: Path, more: tuple[str, ...]
) -> None:
    expected = whole_of(source, *more)
    parts = [started("export", source, "-o", OUT, *GIVEN, *more, "--split", f"{number}/3") for number in (2, 0, 1)]
    for part in parts:
        assert part.communicate()[1] == ""
        assert part.returncode == 0
    assert all(key.startswith("a/.") for key in shop.objects())
    outcome = run("finalize", OUT, "--quiet")
    assert outcome.code == 0, outcome.told
    assert shop.objects() == expected
    assert shop.unfinished() == 0


def test_a_missing_part_a_second_finalize_and_parts_made_otherwise(shop: Shop, source: Path) -> None:
    expected = whole_of(source)
    assert export(source, "--split", "0/2").code == 0
    assert_refused(run("finalize", OUT), 10, "1 of 2 parts", "missing: 1")
    assert export(source, "--split", "1/2", "--default-value", "7").code == 0
    assert_refused(run("finalize", OUT), 2, "parts 1 were made otherwise")
    assert export(source, "--split", "1/2").code == 0
    with StoreLock(Store(StoreAddress.of_folder("s3://sets/a")), StorePath("s3://sets/a/scene")):
        assert_refused(run("finalize", OUT), 11, "is writing this set")
        assert_refused(export(source, "--split", "1/2"), 11, "is writing this set")
    both = [started("finalize", OUT, "--quiet") for _ in range(2)]
    told = [each.communicate()[1] for each in both]
    codes = [each.returncode for each in both]
    assert codes.count(0) == 1, told
    # The other one came while the first worked, or when it had ended.
    assert set(codes) - {0} <= {10, 11, 14}, told
    assert shop.objects() == expected


def test_the_same_part_twice_at_once_does_no_harm(shop: Shop, source: Path) -> None:
    expected = whole_of(source)
    parts = [started("export", source, "-o", OUT, *GIVEN, "--split", f"{number}/2") for number in (0, 0, 1)]
    told = [each.communicate()[1] for each in parts]
    codes = [each.returncode for each in parts]
    assert codes[2] == 0, told
    assert set(codes[:2]) <= {0, 11}, told
    assert 0 in codes[:2], told
    assert run("finalize", OUT, "--quiet").code == 0
    assert shop.objects() == expected


@pytest.mark.parametrize("fault", [503, "cut"])
def test_a_storm_stops_a_part_or_a_finalize_with_one_line_and_a_later_run_completes(
    shop: Shop, source: Path, scratch: Path, fault: Any
) -> None:
    expected = whole_of(source)
    shop.fault = lambda request: fault if request.startswith("PUT") and "00001.tmp" in request else None
    assert_refused(export(source, "--split", "0/2", "--resume"), 14, "s3://sets/a/.geotfr-", "run again")
    assert list(scratch.iterdir()) == []
    shop.fault = None
    assert export(source, "--split", "0/2", "--resume").code == 0
    assert export(source, "--split", "1/2").code == 0
    shop.fault = lambda request: fault if request.startswith("PUT") and "scene-00002" in request else None
    assert_refused(run("finalize", OUT, "--quiet"), 14, "s3://sets/a/scene-00002.tfrecord.gz", "run again")
    assert not [key for key in shop.objects() if key.endswith(".json")]
    shop.fault = None
    assert run("finalize", OUT, "--quiet").code == 0
    assert shop.objects() == expected
    assert list(scratch.iterdir()) == []


def test_a_storm_while_parts_are_read_is_told(shop: Shop, source: Path) -> None:
    expected = whole_of(source, *NATIVE)
    for number in range(2):
        assert export(source, *NATIVE, "--split", f"{number}/2").code == 0
    shop.fault = lambda request: 503 if request.startswith("GET") and ".part-1-of-2" in request else None
    assert_refused(run("finalize", OUT, "--quiet"), {10, 14}, "s3://sets/a/.geotfr-", "run again")
    shop.fault = None
    assert run("finalize", OUT, "--quiet").code == 0
    assert shop.objects() == expected


def test_a_killed_part_is_run_again_at_once_and_its_folder_goes(
    shop: Shop, source: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = whole_of(source)
    monkeypatch.setenv("GEOTFR_RETRY_SECONDS", "60")
    tried = refusing(shop, "00001.tmp")
    part = started("export", source, "-o", OUT, *GIVEN, "--split", "0/2", "--resume")
    assert tried.wait(60)
    part.kill()
    part.communicate()
    assert len(list(scratch.iterdir())) == 1
    assert any(key.endswith(".lock") for key in shop.objects())
    shop.fault = None
    outcome = export(source, "--split", "0/2", "--resume", "--json")
    assert outcome.code == 0, outcome.told
    assert '"files_resumed": 1' in outcome.stdout
    assert list(scratch.iterdir()) == []
    assert export(source, "--split", "1/2").code == 0
    assert run("finalize", OUT, "--quiet").code == 0
    assert shop.objects() == expected


@pytest.mark.parametrize("more", [("--executor", "processes"), ("--executor", "dask"), NATIVE], ids=str)
def test_an_executor_makes_the_objects_of_one_run(shop: Shop, source: Path, more: tuple[str, ...]) -> None:
    if "dask" in more:
        pytest.importorskip("distributed")
    kinds = NATIVE if more == NATIVE else ()
    expected = whole_of(source, *kinds)
    executor = more if not kinds else ("--executor", "processes")
    outcome = export(source, *kinds, *executor, "--workers", "2")
    assert outcome.code == 0, outcome.told
    assert shop.objects() == expected


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
def test_a_killed_worker_is_replaced_and_nothing_is_left(
    shop: Shop, source: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(distribute, "_TASK_BYTES", 80_000)
    monkeypatch.setenv("GEOTFR_RETRY_SECONDS", "20")
    expected = whole_of(source)
    chance, ended = random.Random(seed), threading.Event()

    def kill() -> None:
        killed = 0
        while killed < 1 + seed % 3 and not ended.wait(chance.uniform(0.2, 2)):
            children = multiprocessing.active_children()
            if children:
                os.kill(chance.choice(children).pid or 0, signal.SIGKILL)
                killed += 1

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    geotfr.export_image(
        source,
        OUT,
        patch_dimensions=32,
        kernel_size=4,
        max_file_size=40000,
        executor="processes",
        workers=2,
        overwrite=True,
    )
    ended.set()
    killer.join()
    assert shop.objects() == expected


def test_a_run_goes_on_in_the_store_after_a_kill(
    shop: Shop, source: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = whole_of(source)
    monkeypatch.setenv("GEOTFR_RETRY_SECONDS", "60")
    tried = refusing(shop, "00003.tmp")
    killed = started("export", source, "-o", OUT, *GIVEN, "--resume")
    assert tried.wait(60)
    # The run waits for the store, with no more than three files of this machine.
    assert sum(path.name.endswith(".tmp") for path in scratch.glob("*/*")) <= 3
    killed.kill()
    killed.communicate()
    shop.fault = None
    outcome = export(source, "--resume", "--json")
    assert outcome.code == 0, outcome.told
    assert '"shards_resumed": 3' in outcome.stdout
    assert shop.objects() == expected
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_at_once_and_it_goes_on(
    shop: Shop, source: Path, stop: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = whole_of(source)
    monkeypatch.setenv("GEOTFR_RETRY_SECONDS", "60")
    tried = refusing(shop, "00003.tmp")
    running = started("export", source, "-o", OUT, *GIVEN, "--resume")
    assert tried.wait(60)
    running.send_signal(stop)
    # It doesn't wait for the store, which it would for a minute.
    running.communicate(timeout=20)
    assert running.returncode == 128 + stop
    shop.fault = None
    assert export(source, "--resume").code == 0
    assert shop.objects() == expected


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("word", ["scene-00003", ".lock"])
def test_a_signal_ends_a_run_that_waits_for_a_store_out_of_reach(
    shop: Shop, source: Path, stop: signal.Signals, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = whole_of(source)
    monkeypatch.setenv("GEOTFR_RETRY_SECONDS", "60")
    tried = threading.Event()
    is_out = threading.Event()

    def fault(request: str) -> Fault:
        if request.startswith("PUT") and word in request:
            is_out.set()
            tried.set()
        return 503 if is_out.is_set() else None

    shop.fault = fault
    running = started("export", source, "-o", OUT, *GIVEN)
    assert tried.wait(60)
    running.send_signal(stop)
    # It doesn't wait for the store, which it would for a minute.
    running.communicate(timeout=20)
    assert running.returncode == 128 + stop
    shop.fault = None
    assert export(source).code == 0
    assert shop.objects() == expected


def test_large_shards_go_in_parts_and_are_known_again_as_copies(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("geotfr.storage.remote.digest.PART_BYTES", 5 << 20)
    source = write_raster(tmp_path / "large.tif", np.random.default_rng(5).random((1, 2048, 2304), np.float32))
    (tmp_path / "whole").mkdir()
    given: dict[str, Any] = {"patch_dimensions": 256, "max_file_size": 9 << 20, "compressed": False}
    geotfr.export_image(source, tmp_path / "whole" / "scene", **given)
    expected = {f"a/{name}": data for name, data in contents(tmp_path / "whole").items()}
    for number in range(2):
        assert geotfr.export_part(source, OUT, split=(number, 2), **given).files
    assert any("partNumber=2" in path for _, path in shop.asked)
    shop.fault = lambda request: 503 if request.startswith("PUT") and "scene-00001" in request else None
    assert_refused(run("finalize", OUT, "--quiet"), 14, "scene-00001.tfrecord", "run again")
    shop.fault = None
    assert run("finalize", OUT, "--quiet").code == 0
    assert shop.objects() == expected
    # What lacks a manifest is the rest of a run: shards with the same bytes stay, though their ETags are of copies.
    for name in ("scene-manifest.json", "scene-mixer.json"):
        shop.request("DELETE", f"/sets/a/{name}")
    shop.asked.clear()
    geotfr.export_image(source, OUT, **given)
    assert set(shop.sent()) == {"scene-manifest.json", "scene-mixer.json"}
    geotfr.export_image(source, OUT, **given, overwrite=True, resume=True)
    assert shop.objects() == expected
    assert shop.unfinished() == 0


def test_the_slurm_array_goes_to_a_store(shop: Shop, source: Path, tmp_path: Path) -> None:
    expected = whole_of(source)
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "geotfr"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m geotfr_cli "$@"\n')
    command.chmod(0o755)
    script = Path(__file__).resolve().parents[3] / "examples" / "cluster" / "export.slurm"
    array = {"PATH": f"{command.parent}:{os.environ['PATH']}", "SLURM_ARRAY_TASK_COUNT": "2"}
    # The second one is queued again when it is done.
    for number in (1, 0, 1):
        subprocess.run(
            ["bash", script, source, OUT, *GIVEN],
            env={**os.environ, **array, "SLURM_ARRAY_TASK_ID": str(number)},
            check=True,
            capture_output=True,
        )
    assert run("finalize", OUT, "--quiet").code == 0
    assert shop.objects() == expected


def test_a_bucket_that_is_not_there_and_missing_credentials_are_told_before_any_work(
    shop: Shop, source: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("export", source, "-o", "s3://elsewhere/a/scene", *GIVEN)
    for more in (("--split", "0/2"), ("--resume",), ("--executor", "processes")):
        assert_refused(run(*words, *more), 14, "s3://elsewhere/a", "bucket isn't there")
    assert_refused(run("finalize", "s3://elsewhere/a/scene"), 14, "s3://elsewhere/a", "bucket isn't there")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    for more in (("--split", "0/2"), ("--resume",), ("--executor", "processes")):
        assert_refused(export(source, *more), 14, "no credentials", "AWS_ACCESS_KEY_ID")
    assert_refused(run("finalize", OUT), 14, "no credentials", "AWS_ACCESS_KEY_ID")
    assert shop.objects() == {}
    assert list(scratch.iterdir()) == []

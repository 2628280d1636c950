"""Ctrl-C and SIGTERM at random moments: the right exit code, nothing half at a final name, and --resume works."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from oracle.rasters import write_raster
from oracle.run import contents

LIMIT_S = 2.0
"""A run that takes longer to go is killed, and the test fails by the exit code. Where more processes want to run than
there are cores, each gets its share of them only, and the limit is as much longer."""
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


@pytest.mark.parametrize("times", [3, pytest.param(200, marks=pytest.mark.slow)])
def test_a_signal_at_any_time_ends_the_run_and_resume_continues_it(
    times: int, tmp_path: Path, count: Callable[[str, int], None]
) -> None:
    chance = random.Random(times)
    noise = np.random.default_rng(1).normal(0, 1, (3, 700, 700)).astype("float32")
    source = write_raster(tmp_path / "scene.tif", noise, tiled=True, blockxsize=64, blockysize=64)
    command = [sys.executable, "-m", "geotfr_cli", "export", source, "--patch-dimensions", "16", "--kernel-size", "16"]
    command += ["--max-file-size", "300000", "--quiet", "--resume", "-o"]
    folder = tmp_path / "whole"
    folder.mkdir()
    # How long the work takes here and now, from the lock to the end: signals fall into that time.
    run = subprocess.Popen([*command, folder / "set"])
    while run.poll() is None and not any(folder.iterdir()):
        threading.Event().wait(0.005)
    started = time.monotonic()
    assert run.wait() == 0
    span = time.monotonic() - started
    whole = contents(folder)
    stopped = 0
    for number in range(times):
        out = tmp_path / f"out-{number}"
        out.mkdir()
        number_sent = chance.choice(list(CODES))
        run = subprocess.Popen([*command, out / "set"], stderr=subprocess.PIPE, text=True)
        # Begin when the run has taken its lock, or ended: a signal before Python is up has no handler.
        waiting = threading.Event()
        while run.poll() is None and not any(out.iterdir()):
            waiting.wait(0.01)
        # Most in its first half, where few runs are done before the signal comes.
        waiting.wait(chance.uniform(0, span * chance.choice((0.5, 0.5, 0.5, 1))))
        run.send_signal(number_sent)
        try:
            _, told = run.communicate(timeout=LIMIT_S * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))
        except subprocess.TimeoutExpired:
            run.kill()
            _, told = run.communicate()
        # A negative code is the signal's own: Python was leaving, and the set is whole.
        assert run.returncode in (CODES[number_sent], 0, -number_sent), (run.returncode, told)
        shown = {name: content for name, content in contents(out).items() if not name.startswith(".")}
        assert all(whole.get(name) == content for name, content in shown.items())
        if run.returncode > 0:
            stopped += 1
            assert len([line for line in told.splitlines() if line]) == 1, told
            # The signal may have come between the last name and the end of the process, or the journal's.
            if contents(out) != whole:
                subprocess.run([*command, out / "set"], check=True)
        assert contents(out) == whole
        for path in out.iterdir():
            os.unlink(path)  # noqa: PTH108
    count("signals sent", times)
    count("signals that stopped a run in time", stopped)
    assert stopped >= times // 3, "most signals came when the run was done"


@pytest.mark.parametrize("times", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_a_signal_from_the_first_moment_of_an_import_is_never_lost(
    times: int, tmp_path: Path, count: Callable[[str, int], None]
) -> None:
    """Most of its first second a run loads libraries, which drop exceptions or make others of them."""
    chance = random.Random(times)
    source = write_raster(tmp_path / "scene.tif", np.arange(3 * 160 * 160, dtype="float32").reshape(3, 160, 160))
    command = [sys.executable, "-m", "geotfr_cli"]
    export = [*command, "export", source, "--patch-dimensions", "16", "--quiet", "-o", tmp_path / "set"]
    subprocess.run(export, check=True)
    command += ["ingest-predictions", tmp_path / "set.json", tmp_path / "set.tfrecord.gz", "--quiet", "-o"]
    started = time.monotonic()
    subprocess.run([*command, tmp_path / "whole.tif"], check=True)
    span = time.monotonic() - started
    stopped = 0
    for number in range(times):
        out = tmp_path / f"out-{number}" / "raster.tif"
        out.parent.mkdir()
        sent = chance.choice(list(CODES))
        run = subprocess.Popen([*command, out], stderr=subprocess.PIPE, text=True)
        threading.Event().wait(chance.uniform(0, min(1.0, span)))
        was_done = out.exists()
        run.send_signal(sent)
        try:
            _, told = run.communicate(timeout=LIMIT_S * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))
        except subprocess.TimeoutExpired:
            run.kill()
            _, told = run.communicate()
        # A negative code: Python was not up yet, or leaving. An early SIGINT is Python's fatal error, code 1.
        if not (was_done and run.returncode == 0) and "Fatal Python error: init_" not in told:
            assert run.returncode in (CODES[sent], -sent), (run.returncode, told)
            stopped += 1
        assert "ignored" not in told
        # A lock may be left where the signal came just as it was made; it hinders nobody.
        assert [name for name in contents(out.parent) if not name.startswith(".")] in ([], ["raster.tif"])
    count("signals sent to an import that starts", times)
    assert stopped >= times // 2


SWALLOWING = """
import os, sys, threading, weakref
from geotfr_cli import main
def signalled(*_):
    os.kill(os.getpid(), int(sys.argv[1]))
    threading.Event().wait(60)
class Thing:
    pass
def in_a_callback(**_):
    thing = Thing()
    seen = weakref.ref(thing, signalled)
    del thing
    threading.Event().wait(60)
def in_a_library(**_):
    try:
        signalled()
    except BaseException:
        raise ImportError("multiarray failed to import") from None
main.cli.main = locals()[sys.argv[2]]
main.main(["export"])
"""


@pytest.mark.parametrize("number", list(CODES))
@pytest.mark.parametrize("where", ["in_a_callback", "in_a_library"])
def test_a_signal_whose_exception_is_dropped_or_changed_ends_the_run_by_its_code(number: int, where: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SWALLOWING, str(int(number)), where],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == CODES[signal.Signals(number)], done.stderr
    assert done.stderr.count("\n") == 1
    assert "no file at a final name is half written" in done.stderr


CRASHING = """
import atexit, os, sys, threading
from geotfr_cli import main
atexit.register(os.abort)
def stopped(**_):
    os.kill(os.getpid(), int(sys.argv[1]))
    threading.Event().wait(60)
main.cli.main = stopped
main.main(["export"])
"""


@pytest.mark.parametrize("number", list(CODES))
def test_the_exit_code_is_kept_where_python_would_crash_on_its_way_out(number: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CRASHING, str(int(number))], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == CODES[signal.Signals(number)]
    assert done.stderr.count("\n") == 1
    assert "no file at a final name is half written" in done.stderr

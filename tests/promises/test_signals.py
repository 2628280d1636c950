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
            # A manifest means a whole set: the signal came between the last name and the end of the process.
            if "set-manifest.json" not in shown:
                subprocess.run([*command, out / "set"], check=True)
        assert contents(out) == whole
        for path in out.iterdir():
            os.unlink(path)  # noqa: PTH108
    count("signals sent", times)
    count("signals that stopped a run in time", stopped)
    assert stopped >= times // 3, "most signals came when the run was done"


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

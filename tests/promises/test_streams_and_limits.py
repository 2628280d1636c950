"""Closed streams, a reader that goes away, little address space: a clear end with the right exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from oracle.rasters import write_raster

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shells of Linux")

EXPORT = "export scene.tif -o set --patch-dimensions 8 --overwrite"
GEOTFR = f"'{sys.executable}' -m geotfr_cli"


@pytest.fixture(autouse=True)
def scene(tmp_path: Path) -> None:
    write_raster(tmp_path / "scene.tif", np.ones((1, 32, 32), np.uint8))


def shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("command", "streams", "code"),
    [
        (EXPORT, "2>&-", 0),
        (EXPORT, ">&-", 14),
        (EXPORT, "<&- >&- 2>&-", 14),
        (f"{EXPORT} --quiet", "<&- >&- 2>&-", 0),
        (f"{EXPORT} --json", "2>/dev/full", 0),
        (EXPORT, ">/dev/full", 14),
        ("inspect missing.tfrecord", "2>&-", 10),
        ("inspect missing.tfrecord", ">&- 2>&-", 10),
        ("inspect missing.tfrecord", "2>/dev/full", 10),
        ("--version", ">/dev/full", 14),
    ],
)
def test_a_stream_that_is_closed_or_full_changes_no_exit_code_but_its_own(
    tmp_path: Path, command: str, streams: str, code: int
) -> None:
    done = shell(tmp_path, f"{GEOTFR} {command} {streams}")
    assert done.returncode == code
    assert "Traceback" not in done.stdout + done.stderr
    if command.startswith(EXPORT) and code in (0, 14):
        checked = shell(tmp_path, f"{GEOTFR} verify set-manifest.json")
        assert checked.returncode == 0, checked.stderr


def test_a_reader_that_went_away_is_no_fault_of_geotfr(tmp_path: Path) -> None:
    done = shell(tmp_path, f"set -o pipefail; {GEOTFR} --help | true")
    assert done.returncode in (0, 14)
    assert not done.stderr


@pytest.mark.parametrize("kib", [60_000, 200_000, 230_000, pytest.param(400_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("command", [EXPORT, "inspect missing.tfrecord"])
def test_little_address_space_ends_in_one_line(tmp_path: Path, kib: int, command: str) -> None:
    done = shell(tmp_path, f"ulimit -c 0; ulimit -v {kib}; {GEOTFR} {command}")
    # Below what the interpreter itself needs, it or the loader tells it.
    assert done.returncode in ((0, 10, 13) if kib > 150_000 else (0, 1, 10, 13, 127))
    assert "Traceback" not in done.stdout + done.stderr or kib < 150_000

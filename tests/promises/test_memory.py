"""Memory has a ceiling that the plan tells, whatever the raster's size; what can't keep it is refused before work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import rasterio
from oracle.run import assert_refused, run

import geotfr

MIB = 2**20
# The peak of the process itself: what getrusage tells begins with the parent's.
PEAK = """
import re, sys
from pathlib import Path
import geotfr
geotfr.export_image(sys.argv[1], sys.argv[2], patch_dimensions=256, kernel_size=64, memory_limit=int(sys.argv[3]),
                    workers=int(sys.argv[4]))
print(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize("times", [2, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_raster_many_times_the_limit_keeps_to_the_plan(times: int, workers: int, tmp_path: Path) -> None:
    limit = 224 * MIB
    width = 16384
    # Sparse: blocks that were never written take no space, and read as zeros.
    with rasterio.open(
        tmp_path / "sparse.tif",
        "w",
        driver="GTiff",
        width=width,
        height=times * limit // (8 * width),
        count=1,
        dtype="float64",
        tiled=True,
        blockxsize=256,
        blockysize=256,
        sparse_ok=True,
        bigtiff="YES",
        crs="EPSG:32633",
        transform=rasterio.Affine(10, 0, 0, 0, -10, 0),
    ):
        pass
    given = {"patch_dimensions": 256, "kernel_size": 64, "workers": workers}
    planned = geotfr.plan_export(tmp_path / "sparse.tif", memory_limit=limit, **given).memory_bytes
    assert planned <= limit
    done = subprocess.run(
        [sys.executable, "-c", PEAK, tmp_path / "sparse.tif", tmp_path / "set", str(limit), str(workers)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    peak = int(done.stdout) * 1024
    print(f"planned {planned / MIB:.0f} MiB, peak {peak / MIB:.0f} MiB")
    assert peak <= planned + 64 * MIB


def test_running_out_of_memory_is_one_line_and_exit_13(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*args: object, **more: object) -> None:
        raise MemoryError("Unable to allocate 1. TiB")

    monkeypatch.setattr("geotfr.pipeline.export.run.export_image", exhausted)
    words = ("export", "x.tif", "-o", tmp_path / "set", "--patch-dimensions", "8")
    assert_refused(run(*words), 13, "out of memory", "--memory-limit")

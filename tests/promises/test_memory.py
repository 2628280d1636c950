"""Memory has a ceiling that the plan tells, whatever the raster's size; what can't keep it is refused before work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rasterio
from oracle.memory import PEAK_MIB
from oracle.rasters import write_raster
from oracle.run import assert_refused, run

import geotfr

MIB = 2**20
# The peak of the process itself: what getrusage tells begins with the parent's.
PEAK = """
import json, re, sys
from pathlib import Path
import geotfr
geotfr.export_image(sys.argv[1], sys.argv[2], memory_limit=int(sys.argv[3]), **json.loads(sys.argv[4]))
print(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""

PREDICTED = (
    PEAK_MIB
    + """
import sys
import geotfr
options = {"overlap": sys.argv[3]} if sys.argv[2].endswith(".tif") else {}
geotfr.predict(lambda batch: batch, sys.argv[1], sys.argv[2], patch_dimensions=256, kernel_size=64, batch_size=16,
               workers=2, **options)
print(peak_mib())
"""
)


def sparse_raster(path: Path, shape_yx: tuple[int, int], dtype: str) -> Path:
    """A raster of blocks that were never written: they take no space, and read as zeros."""
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        width=shape_yx[1],
        height=shape_yx[0],
        count=1,
        dtype=dtype,
        tiled=True,
        blockxsize=256,
        blockysize=256,
        sparse_ok=True,
        bigtiff="YES",
        crs="EPSG:32633",
        transform=rasterio.Affine(10, 0, 0, 0, -10, 0),
    ):
        pass
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize("times", [2, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_raster_many_times_the_limit_keeps_to_the_plan(times: int, workers: int, tmp_path: Path) -> None:
    limit = 224 * MIB
    width = 16384
    sparse_raster(tmp_path / "sparse.tif", (times * limit // (8 * width), width), "float64")
    given = {"patch_dimensions": 256, "kernel_size": 64, "workers": workers}
    planned = geotfr.plan_export(tmp_path / "sparse.tif", memory_limit=limit, **given).memory_bytes
    assert planned <= limit
    done = subprocess.run(
        [sys.executable, "-c", PEAK, tmp_path / "sparse.tif", tmp_path / "set", str(limit), json.dumps(given)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    peak = int(done.stdout) * 1024
    print(f"planned {planned / MIB:.0f} MiB, peak {peak / MIB:.0f} MiB")
    assert peak <= planned + 64 * MIB


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize(
    ("dtype", "low", "high", "more"),
    [
        ("uint16", 0, 2**16 - 1, {}),
        ("int16", -(2**15), -1, {}),
        pytest.param("uint16", 0, 2**16 - 1, {"valid_feature": "valid"}, marks=pytest.mark.slow),
    ],
)
def test_the_plan_of_huge_native_patches_is_near_to_the_peak(
    dtype: str, low: int, high: int, more: dict[str, str], tmp_path: Path
) -> None:
    side = 1500 if dtype == "uint16" else 1000
    values = np.random.default_rng(0).integers(low, high, (2, 3 * side, 4 * side), dtype=dtype)
    source = write_raster(tmp_path / "scene.tif", values, tiled=True)
    given = {"patch_dimensions": side, "feature_kinds": "native", "workers": 2, **more}
    planned = geotfr.plan_export(source, **given).memory_bytes
    done = subprocess.run(
        [sys.executable, "-c", PEAK, source, tmp_path / "set", str(planned), json.dumps(given)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    peak = int(done.stdout) * 1024
    print(f"planned {planned / MIB:.0f} MiB, peak {peak / MIB:.0f} MiB")
    assert peak <= planned + 64 * MIB
    assert planned <= 1.7 * peak


@pytest.mark.parametrize(
    ("output", "overlap", "times"),
    [
        ("map.tif", "linear", 16),
        pytest.param("map.tif", "crop", 16, marks=pytest.mark.slow),
        pytest.param("map.tif", "linear", 64, marks=pytest.mark.slow),
        pytest.param("set", "crop", 64, marks=pytest.mark.slow),
    ],
)
def test_predict_takes_no_more_for_a_raster_many_times_as_high(
    output: str, overlap: str, times: int, tmp_path: Path
) -> None:
    peaks = {}
    for height in (2048, times * 2048):
        source = sparse_raster(tmp_path / f"{height}.tif", (height, 4096), "float32")
        target = tmp_path / str(height)
        target.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", PREDICTED, source, target / output, overlap],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        peaks[height] = int(done.stdout)
    least, most = peaks.values()
    print(f"peak {least} MiB of a raster of 32 MiB, {most} MiB of one of {times * 32} MiB")
    assert most <= least + 32
    assert most < times * 32


def test_running_out_of_memory_is_one_line_and_exit_13(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*args: object, **more: object) -> None:
        raise MemoryError("Unable to allocate 1. TiB")

    monkeypatch.setattr("geotfr.pipeline.export.run.export_image", exhausted)
    words = ("export", "x.tif", "-o", tmp_path / "set", "--patch-dimensions", "8")
    assert_refused(run(*words), 13, "out of memory", "--memory-limit")

"""GDAL's complaints reach who listens, and the log of who doesn't."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest
import rasterio
from oracle.rasters import NORTH_UP

from geotfr.rasters.complaints import Complaints, listening

PROFILE = {"driver": "GTiff", "width": 4, "height": 4, "count": 1, "dtype": "uint8", "transform": NORTH_UP}


def complain(path: Path, option: str) -> None:
    with rasterio.open(path, "w", **PROFILE, **{option: "1"}):
        pass


def test_who_listens_hears_it_and_the_log_does_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with listening() as complaints:
        complain(tmp_path / "x.tif", "NO_SUCH")
    assert len(complaints.warnings) == 1
    assert "NO_SUCH" in complaints.warnings[0]
    assert complaints.errors == []
    assert not caplog.records
    complain(tmp_path / "x.tif", "NEITHER")
    assert "NEITHER" in caplog.text
    assert len(complaints.warnings) == 1


def test_threads_hear_their_own(tmp_path: Path) -> None:
    heard: dict[str, Complaints] = {}
    gate = threading.Barrier(2)

    def run(name: str) -> None:
        with listening() as complaints:
            gate.wait()
            complain(tmp_path / f"{name}.tif", name)
            gate.wait()
        heard[name] = complaints

    threads = [threading.Thread(target=run, args=(name,)) for name in ("ONE", "TWO")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, other in (("ONE", "TWO"), ("TWO", "ONE")):
        assert name in "".join(heard[name].warnings)
        assert other not in "".join(heard[name].warnings)


def test_the_log_keeps_its_level_for_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with listening():
        pass
    logger = logging.getLogger("rasterio._env")
    logger.info("nobody asked for this")
    assert not caplog.records
    with caplog.at_level(logging.INFO, "rasterio"):
        logger.info("but for this")
    assert "but for this" in caplog.text

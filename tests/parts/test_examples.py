"""The cluster examples make the files of one run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from oracle.rasters import write_raster
from oracle.run import contents

import geotfr

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "cluster"


@pytest.fixture
def world(tmp_path: Path) -> dict[str, str]:
    """A raster, the set of one run, a folder for that of the parts, and an environment with ``geotfr`` in its path."""
    write_raster(tmp_path / "scene.tif", np.arange(64 * 48, dtype="float32").reshape(64, 48))
    for name in ("whole", "patches", "bin"):
        (tmp_path / name).mkdir()
    geotfr.export_image(tmp_path / "scene.tif", tmp_path / "whole" / "scene", patch_dimensions=16, max_file_size=5000)
    command = tmp_path / "bin" / "geotfr"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m geotfr_cli "$@"\n')
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"}


OPTIONS = "--patch-dimensions 16 --max-file-size 5000"


@pytest.mark.skipif(shutil.which("make") is None, reason="make is absent")
def test_the_makefile(world: dict[str, str], tmp_path: Path) -> None:
    command = ["make", "-s", "-j2", "-f", EXAMPLES / "Makefile", "PARTS=3", f"OPTIONS={OPTIONS}"]
    subprocess.run(command, cwd=tmp_path, env=world, check=True, capture_output=True)
    assert contents(tmp_path / "patches") == contents(tmp_path / "whole")


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is absent")
def test_the_slurm_array(world: dict[str, str], tmp_path: Path) -> None:
    for number in (1, 0):
        subprocess.run(
            ["bash", EXAMPLES / "export.slurm", "scene.tif", "patches/scene", *OPTIONS.split()],
            cwd=tmp_path,
            env={**world, "SLURM_ARRAY_TASK_ID": str(number), "SLURM_ARRAY_TASK_COUNT": "2"},
            check=True,
            capture_output=True,
        )
    geotfr.finalize_export(tmp_path / "patches" / "scene")
    assert contents(tmp_path / "patches") == contents(tmp_path / "whole")

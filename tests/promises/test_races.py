"""Several exporters of one prefix: one works, the others stop with exit 11 and touch nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from oracle.rasters import write_raster
from oracle.run import contents

import geotfr


@pytest.mark.parametrize(
    "racers", [3, *(pytest.param(racers, marks=pytest.mark.slow) for racers in range(2, 9) for _ in range(4))]
)
def test_one_of_several_exporters_works_and_the_others_exit_with_11(
    racers: int, tmp_path: Path, count: Callable[[str, int], None]
) -> None:
    noise = np.random.default_rng(1).normal(0, 1, (2, 400, 400)).astype("float32")
    source = write_raster(tmp_path / "scene.tif", noise)
    out, whole = tmp_path / "out", tmp_path / "whole"
    out.mkdir()
    whole.mkdir()
    command = [sys.executable, "-m", "geotfr_cli", "export", source, "-o", out / "set", "--patch-dimensions", "8"]
    runs = [
        subprocess.Popen([*command, "--workers", "1", "--quiet"], stderr=subprocess.PIPE, text=True)
        for _ in range(racers)
    ]
    told = [run.communicate()[1] for run in runs]
    codes = [run.returncode for run in runs]
    # Who comes when the first one is done finds its files: exit 14, and the flag that would replace them.
    count("processes that raced for one set", racers)
    assert codes.count(0) == 1, told
    for code, words in zip(codes, told, strict=True):
        assert code in (0, 11, 14)
        assert code == 0 or len(words.splitlines()) == 1
        assert code != 11 or "is writing it" in words
        assert code != 14 or "--overwrite" in words
    geotfr.export_image(source, whole / "set", patch_dimensions=8)
    assert contents(out) == contents(whole)

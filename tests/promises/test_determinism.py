"""The same input and options give the same bytes, wherever and however a run goes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from oracle.rasters import write_raster
from oracle.run import contents

import geotfr

KINDS = (
    (),
    ("--compressor", "ee"),
    ("--no-compressed",),
    ("--feature-kinds", "native", "--patch-index", "n"),
    ("--masked-threshold", "0.2"),
    ("--sequence-data",),
)


@pytest.mark.parametrize("runs", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_time_zone_locale_hash_seed_folder_workers_and_memory_never_show_in_the_bytes(
    runs: int, tmp_path: Path, count: Callable[[str, int], None]
) -> None:
    chance = random.Random(runs)
    noise = np.random.default_rng(2).integers(0, 9, (2, 300, 120)).astype("int16")
    source = write_raster(tmp_path / "scene.tif", noise, nodata=0, tiled=True, blockxsize=32, blockysize=16)
    wanted: dict[tuple[str, ...], dict[str, bytes]] = {}
    for number in range(runs):
        kind = chance.choice(KINDS)
        folder = tmp_path / f"{chance.choice(['a', 'ünï', 'with space', 'x' * 100])}-{number}"
        folder.mkdir()
        here = folder / source.name
        os.link(source, here)
        workers = chance.choice(["1", "2", "4"])
        subprocess.run(
            [
                *(sys.executable, "-m", "geotfr_cli", "export", here, "-o", folder / "set"),
                *("--patch-dimensions", "16", "--kernel-size", "5", "--max-file-size", "30000", "--quiet"),
                *("--workers", workers, *chance.choice([(), ("--memory-limit", "300MiB"), ("--resume",)]), *kind),
            ],
            env={
                **os.environ,
                "TZ": chance.choice(["UTC", "Asia/Kathmandu", "America/St_Johns"]),
                "LC_ALL": chance.choice(["C", "C.UTF-8", "de_DE.UTF-8", "tr_TR.UTF-8"]),
                "PYTHONHASHSEED": str(chance.randrange(2**32)),
            },
            cwd=chance.choice([tmp_path, folder]),
            check=True,
        )
        here.unlink()
        found = contents(folder)
        assert found == wanted.setdefault(kind, found)
    count("configurations with the same bytes", runs)
    # And not only as each other: as a run in this process.
    (tmp_path / "plain").mkdir()
    if () in wanted:
        geotfr.export_image(source, tmp_path / "plain" / "set", patch_dimensions=16, kernel_size=5, max_file_size=30000)
        assert contents(tmp_path / "plain") == wanted[()]

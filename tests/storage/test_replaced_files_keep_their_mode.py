"""Permissions of files that are replaced stay as they were."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from oracle.rasters import write_raster
from oracle.run import run

import geotfr

MODES = (0o600, 0o640, 0o664, 0o444)


@pytest.mark.parametrize("mode", MODES)
def test_every_file_of_a_set_that_is_replaced_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    for value in (1, 2):
        source = write_raster(tmp_path / "scene.tif", np.full((1, 32, 32), value, np.uint8))
        geotfr.export_image(source, tmp_path / "set", patch_dimensions=8, patch_table=True, overwrite=True)
        files = sorted(tmp_path.glob("set*"))
        if value == 1:
            for file in files:
                file.chmod(mode)
    assert len(files) == 4
    assert {file.name: oct(file.stat().st_mode & 0o777) for file in files} == {file.name: oct(mode) for file in files}


def _table(folder: Path) -> Path:
    run("ingest-table", folder / "x.tfrecord", "-o", folder / "t.parquet", "--overwrite")
    return folder / "t.parquet"


def _index(folder: Path) -> Path:
    run("index", folder / "x.tfrecord", "--overwrite")
    return folder / "x.tfrecord.idx"


def _records(folder: Path) -> Path:
    geotfr.write_examples(folder / "y.tfrecord", [{"a": 1}], overwrite=True)
    return folder / "y.tfrecord"


@pytest.mark.parametrize("make", [_table, _index, _records])
@pytest.mark.parametrize("mode", MODES)
def test_a_single_file_that_is_replaced_keeps_its_permissions(
    tmp_path: Path, make: Callable[[Path], Path], mode: int
) -> None:
    geotfr.write_examples(tmp_path / "x.tfrecord", [{"a": 1}])
    make(tmp_path).chmod(mode)
    assert make(tmp_path).stat().st_mode & 0o777 == mode


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        assert _records(tmp_path).stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(old)

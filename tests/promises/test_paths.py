"""Paths that can't be looked at are told, with the exit code of what was wanted there."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from oracle.rasters import numbered, write_raster
from oracle.run import assert_refused, run
from oracle.sets import write_blocks

import geotfr
from geotfr.stores.path import input_path, output_path

TOO_LONG = "n" * 300
READING = {
    "export": ("export", "BAD", "-o", "x", "--patch-dimensions", "4"),
    "band": ("export", "BAD:1", "-o", "x", "--patch-dimensions", "4"),
    "collection": ("export", "BAD", "-o", "x", "--patch-dimensions", "4", "--collection"),
    "labels": ("export", "scene.tif", "-o", "x", "--patch-dimensions", "4", "--labels", "BAD", "--label-field", "a"),
    "mixer": ("ingest-predictions", "BAD", "-o", "x.tif"),
    "shard": ("ingest-predictions", "scene-mixer.json", "BAD", "-o", "x.tif"),
    "classes": ("ingest-predictions", "scene-mixer.json", "pred-00000.tfrecord", "-o", "x.tif", "--classes", "BAD"),
    "table": ("export-table", "BAD", "-o", "x"),
    "records": ("ingest-table", "BAD", "-o", "x.csv"),
    "points": ("sample", "scene.tif", "--points", "BAD", "-o", "x"),
    "inspect": ("inspect", "BAD"),
    "verify": ("verify", "BAD"),
    "repair": ("repair", "BAD", "-o", "x.tfrecord"),
    "patches": ("preview", "patches", "BAD", "-o", "x.png"),
    "grid": ("preview", "grid", "BAD", "-o", "x.png"),
    "patch table": ("table", "BAD"),
    "split": ("split", "BAD", "--by", "random", "--shares", "a=1"),
    "stats": ("stats", "BAD"),
}
WRITING = {
    "export": ("export", "scene.tif", "-o", "BAD/x", "--patch-dimensions", "4", "--quiet"),
    "raster": ("ingest-predictions", "scene-mixer.json", "pred-00000.tfrecord", "-o", "BAD"),
    "picture": ("ingest-predictions", "scene-mixer.json", "pred-00000.tfrecord", "-o", "x.tif", "--preview", "BAD.png"),
    "repair": ("repair", "pred-00000.tfrecord", "-o", "BAD"),
    "table": ("ingest-table", "pred-00000.tfrecord", "-o", "BAD.csv"),
    "stats": ("stats", "pred-00000.tfrecord", "-o", "BAD"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_raster(tmp_path / "scene.tif", numbered(1, 8, 8))
    write_blocks(tmp_path, {"a": numbered(1, 4, 4)}, patch=(4, 4), per_row=1)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "code"), [*((args, 10) for args in READING.values()), *((args, 14) for args in WRITING.values())]
)
def test_a_name_that_is_too_long_is_told_and_no_fault(command: tuple[str, ...], code: int, folder: Path) -> None:
    before = sorted(folder.iterdir())
    assert_refused(run(*(arg.replace("BAD", TOO_LONG) for arg in command)), code, "too long")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE, errno.ENAMETOOLONG])
def test_what_the_system_says_of_a_path_is_told_as_of_an_input_or_output(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(path: Path, **more: bool) -> os.stat_result:
        del more
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "stat", refusing)
    with pytest.raises(geotfr.InputError, match=os.strerror(number)):
        input_path(str(tmp_path / "a"))
    with pytest.raises(geotfr.OutputError, match=os.strerror(number)):
        output_path(tmp_path / "a")


def test_a_folder_that_is_closed_to_the_user_is_told(folder: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may look into any folder")
    closed = folder / "closed"
    closed.mkdir()
    closed.chmod(0)
    try:
        for command, code in [*((args, 10) for args in READING.values()), *((args, 14) for args in WRITING.values())]:
            args = [arg.replace("BAD", "closed/x") for arg in command]
            assert_refused(run(*args), code, "Permission denied" if code == 10 else "closed")
    finally:
        closed.chmod(0o700)

"""A finalize that is killed at any storage operation is continued by the next one: the same files, nothing left."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from oracle.rasters import write_raster
from oracle.run import contents
from promises.hooks import Storage, in_child, kill_at

import geotfr
from geotfr.errors import OutputExistsError
from geotfr.pipeline.export import chunks

GIVEN = {"patch_dimensions": 8, "max_file_size": 4000}


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kinds", ["float", "native"])
def test_a_killed_finalize_is_continued(kinds: str, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1500)
    noise = np.random.default_rng(2).integers(1, 99, (2, 40, 48)).astype("int16")
    source = write_raster(tmp_path / "scene.tif", noise)
    whole, staged = tmp_path / "whole", tmp_path / "staged"
    whole.mkdir()
    staged.mkdir()
    options = {**GIVEN, "feature_kinds": kinds, "workers": 1}
    geotfr.export_image(source, whole / "set", **options)
    for number in range(3):
        geotfr.export_part(source, staged / "set", split=(number, 3), **options)

    def operations() -> int:
        storage = Storage(with_gdal=False)
        geotfr.finalize_export(counted / "set")
        return len(storage.names)

    counted = tmp_path / "counted"
    shutil.copytree(staged, counted)
    count = in_child(operations).value
    assert count > 30
    for point in range(1, count + 1, step):
        out = tmp_path / f"killed at {point}"
        shutil.copytree(staged, out)

        def killed(point: int = point, out: Path = out) -> None:
            Storage(kill_at(point), with_gdal=False)
            geotfr.finalize_export(out / "set")

        assert in_child(killed).signal == signal.SIGKILL
        shown = {name for name in contents(out) if not name.startswith(".")}
        assert "set-manifest.json" not in shown or shown == set(contents(whole))
        try:
            geotfr.finalize_export(out / "set")
        except OutputExistsError:
            assert "set-manifest.json" in shown
        assert {name: data for name, data in contents(out).items() if not name.startswith(".")} == contents(whole)
        assert [name for name in contents(out) if name.startswith(".") and not name.endswith(".lock")] == [], point
        shutil.rmtree(out)

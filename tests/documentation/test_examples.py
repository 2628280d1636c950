"""The example scripts do what they say."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import numpy as np
from documentation.pages import ROOT
from oracle.rasters import write_raster

import geotfr

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_export_folder_exports_each_raster_keeps_whole_sets_and_tells_failures(tmp_path: Path) -> None:
    scenes, output = tmp_path / "scenes", tmp_path / "out"
    (scenes / "2024").mkdir(parents=True)
    values = np.arange(64, dtype=np.float32).reshape(1, 8, 8)
    write_raster(scenes / "2024" / "a.tif", values)
    (scenes / "bad.tif").write_text("no raster")
    output.mkdir()
    export_folder = script("export_folder").export_folder

    told = export_folder(scenes, output, {"patchDimensions": 4})

    assert isinstance(told[scenes / "bad.tif"], geotfr.InputError)
    assert not (output / "bad").exists()
    (record, *_) = geotfr.read_records(output / "2024" / "a" / "00000.tfrecord.gz")
    parsed = geotfr.parse_single_example(record, {"b1": geotfr.FixedLenFeature([4, 4], np.float32)})
    np.testing.assert_array_equal(parsed["b1"], values[0, :4, :4])
    before = (output / "2024" / "a" / "manifest.json").stat().st_mtime_ns
    assert export_folder(scenes, output, {"patchDimensions": 4})[scenes / "2024" / "a.tif"] == "kept"
    assert (output / "2024" / "a" / "manifest.json").stat().st_mtime_ns == before

"""The example scripts that need PyTorch run, small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rasterio

pytest.importorskip("torch")
pytestmark = pytest.mark.interop

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_train_torch_makes_a_map_on_the_scenes_grid(tmp_path: Path) -> None:
    scene, classes = tmp_path / "scene.tif", tmp_path / "classes.tif"
    subprocess.run([sys.executable, EXAMPLES / "make_scene.py", tmp_path, "--size", "400", "300"], check=True)
    script = [sys.executable, EXAMPLES / "train_torch.py", scene, classes, tmp_path / "run", "--epochs", "1"]
    done = subprocess.run(script, check=True, capture_output=True, text=True)
    assert "of the pixels that were not trained on are right" in done.stdout
    with rasterio.open(tmp_path / "run" / "map.tif") as result, rasterio.open(scene) as source:
        assert (result.crs, result.transform, result.shape) == (source.crs, source.transform, source.shape)
        masked = result.read_masks(1) == 0
        unseen = np.any((source.read_masks() == 0) | (source.read() == source.nodata), axis=0)
    np.testing.assert_array_equal(masked, unseen)

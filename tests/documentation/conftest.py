"""What the tests of the documentation share."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from documentation.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small scene: scene.tif, classes.tif."""
    folder = tmp_path_factory.mktemp("scene")
    script = ROOT / "examples" / "make_scene.py"
    subprocess.run([sys.executable, script, folder, "--size", "600", "500"], check=True, capture_output=True)
    return folder

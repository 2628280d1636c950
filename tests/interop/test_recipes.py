"""The recipes of docs/how-to/cluster.md: whatever calls the part function, the files are those of one run."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.rasters import write_raster
from oracle.run import contents

import geotfr

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "cluster.md"
RECIPES = dict(re.findall(r"### ([\w ]+)\n.*?```python\n(.*?)```", PAGE.read_text().split("## Recipes")[1], re.DOTALL))


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("Dask", "distributed"),
        ("A process pool", "concurrent.futures"),
        ("Ray", "ray"),
        ("Joblib", "joblib"),
        ("Beam", "apache_beam"),
    ],
)
def test_a_recipe_makes_the_files_of_one_run(
    name: str, needs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(needs)
    noise = np.random.default_rng(5).integers(0, 60, (2, 512, 384)).astype("int16")
    write_raster(tmp_path / "scene.tif", noise, tiled=True, blockxsize=128, blockysize=128)
    given: dict[str, Any] = {"patch_dimensions": 128}
    (tmp_path / "whole").mkdir()
    (tmp_path / "patches").mkdir()
    geotfr.export_image(tmp_path / "scene.tif", tmp_path / "whole" / "scene", **given)
    # Processes that a recipe starts import its functions from a module, as a user's script does.
    (tmp_path / "recipe.py").write_text(RECIPES[name].replace('"/data/', f'"{tmp_path}/').replace("256", "128"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{':'.join(sys.path)}")
    monkeypatch.delitem(sys.modules, "recipe", raising=False)
    import recipe  # type: ignore[import-not-found]

    recipe.main()
    monkeypatch.delitem(sys.modules, "recipe")
    assert contents(tmp_path / "patches") == contents(tmp_path / "whole")

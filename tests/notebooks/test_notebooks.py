"""The example notebooks run from top to bottom, at smoke size."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytestmark = pytest.mark.interop

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
# The kernel's client warns of what its own libraries do.
@pytest.mark.filterwarnings("ignore")
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOTFR_SMOKE", "1")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    for library in needed(path):
        pytest.importorskip(library)
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=180, kernel_name="python3", resources={"metadata": {"path": FOLDER}}
    ).execute()
    told = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert not [output for output in told if output.output_type == "stream" and output.name == "stderr"]
    if os.environ.get("GEOTFR_KEEP_NOTEBOOKS"):
        nbformat.write(notebook, Path(os.environ["GEOTFR_KEEP_NOTEBOOKS"]) / path.name)


def needed(path: Path) -> list[str]:
    """The libraries that a notebook imports, of those that not every environment has."""
    source = "".join(line for cell in json.loads(path.read_text())["cells"] for line in cell["source"])
    return [name for name in ("matplotlib", "torch", "tensorflow", "geopandas") if f"import {name}" in source]

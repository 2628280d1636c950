"""The example notebooks run from top to bottom, at smoke size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


# The kernel's client warns of what its own libraries do.
pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small notebooks, whose files go when the test is done."""
    (tmp_path / "made").mkdir()
    for name, value in {
        "GEOTFR_SMOKE": "1",
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TMPDIR": str(tmp_path / "made"),
    }.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path) -> None:
    for library in needed(path):
        pytest.importorskip(library)
    run(path, FOLDER)


def test_the_notebook_on_earth_engines_files_makes_some_where_there_are_none(tmp_path: Path) -> None:
    (path,) = FOLDER.glob("07-*.ipynb")
    for library in needed(path):
        pytest.importorskip(library)
    assert "records here of 15," in run(path, tmp_path)


def run(path: Path, folder: Path) -> str:
    """Run a notebook in ``folder``; what it prints. Nothing may stand on stderr."""
    notebook = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": folder}}
    nbclient.NotebookClient(notebook, timeout=180, kernel_name="python3", resources=place).execute()
    told = [output for cell in notebook.cells for output in cell.get("outputs", ()) if output.output_type == "stream"]
    assert not [output.text for output in told if output.name == "stderr"]
    return "".join(output.text for output in told)


def needed(path: Path) -> list[str]:
    """The libraries that a notebook imports, of those that not every environment has."""
    source = "".join(line for cell in json.loads(path.read_text())["cells"] for line in cell["source"])
    return [name for name in ("matplotlib", "torch", "tensorflow", "geopandas") if f"import {name}" in source]

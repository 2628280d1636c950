"""Notebooks are stored as they are read: without outputs, each with words first."""

from __future__ import annotations

import json

import pytest
from documentation.pages import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert cells[0]["cell_type"] == "markdown"
    assert "".join(cells[0]["source"]).startswith(f"# {path.stem[:2]} ")
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_the_site_shows_of_a_notebook_that_trains_was_made_by_its_code(path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_build"))
    from notebook_runs import is_stored, stored_outputs

    assert is_stored(path) == (path.stem in ("02-train-torch", "03-train-tensorflow"))
    if is_stored(path):
        outputs = stored_outputs(path)
        assert any(output["pictures"] for output in outputs)
        assert not any("/tmp" in output["text"] or "Error" in output["text"] for output in outputs)


def test_the_site_shows_what_cells_print_draw_and_end_with(tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_build"))
    from notebook_pages import notebook_page

    code = [
        "import tempfile\nx = 2\nprint(tempfile.mkdtemp(prefix='geotfr-') + '/a.tif')",
        "x + 1",
        "x + 1;",
        "from matplotlib.figure import Figure\nFigure((1, 1))",
    ]
    cells = [{"cell_type": "markdown", "source": ["# 99 Test\n", "[next](98-next.ipynb)"]}]
    cells += [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in code]
    path = tmp_path / "99-test.ipynb"
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    page, pictures = notebook_page(path)
    assert page.startswith(
        "# 99 Test\n[next](98-next.md)\n\n*This page is the notebook `examples/notebooks/99-test.ipynb`."
    )
    assert page.count("```text\n") == 2
    assert "```text\nfolder/a.tif\n```" in page
    assert "```text\n3\n```" in page
    assert list(pictures) == ["99-test-1.png"]
    assert pictures["99-test-1.png"].startswith(b"\x89PNG")
    assert "(99-test-1.png)" in page

    cells.append({"cell_type": "code", "source": ["1 / 0"]})
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"99-test\.ipynb: fails:[^$]*ZeroDivisionError"):
        notebook_page(path)

"""What the cells of a notebook print and draw, when they are run from top to bottom.

The site runs the notebooks that need nothing but the test extra while it is built. What the others show, which train with
PyTorch and TensorFlow, is kept in ``docs/_build/notebook_outputs`` with a digest of the code that made it::

    python docs/_build/notebook_runs.py examples/notebooks/02-train-torch.ipynb
"""

from __future__ import annotations

import ast
import base64
import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["code_digest", "is_stored", "outputs_of", "stored_outputs"]

STORED = Path(__file__).resolve().parent / "notebook_outputs"
ALWAYS_STORED = ("torch", "tensorflow")
DPI = 72
COLOURS = 256


def outputs_of(path: Path) -> list[dict[str, Any]]:
    """For each code cell ``text``, what it prints or shows, and ``pictures``, PNG in base64.

    Raises
    ------
    RuntimeError
        A notebook that fails, or whose stored outputs were made by other code.
    """
    if is_stored(path):
        return stored_outputs(path)
    with tempfile.TemporaryDirectory() as folder:
        return _run(path, folder)


def is_stored(path: Path) -> bool:
    """Whether a notebook's outputs are kept, and not made with the site."""
    return any(f"import {name}" in cell for cell in _code_cells(path) for name in ALWAYS_STORED)


def stored_outputs(path: Path) -> list[dict[str, Any]]:
    """The outputs that are kept of a notebook; see :func:`outputs_of`."""
    stored = json.loads((STORED / f"{path.stem}.json").read_text(encoding="utf-8"))
    if stored["code"] != code_digest(path):
        raise RuntimeError(f"{path.name}: its stored outputs are of other code; run docs/_build/notebook_runs.py {path}")
    outputs: list[dict[str, Any]] = stored["cells"]
    return outputs


def code_digest(path: Path) -> str:
    """Of the code cells of a notebook."""
    return hashlib.sha256("\0".join(_code_cells(path)).encode()).hexdigest()


def _code_cells(path: Path) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def _run(path: Path, folder: str) -> list[dict[str, Any]]:
    """The outputs of a run in a process of its own, whose files go to ``folder``."""
    more = {"MPLBACKEND": "agg", "TF_CPP_MIN_LOG_LEVEL": "3", "TMPDIR": folder, "GEOTFR_SMOKE": ""}
    done = subprocess.run(
        [sys.executable, __file__, "--cells", path.resolve()],
        cwd=path.parent,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{path.name}: fails:\n{done.stderr}")
    # The notebooks make their files in a folder whose name is random.
    text = re.sub(re.escape(folder) + r"/geotfr-[^/\\\"' ]*", "folder", done.stdout.splitlines()[-1])
    outputs: list[dict[str, Any]] = json.loads(text)
    return outputs


def _cell_outputs(code: list[str]) -> list[dict[str, Any]]:
    """Run cells one after the other, in one namespace."""
    import matplotlib.pyplot as plt

    names: dict[str, Any] = {"__name__": "__main__"}
    outputs = []
    for number, source in enumerate(code):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            shown = _shown(source, f"cell {number}", names)
        drawn = [plt.figure(each) for each in plt.get_fignums()]
        if hasattr(shown, "savefig"):
            drawn.append(shown)
        elif shown is not None:
            print(repr(shown), file=printed)
        outputs.append({"text": printed.getvalue(), "pictures": [_png(each) for each in drawn]})
        plt.close("all")
    return outputs


def _shown(source: str, name: str, names: dict[str, Any]) -> object:
    """Run a cell; the value of its last expression, unless a semicolon hides it."""
    tree = ast.parse(source, name)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr) or source.rstrip().endswith(";"):
        exec(compile(tree, name, "exec"), names)
        return None
    exec(compile(ast.Module(tree.body[:-1], []), name, "exec"), names)
    return eval(compile(ast.Expression(last.value), name, "eval"), names)


def _png(figure: Any) -> str:
    """A picture of few colours: the pages stay light."""
    from PIL import Image

    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI)
    with Image.open(drawn) as picture:
        picture.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return base64.b64encode(small.getvalue()).decode()


def main() -> None:
    """Store what a notebook shows; ``--cells``: print it."""
    if sys.argv[1] == "--cells":
        outputs = json.dumps(_cell_outputs(_code_cells(Path(sys.argv[2]))))
        print("\n" + outputs)
        return
    STORED.mkdir(exist_ok=True)
    for path in map(Path, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as folder:
            cells = _run(path, folder)
        stored = {"code": code_digest(path), "cells": cells}
        (STORED / f"{path.stem}.json").write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

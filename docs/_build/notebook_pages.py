"""The example notebooks as pages: their words and their code, without outputs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["notebook_page"]


def notebook_page(path: Path) -> str:
    """Markdown of the cells of a notebook, and where to find it."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = [text(cell) for cell in cells]
    parts.insert(1, f"*This page is the notebook `examples/notebooks/{path.name}`.*")
    return "\n\n".join(parts) + "\n"


def text(cell: dict[str, object]) -> str:
    """A cell in Markdown."""
    source = cell["source"]
    lines = "".join(source) if isinstance(source, list) else str(source)
    # Links to other notebooks lead to their pages.
    return lines.replace(".ipynb)", ".md)") if cell["cell_type"] == "markdown" else f"```python\n{lines}\n```"

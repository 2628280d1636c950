"""The example notebooks as pages: their words, their code, and what the cells print and draw."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from notebook_runs import is_stored, outputs_of

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["notebook_page"]


def notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """Markdown of the cells of a notebook, and the pictures beside the page by their names."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = iter(outputs_of(path))
    parts = []
    pictures: dict[str, bytes] = {}
    for cell in cells:
        parts.append(_text(cell))
        if cell["cell_type"] == "code":
            parts.extend(_shown(next(outputs), path.stem, pictures))
    when = "What it shows was kept from a run of this code" if is_stored(path) else "It ran when this page was built"
    parts.insert(1, f"*This page is the notebook `examples/notebooks/{path.name}`. {when}.*")
    return "\n\n".join(parts) + "\n", pictures


def _text(cell: dict[str, Any]) -> str:
    """A cell in Markdown."""
    lines = "".join(cell["source"])
    # Links to other notebooks lead to their pages.
    return lines.replace(".ipynb)", ".md)") if cell["cell_type"] == "markdown" else f"```python\n{lines}\n```"


def _shown(output: dict[str, Any], stem: str, pictures: dict[str, bytes]) -> list[str]:
    """What a cell printed and drew, in Markdown; its pictures are added to ``pictures``."""
    parts = [f"```text\n{output['text'].rstrip()}\n```"] if output["text"].strip() else []
    for picture in output["pictures"]:
        name = f"{stem}-{len(pictures) + 1}.png"
        pictures[name] = base64.b64decode(picture)
        parts.append(f"![What the cell above draws]({name})")
    return parts

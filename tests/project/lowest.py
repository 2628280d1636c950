"""Print the lowest versions that pyproject.toml allows, as constraints: ``python lowest.py EXTRA...``."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def lowest(project: dict[str, dict[str, list[str]]], extras: list[str]) -> dict[str, str]:
    """Versions by name: of the dependencies, the extras, and the project's own extras that these name."""
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    found: dict[str, str] = {}
    for text in wanted:
        if own := re.fullmatch(r"geotfr\[(.+)\]", text):
            found |= lowest({**project, "dependencies": []}, own[1].split(","))  # type: ignore[dict-item]
        elif bound := re.fullmatch(r"([\w.-]+)>=([\w.]+)", text):
            found[bound[1]] = bound[2]
    return found


if __name__ == "__main__":
    pinned = lowest(tomllib.loads(PYPROJECT.read_text())["project"], sys.argv[1:])
    print("\n".join(f"{name}=={version}" for name, version in pinned.items()))

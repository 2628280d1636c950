"""What mkdocs adds to the pages when it builds the site: the commands' reference, public names, the notebooks.

All are made from what is there (click's commands, ``geotfr.__all__``, the notebooks' cells), so that they can't fall
behind it.
"""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import geotfr
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from commands_page import commands_page  # noqa: E402
from notebook_pages import notebook_page  # noqa: E402

# Scripts, pictures, frames and style sheets; links that a reader follows may lead anywhere.
FROM_ELSEWHERE = re.compile(r"<link [^>]*href=['\"]?(?:https?:)?//[^>]*>|src=['\"]?(?:https?:)?//[^\s>]*")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the made pages to those that are written."""
    files.append(File.generated(config, "reference/commands.md", content=commands_page()))
    notebooks = sorted((HERE.parents[1] / "examples" / "notebooks").glob("*.ipynb"))
    # Each runs in a process of its own.
    with ThreadPoolExecutor(2) as pool:
        for notebook, (page, pictures) in zip(notebooks, pool.map(notebook_page, notebooks), strict=True):
            files.append(File.generated(config, f"examples/{notebook.stem}.md", content=page))
            for name, content in pictures.items():
                files.append(File.generated(config, f"examples/{name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **about: object) -> str:
    """The Python reference ends with the public names that no section of it lists."""
    del about
    if page.file.src_uri != "reference/python.md":
        return markdown
    unlisted = unlisted_names(markdown)
    more = "".join(f"::: geotfr.{name}\n" for name in unlisted)
    return f"{markdown}\n## More\n\n{more}" if unlisted else markdown


def on_post_build(config: MkDocsConfig) -> None:
    """Fail if a page loads anything from elsewhere: the site needs no network to be read."""
    for page in sorted(Path(config.site_dir).rglob("*.html")):
        found = FROM_ELSEWHERE.search(page.read_text(encoding="utf-8"))
        if found:
            raise PluginError(f"{page}: loads from elsewhere: {found[0]}")


def unlisted_names(markdown: str) -> list[str]:
    """The public names of geotfr that a page doesn't describe."""
    listed = {line.removeprefix("::: geotfr.") for line in markdown.splitlines()}
    return sorted(set(geotfr.__all__) - listed - {"__version__"})

"""What the documentation shows is what happens."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import click
import pytest
from documentation.pages import DOCS, ROOT, is_run, run_page
from oracle.run import run

import geotfr
from geotfr.options.export import ExportKeywords
from geotfr.options.ingest import IngestKeywords

EVERYWHERE = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
PAGES = sorted(path for path in DOCS.rglob("*.md") if is_run(path))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_a_page_shows_what_happens(path: Path, scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for name in ("scene.tif", "classes.tif"):
        (tmp_path / name).write_bytes((scene / name).read_bytes())
    run_page(path)


def test_figures_are_those_that_the_script_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "_build"))
    from figures import figures

    for name, drawn in figures().items():
        assert (DOCS / "images" / name).read_text(encoding="utf-8") == drawn, name


def test_the_reference_describes_public_names_alone() -> None:
    page = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    told = [line.removeprefix("::: geotfr.") for line in page.splitlines() if line.startswith("::: ")]
    assert len(set(told)) == len(told)
    assert set(told) <= set(geotfr.__all__)


def test_every_command_and_option_stands_in_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "_build"))
    from commands_page import commands_page

    from geotfr_cli.main import cli

    page = commands_page()
    names: list[tuple[str, ...]] = []
    for name in cli.list_commands(click.Context(cli)):
        command = cli.get_command(click.Context(cli), name)
        names += [(name, part) for part in command.commands] if isinstance(command, click.Group) else [(name,)]
    for name in names:
        section = page.partition(f"## {' '.join(name)}\n")[2].partition("\n## ")[0]
        options = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", run(*name, "--help").stdout, flags=re.MULTILINE))
        assert {"--json", "--quiet"} <= options
        assert not {option for option in options if option not in section}, name


@pytest.mark.parametrize(
    ("function", "keywords"),
    [(geotfr.export_image, ExportKeywords), (geotfr.ingest_predictions, IngestKeywords)],
    ids=["export_image", "ingest_predictions"],
)
def test_every_keyword_stands_in_the_docstring(function: object, keywords: type) -> None:
    described = re.findall(r"^(\w[\w, ]*)$", inspect.getdoc(function) or "", flags=re.MULTILINE)
    names = {name.strip(", ") for line in described for name in line.split(",")}
    assert set(keywords.__annotations__) <= names


@pytest.mark.parametrize("path", EVERYWHERE, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_to_files_lead_to_files(path: Path) -> None:
    made = {DOCS / "reference" / "commands.md", *(DOCS / "examples" / f"{name}.md" for name in notebooks())}
    for target in re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            file = (path.parent / target).resolve()
            assert file.exists() or file in made, f"{path.name}: {target}"


def notebooks() -> list[str]:
    return [path.stem for path in (ROOT / "examples" / "notebooks").glob("*.ipynb")]

"""Run a page of the documentation as a reader would: block by block, in a folder of its own.

A page that is run says so in its first line: ``<!-- run -->``. Blocks of three kinds are run:

- ``sh``: each line; it must end with 0.
- ``console``: each line after ``$``; what it prints, on both streams, must be what the page shows (``...`` stands for
  anything). It must end with 0 unless ``echo $?`` follows.
- ``python``: all blocks of a page share one namespace; a ``text`` block right behind shows what is printed.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from oracle.run import run

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the page's line on which the text begins, what stands before it."""

    language: str
    text: str
    line: int
    gap: str


def is_run(path: Path) -> bool:
    return path.read_text(encoding="utf-8").startswith("<!-- run")


def blocks(path: Path) -> Iterator[Block]:
    page = path.read_text(encoding="utf-8")
    end = 0
    for match in _FENCE.finditer(page):
        indent = match[1]
        text = "".join(line.removeprefix(indent) for line in match[3].splitlines(keepends=True))
        yield Block(match[2], text, page.count("\n", 0, match.start(3)) + 1, page[end : match.start()])
        end = match.end()


def run_page(path: Path) -> None:
    """Run all blocks in the current folder."""
    # A module's own name, so that the page's functions and classes behave as a script's.
    names: dict[str, object] = {"__name__": "__main__"}
    printed = ""
    before = ""
    for block in blocks(path):
        where = f"{path.relative_to(ROOT)}:{block.line}"
        if block.language == "sh":
            for command in commands(block.text):
                code, printed = outcome(command)
                assert code == 0, f"{where}: {command}\nends with {code}:\n{printed}"
        elif block.language == "console":
            run_console(block.text, where)
        elif block.language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile("\n" * (block.line - 1) + block.text, str(path), "exec"), names)
            printed = out.getvalue()
        elif block.language == "text" and before == "python" and not block.gap.strip():
            compare(block.text, printed, where)
        before = block.language


def run_console(text: str, where: str) -> None:
    """Each command, its output compared."""
    parts = re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)
    assert not parts[0].strip(), f"{where}: begins without a command"
    code, unasked = 0, ""
    for part in parts[1:]:
        command, _, wanted = part.partition("\n")
        if command == "echo $?":
            compare(wanted, f"{code}\n", f"{where}: {command}")
            code = 0
            continue
        assert code == 0, f"{where}: {unasked} ends with {code}"
        code, printed = outcome(command)
        unasked = command
        compare(wanted, printed, f"{where}: {command}")
    assert code == 0, f"{where}: {unasked} ends with {code}"


def commands(text: str) -> list[str]:
    lines = text.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def outcome(command: str) -> tuple[int, str]:
    """Exit code of a command line, and what it prints on both streams; geotfr runs in this process."""
    words = shlex.split(command, comments=True)
    if words[0] == "geotfr" and not {"|", ">", "&&", ";"} & set(words):
        args = [name for word in words[1:] for name in expanded(word)]
        done = run(*args)
        return done.code, done.stderr + done.stdout
    scripts = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    ended = subprocess.run(
        ["sh", "-e", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
        env=environment,
    )
    return ended.returncode, ended.stdout


def expanded(word: str) -> list[str]:
    """The files that a pattern names, sorted, as a shell gives them; else the word itself."""
    is_pattern = "*" in word and not Path(word).is_absolute()
    return (sorted(str(path) for path in Path().glob(word)) if is_pattern else []) or [word]


def compare(wanted: str, printed: str, where: str) -> None:
    """Fail unless the page shows what was printed."""
    is_same = doctest.OutputChecker().check_output(wanted, printed, FLAGS)
    assert is_same, f"{where}\nshown:\n{wanted}\nprinted:\n{printed}"

"""Start geotfr's command line, in this process or in one of its own, and look at what it leaves."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the folder ../shared/data is absent")


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def told(self) -> str:
        """Both streams, for searching."""
        return self.stdout + self.stderr


def run(*args: str | Path) -> Outcome:
    """``geotfr ARGS`` in this process."""
    from geotfr_cli.main import main

    out, err = io.StringIO(), io.StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    hook = sys.unraisablehook
    code: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(arg) for arg in args])
        except SystemExit as stop:
            code = stop.code
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            sys.unraisablehook = hook
    number = code if isinstance(code, int) else 0 if code is None else 1
    return Outcome(number, out.getvalue(), err.getvalue())


def run_apart(*args: str | Path, cwd: Path | None = None, preexec: Callable[[], None] | None = None) -> Outcome:
    """``python -m geotfr_cli ARGS`` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "geotfr_cli", *map(str, args)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=preexec,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below ``folder`` with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def assert_refused(outcome: Outcome, code: int | set[int], *words: str) -> None:
    """The command ended with ``code`` and one line on stderr that holds each of ``words``; no traceback."""
    allowed = {code} if isinstance(code, int) else code
    assert outcome.code in allowed, f"exit {outcome.code}, wanted {code}: {outcome.told}"
    lines = [line for line in outcome.stderr.splitlines() if line.strip()]
    assert lines, "nothing on stderr"
    assert "Traceback" not in outcome.told
    assert len(lines) == 1, f"more than one line: {lines}"
    for word in words:
        assert word.lower() in outcome.stderr.lower(), f"{word!r} is not in {outcome.stderr!r}"

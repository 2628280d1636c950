"""Runs that are killed or fail at each of their storage operations: nothing half has a name, and the next run works.

The quick share takes every n-th operation; the whole is slow. ``driver.py`` says what is checked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forked")

DRIVER = Path(__file__).parent / "driver.py"
KINDS = ("float", "ee", "plain", "native", "threshold", "sequence", "overwrite", "table", "ingest")


def drive(mode: str, kind: str, step: int) -> dict[str, Any]:
    """What the driver found."""
    if kind == "table":
        pytest.importorskip("pyogrio")
        pytest.importorskip("pyarrow")
    done = subprocess.run(
        [sys.executable, str(DRIVER), mode, kind, str(step)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    print(f"{mode} {kind}: {found['operations']} operations, {found['cases']} cases")
    return found


QUICK = ("threshold", "sequence", "overwrite", "table", "ingest")


def cases(whole: int, quick: int) -> list[Any]:
    """(kind, step) for the whole and for the quick share."""
    return [pytest.param(kind, whole, marks=pytest.mark.slow) for kind in KINDS] + [(kind, quick) for kind in QUICK]


@pytest.mark.parametrize(("kind", "step"), cases(1, 23))
def test_a_run_killed_at_any_operation_is_continued_to_the_same_files(kind: str, step: int) -> None:
    found = drive("kill", kind, step)
    assert found["faults"] == []
    assert found["cases"] >= found["operations"] // step


@pytest.mark.parametrize(("kind", "step"), cases(5, 307))
def test_an_operation_that_fails_is_told_and_leaves_nothing(kind: str, step: int) -> None:
    found = drive("fail", kind, step)
    assert found["faults"] == []
    assert found["cases"] >= found["operations"] * 14 // step

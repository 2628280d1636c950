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
KINDS = ("float", "plain", "native", "threshold", "sequence", "overwrite", "table", "ingest")


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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 17])
def test_a_run_killed_at_any_operation_is_continued_to_the_same_files(kind: str, step: int) -> None:
    found = drive("kill", kind, step)
    assert found["faults"] == []
    assert found["cases"] >= found["operations"] // step


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [pytest.param(3, marks=pytest.mark.slow), 211])
def test_an_operation_that_fails_is_told_and_leaves_nothing(kind: str, step: int) -> None:
    found = drive("fail", kind, step)
    assert found["faults"] == []
    assert found["cases"] >= found["operations"] * 14 // step

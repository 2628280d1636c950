"""Runs that are killed or fail at each of their storage operations: nothing half has a name, and the next run works.

The quick share takes every n-th operation; the whole is slow. ``driver.py`` says what is checked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forked")

DRIVER = Path(__file__).parent / "driver.py"
EXPORTS = ("float", "ee", "plain", "native", "threshold", "sequence", "overwrite")
KINDS = (*EXPORTS, "shared", "table", "ingest", "cog", "index", "repair")
NEEDED = {"table": ("pyogrio", "pyarrow"), "shared": ("pyarrow",)}


def drive(mode: str, kinds: str, step: int) -> dict[str, Any]:
    """What the driver found for each kind whose libraries are there."""
    there = [kind for kind in kinds.split(",") if all(find_spec(name) for name in NEEDED.get(kind, ()))]
    if not there:
        pytest.skip(f"{' and '.join(NEEDED[kinds])} are not installed")
    done = subprocess.run(
        [sys.executable, str(DRIVER), mode, ",".join(there), str(step)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    print(f"{mode} {kinds}: {found['operations']} operations, {found['cases']} cases")
    return found


def cases(quick: int, *, shared: int = 1) -> list[Any]:
    """(kinds, step): each kind on its own and whole, and a share of some kinds that starts one process.

    ``shared`` is the step of that kind, which has as many operations as all others together.
    """
    whole = [pytest.param(kind, shared if kind == "shared" else 1, marks=pytest.mark.slow) for kind in KINDS]
    return [
        *whole,
        pytest.param("threshold,sequence,overwrite,shared,table,ingest,cog,index,repair", quick, id="share"),
    ]


@pytest.mark.parametrize(("kinds", "step"), cases(29))
def test_a_run_killed_at_any_operation_is_continued_to_the_same_files(
    kinds: str, step: int, count: Callable[[str, int], None]
) -> None:
    found = drive("kill", kinds, step)
    count("kill points", found["cases"])
    count("differences after kills", len(found["faults"]))
    assert found["faults"] == []
    assert found["cases"] >= found["operations"] // step


@pytest.mark.parametrize(("kinds", "step"), cases(151, shared=11))
def test_an_operation_that_fails_is_told_and_leaves_nothing(
    kinds: str, step: int, count: Callable[[str, int], None]
) -> None:
    found = drive("fail", kinds, step)
    count("operations that fail", found["cases"])
    count("faults after failing operations", len(found["faults"]))
    assert found["faults"] == []
    assert found["cases"] >= found["operations"] * 12 // step

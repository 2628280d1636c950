"""Contenders in processes of their own, in turn, so that what else the machine does meets all of them alike.

A contender is a function of this folder's modules that returns the seconds it took; its process adds its peak memory.
Nobody syncs to disk: what is compared is work, not the disk's cache.
"""

from __future__ import annotations

import compileall
import importlib
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, kw_only=True)
class Contender:
    """``function`` of ``module`` with ``arguments`` (JSON types); run ``rounds`` times."""

    name: str
    module: str
    function: str
    arguments: Mapping[str, Any]
    rounds: int = 3


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Median seconds and largest peak memory of the rounds."""

    seconds: float
    peak_mib: float
    rounds: int


def measure(contenders: Sequence[Contender]) -> dict[str, Measured]:
    """Each contender's median, rounds interleaved."""
    _compile_package()
    found: dict[str, list[tuple[float, float]]] = {contender.name: [] for contender in contenders}
    for number in range(max(contender.rounds for contender in contenders)):
        for contender in contenders:
            if number < contender.rounds:
                found[contender.name].append(_run(contender))
                print(f"    {contender.name}: {found[contender.name][-1][0]:.2f} s", file=sys.stderr, flush=True)
    return {
        name: Measured(
            seconds=statistics.median(seconds for seconds, _ in rounds),
            peak_mib=max(peak for _, peak in rounds),
            rounds=len(rounds),
        )
        for name, rounds in found.items()
    }


def _compile_package() -> None:
    """Give geotfr its bytecode, as an installed package has it: modules imported late would be compiled meanwhile."""
    found = importlib.util.find_spec("geotfr")
    if found is not None and found.origin is not None:
        compileall.compile_dir(Path(found.origin).parent, quiet=1)


def _run(contender: Contender) -> tuple[float, float]:
    call = json.dumps([contender.module, contender.function, dict(contender.arguments)])
    done = subprocess.run(
        [sys.executable, str(HERE / "_measure.py"), call], check=True, stdout=subprocess.PIPE, text=True
    )
    seconds, peak = json.loads(done.stdout.splitlines()[-1])
    return seconds, peak


def _child(call: str) -> None:
    module, function, arguments = json.loads(call)
    os.fsync = lambda _: None
    seconds = getattr(importlib.import_module(module), function)(**arguments)
    print(json.dumps([seconds, peak_mib()]))


def peak_mib() -> float:
    """The largest resident memory of this process. Linux's ``ru_maxrss`` counts the parent's from before exec too."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    _child(sys.argv[1])

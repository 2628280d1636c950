"""Readings of record files, each in a process of its own, so that its peak memory is its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from _measure import peak_mib

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Reader = Callable[[list[str]], float]

CHILD = "--child"


def child(readers: Mapping[str, Reader], reader: str, paths: list[str]) -> None:
    """Print seconds, CPU time, sum and peak memory of one reading; imports and first calls aren't counted."""
    readers[reader](paths[:1])
    start, cpu = time.perf_counter(), time.process_time()
    total = readers[reader](paths)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(json.dumps({"seconds": seconds, "cpu": cpu, "total": total, "rss_mib": peak_mib()}))


def run(script: str, reader: str, paths: list[str]) -> dict[str, float]:
    """One reading by ``script``, which calls :func:`child` where ``--child`` asks for it."""
    command = [sys.executable, script, CHILD, reader, *paths]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found

"""Counts of what the promises were tried with, told at the end of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

Count = Callable[[str, int], None]
_COUNTED = "counted: "


@pytest.fixture
def count(record_property: Callable[[str, object], None]) -> Count:
    """Adds a number to what the end of the run tells under a name."""

    def add(what: str, number: int) -> None:
        record_property(_COUNTED + what, number)

    return add


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line for each name that was counted, over all tests and processes."""
    totals: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, number in getattr(report, "user_properties", ()):
                if name.startswith(_COUNTED) and getattr(report, "when", "") == "call":
                    totals[name.removeprefix(_COUNTED)] += number
    if totals:
        terminalreporter.section("promises")
        for name, number in sorted(totals.items()):
            terminalreporter.write_line(f"{number:8,} {name}")

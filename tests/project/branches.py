"""Whether the tests took enough of the branches: coverage's own limit counts statements and branches together.

Reads coverage's JSON report from standard input; the argument is the least share in percent.
"""

from __future__ import annotations

import json
import sys


def verdict(totals: dict[str, int], least: float) -> tuple[str, bool]:
    """The line to print, and whether the branches of a report's ``totals`` suffice.

    >>> verdict({"covered_branches": 19, "num_branches": 20}, 95)
    ('19 of 20 branches taken, 95.0 %; at least 95 % are wanted', True)
    >>> verdict({"covered_branches": 949, "num_branches": 1000}, 95)[1]
    False
    """
    taken, branches = totals["covered_branches"], totals["num_branches"]
    text = f"{taken} of {branches} branches taken, {100 * taken / branches:.1f} %; at least {least:g} % are wanted"
    return text, 100 * taken >= least * branches


if __name__ == "__main__":
    line, is_enough = verdict(json.load(sys.stdin)["totals"], float(sys.argv[1]))
    print(line)
    sys.exit(0 if is_enough else 1)

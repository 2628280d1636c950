"""Whether the process that left something behind is gone: told of those of this machine alone."""

from __future__ import annotations

import hashlib
from pathlib import Path

__all__ = ["is_gone", "process_mark"]


def process_mark(process: int) -> str:
    """What tells the ``process`` from all others, of other machines and times too; empty where the system can't."""
    machine, started = _machine(), _started(process)
    return f"{machine}-{process}-{started}" if machine and started else ""


def is_gone(mark: str) -> bool:
    """Whether ``mark`` is of a process that this machine had, and has no more; False where that isn't known.

    >>> import os
    >>> is_gone(process_mark(os.getpid())), is_gone("another machine-1-2")
    (False, False)
    """
    machine, _, rest = mark.partition("-")
    process, _, started = rest.partition("-")
    return bool(machine) and machine == _machine() and process.isdecimal() and _started(int(process)) != started


def _machine() -> str:
    """This start of this machine, and the name space of its processes: containers have several."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        space = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return ""
    return hashlib.blake2b(f"{boot.strip()} {space}".encode(), digest_size=8).hexdigest()


def _started(process: int) -> str:
    """When the process began, in ticks since the machine did; empty where there is none, or it is dead already."""
    try:
        # Behind the command in brackets, which may hold anything: the state, and 18 fields on the time of its start.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]

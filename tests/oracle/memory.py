"""The largest resident memory of a process, without what it inherits: Linux's ``ru_maxrss`` counts the parent's."""

from __future__ import annotations

PEAK_MIB = """
def peak_mib():
    import pathlib, resource
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) >> 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 20
"""
"""Code for a child process that defines ``peak_mib()``."""

"""Fuzz what reads foreign bytes: ``python fuzz/run.py TARGET [SECONDS]``, TARGET as in ``tests/fuzz/targets.py``.

``all`` runs each of them: framing, Examples, SequenceExamples, gzip, mixer, manifest, CRS text, whole ingests, rasters
(in a child with limits) and command lines.

Needs atheris. New inputs that reach new code go into ``fuzz/found/TARGET``; what breaks a law goes beside this file as
``crash-...``. Inputs worth keeping are copied into ``tests/fuzz/corpus``, which the tests replay.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent / "tests"


def fuzz(target: str, seconds: int) -> None:
    """Run one target in this process; libFuzzer ends it."""
    import atheris

    with atheris.instrument_imports(include=["geotfr"]):
        sys.path.insert(0, str(TESTS))
        from fuzz.targets import TARGETS
    found = HERE / "found" / target
    found.mkdir(parents=True, exist_ok=True)
    flags = [f"-max_total_time={seconds}", "-max_len=4096", "-rss_limit_mb=2048", "-timeout=30"]
    flags.append(f"-artifact_prefix={HERE}/crash-{target}-")
    atheris.Setup([sys.argv[0], *flags, str(found), str(TESTS / "fuzz" / "corpus" / target)], TARGETS[target])
    atheris.Fuzz()


def main() -> None:
    """Read the command line; ``all`` runs each target in a process of its own."""
    target = sys.argv[1] if len(sys.argv) > 1 else "all"
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    if target != "all":
        fuzz(target, seconds)
        return
    for name in sorted(path.name for path in (TESTS / "fuzz" / "corpus").iterdir()):
        subprocess.run([sys.executable, __file__, name, str(seconds)], check=True)


if __name__ == "__main__":
    main()

"""Runs geotfr many times in forked children whose storage operations are counted, killed or made to fail.

Started by the tests as a process of its own: ``driver.py kill|fail KIND STEP``, where KIND may be several with commas.
Prints one JSON object: how many operations the runs have, how many cases were tried, and a line for each that broke a
promise.
"""

from __future__ import annotations

import errno
import json
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from promises.hooks import ERRORS, SHORT_WRITE, Storage, fail_at, in_child, kill_at
from promises.worlds import World, digests, visible

from geotfr.errors import OutputExistsError

MEMORY = Path("/dev/shm")


def mixed(world: World, found: dict[str, str]) -> str:
    """Why what a stopped run left breaks a promise; empty: it doesn't."""
    shown = visible(found)
    for name, digest in shown.items():
        if digest not in (world.whole.get(name), world.old.get(name)):
            return f"{name} is neither whole nor the old one"
    if world.kind == "shared":
        return mixed_collection(world, shown)
    has_manifest = any(name.endswith("manifest.json") for name in shown)
    if has_manifest and shown not in (world.whole, world.old):
        return f"a mixture has a manifest: {sorted(shown)}"
    return ""


def mixed_collection(world: World, shown: dict[str, str]) -> str:
    """As :func:`mixed`, of a collection that gets a raster more: what was there stays, and is whole without it."""
    if gone := world.old.keys() - shown.keys():
        return f"gone: {sorted(gone)}"
    if "all-scene-manifest.json" in shown and (missing := world.whole.keys() - shown.keys()):
        return f"the raster has a manifest, and there is no {sorted(missing)}"
    if shown["all-patches.parquet"] != world.old["all-patches.parquet"] and shown != world.whole:
        return f"the table tells of a raster that isn't whole: {sorted(shown)}"
    return ""


def kills(world: World, step: int, faults: list[str]) -> tuple[int, int]:
    """Kill a run at every ``step``-th operation, and a third of them once more while they resume; then resume.

    Returns how many operations a run has, and at how many points one was killed.
    """
    operations = len(world.operations(with_gdal=True))
    points = range(1, operations + 1, step)
    chance = random.Random(7)
    killed = 0
    for point in points:
        out = world.fresh(f"k{point}")

        def stopped(point: int = point, out: Path = out) -> None:
            Storage(kill_at(point), with_gdal=True)
            world.run(out)

        def stopped_again(second: int, out: Path = out) -> None:
            Storage(kill_at(second), with_gdal=True)
            world.run(out, again=True)

        ended = in_child(stopped)
        killed += 1
        where = f"{world.kind}, killed at {point}"
        if ended.signal != signal.SIGKILL:
            faults.append(f"{where}: not killed: {ended}")
        if broken := mixed(world, digests(out)):
            faults.append(f"{where}: {broken}")
        if point % 3 == 0:
            second = chance.randrange(1, operations)
            # A run that goes on has fewer operations: it may end before it is killed.
            killed += in_child(lambda second=second: stopped_again(second)).signal == signal.SIGKILL
            if broken := mixed(world, digests(out)):
                faults.append(f"{where}, then at {second}: {broken}")
        ended = in_child(lambda out=out, point=point: world.run(out, again=True, workers=1 + point % 2))
        if ended.kind and ended.error != OutputExistsError.__name__:
            faults.append(f"{where}: the next run: {ended.error} {ended.words}")
        if (left := digests(out)) != world.whole:
            faults.append(f"{where}: other files in the end: {sorted(left)}")
        shutil.rmtree(out)
    return operations, killed


def failures(world: World, step: int, faults: list[str]) -> tuple[int, int]:
    """Let every ``step``-th operation fail once or for ever, in each way; then run again.

    Returns how many operations a run has, and how many cases were tried.
    """
    names = world.operations(with_gdal=False)
    cases = [
        (point, code, for_ever)
        for point, name in enumerate(names, 1)
        for code in (*ERRORS, SHORT_WRITE)
        for for_ever in (False, True)
        # Only a write can be short.
        if code != SHORT_WRITE or name == "write"
    ][::step]
    for point, code, for_ever in cases:
        out = world.fresh(f"f{point}-{code}-{for_ever}")

        def failing(point: int = point, code: int = code, for_ever: bool = for_ever, out: Path = out) -> None:
            Storage(fail_at(point, code, for_ever=for_ever), with_gdal=False)
            world.run(out)

        ended = in_child(failing)
        where = f"{world.kind}, {errno.errorcode.get(code, 'short write')} at {point}{' and on' if for_ever else ''}"
        where += f" ({names[point - 1]})"
        if ended.kind == "untold":
            faults.append(f"{where}: {ended.error.splitlines()[-1]}: {ended.error}")
        elif ended.kind and str(out) not in ended.words and str(world.inputs) not in ended.words:
            faults.append(f"{where}: no file is named: {ended.words}")
        left = digests(out)
        if broken := mixed(world, left):
            faults.append(f"{where}: {broken}")
        # Who can't remove files any more leaves them; the next run removes them.
        if not for_ever and ended.kind and left != visible(left) and names[point - 1] not in ("unlink", "rmdir"):
            faults.append(f"{where}: left {sorted(left.keys() - visible(left).keys())}")
        if not ended.kind and visible(left) != world.whole:
            faults.append(f"{where}: it ended well, with other files: {sorted(left)}")
        again = in_child(lambda out=out: world.run(out, again=True, resumes=False))
        if again.kind:
            faults.append(f"{where}: the next run: {again.error} {again.words}")
        if digests(out) != world.whole:
            faults.append(f"{where}: other files in the end: {sorted(digests(out))}")
        shutil.rmtree(out)
    return len(names), len(cases)


def main() -> None:
    """See the module."""
    mode, kinds, step = sys.argv[1], sys.argv[2].split(","), int(sys.argv[3])
    faults: list[str] = []
    operations = cases = 0
    for kind in kinds:
        # In memory, where syncing costs nothing: what matters is the order of operations.
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as temporary:
            world = World(kind, Path(temporary), few_shards=mode == "fail")
            own, tried = (kills if mode == "kill" else failures)(world, step, faults)
            if digests(world.inputs) != world.before:
                faults.append(f"{kind}: an input was changed")
            operations, cases = operations + own, cases + tried
    print(json.dumps({"operations": operations, "cases": cases, "faults": faults}))


if __name__ == "__main__":
    main()

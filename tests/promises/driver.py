"""Runs geotfr many times in forked children whose storage operations are counted, killed or made to fail.

Started by the tests as a process of its own: ``driver.py MODE KIND STEP``. Prints one JSON object: how many
operations a run has, how many cases were tried, and a line for each that broke a promise.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from oracle.rasters import write_raster
from oracle.sets import write_set

import geotfr
from geotfr.errors import GeotfrError, OutputExistsError

if TYPE_CHECKING:
    from collections.abc import Callable

# Imported once, so that no child does it again.
LAZY = ("pyproj", "shapely", "pyarrow", "pyogrio", "geotfr.grid.export_grid", "geotfr.rasters.request")
for _name in (*LAZY, "geotfr.pipeline.export.run", "geotfr.pipeline.tables.export", "geotfr.pipeline.ingest.run"):
    with contextlib.suppress(ImportError):
        importlib.import_module(_name)

OPERATIONS = ("open", "write", "fsync", "close", "replace", "rename", "unlink", "mkdir", "rmdir", "posix_fallocate")
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EMFILE, errno.EINTR)
EXPORT: dict[str, Any] = {"patch_dimensions": 8, "kernel_size": 4, "max_file_size": 4000}
EXPORTS: dict[str, dict[str, Any]] = {
    "float": {},
    "ee": {"compressor": "ee", "max_file_size": 1300},
    "plain": {"compressed": False, "max_file_size": 1300},
    "native": {"feature_kinds": "native", "max_file_size": 700},
    "threshold": {"masked_threshold": 0.1, "max_file_size": 1300},
    "sequence": {"sequence_data": True, "max_file_size": 9000, "patch_dimensions": 16},
    "overwrite": {},
}


class Storage:
    """Hooks ``os``: counts the operations, and lets ``act`` do something at one of them."""

    def __init__(self, act: Callable[[int, str, Callable[..., Any], tuple[Any, ...]], None] | None = None) -> None:
        self.count = 0
        self._act = act
        for name in OPERATIONS:
            if hasattr(os, name):
                setattr(os, name, self._hook(name, getattr(os, name)))

    def _hook(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **more: Any) -> Any:
            self.count += 1
            if self._act is not None:
                done = self._act(self.count, name, real, args)
                if done is not None:
                    return done
            return real(*args, **more)

        return operation


def kill_at(point: int) -> Callable[..., None]:
    """Kill the process at operation ``point``; half of a write is done."""

    def act(number: int, name: str, real: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if number == point:
            if name == "write":
                real(args[0], bytes(args[1])[: len(args[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)

    return act


def fail_at(point: int, code: int, *, for_ever: bool) -> Callable[..., None]:
    """Let operation ``point``, or all from it on, fail with ``code``; 0 stands for a short write."""

    def act(number: int, name: str, real: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if number == point or (for_ever and number > point):
            if not code:
                return real(args[0], bytes(args[1])[:1]) if name == "write" and len(args[1]) > 1 else None
            if name == "close":
                real(*args)
            raise OSError(code, os.strerror(code))
        return None

    return act


@dataclass
class Ended:
    """How a child ended: the signal or 0, what it returned or the error's class and words."""

    signal: int
    value: Any = None
    error: str = ""
    kind: str = ""
    words: str = field(default="", repr=False)


def in_child(work: Callable[[], Any]) -> Ended:
    """``work`` in a forked child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        real_write, leave = os.write, os._exit
        try:
            answer = {"value": work()}
        except BaseException as error:
            is_told = isinstance(error, GeotfrError)
            answer = {
                "error": type(error).__name__ if is_told else traceback.format_exc(),
                "kind": "told" if is_told else "untold",
                "words": str(error),
            }
        real_write(writing, json.dumps(answer).encode())
        leave(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return Ended(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, **(json.loads(text) if text else {}))


class World:
    """One kind of run, its inputs, and what it must write."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.inputs = folder / "in"
        self.inputs.mkdir()
        noise = np.random.default_rng(5).integers(0, 60, (2, 34, 66)).astype("int16")
        noise[:, :, :12] = 0
        write_raster(self.inputs / "scene.tif", noise, nodata=0, tiled=True, blockxsize=16, blockysize=16)
        write_raster(self.inputs / "old.tif", noise + 1, nodata=0)
        if kind == "ingest":
            write_set(self.inputs, noise[:1, :32, :64].astype("float32"), patch=(8, 8), shards=3)
        if kind == "table":
            rows = "\n".join(f"{n},{n / 7},name {n}" for n in range(500))
            (self.inputs / "table.csv").write_text(f"id,value,name\n{rows}\n")
        self.old = self.made("old") if kind == "overwrite" else {}
        self.whole = self.made("whole")
        self.before = digests(self.inputs)

    def made(self, name: str) -> dict[str, str]:
        """What a run that nothing stops writes."""
        out = self.fresh(name, is_old=name == "old")
        ended = in_child(lambda: self.run(out) if name != "old" else self.export_old(out))
        assert not ended.kind, ended.error + ended.words
        return digests(out)

    def fresh(self, name: str, *, is_old: bool = False) -> Path:
        """An empty folder; with the old set in it where one is to be replaced."""
        out = self.folder / name
        out.mkdir()
        if self.kind == "overwrite" and not is_old:
            shutil.copytree(self.folder / "old", out, dirs_exist_ok=True)
        return out

    def export_old(self, out: Path) -> None:
        """Write the set that is to be replaced; it has more shards."""
        geotfr.export_image(self.inputs / "old.tif", out / "set", workers=1, **{**EXPORT, "max_file_size": 3000})

    def run(self, out: Path, *, again: bool = False, workers: int = 1) -> None:
        """The run; ``again`` after one was stopped."""
        if self.kind == "table":
            geotfr.export_table(self.inputs / "table.csv", out / "set", overwrite=again, workers=workers)
        elif self.kind == "ingest":
            shards = sorted(self.inputs.glob("*.tfrecord"))
            geotfr.ingest_predictions(self.inputs / "scene-mixer.json", shards, out / "out.tif", overwrite=again)
        else:
            geotfr.export_image(
                self.inputs / "scene.tif",
                out / "set",
                resume=again,
                overwrite=self.kind == "overwrite",
                workers=workers,
                **{**EXPORT, **EXPORTS[self.kind]},
            )

    def operations(self) -> int:
        """How many operations a run has."""
        out = self.fresh("counted")

        def work() -> int:
            storage = Storage()
            self.run(out)
            return storage.count

        ended = in_child(work)
        assert not ended.kind, ended.error
        return int(ended.value)


def digests(folder: Path) -> dict[str, str]:
    """Name -> SHA-256 of every file of a folder."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def visible(found: dict[str, str]) -> dict[str, str]:
    """Without the hidden names of what is not finished."""
    return {name: digest for name, digest in found.items() if not name.startswith(".")}


def mixed(world: World, found: dict[str, str]) -> str:
    """Why what a stopped run left breaks a promise; empty: it doesn't."""
    shown = visible(found)
    for name, digest in shown.items():
        if digest not in (world.whole.get(name), world.old.get(name)):
            return f"{name} is neither whole nor the old one"
    has_manifest = any(name.endswith("manifest.json") for name in shown)
    if has_manifest and shown not in (world.whole, world.old):
        return f"a mixture has a manifest: {sorted(shown)}"
    return ""


def kills(world: World, step: int, faults: list[str]) -> int:
    """Kill a run at every ``step``-th operation, and once more while it resumes; then resume to the end."""
    points = range(1, world.operations() + 1, step)
    chance = random.Random(7)
    for point in points:
        out = world.fresh(f"k{point}")

        def stopped(point: int = point, out: Path = out) -> None:
            Storage(kill_at(point))
            world.run(out)

        def stopped_again(second: int, out: Path = out) -> None:
            Storage(kill_at(second))
            world.run(out, again=True)

        ended = in_child(stopped)
        where = f"{world.kind}, killed at {point}"
        if ended.signal != signal.SIGKILL:
            faults.append(f"{where}: not killed: {ended}")
        if broken := mixed(world, digests(out)):
            faults.append(f"{where}: {broken}")
        if point % 3 == 0:
            second = chance.randrange(1, len(points) * step)
            in_child(lambda second=second: stopped_again(second))
            if broken := mixed(world, digests(out)):
                faults.append(f"{where}, then at {second}: {broken}")
        ended = in_child(lambda out=out, point=point: world.run(out, again=True, workers=1 + point % 2))
        if ended.kind and ended.error != OutputExistsError.__name__:
            faults.append(f"{where}: the next run: {ended.error} {ended.words}")
        if (left := digests(out)) != world.whole:
            faults.append(f"{where}: other files in the end: {sorted(left)}")
        shutil.rmtree(out)
    return len(points)


def failures(world: World, step: int, faults: list[str]) -> int:
    """Let every ``step``-th operation fail once or for ever, in each way; then run again."""
    points = range(1, world.operations() + 1)
    ways = [(code, for_ever) for code in (*ERRORS, 0) for for_ever in (False, True)]
    cases = [(point, *way) for point in points for way in ways][::step]
    for point, code, for_ever in cases:
        out = world.fresh(f"f{point}-{code}-{for_ever}")

        def failing(point: int = point, code: int = code, for_ever: bool = for_ever, out: Path = out) -> None:
            Storage(fail_at(point, code, for_ever=for_ever))
            world.run(out)

        ended = in_child(failing)
        where = f"{world.kind}, {errno.errorcode.get(code, 'short write')} at {point}{' and on' if for_ever else ''}"
        if ended.kind == "untold":
            faults.append(f"{where}: {ended.error.splitlines()[-1]}: {ended.error}")
        elif ended.kind and str(out) not in ended.words:
            faults.append(f"{where}: no file is named: {ended.words}")
        left = digests(out)
        if broken := mixed(world, left):
            faults.append(f"{where}: {broken}")
        # Who can't remove files any more leaves them; the next run removes them.
        if not for_ever and ended.kind and left != visible(left) and "unlink" not in ended.words:
            faults.append(f"{where}: left {sorted(left.keys() - visible(left).keys())}")
        if not ended.kind and visible(left) != world.whole:
            faults.append(f"{where}: it ended well, with other files")
        world_again = in_child(lambda out=out: run_over(world, out))
        if world_again.kind:
            faults.append(f"{where}: the next run: {world_again.error} {world_again.words}")
        if digests(out) != world.whole:
            faults.append(f"{where}: other files in the end: {sorted(digests(out))}")
        shutil.rmtree(out)
    return len(cases)


def run_over(world: World, out: Path) -> None:
    """A run that replaces what is there, and doesn't resume."""
    if world.kind in EXPORTS:
        options = {**EXPORT, **EXPORTS[world.kind]}
        geotfr.export_image(world.inputs / "scene.tif", out / "set", overwrite=True, workers=1, **options)
    else:
        world.run(out, again=True)


def main() -> None:
    """See the module."""
    mode, kind, step = sys.argv[1], sys.argv[2], int(sys.argv[3])
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        world = World(kind, Path(temporary))
        operations = world.operations()
        shutil.rmtree(Path(temporary) / "counted")
        cases = (kills if mode == "kill" else failures)(world, step, faults)
        if digests(world.inputs) != world.before:
            faults.append("an input was changed")
    print(json.dumps({"operations": operations, "cases": cases, "faults": faults}))


if __name__ == "__main__":
    main()

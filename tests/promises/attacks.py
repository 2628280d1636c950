"""Hostile files and names, and the proof that a command given one reads no other file, writes nowhere else, and uses no
network.

The canary is watched by the kernel (inotify), a socket listens on the loopback address, and every file outside the
output folder is compared before and after.
"""

from __future__ import annotations

import select
import socket
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.rasters import write_raster
from oracle.run import Outcome, contents, run
from oracle.watch import Watch

needs_inotify = pytest.mark.skipif(sys.platform != "linux", reason="the canary is watched by inotify")

_CALM = {0, 2, 3, 10, 12, 13, 14}
_PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "attacks.md"


@dataclass(frozen=True)
class Target:
    """What an attack may want: files that aren't its business, an address, and a folder to write to."""

    folder: Path
    canary: Path
    address: str

    @property
    def url(self) -> str:
        """An address on the loopback server."""
        return f"http://{self.address}/canary.tif"

    def file(self, name: str, content: str | bytes) -> Path:
        """A file of the attacker's."""
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def raster(self, name: str = "x.tif", **more: Any) -> Path:
        """A good raster of the attacker's."""
        return write_raster(self.folder / name, np.ones((1, 32, 32), np.uint8), **more)


Attack = Callable[[Target], list[Any]]
ATTACKS: dict[str, Attack] = {}


def attack(name: str) -> Callable[[Attack], Attack]:
    """Enter an attack into the list, for the module that defines it."""

    def enter(made: Attack) -> Attack:
        assert name not in ATTACKS
        ATTACKS[name] = made
        return made

    return enter


def export(source: Any, *more: Any) -> list[Any]:
    return ["export", "-o", "out/set", "--patch-dimensions", "8", *more, "--", source]


def listener() -> socket.socket:
    """A socket on the loopback address that listens and never answers."""
    return socket.create_server(("127.0.0.1", 0))


def run_attack(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """Run the attack ``name`` in ``folder``; it fails if the canary, the network or another file was touched."""
    monkeypatch.setenv("GDAL_HTTP_TIMEOUT", "1")
    elsewhere, home = folder / "elsewhere", folder / "attack"
    for each in (elsewhere, home):
        each.mkdir()
    canary = write_raster(elsewhere / "canary.tif", np.full((1, 32, 32), 211, np.uint8))
    with zipfile.ZipFile(f"{canary}.zip", "w") as archive:
        archive.write(canary, "canary.tif")
    with listener() as server:
        words = ATTACKS[name](Target(home, canary, "{}:{}".format(*server.getsockname())))
        (home / "out").mkdir(exist_ok=True)
        planted = contents(home / "out")
        monkeypatch.chdir(home)
        before = _outside(folder)
        watch = Watch(canary, Path(f"{canary}.zip"))
        done = run(*words)
        assert not watch.events(), f"the canary was opened: {done.told}"
        watch.close()
        assert not select.select([server], [], [], 0)[0], f"the network was used: {done.told}"
    assert _outside(folder) == before
    assert done.code in _CALM, done.told
    assert "Traceback" not in done.told
    if done.code not in (0, 3):
        # What is named as a killed run of ours names it may be cleared away.
        left = {name for name in contents(home / "out") if not name.endswith(".lock")}
        assert left <= planted.keys()
        assert len([line for line in done.stderr.splitlines() if line.startswith("geotfr: ")]) == 1, done.stderr
    return done


def _outside(folder: Path) -> dict[str, bytes]:
    return {key: value for key, value in contents(folder).items() if not key.startswith("attack/out/")}


def attacks_of(module: str) -> list[str]:
    """The attacks that ``module`` (its ``__name__``) defines, in order."""
    return [name for name, made in ATTACKS.items() if made.__module__ == module]


def documented_attacks(heading: str) -> list[str]:
    """The attacks under ``## heading`` of docs/reference/attacks.md."""
    section = _PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [line.partition(". ")[2] for line in section.splitlines() if line[:1].isdecimal()]

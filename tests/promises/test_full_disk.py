"""A disk that is full, at any point: one line, exit 14, nothing left. So is a raster that reads back damaged."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.rasters import write_raster
from oracle.run import assert_refused, contents, run
from oracle.sets import write_set

import geotfr.rasters.cog
from geotfr.rasters.sink import GeoTiffSink

PAGE = 4096
SLOW_KINDS = ("plain", "ee", "table", "gtiff", "levels")


class Disk:
    """A file system in memory whose size can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={PAGE}", "tmpfs", folder], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"a small disk can't be mounted here: {done.stderr.strip()}")

    def resize(self, size: int) -> None:
        """Give it room for ``size`` bytes."""
        pages = max(1, size // PAGE)
        subprocess.run(["mount", "-o", f"remount,size={pages * PAGE}", self.folder], check=True, capture_output=True)

    def close(self) -> None:
        """Take it away."""
        subprocess.run(["umount", self.folder], check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    try:
        made = Disk(tmp_path / "disk")
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    yield made
    made.close()


@pytest.fixture
def words(tmp_path: Path) -> Callable[[str, Path], tuple[Any, ...]]:
    """The command line of a kind of run, into a folder."""
    inputs = tmp_path / "in"
    inputs.mkdir()
    noise = np.random.default_rng(3).normal(0, 1, (1, 192, 192)).astype("float32")
    scene = write_raster(inputs / "scene.tif", noise)
    mixer, shards = write_set(inputs, noise, patch=(32, 32), shards=2)
    (inputs / "table.csv").write_text("id,value\n" + "".join(f"{n},{n / 7}\n" for n in range(9000)))
    export = ("export", scene, "--patch-dimensions", "32", "--max-file-size", "30000", "--quiet")
    ingest = ("ingest-predictions", mixer, *shards, "--quiet")

    def made(kind: str, folder: Path) -> tuple[Any, ...]:
        return {
            "export": (*export, "-o", folder / "set"),
            "plain": (*export, "-o", folder / "set", "--no-compressed"),
            "ee": (*export, "-o", folder / "set", "--compressor", "ee"),
            "table": ("export-table", inputs / "table.csv", "-o", folder / "set", "--quiet"),
            "gtiff": (*ingest, "-o", folder / "out.tif"),
            "levels": (*ingest, "-o", folder / "out.tif", "--compress", "none", "--pyramiding-policy", "mean"),
            "cog": (*ingest, "-o", folder / "out.tif", "--format", "cog"),
        }[kind]

    return made


@pytest.mark.parametrize(
    "kind", ["export", "cog", *(pytest.param(kind, marks=pytest.mark.slow) for kind in SLOW_KINDS)]
)
def test_a_disk_that_fills_up_leaves_nothing_and_with_room_the_run_works(
    kind: str,
    disk: Disk,
    words: Callable[[str, Path], tuple[Any, ...]],
    tmp_path: Path,
    count: Callable[[str, int], None],
) -> None:
    if kind == "table":
        pytest.importorskip("pyogrio")
        pytest.importorskip("pyarrow")
    whole = tmp_path / "whole"
    whole.mkdir()
    assert run(*words(kind, whole)).code == 0
    wanted = contents(whole)
    size = sum(map(len, wanted.values()))
    for share in (0.02, 0.2, 0.4, 0.6, 0.8, 0.97):
        disk.resize(int(size * share))
        assert_refused(run(*words(kind, disk.folder)), 14, str(disk.folder))
        assert not list(disk.folder.iterdir())
        count("full disks", 1)
    # A COG is made of a staged copy of its pixels and their levels.
    disk.resize(4 * size + 64 * PAGE)
    assert run(*words(kind, disk.folder)).code == 0
    assert contents(disk.folder) == wanted


@pytest.mark.parametrize("kind", ["gtiff", "cog"])
def test_a_raster_that_reads_back_damaged_never_gets_its_name(
    kind: str, words: Callable[[str, Path], tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[len(content) // 3 : -len(content) // 3] = bytes(len(content[len(content) // 3 : -len(content) // 3]))
        path.write_bytes(content)

    close, copy = GeoTiffSink.close, geotfr.rasters.cog.copy_raster

    def damaged_close(self: GeoTiffSink) -> None:
        close(self)
        damage(Path(self.path))

    def damaged_copy(source: Path, target: Path, **options: Any) -> None:
        copy(source, target, **options)
        damage(target)

    if kind == "cog":
        monkeypatch.setattr(geotfr.rasters.cog, "copy_raster", damaged_copy)
    else:
        monkeypatch.setattr(GeoTiffSink, "close", damaged_close)
    out = tmp_path / "out"
    out.mkdir()
    assert_refused(run(*words(kind, out)), 14, "out.tif", "read back")
    assert not list(out.iterdir())

"""The kinds of run that are killed and made to fail: their inputs, and what each must write."""

from __future__ import annotations

import gc
import hashlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from oracle.rasters import write_raster
from oracle.sets import write_set
from oracle.wire import example, float_feature, write_shard
from promises.hooks import Storage, in_child

import geotfr

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
KINDS = (*EXPORTS, "shared", "table", "ingest", "cog", "index", "repair")
REPLACING = ("overwrite", "shared")
"""Kinds whose runs find what an older one wrote: a set to be replaced, a collection to be added to."""


class World:
    """One kind of run, its inputs, and what it must write.

    With ``few_shards`` each file of a run is as before, and there are fewer: each step of a run is in it.
    """

    def __init__(self, kind: str, folder: Path, *, few_shards: bool = False) -> None:
        self.kind = kind
        self.folder = folder
        self.inputs = folder / "in"
        self.inputs.mkdir()
        self.options = {**EXPORT, **EXPORTS.get(kind, {})}
        if few_shards:
            self.options["max_file_size"] *= 5
        noise = np.random.default_rng(5).integers(0, 60, (2, 34, 66)).astype("int16")
        noise[:, :, :12] = 0
        write_raster(self.inputs / "scene.tif", noise, nodata=0, tiled=True, blockxsize=16, blockysize=16)
        write_raster(self.inputs / "old.tif", noise + 1, nodata=0)
        if kind in ("ingest", "cog"):
            picture = np.random.default_rng(6).normal(0, 1, (1, 96, 64)).astype("float32")
            write_set(self.inputs, picture, patch=(8, 8), shards=3)
        if kind == "table":
            rows = "\n".join(f"{n},{n / 7},name {n}" for n in range(500))
            (self.inputs / "table.csv").write_text(f"id,value,name\n{rows}\n")
        if kind in ("index", "repair"):
            self._write_records()
        self._warm_up()
        self.old = self.made("old") if kind in REPLACING else {}
        self.whole = self.made("whole")
        self.before = digests(self.inputs)

    def _write_records(self) -> None:
        payloads = [example([("v", float_feature([float(number)]))]) for number in range(40)]
        path = write_shard(self.inputs / "a.tfrecord", payloads)
        content = bytearray(path.read_bytes())
        content[-200] ^= 1
        (self.inputs / "bad.tfrecord").write_bytes(content)

    def _warm_up(self) -> None:
        """Run once here, so that no child imports anything, or starts GDAL and PROJ, again."""
        # Nothing is there yet to be replaced.
        warm = self.fresh("warm", is_old=True)
        self.run(warm)
        shutil.rmtree(warm)
        gc.collect()
        gc.freeze()

    def made(self, name: str) -> dict[str, str]:
        """What a run that nothing stops writes."""
        out = self.fresh(name, is_old=name == "old")
        ended = in_child(lambda: self.run(out) if name != "old" else self.export_old(out))
        assert not ended.kind, ended.error + ended.words
        return digests(out)

    def fresh(self, name: str, *, is_old: bool = False) -> Path:
        """An empty folder; with the old set in it where one is to be replaced, and the file where one is indexed."""
        out = self.folder / name
        out.mkdir()
        if self.kind in REPLACING and not is_old:
            shutil.copytree(self.folder / "old", out, dirs_exist_ok=True)
        if self.kind == "index":
            shutil.copy(self.inputs / "a.tfrecord", out)
        return out

    def export_old(self, out: Path) -> None:
        """Write the set that is to be replaced, which has more shards, or the collection that gets a raster more."""
        if self.kind == "shared":
            self._collect(out, "old.tif", overwrite=False, workers=1)
            return
        geotfr.export_image(self.inputs / "old.tif", out / "set", workers=1, **{**EXPORT, "max_file_size": 3000})

    def _collect(self, out: Path, *names: str, overwrite: bool, workers: int) -> None:
        rasters = [self.inputs / name for name in names]
        geotfr.export_collection(
            rasters, out / "all", shards="shared", overwrite=overwrite, workers=workers, **self.options
        )

    def run(self, out: Path, *, again: bool = False, resumes: bool = True, workers: int = 1) -> None:
        """The run; ``again`` after one was stopped, which it ``resumes`` if it can, or else replaces."""
        if self.kind in EXPORTS:
            geotfr.export_image(
                self.inputs / "scene.tif",
                out / "set",
                resume=again and resumes,
                overwrite=self.kind == "overwrite" or (again and not resumes),
                workers=workers,
                **self.options,
            )
        elif self.kind == "shared":
            self._collect(out, "old.tif", "scene.tif", overwrite=again, workers=workers)
        elif self.kind == "table":
            geotfr.export_table(self.inputs / "table.csv", out / "set", overwrite=again, workers=workers)
        elif self.kind == "index":
            geotfr.write_index(out / "a.tfrecord", overwrite=again)
        elif self.kind == "repair":
            geotfr.repair(self.inputs / "bad.tfrecord", out / "good.tfrecord", overwrite=again)
        else:
            given: dict[str, Any] = {"format": "cog", "preview": out / "out.png"} if self.kind == "cog" else {}
            geotfr.ingest_predictions(
                self.inputs / "scene-mixer.json",
                sorted(self.inputs.glob("*.tfrecord")),
                out / "out.tif",
                overwrite=again,
                workers=1,
                **given,
            )

    def operations(self, *, with_gdal: bool) -> list[str]:
        """What a run does, in order."""
        out = self.fresh("counted")

        def work() -> list[str]:
            storage = Storage(with_gdal=with_gdal)
            self.run(out)
            return storage.names

        ended = in_child(work)
        assert not ended.kind, ended.error
        shutil.rmtree(out)
        names: list[str] = ended.value
        return names


def digests(folder: Path) -> dict[str, str]:
    """Name -> SHA-256 of every file below a folder; a folder is one too."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "a folder"
        for path in sorted(folder.rglob("*"))
    }


def visible(found: dict[str, str]) -> dict[str, str]:
    """Without the hidden names of what is not finished."""
    return {name: digest for name, digest in found.items() if not name.startswith(".")}

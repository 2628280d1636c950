"""A set whose manifest is damaged is not read as one without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.rasters import numbered, write_raster
from oracle.run import assert_refused, run

import geotfr

DAMAGE: dict[str, tuple[str, Any]] = {
    "no list": ("sources", 5),
    "text": ("bands", "x"),
    "another format": ("format", 99),
    "a list for a mapping": ("options", []),
}
COMMANDS = {
    "stats": ("stats", "{}"),
    "table": ("table", "{}", "-o", "{}/new.parquet"),
    "preview": ("preview", "patches", "{}", "-o", "{}/p.png"),
    "ingest": ("ingest-predictions", "{}", "-o", "{}/map.tif"),
    "verify": ("verify", "{}"),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_damaged_manifest_is_told_by_every_reader(damage: str, command: str, tmp_path: Path) -> None:
    source = write_raster(tmp_path / "in.tif", numbered(1, 8, 8))
    folder = tmp_path / "set"
    folder.mkdir()
    result = geotfr.export_image(source, folder / "a", patch_dimensions=4)
    found = json.loads(result.manifest.read_text())
    key, value = DAMAGE[damage]
    result.manifest.write_text(json.dumps({**found, key: value}))
    before = sorted(folder.iterdir())
    assert_refused(run(*(word.format(folder) for word in COMMANDS[command])), {10, 12}, "manifest")
    assert sorted(folder.iterdir()) == before
    with pytest.raises(geotfr.GeotfrError):
        geotfr.PatchDataset(folder)
    with pytest.raises(geotfr.GeotfrError):
        next(iter(geotfr.stream(folder)))


def test_a_manifest_of_another_grid_is_no_matter(tmp_path: Path) -> None:
    values = np.ones((1, 8, 8), np.float32)
    one = geotfr.export_image(write_raster(tmp_path / "a.tif", values), tmp_path / "a", patch_dimensions=4)
    two = geotfr.export_image(write_raster(tmp_path / "b.tif", values[:, :4]), tmp_path / "b", patch_dimensions=4)
    (tmp_path / "a-manifest.json").write_text(two.manifest.read_text())
    assert one.mixer is not None
    assert len(geotfr.PatchDataset([one.mixer, *one.shards])) == 4

"""Exporting again over a source that changed: shards whose bytes stay the same are left alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from oracle.rasters import numbered, write_raster
from oracle.run import contents, run

import geotfr

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("compressed", [True, False])
def test_only_shards_whose_records_changed_are_rewritten(tmp_path: Path, compressed: bool) -> None:
    pixels = numbered(1, 12, 12)
    options: dict[str, Any] = {"patch_dimensions": 2, "max_file_size": 400, "compressed": compressed}
    (tmp_path / "set").mkdir()
    (tmp_path / "new").mkdir()
    before = geotfr.export_image(write_raster(tmp_path / "a.tif", pixels), tmp_path / "set" / "x", **options)
    assert before.shards_unchanged == ()
    assert len(before.shards) > 4
    times = {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in before.shards}
    pixels[0, 5, 5] = -1
    write_raster(tmp_path / "a.tif", pixels)
    after = geotfr.export_image(tmp_path / "a.tif", tmp_path / "set" / "x", overwrite=True, **options)
    geotfr.export_image(tmp_path / "a.tif", tmp_path / "new" / "x", **options)
    assert contents(tmp_path / "set") == contents(tmp_path / "new")
    changed = [path.name for path in after.shards if (path.stat().st_mtime_ns, path.stat().st_ino) != times[path.name]]
    assert len(changed) == 1
    assert sorted([*after.shards_unchanged, *changed]) == sorted(times)
    assert f"rewritten: {changed[0]}" in after.to_text()
    assert not list((tmp_path / "set").glob(".*"))


def test_a_shard_of_another_size_with_the_same_name_is_replaced(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "a.tif", numbered(1, 4, 4))
    options: Any = ("export", source, "-o", tmp_path / "x", "--patch-dimensions", "2", "--overwrite", "--json", "-q")
    assert run(*options).code == 0
    shard = tmp_path / "x.tfrecord.gz"
    whole = shard.read_bytes()
    for other in (whole[:-1], bytes(len(whole)), b""):
        shard.write_bytes(other)
        told = json.loads(run(*options).stdout)
        assert told["shards_unchanged"] == []
        assert shard.read_bytes() == whole
    assert json.loads(run(*options).stdout)["shards_unchanged"] == ["x.tfrecord.gz"]

"""A link at the name of a set's file is replaced as a name, whatever it leads to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from oracle.rasters import write_raster

import geotfr


@pytest.mark.parametrize("is_relative", [False, True])
@pytest.mark.parametrize("name", ["set.tfrecord.gz", "set.json", "set-manifest.json"])
def test_a_link_to_a_file_with_the_same_bytes_is_replaced_by_a_file(
    tmp_path: Path, name: str, is_relative: bool
) -> None:
    source = write_raster(tmp_path / "scene.tif", np.full((1, 32, 32), 1, np.uint8))
    geotfr.export_image(source, tmp_path / "set", patch_dimensions=8)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    target = (tmp_path / name).rename(elsewhere / "file")
    before = target.read_bytes()
    (tmp_path / name).symlink_to("elsewhere/file" if is_relative else target)

    result = geotfr.export_image(source, tmp_path / "set", patch_dimensions=8, overwrite=True)

    assert not (tmp_path / name).is_symlink()
    assert (tmp_path / name).is_file()
    assert target.read_bytes() == before
    assert name not in result.shards_unchanged

"""The footprints of a set are the patches' outlines, with their places and masked shares."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.rasters import NORTH_UP, ROTATED, numbered, write_raster

import geotfr
from geotfr.errors import UsageError


def at(transform: Any, col: float, row: float) -> tuple[float, float]:
    """The place of a pixel's corner."""
    a, b, c, d, e, f = transform[:6]
    return a * col + b * row + c, d * col + e * row + f


@pytest.mark.parametrize("grid", ["north-up", "rotated"])
def test_outlines_are_the_corners_of_each_patch(tmp_path: Path, grid: str) -> None:
    transform = NORTH_UP if grid == "north-up" else ROTATED
    source = write_raster(tmp_path / "a.tif", numbered(1, 8, 12), transform=transform)
    result = geotfr.export_image(
        source, tmp_path / "s", patch_dimensions=4, kernel_size=2, max_file_size=700, compressed=False
    )
    frame = geotfr.to_geopandas(result)
    assert frame["number"].tolist() == list(range(6))
    assert frame["row"].tolist() == [0, 0, 0, 1, 1, 1]
    assert frame["column"].tolist() == [0, 1, 2, 0, 1, 2]
    assert frame["shard"].nunique() == len(result.shards) > 1
    assert frame["record"].tolist()[:2] == [0, 1]
    assert frame.crs.to_epsg() == 32618
    corners = {at(transform, *corner) for corner in ((4, 4), (8, 4), (8, 8), (4, 8))}
    np.testing.assert_allclose(sorted(set(frame.geometry[4].exterior.coords)), sorted(corners))
    blocks = geotfr.to_geopandas(result, with_margins=True)
    around = {at(transform, *corner) for corner in ((3, 3), (9, 3), (9, 9), (3, 9))}
    np.testing.assert_allclose(sorted(set(blocks.geometry[4].exterior.coords)), sorted(around))
    assert frame["masked_share"].isna().all()


def test_masked_shares_are_counted_or_come_from_the_patch_table(tmp_path: Path) -> None:
    pixels = numbered(2, 8, 8)
    pixels[0, :2, :2] = -1
    pixels[1, 1:3, 5] = -1
    source = write_raster(tmp_path / "a.tif", pixels, nodata=-1)
    result = geotfr.export_image(
        source, tmp_path / "s", patch_dimensions=4, kernel_size=2, default_value=-9, patch_table=True
    )
    wanted = [4 / 16, 2 / 16, 0, 0]
    assert geotfr.to_geopandas(result.mixer)["masked_share"].tolist() == wanted
    assert geotfr.to_geopandas(geotfr.PatchDataset(result.mixer), masked_value=-9)["masked_share"].tolist() == wanted
    part = geotfr.PatchDataset(result.mixer).subset([1, 0])
    assert geotfr.to_geopandas(part)["masked_share"].tolist() == [2 / 16, 4 / 16]
    assert geotfr.to_geopandas(part)["number"].tolist() == [1, 0]


def test_what_is_missing_is_told_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_raster(tmp_path / "a.tif", numbered(1, 4, 4))
    result = geotfr.export_image(source, tmp_path / "s", patch_dimensions=4)
    with pytest.raises(UsageError, match="no mixer"):
        geotfr.to_geopandas(geotfr.PatchDataset(result.shards, patch_dimensions=4))
    monkeypatch.setitem(sys.modules, "geopandas", None)
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(UsageError, match=r"pip install 'geotfr\[vector\]'"):
        geotfr.to_geopandas(result)
    with pytest.raises(UsageError, match=r"pip install 'geotfr\[xarray\]'"):
        geotfr.to_xarray(result)

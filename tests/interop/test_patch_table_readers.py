"""The patch table in the programs that people open it with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracle.rasters import numbered, write_raster

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.interop


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """12 patches of one band."""
    source = write_raster(tmp_path / "scene.tif", numbered(1, 6, 8))
    result = geotfr.export_image(source, tmp_path / "set", patch_dimensions=2, patch_table=True)
    assert result.patch_table is not None
    return result.patch_table


def test_duckdb_queries_it(table: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    found = duckdb.sql(
        f"SELECT number, shard, hex(sha256) FROM '{table}' WHERE mean_b1 > 30 ORDER BY number"
    ).fetchall()
    means = [numbered(1, 6, 8)[0, r : r + 2, c : c + 2].mean() for r in (0, 2, 4) for c in (0, 2, 4, 6)]
    assert [row[0] for row in found] == np.flatnonzero(np.array(means) > 30).tolist()
    assert {row[1] for row in found} == {"set.tfrecord.gz"}
    assert all(len(row[2]) == 64 for row in found)


def test_geopandas_opens_it_with_crs_and_outlines(table: Path) -> None:
    geopandas = pytest.importorskip("geopandas")
    frame = geopandas.read_parquet(table)
    assert frame.crs.to_epsg() == 32618
    assert frame.total_bounds.tolist() == [500000, 3999940, 500080, 4000000]
    assert frame.area.tolist() == [400.0] * 12


def test_gdal_opens_it_as_qgis_does(table: Path) -> None:
    pyogrio = pytest.importorskip("pyogrio")
    if "Parquet" not in pyogrio.list_drivers():
        pytest.skip("pyogrio's GDAL has no Parquet driver")
    facts = pyogrio.read_info(table)
    assert (facts["features"], facts["geometry_type"], facts["crs"]) == (12, "Polygon", "EPSG:32618")

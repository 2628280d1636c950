"""A CRS that GeoTIFF has no form for: told at export, and kept in a side file by an ingest."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import numpy as np
import pyproj
import pytest
import rasterio
from oracle.rasters import write_raster

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

NOT_IN_GEOTIFF = {
    "rotated pole": "+proj=ob_tran +o_proj=longlat +o_lon_p=0 +o_lat_p=39.25 +lon_0=18 +type=crs",
    "engineering": 'ENGCRS["a&b",EDATUM["x"],CS[Cartesian,2],AXIS["x",east],AXIS["y",north],UNIT["metre",1]]',
    "vertical": "EPSG:5773",
    "icosahedral": "+proj=isea +datum=WGS84 +type=crs",
}


@pytest.mark.parametrize("raster_format", ["gtiff", "cog"])
@pytest.mark.parametrize("name", NOT_IN_GEOTIFF)
def test_a_crs_that_lives_in_a_side_file_is_told_and_kept(tmp_path: Path, name: str, raster_format: str) -> None:
    wkt = pyproj.CRS.from_user_input(NOT_IN_GEOTIFF[name]).to_wkt()
    source = write_raster(tmp_path / "x.tif", np.ones((1, 8, 8), np.float32), crs=None)
    (tmp_path / "x.tif.aux.xml").write_text(f"<PAMDataset><SRS>{escape(wkt)}</SRS></PAMDataset>")
    with rasterio.open(source) as opened:
        expected = pyproj.CRS.from_wkt(opened.crs.to_wkt())
    result = geotfr.export_image(source, tmp_path / "set", patch_dimensions=4)
    assert sum("has no form for" in text for text in result.warnings) == 1
    (tmp_path / "classes.csv").write_text("1,one,#ff0000\n")
    for number, more in enumerate(({}, {"classes": tmp_path / "classes.csv", "dtype": "uint8"})):
        output = tmp_path / f"map{number}.tif"
        made = geotfr.ingest_predictions(result.mixer, result.shards, output=output, format=raster_format, **more)
        assert sum(".aux.xml" in text for text in made.warnings) == 1
        with rasterio.open(output) as opened:
            assert pyproj.CRS.from_wkt(opened.crs.to_wkt()).equals(expected, ignore_axis_order=True)
        names = sorted(path.name for path in tmp_path.glob("map*"))
        assert f"map{number}.tif.aux.xml" in names
        again = geotfr.export_image(output, tmp_path / f"again{number}", patch_dimensions=4)
        assert again.plan.layout.geobox.crs == result.plan.layout.geobox.crs


def test_a_side_file_goes_where_the_crs_has_a_form_again(tmp_path: Path) -> None:
    for crs in (NOT_IN_GEOTIFF["rotated pole"], "EPSG:32618"):
        array = (np.ones((8, 8), np.float32), rasterio.Affine(1, 0, 0, 0, -1, 0), crs)
        result = geotfr.export_image(array, tmp_path / "set", patch_dimensions=4, overwrite=True)
        made = geotfr.ingest_predictions(result.mixer, result.shards, output=tmp_path / "map.tif", overwrite=True)
    assert not made.warnings
    assert not (tmp_path / "map.tif.aux.xml").exists()

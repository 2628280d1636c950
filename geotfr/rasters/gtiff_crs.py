"""Which CRSs a GeoTIFF has a form for; GDAL keeps others in a side file."""

from __future__ import annotations

from functools import lru_cache

import rasterio
from rasterio.crs import CRS
from rasterio.io import MemoryFile
from rasterio.transform import Affine

from geotfr.errors import InputError
from geotfr.grid.crs import crs_wkt, same_crs
from geotfr.rasters.safe_open import GDAL_ERRORS, quiet_georeference

__all__ = ["gtiff_holds"]


@lru_cache(maxsize=64)
def gtiff_holds(crs: str) -> bool:
    """Whether a GeoTIFF gives the CRS back that was written into it, without a side file; True for none.

    >>> gtiff_holds("EPSG:32633"), gtiff_holds('ENGCRS["x",EDATUM["x"],CS[Cartesian,2],AXIS["e",east],AXIS["n",north]]')
    (True, False)
    """
    if not crs.strip():
        return True
    place = Affine(1.0, 0.0, 0.0, 0.0, -1.0, 0.0)
    try:
        with rasterio.Env(GDAL_PAM_ENABLED="NO"), quiet_georeference(), MemoryFile() as file:
            profile = {"driver": "GTiff", "width": 1, "height": 1, "count": 1, "dtype": "uint8", "transform": place}
            with file.open(crs=CRS.from_wkt(crs_wkt(crs)), **profile):
                pass
            with file.open() as dataset:
                found = dataset.crs.to_wkt() if dataset.crs else ""
        return same_crs(found, crs)
    except (*GDAL_ERRORS, InputError):
        return False

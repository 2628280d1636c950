"""Pure geometry of raster grids; touches no file but the one that a region is read from."""

from geotfr.grid.geobox import Affine6, GeoBox, Window

__all__ = ["Affine6", "GeoBox", "Window"]

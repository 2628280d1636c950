"""Pure geometry of raster grids; touches no file."""

from geotfr.grid.geobox import Affine6, GeoBox, Window

__all__ = ["Affine6", "GeoBox", "Window"]

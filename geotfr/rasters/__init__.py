"""Rasters: opened safely, read as stacks of bands, written. The only importer of rasterio."""

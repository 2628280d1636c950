"""A model's predictions: patches in batches from rasters or records, out to records or to a raster."""

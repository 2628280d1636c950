"""Predictions to a raster: output grid, records, overlap, finish, mosaic, output."""

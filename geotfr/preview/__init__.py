"""Pictures of grids, patches, classes and values, and pages that compare two rasters."""

"""geotfr: Earth Engine's TFRecord exports and prediction ingest on local GeoTIFFs."""

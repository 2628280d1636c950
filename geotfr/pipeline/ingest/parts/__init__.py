"""An ingest by parts: areas of the raster made anywhere, and put together."""

"""A second, slow and obvious answer to what an export and an ingest must be.

Written from the contract alone: struct, zlib and Python integers for the bytes, rasterio for the pixels.
Nothing here imports geotfr, except :mod:`oracle.run`, which starts its command line.
"""

"""What ``geotfr --version`` prints: the versions that decide bytes and behaviour."""

from __future__ import annotations

import platform
import zlib
from importlib.metadata import version

__all__ = ["version_text"]


def version_text() -> str:
    """geotfr's version and those of GDAL, CRC and gzip in use, a line each."""
    import google_crc32c

    from geotfr._version import __version__
    from geotfr.rasters.versions import gdal_version

    return "\n".join(
        (
            f"geotfr {__version__}",
            f"GDAL {gdal_version()} (rasterio {version('rasterio')})",
            f"CRC32C google-crc32c {version('google-crc32c')} ({google_crc32c.implementation})",
            f"gzip fast: deflate {version('deflate')}; ee: zlib {zlib.ZLIB_RUNTIME_VERSION}",
            f"numpy {version('numpy')}, Python {platform.python_version()}",
        )
    )

"""A new GeoTIFF, written window by window.

It is written at the path that is given: the caller gives a temporary name, closes, has it compared by
:func:`geotfr.rasters.read_back.check_raster`, and renames.
"""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import rasterio
from rasterio import Affine
from rasterio.errors import RasterBlockError

from geotfr.errors import OutputError, UsageError
from geotfr.grid.crs import crs_wkt
from geotfr.rasters import creation
from geotfr.rasters.complaints import Complaints, listening
from geotfr.rasters.float_tiles import takes_float_tiles
from geotfr.rasters.gtiff_crs import gtiff_holds
from geotfr.rasters.safe_open import GDAL_ERRORS, gdal_words, hush_libtiff, quiet_georeference
from geotfr.rasters.tile_writer import FloatTileWriter
from geotfr.rasters.write_error import DISK_HINT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import DTypeLike, NDArray

    from geotfr.grid import GeoBox

__all__ = ["GeoTiffSink", "gdal_calls", "tag_raster"]

# No side file: it would stay at the temporary name when the raster is renamed.
SINK_ENV = {"GDAL_PAM_ENABLED": "NO"}


class GeoTiffSink:
    """A tiled GeoTIFF that is open for writing; a context manager that closes it.

    Parameters
    ----------
    path
        Where it is written; an existing file is replaced.
    geobox
        Its grid; kept exactly, rotated and south-up too.
    dtype
        The pixel type of all bands.
    band_names
        The bands' descriptions; their number is the number of bands.
    nodata
        The nodata value, or None.
    creation_options
        See :func:`geotfr.rasters.creation.creation_options`.
    block_yx
        (rows, columns) of a tile, multiples of 16. Windows that cover whole tiles are fastest, and with one thread
        their errors come with :meth:`write` already.
    threads
        Threads that compress tiles; they don't change the file's bytes.
    colours
        Value to (red, green, blue, alpha) of the first band, for one band of uint8 or uint16; empty for none.
    scale_offset
        (scale, offset) of all bands: a reader's value is ``pixel * scale + offset``.
    has_whole_tiles
        Promises that each window covers whole tiles, that no tile is written twice, and that there is no mask: floats
        are then compressed by :mod:`geotfr.rasters.float_tiles`, faster than GDAL does.

    Raises
    ------
    UsageError
        For creation options or a nodata value that GDAL doesn't take.
    OutputError
        If the file can't be made.

    Examples
    --------
    >>> import tempfile
    >>> from geotfr.grid import GeoBox
    >>> from geotfr.rasters.read_back import check_raster
    >>> box = GeoBox(shape_yx=(2, 3), affine=(10.0, 0.0, 500.0, 0.0, -10.0, 800.0), crs="EPSG:32633")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with GeoTiffSink(f"{folder}/x.tif", geobox=box, dtype="uint8", band_names=["class"]) as sink:
    ...         sink.write(0, 0, np.ones((1, 2, 3), np.uint8))
    ...     check_raster(f"{folder}/x.tif", geobox=box, dtype="uint8", band_names=["class"])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        geobox: GeoBox,
        dtype: DTypeLike,
        band_names: Sequence[str],
        nodata: float | None = None,
        creation_options: Mapping[str, str] | None = None,
        block_yx: tuple[int, int] = (256, 256),
        threads: int = 1,
        colours: Mapping[int, tuple[int, int, int, int]] | None = None,
        scale_offset: tuple[float, float] | None = None,
        has_whole_tiles: bool = False,
    ) -> None:
        self.path = os.fspath(path)
        """Where the file is written."""
        self.dtype: np.dtype[np.generic] = np.dtype(dtype)
        """The pixel type."""
        rows, cols = geobox.shape_yx
        options = creation.creation_options(
            creation_options or {},
            shape=(len(band_names), rows, cols),
            dtype=self.dtype,
            block_yx=block_yx,
            threads=threads,
        )
        is_fast = has_whole_tiles and takes_float_tiles(options, self.dtype)
        if is_fast:
            # GDAL would write empty tiles.
            options["SPARSE_OK"] = "TRUE"
        self._tags: list[dict[str, str]] = []
        self._tiles: FloatTileWriter | None = None
        wkt = crs_wkt(geobox.crs) if gtiff_holds(geobox.crs) else ""
        hush_libtiff()
        with gdal_calls(self.path, "can't be made") as complaints, quiet_georeference():
            # rasterio would open an existing file, by any driver that takes it, to delete it.
            Path(self.path).unlink(missing_ok=True)
            self._dataset = rasterio.open(
                os.path.abspath(self.path),  # noqa: PTH100  (not resolved: a name, never an address)
                "w",
                driver="GTiff",
                height=rows,
                width=cols,
                count=len(band_names),
                dtype=self.dtype.name,
                crs=rasterio.crs.CRS.from_wkt(wkt) if wkt else None,
                transform=Affine(*geobox.affine),
                nodata=nodata,
                sharing=False,
                **options,
            )
        refused = [words for words in complaints.warnings if "option" in words or "value not recognised" in words]
        if refused:
            self.abandon()
            raise UsageError(f"--creation-option: {refused[0].partition(' in ')[2]}")
        self._dataset.descriptions = tuple(band_names)
        if colours:
            self._dataset.write_colormap(1, dict(colours))
        if scale_offset:
            self._dataset.scales = (scale_offset[0],) * len(band_names)
            self._dataset.offsets = (scale_offset[1],) * len(band_names)
        if is_fast:
            with gdal_calls(self.path, "can't be made", DISK_HINT):
                self._dataset.close()
            tile_yx = int(options["BLOCKYSIZE"]), int(options["BLOCKXSIZE"])
            self._tiles = FloatTileWriter(self.path, shape_yx=(rows, cols), tile_yx=tile_yx, threads=threads)

    def write(self, row: int, col: int, data: NDArray[np.generic]) -> None:
        """Write ``data`` (band, row, column), of the sink's type, with its upper-left pixel at ``row`` and ``col``.

        Raises
        ------
        OutputError
            If GDAL can't write: no space, a limit of the file's size, a fault of the disk.
        """
        if self._tiles is not None:
            self._tiles.write(row, col, data)
            return
        height, width = data.shape[1:]
        with gdal_calls(self.path, f"rows {row}-{row + height - 1} can't be written", DISK_HINT):
            self._dataset.write(data, window=((row, row + height), (col, col + width)))

    def write_mask(self, row: int, col: int, valid: NDArray[np.bool_]) -> None:
        """Write ``valid`` (row, column) into the mask inside the file, one for all bands; as :meth:`write`."""
        height, width = valid.shape
        with gdal_calls(self.path, f"the mask of rows {row}-{row + height - 1} can't be written", DISK_HINT):
            self._dataset.write_mask(valid, window=((row, row + height), (col, col + width)))

    def tag_bands(self, tags: Sequence[Mapping[str, str]]) -> None:
        """Give each band its metadata items."""
        if self._tiles is not None:
            self._tags = [dict(items) for items in tags]
            return
        with gdal_calls(self.path, "its metadata can't be written", DISK_HINT):
            for number, items in enumerate(tags, 1):
                self._dataset.update_tags(number, **items)

    def close(self) -> None:
        """Write what is left in memory, and close; the first call alone does something.

        Raises
        ------
        OutputError
            If that fails: what isn't whole tiles, or is compressed by threads, is written no earlier.
        """
        if self._tiles is not None:
            tiles, self._tiles = self._tiles, None
            tiles.close()
            if any(self._tags):
                tag_raster(self.path, self._tags)
        if self._dataset.closed:
            return
        with gdal_calls(self.path, "what was left can't be written", DISK_HINT):
            self._dataset.close()

    def abandon(self) -> None:
        """Close without care for what is left to write: another error is on its way."""
        if self._tiles is not None:
            self._tiles.abandon()
            self._tiles = None
        try:
            self.close()
        except OutputError:
            logging.getLogger(__name__).debug("closing %s after an error failed too", self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


def tag_raster(path: str, tags: Sequence[Mapping[str, str]]) -> None:
    """Give each band of the GeoTIFF ``path``, which is closed, its metadata items.

    Raises
    ------
    OutputError
        If they can't be written.
    """
    with (
        gdal_calls(path, "its metadata can't be written", DISK_HINT),
        quiet_georeference(),
        # Not resolved: a name, never an address.
        rasterio.open(os.path.abspath(path), "r+", driver="GTiff", sharing=False) as dataset,  # noqa: PTH100
    ):
        for number, items in enumerate(tags, 1):
            dataset.update_tags(number, **items)


@contextmanager
def gdal_calls(path: str, failure: str, advice: str = "") -> Iterator[Complaints]:
    """A call into GDAL whose errors come as OutputError, also those that rasterio logs only."""
    with rasterio.Env(**SINK_ENV), listening() as complaints:
        try:
            yield complaints
        except (RasterBlockError, ValueError) as error:  # rasterio's own checks of block sizes and nodata
            raise UsageError(f"{path}: {failure}: {gdal_words(error)}") from error
        except GDAL_ERRORS as error:
            raise OutputError(f"{path}: {failure}: {gdal_words(error)}{advice}") from error
    if complaints.errors:
        raise OutputError(f"{path}: {failure}: {complaints.errors[0]}{advice}")

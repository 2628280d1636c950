"""A raster that was written, opened again and compared with what was meant."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import numpy as np

from geotfr.errors import GeotfrError, OutputError
from geotfr.grid import Window
from geotfr.grid.crs import crs_text, same_crs
from geotfr.rasters.gtiff_crs import gtiff_holds
from geotfr.rasters.safe_open import GDAL_ERRORS, gdal_words, safe_open

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import rasterio
    from numpy.typing import DTypeLike, NDArray

    from geotfr.grid import GeoBox

__all__ = ["PixelCheck", "PixelReader", "check_raster"]


_SIDE = 1024


class PixelReader:
    """A GeoTIFF of this run that is read window by window; a context manager that closes it.

    Raises
    ------
    OutputError
        If it can't be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._name = os.fspath(path)
        with self._read_back():
            self._dataset = safe_open(self._name)

    def pixels(self, window: Window) -> NDArray[np.generic]:
        """``(band, row, col)``; raises OutputError if they can't be read."""
        with self._read_back():
            found: NDArray[np.generic] = self._dataset.read(window=_place(window))
            return found

    def valid(self, window: Window) -> NDArray[np.bool_]:
        """The mask ``(row, col)``; raises OutputError if it can't be read."""
        with self._read_back():
            return np.asarray(self._dataset.dataset_mask(window=_place(window)) > 0)

    @contextmanager
    def _read_back(self) -> Iterator[None]:
        try:
            yield
        except (GeotfrError, *GDAL_ERRORS) as error:
            raise OutputError(f"{self._name}: can't be read back: {gdal_words(error)}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._dataset.close()


def _place(window: Window) -> tuple[tuple[int, int], tuple[int, int]]:
    return (window.row, window.row_stop), (window.col, window.col_stop)


class PixelCheck(PixelReader):
    """A GeoTIFF whose pixels are compared, window by window."""

    def compare(self, row: int, col: int, data: NDArray[np.generic], valid: NDArray[np.bool_] | None) -> None:
        """Compare ``data`` (band, row, column), and the mask ``valid`` (row, column) if there is one, with the file.

        Raises
        ------
        OutputError
            For a difference, or pixels that can't be read.
        """
        try:
            # A square at a time: the window may be most of what memory holds.
            for top in range(0, data.shape[1], _SIDE):
                for left in range(0, data.shape[2], _SIDE):
                    part = np.s_[top : top + _SIDE, left : left + _SIDE]
                    _check_sample(self._dataset, self._name, row + top, col + left, data[:, *part])
                    if valid is not None:
                        self._check_mask(row + top, col + left, valid[part])
        except GDAL_ERRORS as error:
            raise OutputError(f"{self._name}: can't be read back: {gdal_words(error)}") from error

    def _check_mask(self, row: int, col: int, valid: NDArray[np.bool_]) -> None:
        window = Window(row=row, col=col, height=valid.shape[0], width=valid.shape[1])
        if not np.array_equal(self.valid(window), valid):
            raise OutputError(f"{self._name}: the mask read back differs from the one written, in {window}")


def check_raster(
    path: str | os.PathLike[str],
    *,
    geobox: GeoBox,
    dtype: DTypeLike,
    band_names: Sequence[str],
    nodata: float | None = None,
    samples: Iterable[tuple[int, int, NDArray[np.generic]]] = (),
) -> None:
    """Reopen the GeoTIFF ``path`` and compare it with what was meant to be written.

    Parameters
    ----------
    path, geobox, dtype, band_names, nodata
        As given to :class:`GeoTiffSink`.
    samples
        (row, column, data) of some writes, data (band, row, column); compared with the pixels read back.

    Raises
    ------
    OutputError
        For the first difference, or if the file can't be read.
    """
    name = os.fspath(path)
    try:
        with safe_open(name) as dataset:
            found = {
                "size": (dataset.width, dataset.height),
                "types": dataset.dtypes,
                "transform": tuple(dataset.transform)[:6],
                "band names": tuple(text or "" for text in dataset.descriptions),
                "nodata": dataset.nodata,
            }
            crs = crs_text(dataset.crs.to_wkt()) if dataset.crs else ""
            for row, col, data in samples:
                _check_sample(dataset, name, row, col, data)
    except OutputError:
        raise
    except (GeotfrError, *GDAL_ERRORS) as error:
        raise OutputError(f"{name}: can't be read back: {gdal_words(error)}") from error
    wanted = {
        "size": geobox.shape_yx[::-1],
        "types": (np.dtype(dtype).name,) * len(band_names),
        "transform": geobox.affine,
        "band names": tuple(band_names),
        "nodata": nodata,
    }
    for fact, value in wanted.items():
        if found[fact] != value and not (value is not None and value != value and found[fact] != found[fact]):
            raise OutputError(f"{name}: read back with another {fact}: {found[fact]}, written {value}")
    if not same_crs(crs, geobox.crs if gtiff_holds(geobox.crs) else ""):
        raise OutputError(f"{name}: GeoTIFF doesn't keep the CRS {geobox.crs[:60]!r}; read back {crs[:60]!r}")


def _check_sample(dataset: rasterio.io.DatasetReader, name: str, row: int, col: int, data: NDArray[np.generic]) -> None:
    window = Window(row=row, col=col, height=data.shape[1], width=data.shape[2])
    back = dataset.read(window=((row, window.row_stop), (col, window.col_stop)))
    if not np.array_equal(back, data, equal_nan=data.dtype.kind == "f"):
        raise OutputError(f"{name}: pixels read back differ from those written, in {window}")

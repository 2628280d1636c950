"""Reading bands of one raster, on its own grid: pixels as they are stored, and what the raster's masks say."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import numpy as np

from geotfr.errors import ReadError
from geotfr.rasters.masks import keep_nonzero
from geotfr.rasters.safe_open import GDAL_ERRORS, gdal_words, safe_open

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from rasterio.io import DatasetReader

    from geotfr.grid import Window
    from geotfr.rasters.describe import SourceFile
    from geotfr.rasters.memory import MemoryRaster

__all__ = ["BandReader", "FileReader", "MemoryReader", "distinct", "make_reader"]


class BandReader(Protocol):
    """Reads chosen bands of one raster."""

    def read(self, window: Window, out: Sequence[NDArray[np.generic]], kept: Sequence[NDArray[np.bool_]]) -> None:
        """Fill ``out`` with the bands' pixels in ``window``, and clear ``kept`` where the raster's masks mask a band.

        The window is inside the raster.

        ``out`` and ``kept`` have one array (row, column) per band; bands may share a mask's array, which then gets the
        union.
        """
        ...

    def close(self) -> None:
        """Close the handles; a later read opens them again."""
        ...


def make_reader(
    file: SourceFile, indexes: tuple[int, ...], *, allow_drivers: Sequence[str], threads: int
) -> BandReader:
    """A reader of bands ``indexes`` (from 1) of ``file``."""
    if file.memory is not None:
        return MemoryReader(file.memory, indexes)
    return FileReader(file, indexes, allow_drivers=allow_drivers, threads=threads)


class MemoryReader:
    """Bands of a raster in memory."""

    def __init__(self, raster: MemoryRaster, indexes: tuple[int, ...]) -> None:
        self._raster = raster
        self._indexes = indexes

    def read(self, window: Window, out: Sequence[NDArray[np.generic]], kept: Sequence[NDArray[np.bool_]]) -> None:
        """See :meth:`BandReader.read`."""
        rows, cols = slice(window.row, window.row_stop), slice(window.col, window.col_stop)
        for pixels, found in zip(out, self._raster.read(self._indexes, rows, cols), strict=True):
            pixels[...] = found
        if self._raster.mask is not None:
            for valid in distinct(kept):
                np.logical_and(valid, self._raster.mask[rows, cols], out=valid)

    def close(self) -> None:
        """Nothing is open."""


class FileReader:
    """Bands of a raster file.

    One instance serves one thread at a time. A pickled copy, and one in a forked process, opens its own handle.
    """

    def __init__(
        self, file: SourceFile, indexes: tuple[int, ...], *, allow_drivers: Sequence[str], threads: int
    ) -> None:
        self._file = file
        self._indexes = indexes
        self._allow_drivers = allow_drivers
        self._threads = threads if file.is_worth_threads else 1
        self._open: DatasetReader | None = None
        self._pid = os.getpid()

    def read(self, window: Window, out: Sequence[NDArray[np.generic]], kept: Sequence[NDArray[np.bool_]]) -> None:
        """See :meth:`BandReader.read`.

        Raises
        ------
        ReadError
            If GDAL can't read or decode the pixels.
        """
        by_type: dict[np.dtype[np.generic], list[int]] = {}
        for place, pixels in enumerate(out):
            by_type.setdefault(pixels.dtype, []).append(place)
        for places in by_type.values():
            self._read_bands(places, window, out)
        if self._file.has_mask:
            self._keep_masks(window, out, kept)

    def close(self) -> None:
        """Close the handle; a later read opens it again."""
        if self._open is not None:
            self._open.close()
        self._open = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_open": None}

    def _handle(self) -> DatasetReader:
        if self._pid != os.getpid():  # forked: a shared handle would share its place in the file
            self._open, self._pid = None, os.getpid()
        if self._open is None:
            self._open = safe_open(
                self._file.opened_as,
                allow_drivers=self._allow_drivers,
                allow_network=self._file.remote is not None,
                threads=self._threads,
            )
        return self._open

    def _read_bands(self, places: list[int], window: Window, out: Sequence[NDArray[np.generic]]) -> None:
        """Read the bands at ``places``, of one type: at once where their arrays lie evenly spaced."""
        target = _as_one([out[place] for place in places])
        if target is not None:
            self._read_pixels([self._indexes[place] for place in places], window, target)
            return
        for place in places:
            self._read_pixels([self._indexes[place]], window, out[place][np.newaxis])

    def _read_pixels(self, indexes: list[int], window: Window, target: NDArray[np.generic]) -> None:
        """Read bands ``indexes`` into ``target`` (band, row, column) itself."""
        try:
            self._handle().read(indexes, out=target, window=_slices(window))
        except GDAL_ERRORS as error:
            raise self._read_error(indexes, window, error) from error

    def _read_mask(self, index: int, window: Window) -> NDArray[np.uint8]:
        target = np.empty((window.height, window.width), np.uint8)
        try:
            self._handle().read_masks(index, out=target, window=_slices(window))
        except GDAL_ERRORS as error:
            raise self._read_error([index], window, error) from error
        return target

    def _keep_masks(
        self, window: Window, out: Sequence[NDArray[np.generic]], kept: Sequence[NDArray[np.bool_]]
    ) -> None:
        """Clear ``kept`` where a mask band or an alpha band masks."""
        own = distinct(kept)
        scratch = np.empty((window.height, window.width), np.bool_)
        if self._file.mask_band:
            mask = self._read_mask(self._file.mask_band, window)
            for valid in own:
                keep_nonzero(mask, valid, scratch)
        elif self._file.has_band_masks:
            for index, valid in zip(self._indexes, kept, strict=True):
                keep_nonzero(self._read_mask(index, window), valid, scratch)
        for index in self._file.alpha_bands:
            alpha = self._alpha(index, window, out)
            for valid in own:
                keep_nonzero(alpha, valid, scratch)

    def _alpha(self, index: int, window: Window, out: Sequence[NDArray[np.generic]]) -> NDArray[np.generic]:
        """Alpha band ``index``, (row, column): from ``out``, if it is one of the bands read."""
        if index in self._indexes:
            return out[self._indexes.index(index)]
        dtype = np.dtype(self._handle().dtypes[index - 1])
        alpha: NDArray[np.generic] = np.empty((1, window.height, window.width), dtype)
        self._read_pixels([index], window, alpha)
        plane: NDArray[np.generic] = alpha[0]
        return plane

    def _read_error(self, indexes: list[int], window: Window, error: Exception) -> ReadError:
        bands = f"band{'s' if len(indexes) > 1 else ''} {', '.join(map(str, indexes))}"
        where = f"rows {window.row}-{window.row_stop - 1}, columns {window.col}-{window.col_stop - 1}"
        return ReadError(f"{self._file.path}: {bands}, {where}: can't be read: {gdal_words(error)}")


def distinct(arrays: Sequence[NDArray[np.bool_]]) -> list[NDArray[np.bool_]]:
    """``arrays``, each object once."""
    return list({id(array): array for array in arrays}.values())


def _as_one(views: Sequence[NDArray[np.generic]]) -> NDArray[np.generic] | None:
    """``views`` (row, column) as one array (band, row, column) on the same memory, if evenly spaced."""
    first = views[0]
    if len(views) == 1:
        return first[np.newaxis]
    starts = [view.__array_interface__["data"][0] for view in views]
    step = starts[1] - starts[0]
    if step <= 0 or any(
        view.strides != first.strides or start != starts[0] + place * step
        for place, (view, start) in enumerate(zip(views, starts, strict=True))
    ):
        return None
    together: NDArray[np.generic] = np.lib.stride_tricks.as_strided(
        first, (len(views), *first.shape), (step, *first.strides)
    )
    return together


def _slices(window: Window) -> tuple[tuple[int, int], tuple[int, int]]:
    return (window.row, window.row_stop), (window.col, window.col_stop)

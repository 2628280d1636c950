"""Rasters as one stack of bands on one grid, read window by window in the files' own types.

Opening describes: :func:`open_sources` reads the headers, checks them, and keeps values alone. Handles are
opened when pixels are first read, so a described stack can be pickled, and each process or thread reads
through its own copy (:meth:`RasterSource.reopen`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from geotfr.errors import InputError, ReadError, UsageError
from geotfr.grid import GeoBox
from geotfr.rasters.bands import SourceBand, SourceSpec, band_names, parse_source, select_bands
from geotfr.rasters.describe import SourceFile, check_one_grid, describe_bands, describe_file
from geotfr.rasters.masks import keep_nonzero, keep_valid, nodata_in
from geotfr.rasters.safe_open import GDAL_ERRORS, gdal_words, safe_open

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from rasterio.io import DatasetReader

    from geotfr.grid import Window
    from geotfr.rasters.request import SourceRequest

__all__ = [
    "RasterSource",
    "SourceBand",
    "SourceFeature",
    "SourceFile",
    "SourceSpec",
    "open_export_source",
    "open_sources",
    "parse_source",
]

MASK_PIXELS = 1 << 17
"""How many pixels of a band are compared at a time: they fit the cache with their mask, which halves the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFeature:
    """A feature of the export: a scalar band, or the elements of an array band.

    Attributes
    ----------
    name
        Unique among the features.
    planes
        Positions of its bands in :attr:`RasterSource.bands`.
    is_array
        Whether a pixel of it is an array; it may have one element.
    """

    name: str
    planes: range
    is_array: bool


@dataclass(frozen=True, slots=True)
class _Group:
    """Bands of one file and type: they are read together.

    ``places`` are their positions among the selected bands, ``indexes`` their numbers in the file.
    """

    places: tuple[int, ...]
    indexes: tuple[int, ...]


class RasterSource:
    """A stack of bands on one grid; made by :func:`open_sources`.

    One instance serves one thread at a time. A pickled copy, and one in a forked process, opens its own handles.
    """

    def __init__(
        self,
        files: tuple[SourceFile, ...],
        bands: tuple[SourceBand, ...],
        *,
        allow_drivers: tuple[str, ...],
        threads: int,
        warnings: tuple[str, ...],
    ) -> None:
        self.geobox: GeoBox = files[0].geobox
        """The grid of every file."""
        self.bands: tuple[SourceBand, ...] = bands
        """The selected bands, in order."""
        self.warnings: tuple[str, ...] = warnings
        """What a user should know, one line each; to be told once."""
        self.features: tuple[SourceFeature, ...] = tuple(
            SourceFeature(name=band.name, planes=range(place, place + 1), is_array=False)
            for place, band in enumerate(bands)
        )
        """The features that the bands make: scalar bands first, then array bands."""
        self._files = files
        self._allow_drivers = allow_drivers
        self._threads = threads
        self._used = sorted({band.source_number for band in bands})
        self._groups = {number: _groups(bands, number) for number in self._used}
        self._handles: dict[int, DatasetReader] = {}
        self._pid = os.getpid()

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        """Facts of the files that the selected bands come from."""
        return tuple(self._files[number] for number in self._used)

    @property
    def block_shape_yx(self) -> tuple[int, int]:
        """(rows, columns) of a storage block: the greatest of the files."""
        rows, cols = zip(*(file.block_shape_yx for file in self.sources), strict=True)
        return max(rows), max(cols)

    @property
    def block_bytes(self) -> int:
        """Decoded bytes of one storage block of every file: the least memory that a read takes in GDAL."""
        return sum(file.block_bytes for file in self.sources)

    @property
    def has_mask(self) -> bool:
        """Whether any pixel could be masked."""
        return any(band.nodata or band.dtype.kind == "f" for band in self.bands) or any(
            file.has_mask for file in self.sources
        )

    def read(
        self,
        window: Window,
        out: Sequence[NDArray[np.generic]],
        valid: NDArray[np.bool_],
        band_valid: Sequence[NDArray[np.bool_]] | None = None,
    ) -> None:
        """Fill ``out`` with the pixels of ``window``, and ``valid`` with True where no mask masks them.

        Parameters
        ----------
        window
            Inside the grid wholly.
        out
            One array (row, column) per band, in the band's dtype; or one (band, row, column). Views of a
            larger buffer are filled in place; bands that lie evenly spaced in one buffer are read at once.
        valid
            (row, column). False where any selected band or its file's mask or alpha says masked.
        band_valid
            One array (row, column) per band, filled with the band's own validity: its nodata, NaN, and the mask or
            alpha of its file. ``valid`` then is False only where something masks whole pixels.

        Raises
        ------
        ReadError
            If GDAL can't read or decode the pixels.
        """
        valid.fill(True)
        for own in band_valid or ():
            own.fill(True)
        # Several bands that clear one array unite their masks.
        kept = [valid] * len(self.bands) if band_valid is None else band_valid
        for number in self._used:
            for group in self._groups[number]:
                self._read_group(number, group, window, out)
            self._keep_file_masks(number, window, out, kept)
        self._keep_values(out, kept)

    def reopen(self) -> RasterSource:
        """The same stack with handles of its own, for another thread."""
        return RasterSource(
            self._files,
            self.bands,
            allow_drivers=self._allow_drivers,
            threads=self._threads,
            warnings=self.warnings,
        )

    def close(self) -> None:
        """Close all handles; a later read opens them again."""
        while self._handles:
            self._handles.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_handles": {}}

    def _handle(self, number: int) -> DatasetReader:
        if self._pid != os.getpid():  # forked: a shared handle would share its place in the file
            self._handles, self._pid = {}, os.getpid()
        handle = self._handles.get(number)
        if handle is None:
            file = self._files[number]
            handle = safe_open(
                file.path,
                allow_drivers=self._allow_drivers,
                threads=self._threads if file.is_worth_threads else 1,
            )
            self._handles[number] = handle
        return handle

    def _read_group(self, number: int, group: _Group, window: Window, out: Sequence[NDArray[np.generic]]) -> None:
        target = _as_one([out[place] for place in group.places])
        if target is not None:
            self._read_pixels(number, group.indexes, window, target)
            return
        for place, index in zip(group.places, group.indexes, strict=True):
            self._read_pixels(number, (index,), window, out[place][np.newaxis])

    def _read_pixels(self, number: int, indexes: tuple[int, ...], window: Window, target: NDArray[np.generic]) -> None:
        """Read bands ``indexes`` of a file into ``target`` (band, row, column) itself."""
        try:
            self._handle(number).read(list(indexes), out=target, window=_slices(window))
        except GDAL_ERRORS as error:
            raise self._read_error(number, indexes, window, error) from error

    def _read_mask(self, number: int, index: int, window: Window) -> NDArray[np.uint8]:
        target = np.empty((window.height, window.width), np.uint8)
        try:
            self._handle(number).read_masks(index, out=target, window=_slices(window))
        except GDAL_ERRORS as error:
            raise self._read_error(number, (index,), window, error) from error
        return target

    def _keep_file_masks(
        self,
        number: int,
        window: Window,
        out: Sequence[NDArray[np.generic]],
        kept: Sequence[NDArray[np.bool_]],
    ) -> None:
        """Clear ``kept`` of the file's bands where a mask band or an alpha band of the file masks."""
        file = self._files[number]
        if not file.has_mask:
            return
        places = [place for place, band in enumerate(self.bands) if band.source_number == number]
        own = _distinct([kept[place] for place in places])
        scratch = np.empty(own[0].shape, np.bool_)
        if file.mask_band:
            mask = self._read_mask(number, file.mask_band, window)
            for valid in own:
                keep_nonzero(mask, valid, scratch)
        elif file.has_band_masks:
            for place in places:
                keep_nonzero(self._read_mask(number, self.bands[place].index, window), kept[place], scratch)
        for index in file.alpha_bands:
            alpha = self._alpha(number, index, window, {self.bands[place].index: out[place] for place in places})
            for valid in own:
                keep_nonzero(alpha, valid, scratch)

    def _alpha(
        self, number: int, index: int, window: Window, read: dict[int, NDArray[np.generic]]
    ) -> NDArray[np.generic]:
        """Alpha band ``index``, (row, column): from the bands ``read`` already, if it is one of them."""
        if index in read:
            return read[index]
        alpha = np.empty((1, window.height, window.width), self._handle(number).dtypes[index - 1])
        self._read_pixels(number, (index,), window, alpha)
        return alpha[0]

    def _keep_values(self, out: Sequence[NDArray[np.generic]], kept: Sequence[NDArray[np.bool_]]) -> None:
        """Clear ``kept`` where a band's own values mask, some rows at a time, so that all stays in cache."""
        masking = [
            (band, pixels, valid)
            for band, pixels, valid in zip(self.bands, out, kept, strict=True)
            if band.nodata or band.dtype.kind == "f"
        ]
        if not masking:
            return
        height, width = kept[0].shape
        step = max(1, MASK_PIXELS // max(width, 1))
        scratch = np.empty((min(step, height), width), np.bool_)
        for row in range(0, height, step):
            rows = slice(row, min(row + step, height))
            for band, pixels, valid in masking:
                keep_valid(pixels[rows], band.nodata, valid[rows], scratch[: rows.stop - row])

    def _read_error(self, number: int, indexes: tuple[int, ...], window: Window, error: Exception) -> ReadError:
        bands = f"band{'s' if len(indexes) > 1 else ''} {', '.join(map(str, indexes))}"
        where = f"rows {window.row}-{window.row_stop - 1}, columns {window.col}-{window.col_stop - 1}"
        return ReadError(f"{self._files[number].path}: {bands}, {where}: can't be read: {gdal_words(error)}")


def open_export_source(specs: Sequence[SourceSpec | str], request: SourceRequest) -> RasterSource:
    """The rasters ``specs`` as ``request`` asks for them, on the grid of the export.

    Raises
    ------
    MissingInputError, InputError, UsageError
        See :func:`open_sources`.
    """
    return open_sources(
        specs,
        bands=request.bands,
        nodata=request.nodata,
        allow_ungeoreferenced=request.allow_ungeoreferenced,
        allow_drivers=request.allow_drivers,
        threads=request.threads,
    )


def open_sources(
    specs: Sequence[SourceSpec | str],
    *,
    bands: Sequence[str] | None = None,
    nodata: str | float | None = None,
    allow_ungeoreferenced: bool = False,
    allow_drivers: Sequence[str] = ("GTiff",),
    threads: int = 1,
) -> RasterSource:
    """The rasters ``specs``, on one grid, as one stack of bands.

    Parameters
    ----------
    specs
        Rasters, or single bands of them; texts are parsed by :func:`parse_source`.
    bands
        Which bands of the stack, see :func:`geotfr.rasters.bands.select_bands`. By default all but alpha
        bands: these mask, as they do when they are selected.
    nodata
        The nodata value of all bands, in place of the files' own.
    allow_ungeoreferenced
        Take rasters that say nothing of their place on the ground.
    allow_drivers
        See :func:`geotfr.rasters.safe_open.safe_open`.
    threads
        Threads that decode compressed blocks.

    Raises
    ------
    MissingInputError, InputError
        For a file that isn't there, isn't a raster, has no georeference, complex pixels or another grid.
    UsageError
        For a band that isn't there, or a ``nodata`` that isn't a number.

    Examples
    --------
    >>> import tempfile
    >>> from geotfr.grid import Window
    >>> from geotfr.rasters.sink import GeoTiffSink
    >>> box = GeoBox(shape_yx=(2, 3), affine=(10.0, 0.0, 500.0, 0.0, -10.0, 800.0), crs="EPSG:32633")
    >>> pixels, valid = np.empty((1, 1, 3), np.uint8), np.empty((1, 3), np.bool_)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/x.tif"
    ...     with GeoTiffSink(path, geobox=box, dtype="uint8", band_names=["class"], nodata=0) as sink:
    ...         sink.write(0, 0, np.arange(6, dtype=np.uint8).reshape(1, 2, 3))
    ...     with open_sources([path]) as source:
    ...         source.read(Window(row=0, col=0, height=1, width=3), pixels, valid)
    >>> source.bands[0].name, pixels.tolist(), valid.tolist()
    ('class', [[[0, 1, 2]]], [[False, True, True]])
    """
    parsed = [parse_source(spec) if isinstance(spec, str) else spec for spec in specs]
    if not parsed:
        raise UsageError("no source is given; name at least one raster")
    paths = list(dict.fromkeys(spec.path for spec in parsed))
    warnings: list[str] = []
    files: list[SourceFile] = []
    stacks: list[tuple[SourceBand, ...]] = []
    for number, path in enumerate(paths):
        with safe_open(path, allow_drivers=allow_drivers) as dataset:
            files.append(describe_file(dataset, path, allow_ungeoreferenced=allow_ungeoreferenced, warnings=warnings))
            stacks.append(describe_bands(dataset, path, source_number=number, warnings=warnings))
    check_one_grid(files)
    stack: list[SourceBand] = []
    default: list[bool] = []
    for spec in parsed:
        found = _bands_of(spec, stacks[paths.index(spec.path)])
        stack += found
        default += [spec.band is not None or not band.is_alpha for band in found]
    named = band_names(stack, band_counts=[len(found) for found in stacks])
    if bands is not None:
        selected = select_bands(named, bands)
    else:
        selected = tuple(band for band, is_default in zip(named, default, strict=True) if is_default)
    _check_selected(selected, paths)
    return RasterSource(
        tuple(files),
        selected if nodata is None else _with_nodata(selected, nodata, warnings),
        allow_drivers=tuple(allow_drivers),
        threads=threads,
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _bands_of(spec: SourceSpec, bands: tuple[SourceBand, ...]) -> tuple[SourceBand, ...]:
    if spec.band is None:
        return bands
    if spec.band > len(bands):
        raise UsageError(f"{spec.path}:{spec.band}: no band {spec.band}; the file has {len(bands)}")
    return (bands[spec.band - 1],)


def _check_selected(bands: tuple[SourceBand, ...], paths: Sequence[str]) -> None:
    if not bands:
        raise InputError(f"{paths[0]}: alpha bands only; name them in --bands to take them as data")
    for band in bands:
        if band.dtype.kind == "c":
            raise InputError(
                f"{paths[band.source_number]}: band {band.index} ({band.name}) is complex; make real and "
                "imaginary part, or amplitude, bands of their own first, or leave it out with --bands"
            )


def _with_nodata(bands: tuple[SourceBand, ...], nodata: str | float, warnings: list[str]) -> tuple[SourceBand, ...]:
    try:
        changed = tuple(replace(band, nodata=nodata_in(band.dtype, nodata)) for band in bands)
        is_nan = np.isnan(float(nodata))
    except ValueError as error:
        raise UsageError(f"--nodata {nodata!r}: not a number") from error
    unmasked = [band for band in changed if not band.nodata and not is_nan]
    if unmasked:
        names = ", ".join(f"{band.name} ({band.dtype})" for band in unmasked)
        warnings.append(f"--nodata {nodata} is no value of {names}; it masks nothing there")
    return changed


def _groups(bands: tuple[SourceBand, ...], number: int) -> tuple[_Group, ...]:
    """The selected bands of file ``number``, by type."""
    by_type: dict[np.dtype[np.generic], list[int]] = {}
    for place, band in enumerate(bands):
        if band.source_number == number:
            by_type.setdefault(band.dtype, []).append(place)
    return tuple(_Group(tuple(places), tuple(bands[place].index for place in places)) for places in by_type.values())


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
    return np.lib.stride_tricks.as_strided(first, (len(views), *first.shape), (step, *first.strides))


def _distinct(arrays: Sequence[NDArray[np.bool_]]) -> list[NDArray[np.bool_]]:
    """``arrays``, each object once."""
    return list({id(array): array for array in arrays}.values())


def _slices(window: Window) -> tuple[tuple[int, int], tuple[int, int]]:
    return (window.row, window.row_stop), (window.col, window.col_stop)

"""Rasters as one stack of bands on the grid of an export, read window by window.

Opening describes: :func:`open_export_source` reads the headers, checks them, and keeps values alone. Handles are
opened when pixels are first read, so a described stack can be pickled, and each process or thread reads
through its own copy (:meth:`RasterSource.reopen`).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from rasterio.features import geometry_mask
from rasterio.transform import Affine

from geotfr.grid import GeoBox
from geotfr.grid.export_grid import ExportGrid, export_grid
from geotfr.rasters.bands import SourceBand, SourceSpec, parse_source
from geotfr.rasters.describe import SourceFile, check_one_grid
from geotfr.rasters.layers import JoinedLayer, make_layer
from geotfr.rasters.masks import keep_nonzero, keep_valid
from geotfr.rasters.request import SourceRequest
from geotfr.rasters.safe_open import quiet_georeference
from geotfr.rasters.stack import SourceFeature, Stack, gather
from geotfr.rasters.warp import suggested_pixel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geotfr.grid import Window
    from geotfr.rasters.layers import Layer
    from geotfr.rasters.request import Resampling

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


INEXACT = ("int64", "uint64")
"""Types whose values 64-bit floats don't all hold."""


class RasterSource:
    """A stack of bands on one grid; made by :func:`open_export_source`.

    One instance serves one thread at a time. A pickled copy, and one in a forked process, opens its own handles.
    """

    def __init__(self, stack: Stack, grid: ExportGrid, request: SourceRequest) -> None:
        self.geobox: GeoBox = grid.geobox
        """The grid of the export."""
        self.bands: tuple[SourceBand, ...] = stack.bands
        """The bands, in order: scalar bands, then the elements of array bands."""
        self.features: tuple[SourceFeature, ...] = stack.features
        """The features that the bands make: scalar bands first, then array bands."""
        self.warnings: tuple[str, ...] = stack.warnings
        """What a user should know, one line each; to be told once."""
        self._in_use = threading.Lock()
        self._stack = stack
        self._grid = grid
        self._request = request
        self._used = sorted({band.source_number for band in stack.bands} - {-1})
        self._places = [
            [place for place, band in enumerate(stack.bands) if band.source_number == number] for number in self._used
        ]
        self._layers = [self._layer([stack.bands[place] for place in places]) for places in self._places]
        # Elements of a time series whose file is missing.
        self._missing = [place for place, band in enumerate(stack.bands) if band.source_number == -1]
        self._masks = [self._layer([band], is_mask=True) for band in stack.masks]
        self.warnings += _warp_warnings(stack, self._layers, self._places, request.resampling)

    def _layer(self, bands: list[SourceBand], *, is_mask: bool = False) -> Layer:
        return make_layer(
            self._stack.files[bands[0].source_number],
            bands,
            self.geobox,
            resampling="nearest" if is_mask else self._request.resampling,
            allow_drivers=self._request.allow_drivers,
            threads=self._request.threads,
        )

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        """Facts of the files that the selected bands and the masks come from."""
        numbers = [*self._used, *(band.source_number for band in self._stack.masks)]
        return tuple(self._stack.files[number] for number in dict.fromkeys(numbers))

    @property
    def block_shape_yx(self) -> tuple[int, int]:
        """(rows, columns) of a storage block, or of what is warped at a time: the greatest of the files."""
        rows, cols = zip(*(layer.block_shape_yx for layer in (*self._layers, *self._masks)), strict=True)
        return max(rows), max(cols)

    @property
    def block_bytes(self) -> int:
        """Decoded bytes of one storage block of every file: the least memory that a read takes in GDAL."""
        return sum(layer.block_bytes for layer in (*self._layers, *self._masks))

    @property
    def scratch_pixel_bytes(self) -> int:
        """Bytes per pixel of a window that a read takes beside what it fills."""
        converted = sum(band.file_dtype.itemsize for band in self.bands if band.is_converted)
        return converted + (8 if any(band.is_unscaled for band in self.bands) else 0) + (1 if self._grid.clip else 0)

    @property
    def has_mask(self) -> bool:
        """Whether any pixel could be masked."""
        return (
            self._grid.clip is not None
            or bool(self._masks)
            or bool(self._missing)
            or any(band.can_mask for band in self.bands)
            or any(layer.can_mask for layer in self._layers)
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
            larger buffer are filled in place; bands that lie evenly spaced in one buffer are read at once. What masked
            pixels hold isn't said.
        valid
            (row, column). False where a band is masked, or a region or a mask of the request masks the pixel.
        band_valid
            One array (row, column) per band, filled with the band's own validity: its nodata, NaN, the mask or alpha
            of its file, and where its file ends. ``valid`` then is False only where the region or a mask of the
            request masks whole pixels.

        Raises
        ------
        ReadError
            If GDAL can't read or decode the pixels.
        """
        with self._in_use:
            self._fill(window, out, valid, band_valid)

    def _fill(
        self,
        window: Window,
        out: Sequence[NDArray[np.generic]],
        valid: NDArray[np.bool_],
        band_valid: Sequence[NDArray[np.bool_]] | None,
    ) -> None:
        valid.fill(True)
        for own in () if band_valid is None else band_valid:
            own.fill(True)
        # Several bands that clear one array unite their masks.
        kept = [valid] * len(self.bands) if band_valid is None else band_valid
        pixels = self._native(out)
        for layer, places in zip(self._layers, self._places, strict=True):
            layer.read(window, [pixels[place] for place in places], [kept[place] for place in places])
        for place in self._missing:
            # Of a pixel as a whole it masks nothing.
            pixels[place].fill(0)
            if band_valid is not None:
                band_valid[place].fill(False)
        self._keep_values(pixels, kept)
        for band, native, target in zip(self.bands, pixels, out, strict=True):
            if band.is_converted:
                _convert(band, native, target)
        self._keep_region(window, valid)
        for layer, band in zip(self._masks, self._stack.masks, strict=True):
            mask = np.empty(valid.shape, band.file_dtype)
            layer.read(window, [mask], [valid])
            scratch = np.empty(valid.shape, np.bool_)
            keep_nonzero(mask, valid, scratch)
            keep_valid(mask, (), valid, scratch)

    def reopen(self) -> RasterSource:
        """The same stack with handles of its own, for another thread."""
        return RasterSource(self._stack, self._grid, self._request)

    def close(self) -> None:
        """Close all handles, after a read that is under way; a later read opens them again."""
        # Where a run ends early, a thread may still be reading: GDAL crashes if a file is closed under it.
        with self._in_use:
            for layer in (*self._layers, *self._masks):
                layer.close()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_in_use"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._in_use = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _native(self, out: Sequence[NDArray[np.generic]]) -> list[NDArray[np.generic]]:
        """``out``, but arrays of the file's type for the bands that are converted; those of a type lie together."""
        pixels = list(out)
        places: dict[np.dtype[np.generic], list[int]] = {}
        for place, band in enumerate(self.bands):
            if band.is_converted:
                places.setdefault(band.file_dtype, []).append(place)
        for dtype, same in places.items():
            together = np.empty((len(same), *out[same[0]].shape), dtype)
            for place, plane in zip(same, together, strict=True):
                pixels[place] = plane
        return pixels

    def _keep_values(self, pixels: Sequence[NDArray[np.generic]], kept: Sequence[NDArray[np.bool_]]) -> None:
        """Clear ``kept`` where a band's own values mask, some rows at a time, so that all stays in cache."""
        masking = [
            (band, values, valid) for band, values, valid in zip(self.bands, pixels, kept, strict=True) if band.can_mask
        ]
        if not masking:
            return
        height, width = kept[0].shape
        step = max(1, MASK_PIXELS // max(width, 1))
        scratch = np.empty((min(step, height), width), np.bool_)
        for row in range(0, height, step):
            rows = slice(row, min(row + step, height))
            for band, values, valid in masking:
                keep_valid(values[rows], band.nodata, valid[rows], scratch[: rows.stop - row])

    def _keep_region(self, window: Window, valid: NDArray[np.bool_]) -> None:
        """Clear ``valid`` where a pixel's centre is outside the region."""
        if self._grid.clip is None:
            return
        with quiet_georeference():
            outside = geometry_mask([self._grid.clip], valid.shape, Affine.translation(window.col, window.row))
        valid[outside] = False


def _warp_warnings(
    stack: Stack, layers: Sequence[Layer], places: Sequence[Sequence[int]], resampling: Resampling
) -> tuple[str, ...]:
    """What is lost where ``layers`` are warped: GDAL computes in 64-bit floats, and within one raster."""
    warnings = []
    for layer, own in zip(layers, places, strict=True):
        name = stack.bands[own[0]].source
        if layer.is_warped and any(stack.bands[place].file_dtype.name in INEXACT for place in own):
            warnings.append(f"{name}: 64-bit integers beyond 2**53 are not exact after warping")
        if isinstance(layer, JoinedLayer) and layer.is_mixed:
            warnings.append(f"{name}: its ends don't meet on a pixel's edge; pixels beyond its end are resampled")
        elif isinstance(layer, JoinedLayer) and layer.is_warped and resampling != "nearest":
            warnings.append(f"{name}: where its ends meet, {resampling} takes the pixels of one end alone")
    return tuple(warnings)


def _convert(band: SourceBand, native: NDArray[np.generic], target: NDArray[np.generic]) -> None:
    """Fill ``target`` with the pixels ``native`` as ``band`` gives them; what is masked may overflow."""
    with np.errstate(all="ignore"):
        if band.part:
            target[...] = native.real if band.part == "real" else native.imag
        elif band.is_unscaled and (band.scale, band.offset) != (1, 0):
            np.add(np.multiply(native, band.scale, dtype=np.float64), band.offset, out=target, casting="unsafe")
        else:
            target[...] = native


def open_export_source(
    specs: Sequence[SourceSpec | str | tuple[Any, ...]], request: SourceRequest | None = None
) -> RasterSource:
    """The rasters ``specs`` as ``request`` asks for them, on the grid of the export.

    Sources whose pixels are the grid's are cut, others are warped onto it. The grid is the first source's, unless the
    request names one.

    Parameters
    ----------
    specs
        Rasters, or single bands of them; texts are parsed by :func:`parse_source`, tuples are rasters in memory, see
        :func:`geotfr.rasters.memory.memory_raster`. May be empty if array bands name rasters.
    request
        What is asked for; None: the sources as they are.

    Raises
    ------
    MissingInputError, InputError
        For a file that isn't there, isn't a raster, has no georeference or complex pixels, or lies outside the grid.
    UsageError
        For a band that isn't there, names that clash, or a ``nodata`` that isn't a number.
    """
    request = SourceRequest() if request is None else request
    stack = gather(specs, request)
    grid = export_grid(stack.files[0].geobox, request.grid, suggested_pixel=suggested_pixel)
    return RasterSource(stack, grid, request)


def open_sources(
    specs: Sequence[SourceSpec | str],
    *,
    bands: Sequence[str] | None = None,
    nodata: str | float | None = None,
    allow_ungeoreferenced: bool = False,
    allow_drivers: Sequence[str] = ("GTiff",),
    allow_network: bool = False,
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
    allow_drivers, allow_network
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
    request = SourceRequest(
        bands=bands,
        nodata=nodata,
        allow_ungeoreferenced=allow_ungeoreferenced,
        allow_drivers=tuple(allow_drivers),
        allow_network=allow_network,
        threads=threads,
    )
    stack = gather(specs, request)
    check_one_grid(stack.files)
    return RasterSource(stack, ExportGrid(geobox=stack.files[0].geobox, clip=None), request)

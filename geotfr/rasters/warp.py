"""A raster's bands warped onto the grid of an export, some rows of the grid at a time.

GDAL warps a window along the rows of the grid: it computes exact positions at some points of a row, and what lies
between by lines. So a window of whole rows gives the very pixels of one warp of everything, and one of part of a row
does not; nor does a window whose share of the raster has another size, unless GDAL is told the scale. Hence chunks of
whole rows, one scale for all, and no splitting by GDAL.

What masks is settled before: :func:`geotfr.rasters.warp_view.view` shows GDAL the raster with the masks in a form that
its warper honours.
"""

from __future__ import annotations

import math
import os
import re
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import rasterio
from rasterio.crs import CRS
from rasterio.enums import Resampling as GdalResampling
from rasterio.io import MemoryFile
from rasterio.transform import Affine
from rasterio.vrt import WarpedVRT

from geotfr.errors import InputError, ReadError
from geotfr.grid.crs import CrsTransform, crs_wkt, is_geographic, same_crs
from geotfr.grid.export_grid import to_pixels
from geotfr.rasters.describe import outside
from geotfr.rasters.remote import fetching, gdal_name
from geotfr.rasters.safe_open import GDAL_ERRORS, gdal_words, safe_open
from geotfr.rasters.warp_view import empty_view, view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geotfr.grid import GeoBox, Window
    from geotfr.rasters.bands import SourceBand
    from geotfr.rasters.describe import SourceFile
    from geotfr.rasters.memory import MemoryRaster
    from geotfr.rasters.request import Resampling

__all__ = ["WarpedLayer", "suggested_pixel"]

CHUNK_ROWS = 256
"""Rows of the grid that are warped at a time. GDAL warps a window as a whole from 129 rows on, else in tiles."""

WARP_MIB = 256
"""Memory that GDAL may take for a chunk before it splits it. Split rows shift pixels by an eighth of one at most."""

_PRIME_MERIDIAN = re.compile(r'PRIMEM\["Greenwich",0(?:,AUTHORITY\["\w+","\w+"\])?\]')
"""Greenwich in WKT 1."""

_OWN_CODE = re.compile(r',AUTHORITY\["\w+","\w+"\]\]$')
"""The code of a whole CRS in WKT 1."""

EDGE_POINTS = 21
"""Points of an edge of the grid that GDAL takes to find the share of the raster that is needed."""


def suggested_pixel(geobox: GeoBox, crs: str) -> float:
    """The side of a pixel, in the units of ``crs``, that GDAL suggests for warping ``geobox`` to ``crs``.

    Raises
    ------
    InputError
        If there is no way from one to the other.
    """
    try:
        with (
            rasterio.open(empty_view(_centred(geobox, crs)), driver="VRT") as source,
            WarpedVRT(source, crs=CRS.from_wkt(crs_wkt(crs))) as warp,
        ):
            return float(warp.transform.a)
    except GDAL_ERRORS as error:
        raise InputError(f"--crs {crs}: the raster can't be warped to it: {gdal_words(error)}") from error


@dataclass(frozen=True, slots=True)
class _Group:
    """Bands that one warp makes: of one type, nodata and mask; ``places`` are theirs among the layer's bands."""

    places: tuple[int, ...]
    bands: tuple[SourceBand, ...]

    @property
    def nodata(self) -> float | None:
        """The value that marks masked pixels of the warp; None: an alpha band tells them."""
        if self.bands[0].file_dtype.kind == "f":
            return math.nan
        return self.bands[0].nodata[0] if self.bands[0].nodata else None


class WarpedLayer:
    """Bands of one raster, warped onto a grid; see :class:`geotfr.rasters.layers.Layer`."""

    can_mask = True
    is_warped = True

    def __init__(
        self,
        file: SourceFile,
        bands: Sequence[SourceBand],
        grid: GeoBox,
        *,
        resampling: Resampling,
        allow_drivers: Sequence[str],
        threads: int,
    ) -> None:
        self._file = replace(file, geobox=_centred(file.geobox, grid.crs))
        self._grid = grid
        self._resampling = resampling
        self._allow_drivers = allow_drivers
        self._threads = threads
        self._groups = _groups(bands, file, resampling)
        self._scale_xy = _scale_xy(file, self._file.geobox, grid)
        self._rows = min(CHUNK_ROWS, grid.shape_yx[0])
        self._chunk: tuple[int, list[NDArray[np.generic]], list[NDArray[np.bool_] | None]] | None = None
        self._warps: dict[int, WarpedVRT] = {}
        self._open = ExitStack()
        self._pid = os.getpid()

    @property
    def block_shape_yx(self) -> tuple[int, int]:
        """Whole rows of the grid."""
        return self._rows, self._grid.shape_yx[1]

    @property
    def block_bytes(self) -> int:
        """A chunk, and what GDAL takes to warp its largest group."""
        pixels = self._rows * self._grid.shape_yx[1]
        chunk = sum(group.bands[0].file_dtype.itemsize * len(group.bands) + 1 for group in self._groups) * pixels
        x, y = self._scale_xy
        wanted = max(group.bands[0].file_dtype.itemsize * len(group.bands) + 4 for group in self._groups)
        warp = int(wanted * (pixels + pixels / (x * y)))
        copy = 0 if self._file.memory is None else self._file.size_bytes
        return chunk + min(warp, WARP_MIB << 20) + self._file.block_bytes + copy

    def read(self, window: Window, out: Sequence[NDArray[np.generic]], kept: Sequence[NDArray[np.bool_]]) -> None:
        """See :meth:`geotfr.rasters.layers.Layer.read`.

        Raises
        ------
        ReadError
            If GDAL can't read or warp the pixels.
        """
        cols = slice(window.col, window.col_stop)
        for number in range(window.row // self._rows, -(-window.row_stop // self._rows)):
            start, planes, covered = self._warped(number)
            first = max(window.row, number * self._rows)
            stop = min(window.row_stop, (number + 1) * self._rows)
            here, there = slice(first - start, stop - start), slice(first - window.row, stop - window.row)
            for place, (plane, cover) in enumerate(zip(planes, covered, strict=True)):
                out[place][there] = plane[here, cols]
                if cover is not None:
                    valid = kept[place][there]
                    np.logical_and(valid, cover[here, cols], out=valid)

    def close(self) -> None:
        """Close the handles, and forget the last chunk."""
        self._chunk = None
        self._warps.clear()
        self._open.close()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_chunk": None, "_warps": {}, "_open": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._open = ExitStack()

    def _warped(self, number: int) -> tuple[int, list[NDArray[np.generic]], list[NDArray[np.bool_] | None]]:
        """(first row, pixels of each band, where the raster covers each band, or None where nodata tells) of chunk
        ``number``."""
        # The last chunk has as many rows as the others, and begins within the one before.
        start = min(number * self._rows, self._grid.shape_yx[0] - self._rows)
        if self._chunk is not None and self._chunk[0] == start:
            return self._chunk
        self._chunk = None  # before the next one takes memory
        count = sum(len(group.places) for group in self._groups)
        planes: list[NDArray[np.generic]] = [np.empty(0)] * count
        covered: list[NDArray[np.bool_] | None] = [None] * count
        for place, group in enumerate(self._groups):
            pixels = self._read(place, group, start)
            cover = None if group.nodata is not None else pixels[-1] != 0
            for band_place, plane in zip(group.places, pixels, strict=False):
                planes[band_place], covered[band_place] = plane, cover
        self._chunk = start, planes, covered
        return self._chunk

    def _read(self, place: int, group: _Group, start: int) -> NDArray[np.generic]:
        rows = start, start + self._rows
        try:
            # A VRT opens its sources when they are first read.
            with fetching(self._file.remote):
                warp = self._warp(place, group)
                pixels: NDArray[np.generic] = warp.read(window=(rows, (0, self._grid.shape_yx[1])))
        except GDAL_ERRORS as error:
            bands = f"band{'s' if len(group.bands) > 1 else ''} {', '.join(str(band.index) for band in group.bands)}"
            raise ReadError(
                f"{self._file.path}: {bands}, rows {rows[0]}-{rows[1] - 1} of the export's grid: can't be warped:"
                f" {gdal_words(error)}"
            ) from error
        return pixels

    def _warp(self, place: int, group: _Group) -> WarpedVRT:
        if self._pid != os.getpid():  # forked: shared handles would share their places in the file
            self._warps, self._open, self._pid = {}, ExitStack(), os.getpid()
        if place in self._warps:
            return self._warps[place]
        if self._file.memory is not None:
            path = self._open.enter_context(_memory_file(self._file.memory)).name
        else:
            remote = self._file.remote
            opened = safe_open(
                self._file.opened_as, allow_drivers=self._allow_drivers, allow_network=remote is not None
            )
            path = opened.name if remote is None else gdal_name(remote.address)
            opened.close()
        threads = self._threads if self._file.is_worth_threads else 1
        source = rasterio.open(
            view(self._file, group.bands, path=path, nodata=group.nodata, threads=threads), driver="VRT"
        )
        # Not entered as a context: that would bind it to this thread, and another one may close it.
        self._open.callback(source.close)
        rows, cols = self._grid.shape_yx
        options: dict[str, str] = {"NUM_THREADS": str(self._threads), "UNIFIED_SRC_NODATA": "NO"}
        if self._resampling in ("bilinear", "cubic"):
            options |= {"XSCALE": repr(self._scale_xy[0]), "YSCALE": repr(self._scale_xy[1])}
        warp = WarpedVRT(
            source,
            # Neither has a CRS where one has none: None then is the raster's own, and CRS can't parse an empty text.
            crs=CRS.from_wkt(crs_wkt(self._grid.crs)) if self._grid.crs else None,
            transform=Affine(*self._grid.affine),
            height=rows,
            width=cols,
            resampling=GdalResampling[self._resampling],
            src_nodata=group.nodata,
            nodata=group.nodata,
            add_alpha=group.nodata is None,
            warp_mem_limit=WARP_MIB,
            **options,
        )
        self._open.callback(warp.close)
        self._warps[place] = warp
        return warp


def _centred(geobox: GeoBox, target: str) -> GeoBox:
    """``geobox``, and if it is in degrees beyond 180, with longitudes counted from its own middle.

    Maps give longitudes from -180 to 180. GDAL's warper knows that rasters end elsewhere, a WarpedVRT of rasterio
    doesn't: it masks half of a raster from 0 to 360 degrees. Grids in degrees run on across 180, and need no such help.
    """
    west, _, east, _ = geobox.bounds()
    a, b, c, d, e, f = geobox.affine
    is_within = west >= -180 and east <= 180
    if is_within or not is_geographic(geobox.crs) or is_geographic(target):
        return geobox
    middle = (west + east) / 2
    named, count = re.subn(_PRIME_MERIDIAN, f'PRIMEM["moved",{middle!r}]', crs_wkt(geobox.crs))
    if not count:
        return geobox
    return replace(geobox, affine=(a, b, c - middle, d, e, f), crs=re.sub(_OWN_CODE, "]", named))


def _groups(bands: Sequence[SourceBand], file: SourceFile, resampling: Resampling) -> tuple[_Group, ...]:
    found: dict[object, list[int]] = {}
    for place, band in enumerate(bands):
        # Where kernels overlap several pixels, GDAL lets the nodata of one band mask the others as well.
        is_alone = (band.can_mask and resampling != "nearest") or (file.has_band_masks and not file.mask_band)
        found.setdefault((band.file_dtype, band.nodata, place if is_alone else None), []).append(place)
    return tuple(_Group(tuple(places), tuple(bands[place] for place in places)) for places in found.values())


def _scale_xy(file: SourceFile, geobox: GeoBox, grid: GeoBox) -> tuple[float, float]:
    """Pixels of the grid in one of the raster ``geobox`` of ``file``, along its columns and rows, as GDAL finds it for
    a warp of everything.

    **Source**: ``GDALWarpOperation::ComputeSourceWindow`` and ``GDALWarpKernel::PerformWarp`` of GDAL 3.10.
    """
    rows, cols = grid.shape_yx
    sizes = geobox.shape_yx[::-1]
    found = _in_source(geobox, grid, edges_only=True)
    # A grid round a pole may hold a raster that its edges don't meet.
    if not np.isfinite(found).all() or any(map(_misses, found, sizes)):
        found = _in_source(geobox, grid, edges_only=False)
    if not np.isfinite(found).all():
        # Where a map ends between two points, more of them come nearer to its end.
        found = _in_source(geobox, grid, edges_only=False, points=5 * (EDGE_POINTS - 1) + 1)
    scales = []
    for positions, wanted, size in zip(found, (cols, rows), sizes, strict=True):
        finite = positions[np.isfinite(positions)]
        if not finite.size or (finite.size == positions.size and _misses(finite, size)):
            raise outside(file, grid)
        needed = min(float(size - int(max(0.0, finite.min()))), float(finite.max() - finite.min()))
        # Where few points have a place, they may all have one, or lie beyond the raster's end.
        scale = wanted / (needed if needed > 0 else size)
        whole = round(1 / scale)
        scales.append(1 / whole if scale < 1 and abs(1 / scale - whole) < 0.05 else scale)
    return scales[0], scales[1]


def _misses(positions: NDArray[np.float64], size: int) -> bool:
    """Whether ``positions`` all lie on one side of a raster's ``size`` columns or rows."""
    return bool(positions.max() <= 0 or positions.min() >= size)


def _in_source(
    geobox: GeoBox, grid: GeoBox, *, edges_only: bool, points: int = EDGE_POINTS
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(columns, rows) of the raster at points of the grid, NaN where there are none."""
    ratios = np.linspace(0, 1, points)
    x, y = (axis.ravel() for axis in np.meshgrid(ratios, ratios))
    if edges_only:
        on_edge = (x == 0) | (x == 1) | (y == 0) | (y == 1)
        x, y = x[on_edge], y[on_edge]
    a, b, c, d, e, f = grid.affine
    columns, lines = x * grid.shape_yx[1], y * grid.shape_yx[0]
    places = [a * columns + b * lines + c, d * columns + e * lines + f]
    if grid.crs and not same_crs(grid.crs, geobox.crs):
        # rasterio's own refuses all points if one has no place: corners of a map of the whole Earth have none.
        places = [*CrsTransform(grid.crs, geobox.crs)(places[0], places[1])]
    placed = np.column_stack(places)
    placed[~np.isfinite(placed).all(axis=1)] = math.nan
    positions = to_pixels(geobox.affine, placed)
    return positions[:, 0], positions[:, 1]


def _memory_file(raster: MemoryRaster) -> MemoryFile:
    """A GeoTIFF in memory of ``raster``."""
    file = MemoryFile()
    count, rows, cols = raster.pixels.shape
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        file.open(
            driver="GTiff",
            count=count,
            height=rows,
            width=cols,
            dtype=raster.pixels.dtype,
            transform=Affine(*raster.geobox.affine),
            bigtiff="IF_SAFER",
        ) as target,
    ):
        target.write(np.asarray(raster.pixels))
        if raster.mask is not None:
            target.write_mask(raster.mask)
    return file

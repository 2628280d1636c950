"""Samples of rasters at points: the table that Earth Engine's sampleRegions makes, or neighborhoodToArray's patches.

Points are put in order of the raster's blocks, and each block that a point needs is read once, whatever the order of
the points.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from geotfr.errors import LimitError, UsageError
from geotfr.flags import checks_flags
from geotfr.grid import Window
from geotfr.options import TableOptions, parse_size
from geotfr.pipeline.progress import progress_bar
from geotfr.pipeline.sizes import human_bytes
from geotfr.pipeline.tables.export import write_table_records
from geotfr.pipeline.tables.ingest import write_vector_file
from geotfr.storage.inputs import check_not_input
from geotfr.stores.path import output_path
from geotfr.vectors.geometry import transform_between
from geotfr.vectors.plan import plan_table
from geotfr.vectors.points import read_points
from geotfr.vectors.sink import TableShape, WrittenTable, is_vector_name
from geotfr.vectors.source import TableRequest, open_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Unpack

    from numpy.typing import NDArray

    from geotfr.grid import GeoBox
    from geotfr.options import Size, TableKeywords
    from geotfr.pipeline.progress import Progress
    from geotfr.rasters.source import RasterSource
    from geotfr.vectors.points import Points
    from geotfr.vectors.source import Table

    Masked = Literal["drop", "fill"]

__all__ = ["SampleResult", "sample_points"]

UNIT_PIXELS = 1 << 16
"""Storage blocks smaller than this are read several at a time: thin strips cost a call each."""

GDAL_CACHE_BYTES = 32 << 20
"""Blocks aren't read again, so a larger cache would hold what nobody asks for."""

DEFAULT_MEMORY_BYTES = 1 << 30
"""What the samples may take where no limit is given."""

GATHER_VALUES = 1 << 20
"""Values of neighborhoods that are copied at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleResult:
    """What a sampling wrote.

    Attributes
    ----------
    output
        The TFRecord or vector file.
    manifest
        The manifest beside a TFRecord file, else None.
    points
        Points given.
    rows
        Rows written.
    outside, masked
        Points outside the raster or without a geometry, and those on masked pixels: left out, or filled if asked.
    features
        Names of the features or columns, in order.
    blocks_read
        Blocks of the raster that were read, each once.
    size_bytes
        Bytes of the output.
    seconds
        Wall time.
    warnings
        What a user should know, one line each.
    """

    output: Path
    manifest: Path | None
    points: int
    rows: int
    outside: int
    masked: int
    features: tuple[str, ...]
    blocks_read: int
    size_bytes: int
    seconds: float
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON types."""
        return {
            "output": str(self.output),
            "manifest": None if self.manifest is None else str(self.manifest),
            "points": self.points,
            "rows": self.rows,
            "outside": self.outside,
            "masked": self.masked,
            "features": list(self.features),
            "blocks_read": self.blocks_read,
            "bytes": self.size_bytes,
            "seconds": round(self.seconds, 3),
            "warnings": list(self.warnings),
        }

    def to_text(self) -> str:
        """The summary for a person."""
        return "\n".join(
            (
                f"wrote     {self.rows:,} of {self.points:,} points to {self.output}, {human_bytes(self.size_bytes)},"
                f" in {self.seconds:.1f} s",
                f"features  {', '.join(self.features)}",
                f"read      {self.blocks_read:,} blocks, each once",
            )
        )


@checks_flags
def sample_points(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    points: Any,
    output: str | os.PathLike[str],
    *,
    bands: str | Sequence[str] | None = None,
    nodata: str | float | None = None,
    neighborhood: int = 1,
    masked: Masked = "drop",
    default_value: float = 0,
    allow_network: bool = False,
    memory_limit: Size | None = None,
    progress: bool | Progress = False,
    **keywords: Unpack[TableKeywords],
) -> SampleResult:
    """Sample rasters at points: a table of the points' columns and the bands' values.

    Parameters
    ----------
    sources
        One raster or several on one grid, whose bands are stacked. ``FILE:3`` is band 3 of FILE.
    points
        A table of points, as in :func:`geotfr.export_table`, a frame too; in any CRS that is known.
    output
        A .gpkg, .geojson, .fgb, .parquet or .csv file, or else the prefix of a TFRecord file and its manifest.
    bands
        Numbers from 1 through the stack, or names; ``new=old`` renames.
    nodata
        A number that replaces the sources' nodata tags, or ``"none"`` to ignore them.
    neighborhood
        Side in pixels of the square around each point that makes an array ``(row, col)``; 1 is the pixel alone. An
        even side reaches one pixel further up and left.
    masked
        What becomes of points outside the raster or on a pixel that is masked in some band: ``drop`` leaves them
        out, ``fill`` gives the masked bands ``default_value``.
    default_value
        Set in masked pixels of neighborhoods, and of points if these are filled.
    allow_network
        Read rasters at ``https://``, ``http://``, ``s3://``, ``gs://`` and ``az://`` addresses; else none is fetched.
    memory_limit
        What the samples may take in memory; 1 GiB by default.
    progress
        True for a bar on stderr, or a function of (points, bytes).
    **keywords
        ``selectors`` (of the points' columns), ``layer``, ``where``, ``x``, ``y``, ``crs``, ``geometry``,
        ``feature_kinds``, ``compressor``, ``overwrite``, ``workers``, ``allow_drivers`` (of the rasters too): see
        :class:`geotfr.options.TableOptions`. Records keep no geometry by default, and a vector file does unless
        ``geometry`` is ``none``.

    Raises
    ------
    InputError
        A raster or table that is missing or of another kind, a geometry that is no point, or no CRS.
    UsageError
        Options that are out of range, or names that clash.
    LimitError
        Samples that take more than ``memory_limit``, or a raster whose blocks do.
    OutputError
        The output can't be written, or exists and ``overwrite`` is False.

    Notes
    -----
    **Source**: ``ee.Image.sampleRegions``, which leaves out points where a band is masked, and
    ``ee.Image.neighborhoodToArray``, which gives masked pixels the default value.

    Examples
    --------
    >>> import geotfr
    >>> geotfr.sample_points("scene.tif", "plots.gpkg", "training/plots", neighborhood=5)  # doctest: +SKIP
    """
    from geotfr.rasters.safe_open import raster_env
    from geotfr.rasters.source import open_sources

    started = time.perf_counter()
    if isinstance(neighborhood, bool) or not isinstance(neighborhood, int) or not 1 <= neighborhood <= 4096:
        raise UsageError(f"--neighborhood {neighborhood!r}: allowed is a whole number from 1 to 4096")
    if masked not in ("drop", "fill"):
        raise UsageError(f"--masked {masked}: there are drop and fill")
    options = TableOptions.checked(**keywords)
    limit = DEFAULT_MEMORY_BYTES if memory_limit is None else parse_size("memory_limit", memory_limit)
    names = [name.strip() for name in bands.split(",")] if isinstance(bands, str) else bands
    specs = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    if is_vector_name(output_path(output)):
        check_not_input(output_path(output), (*specs, points))
    places = open_table(points, TableRequest.of(options))
    found = read_points(places, options.selectors)
    with (
        open_sources(
            [os.fspath(spec) for spec in specs],
            bands=names,
            nodata=nodata,
            allow_drivers=("GTiff", *options.allow_drivers),
            allow_network=allow_network,
        ) as source,
        raster_env(cache_bytes=GDAL_CACHE_BYTES),
    ):
        _check_memory(source, len(found.x), neighborhood, limit)
        rows, cols = _pixels(found, source.geobox)
        sampler = _Sampler(source, rows, cols, neighborhood, default_value)
        with progress_bar(progress, total_patches=len(rows), what="sample") as report:
            sampler.run(report)
        raster_warnings = source.warnings
    kept = np.arange(len(rows)) if masked == "fill" else np.flatnonzero(sampler.valid)
    table = found.sampled(kept, {band.name: values for band, values in zip(source.bands, sampler.values, strict=True)})
    inside = sampler.inside
    outside, on_mask = int((~inside).sum()), int((inside & ~sampler.valid).sum())
    warnings = [*places.warnings, *raster_warnings, *_losses(outside, on_mask, masked)]
    target = output_path(output)
    manifest = None
    if is_vector_name(target):
        written = _write_vector(target, table, keeps_geometry=options.geometry != "none", overwrite=options.overwrite)
        features = written.columns
        warnings += written.warnings
    else:
        plan = plan_table(
            table, selectors=None, geometry=options.geometry or "none", feature_kinds=options.feature_kinds
        )
        told = {
            "bands": [band.name for band in source.bands],
            "nodata": nodata,
            "neighborhood": neighborhood,
            "masked": masked,
            "default_value": default_value,
            "geometry": plan.geometry,
            "feature_kinds": options.feature_kinds,
            "compressor": options.compressor,
        }
        result = write_table_records(plan, os.fspath(output), options, told=told, progress=False, started=started)
        target, manifest, features = result.records, result.manifest, result.features
        warnings += result.warnings
    return SampleResult(
        output=target,
        manifest=manifest,
        points=len(rows),
        rows=len(kept),
        outside=outside,
        masked=on_mask,
        features=features,
        blocks_read=sampler.blocks_read,
        size_bytes=target.stat().st_size,
        seconds=time.perf_counter() - started,
        warnings=tuple(warnings),
    )


def _losses(outside: int, on_mask: int, masked: Masked) -> Iterator[str]:
    what = "are left out; --masked fill keeps them" if masked == "drop" else "are filled with the default value"
    if outside:
        yield f"{outside:,} points outside the raster, or without a place, {what}"
    if on_mask:
        yield f"{on_mask:,} points on masked pixels {what}"


def _write_vector(path: Path, table: Table, *, keeps_geometry: bool, overwrite: bool) -> WrittenTable:
    geometry = table.geometry if keeps_geometry else None
    columns = [*table.columns, *([geometry] if geometry is not None else [])]
    shape = TableShape(
        schema=table.select(columns).schema, geometry=geometry, is_points=True, crs=table.crs if keeps_geometry else ""
    )
    return write_vector_file(path, shape, table.select(columns).batches(), overwrite=overwrite, on_batch=lambda _: None)


def _check_memory(source: RasterSource, points: int, neighborhood: int, limit: int) -> None:
    pixel_bytes = sum(band.dtype.itemsize for band in source.bands)
    samples = points * neighborhood**2 * pixel_bytes
    for what, size in (("the samples take", samples), ("a block of the raster takes", source.block_bytes)):
        if size > limit:
            raise LimitError(
                f"{what} {human_bytes(size)}, the limit is {human_bytes(limit)}; raise --memory-limit, or take fewer"
                " points, bands or pixels"
            )


def _pixels(points: Points, geobox: GeoBox) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column of the pixel under each point, ``(n,) int64``; -1 outside the raster."""
    x, y = points.x, points.y
    transform = transform_between(points.crs, geobox.crs, where=points.name) if geobox.crs else None
    if transform is not None:
        x, y = transform(x, y)
    x_scale, x_shear, x_origin, y_shear, y_scale, y_origin = geobox.affine
    scale = 1 / (x_scale * y_scale - x_shear * y_shear)
    # As rasterio's sample does it, so that points on the edges of pixels go where that puts them.
    a, b, d, e = y_scale * scale, -x_shear * scale, -y_shear * scale, x_scale * scale
    inverse = np.array([[a, b, -x_origin * a - y_origin * b], [d, e, -x_origin * d - y_origin * e], [0, 0, 1]])
    with np.errstate(invalid="ignore"):
        col, row, _ = np.floor(inverse.dot(np.stack([x, y, np.ones(len(x))])))
        height, width = geobox.shape_yx
        inside = (row >= 0) & (row < height) & (col >= 0) & (col < width)
    return (
        np.where(inside, row, -1).astype(np.int64),
        np.where(inside, col, -1).astype(np.int64),
    )


class _Sampler:
    """Reads the blocks that hold the points' pixels and neighborhoods, each once, and fills ``values``."""

    def __init__(
        self,
        source: RasterSource,
        rows: NDArray[np.int64],
        cols: NDArray[np.int64],
        side: int,
        default_value: float,
    ) -> None:
        shape = (len(rows),) if side == 1 else (len(rows), side, side)
        self.values = [np.full(shape, _default(default_value, band.dtype), band.dtype) for band in source.bands]
        """Per band ``(n,)`` or ``(n, row, col)``, in the band's type; masked pixels hold the default value."""
        self.inside = rows >= 0
        """``(n,)``: whether the point is on the raster."""
        self.valid = np.zeros(len(rows), np.bool_)
        """``(n,)``: whether no band is masked at the point."""
        self.blocks_read = 0
        self._source = source
        self._rows, self._cols, self._side = rows, cols, side
        self._top, self._left = rows - side // 2, cols - side // 2
        height, width = source.block_shape_yx
        times = max(1, UNIT_PIXELS // (height * width))
        self._unit_yx = (height * times, width)
        self._shape_yx = source.geobox.shape_yx
        self._units_across = -(-self._shape_yx[1] // width)

    def run(self, report: Progress) -> None:
        """Sample all points."""
        units, numbers = self._needs()
        order = np.argsort(units, kind="stable")
        units, numbers = units[order], numbers[order]
        edges = [0, *(np.flatnonzero(np.diff(units)) + 1).tolist(), len(units)]
        for start, stop in pairwise(edges):
            if start < stop:
                self._take_block(int(units[start]), numbers[start:stop])
                report(stop - start if self._side == 1 else 0, 0)

    def _needs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs (number of a block, number of a point that needs it)."""
        points = np.flatnonzero(self.inside)
        spans = []
        for first, size, unit in zip((self._top, self._left), self._shape_yx, self._unit_yx, strict=True):
            low = np.maximum(first[points], 0) // unit
            high = np.minimum(first[points] + self._side - 1, size - 1) // unit
            spans.append((low, high))
        (top, bottom), (left, right) = spans
        units, numbers = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for down in range(int((bottom - top).max(initial=-1)) + 1):
            for across in range(int((right - left).max(initial=-1)) + 1):
                needed = (top + down <= bottom) & (left + across <= right)
                units.append(((top + down) * self._units_across + left + across)[needed])
                numbers.append(points[needed])
        return np.concatenate(units), np.concatenate(numbers)

    def _take_block(self, unit: int, numbers: NDArray[np.int64]) -> None:
        """Read a block, and copy what the points ``numbers`` need of it."""
        unit_row, unit_col = divmod(unit, self._units_across)
        window = Window(
            row=unit_row * self._unit_yx[0],
            col=unit_col * self._unit_yx[1],
            height=self._unit_yx[0],
            width=self._unit_yx[1],
        ).clipped(self._shape_yx)
        pixels, valid = self._read(window)
        self.blocks_read += 1
        step = max(1, GATHER_VALUES // self._side**2)
        for start in range(0, len(numbers), step):
            some = numbers[start : start + step]
            self._copy(window, pixels, valid, some)
            row, col = self._rows[some] - window.row, self._cols[some] - window.col
            here = (row >= 0) & (row < window.height) & (col >= 0) & (col < window.width)
            at = np.logical_and.reduce([band[row[here], col[here]] for band in valid]) if valid else True
            self.valid[some[here]] = at

    def _read(self, window: Window) -> tuple[Sequence[NDArray[Any]], Sequence[NDArray[np.bool_]]]:
        """The pixels and the validity of each band; no validity where nothing can be masked."""
        bands = self._source.bands
        shape = (window.height, window.width)
        dtypes = {band.dtype for band in bands}
        # One buffer for all bands: a file that interleaves them is decoded once.
        pixels: Sequence[NDArray[Any]] = (
            list(np.empty((len(bands), *shape), dtypes.pop()))
            if len(dtypes) == 1
            else [np.empty(shape, band.dtype) for band in bands]
        )
        valid = np.empty(shape, np.bool_)
        own = [np.empty(shape, np.bool_) for _ in bands] if self._source.has_mask else None
        self._source.read(window, pixels, valid, own)
        return pixels, [band & valid for band in own] if own is not None else []

    def _copy(
        self,
        window: Window,
        pixels: Sequence[NDArray[Any]],
        valid: Sequence[NDArray[np.bool_]],
        numbers: NDArray[np.int64],
    ) -> None:
        """Copy the part of each neighborhood that lies in the block; masked pixels keep the default value."""
        side = np.arange(self._side)
        rows = self._top[numbers][:, None] + side - window.row
        cols = self._left[numbers][:, None] + side - window.col
        inside = ((rows >= 0) & (rows < window.height))[:, :, None] & ((cols >= 0) & (cols < window.width))[:, None, :]
        point, row, col = np.nonzero(inside)
        block_row, block_col = rows[point, row], cols[point, col]
        for place, (values, band) in enumerate(zip(self.values, pixels, strict=True)):
            target = values.reshape(len(values), self._side, self._side)
            taken = band[block_row, block_col]
            if valid:
                good = valid[place][block_row, block_col]
                target[numbers[point[good]], row[good], col[good]] = taken[good]
            else:
                target[numbers[point], row, col] = taken


def _default(value: float, dtype: np.dtype[Any]) -> Any:
    """``value`` in ``dtype``: the fraction dropped for integers, cut to the range. **Source**: Earth Engine's guide."""
    if dtype.kind == "f":
        return dtype.type(value)
    limits = np.iinfo(dtype)
    if np.isnan(value):
        raise UsageError(f"--default-value nan: {dtype} has no NaN; give a number")
    return dtype.type(min(max(int(max(min(value, 2.0**64), -(2.0**64))), limits.min), limits.max))

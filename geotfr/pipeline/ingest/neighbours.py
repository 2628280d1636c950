"""Ingest: neighbouring sets on one grid, to one raster."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from geotfr.errors import UsageError
from geotfr.grid import GeoBox, Window
from geotfr.grid.crs import same_crs
from geotfr.mixer.sets import find_each
from geotfr.options import IngestKeywords, IngestOptions
from geotfr.pipeline.ingest.classes import read_classes
from geotfr.pipeline.ingest.pixel_type import PixelType
from geotfr.pipeline.ingest.raster_output import BandStatistics, RasterOutput, Samples, folder_beside, window_moments
from geotfr.pipeline.ingest.result import IngestResult
from geotfr.pipeline.ingest.run import files_read, ingest_set, ingest_workers
from geotfr.storage.atomic import check_output
from geotfr.storage.inputs import check_not_input
from geotfr.storage.lock import OutputLock
from geotfr.storage.outputs import local_output
from geotfr.stores.path import output_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from geotfr.pipeline.executors.choose import ExecutorLike, SchedulerLike
    from geotfr.pipeline.progress import Progress
    from geotfr.rasters.sink import GeoTiffSink

__all__ = ["ingest_mosaic"]

_SIDE = 1024
_TILE = (256, 256)
_TOLERANCE_PX = 1e-4


def ingest_mosaic(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    workers: int | None = None,
    executor: ExecutorLike | None = None,
    scheduler: SchedulerLike | None = None,
    progress: bool | Progress = False,
    verify: bool = False,
    **options: Unpack[IngestKeywords],
) -> IngestResult:
    """Turn the sets in ``folder``, neighbours on one grid, into one raster; what none covers is nodata, or 0 without.

    Sets are found as :func:`geotfr.mixer.sets.find_each` tells. Options as :func:`geotfr.ingest_predictions`; raises as
    it does, and UsageError for sets that overlap, lie on other grids, or have other bands or types.
    """
    started = time.perf_counter()
    checked = IngestOptions.checked(**options)
    checked.check_for_many()
    threads, spread = ingest_workers(workers, executor, scheduler, checked)
    target = output_path(output)
    check_output(target, overwrite=overwrite)
    found = find_each(folder, shard_order=checked.shard_order)
    check_not_input(target, (path for each in found.values() for path in files_read(each, checked)))
    # The parts are read once more: what makes the final file is left for it.
    plain = replace(checked, format="gtiff", compress="zstd", pyramiding=(), statistics=False, creation_options=())
    with local_output(target, overwrite=overwrite) as path:
        # A lock of their own: who locks the raster removes what killed runs left beside it.
        locked = path.with_name(f"{path.name} parts")
        with OutputLock(locked), folder_beside(path, locked=locked) as stage:
            parts = []
            for number, each in enumerate(found.values()):
                parts.append(
                    ingest_set(
                        each,
                        stage / f"part-{number}.tif",
                        plain,
                        preview=None,
                        overwrite=False,
                        threads=threads,
                        spread=spread,
                        progress=progress,
                        verify=verify,
                    )
                )
            names = list(found)
            corners = _corners(names, parts)
            whole = _merged(target, parts, corners)
            _check_alike(names, parts)
            warning = _write(
                path, parts, corners, whole.geobox, checked, overwrite=overwrite, threads=threads, verify=verify
            )
        size_bytes = path.stat().st_size
    if warning:
        whole = replace(whole, warnings=(warning, *whole.warnings))
    return replace(whole, size_bytes=size_bytes, seconds=time.perf_counter() - started)


def _corners(names: Sequence[str], parts: Sequence[IngestResult]) -> list[Window]:
    """Each part's pixels in the grid of the mosaic."""
    first = parts[0].geobox
    a, b, c, d, e, f = first.affine
    determinant = a * e - b * d
    places = []
    for name, part in zip(names, parts, strict=True):
        box = part.geobox
        x, y = box.affine[2] - c, box.affine[5] - f
        col, row = (e * x - b * y) / determinant, (a * y - d * x) / determinant
        moved = replace(box, affine=(a, b, box.affine[2], d, e, box.affine[5]))
        is_whole = max(abs(col - round(col)), abs(row - round(row))) <= _TOLERANCE_PX
        if not (is_whole and box.same_grid(moved) and same_crs(box.crs, first.crs)):
            raise UsageError(
                f"mosaic: {name} lies on another grid than {names[0]}; sets of one mosaic share CRS, pixel and origin"
            )
        places.append(Window(row=round(row), col=round(col), height=box.shape_yx[0], width=box.shape_yx[1]))
    top, left = min(place.row for place in places), min(place.col for place in places)
    corners = [replace(place, row=place.row - top, col=place.col - left) for place in places]
    for (name, one), (other_name, other) in combinations(zip(names, corners, strict=True), 2):
        if _common(one, other) is not None:
            raise UsageError(f"mosaic: {name} and {other_name} overlap; neighbours share no pixel")
    return corners


def _check_alike(names: Sequence[str], parts: Sequence[IngestResult]) -> None:
    first = parts[0]
    for name, part in zip(names, parts, strict=True):
        if part.has_mask:
            raise UsageError(
                f"mosaic: {name} has pixels without prediction that only a mask inside the file could tell; give"
                " --nodata or a larger --dtype"
            )
        for fact in ("bands", "dtype", "nodata"):
            here, there = getattr(part, fact), getattr(first, fact)
            if here != there and not (here != here and there != there):
                raise UsageError(
                    f"mosaic: {name} has the {fact} {here}, {names[0]} {there}; make them alike by --bands, --dtype and"
                    " --nodata"
                )


def _merged(target: Path, parts: Sequence[IngestResult], corners: Sequence[Window]) -> IngestResult:
    """The parts' results as one."""
    shape = max(place.row_stop for place in corners), max(place.col_stop for place in corners)
    a, b, _, d, e, _ = parts[0].geobox.affine
    x, y = parts[0].geobox.xy(-corners[0].col, -corners[0].row)
    return replace(
        parts[0],
        output=target,
        geobox=GeoBox(shape_yx=shape, affine=(a, b, x, d, e, y), crs=parts[0].geobox.crs),
        patches=sum(part.patches for part in parts),
        patches_lost=sum(part.patches_lost for part in parts),
        values_clamped=sum(part.values_clamped for part in parts),
        shards=tuple(shard for part in parts for shard in part.shards),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        warnings=tuple(dict.fromkeys(warning for part in parts for warning in part.warnings)),
    )


def _write(
    target: Path,
    parts: Sequence[IngestResult],
    corners: Sequence[Window],
    geobox: GeoBox,
    options: IngestOptions,
    *,
    overwrite: bool,
    threads: int,
    verify: bool,
) -> str:
    """Write the mosaic; a warning where it may not have fitted, else nothing."""
    from geotfr.rasters.read_back import PixelCheck
    from geotfr.rasters.safe_open import raster_env

    pixel = PixelType(dtype=np.dtype(parts[0].dtype), nodata=parts[0].nodata)
    classes = read_classes(options.classes) if options.classes else ()
    product = RasterOutput(
        geobox=geobox, names=parts[0].bands, pixel=pixel, options=options, classes=classes, threads=threads
    )
    warning = product.check_space(target.parent, _TILE)
    with product.written(target, overwrite=overwrite) as (base, temporary), raster_env():
        samples = Samples.of(-(-geobox.shape_yx[0] // _SIDE) * -(-geobox.shape_yx[1] // _SIDE))
        with product.sink(base, _TILE) as sink:
            _write_pixels(sink, product, parts, corners, samples)
        product.assemble(base, temporary, _TILE)
        product.check(temporary, samples.kept)
        if verify:
            with PixelCheck(temporary) as check:
                for window, data in _merged_pixels(product, parts, corners):
                    check.compare(window.row, window.col, data, None)
    return warning


def _write_pixels(
    sink: GeoTiffSink,
    product: RasterOutput,
    parts: Sequence[IngestResult],
    corners: Sequence[Window],
    samples: Samples,
) -> None:
    statistics = BandStatistics(len(product.names)) if product.options.statistics else None
    for window, data in _merged_pixels(product, parts, corners):
        sink.write(window.row, window.col, data)
        samples.keep(window.row, window.col, data)
        if statistics is not None:
            statistics.add(data[0].size, window_moments(data, None, product.pixel.nodata))
    if statistics is not None:
        sink.tag_bands(statistics.tags())


def _merged_pixels(
    product: RasterOutput, parts: Sequence[IngestResult], corners: Sequence[Window]
) -> Iterator[tuple[Window, NDArray[Any]]]:
    """The mosaic's pixels ``(band, row, col)``, window by window."""
    from geotfr.rasters.safe_open import safe_open

    pixel, bands = product.pixel, len(product.names)
    fill = 0 if pixel.nodata is None else pixel.nodata
    with ExitStack() as stack:
        readers = [stack.enter_context(safe_open(part.output)) for part in parts]
        for window in _windows(product.geobox.shape_yx):
            data: Any = np.full((bands, window.height, window.width), fill, pixel.dtype)
            for reader, place in zip(readers, corners, strict=True):
                common = _common(window, place)
                if common is not None:
                    rows = slice(common.row - window.row, common.row_stop - window.row)
                    cols = slice(common.col - window.col, common.col_stop - window.col)
                    inside = (common.row - place.row, common.row_stop - place.row)
                    data[:, rows, cols] = reader.read(
                        window=(inside, (common.col - place.col, common.col_stop - place.col))
                    )
            yield window, data


def _windows(shape_yx: tuple[int, int]) -> Iterator[Window]:
    for row in range(0, shape_yx[0], _SIDE):
        for col in range(0, shape_yx[1], _SIDE):
            yield Window(row=row, col=col, height=_SIDE, width=_SIDE).clipped(shape_yx)


def _common(one: Window, other: Window) -> Window | None:
    """The pixels of both, None if there are none."""
    row, col = max(one.row, other.row), max(one.col, other.col)
    height = min(one.row_stop, other.row_stop) - row
    width = min(one.col_stop, other.col_stop) - col
    return Window(row=row, col=col, height=height, width=width) if height > 0 and width > 0 else None

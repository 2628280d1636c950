"""What other processes do of an ingest: count a shard's records, make an area of the raster, compare one.

A task is a number; what it needs to know goes with it, and what comes back are counts and the name of a file. An area's
file lies in a folder of the run beside the raster, under a name that no other attempt has.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from geotfr.pipeline.ingest.finish import FinishCounts
from geotfr.pipeline.ingest.map_writer import MapWriter
from geotfr.pipeline.ingest.output_grid import output_grid
from geotfr.pipeline.ingest.predictions import KnownRecords, Predictions, ShardCount
from geotfr.pipeline.ingest.raster_output import Moments, window_moments

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from geotfr.mixer.sets import PredictionSet
    from geotfr.options import IngestOptions
    from geotfr.pipeline.ingest.mosaic import MosaicArea, MosaicPlan
    from geotfr.pipeline.ingest.pixel_type import PixelType
    from geotfr.pipeline.ingest.source_mask import SourceMask

__all__ = ["AreaFacts", "AreaGiven", "CompareArea", "CountShard", "MakeArea", "WindowFacts", "areas_of"]


def areas_of(plan: MosaicPlan, count: int) -> list[MosaicArea]:
    """The raster in about ``count`` areas, in the order in which one run writes them; none is empty."""
    each_pass = min(max(-(-count // len(plan.passes)), 1), plan.rows)
    cuts = [plan.rows * number // each_pass for number in range(each_pass + 1)]
    areas = [plan.area(columns, range(start, stop)) for columns in plan.passes for start, stop in pairwise(cuts)]
    return [area for area in areas if area.top < area.bottom]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountShard:
    """Counts the records of a shard by its number."""

    found: PredictionSet
    options: IngestOptions

    def __call__(self, number: int) -> ShardCount:
        """What the shard holds."""
        return Predictions(self.found, self.options, output_grid(self.found, self.options)).count(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFacts:
    """A window that was written: its place in the raster, pixels and bands' ``moments``, if those are wanted."""

    row: int
    col: int
    shape_yx: tuple[int, int]
    moments: tuple[Moments, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AreaFacts:
    """An area that was made.

    Attributes
    ----------
    name, size_bytes
        Its file in the run's folder; empty where none was written.
    row, col
        Where its upper-left pixel is.
    windows
        What was written, in order.
    met
        What its values met.
    """

    name: str
    size_bytes: int
    row: int
    col: int
    windows: tuple[WindowFacts, ...]
    met: FinishCounts


class AreaGiven(TypedDict):
    """What all tasks of areas are made of: see :class:`MakeArea`."""

    found: PredictionSet
    options: IngestOptions
    known: KnownRecords
    pixel: PixelType
    mask: SourceMask | None
    areas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _AreaTask:
    """What an area's maker needs to know; can be pickled.

    Attributes
    ----------
    found, options
        The set, and how its predictions become pixels.
    known
        What all of its shards hold.
    pixel
        The raster's type.
    mask
        Where the source is masked, or None.
    areas
        About how many areas there are.
    """

    found: PredictionSet
    options: IngestOptions
    known: KnownRecords
    pixel: PixelType
    mask: SourceMask | None
    areas: int

    def opened(self) -> MapWriter:
        """What writes the raster, or some of it."""
        grid = output_grid(self.found, self.options)
        return MapWriter(
            Predictions(self.found, self.options, grid, known=self.known),
            grid,
            self.options,
            mask=None if self.mask is None else self.mask.reopened(),
            leaves_gaps=bool(self.found.dropped),
            threads=1,
            pixel=self.pixel,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeArea(_AreaTask):
    """Makes an area by its number, as a file in ``folder``."""

    folder: Path

    def __call__(self, number: int) -> AreaFacts:
        """Make it."""
        from geotfr.rasters.safe_open import raster_env

        run = self.opened()
        area = areas_of(run.mosaic, self.areas)[number]
        rows, cols = run.output.geobox.shape_yx
        width = run.mosaic.patch_yx[1]
        left, right = area.columns.start * width, min(area.columns.stop * width, cols)
        shape = max(min(area.bottom, rows) - area.top, 0), max(right - left, 0)
        windows: list[WindowFacts] = []
        path = self.folder / f"area-{number}-{uuid.uuid4().hex}.tif"
        if not all(shape):
            # Nothing but what a padded edge has more.
            return AreaFacts(name="", size_bytes=0, row=area.top, col=left, windows=(), met=FinishCounts())
        whole = run.output.geobox
        (a, b, _, d, e, _), (x, y) = whole.affine, whole.xy(left, area.top)
        box = replace(whole, shape_yx=shape, affine=(a, b, x, d, e, y))
        with raster_env(), run.output.part_sink(path, run.mosaic.tile_yx, box) as sink:

            def write(row: int, col: int, data: NDArray[Any], valid: NDArray[np.bool_] | None) -> None:
                sink.write(row - area.top, col - left, data)
                if valid is not None:
                    sink.write_mask(row - area.top, col - left, valid)
                wanted = self.options.statistics
                moments = window_moments(data, valid, self.pixel.nodata) if wanted else ()
                windows.append(WindowFacts(row=row, col=col, shape_yx=data.shape[1:], moments=moments))

            run.each_window(write, [area], progress=False)
        run.close()
        return AreaFacts(
            name=path.name,
            size_bytes=path.stat().st_size,
            row=area.top,
            col=left,
            windows=tuple(windows),
            met=run.met,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareArea(_AreaTask):
    """Compares an area of the raster at ``path`` by its number."""

    path: Path

    def __call__(self, number: int) -> None:
        """Compare it."""
        from geotfr.rasters.safe_open import raster_env

        run = self.opened()
        with raster_env():
            run.compare(self.path, [areas_of(run.mosaic, self.areas)[number]], progress=False)
        run.close()

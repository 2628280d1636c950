"""Predictions straight to a raster: placed, blended and finished as an ingest does with records."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from geotfr.errors import UsageError
from geotfr.pipeline.ingest.map_writer import MapWriter, write_preview
from geotfr.pipeline.ingest.source_mask import FROM_MANIFEST, SourceMask, open_source_mask
from geotfr.pipeline.predict.raster_inputs import RasterInputs
from geotfr.pipeline.predict.result import Written
from geotfr.storage.atomic import check_output
from geotfr.storage.inputs import check_not_input
from geotfr.storage.outputs import local_output

if TYPE_CHECKING:
    from pathlib import Path

    from geotfr.options import IngestOptions
    from geotfr.pipeline.ingest.output_grid import OutputGrid
    from geotfr.pipeline.predict.model import ModelPredictions
    from geotfr.pipeline.predict.record_inputs import RecordInputs
    from geotfr.pipeline.progress import Progress

__all__ = ["RasterDestination"]

_FROM_SOURCE = "source"


class RasterDestination:
    """Writes predictions as the raster ``target``.

    Parameters
    ----------
    target, preview
        Paths of the raster and of its picture, or None for no picture.
    options
        As of an ingest; ``mask_from`` may be ``source`` too.
    overwrite
        Whether they may be replaced.
    threads
        Threads that compress.

    Raises
    ------
    OutputError
        A path that can't be written.
    """

    def __init__(
        self, target: Path, options: IngestOptions, *, preview: Path | None, overwrite: bool, threads: int
    ) -> None:
        self._target = target
        self._preview = preview
        self._options = options
        self._overwrite = overwrite
        self._threads = threads
        self._mask: SourceMask | None = None
        for path in filter(None, (target, preview)):
            check_output(path, overwrite=overwrite)

    def check(self, inputs: RasterInputs | RecordInputs, grid: OutputGrid) -> None:
        """Refuse to write over what is read; open the mask that is put back."""
        for path in filter(None, (self._target, self._preview)):
            check_not_input(path, (*inputs.files, *self._options.mask_from, self._options.classes))
        if self._preview is not None and self._preview.resolve() == self._target.resolve():
            raise UsageError(f"{self._preview}: the preview is the output itself; give another path")
        if self._options.mask_from:
            self._mask = self._opened(inputs, grid)

    def write(
        self,
        predictions: ModelPredictions,
        inputs: RasterInputs | RecordInputs,
        grid: OutputGrid,
        *,
        progress: bool | Progress,
    ) -> Written:
        """Run the model over all patches and write the raster; it takes its name when it is whole."""
        run = MapWriter(
            predictions,
            grid,
            self._options,
            mask=self._mask,
            leaves_gaps=inputs.may_drop,
            threads=self._threads,
            can_scan=False,
            what="predict",
        )
        with local_output(self._target, overwrite=self._overwrite) as path:
            run.write(path, overwrite=self._overwrite, progress=progress)
            if self._preview is not None:
                write_preview(path, self._preview, overwrite=self._overwrite)
            size_bytes = path.stat().st_size
        pixel = run.output.pixel
        return Written(
            bands=run.output.names,
            dtypes=(pixel.dtype.name,) * len(run.output.names),
            size_bytes=size_bytes,
            raster=self._target,
            nodata=pixel.nodata,
            values_clamped=run.clamped,
            notes=tuple(run.notes()),
            warnings=tuple(run.warnings()),
        )

    def _opened(self, inputs: RasterInputs | RecordInputs, grid: OutputGrid) -> SourceMask:
        names = self._options.mask_from
        if not isinstance(inputs, RasterInputs):
            meant = tuple(FROM_MANIFEST if name == _FROM_SOURCE else name for name in names)
            return open_source_mask(replace(self._options, mask_from=meant), grid, inputs.found)
        if FROM_MANIFEST in names or self._options.sources is not None:
            raise UsageError("mask_from: manifest is for records; source masks where this raster is masked")
        others = tuple(name for name in names if name != _FROM_SOURCE)
        if len(others) == len(names):
            return open_source_mask(self._options, grid)
        width, height = inputs.mixer.patch_xy
        if grid.patch_yx != (height, width):
            raise UsageError(
                f"mask_from: the source has the patches' pixels, {width} x {height} a patch, and predictions have"
                f" {grid.patch_yx[1]} x {grid.patch_yx[0]}; name a raster, which is warped"
            )
        return open_source_mask(replace(self._options, mask_from=others), grid, own=inputs.validity())

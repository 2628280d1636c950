"""Predict: patches -> batches -> model -> checked predictions -> records with a mixer, or a raster."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from geotfr.errors import UsageError
from geotfr.flags import checks_flags
from geotfr.mixer import is_manifest, is_mixer
from geotfr.options import ExportKeywords, ExportOptions, IngestKeywords, IngestOptions, parse_size, resolve_workers
from geotfr.options.values import checked_choice
from geotfr.pipeline.export.run import ExportResult
from geotfr.pipeline.ingest.output_grid import grid_of
from geotfr.pipeline.predict.inputs import BatchForm
from geotfr.pipeline.predict.model import ModelPredictions, model_of
from geotfr.pipeline.predict.raster import RasterDestination
from geotfr.pipeline.predict.raster_inputs import RasterInputs
from geotfr.pipeline.predict.record_inputs import RecordInputs
from geotfr.pipeline.predict.result import PredictResult
from geotfr.pipeline.predict.shards import PredictionSetWriter
from geotfr.stores.path import input_path, output_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from geotfr.options import PairXY, Size
    from geotfr.options.sources import RastersLike, WrittenSet
    from geotfr.pipeline.progress import Progress

__all__ = ["PredictResult", "predict"]

BATCH_BYTES = 32 * 2**20
"""Pixels in a batch, where no size is given."""
_MOST_PATCHES = 1024
_DEFAULT_SHARD_BYTES = 2**30
_RASTERS = (".tif", ".tiff")
_OF_RECORDS = (".tfrecord", ".tfrecords", ".gz")
# Keywords of an ingest that mean something where records are written.
_FOR_RECORDS = ("kernel_size", "channels", "class_names", "per_patch", "coarser", "finer", "shard_order")


@checks_flags
def predict(
    model: Callable[..., object],
    source: RastersLike | WrittenSet,
    output: str | os.PathLike[str],
    *,
    shards: Sequence[str | os.PathLike[str]] = (),
    patch_dimensions: PairXY | None = None,
    source_options: ExportKeywords | None = None,
    features: Sequence[str] | None = None,
    batch_size: int | None = None,
    stack: bool = True,
    channels_last: bool = False,
    name: str = "prediction",
    compressor: str = "fast",
    max_file_size: Size | None = None,
    naming: str = "drive",
    preview: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    progress: bool | Progress = False,
    **options: Unpack[IngestKeywords],
) -> PredictResult:
    """Run a model over all patches of a raster or of exported records, to prediction records or straight to a raster.

    Memory is bounded, whatever the raster's size: a strip of the source, a batch, and a row of patches of the output.

    Parameters
    ----------
    model
        A function of a batch. It gets ``(patch, channel, row, col)``, float32 unless the features are all whole
        numbers, each patch with its margins, masked pixels as an export fills them; and returns an array or tensor
        ``(patch, row, col)`` or ``(patch, channel, row, col)``, as large as the patch, or with margins, which are
        trimmed or blended; or a mapping of name to such. A ``torch.nn.Module`` gets tensors on its device, in
        evaluation mode, without gradients.
    source
        A raster, several, or ``(array, transform, crs)``, as of :func:`geotfr.export_image`. Or a mixer or manifest or
        the folder of an exported set, or the result of an export: then its records are read.
    output
        A name that ends in ``.tif`` is a raster. Any other is the prefix of a set of prediction records, in Earth
        Engine's order and with a mixer of the predictions' grid, ready for :func:`geotfr.ingest_predictions` or for
        an upload.
    shards
        The records, where a mixer alone is given and no manifest beside it tells them.
    patch_dimensions, kernel_size
        (width, height) of a patch of a raster, and the kernel that buffers it; of records the kernel alone, where no
        manifest tells it.
    source_options
        Other options of :func:`geotfr.export_image` for a raster: ``bands``, ``default_value``, ``edge``,
        ``masked_threshold``, ``region``, ``scale`` and so on.
    features
        The features that the model gets, in this order; by default all.
    batch_size
        Patches in a batch; by default what makes 32 MiB, at most 1024. The last batch may have fewer.
    stack
        One array of all channels. False: a mapping of feature to ``(patch, row, col)``, or with the channels of a
        tensor ``(patch, channel, row, col)``.
    channels_last
        Inputs are ``(patch, row, col, channel)``, and so are outputs.
    name
        What the band is called where the model returns one array; of several channels ``NAME_0`` and so on, or
        ``class_names``.
    compressor, max_file_size, naming
        Of prediction records, as of :func:`geotfr.export_image`; compressor ``none`` for plain ones.
    preview
        Path of a PNG picture of the raster.
    overwrite
        Replace what is there.
    workers
        Threads that decode and compress; by default as many as there are cores, up to 4. The model runs in the
        caller's thread.
    progress
        True for a bar on stderr, or a function of (patches, bytes).
    **options
        Of a raster, as of :func:`geotfr.ingest_predictions`: ``overlap``, ``argmax``, ``threshold``, ``scale``,
        ``dtype``, ``nodata``, ``mask_from`` (``source``: where the patches' raster is masked), ``classes``, ``format``
        and so on. ``per_patch``: the model returns ``(patch,)`` or ``(patch, channel)``. ``coarser``, ``finer``: its
        pixels are larger or smaller than the patches'.

    Raises
    ------
    UsageError
        Options that can't be; a model that returns another count, shape or type than is wanted: the batch, what was
        wanted and what was found are named.
    InputError, RecordError, ReadError
        A source that is missing, damaged or can't be read.
    OutputError
        The output can't be written, or exists and ``overwrite`` is False.

    Notes
    -----
    An error that the model raises comes through as it is, with a note that names the batch. Where the bands of a raster
    too wide for one pass are blended, the few patch columns that two passes share are predicted twice.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> scene = (np.arange(2 * 8 * 12.0).reshape(2, 8, 12), (10, 0, 0, 0, -10, 0), "EPSG:32633")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = predict(lambda batch: batch.mean(axis=1), scene, f"{folder}/mean.tif", patch_dimensions=4)
    >>> result.patches, result.bands, result.dtypes, result.geobox.shape_yx
    (6, ('prediction',), ('float32',), (8, 12))
    """
    started = time.perf_counter()
    _refuse(options, ("of_collection",), "is for predictions that are there; leave it out")
    checked = IngestOptions.checked(**options)
    threads = resolve_workers(workers, os.cpu_count() or 1)
    destination: RasterDestination | PredictionSetWriter
    if Path(output).suffix.lower() in _RASTERS:
        _refuse(options, ("patch_index", "bands"), "isn't for predictions that a model makes; leave it out")
        destination = RasterDestination(
            output_path(output),
            checked,
            preview=None if preview is None else output_path(preview),
            overwrite=overwrite,
            threads=threads,
        )
    else:
        _check_for_records(os.fspath(output), options, preview)
        destination = PredictionSetWriter(
            os.fspath(output),
            naming=checked_choice("naming", naming, ("drive", "cloud-storage")),
            compressor=checked_choice("compressor", compressor, ("fast", "ee", "none")),
            max_shard_bytes=_DEFAULT_SHARD_BYTES
            if max_file_size is None
            else parse_size("max_file_size", max_file_size),
            overwrite=overwrite,
            threads=threads,
        )
    with ExitStack() as stack_of:
        inputs = _inputs(source, shards, patch_dimensions, source_options, features, options, threads)
        if isinstance(inputs, RasterInputs):
            stack_of.callback(inputs.close)
            stack_of.enter_context(inputs.reading())
        grid = grid_of(inputs.mixer, inputs.whole, inputs.kernel_yx, checked)
        destination.check(inputs, grid)
        predictions = ModelPredictions(
            stack_of.enter_context(model_of(model)),
            inputs,
            grid,
            BatchForm(size=_batch_size(batch_size, inputs), is_stacked=stack, channels_last=channels_last),
            name=name,
            class_names=checked.class_names,
            per_patch=checked.per_patch is not None,
        )
        written = destination.write(predictions, inputs, grid, progress=progress)
    return PredictResult(
        raster=written.raster,
        shards=written.shards,
        mixer=written.mixer,
        manifest=written.manifest,
        geobox=grid.geobox,
        bands=written.bands,
        dtypes=written.dtypes,
        nodata=written.nodata,
        patches=inputs.mixer.total_patches - len(inputs.dropped) - inputs.lost,
        patches_dropped=len(inputs.dropped),
        patches_lost=inputs.lost,
        values_clamped=written.values_clamped,
        batches=predictions.batches,
        size_bytes=written.size_bytes,
        model_seconds=predictions.seconds,
        seconds=time.perf_counter() - started,
        notes=written.notes,
        warnings=(*inputs.warnings, *predictions.warnings, *written.warnings),
    )


def _inputs(
    source: Any,
    shards: Sequence[str | os.PathLike[str]],
    patch_dimensions: PairXY | None,
    source_options: ExportKeywords | None,
    features: Sequence[str] | None,
    options: IngestKeywords,
    threads: int,
) -> RasterInputs | RecordInputs:
    """The patches of a raster or of records, whichever ``source`` is."""
    names = [features] if isinstance(features, str) else features
    if isinstance(source, ExportResult):
        source, shards = source.mixer or source.manifest, shards or source.shards
    if _is_of_records(source):
        for option, value in (("patch_dimensions", patch_dimensions), ("source_options", source_options)):
            if value is not None:
                raise UsageError(f"{option}: is for rasters; {source} tells the patches of its records")
        return RecordInputs(
            source,
            [shards] if isinstance(shards, str | os.PathLike) else list(shards),
            names=names,
            kernel_size=options.get("kernel_size"),
            channels=options.get("channels"),
            shard_order=options.get("shard_order"),
            on_bad_record=options.get("on_bad_record"),
        )
    if shards:
        raise UsageError("shards: go with a mixer; the source is a raster")
    _refuse(options, ("channels", "shard_order", "on_bad_record"), "is for records; the source is a raster")
    given = {"patch_dimensions": patch_dimensions, "kernel_size": options.get("kernel_size")}
    more: dict[str, Any] = dict(source_options or {})
    for option, value in given.items():
        if value is not None and more.get(option) is not None:
            raise UsageError(f"{option}: is given twice, in source_options too; give it once")
    keywords: Any = {**more, **{option: value for option, value in given.items() if value is not None}}
    return RasterInputs(source, ExportOptions.checked(**keywords), names=names, workers=threads)


def _is_of_records(source: object) -> bool:
    """Whether ``source`` is a folder, a mixer or a manifest."""
    if not isinstance(source, str | os.PathLike):
        return False
    path = input_path(source)
    return path.is_dir() or path.suffix == ".json" or (path.is_file() and (is_mixer(path) or is_manifest(path)))


def _batch_size(given: int | None, inputs: RasterInputs | RecordInputs) -> int:
    if given is None:
        pixels = inputs.block_yx[0] * inputs.block_yx[1]
        patch_bytes = 4 * pixels * sum(feature.depth or 1 for feature in inputs.features)
        return min(max(BATCH_BYTES // patch_bytes, 1), _MOST_PATCHES)
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise UsageError(f"batch_size: found {given!r}; allowed is a whole number from 1")
    return int(given)


def _refuse(options: Mapping[str, Any], names: Sequence[str], why: str) -> None:
    for name in names:
        if options.get(name) not in (None, False):
            raise UsageError(f"{name}: {why}")


def _check_for_records(output: str, options: Mapping[str, Any], preview: object) -> None:
    """Refuse what only a raster can have, and a name that is a record file's."""
    if output.lower().endswith(_OF_RECORDS):
        raise UsageError(
            f"output: {output!r} is the name of one record file; give the prefix of the set, as predictions/scene, or a"
            " raster's name, as map.tif"
        )
    if preview is not None:
        raise UsageError("preview: is a picture of a raster; give an output that ends in .tif")
    others = [name for name in options if name not in _FOR_RECORDS]
    _refuse(options, others, "is for rasters, and records are written; give an output that ends in .tif")
    if options.get("per_patch") == "fill":
        raise UsageError("per_patch: fill is for rasters; pixel makes records of one pixel each")

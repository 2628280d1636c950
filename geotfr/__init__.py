"""Earth Engine's TFRecord image exports and prediction ingest on local GeoTIFFs.

>>> import geotfr
>>> plan = geotfr.plan_export("scene.tif", patch_dimensions=256)  # doctest: +SKIP
>>> result = geotfr.export_image("scene.tif", "patches/scene", patch_dimensions=256)  # doctest: +SKIP

The names are loaded when they are first used, so that importing geotfr is light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from geotfr._version import __version__

if TYPE_CHECKING:
    from geotfr.datasets.patch_dataset import PatchDataset
    from geotfr.datasets.stream import Stream, stream, stream_binary, stream_csv
    from geotfr.datasets.tensorflow_adapter import to_tf_dataset
    from geotfr.datasets.to_geopandas import to_geopandas
    from geotfr.datasets.to_xarray import to_xarray
    from geotfr.datasets.torch_adapter import to_torch
    from geotfr.errors import (
        DamagedError,
        EngineLostError,
        GeotfrError,
        InputError,
        LimitError,
        LockedError,
        MissingInputError,
        OutputError,
        OutputExistsError,
        ReadError,
        RecordError,
        UsageError,
        WorkerLostError,
    )
    from geotfr.integrity.indexing import write_index
    from geotfr.integrity.inspect import inspect
    from geotfr.integrity.repair import repair
    from geotfr.integrity.verify import verify
    from geotfr.mixer import Manifest, Mixer, read_manifest, read_mixer
    from geotfr.pipeline.catalog.collection import CollectionResult, export_collection
    from geotfr.pipeline.catalog.split import SplitResult, split_patches
    from geotfr.pipeline.catalog.stac import StacResult, write_stac_item
    from geotfr.pipeline.catalog.stats import StatisticsResult, compute_statistics
    from geotfr.pipeline.catalog.table import PatchTableResult, make_patch_table
    from geotfr.pipeline.export.parts.finalize import FinalizeResult, finalize_export
    from geotfr.pipeline.export.parts.stage import PartResult, export_part
    from geotfr.pipeline.export.plan import ExportPlan
    from geotfr.pipeline.export.run import ExportResult, export_image, plan_export
    from geotfr.pipeline.ingest.plan import IngestPlan
    from geotfr.pipeline.ingest.result import IngestResult
    from geotfr.pipeline.ingest.run import ingest_predictions, plan_ingest
    from geotfr.pipeline.predict.run import PredictResult, predict
    from geotfr.pipeline.tables.export import ExportTableResult, export_table
    from geotfr.pipeline.tables.ingest import IngestTableResult, ingest_table
    from geotfr.pipeline.tables.sample import SampleResult, sample_points
    from geotfr.pipeline.transfer.pull import PullResult, pull_set
    from geotfr.pipeline.transfer.push import PushResult, push_set
    from geotfr.preview.classes import plot_classes
    from geotfr.preview.figures import write_figure
    from geotfr.preview.grid import plot_grid
    from geotfr.preview.histograms import plot_histograms
    from geotfr.preview.sheet import plot_patches
    from geotfr.preview.swipe import swipe_page, write_swipe
    from geotfr.rasters.encoded import decode_picture, encode_picture
    from geotfr.records.faults import Fault, ReadReport
    from geotfr.records.index import IndexedRecords
    from geotfr.records.parse.code import parsing_code
    from geotfr.records.parse.example import parse_example, parse_single_example
    from geotfr.records.parse.infer import infer_features, infer_sequence_features, patch_features
    from geotfr.records.parse.sequence import parse_sequence_example, parse_single_sequence_example
    from geotfr.records.parse.specs import (
        FixedLenFeature,
        FixedLenSequenceFeature,
        RaggedFeature,
        SparseFeature,
        VarLenFeature,
    )
    from geotfr.records.parse.values import RaggedValue, SparseValue
    from geotfr.records.reader import FeatureBatch, read_features, read_records
    from geotfr.storage.example_files import write_examples, write_sequence_examples
    from geotfr.storage.mixer_file import write_mixer
    from geotfr.vectors.patch_table import PatchTable, read_patch_table

__all__ = [
    "CollectionResult",
    "DamagedError",
    "EngineLostError",
    "ExportPlan",
    "ExportResult",
    "ExportTableResult",
    "Fault",
    "FeatureBatch",
    "FinalizeResult",
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "GeotfrError",
    "IndexedRecords",
    "IngestPlan",
    "IngestResult",
    "IngestTableResult",
    "InputError",
    "LimitError",
    "LockedError",
    "Manifest",
    "MissingInputError",
    "Mixer",
    "OutputError",
    "OutputExistsError",
    "PartResult",
    "PatchDataset",
    "PatchTable",
    "PatchTableResult",
    "PredictResult",
    "PullResult",
    "PushResult",
    "RaggedFeature",
    "RaggedValue",
    "ReadError",
    "ReadReport",
    "RecordError",
    "SampleResult",
    "SparseFeature",
    "SparseValue",
    "SplitResult",
    "StacResult",
    "StatisticsResult",
    "Stream",
    "UsageError",
    "VarLenFeature",
    "WorkerLostError",
    "__version__",
    "compute_statistics",
    "decode_picture",
    "encode_picture",
    "export_collection",
    "export_image",
    "export_part",
    "export_table",
    "finalize_export",
    "infer_features",
    "infer_sequence_features",
    "ingest_predictions",
    "ingest_table",
    "inspect",
    "make_patch_table",
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
    "parsing_code",
    "patch_features",
    "plan_export",
    "plan_ingest",
    "plot_classes",
    "plot_grid",
    "plot_histograms",
    "plot_patches",
    "predict",
    "pull_set",
    "push_set",
    "read_features",
    "read_manifest",
    "read_mixer",
    "read_patch_table",
    "read_records",
    "repair",
    "sample_points",
    "split_patches",
    "stream",
    "stream_binary",
    "stream_csv",
    "swipe_page",
    "to_geopandas",
    "to_tf_dataset",
    "to_torch",
    "to_xarray",
    "verify",
    "write_examples",
    "write_figure",
    "write_index",
    "write_mixer",
    "write_sequence_examples",
    "write_stac_item",
    "write_swipe",
]

_ROOMS = {
    "geotfr.datasets.to_geopandas": ("to_geopandas",),
    "geotfr.datasets.to_xarray": ("to_xarray",),
    "geotfr.errors": (
        "DamagedError",
        "EngineLostError",
        "GeotfrError",
        "InputError",
        "LimitError",
        "LockedError",
        "MissingInputError",
        "OutputError",
        "OutputExistsError",
        "ReadError",
        "RecordError",
        "UsageError",
        "WorkerLostError",
    ),
    "geotfr.datasets.patch_dataset": ("PatchDataset",),
    "geotfr.datasets.tensorflow_adapter": ("to_tf_dataset",),
    "geotfr.datasets.torch_adapter": ("to_torch",),
    "geotfr.datasets.stream": ("Stream", "stream", "stream_binary", "stream_csv"),
    "geotfr.integrity.indexing": ("write_index",),
    "geotfr.integrity.inspect": ("inspect",),
    "geotfr.integrity.repair": ("repair",),
    "geotfr.integrity.verify": ("verify",),
    "geotfr.mixer": ("Manifest", "Mixer", "read_manifest", "read_mixer"),
    "geotfr.storage.example_files": ("write_examples", "write_sequence_examples"),
    "geotfr.storage.mixer_file": ("write_mixer",),
    "geotfr.vectors.patch_table": ("PatchTable", "read_patch_table"),
    "geotfr.pipeline.catalog.collection": ("CollectionResult", "export_collection"),
    "geotfr.pipeline.catalog.split": ("SplitResult", "split_patches"),
    "geotfr.pipeline.catalog.stac": ("StacResult", "write_stac_item"),
    "geotfr.pipeline.catalog.stats": ("StatisticsResult", "compute_statistics"),
    "geotfr.pipeline.catalog.table": ("PatchTableResult", "make_patch_table"),
    "geotfr.pipeline.export.run": ("ExportResult", "export_image", "plan_export"),
    "geotfr.pipeline.tables.export": ("ExportTableResult", "export_table"),
    "geotfr.pipeline.ingest.plan": ("IngestPlan",),
    "geotfr.pipeline.ingest.result": ("IngestResult",),
    "geotfr.pipeline.ingest.run": ("ingest_predictions", "plan_ingest"),
    "geotfr.pipeline.tables.ingest": ("IngestTableResult", "ingest_table"),
    "geotfr.pipeline.export.parts.finalize": ("FinalizeResult", "finalize_export"),
    "geotfr.pipeline.export.parts.stage": ("PartResult", "export_part"),
    "geotfr.pipeline.export.plan": ("ExportPlan",),
    "geotfr.pipeline.predict.run": ("PredictResult", "predict"),
    "geotfr.pipeline.transfer.pull": ("PullResult", "pull_set"),
    "geotfr.pipeline.transfer.push": ("PushResult", "push_set"),
    "geotfr.pipeline.tables.sample": ("SampleResult", "sample_points"),
    "geotfr.records.parse.example": ("parse_example", "parse_single_example"),
    "geotfr.records.parse.infer": ("infer_features", "infer_sequence_features", "patch_features"),
    "geotfr.records.parse.sequence": ("parse_sequence_example", "parse_single_sequence_example"),
    "geotfr.records.parse.specs": (
        "FixedLenFeature",
        "FixedLenSequenceFeature",
        "RaggedFeature",
        "SparseFeature",
        "VarLenFeature",
    ),
    "geotfr.records.parse.values": ("RaggedValue", "SparseValue"),
    "geotfr.records.faults": ("Fault", "ReadReport"),
    "geotfr.records.index": ("IndexedRecords",),
    "geotfr.records.parse.code": ("parsing_code",),
    "geotfr.records.reader": ("FeatureBatch", "read_features", "read_records"),
    "geotfr.preview.classes": ("plot_classes",),
    "geotfr.preview.figures": ("write_figure",),
    "geotfr.preview.grid": ("plot_grid",),
    "geotfr.preview.histograms": ("plot_histograms",),
    "geotfr.preview.sheet": ("plot_patches",),
    "geotfr.preview.swipe": (
        "swipe_page",
        "write_swipe",
    ),
    "geotfr.rasters.encoded": ("decode_picture", "encode_picture"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    room = _ROOM_OF.get(name)
    if room is None:
        raise AttributeError(f"module 'geotfr' has no attribute {name!r}")
    value = getattr(importlib.import_module(room), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

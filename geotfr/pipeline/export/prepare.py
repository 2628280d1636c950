"""What comes before an export's first pixel: the sources opened, the features named, the plan made."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geotfr.errors import UsageError
from geotfr.mixer.cards import listed
from geotfr.options import parse_size
from geotfr.patches import PatchLayout
from geotfr.patches.cut import clamped_fill
from geotfr.patches.features import BandSpec, feature_specs, validity_feature
from geotfr.pipeline.catalog.collect import RowCollector, known_classes, rows_memory_bytes
from geotfr.pipeline.export.encode import make_encoder
from geotfr.pipeline.export.labels import with_labels
from geotfr.pipeline.export.object_features import ObjectFeatures
from geotfr.pipeline.export.places import patch_choice
from geotfr.pipeline.export.plan import check_patches, plan_for
from geotfr.pipeline.export.strips import StripReader
from geotfr.pipeline.export.unreadable import UnreadableMasked
from geotfr.records.gzip import codec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from geotfr.grid.region import Region
    from geotfr.options import ExportOptions, Size
    from geotfr.patches.features import FeatureSpec
    from geotfr.pipeline.catalog.collect import TableRequest
    from geotfr.pipeline.export.labels import Labels
    from geotfr.pipeline.export.strips import PixelSource
    from geotfr.rasters.labelled import LabelledSource
    from geotfr.rasters.source import RasterSource

__all__ = ["ON_READ_ERROR", "Prepared", "open_rasters"]

ON_READ_ERROR = ("error", "mask")


def open_rasters(sources: Any, options: ExportOptions, workers: int) -> RasterSource:
    """One raster or several, paths or in memory, as the options want them on the export's grid."""
    from geotfr.grid.export_grid import GridRequest
    from geotfr.rasters.memory import is_memory_source
    from geotfr.rasters.request import SourceRequest
    from geotfr.rasters.source import open_export_source

    is_one = isinstance(sources, str | os.PathLike) or is_memory_source(sources)
    many = [sources] if is_one else list(sources)
    return open_export_source(
        [os.fspath(each) if isinstance(each, os.PathLike) else each for each in many],
        SourceRequest(
            bands=options.bands,
            nodata=options.nodata,
            allow_ungeoreferenced=options.allow_ungeoreferenced,
            allow_drivers=("GTiff", *options.allow_drivers),
            allow_network=options.allow_network,
            grid=GridRequest(
                region=None if options.region is None else _region(options.region),
                crs=options.crs,
                crs_transform=options.crs_transform,
                scale=options.scale,
                dimensions=options.dimensions_xy,
                clip_region=options.clip_region,
            ),
            resampling=options.resampling,
            array_bands=options.array_bands,
            masks=options.masks,
            unscale=options.unscale,
            complex_parts=options.complex_parts,
            threads=workers,
        ),
    )


def _region(text: str) -> Region:
    from geotfr.grid.region import parse_region

    return parse_region(text)


class Prepared:
    """Sources and options brought together.

    Attributes
    ----------
    source, options, table
        What it was made of; the source with the labels, if there are any.
    labels
        What the labels are, or None.
    choice
        Which patches are written.
    unreadable
        Masks what can't be read, if that is wanted.
    encoder, codec
        How records are made and packed.
    rows
        Gathers the rows of a patch table, if one is wanted.
    plan
        What will be written, and how.
    """

    def __init__(
        self,
        source: RasterSource,
        options: ExportOptions,
        *,
        workers: int,
        memory_limit: Size | None,
        on_read_error: str = "error",
        table: TableRequest | None = None,
    ) -> None:
        if on_read_error not in ON_READ_ERROR:
            raise UsageError(f"on_read_error: found {on_read_error!r}; allowed are {' and '.join(ON_READ_ERROR)}")
        self.source, self.labels = self._labelled(source, options)
        self.options = options
        self.table = table
        self.unreadable = UnreadableMasked(self.source) if on_read_error == "mask" else None
        layout = PatchLayout(
            geobox=self.source.geobox,
            patch_yx=options.patch_yx,
            kernel_yx=options.kernel_yx,
            pads_edge=options.edge == "pad",
        )
        check_patches(layout)
        self._bands = tuple(
            BandSpec(
                name=feature.name,
                planes=feature.planes,
                is_array=feature.is_array,
                is_label=feature.is_label,
                fill=feature.fill,
            )
            for feature in self.source.features
        )
        dtypes = tuple(plane.dtype for plane in self.source.bands)
        features = feature_specs(
            self._bands,
            dtypes,
            tensor_depths=dict(options.tensor_depths),
            collapse=options.collapse_bands,
            feature_kinds=options.feature_kinds,
            default_value=options.default_value,
        )
        _check_patch_index(options, features)
        bands = features
        if options.valid_feature is not None:
            _check_valid_feature(options, features)
            features = (*bands, validity_feature(options.valid_feature))
        objects = _objects(layout, self.labels)
        _check_names(
            [*(feature.name for feature in features), *([options.patch_index] if options.patch_index else [])], objects
        )
        self.encoder = make_encoder(
            layout, features, sequences=options.sequence_data, patch_index=options.patch_index, objects=objects
        )
        self.rows = (
            None
            if table is None
            else RowCollector(
                self.encoder,
                bands,
                table.class_bands,
                known_classes(None if self.labels is None else self.labels.to_dict()),
            )
        )
        self.choice = patch_choice(layout, options, self.source.features, self.labels)
        self.codec = codec(options.compressor)
        self.plan = plan_for(
            layout=layout,
            features=features,
            plane_dtypes=dtypes,
            encoder=self.encoder,
            has_mask=self._pixels.has_mask,
            block_shape_yx=self.source.block_shape_yx,
            block_bytes=self.source.block_bytes,
            scratch_pixel_bytes=self.source.scratch_pixel_bytes,
            max_shard_bytes=options.max_shard_bytes,
            compresses=self.codec.packs,
            workers=workers,
            memory_limit=None if memory_limit is None else parse_size("memory_limit", memory_limit),
            extra_bytes=(0 if table is None else rows_memory_bytes(layout.count, len(bands)))
            + (0 if self.labels is None else self.labels.memory_bytes),
        )
        told = _depth_warnings(self._bands, dict(options.tensor_depths))
        told += _fill_warnings(self._bands, dtypes, options.default_value)
        self.plan = replace(
            self.plan,
            warnings=(*self.plan.warnings, *told),
            labels=None if self.labels is None else self.labels.to_dict(),
        )

    @staticmethod
    def _labelled(source: RasterSource, options: ExportOptions) -> tuple[RasterSource | LabelledSource, Labels | None]:
        return (source, None) if options.labels is None else with_labels(source, options)

    @property
    def _pixels(self) -> PixelSource:
        return self.unreadable or self.source

    def strips(self, *, first_patch: int = 0, stop_patch: int | None = None) -> StripReader:
        """The strips of the plan from ``first_patch`` to before ``stop_patch``, or to the end."""
        return StripReader(
            self.plan,
            self._pixels,
            self._bands,
            mask_mode=self.options.mask_mode,
            first_patch=first_patch,
            stop_patch=stop_patch,
            wants=self.choice.wants_some,
        )

    def draw(self) -> None:
        """Draw the patches to write, if that is wanted; reads all pixels where these decide."""
        self.choice.draw(self.strips())

    def close(self) -> None:
        """Close what was opened beside the rasters."""
        self.source.close()


def _depth_warnings(bands: Sequence[BandSpec], depths: Mapping[str, int]) -> list[str]:
    """What a tensor's depth leaves out of an array band, or adds to it, one line each."""
    warnings = []
    for band in bands:
        depth, count = depths.get(band.name), len(band.planes)
        if depth is not None and depth < count:
            warnings.append(f"array band {band.name}: of {count:,} elements the first {depth:,} are taken, its depth")
        elif depth is not None and depth > count:
            warnings.append(f"array band {band.name}: {count:,} elements for a depth of {depth:,}; the rest is filled")
    return warnings


def _fill_warnings(bands: Sequence[BandSpec], dtypes: Sequence[np.dtype[Any]], default_value: float) -> list[str]:
    """What bands can't hold the default value, and what their masked pixels hold instead, a line for each type.

    **Source**: Earth Engine drops the fraction for integer bands, then clamps to the band type's range.
    """
    changed: dict[np.dtype[Any], list[str]] = {}
    for band in bands:
        for dtype in dict.fromkeys(dtypes[plane] for plane in band.planes):
            if band.fill is None and clamped_fill(default_value, dtype) != default_value:
                changed.setdefault(dtype, []).append(band.name)
    return [
        f"default value {default_value:g}: {dtype.name} can't hold it; masked pixels of {listed(names)} hold"
        f" {clamped_fill(default_value, dtype):g}, which valid pixels may hold too"
        for dtype, names in changed.items()
    ]


def _objects(layout: PatchLayout, labels: Labels | None) -> ObjectFeatures | None:
    if labels is None or labels.features is None or labels.shapes is None:
        return None
    return ObjectFeatures(layout, labels.shapes, labels.classes, ignore=labels.ignore, kind=labels.features)


def _check_names(names: Sequence[str], objects: ObjectFeatures | None) -> None:
    for name in names:
        if objects is not None and name in objects.names:
            raise UsageError(f"label_features: {name!r} is a feature of the objects too; give the band another name")


def _check_patch_index(options: ExportOptions, features: Sequence[FeatureSpec]) -> None:
    if options.patch_index is None:
        return
    if options.sequence_data:
        raise UsageError("patch_index: a record of sequence_data is a pixel, not a patch; leave one of them out")
    if any(feature.name == options.patch_index for feature in features):
        raise UsageError(f"patch_index: {options.patch_index!r} is a band's name too; give another")


def _check_valid_feature(options: ExportOptions, features: Sequence[FeatureSpec]) -> None:
    if any(feature.name == options.valid_feature for feature in features):
        raise UsageError(f"valid_feature: {options.valid_feature!r} is a band's name too; give another")
    if options.valid_feature == options.patch_index:
        raise UsageError(f"valid_feature: {options.valid_feature!r} is the patch index's name too; give another")

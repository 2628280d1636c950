"""Patches for a model from the records of a set, checked as an ingest checks them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import UsageError
from geotfr.mixer import is_manifest, read_manifest, read_mixer
from geotfr.mixer.sets import find_predictions, manifest_beside
from geotfr.options import IngestOptions
from geotfr.pipeline.ingest.output_grid import output_grid
from geotfr.pipeline.ingest.predictions import Predictions
from geotfr.pipeline.predict.inputs import InputFeature, Piece
from geotfr.records.faults import ReadReport
from geotfr.stores.path import input_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from geotfr.mixer.sets import PredictionSet
    from geotfr.options import PairXY
    from geotfr.pipeline.ingest.predictions import PatchValues, PredictionBand

__all__ = ["RecordInputs"]


class RecordInputs:
    """The patches in records; see :class:`geotfr.pipeline.predict.inputs.PatchInputs`.

    Parameters
    ----------
    mixer, shards
        The mixer, or a manifest, or a folder; and the shards, which a manifest and a folder tell too.
    names
        The features that the model gets, in this order; None for all.
    kernel_size, channels, shard_order, on_bad_record
        As of an ingest.

    Raises
    ------
    UsageError
        Features whose patches differ in size, or more than one set.
    RecordError
        Records that are damaged, too few or too many, or differ in their features.
    """

    def __init__(
        self,
        mixer: str | os.PathLike[str],
        shards: Sequence[str | os.PathLike[str]],
        *,
        names: Sequence[str] | None,
        kernel_size: PairXY | None,
        channels: str | None,
        shard_order: str | None,
        on_bad_record: str | None,
    ) -> None:
        found = _found(mixer, shards, shard_order)
        manifest = found.manifest
        if names is None and manifest is not None and (manifest.options.get("patch_index") or manifest.valid_feature):
            # Neither the patch's number nor what is valid is an input.
            names = [band.name for band in manifest.data_bands]
        options = IngestOptions.checked(
            bands=names,
            kernel_size=kernel_size,
            channels=channels,
            shard_order=shard_order,
            on_bad_record=on_bad_record,
        )
        grid = output_grid(found, options)
        self.found = found
        self.report = ReadReport()
        self._predictions = Predictions(found, options, grid, chosen_by="features")
        self._bands = _by_feature(self._predictions.bands)
        self.name = found.mixer_path.name
        depths = {band.name: band.depth for band in found.manifest.bands} if found.manifest else {}
        self.features = tuple(
            InputFeature(
                name=name,
                depth=len(bands) if len(bands) > 1 else depths.get(bands[0].feature),
                kind=bands[0].kind,
            )
            for name, bands in self._bands.items()
        )
        self.block_yx = self._one_block()
        self.mixer = found.mixer
        self.whole = grid.geobox
        self.kernel_yx = grid.kernel_yx
        self.may_drop = bool(found.dropped)
        self.dropped = found.dropped
        self.sources = found.manifest.sources if found.manifest else ()
        self.files = (found.mixer_path, *found.shards)

    @property
    def lost(self) -> int:
        """Patches whose records are lost, of the last whole pass."""
        return self._predictions.lost

    @property
    def warnings(self) -> list[str]:
        """What a user should know, one line each."""
        return list(self.report.warnings)

    def pieces(self, columns: range) -> Iterator[Piece]:
        """The patches of some patch columns, in ascending order."""
        self.report = ReadReport()
        for patches in self._predictions.patches(self.report):
            numbers = patches.first + np.arange(len(patches))
            place = numbers % self.mixer.patches_per_row
            kept = np.flatnonzero((place >= columns.start) & (place < columns.stop))
            if len(kept):
                yield Piece(numbers[kept], _Writer(patches, kept, self._bands))

    def _one_block(self) -> tuple[int, int]:
        sizes: dict[tuple[int, int], str] = {}
        for name, bands in self._bands.items():
            sizes.setdefault(bands[0].reading.block_yx, name)
        if len(sizes) > 1:
            words = [f"{name!r} has {width} x {height}" for (height, width), name in sizes.items()]
            raise UsageError(
                f"features: {' and '.join(words[:2])} pixels in {self.name}; a batch has patches of one size: choose"
                " with features"
            )
        return next(iter(sizes))


class _Writer:
    """Writes some patches of a batch of records into arrays."""

    def __init__(
        self, patches: PatchValues, kept: NDArray[np.int64], bands: Mapping[str, Sequence[PredictionBand]]
    ) -> None:
        self._patches = patches
        self._kept = kept
        self._bands = bands

    def __call__(self, part: slice, arrays: Mapping[str, NDArray[Any]]) -> None:
        chosen = self._kept[part]
        for name, bands in self._bands.items():
            for channel, band in enumerate(bands):
                blocks = band.reading.blocks(self._patches.values[band.feature], band.channel)
                is_run = chosen[-1] - chosen[0] == len(chosen) - 1
                arrays[name][:, channel] = blocks[chosen[0] : chosen[-1] + 1] if is_run else blocks[chosen]


def _by_feature(bands: Sequence[PredictionBand]) -> dict[str, list[PredictionBand]]:
    """The bands of each feature, by the name that the model knows it by: a renamed scalar's new one."""
    grouped: dict[str, list[PredictionBand]] = {}
    for band in bands:
        grouped.setdefault(band.feature if band.reading.channels > 1 else band.name, []).append(band)
    return grouped


def _found(
    mixer: str | os.PathLike[str], shards: Sequence[str | os.PathLike[str]], shard_order: str | None
) -> PredictionSet:
    """The set; a manifest, or a mixer that has one beside it, tells its shards."""
    path = input_path(mixer)
    if not shards and path.is_file():
        manifest = read_manifest(path) if is_manifest(path) else manifest_beside(path, read_mixer(path))
        if manifest is not None:
            shards = [path.parent / shard.name for shard in manifest.shards]
    return find_predictions(path, shards, shard_order=shard_order or "natural")

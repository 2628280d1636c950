"""Patches for a model straight from rasters: read in strips as an export does, with no record in between."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import UsageError
from geotfr.mixer import Mixer, SourceInfo
from geotfr.patches.cut import runs
from geotfr.pipeline.export.prepare import Prepared, open_rasters
from geotfr.pipeline.export.resume import Tally
from geotfr.pipeline.predict.inputs import InputFeature, Piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from geotfr.options import ExportOptions
    from geotfr.patches.cut import Strip
    from geotfr.patches.features import FeatureSpec
    from geotfr.rasters.source import RasterSource

__all__ = ["RasterInputs"]

_TOLD = 12
"""Names of features in a message."""


class RasterInputs:
    """The patches that an export of ``sources`` would write; see :class:`geotfr.pipeline.predict.inputs.PatchInputs`.

    Parameters
    ----------
    sources, options
        As of an export.
    names
        The features that the model gets, in this order; None for all.
    workers
        Threads that decode.

    Raises
    ------
    UsageError
        Options that make no patches of features: sequences, patch numbers; or a feature that isn't there.
    """

    lost = 0

    def __init__(self, sources: Any, options: ExportOptions, *, names: Sequence[str] | None, workers: int) -> None:
        for option in ("sequence_data", "patch_index", "valid_feature", "labels", "choice"):
            if getattr(options, option):
                raise UsageError(f"{option}: is about records, and the patches come from a raster; leave it out")
        self._options = options
        self._source = open_rasters(sources, options, workers)
        self._prepared = Prepared(self._source, options, workers=workers, memory_limit=None)
        plan = self._prepared.plan
        self._tally = Tally()
        self._reading = ExitStack()
        layout = plan.layout
        first = self._source.sources[0]
        self.name = "the array" if first.memory is not None else first.name
        self._specs = _chosen(plan.features, names, self.name)
        self.features = tuple(InputFeature(name=s.name, depth=s.depth, kind=s.kind) for s in self._specs)
        self.block_yx = layout.block_yx
        self.mixer = Mixer.for_layout(layout)
        self.whole = layout.geobox if layout.pads_edge else self.mixer.geobox
        self.kernel_yx: tuple[int, int] | None = layout.kernel_yx
        self.may_drop = options.masked_threshold != 1
        files = [file for file in self._source.sources if file.memory is None]
        self.sources = tuple(SourceInfo(name=file.name, bytes=file.size_bytes) for file in files)
        self.files = tuple(Path(file.path) for file in files)

    @property
    def dropped(self) -> tuple[int, ...]:
        """Patches over the masked threshold, of the last whole pass."""
        return tuple(self._tally.dropped)

    @property
    def warnings(self) -> list[str]:
        """What a user should know, one line each."""
        found = [*self._source.warnings]
        layout, counts = self._prepared.plan.layout, self._tally.counts
        rows, columns = layout.left_out_yx
        if rows or columns:
            found.append(
                f"{columns} columns and {rows} rows ({layout.left_out_share:.1%} of the pixels) along the edges have no"
                " patch; edge pad predicts them too"
            )
        return found + counts.warnings()

    def reading(self) -> AbstractContextManager[None]:
        """A context for GDAL, with the block cache that the plan wants."""
        from geotfr.rasters.safe_open import raster_env

        return raster_env(cache_bytes=self._prepared.plan.strips.gdal_cache_bytes)

    def pieces(self, columns: range) -> Iterator[Piece]:
        """The patches of some patch columns, in ascending order."""
        self._tally = Tally()
        # Left by `close`: where the model fails, nobody asks for the next piece; the thread that reads would be left
        # to the garbage collector, which may run where no thread can be joined.
        for strip in self._reading.enter_context(closing(iter(self._prepared.strips()))):
            kept = self._prepared.choice.positions(strip, self._tally)
            place = strip.columns.start + kept % len(strip.columns)
            positions = kept[(place >= columns.start) & (place < columns.stop)]
            if len(positions):
                yield Piece(strip.numbers(positions), _Writer(strip, positions, self._specs, self._tally))

    def validity(self) -> RasterSource:
        """The sources on the patches' grid, with handles of their own: where they are valid."""
        return self._source.reopen()

    def close(self) -> None:
        """Close the sources, after what is reading them."""
        self._reading.close()
        self._source.close()


class _Writer:
    """Writes some patches of a strip into arrays."""

    def __init__(
        self, strip: Strip, positions: NDArray[np.int64], features: Sequence[FeatureSpec], tally: Tally
    ) -> None:
        self._strip = strip
        self._positions = positions
        self._features = features
        self._counts = tally.counts

    def __call__(self, part: slice, arrays: Mapping[str, NDArray[Any]]) -> None:
        from geotfr.pipeline.export.fill import fill_feature

        rows = range(self._strip.layout.block_yx[0])
        done = 0
        for run in runs(self._positions[part], len(self._strip.columns)):
            for feature in self._features:
                values = arrays[feature.name][done : done + run.count]
                fill_feature(self._strip, run, feature, values, rows, self._counts)
            done += run.count


def _chosen(features: Sequence[FeatureSpec], names: Sequence[str] | None, where: str) -> tuple[FeatureSpec, ...]:
    from geotfr.options import nearest

    if names is None:
        return tuple(features)
    known = {feature.name: feature for feature in features}
    for name in names:
        if name not in known:
            told = ", ".join(list(known)[:_TOLD])
            raise UsageError(f"features: {name!r} is no feature of {where}{nearest(name, known)} (it has {told})")
    return tuple(known[name] for name in names)

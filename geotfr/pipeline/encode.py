"""From a strip to records: cast, fill and seal whole runs of patches at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.patches.cut import Strip, clamped_fill, count_inexact, fill_masked, runs
from geotfr.records.layout import ExampleLayout, FeatureLayout, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geotfr.patches import PatchLayout
    from geotfr.pipeline.plan import BandSpec

__all__ = ["EncodeCounts", "ExampleEncoder", "example_layout"]


@dataclass(slots=True)
class EncodeCounts:
    """What encoding met: integers that float32 can't hold exactly, floats beyond float32; patch cores only."""

    inexact: int = 0
    infinite: int = 0

    def add(self, other: EncodeCounts) -> None:
        """Count ``other`` in."""
        self.inexact += other.inexact
        self.infinite += other.infinite


def example_layout(layout: PatchLayout, names: Sequence[str]) -> ExampleLayout:
    """The records of scalar bands: each band one float list of the block's pixels, row-major."""
    pixels = layout.block_yx[0] * layout.block_yx[1]
    return ExampleLayout([FeatureLayout(name=name, kind=Kind.FLOAT, length=pixels) for name in names])


class ExampleEncoder:
    """Writes patches into records: one Example a patch, one float list a band."""

    def __init__(self, layout: ExampleLayout, bands: Sequence[BandSpec], *, default_value: float) -> None:
        self.layout = layout
        # A float64 band's default may be beyond float32 and becomes infinite, as its pixels do.
        with np.errstate(over="ignore"):
            self._fills = [float(np.float32(clamped_fill(default_value, band.dtype))) for band in bands]

    def encode(self, strip: Strip, positions: NDArray[np.int64], records: NDArray[np.uint8]) -> EncodeCounts:
        """Fill and seal ``records`` ``(n, record_bytes)`` with the ``n`` patches at ``positions`` of the strip.

        ``positions`` ascend and count patches row-major within the strip.
        """
        counts = EncodeCounts()
        done = 0
        block = strip.layout.block_yx
        for run in runs(positions, len(strip.columns)):
            part = records[done : done + run.count]
            done += run.count
            valid = None if strip.valid is None else strip.blocks(strip.valid, run)
            outputs = []
            for index, band in enumerate(strip.bands):
                output = self.layout.values(part, index).reshape(run.count, *block)
                # float64 beyond float32 becomes infinite; that is counted and told, not warned of here.
                with np.errstate(over="ignore", invalid="ignore"):
                    output[...] = strip.blocks(band, run)
                self._count(strip, run, band, output, counts)
                outputs.append(output)
            fill_masked(outputs, valid, self._fills)
        self.layout.seal(records[:done])
        return counts

    @staticmethod
    def _count(strip: Strip, run: Any, band: NDArray[Any], output: NDArray[Any], counts: EncodeCounts) -> None:
        if band.dtype.itemsize < 4 or band.dtype == np.float32:
            return
        (margin_y, margin_x), (height, width) = strip.layout.margin_yx, strip.layout.patch_yx
        core = output[:, margin_y : margin_y + height, margin_x : margin_x + width]
        valid = None if strip.valid is None else strip.cores(strip.valid, run)
        inexact, infinite = count_inexact(strip.cores(band, run), core, valid)
        counts.inexact += inexact
        counts.infinite += infinite

"""The rows of a set from the rasters that it was cut from, proved by the digests of its records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import DamagedError, UsageError
from geotfr.options import ExportOptions
from geotfr.pipeline.catalog.exported import fills_of
from geotfr.pipeline.export.prepare import Prepared, open_rasters
from geotfr.pipeline.export.resume import Tally

if TYPE_CHECKING:
    from geotfr.patches.rows import PatchRows
    from geotfr.pipeline.catalog.collect import TableRequest
    from geotfr.pipeline.catalog.reading import SetReader

__all__ = ["rows_from_sources"]


def rows_from_sources(
    reader: SetReader, read: PatchRows, rasters: Any, request: TableRequest, *, region: str | None = None
) -> tuple[PatchRows, dict[str, float]]:
    """The rows of the patches cut from ``rasters`` anew, and what masked values of each feature hold.

    Nothing but what the caller names is opened: ``rasters``, and a ``region`` in a file.

    Raises
    ------
    UsageError
        The set has no manifest, which tells the options, or these name other files.
    DamagedError
        The patches are not those of the set.
    """
    if reader.manifest is None:
        raise UsageError(f"{reader.shards[0]}: no manifest tells how rasters were cut; leave --source out")
    options = ExportOptions.from_manifest(reader.manifest.options, region=region, keep=read.numbers.tolist())
    with open_rasters(rasters, options, 1) as source:
        prepared = Prepared(source, options, workers=1, memory_limit=None, table=request)
        if prepared.rows is None or prepared.plan.layout.count != reader.rows * reader.columns:
            raise DamagedError(
                f"{reader.shards[0]}: the rasters give {prepared.plan.layout.count:,} patches, the set has"
                f" {reader.rows * reader.columns:,}; name those that were exported"
            )
        tally = Tally()
        for strip in prepared.strips():
            for unit in prepared.encoder.units(prepared.choice.positions(strip, tally)):
                encoded = prepared.encoder.encode(strip, unit)
                prepared.rows.add(encoded, prepared.rows.rows_of(strip, unit, encoded))
                prepared.encoder.recycle(encoded)
        rows = prepared.rows.rows()
        fills = fills_of(prepared.plan.features)
    if not np.array_equal(rows.numbers, read.numbers):
        raise DamagedError(f"{reader.shards[0]}: the rasters keep other patches than the set; name those exported")
    differs = (rows.digests != read.digests).any(axis=1)
    if differs.any():
        raise DamagedError(
            f"{reader.shards[0]}: {int(differs.sum()):,} of {len(rows):,} patches differ from the rasters', first patch"
            f" {int(rows.numbers[differs.argmax()])}; name the rasters that were exported, or export again"
        )
    return rows, fills

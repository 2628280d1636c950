"""The patch table of an export, from the rows gathered on the way and the shards as they were written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from geotfr.grid.footprints import BEYOND_MAP, Footprints
from geotfr.patches.features import FeatureSpec
from geotfr.records.members import gzip_members
from geotfr.records.places import ShardContent, record_places
from geotfr.vectors.patch_table import PatchSet, TablePart, write_patch_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geotfr.grid import GeoBox
    from geotfr.mixer import Manifest
    from geotfr.patches.rows import PatchRows
    from geotfr.pipeline.catalog.collect import TableRequest
    from geotfr.storage import AtomicFile, OutputSet

__all__ = [
    "FinishedShard",
    "fills_of",
    "patch_set_of",
    "place_warnings",
    "shard_content",
    "table_fills",
    "table_head",
    "write_table_of",
]


class FinishedShard(Protocol):
    """A shard under its temporary name, and how many records it holds."""

    @property
    def file(self) -> AtomicFile: ...

    @property
    def records(self) -> int: ...


def table_head(table: TableRequest | None, features: Sequence[FeatureSpec]) -> dict[str, Any] | None:
    """What parts of a table must have in common, in JSON types; None where there is no table."""
    if table is None:
        return None
    # A text: NaN is no equal of itself, and whole numbers stay whole.
    return {"class_bands": list(table.class_bands), "fills": json.dumps(fills_of(features))}


def table_fills(head: Mapping[str, Any]) -> dict[str, float]:
    """The fills that :func:`table_head` told."""
    fills: dict[str, float] = json.loads(head["fills"])
    return fills


def write_table_of(
    outputs: OutputSet,
    name: str,
    rows: PatchRows,
    manifest: Manifest,
    shards: Sequence[FinishedShard],
    fills: Mapping[str, float],
) -> AtomicFile:
    """The table of one set as a finished file of ``outputs``, to be called ``name``."""
    outputs.settle()
    contents = [shard_content(shard, is_gzip=manifest.compressor != "none") for shard in shards]
    part = TablePart(
        patches=patch_set_of(manifest, fills), rows=rows, places=record_places(rows.lengths, rows.records, contents)
    )
    file = outputs.create(name)
    write_patch_table(file, [part])
    file.finish()
    return file


def place_warnings(geobox: GeoBox) -> tuple[str, ...]:
    """What to tell of a table of patches on a grid whose CRS leads to no longitude and latitude."""
    footprints = Footprints(geobox.crs, geobox.affine, geobox.shape_yx)
    corner = np.zeros(1, np.int64)
    if not geobox.crs.strip() or np.isfinite(footprints.lonlat_bounds(corner, corner)).all():
        return ()
    return (f"the patch table has no west, south, east and north: {footprints.missing or BEYOND_MAP}",)


def patch_set_of(manifest: Manifest, fills: Mapping[str, float]) -> PatchSet:
    """The set that a manifest describes."""
    return PatchSet(
        source="+".join(source.name for source in manifest.sources),
        geobox=manifest.geobox,
        patch_yx=manifest.patch_yx,
        margin_yx=manifest.margin_yx,
        rows=manifest.rows,
        columns=manifest.columns,
        shards=tuple((shard.name, shard.bytes, shard.crc32c) for shard in manifest.shards),
        fills=dict(fills),
        labels=manifest.label_channels,
        valid_feature=manifest.valid_feature,
        first_in_shard=None if manifest.collection is None else manifest.collection.first_in_shard,
    )


def fills_of(features: Sequence[FeatureSpec]) -> dict[str, float]:
    """What masked values of each band hold; features whose channels differ in it are left out."""
    return {
        feature.name: feature.fills[0]
        for feature in features
        if len(set(feature.fills)) == 1 and not feature.is_validity
    }


def shard_content(shard: FinishedShard, *, is_gzip: bool) -> ShardContent:
    """What a whole shard under its temporary name holds."""
    members = gzip_members(shard.file.staged_path) if is_gzip else None
    size = shard.file.size if members is None else int(members[-1, 1])
    return ShardContent(records=shard.records, content_bytes=size, members=members)

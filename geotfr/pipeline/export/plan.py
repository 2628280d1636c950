"""The plan of an export: what will be written, and how much memory it takes, before a pixel is read.

Pure arithmetic from the grid, the bands, the options and the size of a storage block. Two questions are answered
here. *Which bytes go where*: the records of an export have one length, so records per shard, shards and sizes are
known (where values decide a record's length, the most there can be). *How the raster is read*: in strips of whole patch
rows, as high as a storage block or more, two buffers in turn where memory allows; very wide rasters in column groups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geotfr.errors import LimitError, UsageError
from geotfr.mixer.cards import card, grid_sketch
from geotfr.pipeline.export.chunks import ChunkRule
from geotfr.pipeline.export.unit_memory import memory_of_units
from geotfr.pipeline.sizes import human_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np

    from geotfr.patches import PatchLayout
    from geotfr.patches.features import FeatureSpec
    from geotfr.pipeline.export.encode import Encoder
    from geotfr.pipeline.export.scratch import Scratch

__all__ = ["ExportPlan", "StripPlan", "check_patches", "plan_for"]

MIB = 2**20
MAX_RECORD_BYTES = 2**31 - 1
"""protobuf, and so every reader, refuses messages of 2 GiB and more."""
LARGE_RECORD_BYTES = 2**28
STRIP_BUDGET_BYTES = 128 * MIB
"""For the strip buffers together, when no memory limit is given."""
PROCESS_BYTES = 96 * MIB
"""Python with numpy, GDAL and PROJ loaded, as measured."""
GDAL_CACHE_BYTES = 32 * MIB
_LARGEST_GDAL_CACHE_BYTES = 96 * MIB
# Strips lower than this cost more in calls than they save in memory.
_LEAST_STRIP_ROWS_PX = 256
_LEAST_STRIP_PATCHES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class StripPlan:
    """How the raster is read.

    Attributes
    ----------
    patch_rows, patch_columns
        Patches of a strip; more than one row only where a strip spans all columns.
    buffers
        1, or 2 where the next strip is read while this one is encoded.
    rows_px
        Pixel rows of a buffer.
    cols_px
        Pixel columns of a buffer.
    read_rows_px
        Rows are read up to a multiple of this, so that no storage block is decoded twice; 1: just the strip.
    gdal_cache_bytes
        GDAL's block cache.
    """

    patch_rows: int
    patch_columns: int
    buffers: int
    rows_px: int
    cols_px: int
    read_rows_px: int
    gdal_cache_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPlan:
    """What an export will write and need.

    Attributes
    ----------
    layout
        The patches.
    features
        The features, in order.
    plane_dtypes
        Types of the planes that are read.
    record_bytes
        Bytes of a record, framing included; the most it can have if ``is_even`` is False.
    is_even
        Whether all records have that length; int64 lists make it depend on the values.
    records
        Records in all shards, if no patch is dropped for its masked share.
    records_per_shard
        All but the last shard hold so many, or more if ``is_even`` is False.
    shard_count
        Shards, if no patch is dropped; the most there can be if ``is_even`` is False.
    rule
        Which records are packed together.
    strips
        How the raster is read.
    workers
        Threads that encode.
    memory_bytes
        Peak of resident memory.
    warnings
        What a user should know, one line each.
    scratch
        What an output in a store needs of this machine's disk; None for others, and where the output isn't known.
    labels
        The labels, as the manifest tells them; None without.
    """

    layout: PatchLayout
    features: tuple[FeatureSpec, ...]
    plane_dtypes: tuple[np.dtype[Any], ...]
    record_bytes: int
    is_even: bool
    records: int
    records_per_shard: int
    shard_count: int
    rule: ChunkRule
    strips: StripPlan
    workers: int
    memory_bytes: int
    warnings: tuple[str, ...]
    scratch: Scratch | None = None
    labels: dict[str, Any] | None = None

    @property
    def total_bytes(self) -> int:
        """Bytes of all shards before compression; the most there can be if ``is_even`` is False."""
        return self.records * self.record_bytes

    def shard_bytes(self, shard: int) -> int:
        """Bytes of ``shard`` before compression, if records are even and no patch is dropped."""
        records = min(self.records_per_shard, self.records - shard * self.records_per_shard)
        return records * self.record_bytes

    def strip_ranges(self, first_patch: int = 0, stop_patch: int | None = None) -> Iterator[tuple[range, range]]:
        """(patch rows, patch columns) of each strip from ``first_patch`` on, in the order of the records."""
        layout, strips = self.layout, self.strips
        row, first_column = divmod(first_patch, layout.columns)
        last_row, last_columns = divmod(layout.count if stop_patch is None else stop_patch, layout.columns)
        while (row, first_column) < (last_row, last_columns):
            # The rest of a row that was begun goes alone, and so does the beginning of one.
            height = 1 if first_column or row == last_row else strips.patch_rows
            rows = range(row, max(min(row + height, last_row), row + 1))
            stop_column = last_columns if row == last_row else layout.columns
            for column in range(first_column, stop_column, strips.patch_columns):
                yield rows, range(column, min(column + strips.patch_columns, stop_column))
            row, first_column = rows.stop, 0

    def to_dict(self) -> dict[str, Any]:
        """The plan in JSON types, pairs as (width, height)."""
        layout = self.layout
        return {
            "grid": {
                "crs": layout.geobox.crs,
                "transform": list(layout.geobox.affine),
                "width": layout.geobox.shape_yx[1],
                "height": layout.geobox.shape_yx[0],
            },
            "patch_dimensions": _xy(layout.patch_yx),
            "kernel_size": _xy(layout.kernel_yx),
            "margin": _xy(layout.margin_yx),
            "block": _xy(layout.block_yx),
            "rows": layout.rows,
            "columns": layout.columns,
            "patches": layout.count,
            "left_out": {
                "columns": layout.left_out_yx[1],
                "rows": layout.left_out_yx[0],
                "share": round(layout.left_out_share, 6),
            },
            "features": [{"name": f.name, "kind": f.kind, "depth": f.depth} for f in self.features],
            "record_bytes": self.record_bytes,
            "is_even": self.is_even,
            "records": self.records,
            "records_per_shard": self.records_per_shard,
            "shards": self.shard_count,
            "bytes_uncompressed": self.total_bytes,
            "workers": self.workers,
            "memory_bytes": self.memory_bytes,
            "scratch": None if self.scratch is None else self.scratch.to_dict(),
            **({} if self.labels is None else {"labels": self.labels}),
            "warnings": list(self.warnings),
        }

    def _repr_html_(self) -> str:
        layout = self.layout
        facts = [(line[:10].rstrip(), line[10:]) for line in self.to_text().splitlines()]
        facts += [("warning", warning) for warning in self.warnings]
        sketch = grid_sketch(
            shape_yx=layout.geobox.shape_yx,
            patch_yx=layout.patch_yx,
            rows=layout.rows,
            columns=layout.columns,
            margin_yx=layout.margin_yx,
        )
        return card("plan of an export", facts, sketch)

    def to_text(self) -> str:
        """The plan for a person, some lines."""
        layout = self.layout
        (height, width), (patch_height, patch_width) = layout.geobox.shape_yx, layout.patch_yx
        lost_rows, lost_columns = layout.left_out_yx
        edge = (
            f"{lost_columns} columns and {lost_rows} rows along the edges ({layout.left_out_share:.1%} of the pixels)"
            if lost_rows or lost_columns
            else "nothing"
        )
        crs = layout.geobox.crs
        most = "" if self.is_even else "at most "
        return "\n".join(
            (
                f"grid      {width} x {height} pixels, {(crs[:60] + '…') if len(crs) > 60 else crs or 'no CRS'}",
                f"patches   {layout.columns} x {layout.rows} = {layout.count:,} of {patch_width} x {patch_height}"
                f" (block {layout.block_yx[1]} x {layout.block_yx[0]}, margin {layout.margin_yx[1]} x"
                f" {layout.margin_yx[0]})",
                f"left out  {edge}",
                f"features  {len(self.features)}: {', '.join(map(_feature_text, self.features[:12]))}"
                f"{', …' if len(self.features) > 12 else ''}",
                f"records   {self.records:,}, {most}{human_bytes(self.total_bytes)} before compression",
                f"shards    {most}{self.shard_count:,} of up to {self.records_per_shard:,} records"
                if self.is_even
                else f"shards    {most}{self.shard_count:,}",
                f"memory    {human_bytes(self.memory_bytes)} with {self.workers}"
                f" worker{'s' if self.workers > 1 else ''}",
                *([] if self.scratch is None else [f"scratch   {self.scratch.to_text()}"]),
                *([] if self.labels is None else [f"labels    {_labels_text(self.labels)}"]),
            )
        )


def _labels_text(labels: Mapping[str, Any]) -> str:
    """The values of the classes: what the records hold."""
    classes = [f"{value} {name}" for name, value in labels["classes"].items()]
    masked = [] if labels["ignore"] is None else [f"ignore {labels['ignore']}"]
    return f"{labels['band']}: " + ", ".join([*classes, f"background {labels['background']}", *masked])


def _feature_text(feature: FeatureSpec) -> str:
    return feature.name if feature.depth is None else f"{feature.name} (depth {feature.depth})"


def plan_for(
    *,
    layout: PatchLayout,
    features: tuple[FeatureSpec, ...],
    plane_dtypes: tuple[np.dtype[Any], ...],
    encoder: Encoder,
    has_mask: bool,
    block_shape_yx: tuple[int, int],
    block_bytes: int,
    scratch_pixel_bytes: int,
    max_shard_bytes: int,
    compresses: bool,
    workers: int,
    memory_limit: int | None,
    extra_bytes: int = 0,
) -> ExportPlan:
    """The plan of an export of ``layout`` in the records of ``encoder``.

    Parameters
    ----------
    block_shape_yx, block_bytes
        The source's storage block: (rows, columns), and its decoded bytes.
    scratch_pixel_bytes
        What reading takes beside the buffers, in bytes for each pixel read at once.
    memory_limit
        Bytes of resident memory that the run may take; None: what is fast.
    extra_bytes
        What the rows of a patch table and the shapes of labels take.

    Raises
    ------
    LimitError
        A record passes 2 GiB, or the least memory passes ``memory_limit``.
    """
    record_bytes = encoder.record_bytes
    if record_bytes > MAX_RECORD_BYTES:
        raise LimitError(
            f"a record of {layout.block_yx[1]} x {layout.block_yx[0]} pixels and {len(plane_dtypes)} bands has"
            f" {record_bytes:,} bytes; readers take no more than {MAX_RECORD_BYTES:,}; make patches smaller"
        )
    warnings = []
    if record_bytes > LARGE_RECORD_BYTES:
        warnings.append(
            f"each record has {human_bytes(record_bytes)}; readers hold a whole record in memory, and smaller patches"
            " are easier on them"
        )
    if record_bytes > max_shard_bytes and encoder.is_even:
        warnings.append(
            f"a record of {record_bytes:,} bytes is larger than the limit max_file_size {max_shard_bytes:,};"
            " each record gets a shard of its own"
        )
    records = layout.count * encoder.records_per_patch
    records_per_shard = max(max_shard_bytes // record_bytes, 1)
    pixels = layout.block_yx[0] * layout.block_yx[1]
    units_bytes = memory_of_units(encoder, features, plane_dtypes, pixels, workers=workers, compresses=compresses)
    strips, memory_bytes = _plan_strips(
        layout=layout,
        pixel_bytes=sum(dtype.itemsize for dtype in plane_dtypes) + (len(plane_dtypes) if has_mask else 0) + 1,
        scratch_pixel_bytes=scratch_pixel_bytes + 1,
        block_shape_yx=block_shape_yx,
        block_bytes=block_bytes,
        other_bytes=PROCESS_BYTES + units_bytes + block_bytes * workers + extra_bytes,
        memory_limit=memory_limit,
        workers=workers,
    )
    return ExportPlan(
        layout=layout,
        features=features,
        plane_dtypes=plane_dtypes,
        record_bytes=record_bytes,
        is_even=encoder.is_even,
        records=records,
        records_per_shard=records_per_shard,
        shard_count=math.ceil(records / records_per_shard),
        rule=ChunkRule.for_records(
            columns=layout.columns,
            records_per_patch=encoder.records_per_patch,
            record_bytes=encoder.usual_record_bytes,
        ),
        strips=strips,
        workers=workers,
        memory_bytes=memory_bytes,
        warnings=tuple(warnings),
    )


def check_patches(layout: PatchLayout) -> None:
    """Refuse a layout without a whole patch."""
    if layout.count:
        return
    (height, width), (patch_height, patch_width) = layout.geobox.shape_yx, layout.patch_yx
    raise UsageError(
        f"0 patches: a patch of {patch_width} x {patch_height} doesn't fit into the raster of {width} x {height};"
        f" give --patch-dimensions of at most {width},{height}, or --edge pad"
    )


def _plan_strips(
    *,
    layout: PatchLayout,
    pixel_bytes: int,
    scratch_pixel_bytes: int,
    block_shape_yx: tuple[int, int],
    block_bytes: int,
    other_bytes: int,
    memory_limit: int | None,
    workers: int,
) -> tuple[StripPlan, int]:
    """The fastest way of reading that the memory allows, and its peak of resident memory.

    Fastest first: two buffers of whole rows, reading whole storage blocks; one such buffer; one buffer of just the
    rows needed, GDAL's cache keeping the storage blocks between strips; and column groups, which decode the storage
    blocks that margins reach into once for each strip.
    """
    rows_px = max(block_shape_yx[0], _LEAST_STRIP_ROWS_PX)
    wanted = max(rows_px // layout.patch_yx[0], math.ceil(_LEAST_STRIP_PATCHES / layout.columns), 1)
    if memory_limit is None:
        budget = STRIP_BUDGET_BYTES
    else:
        budget = memory_limit - other_bytes - GDAL_CACHE_BYTES

    def strip(patch_rows: int, patch_columns: int, buffers: int, *, aligned: bool, cache: int) -> StripPlan:
        window = layout.blocks_window(range(patch_rows), range(patch_columns))
        # In what is aligned, a strip may begin and end anywhere within a storage block.
        spare = block_shape_yx[0] - 1 if aligned else 0
        if aligned and not layout.margin_yx[0] and layout.patch_yx[0] * patch_rows % block_shape_yx[0] == 0:
            spare = 0
        return StripPlan(
            patch_rows=patch_rows,
            patch_columns=patch_columns,
            buffers=buffers,
            rows_px=window.height + spare,
            cols_px=window.width,
            read_rows_px=block_shape_yx[0] if aligned else 1,
            gdal_cache_bytes=cache,
        )

    def size(plan: StripPlan) -> int:
        return plan.rows_px * plan.cols_px * (plan.buffers * pixel_bytes + scratch_pixel_bytes)

    rows_of_blocks_bytes = math.ceil(layout.geobox.shape_yx[1] / block_shape_yx[1]) * block_bytes
    keeping_cache = int(rows_of_blocks_bytes * 1.1) + MIB
    buffers = 2 if workers > 1 else 1
    candidates: list[StripPlan] = []
    patch_rows = min(wanted, layout.rows)
    while patch_rows:
        candidates.append(strip(patch_rows, layout.columns, buffers, aligned=True, cache=GDAL_CACHE_BYTES))
        patch_rows //= 2
    candidates.append(strip(1, layout.columns, 1, aligned=True, cache=GDAL_CACHE_BYTES))
    if GDAL_CACHE_BYTES < keeping_cache <= _LARGEST_GDAL_CACHE_BYTES:
        candidates.append(strip(1, layout.columns, 1, aligned=False, cache=keeping_cache))
    elif keeping_cache <= GDAL_CACHE_BYTES:
        candidates.append(strip(1, layout.columns, 1, aligned=False, cache=GDAL_CACHE_BYTES))
    for plan in candidates:
        if size(plan) + max(plan.gdal_cache_bytes - GDAL_CACHE_BYTES, 0) <= budget:
            return plan, other_bytes + plan.gdal_cache_bytes + size(plan)

    columns = _columns_that_fit(
        layout, budget, lambda n: size(strip(1, n, buffers, aligned=False, cache=0)), block_shape_yx[1]
    )
    plan = strip(1, columns, buffers, aligned=False, cache=GDAL_CACHE_BYTES)
    if size(plan) > budget:
        plan = strip(1, columns, 1, aligned=False, cache=GDAL_CACHE_BYTES)
    needed = other_bytes + GDAL_CACHE_BYTES + size(plan)
    if memory_limit is not None and needed > memory_limit:
        raise LimitError(
            f"memory: this export needs at least {human_bytes(needed)} with {workers} workers;"
            f" the limit is {human_bytes(memory_limit)}; raise --memory-limit, or make patches or --workers smaller"
        )
    return plan, needed


def _columns_that_fit(layout: PatchLayout, budget: int, size: Any, block_cols: int) -> int:
    """The most patch columns whose strips fit, whole storage blocks wide if possible; at least 1."""
    low, high = 1, layout.columns
    while low < high:
        middle = (low + high + 1) // 2
        if size(middle) <= budget:
            low = middle
        else:
            high = middle - 1
    # A group that ends within a storage block makes its neighbour decode that block again.
    step = block_cols // math.gcd(block_cols, layout.patch_yx[1])
    return low // step * step or low


def _xy(pair_yx: tuple[int, int]) -> list[int]:
    return [pair_yx[1], pair_yx[0]]

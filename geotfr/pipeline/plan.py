"""The plan of an export: what will be written, and how much memory it takes, before a pixel is read.

Pure arithmetic from the grid, the bands, the options and the size of a storage block. Two questions are answered
here. *Which bytes go where*: every record of an export has one length, so records per shard, shards and sizes are
known; chunks (the unit of work of an encoder, and of compression) are cut by a record's place in its shard alone, so
the bytes don't depend on how the work is spread. *How the raster is read*: in strips of whole patch rows, as high as a
storage block or more, two buffers in turn where memory allows; very wide rasters in column groups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geotfr.errors import LimitError, UsageError
from geotfr.patches import PatchLayout

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from geotfr.grid import GeoBox
    from geotfr.options import ExportOptions

__all__ = ["BandSpec", "ExportPlan", "StripPlan", "plan_for"]

MIB = 2**20
CHUNK_BYTES = MIB
"""Small records are encoded and compressed together up to this many bytes; a larger record goes alone."""
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
class BandSpec:
    """One feature of the records.

    Attributes
    ----------
    name
        The feature's name.
    dtype
        The band's own type.
    kind
        The feature's kind.
    depth
        Elements of an array band, None for a scalar one.
    nodata
        The band's nodata value, as the manifest tells it.
    """

    name: str
    dtype: np.dtype[Any]
    kind: str
    depth: int | None
    nodata: float | int | str | None


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
    bands
        The features, in order.
    record_bytes
        Bytes of a record, framing included.
    records_per_shard
        All but the last shard hold so many.
    shard_count
        Shards, if no patch is dropped for its masked share.
    chunk_records
        Records that are encoded and compressed together.
    strips
        How the raster is read.
    workers
        Threads that encode.
    memory_bytes
        Peak of resident memory.
    warnings
        What a user should know, one line each.
    """

    layout: PatchLayout
    bands: tuple[BandSpec, ...]
    record_bytes: int
    records_per_shard: int
    shard_count: int
    chunk_records: int
    strips: StripPlan
    workers: int
    memory_bytes: int
    warnings: tuple[str, ...]

    @property
    def total_bytes(self) -> int:
        """Bytes of all shards before compression."""
        return self.layout.count * self.record_bytes

    def shard_bytes(self, shard: int) -> int:
        """Bytes of ``shard`` before compression, if no patch is dropped."""
        records = min(self.records_per_shard, self.layout.count - shard * self.records_per_shard)
        return records * self.record_bytes

    def strip_ranges(self) -> Iterator[tuple[range, range]]:
        """(patch rows, patch columns) of each strip, in the order of the records."""
        layout, strips = self.layout, self.strips
        for row in range(0, layout.rows, strips.patch_rows):
            rows = range(row, min(row + strips.patch_rows, layout.rows))
            for column in range(0, layout.columns, strips.patch_columns):
                yield rows, range(column, min(column + strips.patch_columns, layout.columns))

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
            "bands": [{"name": b.name, "dtype": b.dtype.name, "kind": b.kind} for b in self.bands],
            "record_bytes": self.record_bytes,
            "records_per_shard": self.records_per_shard,
            "shards": self.shard_count,
            "bytes_uncompressed": self.total_bytes,
            "workers": self.workers,
            "memory_bytes": self.memory_bytes,
            "warnings": list(self.warnings),
        }

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
        return "\n".join(
            (
                f"grid      {width} x {height} pixels, {(crs[:60] + '…') if len(crs) > 60 else crs or 'no CRS'}",
                f"patches   {layout.columns} x {layout.rows} = {layout.count:,} of {patch_width} x {patch_height}"
                f" (block {layout.block_yx[1]} x {layout.block_yx[0]}, margin {layout.margin_yx[1]} x"
                f" {layout.margin_yx[0]})",
                f"left out  {edge}",
                f"features  {len(self.bands)}: {', '.join(b.name for b in self.bands[:12])}"
                f"{', …' if len(self.bands) > 12 else ''}",
                f"shards    {self.shard_count:,} of up to {self.records_per_shard:,} records,"
                f" {human_bytes(self.total_bytes)} before compression",
                f"memory    {human_bytes(self.memory_bytes)} with {self.workers}"
                f" worker{'s' if self.workers > 1 else ''}",
            )
        )


def human_bytes(count: float) -> str:
    """``count`` bytes with a binary unit.

    >>> human_bytes(1610612736)
    '1.5 GiB'
    """
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def plan_for(
    *,
    geobox: GeoBox,
    bands: tuple[BandSpec, ...],
    record_bytes: int,
    block_shape_yx: tuple[int, int],
    block_bytes: int,
    options: ExportOptions,
    workers: int,
    memory_limit: int | None,
) -> ExportPlan:
    """The plan of an export of ``geobox`` in records of ``record_bytes``.

    Parameters
    ----------
    block_shape_yx, block_bytes
        The source's storage block: (rows, columns), and its decoded bytes.
    memory_limit
        Bytes of resident memory that the run may take; None: what is fast.

    Raises
    ------
    UsageError
        There is no whole patch.
    LimitError
        A record passes 2 GiB, or the least memory passes ``memory_limit``.
    """
    layout = PatchLayout(geobox=geobox, patch_yx=options.patch_yx, kernel_yx=options.kernel_yx)
    _check_patches(layout)
    if record_bytes > MAX_RECORD_BYTES:
        raise LimitError(
            f"a record of {layout.block_yx[1]} x {layout.block_yx[0]} pixels and {len(bands)} features has"
            f" {record_bytes:,} bytes; readers take no more than {MAX_RECORD_BYTES:,}; make patches smaller"
        )
    warnings = []
    if record_bytes > LARGE_RECORD_BYTES:
        warnings.append(
            f"each record has {human_bytes(record_bytes)}; readers hold a whole record in memory, and smaller patches"
            " are easier on them"
        )
    if record_bytes > options.max_shard_bytes:
        warnings.append(
            f"a record of {record_bytes:,} bytes is larger than max_file_size {options.max_shard_bytes:,};"
            " each record gets a shard of its own"
        )
    records_per_shard = max(options.max_shard_bytes // record_bytes, 1)
    chunk_records = min(max(CHUNK_BYTES // record_bytes, 1), records_per_shard, layout.count)
    # Encoders hold a chunk and, while compressing, its compressed form; the writer has as many waiting.
    chunks_bytes = (workers + 3) * chunk_records * record_bytes * (1 if options.compressor == "none" else 2)
    strips, memory_bytes = _plan_strips(
        layout=layout,
        pixel_bytes=sum(band.dtype.itemsize for band in bands) + 1,
        block_shape_yx=block_shape_yx,
        block_bytes=block_bytes,
        other_bytes=PROCESS_BYTES + chunks_bytes + block_bytes * workers,
        memory_limit=memory_limit,
        workers=workers,
    )
    return ExportPlan(
        layout=layout,
        bands=bands,
        record_bytes=record_bytes,
        records_per_shard=records_per_shard,
        shard_count=math.ceil(layout.count / records_per_shard),
        chunk_records=chunk_records,
        strips=strips,
        workers=workers,
        memory_bytes=memory_bytes,
        warnings=tuple(warnings),
    )


def _check_patches(layout: PatchLayout) -> None:
    if layout.count:
        return
    (height, width), (patch_height, patch_width) = layout.geobox.shape_yx, layout.patch_yx
    raise UsageError(
        f"0 patches: a patch of {patch_width} x {patch_height} doesn't fit into the raster of {width} x {height};"
        f" give --patch-dimensions of at most {width},{height}"
    )


def _plan_strips(
    *,
    layout: PatchLayout,
    pixel_bytes: int,
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
        # The scratch of the mask computation is one more byte per pixel of one buffer.
        return plan.rows_px * plan.cols_px * (plan.buffers * pixel_bytes + 1)

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

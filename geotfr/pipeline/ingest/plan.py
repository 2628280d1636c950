"""The plan of an ingest: what will be written, and what it takes of disk and memory, before the raster is begun."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geotfr.pipeline.ingest.result import grid_document, nodata_document
from geotfr.pipeline.sizes import human_bytes

if TYPE_CHECKING:
    from geotfr.grid import GeoBox

__all__ = ["ASSEMBLY_BYTES", "GDAL_CACHE_BYTES", "PROCESS_BYTES", "IngestPlan"]

PROCESS_BYTES = 96 * 2**20
"""Of an interpreter with numpy and GDAL."""
GDAL_CACHE_BYTES = 32 * 2**20
"""Of :data:`geotfr.rasters.safe_open.DEFAULT_CACHE_BYTES`, which is known without GDAL here."""
ASSEMBLY_BYTES = 200 * 2**20
"""Halving squares of an overview, and GDAL's copy with its cache: measured, and the same for all rasters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestPlan:
    """What an ingest will write.

    Attributes
    ----------
    geobox
        The raster's grid.
    bands
        Band names, in order.
    dtype, nodata, has_mask
        The pixel type, the nodata value or None, and whether a mask inside the file tells what is missing.
    patches, records, shards
        Patches of the grid, patches that are expected in the records, and the files that hold them.
    patch_yx, margin_yx
        (rows, columns) of a patch in the raster, and of the widest margin around it.
    overlap
        ``crop``, or how margins are blended.
    format
        ``gtiff`` or ``cog``.
    creation_options
        GDAL's, all of them.
    levels_yx
        (rows, columns) of the overviews, the largest first.
    passes
        Passes over the records.
    output_bytes, staged_bytes
        The most that the raster, and files on the way to it, take on disk: as if nothing could be compressed.
    memory_bytes
        Peak of resident memory.
    workers
        Threads that compress.
    notes
        Choices that were made, one line each.
    """

    geobox: GeoBox
    bands: tuple[str, ...]
    dtype: str
    nodata: float | None
    has_mask: bool
    patches: int
    records: int
    shards: int
    patch_yx: tuple[int, int]
    margin_yx: tuple[int, int]
    overlap: str
    format: str
    creation_options: tuple[tuple[str, str], ...]
    levels_yx: tuple[tuple[int, int], ...]
    passes: int
    output_bytes: int
    staged_bytes: int
    memory_bytes: int
    workers: int
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The plan in JSON types."""
        return {
            **grid_document(self.geobox),
            "bands": list(self.bands),
            "dtype": self.dtype,
            "nodata": nodata_document(self.nodata),
            "has_mask": self.has_mask,
            "patches": self.patches,
            "records": self.records,
            "shards": self.shards,
            "patch_dimensions": list(self.patch_yx[::-1]),
            "margin": list(self.margin_yx[::-1]),
            "overlap": self.overlap,
            "format": self.format,
            "creation_options": dict(self.creation_options),
            "overviews": [list(shape[::-1]) for shape in self.levels_yx],
            "passes": self.passes,
            "output_bytes": self.output_bytes,
            "staged_bytes": self.staged_bytes,
            "memory_bytes": self.memory_bytes,
            "workers": self.workers,
            "notes": list(self.notes),
        }

    def to_text(self) -> str:
        """The plan for a person, some lines."""
        (height, width), (patch_height, patch_width) = self.geobox.shape_yx, self.patch_yx
        crs = self.geobox.crs
        missing = f"; {self.patches - self.records:,} weren't exported" if self.patches > self.records else ""
        nodata = (
            "masked inside the file" if self.has_mask else f"nodata {self.nodata}" if self.nodata is not None else ""
        )
        options = dict(self.creation_options)
        shards = f"{self.shards:,} shard{'s' if self.shards > 1 else ''}"
        threads = f"{self.workers} thread{'s' if self.workers > 1 else ''}"
        return "\n".join(
            (
                f"grid      {width} x {height} pixels, {(crs[:60] + '…') if len(crs) > 60 else crs or 'no CRS'}",
                f"patches   {self.patches:,} of {patch_width} x {patch_height}, margin {self.margin_yx[1]} x"
                f" {self.margin_yx[0]} ({self.overlap}), in {shards}{missing}",
                f"bands     {len(self.bands)}: {', '.join(self.bands[:12])}{', …' if len(self.bands) > 12 else ''}",
                f"type      {self.dtype}{', ' if nodata else ''}{nodata}",
                f"output    {self.format}, {options.get('COMPRESS', 'NONE')}, {len(self.levels_yx)} overviews",
                f"disk      at most {human_bytes(self.output_bytes)}"
                + (f", and {human_bytes(self.staged_bytes)} on the way" if self.staged_bytes else ""),
                f"memory    {human_bytes(self.memory_bytes)} with {threads},"
                f" {self.passes} pass{'es' if self.passes > 1 else ''} over the records",
            )
        )

"""What a prediction wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geotfr.pipeline.ingest.result import grid_document, nodata_document
from geotfr.pipeline.sizes import human_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from geotfr.grid import GeoBox

__all__ = ["PredictResult", "Written"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What one destination wrote; see :class:`PredictResult`."""

    bands: tuple[str, ...]
    dtypes: tuple[str, ...]
    size_bytes: int
    raster: Path | None = None
    shards: tuple[Path, ...] = ()
    mixer: Path | None = None
    manifest: Path | None = None
    nodata: float | None = None
    values_clamped: int = 0
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictResult:
    """What a prediction wrote.

    Attributes
    ----------
    raster
        The raster; None where records were written.
    shards, mixer, manifest
        The records, and what tells of them; empty and None where a raster was written. There is no mixer where patches
        were left out.
    geobox
        The grid of the predictions.
    bands
        Band names, in order.
    dtypes
        The type of each band: the raster's, or uint8, int64 or float32 of records.
    nodata
        The raster's nodata value, or None.
    patches
        Patches predicted.
    patches_dropped, patches_lost
        Patches over the masked threshold, and patches whose records were skipped.
    values_clamped
        Scaled values outside the raster's type, moved to its end.
    batches
        Calls of the model.
    size_bytes
        Bytes on disk.
    model_seconds, seconds
        Time in the model, and in all.
    notes, warnings
        Harmless surprises, and what a user should know, one line each.
    """

    raster: Path | None
    shards: tuple[Path, ...]
    mixer: Path | None
    manifest: Path | None
    geobox: GeoBox
    bands: tuple[str, ...]
    dtypes: tuple[str, ...]
    nodata: float | None
    patches: int
    patches_dropped: int
    patches_lost: int
    values_clamped: int
    batches: int
    size_bytes: int
    model_seconds: float
    seconds: float
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON types."""
        return {
            "raster": None if self.raster is None else str(self.raster),
            "shards": [str(path) for path in self.shards],
            "mixer": None if self.mixer is None else str(self.mixer),
            "manifest": None if self.manifest is None else str(self.manifest),
            **grid_document(self.geobox),
            "bands": list(self.bands),
            "dtypes": list(self.dtypes),
            "nodata": nodata_document(self.nodata),
            "patches": self.patches,
            "patches_dropped": self.patches_dropped,
            "patches_lost": self.patches_lost,
            "values_clamped": self.values_clamped,
            "batches": self.batches,
            "bytes": self.size_bytes,
            "model_seconds": round(self.model_seconds, 3),
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }

    def to_text(self) -> str:
        """The summary for a person, some lines."""
        rows, cols = self.geobox.shape_yx
        shards = f"{len(self.shards):,} shard{'s' if len(self.shards) != 1 else ''}"
        what = str(self.raster) if self.raster else f"{shards} and {self.mixer or self.manifest}"
        bands = ", ".join(f"{name} {dtype}" for name, dtype in zip(self.bands[:12], self.dtypes, strict=False))
        return "\n".join(
            (
                f"wrote     {what}, {human_bytes(self.size_bytes)}, in {self.seconds:.1f} s, of which the model took"
                f" {self.model_seconds:.1f} s",
                f"grid      {cols} x {rows} pixels",
                f"bands     {len(self.bands)}: {bands}{', …' if len(self.bands) > 12 else ''}",
                f"patches   {self.patches:,} in {self.batches:,} batches; {self.patches_dropped:,} over the masked"
                f" threshold; {self.patches_lost:,} lost",
            )
        )

"""What an ingest wrote, for people and programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geotfr.pipeline.sizes import human_bytes

if TYPE_CHECKING:
    from geotfr.grid import GeoBox

__all__ = ["IngestResult", "grid_document", "nodata_document"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """What an ingest wrote.

    Attributes
    ----------
    output
        The raster.
    geobox
        Its grid: the mixer's.
    bands
        Band names, in order.
    dtype
        The pixel type.
    nodata
        The nodata value, or None.
    has_mask
        Whether a mask inside the file tells pixels without prediction.
    patches
        Patches in the raster.
    patches_lost
        Patches whose records ``skip`` or ``repair`` left out; their place holds nodata, or 0 without one.
    values_clamped
        Scaled values outside the type's range, moved to its end.
    shards
        The shards, in the order in which they were read.
    size_bytes
        Bytes on disk.
    seconds
        Wall time.
    notes, warnings
        Harmless surprises, and what a user should know, one line each.
    """

    output: Path
    geobox: GeoBox
    bands: tuple[str, ...]
    dtype: str
    nodata: float | None
    patches: int
    patches_lost: int
    values_clamped: int
    shards: tuple[Path, ...]
    size_bytes: int
    seconds: float
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    has_mask: bool = False
    style: Path | None = None
    """QGIS' style of the classes beside the raster, or None."""

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON types."""
        return {
            "output": str(self.output),
            "style": None if self.style is None else str(self.style),
            **grid_document(self.geobox),
            "bands": list(self.bands),
            "dtype": self.dtype,
            "nodata": nodata_document(self.nodata),
            "has_mask": self.has_mask,
            "patches": self.patches,
            "patches_lost": self.patches_lost,
            "values_clamped": self.values_clamped,
            "shards": [str(path) for path in self.shards],
            "bytes": self.size_bytes,
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }

    def to_text(self) -> str:
        """The summary for a person, some lines."""
        rows, cols = self.geobox.shape_yx
        return "\n".join(
            (
                f"wrote     {self.output}, {cols} x {rows} pixels, {self.dtype}, {human_bytes(self.size_bytes)}, in"
                f" {self.seconds:.1f} s",
                f"bands     {len(self.bands)}: {', '.join(self.bands[:12])}{', …' if len(self.bands) > 12 else ''}",
                f"patches   {self.patches:,} of {len(self.shards):,} shard{'s' if len(self.shards) != 1 else ''};"
                f" {self.patches_lost:,} lost",
            )
        )


def grid_document(geobox: GeoBox) -> dict[str, Any]:
    """A grid in JSON types."""
    height, width = geobox.shape_yx
    return {"crs": geobox.crs, "transform": list(geobox.affine), "width": width, "height": height}


def nodata_document(nodata: float | None) -> float | str | None:
    """A nodata value as JSON can hold it: NaN is no JSON."""
    return "nan" if nodata is not None and nodata != nodata else nodata

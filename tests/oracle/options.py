"""The options of one export as the oracle reads them, and the same as keywords of the Python interface."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from rasterio.transform import Affine


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The pixels of an export where they aren't the first source's own."""

    affine: Affine
    width: int
    height: int


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of one export; pairs are (x, y)."""

    patch: tuple[int, int]
    kernel: tuple[int, int] = (1, 1)
    default_value: float = 0
    masked_threshold: float = 1
    max_file_size: int = 1 << 30
    compressed: bool = True
    naming: str = "drive"
    bands: Sequence[int] | None = None
    """Numbers from 1 through the stack, in the order wanted."""
    nodata: float | None = None
    arrays: Mapping[str, Sequence[tuple[Path, int]]] = field(default_factory=dict)
    """Array band -> its elements in order, each a file and the number of a band in it, from 1."""
    depths: Mapping[str, int] = field(default_factory=dict)
    collapse: bool = False
    sequence: bool = False
    native: bool = False
    mask_mode: str = "pixel"
    masks: Sequence[tuple[Path, int]] = ()
    """Rasters, and the number of a band of each, whose zeros mask."""
    unscale: bool = False
    complex_parts: bool = False
    pad: bool = False
    patch_index: str | None = None
    valid_feature: str | None = None
    grid: Grid | None = None
    inside: Callable[[float, float], bool] | None = None
    """Whether a point of the map, the middle of a pixel, is in the region's shape."""

    @property
    def margin(self) -> tuple[int, int]:
        """(x, y) pixels added on each side."""
        return self.kernel[0] // 2, self.kernel[1] // 2

    def keywords(self) -> dict[str, Any]:
        """All but grid and complex parts as ``geotfr.export_image`` takes it, array bands as ``FILE:BAND,…``."""
        return {
            "patch_dimensions": self.patch,
            "kernel_size": self.kernel,
            "default_value": self.default_value,
            "masked_threshold": self.masked_threshold,
            "max_file_size": self.max_file_size,
            "compressed": self.compressed,
            "naming": self.naming,
            "bands": self.bands,
            "nodata": self.nodata,
            "array_bands": {
                name: ",".join(f"{path}:{number}" for path, number in elements)
                for name, elements in self.arrays.items()
            },
            "tensor_depths": dict(self.depths),
            "collapse_bands": self.collapse,
            "sequence_data": self.sequence,
            "feature_kinds": "native" if self.native else "float",
            "mask_mode": self.mask_mode,
            "masks": [f"{path}:{number}" for path, number in self.masks],
            "unscale": self.unscale,
            "edge": "pad" if self.pad else "drop",
            "patch_index": self.patch_index,
            "valid_feature": self.valid_feature,
        }

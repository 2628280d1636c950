"""The grid of an export: the source's own, cut to a region, or one that options ask for, as in ``Export.image``.

A request is checked for Earth Engine's legal combinations when it is made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geotfr.errors import UsageError

if TYPE_CHECKING:
    from geotfr.grid.geobox import Affine6
    from geotfr.grid.region import Region

__all__ = ["GridRequest"]

LEGAL = (
    "legal are: --scale; --dimensions; --crs-transform; --crs-transform with --dimensions and no --region;"
    " each with or without --crs"
)
"""Earth Engine's combinations, as a refusal tells them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRequest:
    """What a user says of the export's grid; all of it may be left open.

    Attributes
    ----------
    region
        What the grid covers; None: all of the source.
    crs
        The grid's CRS, a text that pyproj parses; None: the source's.
    crs_transform
        Pixel (column, row) to CRS coordinates, see :data:`geotfr.grid.Affine6`.
    scale
        Side of a pixel in metres.
    dimensions
        (width, height) in pixels, or the longer side alone.
    clip_region
        Whether pixels outside the region's shape are masked; None: only where neither ``scale`` nor ``dimensions`` is
        given, as Earth Engine does.

    Raises
    ------
    UsageError
        For a combination that has no meaning, a number that isn't positive, or a transform without area.

    Notes
    -----
    **Source**: the argument checks of Earth Engine's Python client.

    Examples
    --------
    >>> GridRequest(scale=30).is_source_grid
    False
    >>> GridRequest().is_source_grid
    True
    """

    region: Region | None = None
    crs: str | None = None
    crs_transform: Affine6 | None = None
    scale: float | None = None
    dimensions: tuple[int, int] | int | None = None
    clip_region: bool | None = None

    def __post_init__(self) -> None:
        pairs = {
            "--crs-transform with --scale": (self.crs_transform, self.scale),
            "--scale with --dimensions": (self.scale, self.dimensions),
        }
        for words, values in pairs.items():
            if None not in values:
                raise UsageError(f"{words}: both set the size of a pixel; {LEGAL}")
        if self.crs_transform is not None and self.dimensions is not None:
            if self.region is not None:
                raise UsageError(f"--crs-transform with --dimensions is the whole rectangle, without --region; {LEGAL}")
            if isinstance(self.dimensions, int):
                raise UsageError("--crs-transform with --dimensions: give both sides, WIDTHxHEIGHT")
        if self.clip_region is not None and self.region is None:
            raise UsageError("--clip-region and --no-clip-region say how --region counts; give --region too")
        if self.scale is not None and not (math.isfinite(self.scale) and self.scale > 0):
            raise UsageError(f"--scale {self.scale}: a positive number of metres is needed")
        sides = () if self.dimensions is None else self.dimensions
        for side in (sides,) if isinstance(sides, int) else sides:
            if side < 1:
                raise UsageError(f"--dimensions {self.dimensions}: a side has at least 1 pixel")
        if self.crs_transform is not None:
            a, b, _, d, e, _ = self.crs_transform
            if not all(map(math.isfinite, self.crs_transform)) or a * e == b * d:
                raise UsageError(f"--crs-transform {list(self.crs_transform)}: it maps pixels to no area")

    @property
    def is_source_grid(self) -> bool:
        """Whether the source's own pixels are exported: nothing but a region is asked for."""
        return (self.crs, self.crs_transform, self.scale, self.dimensions) == (None,) * 4

    @property
    def clips(self) -> bool:
        """Whether the region's shape masks; else it counts by its bounds."""
        if self.region is None:
            return False
        return self.clip_region if self.clip_region is not None else (self.scale, self.dimensions) == (None, None)

"""What a caller may give for a raster or for a written set, as types; what reads them checks them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from numpy.typing import NDArray

__all__ = ["CrsLike", "HasWkt", "LabelledArray", "MemorySource", "PathLike", "RasterLike", "RastersLike", "WrittenSet"]

PathLike: TypeAlias = str | os.PathLike[str]


class HasWkt(Protocol):
    """A CRS of pyproj or rasterio."""

    def to_wkt(self) -> str:
        """The CRS as WKT."""
        ...


class LabelledArray(Protocol):
    """An xarray ``DataArray``, told by these attributes: xarray itself isn't imported."""

    @property
    def dims(self) -> tuple[Any, ...]:
        """The names of the axes."""
        ...

    @property
    def coords(self) -> Any:
        """The coordinates; ``spatial_ref`` holds the CRS."""
        ...

    @property
    def attrs(self) -> dict[Any, Any]:
        """What else is told: nodata, names of bands."""
        ...

    @property
    def dtype(self) -> Any:
        """The type of the values; a ``Dataset`` has none."""
        ...


class WrittenSet(Protocol):
    """The result of an export or of a prediction."""

    @property
    def mixer(self) -> Path | None:
        """The mixer; None where patches were left out."""
        ...

    @property
    def manifest(self) -> Path | None:
        """The manifest; None where a raster was written."""
        ...


CrsLike: TypeAlias = str | int | HasWkt | None
"""Text, the number of an EPSG code, a CRS of pyproj or rasterio, or None for none."""

MemorySource: TypeAlias = (
    tuple[NDArray[Any], Iterable[float], CrsLike]
    | tuple[NDArray[Any], Iterable[float], CrsLike, NDArray[Any] | None]
    | LabelledArray
)
"""``(array, transform, crs)``, with a mask or without one, or a labelled array."""

RasterLike: TypeAlias = PathLike | MemorySource
"""A raster: its path, or its pixels with their place."""

RastersLike: TypeAlias = RasterLike | Sequence[RasterLike]
"""One raster or several, whose bands are stacked."""

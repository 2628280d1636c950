"""The transform in the form that rasterio and rioxarray take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from affine import Affine

if TYPE_CHECKING:
    from geotfr.grid import Affine6

__all__ = ["affine_of"]


def affine_of(affine: Affine6) -> Affine:
    """``affine`` as an ``affine.Affine``.

    >>> affine_of((10.0, 0.0, 500.0, 0.0, -10.0, 800.0)).xoff
    500.0
    """
    return Affine(*affine)

"""Rasters with bands of labels beside theirs; labels never mask a pixel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from geotfr.rasters.bands import SourceBand
from geotfr.rasters.stack import SourceFeature

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geotfr.grid import GeoBox, Window
    from geotfr.rasters.describe import SourceFile
    from geotfr.rasters.source import RasterSource

__all__ = ["LabelBand", "LabelRaster", "LabelledSource"]


class LabelBand(Protocol):
    """A band of labels on the grid of the export.

    Attributes
    ----------
    name
        The feature's name.
    dtype
        The type of its pixels.
    """

    name: str
    dtype: np.dtype[np.generic]

    def read(self, window: Window, out: NDArray[np.generic]) -> None:
        """Fill ``out`` (row, col) with the pixels of ``window``, each of them a label."""
        ...

    def close(self) -> None:
        """Close handles; a later read opens them again."""
        ...


class LabelRaster:
    """The one band of ``raster`` as labels; ``background`` is where it has none: on masked pixels, and beyond it."""

    def __init__(self, name: str, raster: RasterSource, *, background: int) -> None:
        self.name = name
        self.dtype = raster.bands[0].dtype
        self._raster = raster
        self._background = background

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        """Facts of the file."""
        return self._raster.sources

    def read(self, window: Window, out: NDArray[np.generic]) -> None:
        """See :meth:`LabelBand.read`."""
        pixels = np.empty((1, *out.shape), self.dtype)
        valid, own = np.empty(out.shape, np.bool_), np.empty((1, *out.shape), np.bool_)
        self._raster.read(window, list(pixels), valid, list(own))
        valid &= own[0]
        out[...] = np.where(valid, pixels[0], np.array(self._background, self.dtype))

    def close(self) -> None:
        """See :meth:`LabelBand.close`."""
        self._raster.close()


class LabelledSource:
    """The bands of ``rasters``, and ``labels`` behind them; what :class:`RasterSource` has, this has.

    Parameters
    ----------
    rasters
        What the labels are of.
    labels
        Bands on its grid.
    fills
        What masked pixels hold in each; None: the export's default value.
    source
        Name of the labels' file.
    warnings
        What a user should know of them.
    """

    def __init__(
        self,
        rasters: RasterSource,
        labels: Sequence[LabelBand],
        *,
        fills: Sequence[float | None],
        source: str,
        warnings: tuple[str, ...],
    ) -> None:
        self._rasters = rasters
        self._labels = tuple(labels)
        count = len(rasters.bands)
        self.geobox: GeoBox = rasters.geobox
        self.bands = rasters.bands + tuple(_band(label, source) for label in labels)
        self.features = rasters.features + tuple(
            SourceFeature(
                name=label.name,
                planes=range(count + number, count + number + 1),
                is_array=False,
                is_label=True,
                fill=fill,
            )
            for number, (label, fill) in enumerate(zip(labels, fills, strict=True))
        )
        self.warnings = rasters.warnings + warnings

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        """See :class:`RasterSource`; a raster of labels is the last."""
        return self._rasters.sources + tuple(
            file for label in self._labels if isinstance(label, LabelRaster) for file in label.sources
        )

    @property
    def block_shape_yx(self) -> tuple[int, int]:
        """That of the rasters: labels have no storage blocks of their own to go by."""
        return self._rasters.block_shape_yx

    @property
    def block_bytes(self) -> int:
        """See :class:`RasterSource`."""
        return self._rasters.block_bytes

    @property
    def scratch_pixel_bytes(self) -> int:
        """See :class:`RasterSource`; a label is made aside, with what is valid of it."""
        return self._rasters.scratch_pixel_bytes + max(label.dtype.itemsize for label in self._labels) + 2

    @property
    def has_mask(self) -> bool:
        """Whether a pixel of the rasters could be masked."""
        return self._rasters.has_mask

    def read(
        self,
        window: Window,
        out: Sequence[NDArray[np.generic]],
        valid: NDArray[np.bool_],
        band_valid: Sequence[NDArray[np.bool_]] | None = None,
    ) -> None:
        """See :meth:`RasterSource.read`; a label is masked where no band of the rasters has a value."""
        count = len(self._rasters.bands)
        self._rasters.read(window, out[:count], valid, None if band_valid is None else band_valid[:count])
        for number, label in enumerate(self._labels, start=count):
            label.read(window, out[number])
            if band_valid is not None:
                np.logical_or.reduce(band_valid[:count], out=band_valid[number])

    def close(self) -> None:
        """Close all handles; a later read opens them again."""
        self._rasters.close()
        for label in self._labels:
            label.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _band(label: LabelBand, source: str) -> SourceBand:
    return SourceBand(
        name=label.name,
        dtype=label.dtype,
        nodata=(),
        scale=1.0,
        offset=0.0,
        description="",
        source=source,
        source_number=-1,
        index=1,
        is_alpha=False,
    )

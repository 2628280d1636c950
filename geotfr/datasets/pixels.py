"""The flat view of a data set: one pixel a row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.datasets.features import ArraySpec
from geotfr.datasets.items import Items
from geotfr.datasets.patch_dataset import IMAGE
from geotfr.datasets.places import PLACE_SPECS
from geotfr.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geotfr.datasets.items import Arrays
    from geotfr.datasets.patch_dataset import PatchDataset

__all__ = ["PixelView"]


class PixelView(Items):
    """The pixels of a data set's patches, patch by patch and row-major in a patch: those of the raster alone, without
    margins and without what a padded edge adds.

    ``view[i]`` is one pixel, ``{band: ()}``; ``view[[i, …]]`` and ``view[a:b]`` are several, ``{band: (n,)}``. A
    tensor and a stacked ``image`` have one more axis, (channel,). Reading a pixel reads its patch: ask for many at
    once, near each other.

    Raises
    ------
    UsageError
        A feature that has no pixels.

    Attributes
    ----------
    spec
        Key -> :class:`geotfr.datasets.features.ArraySpec` of one pixel.
    """

    def __init__(self, dataset: PatchDataset) -> None:
        self._dataset = dataset
        self._margins = {}
        sizes = set()
        for shape in dataset.features.values():
            if len(shape.shape) < 2:
                raise UsageError(f"pixels: feature {shape.name!r} has no pixels; leave it out with features=")
            self._margins[shape.name] = margin_y, margin_x = shape.margin_yx or (0, 0)
            sizes.add((shape.shape[-2] - 2 * margin_y, shape.shape[-1] - 2 * margin_x))
        if len(sizes) > 1:
            raise UsageError("pixels: the features have patches of several sizes; name some of one size")
        self._margins[IMAGE] = self._margins.get(IMAGE, dataset.margin_yx)
        self.patch_yx = sizes.pop()
        height, width = self.patch_yx
        inside = dataset.inside_yx
        if inside is None or dataset.patch_yx != self.patch_yx:
            inside = np.tile(np.array([height, width], np.int64), (len(dataset), 1))
        self._widths = inside[:, 1]
        self._starts = np.concatenate([[0], np.cumsum(inside.prod(axis=1))])
        self.spec = {
            key: ArraySpec(dtype=each.dtype, shape=each.shape[:-2])
            for key, each in dataset.spec.items()
            if key not in PLACE_SPECS or key in dataset.features
        }

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __iter__(self) -> Iterator[Arrays]:
        for start, stop in pairwise(self._starts.tolist()):
            pixels = self._read(np.arange(start, stop))
            for place in range(stop - start):
                yield {key: values[place] for key, values in pixels.items()}

    def _read(self, indices: NDArray[np.int64]) -> Arrays:
        patches = np.searchsorted(self._starts, indices, side="right") - 1
        rows, columns = np.divmod(indices - self._starts[patches], self._widths[patches])
        wanted, place = np.unique(patches, return_inverse=True)
        height, width = self.patch_yx
        rows = (place * height + rows) * width + columns
        return {key: values[rows] for key, values in self._flat(wanted).items()}

    def _flat(self, patches: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """All pixels of ``patches``, ``(pixels, …)``."""
        batch = self._dataset[patches]
        made = {}
        height, width = self.patch_yx
        for key, each in self.spec.items():
            margin_y, margin_x = self._margins[key]
            values = batch[key][..., margin_y : margin_y + height, margin_x : margin_x + width]
            flat = values.reshape(*values.shape[:-2], -1)
            # The channels of a pixel stand together.
            made[key] = np.moveaxis(flat, -1, 1).reshape(-1, *each.shape)
        return made

"""The flat view of a data set: one pixel a row."""

from __future__ import annotations

from collections.abc import Iterator
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
    """The pixels of a data set's patches, patch by patch and row-major in a patch, without margins.

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
        self.spec = {
            key: ArraySpec(dtype=each.dtype, shape=each.shape[:-2])
            for key, each in dataset.spec.items()
            if key not in PLACE_SPECS or key in dataset.features
        }

    def __len__(self) -> int:
        return len(self._dataset) * self._per_patch

    @property
    def _per_patch(self) -> int:
        return self.patch_yx[0] * self.patch_yx[1]

    def __iter__(self) -> Iterator[Arrays]:
        for index in range(len(self._dataset)):
            pixels = self._flat(np.array([index]))
            for place in range(self._per_patch):
                yield {key: values[place] for key, values in pixels.items()}

    def _read(self, indices: NDArray[np.int64]) -> Arrays:
        patches, pixels = np.divmod(indices, self._per_patch)
        wanted, place = np.unique(patches, return_inverse=True)
        rows = place * self._per_patch + pixels
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

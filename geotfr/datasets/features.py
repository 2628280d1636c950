"""The arrays that the features of a set become."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import RecordError, UsageError
from geotfr.options import nearest
from geotfr.patches.readings import UnreadableLengthError, reading_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from geotfr.datasets.patch_set import PatchSet
    from geotfr.records.batches import FeatureBatch
    from geotfr.records.columns import FeatureValues

__all__ = ["ArraySpec", "FeatureShape", "feature_shapes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySpec:
    """What an array of one item is: its ``dtype`` and ``shape``.

    >>> ArraySpec(dtype=np.dtype("float32"), shape=(256, 256)).shape
    (256, 256)
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureShape:
    """How one feature of every record becomes an array.

    Attributes
    ----------
    name
        Its key.
    dtype
        float32, int64 or uint8: what its kind of list is decoded to.
    shape
        (row, col), (channel, row, col) for tensors, () for single values, (length,) where no grid is known.
    margin_yx
        (rows, columns) around the patch on each side; None where the feature is no patch.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    margin_yx: tuple[int, int] | None

    @property
    def length(self) -> int:
        """Values in a record."""
        return math.prod(self.shape)

    @property
    def channels(self) -> int:
        """Bands in the feature."""
        return self.shape[0] if len(self.shape) == 3 else 1

    def checked(self, batch: FeatureBatch) -> NDArray[Any]:
        """The feature's values in all records of ``batch``, ``(n, length)``: a view.

        Raises
        ------
        RecordError
            The records don't have it, or as another kind or in another number.
        """
        if self.name not in batch.features:
            raise RecordError(
                f"{_where(batch)}: no feature {self.name!r}, which the first record has; leave it out with features="
            )
        values = batch.features[self.name]
        if isinstance(values, np.ndarray) and values.dtype == self.dtype and values.shape[1] == self.length:
            return values
        raise RecordError(
            f"{_where(batch)}: feature {self.name!r} is {_told(values)}; the first record's is {self.length} of"
            f" {self.dtype.name}; leave it out with features=, or read such records with read_features"
        )


def feature_shapes(
    first: FeatureBatch,
    found: PatchSet,
    *,
    names: Sequence[str] | None,
    patch_yx: tuple[int, int] | None,
    kernel_yx: tuple[int, int] | None,
    shapes: Mapping[str, Sequence[int]],
) -> dict[str, FeatureShape]:
    """The arrays that ``names`` (all if None) become, judged by the ``first`` record, by name.

    Raises
    ------
    UsageError
        A feature that isn't there, or a shape that doesn't fit.
    RecordError
        A feature that is no list of numbers or raw bytes, or whose length fits the grid in no way or in two.
    """
    known = tuple(first.features)
    depths: dict[str, int | None] = {}
    if found.manifest is not None:
        depths = {band.name: band.depth for band in found.manifest.bands}
        known = (*(name for name in depths if name in known), *(name for name in known if name not in depths))
    for name in (*(names or ()), *shapes):
        if name not in known:
            raise UsageError(
                f"{first.path}: no feature {name!r}; there are {', '.join(known) or 'none'}{nearest(name, known)}"
            )
    if names is not None and len(set(names)) < len(names):
        raise UsageError(f"features: {', '.join(names)}: a name is given twice; name each once")
    made = {}
    lists = _lists_of_objects(found, known)
    for name in [name for name in known if name not in lists] if names is None else names:
        values = first.features[name]
        if not isinstance(values, np.ndarray):
            raise RecordError(
                f"{_where(first)}: feature {name!r} is {_told(values)}, no array; leave it out with features="
            )
        shape, margin_yx = _shape(first, name, values.shape[1], patch_yx, kernel_yx, depths.get(name), shapes)
        dtype = np.dtype(values.dtype.type)
        made[name] = FeatureShape(name=name, dtype=dtype, shape=shape, margin_yx=margin_yx)
    if not made:
        raise UsageError("features: no names; leave it out for all features")
    return made


def _lists_of_objects(found: PatchSet, known: Sequence[str]) -> Sequence[str]:
    """Features that tell of shapes and are no arrays: they have another length in each record."""
    if found.manifest is not None:
        return found.manifest.object_features
    # A patch table or a mixer doesn't list them; nobody else has outlines or instances by these names.
    lists = [name for name in known if name.startswith("image/object/")]
    return [*lists, "image/height", "image/width"] if "image/object/instance" in lists else lists


def _shape(
    first: FeatureBatch,
    name: str,
    length: int,
    patch_yx: tuple[int, int] | None,
    kernel_yx: tuple[int, int] | None,
    depth: int | None,
    shapes: Mapping[str, Sequence[int]],
) -> tuple[tuple[int, ...], tuple[int, int] | None]:
    """The shape of a feature of ``length`` values, and its margin."""
    if name in shapes:
        shape = tuple(int(side) for side in shapes[name])
        if math.prod(shape) != length:
            raise UsageError(f"shapes: {name!r} as {shape}; the feature has {length} values")
        return shape, None
    if patch_yx is None:
        return (length,), None
    try:
        # Earth Engine's tensors are channels first.
        reading = reading_of(length, patch_yx, kernel_yx, depth=depth, channels="first")
    except UnreadableLengthError as error:
        if length == 1:
            return (), None
        raise RecordError(
            f"{_where(first)}: feature {name!r}: {error}; give kernel_size=, shapes={{{name!r}: …}}, or leave it out"
            " with features="
        ) from error
    is_tensor = reading.channels > 1 or depth is not None
    return ((reading.channels, *reading.block_yx) if is_tensor else reading.block_yx), reading.margin_yx


def _where(batch: FeatureBatch) -> str:
    return f"{batch.path}: record {int(batch.records[0])} at byte {int(batch.offsets[0])}"


def _told(values: FeatureValues) -> str:
    if values is None:
        return "an empty feature"
    if isinstance(values, list):
        return f"{len(values[0])} bytes values"
    return f"{values.shape[1]} of {values.dtype.name}"

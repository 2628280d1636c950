"""The data set behind what a user gives: one, the result of an export, or files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from geotfr.datasets.patch_dataset import PatchDataset
from geotfr.options.sources import PathLike, WrittenSet

__all__ = ["DatasetLike", "dataset_of"]

DatasetLike: TypeAlias = PatchDataset | PathLike | Sequence[PathLike] | WrittenSet


def dataset_of(source: Any) -> PatchDataset:
    """``source`` itself, or the :class:`PatchDataset` of it.

    A result of an export or of a prediction tells its mixer, or its manifest where patches were left out.
    """
    if isinstance(source, PatchDataset):
        return source
    # The results live in a room above this one.
    if hasattr(source, "mixer") and hasattr(source, "manifest"):
        source = source.mixer or source.manifest
    return PatchDataset(cast("PathLike | Sequence[PathLike]", source))

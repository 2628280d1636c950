"""The data set behind what a user gives: one, the result of an export, or files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, cast

from geotfr.datasets.patch_dataset import PatchDataset

__all__ = ["dataset_of"]


def dataset_of(source: Any) -> PatchDataset:
    """``source`` itself, or the :class:`PatchDataset` of it.

    A result of an export or of a prediction tells its mixer, or its manifest where patches were left out.
    """
    if isinstance(source, PatchDataset):
        return source
    # The results live in a room above this one.
    if hasattr(source, "mixer") and hasattr(source, "manifest"):
        source = source.mixer or source.manifest
    return PatchDataset(cast("str | os.PathLike[str] | Sequence[str]", source))

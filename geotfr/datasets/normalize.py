"""Bands brought to mean 0 and standard deviation 1, by statistics made before."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import DamagedError, UsageError
from geotfr.mixer.strict_json import read_json
from geotfr.options import nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geotfr.datasets.features import FeatureShape
    from geotfr.mixer.manifest import LabelChannel

    PathLike = str | os.PathLike[str]
    Statistics = Mapping[str, Mapping[str, Mapping[str, Any]]]

__all__ = ["Normalization", "normalizations"]


class Normalization:
    """``(values - mean) / std``, in float32; a band that is the same everywhere becomes 0."""

    __slots__ = ("mean", "std")

    def __init__(self, mean: NDArray[np.float32], std: NDArray[np.float32]) -> None:
        self.mean = mean
        self.std = np.where(std == 0, np.float32(1), std)

    def apply(self, values: NDArray[np.float32]) -> None:
        """Normalise ``values``, (…, row, col) or of any other shape, in place."""
        values -= self.mean
        values /= self.std


def normalizations(
    statistics: PathLike | Statistics, shapes: Mapping[str, FeatureShape], labels: Sequence[LabelChannel] = ()
) -> dict[str, Normalization]:
    """What ``{"bands": {name: {"mean": …, "std": …}}}``, in a JSON file or as it is, says for the features ``shapes``.

    Features that it doesn't name stay as they are, and so do ``labels``, named or not. A tensor takes a number, or a
    list of one number a channel; the numbers of its channels that aren't labels will do.

    Raises
    ------
    UsageError
        It names none of the features, or a list doesn't fit.
    DamagedError
        It isn't of this form.
    """
    name = os.fspath(statistics) if isinstance(statistics, str | os.PathLike) else "normalize"
    found: Any = read_json(name, what="statistics") if isinstance(statistics, str | os.PathLike) else dict(statistics)
    bands = found.get("bands")
    if not isinstance(bands, Mapping):
        raise DamagedError(f'{name}: no statistics; wanted is {{"bands": {{NAME: {{"mean": …, "std": …}}}}}}')
    made = {}
    for key, shape in shapes.items():
        own = [label.channel for label in labels if label.feature == key]
        if key in bands and len(own) < shape.channels:
            mean, std = (_numbers(name, key, bands[key], which, shape, own) for which in ("mean", "std"))
            made[key] = Normalization(mean, std)
    if not made and not any(label.feature in bands for label in labels):
        first = next(iter(shapes))
        raise UsageError(
            f"{name}: statistics of {', '.join(map(str, bands)) or 'no bands'}; the features are"
            f" {', '.join(shapes)}{nearest(first, map(str, bands))}"
        )
    return made


def _numbers(
    name: str, band: str, entry: Any, which: str, shape: FeatureShape, labels: Sequence[int]
) -> NDArray[np.float32]:
    value = entry.get(which) if isinstance(entry, Mapping) else None
    each: list[Any] = list(value) if isinstance(value, list | tuple) else [value]
    is_good = all(isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in each)
    if not is_good or (which == "std" and any(v < 0 for v in each)):
        raise DamagedError(f"{name}: band {band!r}: {which} is {value!r}; a finite number is wanted, std at least 0")
    if len(each) not in (1, shape.channels, shape.channels - len(labels)):
        raise UsageError(f"{name}: band {band!r}: {len(each)} values of {which}; the feature has {shape.channels}")
    numbers = np.array(each, np.float32)
    if labels:
        kept = np.full(shape.channels, 0 if which == "mean" else 1, np.float32)
        others = np.setdiff1d(np.arange(shape.channels), labels)
        kept[others] = numbers[others] if len(numbers) == shape.channels else numbers
        return kept.reshape(-1, 1, 1) if shape.channels > 1 else kept[0]
    return numbers.reshape(-1, 1, 1) if len(each) > 1 else numbers[0]

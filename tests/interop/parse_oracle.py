"""What the differential tests share: one description of a spec for both sides, and how results are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from geotfr.records.parse import specs as geotfr_specs
from geotfr.records.parse.values import RaggedValue, SparseValue

LISTS = ("bytes_list", "float_list", "int64_list")
DTYPE = {"float": "float32", "int64": "int64", "bytes": "bytes"}


@dataclass(frozen=True)
class Spec:
    """A spec by name and arguments; ``dtype`` and partitions are made for each side."""

    name: str
    kind: str
    arguments: dict[str, Any] = field(default_factory=dict)
    partitions: tuple[tuple[str, Any], ...] = ()

    def build(self, module: Any, dtype: Any, splits: Any = None) -> Any:
        arguments = dict(self.arguments, dtype=dtype)
        make = getattr(module, self.name)
        if self.name == "RaggedFeature":
            arguments["partitions"] = [getattr(make, name)(argument) for name, argument in self.partitions]
            arguments["row_splits_dtype"] = splits
        return make(**arguments)


def for_geotfr(specs: Mapping[str, Spec]) -> dict[str, Any]:
    return {key: spec.build(geotfr_specs, DTYPE[spec.kind], "int64") for key, spec in specs.items()}


def for_tensorflow(tf: Any, specs: Mapping[str, Spec]) -> dict[str, Any]:
    dtypes = {"float": tf.float32, "int64": tf.int64, "bytes": tf.string}
    return {key: spec.build(tf.io, dtypes[spec.kind], tf.int64) for key, spec in specs.items()}


def plain(value: Any) -> Any:
    """Either side's result as nested lists and names of dtypes; floats as their bits, so NaN equals NaN."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, SparseValue):
        return ("sparse", plain(value.indices), plain(value.values), list(value.dense_shape))
    if isinstance(value, RaggedValue):
        return ("ragged", plain(value.flat_values), [plain(splits) for splits in value.nested_row_splits])
    if isinstance(value, np.ndarray):
        bits = value.view(np.uint32) if value.dtype == np.float32 else value
        return (value.dtype.name, value.shape, bits.tolist())
    if hasattr(value, "dense_shape"):
        return ("sparse", plain(value.indices), plain(value.values), value.dense_shape.numpy().tolist())
    if hasattr(value, "nested_row_splits"):
        return ("ragged", plain(value.flat_values), [plain(splits) for splits in value.nested_row_splits])
    # A scalar string tensor comes out as bytes.
    array = value.numpy()
    if not isinstance(array, np.ndarray):
        made = np.empty((), object if isinstance(array, bytes) else array.dtype)
        made[()] = array
        array = made
    return plain(array)


def rewrite_features(features: Any, made: Mapping[str, Spec]) -> bool:
    """Write what geotfr reads on purpose so that TensorFlow reads it too; whether anything changed.

    Fixed-length features without values go; missing row splits become [0].
    """
    changed = False
    for key, spec in made.items():
        if key in features and takes_default(spec, features[key]):
            del features[key]
            changed = True
        for name, argument in spec.partitions:
            if name == "RowSplits" and lacks_integers(features, argument):
                features[argument].int64_list.value.append(0)
                changed = True
    return changed


def takes_default(spec: Spec, feature: Any) -> bool:
    is_fixed = spec.name == "FixedLenFeature" and 0 not in spec.arguments["shape"]
    return is_fixed and not any(getattr(feature, name).value for name in LISTS)


def lacks_integers(features: Any, key: str) -> bool:
    """Whether nothing stands under ``key``, not even a list of another kind."""
    if key not in features:
        return True
    return features[key].WhichOneof("kind") in (None, "int64_list") and not features[key].int64_list.value

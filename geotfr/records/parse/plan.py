"""Which columns a set of specs needs, and whether the specs agree about them.

**Source**: TensorFlow reads a key as dense, as sparse or as ragged, once. So one key can't be two of these,
nor have two types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from geotfr.errors import UsageError
from geotfr.records.kind import Kind
from geotfr.records.parse.specs import (
    Feature,
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["kinds_by_key"]

_ALLOWED: dict[str, tuple[type, ...]] = {
    "features": (FixedLenFeature, VarLenFeature, SparseFeature, FixedLenSequenceFeature, RaggedFeature),
    "context": (FixedLenFeature, VarLenFeature, RaggedFeature),
    "feature_lists": (FixedLenSequenceFeature, VarLenFeature, RaggedFeature),
}


def kinds_by_key(features: Mapping[str, Feature], section: str) -> dict[str, Kind]:
    """The kind to read under each key that the specs name.

    Raises
    ------
    UsageError
        A spec that ``section`` (``features``, ``context``, ``feature_lists``) doesn't take, or two that
        contradict each other about one key.

    >>> spec = SparseFeature("ix", "val", "float32", 100)
    >>> kinds_by_key({"sparse": spec}, "features")
    {'ix': <Kind.INT64: 'int64'>, 'val': <Kind.FLOAT: 'float'>}
    """
    if not isinstance(features, Mapping):
        raise UsageError(f"features are a mapping from key to spec, found {type(features).__name__}")
    uses: dict[str, tuple[str, Kind, str]] = {}
    for name, spec in features.items():
        _check(name, spec, section)
        for key, use, kind, splits in _uses(name, spec):
            _check_text(key)
            asked = (use, kind, splits)
            known = uses.setdefault(key, asked)
            if known != asked:
                raise UsageError(
                    f"key {key!r} is asked for as {' '.join(known).strip()} and as {' '.join(asked).strip()}; "
                    "use one of them in each call"
                )
    return {key: kind for key, (_, kind, _) in uses.items()}


def _check_text(key: str) -> None:
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"key {key!r} can't be written as UTF-8, so no record has it; use another text") from error


def _check(name: object, spec: object, section: str) -> None:
    if not isinstance(name, str):
        raise UsageError(f"the key {name!r} is no text; use the feature's name")
    if not isinstance(spec, _ALLOWED[section]):
        allowed = ", ".join(each.__name__ for each in _ALLOWED[section])
        raise UsageError(f"key {name!r} has {spec!r}; {section.replace('_', ' ')} take {allowed}")
    if isinstance(spec, FixedLenSequenceFeature) and section == "features" and not spec.allow_missing:
        raise UsageError(
            f"key {name!r}: a FixedLenSequenceFeature of an Example is always allowed to be missing; "
            "pass allow_missing=True"
        )
    if isinstance(spec, FixedLenSequenceFeature) and section == "feature_lists" and spec.default_value is not None:
        raise UsageError(f"key {name!r}: feature lists are padded with 0 or empty bytes; drop default_value")


def _uses(name: str, spec: Feature) -> Iterator[tuple[str, str, Kind, str]]:
    """(key, dense or sparse or ragged, kind, type of the row splits) of each feature that a spec reads."""
    if isinstance(spec, FixedLenFeature | FixedLenSequenceFeature):
        yield name, "dense", spec.kind, ""
    elif isinstance(spec, VarLenFeature):
        yield name, "sparse", spec.kind, ""
    elif isinstance(spec, SparseFeature):
        for key in spec.index_keys:
            yield key, "sparse", Kind.INT64, ""
        yield spec.value_key, "sparse", spec.kind, ""
    else:
        splits = str(spec.row_splits_dtype)
        yield name if spec.value_key is None else spec.value_key, "ragged", spec.kind, splits
        for partition in spec.partitions:
            if not isinstance(partition, RaggedFeature.UniformRowLength):
                yield partition.key, "ragged", Kind.INT64, splits

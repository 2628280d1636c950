"""``parse_example`` and ``parse_single_example``: serialized Examples to arrays.

**Source**: ``tf.io.parse_example`` and ``tf.io.parse_single_example`` of TensorFlow 2.21. Where geotfr
differs on purpose, ``tests/interop/test_parse_example.py`` lists it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from geotfr.errors import UsageError
from geotfr.flags import checks_flags
from geotfr.records.parse.batch import Batch
from geotfr.records.parse.dense import fixed, padded_blocks
from geotfr.records.parse.plan import kinds_by_key
from geotfr.records.parse.ragged import ragged
from geotfr.records.parse.read import read_columns
from geotfr.records.parse.sparse import indexed, variable
from geotfr.records.parse.specs import FixedLenFeature, FixedLenSequenceFeature, SparseFeature, VarLenFeature
from geotfr.records.parse.values import RaggedValue, SparseValue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from geotfr.records.parse.batch import RecordBytes
    from geotfr.records.parse.columns import Column
    from geotfr.records.parse.specs import Feature

    Parsed: TypeAlias = "NDArray[Any] | SparseValue | RaggedValue"

__all__ = ["Parsed", "parse_example", "parse_single_example", "without_batch"]


@checks_flags
def parse_example(
    serialized: Sequence[RecordBytes],
    features: Mapping[str, Feature],
    example_names: Sequence[str | bytes] | None = None,
    *,
    cast: bool = False,
) -> dict[str, Parsed]:
    """The features of a batch of serialized Examples, by key.

    Parameters
    ----------
    serialized
        One serialized ``tf.train.Example`` each.
    features
        Key to spec: :class:`FixedLenFeature`, :class:`VarLenFeature`, :class:`SparseFeature`,
        :class:`FixedLenSequenceFeature`, :class:`RaggedFeature`.
    example_names
        What errors call the records; by default their number in the batch, from 0.
    cast
        Read int64 lists as float32 and whole floats as int64 where a spec asks for the other.

    Returns
    -------
    dict
        In the order of ``features``; records come first in every shape. ``FixedLenFeature`` gives an array
        ``(batch, *shape)``, ``FixedLenSequenceFeature`` one ``(batch, longest, *shape)``, ``VarLenFeature``
        and ``SparseFeature`` a :class:`SparseValue`, ``RaggedFeature`` a :class:`RaggedValue`. Arrays are
        float32, int64, or object with bytes in them.

    Raises
    ------
    UsageError
        Specs that contradict each other.
    RecordError
        A record that lacks a feature, has another kind or another number of values, or is no Example.

    Examples
    --------
    >>> from geotfr.records.parse.specs import FixedLenFeature
    >>> record = bytes.fromhex("0a 12 0a 10 0a 04 6e 64 76 69 12 08 12 06 0a 04 00 00 00 3f")
    >>> parse_example([record, record], {"ndvi": FixedLenFeature([1], "float32")})["ndvi"].tolist()
    [[0.5], [0.5]]
    """
    if not features:
        raise UsageError("features is empty; name at least one key and its spec")
    kinds = kinds_by_key(features, "features")
    batch = Batch(serialized, example_names, is_sequence=False)
    read = read_columns(batch, {("features", key): kind for key, kind in kinds.items()}, cast=cast)
    columns = {key: column for (_, key), column in read.items()}
    return {key: parsed(batch, "features", key, columns, spec) for key, spec in features.items()}


@checks_flags
def parse_single_example(
    serialized: RecordBytes,
    features: Mapping[str, Feature],
    example_names: str | bytes | None = None,
    *,
    cast: bool = False,
) -> dict[str, Parsed]:
    """The features of one serialized Example, by key: as :func:`parse_example`, without the batch's axis.

    ``example_names`` is what errors call the record. A ``RaggedFeature`` without partitions gives a flat array.

    Examples
    --------
    >>> from geotfr.records.parse.specs import FixedLenFeature
    >>> record = bytes.fromhex("0a 12 0a 10 0a 04 6e 64 76 69 12 08 12 06 0a 04 00 00 00 3f")
    >>> parse_single_example(record, {"ndvi": FixedLenFeature([1], "float32")})["ndvi"].tolist()
    [0.5]
    """
    names = None if example_names is None else [example_names]
    found = parse_example([serialized], features, names, cast=cast)
    return {key: without_batch(value) for key, value in found.items()}


def parsed(batch: Batch, section: str, key: str, columns: Mapping[str, Column], spec: Feature) -> Parsed:
    """What one spec makes of the columns, for features outside feature lists."""
    if isinstance(spec, FixedLenFeature):
        return fixed(batch, section, key, columns[key], spec)
    if isinstance(spec, VarLenFeature):
        return variable(columns[key])
    if isinstance(spec, SparseFeature):
        return indexed(batch, key, columns, spec)
    if isinstance(spec, FixedLenSequenceFeature):
        return padded_blocks(batch, key, columns[key], spec)
    return ragged(batch, key, columns, spec)


def without_batch(value: Parsed) -> Parsed:
    """The value of a batch of one record, without the batch's axis."""
    if isinstance(value, SparseValue):
        return SparseValue(value.indices[:, 1:], value.values, value.dense_shape[1:])
    if isinstance(value, RaggedValue):
        return value.values
    return np.reshape(value, value.shape[1:])

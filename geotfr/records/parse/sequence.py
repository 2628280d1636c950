"""``parse_sequence_example``: serialized SequenceExamples to arrays.

**Source**: ``tf.io.parse_sequence_example`` and ``tf.io.parse_single_sequence_example`` of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from geotfr.errors import UsageError
from geotfr.flags import checks_flags
from geotfr.records.parse.batch import Batch
from geotfr.records.parse.dense import padded_steps
from geotfr.records.parse.example import parsed, without_batch
from geotfr.records.parse.plan import kinds_by_key
from geotfr.records.parse.ragged import ragged_steps
from geotfr.records.parse.read import read_columns
from geotfr.records.parse.sparse import variable_steps
from geotfr.records.parse.specs import FixedLenSequenceFeature, RaggedFeature

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from geotfr.records.parse.batch import RecordBytes
    from geotfr.records.parse.example import Parsed
    from geotfr.records.parse.specs import Feature

__all__ = ["parse_sequence_example", "parse_single_sequence_example"]


@checks_flags
def parse_sequence_example(
    serialized: Sequence[RecordBytes],
    context_features: Mapping[str, Feature] | None = None,
    sequence_features: Mapping[str, Feature] | None = None,
    example_names: Sequence[str | bytes] | None = None,
    *,
    cast: bool = False,
) -> tuple[dict[str, Parsed], dict[str, Parsed], dict[str, NDArray[np.int64]]]:
    """The context, the feature lists and the lists' lengths of a batch of serialized SequenceExamples.

    Parameters
    ----------
    serialized
        One serialized ``tf.train.SequenceExample`` each.
    context_features
        Key to spec: ``FixedLenFeature``, ``VarLenFeature``, ``RaggedFeature``.
    sequence_features
        Key to spec: ``FixedLenSequenceFeature``, ``VarLenFeature``, ``RaggedFeature``.
    example_names, cast
        As in :func:`~geotfr.records.parse.example.parse_example`.

    Returns
    -------
    context : dict
        As of :func:`~geotfr.records.parse.example.parse_example`.
    lists : dict
        ``FixedLenSequenceFeature``: an array ``(batch, most steps, *shape)``, padded with 0 or empty bytes.
        ``VarLenFeature``: a :class:`SparseValue` with indices [record, step, position]. ``RaggedFeature``: a
        :class:`RaggedValue` of records, steps, and the spec's partitions.
    lengths : dict
        For each ``FixedLenSequenceFeature`` the steps per record, ``(batch) int64``.

    Raises
    ------
    UsageError
        No spec at all, or specs that contradict each other.
    RecordError
        A record that lacks a feature, has another kind or another number of values, or is no SequenceExample.

    Examples
    --------
    >>> from geotfr.records.parse.specs import FixedLenSequenceFeature
    >>> record = bytes.fromhex("12 14 0a 12 0a 04 6e 64 76 69 12 0a 0a 08 12 06 0a 04 00 00 00 3f")
    >>> _, lists, lengths = parse_sequence_example(
    ...     [record], sequence_features={"ndvi": FixedLenSequenceFeature([], "float32")}
    ... )
    >>> lists["ndvi"].tolist(), lengths["ndvi"].tolist()
    ([[0.5]], [1])
    """
    context, lists = context_features or {}, sequence_features or {}
    if not (context or lists):
        raise UsageError("context_features and sequence_features are empty; name at least one key and its spec")
    wanted = {("context", key): kind for key, kind in kinds_by_key(context, "context").items()}
    wanted |= {("feature_lists", key): kind for key, kind in kinds_by_key(lists, "feature_lists").items()}
    batch = Batch(serialized, example_names, is_sequence=True)
    read = read_columns(batch, wanted, cast=cast)
    in_context = {key: column for (section, key), column in read.items() if section == "context"}
    in_lists = {key: column for (section, key), column in read.items() if section == "feature_lists"}
    found: dict[str, Parsed] = {}
    lengths: dict[str, NDArray[np.int64]] = {}
    for key, spec in lists.items():
        if isinstance(spec, FixedLenSequenceFeature):
            found[key], lengths[key] = padded_steps(batch, key, in_lists[key], spec)
        elif isinstance(spec, RaggedFeature):
            found[key] = ragged_steps(batch, key, in_lists, spec)
        else:
            found[key] = variable_steps(in_lists[key])
    return (
        {key: parsed(batch, "context", key, in_context, spec) for key, spec in context.items()},
        found,
        lengths,
    )


@checks_flags
def parse_single_sequence_example(
    serialized: RecordBytes,
    context_features: Mapping[str, Feature] | None = None,
    sequence_features: Mapping[str, Feature] | None = None,
    example_name: str | bytes | None = None,
    *,
    cast: bool = False,
) -> tuple[dict[str, Parsed], dict[str, Parsed]]:
    """The context and the feature lists of one serialized SequenceExample, without the batch's axis.

    Examples
    --------
    >>> from geotfr.records.parse.specs import VarLenFeature
    >>> record = bytes.fromhex("12 14 0a 12 0a 04 6e 64 76 69 12 0a 0a 08 12 06 0a 04 00 00 00 3f")
    >>> _, lists = parse_single_sequence_example(record, None, {"ndvi": VarLenFeature("float32")})
    >>> lists["ndvi"].indices
    array([[0, 0]])
    """
    names = None if example_name is None else [example_name]
    context, lists, _ = parse_sequence_example([serialized], context_features, sequence_features, names, cast=cast)
    return (
        {key: without_batch(value) for key, value in context.items()},
        {key: without_batch(value) for key, value in lists.items()},
    )

"""Specs made for the user: from the records themselves, or from what an export is known to hold."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import RecordError, UsageError
from geotfr.records.kind import Kind
from geotfr.records.parse.batch import Batch
from geotfr.records.parse.specs import FixedLenFeature, FixedLenSequenceFeature, VarLenFeature, dtype_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from geotfr.records.parse.batch import RecordBytes
    from geotfr.records.parse.specs import Feature, FeatureDType

__all__ = ["InferredFeatures", "KeySummary", "infer_features", "infer_sequence_features", "patch_features"]


@dataclass(slots=True)
class KeySummary:
    """What the records hold under one key.

    Attributes
    ----------
    records
        Records looked at.
    present
        Those that have the key, with a kind.
    kinds
        Kind -> records (for a feature list: steps) with it.
    min_length, max_length
        Values per feature, where present; for a feature list per step.
    min_steps, max_steps
        Steps per record of a feature list; 1 for other features.
    """

    records: int = 0
    present: int = 0
    kinds: dict[Kind, int] = field(default_factory=dict)
    min_length: int | None = None
    max_length: int | None = None
    min_steps: int = 1
    max_steps: int = 1

    def add_length(self, kind: Kind, length: int) -> None:
        """Count one feature."""
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        self.min_length = length if self.min_length is None else min(self.min_length, length)
        self.max_length = length if self.max_length is None else max(self.max_length, length)

    @property
    def is_fixed(self) -> bool:
        """Whether every record has the key, with one number of values that is not 0."""
        return self.present == self.records and self.min_length == self.max_length != 0

    def dtype(self, key: str) -> str:
        """The one dtype under this key; an error where the records differ."""
        if len(self.kinds) > 1:
            counts = ", ".join(f"{count} as {kind.value}" for kind, count in self.kinds.items())
            raise RecordError(f"feature {key!r} is of several kinds: {counts}; read the files apart from each other")
        return dtype_name(next(iter(self.kinds)))


class InferredFeatures(Mapping[str, "Feature"]):
    """Key -> spec, ready for ``parse_example``, and what the specs were made from.

    Keys that are in every record with one number of values are ``FixedLenFeature([length])``, so their arrays
    are ``(batch, length)`` also for length 1; all others are ``VarLenFeature`` (in feature lists
    ``FixedLenSequenceFeature`` where every step has one number of values). Keys that never hold a list are
    left out.

    Attributes
    ----------
    summaries
        Key -> :class:`KeySummary`, of all keys.
    """

    def __init__(self, summaries: Mapping[str, KeySummary], *, is_list: bool = False) -> None:
        self.summaries = dict(summaries)
        make = _list_spec if is_list else _spec
        self._features: dict[str, Feature] = {
            key: make(key, summary) for key, summary in self.summaries.items() if summary.kinds
        }

    def __getitem__(self, key: str) -> Feature:
        return self._features[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)

    def __repr__(self) -> str:
        return f"InferredFeatures({self._features!r})"


def infer_features(
    source: Iterable[RecordBytes] | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    limit: int | None = None,
) -> InferredFeatures:
    """The specs that read all records, with presence and lengths per key.

    Parameters
    ----------
    source
        Serialized Examples, or the path of a TFRecord file, or a list of paths.
    limit
        Look at so many records at most.

    Raises
    ------
    RecordError
        A key that holds several kinds, a damaged file, or a record that is no Example.
    UsageError
        No records at all.

    Examples
    --------
    >>> record = bytes.fromhex("0a 12 0a 10 0a 04 6e 64 76 69 12 08 12 06 0a 04 00 00 00 3f")
    >>> infer_features([record, record])["ndvi"]
    FixedLenFeature(shape=(1,), dtype='float32', default_value=None)
    """
    summaries: dict[str, KeySummary] = {}
    count = 0
    for message in _messages(source, limit, is_sequence=False):
        count += 1
        _add_features(summaries, message.features.feature)
    return InferredFeatures(_complete(summaries, count))


def infer_sequence_features(
    source: Iterable[RecordBytes] | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    limit: int | None = None,
) -> tuple[InferredFeatures, InferredFeatures]:
    """The specs of the context and of the feature lists of SequenceExamples; as :func:`infer_features`.

    Examples
    --------
    >>> record = bytes.fromhex("12 14 0a 12 0a 04 6e 64 76 69 12 0a 0a 08 12 06 0a 04 00 00 00 3f")
    >>> infer_sequence_features([record])[1]["ndvi"]
    FixedLenSequenceFeature(shape=(), dtype='float32', allow_missing=False, default_value=None)
    """
    context: dict[str, KeySummary] = {}
    lists: dict[str, KeySummary] = {}
    count = 0
    for message in _messages(source, limit, is_sequence=True):
        count += 1
        _add_features(context, message.context.feature)
        _add_lists(lists, message.feature_lists.feature_list)
    return InferredFeatures(_complete(context, count)), InferredFeatures(_complete(lists, count), is_list=True)


def patch_features(
    names: Iterable[str],
    *,
    patch_xy: tuple[int, int],
    kernel_xy: tuple[int, int] = (1, 1),
    dtype: FeatureDType | Mapping[str, FeatureDType] = np.float32,
    depths: Mapping[str, int] | None = None,
) -> dict[str, FixedLenFeature]:
    """The specs of an image export: one array (row, column) per band, margins included.

    **Source**: Earth Engine buffers a patch by kernel // 2 on each side.

    Parameters
    ----------
    names
        The features.
    patch_xy, kernel_xy
        (width, height), as in the mixer and the export's options.
    dtype
        Of all features, or of each by name. A bytes feature is one value of raw bytes.
    depths
        Name -> depth of tensor features, which get the shape (depth, row, column).

    Examples
    --------
    >>> patch_features(["B4"], patch_xy=(8, 8), kernel_xy=(4, 4))["B4"].shape
    (12, 12)
    """
    block = [patch + 2 * (kernel // 2) for patch, kernel in zip(patch_xy[::-1], kernel_xy[::-1], strict=True)]
    features = {}
    for name in names:
        wanted = dtype[name] if isinstance(dtype, Mapping) else dtype
        depth = (depths or {}).get(name)
        spec = FixedLenFeature(block if depth is None else [depth, *block], wanted)
        features[name] = FixedLenFeature((), wanted) if spec.kind is Kind.BYTES else spec
    return features


def _messages(source: Any, limit: int | None, *, is_sequence: bool) -> Iterator[Any]:
    records = _records(source)
    empty = True
    for number, record in enumerate(records):
        if number == limit:
            return
        empty = False
        yield Batch([record], [str(number)], is_sequence=is_sequence).message(0)
    if empty:
        raise UsageError("there are no records to infer features from; name files that hold some")


def _records(source: Any) -> Iterable[RecordBytes]:
    from geotfr.records.reader import read_records

    if isinstance(source, str | os.PathLike):
        return read_records(source)
    if isinstance(source, list | tuple) and source and isinstance(source[0], str | os.PathLike):
        return read_records(source)
    return source  # type: ignore[no-any-return]


def _add_features(summaries: dict[str, KeySummary], features: Any) -> None:
    for key, feature in features.items():
        summary = summaries.setdefault(key, KeySummary())
        kind = Kind.of_message(feature)
        if kind is not None:
            summary.present += 1
            summary.add_length(kind, len(getattr(feature, kind.oneof).value))


def _add_lists(summaries: dict[str, KeySummary], lists: Any) -> None:
    for key, steps in lists.items():
        is_new = key not in summaries
        summary = summaries.setdefault(key, KeySummary())
        count = len(steps.feature)
        summary.present += 1
        summary.min_steps = count if is_new else min(summary.min_steps, count)
        summary.max_steps = count if is_new else max(summary.max_steps, count)
        for feature in steps.feature:
            kind = Kind.of_message(feature)
            if kind is None:
                summary.min_length = 0
            else:
                summary.add_length(kind, len(getattr(feature, kind.oneof).value))


def _complete(summaries: dict[str, KeySummary], count: int) -> dict[str, KeySummary]:
    for summary in summaries.values():
        summary.records = count
    # Protobuf's maps have no order.
    return dict(sorted(summaries.items()))


def _spec(key: str, summary: KeySummary) -> Feature:
    dtype = summary.dtype(key)
    return FixedLenFeature([summary.max_length or 0], dtype) if summary.is_fixed else VarLenFeature(dtype)


def _list_spec(key: str, summary: KeySummary) -> Feature:
    dtype = summary.dtype(key)
    length = summary.max_length
    if length is None or length == 0 or summary.min_length != length:
        return VarLenFeature(dtype)
    shape = () if length == 1 else (length,)
    return FixedLenSequenceFeature(shape, dtype, allow_missing=summary.present < summary.records)

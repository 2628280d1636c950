"""Records as columns of features, block by block, in the records' order.

Records of one layout are read together, wherever in a block they stand, so that text of many lengths costs a step of
Python for each layout and not for each record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from geotfr.errors import LimitError, RecordError
from geotfr.records.batches import BatchDecoder
from geotfr.records.framing import RecordBlocks
from geotfr.records.kind import Kind
from geotfr.records.reader import DECODED_BYTES
from geotfr.records.runs import splits_of
from geotfr.records.stream import open_stream
from geotfr.vectors.columns import FeatureColumn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from geotfr.records.columns import Columns
    from geotfr.records.faults import ReadReport
    from geotfr.records.framing import BadRecord

__all__ = ["MAX_COLUMNS", "FeatureRows", "check_columns", "read_feature_rows"]

MAX_COLUMNS = 10_000
"""Columns of a table of records: each costs memory for every record, whether the record has it or not."""

_MOST_CELLS = 1 << 21
"""Records times columns of one step; more records are cut into several steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRows:
    """Consecutive records of one file.

    Attributes
    ----------
    path
        The file.
    first
        Number of the first record within the file.
    count
        Records.
    columns
        key -> column, in the order in which the records have the keys. Keys that never hold a list are left out.
    """

    path: str
    first: int
    count: int
    columns: dict[str, FeatureColumn]


def check_columns(path: str, count: int, *, known: int = 0) -> None:
    """Refuse more columns than a table may have; ``known`` are told by a manifest of geotfr's."""
    if count > max(MAX_COLUMNS, known):
        raise LimitError(
            f"{path}: at least {count:,} features of different names, each a column; a table may have {MAX_COLUMNS:,}."
            " Write the values under fewer names"
        )


def read_feature_rows(
    path: str, *, on_bad_record: BadRecord = "error", report: ReadReport, width: int = 1
) -> Iterator[FeatureRows]:
    """The records of ``path``, some at a time, with checksums verified.

    Parameters
    ----------
    on_bad_record
        As :func:`geotfr.records.reader.read_records`, for damage of the file; a payload that is no Example is an
        error always.
    report
        Counts, notes and faults.
    width
        Columns that the caller makes of each step at least, where it knows.

    Raises
    ------
    RecordError
        A damaged file, a payload that is no Example, or a key that holds another kind in other records of a block.
    LimitError
        A record whose values would take more memory than is given them, or more than :data:`MAX_COLUMNS` names.
    """
    with open_stream(path, "auto", report) as stream:
        report.files += 1
        blocks = RecordBlocks(stream, on_bad_record=on_bad_record, report=report)
        # A payload that is no Example is an error always: a row without a record would shift all rows behind it.
        decoder = BatchDecoder(stream, blocks.templates, None, DECODED_BYTES, "error", report)
        for block in blocks:
            parts = decoder.columns(block)
            count = len(block.starts)
            report.records += count
            names = {key for part in parts for key, values in part.features.items() if values is not None}
            check_columns(path, len(names), known=width)
            step = max(1, _MOST_CELLS // max(width, len(names)))
            for start in range(0, count, step):
                stop = min(start + step, count)
                cut = parts if stop - start == count else [_cut(part, start, stop) for part in parts]
                columns = _merged(path, block.first + start, stop - start, [part for part in cut if len(part.index)])
                yield FeatureRows(path=path, first=block.first + start, count=stop - start, columns=columns)


def _cut(part: Columns, start: int, stop: int) -> Columns:
    """Those records of ``part`` from ``start`` up to ``stop``, numbered from ``start``."""
    rows = np.flatnonzero((part.index >= start) & (part.index < stop))
    features = {
        key: [values[row] for row in rows] if isinstance(values, list) else None if values is None else values[rows]
        for key, values in (part.features.items() if len(rows) else ())
    }
    return replace(part, index=part.index[rows] - start, features=features)


def _merged(path: str, first: int, count: int, parts: Sequence[Columns]) -> dict[str, FeatureColumn]:
    """The columns over ``count`` records from number ``first``; absent where a part has none."""
    found: dict[str, list[tuple[NDArray[np.int64], Any]]] = {}
    for part in sorted(parts, key=lambda part: int(part.index.min())):
        for key, values in part.features.items():
            if values is not None:
                found.setdefault(key, []).append((part.index, values))
    columns = {}
    for key, pieces in found.items():
        kinds = [Kind.BYTES if isinstance(values, list) else Kind.of_dtype(values.dtype) for _, values in pieces]
        for kind, (index, _) in zip(kinds, pieces, strict=True):
            if kind is not kinds[0]:
                raise RecordError(
                    f"{path}: record {first + int(index.min())}: feature {key!r} holds {kind.value}, in"
                    f" other records {kinds[0].value}; read them from files of their own"
                )
        merge = _merged_bytes if kinds[0] is Kind.BYTES else _merged_numbers
        columns[key] = merge(key, kinds[0], pieces, count)
    return columns


def _merged_numbers(key: str, kind: Kind, pieces: Sequence[tuple[Any, Any]], count: int) -> FeatureColumn:
    present, lengths = np.zeros(count, np.bool_), np.zeros(count, np.int64)
    for index, values in pieces:
        present[index] = True
        lengths[index] = values.shape[1]
    splits = splits_of(lengths)
    flat = _scattered(pieces, splits[:-1], int(splits[-1]), kind.dtype)
    return FeatureColumn(name=key, kind=kind, values=flat, row_splits=splits, present=present)


def _merged_bytes(key: str, kind: Kind, pieces: Sequence[tuple[Any, Any]], count: int) -> FeatureColumn:
    present, counts = np.zeros(count, np.bool_), np.zeros(count, np.int64)
    for index, values in pieces:
        present[index] = True
        counts[index] = len(values[0]) if isinstance(values, list) else 1
    row_splits = splits_of(counts)
    sizes = np.zeros(int(row_splits[-1]), np.int64)
    several = [(index, values) for index, values in pieces if isinstance(values, list)]
    single = [(index, values) for index, values in pieces if not isinstance(values, list)]
    for index, values in single:
        sizes[row_splits[index]] = values.shape[1]
    for index, values in several:
        for row, texts in zip(index.tolist(), values, strict=True):
            sizes[row_splits[row] : row_splits[row + 1]] = [len(text) for text in texts]
    value_splits = splits_of(sizes)
    starts = value_splits[row_splits[:-1]]
    flat = _scattered(single, starts, int(value_splits[-1]), np.uint8)
    for index, values in several:
        for row, texts in zip(index.tolist(), values, strict=True):
            joined = b"".join(texts)
            flat[starts[row] : starts[row] + len(joined)] = np.frombuffer(joined, np.uint8)
    return FeatureColumn(
        name=key, kind=kind, values=flat, row_splits=row_splits, present=present, value_splits=value_splits
    )


def _scattered(
    pieces: Sequence[tuple[NDArray[np.int64], NDArray[Any]]], starts: NDArray[np.int64], total: int, dtype: Any
) -> NDArray[Any]:
    """All values in the order of the records; a copy, as the block's buffer is used again."""
    if len(pieces) == 1 and pieces[0][1].size == total:
        index, values = pieces[0]
        if (np.diff(index) > 0).all():
            return cast("NDArray[Any]", np.array(values, dtype, order="C").reshape(-1))
    flat = np.empty(total, dtype)
    for index, values in pieces:
        flat[starts[index][:, None] + np.arange(values.shape[1])] = values
    return flat

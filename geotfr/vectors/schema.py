"""The columns of a record file that comes without a manifest: kinds, lengths, and whether bytes are text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from geotfr.errors import RecordError
from geotfr.records.kind import Kind
from geotfr.vectors.decode import check_columns
from geotfr.vectors.extra import load
from geotfr.vectors.types import ColumnInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from geotfr.vectors.columns import FeatureColumn
    from geotfr.vectors.decode import FeatureRows
    from geotfr.vectors.types import Shape

__all__ = ["Scan", "scan_records"]

_TYPES = {Kind.FLOAT: "float32", Kind.INT64: "int64"}


@dataclass(slots=True)
class _Seen:
    """What the records hold under one key so far."""

    kind: Kind
    shortest: int | None = None
    longest: int = 0
    is_text: bool = True
    is_date: bool = True

    def add(self, column: FeatureColumn, date_format: str | None) -> None:
        lengths = column.lengths()[column.present]
        if not len(lengths):
            return
        low, high = int(lengths.min()), int(lengths.max())
        self.shortest = low if self.shortest is None else min(self.shortest, low)
        self.longest = max(self.longest, high)
        if column.kind is Kind.BYTES:
            self._add_texts(column, date_format)

    def _add_texts(self, column: FeatureColumn, date_format: str | None) -> None:
        pa, pc = load("pyarrow"), load("pyarrow.compute")
        assert column.value_splits is not None
        texts = pa.Array.from_buffers(
            pa.string(),
            len(column.value_splits) - 1,
            [
                None,
                pa.py_buffer(column.value_splits.astype(np.int32)),
                pa.py_buffer(np.ascontiguousarray(column.values)),
            ],
        )
        if self.is_text:
            try:
                texts.validate(full=True)
            except pa.ArrowInvalid:
                self.is_text = self.is_date = False
        if self.is_text and self.is_date and date_format is not None:
            parsed = pc.strptime(texts, format=date_format, unit="s", error_is_null=True)
            self.is_date = parsed.null_count == 0
        else:
            self.is_date = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a look at all records found.

    Attributes
    ----------
    columns
        The columns, in the order in which the records first have them.
    dates
        Names of those whose text is dates in the format asked for.
    rows
        Records.
    """

    columns: tuple[ColumnInfo, ...]
    dates: frozenset[str]
    rows: int


def scan_records(batches: Iterable[FeatureRows], *, date_format: str | None) -> Scan:
    """The columns that hold all records of ``batches``.

    Raises
    ------
    RecordError
        A key that holds several kinds.
    LimitError
        More columns than a table may have.
    """
    seen: dict[str, _Seen] = {}
    rows = 0
    for batch in batches:
        rows += batch.count
        for key, column in batch.columns.items():
            found = seen.setdefault(key, _Seen(column.kind))
            if found.kind is not column.kind:
                raise RecordError(
                    f"{batch.path}: record {batch.first + int(column.present.argmax())}: feature {key!r} holds"
                    f" {column.kind.value}, before {found.kind.value}; ingest these records apart from each other"
                )
            found.add(column, date_format)
        check_columns(batch.path, len(seen))
    dates = frozenset(
        key
        for key, found in seen.items()
        if found.kind is Kind.BYTES and found.is_date and found.longest == found.shortest == 1
    )
    return Scan(
        columns=tuple(_info(key, found, is_date=key in dates) for key, found in seen.items()), dates=dates, rows=rows
    )


def _info(key: str, found: _Seen, *, is_date: bool) -> ColumnInfo:
    shape: Shape = (None,)
    if found.shortest == found.longest > 0:
        shape = () if found.longest == 1 else (found.longest,)
    if found.kind is Kind.BYTES:
        type_name = "timestamp[s]" if is_date else "string" if found.is_text else "binary"
    else:
        type_name = _TYPES[found.kind]
    return ColumnInfo(name=key, source=key, type=type_name, kind=found.kind, shape=shape)

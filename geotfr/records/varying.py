"""Records of differing lengths, put together from runs of bytes without a loop over their values.

Where lists are varints or text, every record has its own lengths, and every length prefix with them. A record is then
a sequence of runs: heads that depend on a size alone (there are few sizes), and the values. Records whose lists all
have equal lengths are templates: see :mod:`geotfr.records.layout`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.records.crc import masked_crc32c_runs
from geotfr.records.kind import Kind
from geotfr.records.layout import FOOTER_BYTES, HEADER_BYTES, frame_header
from geotfr.records.runs import Runs, heads, join_runs, splits_of
from geotfr.records.varints import pack_varints, varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["ListColumn", "example_records", "list_column", "sequence_records", "value_head"]

_ABSENT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListColumn:
    """The bytes of one list of every record.

    Attributes
    ----------
    name, kind
        The map key, and what the list holds.
    data
        The bytes of all records' values: float32, packed varints, or bytes.
    starts, sizes
        ``(n,) int64``: where each record's bytes begin in ``data``, and how many there are.
    present
        ``(n,) bool``: which records have the feature; None: all.
    holds_fields
        Whether the bytes are whole fields, tags and sizes included: bytes lists of no value or of several.
    has_empty_chunk
        Whether a list without numbers is written as a chunk of no bytes; else it has no field at all.
    """

    name: str
    kind: Kind
    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    present: NDArray[np.bool_] | None = None
    holds_fields: bool = False
    has_empty_chunk: bool = True

    def runs(self) -> Runs:
        """The values."""
        return Runs(self.data, self.starts, self.sizes)

    def entry_heads(self) -> Runs:
        """What stands in front of the values in a map; nothing for an absent feature."""
        sizes = self.sizes if self.present is None else np.where(self.present, self.sizes, _ABSENT)
        return heads(sizes, self._entry_head)

    def step_heads(self) -> Runs:
        """What stands in front of the values in a step of a FeatureList."""
        return heads(self.sizes, lambda size: _field_head(size, self._feature_head(size)))

    def _entry_head(self, size: int) -> bytes:
        return b"" if size == _ABSENT else entry_head(self.name, size, self._feature_head(size))

    def _feature_head(self, size: int) -> bytes:
        has_field = not self.holds_fields and (size > 0 or self.kind is Kind.BYTES or self.has_empty_chunk)
        inner = value_head(size) if has_field else b""
        return _field_head(size, inner, tag=self.kind.tag)


def list_column(
    name: str, kind: Kind, values: NDArray[Any], sizes: NDArray[np.int64] | None = None, *, holds_fields: bool = False
) -> ListColumn:
    """``values`` ``(n, length)`` of ``kind`` as a list of each record; or, with ``sizes`` ``(n,)``, their bytes."""
    if sizes is None and kind is Kind.INT64:
        values, sizes = pack_varints(values)
    elif sizes is None:
        count, length = values.shape
        sizes = np.full(count, length * values.dtype.itemsize, np.int64)
        values = np.ascontiguousarray(values, kind.wire_dtype).reshape(-1).view(np.uint8)
    starts = splits_of(sizes)[:-1]
    return ListColumn(name=name, kind=kind, data=values, starts=starts, sizes=sizes, holds_fields=holds_fields)


def value_head(size: int) -> bytes:
    """What stands in front of a value, a packed chunk or a message of ``size`` bytes.

    >>> value_head(300).hex()
    '0aac02'
    """
    return _field_head(size, b"")


def entry_head(name: str, size: int, head: bytes) -> bytes:
    """What stands in front of a map's value of ``size`` bytes behind ``head``, which comes last."""
    key = name.encode()
    return _field_head(size, value_head(len(key)) + key + _field_head(size, head, tag=b"\x12"))


def _field_head(size: int, head: bytes, *, tag: bytes = b"\x0a") -> bytes:
    """The tag and length of a field that holds ``head`` and ``size`` more bytes, then ``head``."""
    return tag + varint(len(head) + size) + head


def example_records(columns: Sequence[ListColumn], count: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """``count`` framed Examples of ``columns``, in this order: their bytes, and where each record ends."""
    return _framed([_message(_entries(columns), count, b"\x0a")], count)


def sequence_records(
    context: Sequence[ListColumn], lists: Sequence[Sequence[ListColumn]], count: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """``count`` framed SequenceExamples: a context, and lists of steps; their bytes, and where each record ends."""
    messages = [_message(_entries(context), count, b"\x0a")] if context else []
    if lists:
        runs: list[Runs] = []
        for steps in lists:
            step_runs = [part for step in steps for part in (step.step_heads(), step.runs())]
            sizes = _sizes(step_runs, count)
            name = steps[0].name
            runs += [heads(sizes, lambda size, name=name: entry_head(name, size, b"")), *step_runs]  # type: ignore[misc]
        messages.append(_message(runs, count, b"\x12"))
    return _framed(messages, count)


def _entries(columns: Sequence[ListColumn]) -> list[Runs]:
    return [part for column in columns for part in (column.entry_heads(), column.runs())]


def _sizes(runs: Sequence[Runs], count: int) -> NDArray[np.int64]:
    """The bytes of each row."""
    total = np.zeros(count, np.int64)
    for part in runs:
        total += part.sizes
    return total


def _message(runs: Sequence[Runs], count: int, tag: bytes) -> list[Runs]:
    """``runs`` as the content of a field of each record."""
    return [heads(_sizes(runs, count), lambda size: _field_head(size, b"", tag=tag)), *runs]


def _framed(messages: Sequence[Sequence[Runs]], count: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The records with their headers and checksums."""
    runs = [part for message in messages for part in message]
    data, splits = join_runs([heads(_sizes(runs, count), frame_header), *runs], spare=FOOTER_BYTES)
    footers = splits[1:] - FOOTER_BYTES
    checksums = masked_crc32c_runs(data, splits[:-1] + HEADER_BYTES, footers).astype("<u4", copy=False)
    data[footers[:, np.newaxis] + np.arange(FOOTER_BYTES)] = checksums.view(np.uint8).reshape(-1, FOOTER_BYTES)
    return data, splits[1:]

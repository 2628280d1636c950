"""Features of records as Arrow's columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import RecordError
from geotfr.records.kind import Kind
from geotfr.vectors.arrow_arrays import booleans, numbers
from geotfr.vectors.extra import load
from geotfr.vectors.types import ColumnInfo, arrow_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geotfr.vectors.columns import FeatureColumn
    from geotfr.vectors.decode import FeatureRows
    from geotfr.vectors.types import Shape

__all__ = ["Restorer", "restored_type"]


def restored_type(info: ColumnInfo) -> Any:
    """The pyarrow type of a column as ``info`` describes it: lists of lists for arrays."""
    pa = load("pyarrow")
    found = arrow_type(info.type)
    for length in reversed(_restored_shape(info.shape)):
        found = pa.list_(found) if length is None else pa.list_(found, length)
    return found


def _restored_shape(shape: Shape) -> Shape:
    """``shape``, or that of a flat list where rows differ in more than the first axis: their lengths aren't kept."""
    return (None,) if None in shape[1:] else shape


def _size(shape: Shape) -> int:
    """Values of an array of ``shape``; 1 for a scalar."""
    return int(np.prod([length or 0 for length in shape], dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Restorer:
    """One column of a table from the features of records.

    Attributes
    ----------
    info
        What the column is.
    strptime
        Format of the dates that its text holds, see :func:`time.strptime`; None for ISO 8601.
    """

    info: ColumnInfo
    strptime: str | None = None

    def array(self, rows: FeatureRows) -> Any:
        """The pyarrow array of all ``rows``; null where a record lacks the feature.

        Raises
        ------
        RecordError
            A feature of another kind or count than the column's, or text that isn't the type's.
        """
        pa = load("pyarrow")
        info = self.info
        column = rows.columns.get(info.name)
        if column is None:
            return pa.nulls(rows.count, restored_type(info))
        if column.kind is not info.kind:
            raise self._error(rows, int(column.present.argmax()), f"holds {column.kind.value}, not {info.kind.value}")
        lengths = column.lengths()
        shape = _restored_shape(info.shape)
        is_open = shape[:1] == (None,)
        wanted = _size(shape[1:] if is_open else shape)
        odd = column.present & ((lengths % wanted != 0) if is_open else (lengths != wanted))
        if odd.any():
            row = int(odd.argmax())
            times = "a multiple of " if is_open else ""
            raise self._error(rows, row, f"holds {lengths[row]} values, wanted are {times}{wanted}")
        values = self._values(rows, column)
        if not shape:
            return self._scalars(values, column.present)
        return self._lists(values, column, shape)

    def _error(self, rows: FeatureRows, row: int, problem: str) -> RecordError:
        return RecordError(f"{rows.path}: record {rows.first + row}: feature {self.info.name!r} {problem}")

    def _values(self, rows: FeatureRows, column: FeatureColumn) -> Any:
        """All values of all rows as one pyarrow array of the column's type."""
        pa = load("pyarrow")
        target = arrow_type(self.info.type)
        if column.kind is Kind.BYTES:
            return self._texts(rows, column, target)
        found: NDArray[Any] = column.values
        if pa.types.is_boolean(target):
            return booleans(found != 0)
        if pa.types.is_integer(target):
            return numbers(_whole(found, np.dtype(target.to_pandas_dtype())))
        return numbers(found.astype(target.to_pandas_dtype(), copy=False))

    def _texts(self, rows: FeatureRows, column: FeatureColumn, target: Any) -> Any:
        pa, pc = load("pyarrow"), load("pyarrow.compute")
        assert column.value_splits is not None
        is_plain = pa.types.is_binary(target)
        offsets = pa.py_buffer(column.value_splits.astype(np.int32))
        texts = pa.Array.from_buffers(
            pa.binary() if is_plain else pa.string(),
            len(column.value_splits) - 1,
            [None, offsets, pa.py_buffer(np.ascontiguousarray(column.values))],
        )
        if is_plain:
            return texts
        try:
            texts.validate(full=True)
            if pa.types.is_string(target):
                return texts
            if pa.types.is_time(target):
                return _times(texts, target)
            if self.strptime is not None:
                return pc.strptime(texts, format=self.strptime, unit="s").cast(target)
            return texts.cast(target)
        except (pa.ArrowException, ValueError) as error:
            told = " ".join(str(error).split())
            raise self._error(rows, int(column.present.argmax()), f"and later: not {self.info.type}: {told}") from error

    def _scalars(self, values: Any, present: NDArray[np.bool_]) -> Any:
        if present.all():
            return values
        places = np.where(present, np.cumsum(present) - 1, 0)
        return values.take(numbers(places, valid=present))

    def _lists(self, values: Any, column: FeatureColumn, shape: Shape) -> Any:
        pa = load("pyarrow")
        count, present = len(column), column.present
        if shape[0] is not None and not present.all():
            # A null of a fixed size takes its room.
            size = _size(shape)
            places = np.repeat(np.where(present, column.row_splits[:-1], 0), size) + np.tile(np.arange(size), count)
            values = values.take(numbers(places)) if len(values) else pa.nulls(size * count, values.type)
        for length in shape[:0:-1]:
            values = pa.FixedSizeListArray.from_arrays(values, length)
        if shape[0] is None:
            splits = (column.row_splits // max(_size(shape[1:]), 1)).astype(np.int32)
            return pa.ListArray.from_arrays(numbers(splits, valid=np.append(present, True)), values)
        mask = None if present.all() else booleans(~present)
        return pa.FixedSizeListArray.from_arrays(values, shape[0], mask=mask)


def _whole(numbers: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """``numbers`` rounded and cut to the range of ``dtype``: a float32 may have rounded the ends out of it."""
    if numbers.dtype == dtype:
        return numbers
    limits = np.iinfo(dtype)
    if numbers.dtype.kind in "iu":
        low, high = max(limits.min, -(2**63)), min(limits.max, 2**63 - 1)
        return np.asarray(np.clip(numbers, low, high).astype(dtype))
    rounded = np.rint(numbers.astype(np.float64))
    above, below = rounded >= float(limits.max), rounded <= float(limits.min)
    out: NDArray[Any] = np.where(above | below | np.isnan(rounded), 0, rounded).astype(dtype)
    out[above], out[below] = limits.max, limits.min
    return out


def _times(texts: Any, target: Any) -> Any:
    """Times of day, of ``HH:MM:SS`` with any fraction."""
    pa, pc = load("pyarrow"), load("pyarrow.compute")
    stamps = pc.binary_join_element_wise("1970-01-01T", texts, "").cast(pa.timestamp(target.unit))
    return stamps.cast(target)

"""Arrow's columns as features of records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import InputError
from geotfr.records.kind import Kind
from geotfr.records.runs import splits_of
from geotfr.vectors.arrow_arrays import as_numpy, present_rows
from geotfr.vectors.columns import FeatureColumn, one_each
from geotfr.vectors.extra import load
from geotfr.vectors.types import ColumnInfo, plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ColumnTally", "feature_of", "number_column", "text_column"]

EXACT_FLOAT32 = 1 << 24
"""Up to here every whole number is a float32."""


@dataclass(slots=True)
class ColumnTally:
    """What a user should know of a column's values.

    Attributes
    ----------
    absent
        Rows without the feature: null values.
    inexact
        Whole numbers beyond 2^24 that a float32 can't hold.
    infinite
        Finite numbers that became infinite in float32.
    heights, measures
        Geometries whose z, and whose m, is left out.
    """

    absent: int = 0
    inexact: int = 0
    infinite: int = 0
    heights: int = 0
    measures: int = 0

    def add(self, other: ColumnTally) -> None:
        """Count ``other`` in."""
        self.absent += other.absent
        self.inexact += other.inexact
        self.infinite += other.infinite
        self.heights += other.heights
        self.measures += other.measures


@dataclass(slots=True)
class _Where:
    """The place that errors name: a column, the first row of the batch, and the rows' bounds among its values."""

    table: str
    column: str
    first_row: int
    row_splits: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))

    def error(self, problem: str, value_number: int) -> InputError:
        """``problem`` at the row that holds value ``value_number`` of the batch."""
        row = int(np.searchsorted(self.row_splits, value_number, side="right")) - 1 + self.first_row
        return InputError(f"{self.table}: row {row}, column {self.column!r}: {problem}")


def feature_of(array: Any, info: ColumnInfo, *, table: str, first_row: int) -> tuple[FeatureColumn, ColumnTally]:
    """A pyarrow ``array`` of ``n`` rows as the feature that ``info`` describes.

    A null value is an absent feature. NaN stays a value. Arrays are flattened row-major. Dates and times are ISO 8601
    text, in UTC where they have a time zone.

    Parameters
    ----------
    table, first_row
        For errors: what the rows come from, and the number of the first.

    Raises
    ------
    InputError
        Integers beyond int64, text that isn't UTF-8, nulls inside arrays of whole numbers or text.
    """
    pa = load("pyarrow")
    where = _Where(table, info.source, first_row)
    array = _storage(array)
    width = 1 if array.null_count == 0 and not _is_list(array.type) else None
    if width is None:
        present = present_rows(array)
        flat, row_splits = _flattened(array, present, where)
    else:
        row_splits, present = one_each(len(array))
        flat = array
    if pa.types.is_null(flat.type):
        flat = flat.cast(pa.float32())
    where.row_splits = row_splits
    tally = ColumnTally(absent=int(len(present) - present.sum()))
    if info.kind is Kind.BYTES:
        if flat.null_count:
            raise where.error("a null inside an array of text; fill it first", _first_null(flat))
        values, value_splits = _bytes_of(_as_text(flat, where))
        column = FeatureColumn(
            name=info.name,
            kind=info.kind,
            values=values,
            row_splits=row_splits,
            present=present,
            value_splits=value_splits,
            width=width,
        )
        return column, tally
    numbers = _numbers(flat, info.kind, where)
    whole = _integers(numbers, where) if info.kind is Kind.INT64 else _floats(numbers, tally)
    column = FeatureColumn(
        name=info.name, kind=info.kind, values=whole, row_splits=row_splits, present=present, width=width
    )
    return column, tally


def number_column(name: str, values: NDArray[Any], valid: NDArray[np.bool_]) -> FeatureColumn:
    """A float column of one value ``(n,)`` a row, absent where not ``valid``."""
    is_whole = bool(valid.all())
    kept = values if is_whole else values[valid]
    row_splits, present = one_each(len(values)) if is_whole else (splits_of(valid.astype(np.int64)), valid)
    return FeatureColumn(
        name=name,
        kind=Kind.FLOAT,
        values=kept.astype(np.float32, copy=False),
        row_splits=row_splits,
        present=present,
        width=1 if is_whole else None,
    )


def text_column(name: str, array: Any) -> FeatureColumn:
    """A bytes column of a pyarrow array of text or bytes; null is absent."""
    present = present_rows(array)
    values, value_splits = _bytes_of(array.drop_null() if array.null_count else array)
    return FeatureColumn(
        name=name,
        kind=Kind.BYTES,
        values=values,
        row_splits=splits_of(present.astype(np.int64)),
        present=present,
        value_splits=value_splits,
    )


def _storage(array: Any) -> Any:
    """``array`` without extension types and dictionaries."""
    pa = load("pyarrow")
    while isinstance(array.type, pa.BaseExtensionType) or pa.types.is_dictionary(array.type):
        array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array.storage
    return array


def _flattened(array: Any, present: NDArray[np.bool_], where: _Where) -> tuple[Any, NDArray[np.int64]]:
    """All values in one array, and the rows' bounds in it."""
    pa, pc = load("pyarrow"), load("pyarrow.compute")
    if not _is_list(array.type):
        return (array.drop_null() if array.null_count else array), splits_of(present.astype(np.int64))
    row_splits = np.arange(len(array) + 1, dtype=np.int64)
    is_outer = True
    while _is_list(array.type):
        if not is_outer and array.null_count:
            where.row_splits = row_splits
            raise where.error("a null inside an array of arrays; fill it first", _first_null(array))
        lengths = pc.fill_null(pc.list_value_length(array), 0)
        row_splits = splits_of(as_numpy(lengths.cast(pa.int64())))[row_splits]
        array = _storage(array.flatten())
        is_outer = False
    return array, row_splits


def _is_list(arrow: Any) -> bool:
    types = load("pyarrow").types
    return bool(types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow))


def _first_null(array: Any) -> int:
    return int(np.argmin(present_rows(array)))


def _numbers(flat: Any, kind: Kind, where: _Where) -> NDArray[Any]:
    """The numbers of a pyarrow array; a null inside an array is NaN among floats."""
    pa = load("pyarrow")
    if pa.types.is_decimal(flat.type):
        flat = flat.cast(pa.float64())
    if flat.null_count:
        if kind is Kind.INT64:
            raise where.error(
                "a null inside an array of whole numbers; fill it, or use --feature-kinds float", _first_null(flat)
            )
        flat = flat.cast(pa.float64(), safe=False).fill_null(np.nan)
    if pa.types.is_boolean(flat.type):
        flat = flat.cast(pa.uint8())
    return as_numpy(flat)


def _integers(numbers: NDArray[Any], where: _Where) -> NDArray[np.int64]:
    if numbers.dtype == np.uint64 and len(numbers) and numbers.max() >= 1 << 63:
        place = int(np.argmax(numbers >= 1 << 63))
        raise where.error(
            f"{numbers[place]} is beyond int64, which ends at 2^63 - 1; use --feature-kinds float, or make it text",
            place,
        )
    return numbers.astype(np.int64, copy=False)


def _floats(numbers: NDArray[Any], tally: ColumnTally) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        narrow = numbers.astype(np.float32, copy=False)
    if numbers.dtype.kind in "iu" and numbers.dtype.itemsize > 2 and len(numbers):
        if max(int(numbers.max()), -int(numbers.min())) > EXACT_FLOAT32:
            # float64 can't hold all of int64 either: longdouble or the integers themselves decide.
            far = numbers[(numbers > EXACT_FLOAT32) | (numbers < -EXACT_FLOAT32)]
            back = far.astype(np.float32).astype(np.longdouble)
            tally.inexact = int((back != far.astype(np.longdouble)).sum())
    elif numbers.dtype == np.float64 and np.isinf(narrow).any():
        tally.infinite = int((np.isinf(narrow) & ~np.isinf(numbers)).sum())
    return narrow


def _as_text(flat: Any, where: _Where) -> Any:
    """Text or bytes of a pyarrow array: UTF-8 that is checked, ISO 8601 of dates and times."""
    pa, pc = load("pyarrow"), load("pyarrow.compute")
    types = pa.types
    found = plain(flat.type)
    if types.is_timestamp(found):
        zoned = flat.cast(pa.timestamp(found.unit, "UTC")) if found.tz else flat
        return pc.replace_substring(zoned.cast(pa.string()), " ", "T", max_replacements=1)
    if types.is_date64(found):
        return flat.cast(pa.date32()).cast(pa.string())
    if types.is_date(found) or types.is_time(found):
        return flat.cast(pa.string())
    if not (types.is_binary(found) or types.is_large_binary(found)):
        try:
            flat.validate(full=True)
        except pa.ArrowInvalid as error:
            place = next(number for number, text in enumerate(flat.cast(pa.binary())) if not _is_utf8(text.as_py()))
            raise where.error("the text isn't UTF-8; convert the file, or leave the column out", place) from error
    return flat


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _bytes_of(array: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of all texts of a pyarrow array without nulls, and their bounds."""
    pa = load("pyarrow")
    large = array.cast(pa.large_string() if pa.types.is_string_view(array.type) else _large(array.type))
    _, offsets, data = large.buffers()
    if not len(large):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    bounds = np.frombuffer(offsets, np.int64)[large.offset : large.offset + len(large) + 1]
    values = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    return values[bounds[0] : bounds[-1]], bounds - bounds[0]


def _large(arrow: Any) -> Any:
    pa = load("pyarrow")
    is_text = pa.types.is_string(arrow) or pa.types.is_large_string(arrow)
    return pa.large_string() if is_text else pa.large_binary()

"""Columns as GDAL's vector formats hold them: the nearest type that loses no value, and what is rounded after all."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from geotfr.errors import UsageError
from geotfr.vectors.extra import load

__all__ = ["OgrColumn"]

_OFFSET = re.compile(r"[+-]\d\d:\d\d")
# GDAL's dates and times are kept to the millisecond.
_UNITS_A_MS = {"us": 1_000, "ns": 1_000_000}


class OgrColumn:
    """What turns a column of a table into one that GDAL writes as it is.

    GDAL knows no uint64, which it would make floats, and no names of time zones, whose times it would write in UTC
    without saying so. It knows no float16 either.

    Parameters
    ----------
    field
        pyarrow field of the table.
    where
        The output, for errors.

    Attributes
    ----------
    field
        pyarrow field of the column that is written.
    rounded
        Times that GDAL rounds to milliseconds, of the arrays so far.
    """

    def __init__(self, field: Any, *, where: str) -> None:
        self.field = field.with_type(_held(field.type))
        self.rounded = 0
        self._where = where
        self._is_cast = self.field.type != field.type

    def __call__(self, array: Any) -> Any:
        """``array`` as it is written.

        Raises
        ------
        UsageError
            A whole number beyond int64.
        """
        self.rounded += _finer_than_ms(array)
        if not self._is_cast:
            return array
        try:
            return array.cast(self.field.type)
        except load("pyarrow").ArrowInvalid as error:
            raise UsageError(
                f"{self._where}: column {self.field.name!r} holds whole numbers beyond 2^63 - 1, the largest of this"
                " format; use .parquet or .csv"
            ) from error


def _held(arrow: Any) -> Any:
    """The type of GDAL's that holds the values of a pyarrow type."""
    pa = load("pyarrow")
    if pa.types.is_list(arrow):
        return pa.list_(_held(arrow.value_type))
    if pa.types.is_float16(arrow):
        return pa.float32()
    if pa.types.is_uint64(arrow):
        return pa.int64()
    if pa.types.is_timestamp(arrow) and arrow.tz is not None and not _OFFSET.fullmatch(arrow.tz):
        return pa.timestamp(arrow.unit, "UTC")
    return arrow


def _finer_than_ms(array: Any) -> int:
    """How many times of ``array`` are no whole milliseconds."""
    pa = load("pyarrow")
    if not (pa.types.is_timestamp(array.type) or pa.types.is_time64(array.type)):
        return 0
    step = _UNITS_A_MS.get(array.type.unit)
    if step is None:
        return 0
    return int(np.count_nonzero(array.cast(pa.int64()).drop_null().to_numpy(zero_copy_only=False) % step))

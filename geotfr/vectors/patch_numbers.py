"""Numbers of patches, and a column of theirs, from a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import InputError
from geotfr.vectors.shapes import codes_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geotfr.vectors.source import Table

__all__ = ["NUMBER", "read_patch_numbers"]

NUMBER = "number"
"""The column of a patch table that numbers its patches."""


def read_patch_numbers(table: Table, column: str | None) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """The column ``number`` of ``table``, and codes of the values of another, if it has that, see :func:`codes_of`.

    Raises
    ------
    InputError
        A number that is missing, or is no whole number from 0.
    """
    found: list[Any] = []
    values: list[Any] = []
    has_column = column is not None and column in table.columns
    for batch in table.batches():
        array = batch.column(NUMBER)
        numbers = np.asarray(array.to_numpy(zero_copy_only=False))
        is_whole = array.null_count == 0 and (numbers.dtype.kind in "iu" or bool((numbers == np.floor(numbers)).all()))
        if not is_whole or (len(numbers) and numbers.min() < 0):
            raise InputError(f"{table.name}: column {NUMBER!r} holds something else than whole numbers from 0")
        found.append(numbers.astype(np.int64))
        if has_column:
            values.append(batch.column(column))
    numbers = np.concatenate(found) if found else np.empty(0, np.int64)
    if not has_column or column is None:
        return numbers, None
    codes, _ = codes_of(values, table.schema.field(column).type, where=f"{table.name}: column {column!r}")
    return numbers, codes

"""Columns of the user's for a patch table: a CSV or Parquet file with a row for each patch that it knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import DamagedError, InputError, UsageError
from geotfr.vectors.csv_integers import types_of_large_integers
from geotfr.vectors.extra import load_arrow
from geotfr.vectors.safe_open import PYARROW_DRIVERS, vector_kind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from geotfr.vectors.patch_table import TablePart

__all__ = ["UserColumns"]

_KEYS = ("number", "source")


class UserColumns:
    """A file's columns, to be joined by ``number``, and by ``source`` if it has that column too."""

    def __init__(self, path: Path, table: Any) -> None:
        self._path = path
        self._table = table

    @staticmethod
    def read(path: Path) -> UserColumns:
        """The columns in a CSV or Parquet file.

        Raises
        ------
        MissingInputError, InputError
            The file isn't there, or can't be read.
        UsageError
            It has no column ``number`` of whole numbers, or nothing else.
        """
        pa = load_arrow()
        kind = vector_kind(path)
        if kind.driver not in PYARROW_DRIVERS:
            raise InputError(f"{path}: {kind.words}, no CSV or Parquet table")
        try:
            if kind.driver == "CSV":
                table = _read_csv(path)
            else:
                # Not read_table: it takes folders and addresses too.
                table = load_arrow("pyarrow.parquet").ParquetFile(path).read()
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path}: no CSV or Parquet table: {' '.join(str(error).split())}") from error
        if "number" not in table.column_names or not pa.types.is_integer(table["number"].type):
            raise UsageError(
                f"{path}: no column 'number' of whole numbers, by which rows are joined; it has"
                f" {', '.join(table.column_names)}"
            )
        if not set(table.column_names) - set(_KEYS):
            raise UsageError(f"{path}: no column beside {' and '.join(_KEYS)}; there is nothing to add")
        return UserColumns(path, table)

    def for_rows(self, parts: Sequence[TablePart]) -> dict[str, Any]:
        """Column -> pyarrow array for the rows of ``parts``; null where the file has no row for a patch.

        Raises
        ------
        DamagedError
            Two rows of one patch.
        UsageError
            No row of a patch of these.
        """
        pa = load_arrow()
        numbers = np.concatenate([part.rows.numbers for part in parts])
        sources = [part.patches.source for part in parts]
        keys = numbers
        own = self._table["number"].fill_null(-1).to_numpy()
        if "source" in self._table.column_names:
            span = int(max(numbers.max(initial=0), own.max(initial=0))) + 1
            owners = np.repeat(np.arange(len(parts)), [len(part.rows) for part in parts])
            keys = numbers + owners * span
            named = load_arrow("pyarrow.compute").index_in(
                self._table["source"].cast(pa.string()), value_set=pa.array(sources)
            )
            own = np.where(own >= 0, own + named.fill_null(len(parts)).to_numpy() * span, -1)
        elif len(parts) > 1:
            raise UsageError(f"{self._path}: no column 'source', which tells the patches of several rasters apart")
        order = np.argsort(own, kind="stable")
        ordered = own[order]
        twice = np.flatnonzero((np.diff(ordered) == 0) & (ordered[1:] >= 0))
        if len(twice):
            number = self._table["number"][int(order[twice[0]])].as_py()
            raise DamagedError(f"{self._path}: patch {number} has two rows; one is expected")
        place = np.minimum(np.searchsorted(ordered, keys), max(len(ordered) - 1, 0))
        is_known = ordered[place] == keys if len(ordered) else np.zeros(len(keys), bool)
        if not is_known.any():
            raise UsageError(f"{self._path}: no row is of a patch of this table")
        taken = pa.array(np.where(is_known, order[place], 0), mask=~is_known)
        return {
            name: self._table[name].take(taken).combine_chunks()
            for name in self._table.column_names
            if name not in _KEYS
        }


def _read_csv(path: Path) -> Any:
    csv = load_arrow("pyarrow.csv")
    table = csv.read_csv(path)
    options = {"read_options": csv.ReadOptions(), "convert_options": csv.ConvertOptions()}
    large = types_of_large_integers(path, table.schema, options)
    return csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=large)) if large else table

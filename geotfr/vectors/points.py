"""Points to sample at, and the table that their samples make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import InputError, UsageError
from geotfr.vectors.extra import load
from geotfr.vectors.geometry import point_wkb
from geotfr.vectors.plan import GEOMETRY, batch_points, parse_selectors
from geotfr.vectors.source import table_in_memory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from geotfr.vectors.source import Table

__all__ = ["Points", "read_points"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Points in memory.

    Attributes
    ----------
    name
        What they come from.
    x, y
        ``(n,) float64`` in ``crs``; NaN where there is no geometry.
    crs
        Their CRS; empty if not known.
    columns
        A pyarrow Table of their columns.
    """

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    crs: str
    columns: Any

    def sampled(self, kept: NDArray[np.intp], bands: Mapping[str, NDArray[Any]]) -> Table:
        """The table of the points ``kept`` (their numbers): their columns, then ``bands``, then the geometry.

        Parameters
        ----------
        bands
            Name -> ``(n,)`` values of all points, or ``(n, row, col)`` neighborhoods.

        Raises
        ------
        UsageError
            A band that has a column's name.
        """
        pa = load("pyarrow")
        clash = next((name for name in bands if name in self.columns.column_names), None)
        if clash is not None:
            raise UsageError(
                f"the band {clash!r} has the name of a column of the points; rename it with --bands new={clash}, or"
                " leave the column out with --selectors"
            )
        # Columns are put together at the end: a table without any has no rows either.
        chosen = {name: self.columns[name].take(pa.array(kept)) for name in self.columns.column_names}
        chosen |= {name: _array(values, kept) for name, values in bands.items()}
        geometry = GEOMETRY
        while geometry in chosen:
            geometry += "_"
        chosen[geometry] = point_wkb(self.x[kept], self.y[kept])
        return table_in_memory(self.name, pa.table(chosen), geometry=geometry, crs=self.crs, is_points=True)


def read_points(table: Table, selectors: str | Sequence[str] | None) -> Points:
    """All points of ``table``, and the columns ``selectors`` (``new=old`` renames; None: all).

    Raises
    ------
    InputError
        A table without points, or with geometries that are none; a column that isn't there.
    """
    pa = load("pyarrow")
    if not table.has_geometry:
        raise InputError(f"{table.name}: has no geometries; name the points' columns with --x and --y")
    pairs = [(name, name) for name in table.columns] if selectors is None else parse_selectors(selectors)
    for _, old in pairs:
        if old not in table.columns:
            raise InputError(f"{table.name}: there is no column {old!r}; there are {', '.join(table.columns)}")
    batches, xs, ys = [], [np.empty(0)], [np.empty(0)]
    rows = 0
    for batch in table.batches():
        x, y, *_ = batch_points(table, batch, rows)
        xs.append(x)
        ys.append(y)
        batches.append(batch.select([old for _, old in pairs]))
        rows += batch.num_rows
    schema = pa.schema([table.schema.field(old) for _, old in pairs])
    columns = pa.Table.from_batches(batches, schema=schema).rename_columns([new for new, _ in pairs])
    return Points(name=table.name, x=np.concatenate(xs), y=np.concatenate(ys), crs=table.crs, columns=columns)


def _array(values: NDArray[Any], kept: NDArray[np.intp]) -> Any:
    """The values of the points ``kept`` as a pyarrow array, of lists of lists for neighborhoods."""
    pa = load("pyarrow")
    chosen = values if len(kept) == len(values) else values[kept]
    array = pa.array(np.ascontiguousarray(chosen).reshape(-1))
    for length in chosen.shape[:0:-1]:
        array = pa.FixedSizeListArray.from_arrays(array, length)
    return array

"""All geometries of a table in memory, in the CRS that is wanted, with the values of one column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import InputError, UsageError
from geotfr.options.values import nearest
from geotfr.vectors.extra import load
from geotfr.vectors.geometry import transform_between
from geotfr.vectors.plan import batch_points
from geotfr.vectors.source import TableRequest, open_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geotfr.vectors.source import Table

__all__ = ["Shapes", "codes_of", "read_shapes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """The geometries of a table.

    Attributes
    ----------
    name
        What they come from.
    shapes
        ``(n,) object``: shapely geometries in two dimensions; None where there is none, or where the CRS can't hold it.
    codes
        ``(n,) int64``: for each the place of its value in ``distinct``; -1 for null. All 0 where no column is asked
        for.
    distinct
        The column's different values, in order; a single None where no column is asked for.
    unplaced
        How many have a geometry that the CRS can't hold.
    """

    name: str
    shapes: NDArray[np.object_]
    codes: NDArray[np.int64]
    distinct: tuple[bool | int | float | str | None, ...]
    unplaced: int

    def __len__(self) -> int:
        return len(self.shapes)


def read_shapes(source: Any, request: TableRequest, *, crs: str, field: str | None, crs_option: str) -> Shapes:
    """The shapes of ``source`` in ``crs``, and the values of its column ``field``.

    Vertices are transformed; an edge stays straight between them.

    Parameters
    ----------
    crs
        What the shapes are wanted in; empty: as they are.
    crs_option
        The option that gives the source's CRS, for errors.

    Raises
    ------
    InputError
        No table, no geometries, no CRS, or no such column; a column of values that are no classes.
    """
    import shapely

    table = open_table(source, request)
    if not table.has_geometry:
        raise InputError(f"{table.name}: has no geometries; give a file of polygons, lines or points")
    if field is not None and field not in table.columns:
        raise InputError(
            f"{table.name}: there is no column {field!r}{nearest(field, table.columns)};"
            f" there are {', '.join(table.columns) or 'none'}"
        )
    if crs and not table.crs:
        raise InputError(f"{table.name}: has no CRS; give it with {crs_option}")
    found: list[NDArray[np.object_]] = [np.empty(0, object)]
    values: list[Any] = []
    rows = 0
    for batch in table.batches():
        found.append(_geometries(table, batch, rows))
        if field is not None:
            values.append(batch.column(field))
        rows += batch.num_rows
    shapes = shapely.force_2d(np.concatenate(found))
    shapes[shapely.is_empty(shapes)] = None
    there = ~shapely.is_missing(shapes)
    if crs:
        shapes = _transformed(shapes, table, crs)
    codes, distinct = _codes(table, field, values, rows)
    return Shapes(
        name=table.name,
        shapes=shapes,
        codes=codes,
        distinct=distinct,
        unplaced=int((there & shapely.is_missing(shapes)).sum()),
    )


def _geometries(table: Table, batch: Any, first_row: int) -> NDArray[np.object_]:
    import shapely

    if table.geometry is None:
        x, y, _ = batch_points(table, batch, first_row)
        points = shapely.points(np.where(np.isnan(x + y), 0, x), np.where(np.isnan(x + y), 0, y))
        points = np.asarray(points, object)
        points[np.isnan(x + y)] = None
        return points
    try:
        return np.asarray(shapely.from_wkb(batch.column(table.geometry).to_numpy(zero_copy_only=False)), object)
    except shapely.errors.GEOSException as error:
        raise InputError(f"{table.name}: a geometry of the rows from {first_row} on isn't WKB: {error}") from error


def _transformed(shapes: NDArray[np.object_], table: Table, crs: str) -> NDArray[np.object_]:
    import shapely

    transform = transform_between(table.crs, crs, where=table.name)
    if transform is None:
        return shapes
    moved = shapely.transform(shapes, lambda xy: np.stack(transform(xy[:, 0], xy[:, 1]), axis=1))
    bounds = shapely.bounds(moved)
    # PROJ gives infinity for what its projection can't hold.
    moved[~np.isfinite(bounds).all(axis=1)] = None
    return np.asarray(moved, object)


def _codes(
    table: Table, field: str | None, values: list[Any], rows: int
) -> tuple[NDArray[np.int64], tuple[bool | int | float | str | None, ...]]:
    if field is None:
        return np.zeros(rows, np.int64), (None,)
    return codes_of(values, table.schema.field(field).type, where=f"{table.name}: column {field!r}")


def codes_of(
    arrays: Sequence[Any], arrow: Any, *, where: str
) -> tuple[NDArray[np.int64], tuple[bool | int | float | str, ...]]:
    """Of each value of pyarrow ``arrays`` of one type the place among the different ones, in order; -1 for null.

    Raises
    ------
    UsageError
        A type whose values are no classes; ``where`` names the column.
    """
    pa = load("pyarrow")
    column = pa.chunked_array(arrays, arrow).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    types = pa.types
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    is_known = any(
        test(column.type)
        for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_string, types.is_large_string)
    )
    if not is_known and not types.is_null(column.type):
        raise UsageError(f"{where} holds {column.type}; classes are whole numbers, booleans or text")
    encoded = column.dictionary_encode()
    places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    distinct = encoded.dictionary.to_pylist()
    # NaN in a column of numbers is no class either.
    missing = [value is None or value != value for value in distinct]
    order = sorted((place for place in range(len(distinct)) if not missing[place]), key=lambda place: distinct[place])
    rank = np.full(len(distinct) + 1, -1, np.int64)
    rank[order] = np.arange(len(order))
    return rank[places], tuple(distinct[place] for place in order)

"""All geometries of a table in memory, in the CRS that is wanted, with the values of one column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import InputError, UsageError
from geotfr.options.values import nearest
from geotfr.vectors.extra import load
from geotfr.vectors.geometry import finite_shapes, shapes_of_wkb, transform_between
from geotfr.vectors.plan import batch_points
from geotfr.vectors.source import TableRequest, open_table
from geotfr.vectors.wkt_column import with_wkt_column

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
        ``(n,) object``: shapely geometries in two dimensions; None where there is none, where a vertex isn't finite, or
        where the CRS can't hold it.
    codes
        ``(n,) int64``: for each the place of its value in ``distinct``; -1 for null. All 0 where no column is asked
        for.
    distinct
        The column's different values, in order; a single None where no column is asked for. Of text those of all rows
        of the source, whichever the condition selects, so that a class keeps its place.
    unplaced
        How many have a geometry that the CRS can't hold.
    infinite
        How many have a geometry with a vertex that isn't finite.
    warnings
        What a user should know of how the source is read, one line each.
    """

    name: str
    shapes: NDArray[np.object_]
    codes: NDArray[np.int64]
    distinct: tuple[bool | int | float | str | None, ...]
    unplaced: int
    infinite: int = 0
    warnings: tuple[str, ...] = ()

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

    table = with_wkt_column(open_table(source, request), crs_option=crs_option, needs_crs=bool(crs))
    if not table.has_geometry:
        raise InputError(
            f"{table.name}: has no geometries; give a file of polygons, lines or points, or a column of WKT"
        )
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
    is_finite = finite_shapes(shapes)
    shapes[~is_finite] = None
    there = ~shapely.is_missing(shapes)
    if crs:
        shapes = _transformed(shapes, table, crs)
    codes, distinct = _codes(table, field, values, rows)
    if request.where is not None and field is not None and all(isinstance(value, str) for value in distinct):
        codes, distinct = _among_all(codes, distinct, source, request, field)
    return Shapes(
        name=table.name,
        shapes=shapes,
        codes=codes,
        distinct=distinct,
        unplaced=int((there & shapely.is_missing(shapes)).sum()),
        infinite=int((~is_finite).sum()),
        warnings=table.warnings,
    )


def _geometries(table: Table, batch: Any, first_row: int) -> NDArray[np.object_]:
    import shapely

    if table.geometry is None:
        x, y, *_ = batch_points(table, batch, first_row)
        points = shapely.points(np.where(np.isnan(x + y), 0, x), np.where(np.isnan(x + y), 0, y))
        points = np.asarray(points, object)
        points[np.isnan(x + y)] = None
        return points
    return shapes_of_wkb(batch.column(table.geometry), where=table.name, first_row=first_row)


def _transformed(shapes: NDArray[np.object_], table: Table, crs: str) -> NDArray[np.object_]:
    import shapely

    transform = transform_between(table.crs, crs, where=table.name)
    if transform is None:
        return shapes
    moved = shapely.transform(shapes, lambda xy: np.stack(transform(xy[:, 0], xy[:, 1]), axis=1))
    # PROJ gives infinity for what its projection can't hold.
    moved[~finite_shapes(moved)] = None
    return np.asarray(moved, object)


def _codes(
    table: Table, field: str | None, values: list[Any], rows: int
) -> tuple[NDArray[np.int64], tuple[bool | int | float | str | None, ...]]:
    if field is None:
        return np.zeros(rows, np.int64), (None,)
    return codes_of(values, table.schema.field(field).type, where=f"{table.name}: column {field!r}")


def _among_all(
    codes: NDArray[np.int64], distinct: Sequence[Any], source: Any, request: TableRequest, field: str
) -> tuple[NDArray[np.int64], tuple[bool | int | float | str | None, ...]]:
    """``codes`` of the texts ``distinct`` as places among those of all rows of ``source``."""
    table = open_table(source, replace(request, where=None)).select([field])
    values = [batch.column(field) for batch in table.batches()]
    _, known = _codes(table, field, values, 0)
    places = np.array([*(known.index(value) for value in distinct), -1], np.int64)
    return places[codes], known


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

"""Geometries that stand as WKT in a column of text, as in a CSV."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import InputError
from geotfr.grid.crs import crs_text, crs_wkt
from geotfr.vectors.extra import load
from geotfr.vectors.geometry import LONLAT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from geotfr.vectors.source import Table

__all__ = ["with_wkt_column"]

_NAMES = ("wkt", "geometry", "geom", "the_geom", "wkt_geometry", "wkt_geom")
"""What such a column is called, in any case. **Source**: GDAL's CSV driver, PostGIS and QGIS."""

_SRID = re.compile(r"\s*SRID=(\d+)\s*;", re.IGNORECASE)
_FARTHEST_LONLAT = (360.0, 90.0)


def with_wkt_column(table: Table, *, crs_option: str, needs_crs: bool) -> Table:
    """``table`` with the geometries of its column of WKT; as it is without one column that is called so.

    The CRS is that of the table, else the SRID before the first text, else longitude and latitude, which is told.

    Parameters
    ----------
    crs_option
        The option that gives the CRS, for errors.
    needs_crs
        Whether a CRS is wanted.

    Raises
    ------
    InputError
        Text that isn't WKT, or no CRS where it can't be longitude and latitude.
    """
    pa = load("pyarrow")
    types = pa.types
    names = [
        field.name
        for field in table.schema
        if field.name.lower() in _NAMES and (types.is_string(field.type) or types.is_large_string(field.type))
    ]
    if table.has_geometry or len(names) != 1:
        return table
    name = names[0]
    place = table.schema.get_field_index(name)
    schema = table.schema.set(place, pa.field(name, pa.binary()))
    crs, warnings = table.crs, table.warnings
    if needs_crs and not crs:
        found = _SRID.match(_first_text(table, name))
        crs = crs_text(crs_wkt(f"EPSG:{found[1]}")) if found else LONLAT
        if not found:
            _check_lonlat(table, name, crs_option)
            told = f"{table.name}: column {name!r} has no CRS; its WKT is taken as longitude and latitude, {crs_option}"
            warnings = (*warnings, f"{told} names another")

    def batches() -> Iterator[Any]:
        import shapely

        row = 0
        for batch in table.batches():
            wkb = pa.array(shapely.to_wkb(_shapes(batch.column(place), name, table.name, row)), pa.binary())
            row += batch.num_rows
            arrays = [wkb if number == place else array for number, array in enumerate(batch.columns)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return replace(table, schema=schema, geometry=name, crs=crs, warnings=warnings, batches=batches)


def _first_text(table: Table, name: str) -> str:
    for batch in table.batches():
        for text in batch.column(name).to_pylist():
            if text:
                return str(text)
    return ""


def _check_lonlat(table: Table, name: str, crs_option: str) -> None:
    import shapely

    row = 0
    for batch in table.batches():
        xy = np.abs(shapely.get_coordinates(_shapes(batch.column(name), name, table.name, row)))
        if (xy[np.isfinite(xy).all(axis=1)] > _FARTHEST_LONLAT).any():
            raise InputError(
                f"{table.name}: column {name!r} has no CRS, and isn't longitude and latitude; give it with {crs_option}"
            )
        row += batch.num_rows


def _shapes(array: Any, name: str, table: str, first_row: int) -> NDArray[np.object_]:
    """The shapes of a pyarrow array of WKT or EWKT; None where there is no text."""
    import shapely

    texts = [_SRID.sub("", text, count=1) if text else None for text in array.to_pylist()]
    try:
        return np.asarray(shapely.from_wkt(np.array(texts, object)), object)
    except shapely.errors.ShapelyError:
        for row, text in enumerate(texts, start=first_row):
            try:
                shapely.from_wkt(text)
            except shapely.errors.ShapelyError as error:
                raise InputError(
                    f"{table}: row {row}, column {name!r}: not WKT: {' '.join(str(error).split())}"
                ) from error
        raise

"""Which features the records of a table have, and the features of each batch of its rows."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import InputError, UsageError
from geotfr.records.kind import Kind
from geotfr.vectors.arrow_arrays import as_numpy, present_rows
from geotfr.vectors.features import ColumnTally, feature_of, number_column, text_column
from geotfr.vectors.geometry import LONLAT, Places, geojson_of, points_of, transform_between, wkb_axes
from geotfr.vectors.types import ColumnInfo, describe_type, kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geotfr.options.export import FeatureKinds
    from geotfr.options.tables import GeometryMode
    from geotfr.vectors.columns import FeatureColumn
    from geotfr.vectors.geometry import Transform
    from geotfr.vectors.source import Table

__all__ = [
    "GEOMETRY",
    "LATITUDE",
    "LONGITUDE",
    "TablePlan",
    "batch_points",
    "parse_selectors",
    "plan_table",
]

LONGITUDE, LATITUDE, GEOMETRY = "longitude", "latitude", "geometry"
"""What features made from geometries are called. **Source**: Earth Engine's client, for the first two."""

_MADE: dict[str, tuple[str, ...]] = {
    "none": (),
    "lonlat": (LONGITUDE, LATITUDE),
    "wkb": (GEOMETRY,),
    "geojson": (GEOMETRY,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """What the records of a table hold.

    Attributes
    ----------
    table
        The rows.
    columns
        The features, in order.
    geometry
        How geometries are kept.
    crs
        CRS of the geometries in the records; empty without.
    notes
        What a user should know before.
    """

    table: Table
    columns: tuple[ColumnInfo, ...]
    geometry: GeometryMode
    crs: str
    notes: tuple[str, ...]
    transform: Transform | None

    def features(self, batch: Any, first_row: int) -> tuple[list[FeatureColumn], list[ColumnTally]]:
        """The features of a pyarrow ``batch`` whose first row is number ``first_row`` of the table; and their tallies.

        Raises
        ------
        InputError
            A value that fits no feature, see :func:`geotfr.vectors.features.feature_of`, or a geometry that is no
            point where points are wanted.
        """
        made, lost = self._made(batch, first_row)
        columns, tallies = [], []
        for info in self.columns:
            if info.is_made:
                column = replace(made[info.source], name=info.name)
                tally = ColumnTally(absent=int((~column.present).sum()))
                if info.source != LONGITUDE:
                    tally.add(lost)
            else:
                column, tally = feature_of(batch.column(info.source), info, table=self.table.name, first_row=first_row)
            columns.append(column)
            tallies.append(tally)
        return columns, tallies

    def _made(self, batch: Any, first_row: int) -> tuple[dict[str, FeatureColumn], ColumnTally]:
        """The features that are made from geometries, by name; and which of their axes are left out."""
        if self.geometry == "none":
            return {}, ColumnTally()
        if self.geometry == "lonlat":
            x, y, heights, measures = batch_points(
                self.table, batch, first_row, instead="use --geometry wkb or geojson, or "
            )
            if self.transform is not None:
                x, y = self.transform(x, y)
            valid = np.isfinite(x) & np.isfinite(y)
            return {
                LONGITUDE: number_column(LONGITUDE, x, valid),
                LATITUDE: number_column(LATITUDE, y, valid),
            }, ColumnTally(heights=heights, measures=measures)
        array = batch.column(self.table.geometry)
        lost = ColumnTally()
        if self.geometry == "geojson":
            lost.measures = int(np.count_nonzero(wkb_axes(array)[1]))
            array = geojson_of(array, self.transform, where=self.table.name, first_row=first_row)
        return {GEOMETRY: text_column(GEOMETRY, array)}, lost


def batch_points(table: Table, batch: Any, first_row: int, *, instead: str = "") -> Places:
    """The places of a batch of points, in the table's CRS; ``instead`` as for :func:`points_of`."""
    if table.xy is None:
        return points_of(batch.column(table.geometry), where=table.name, first_row=first_row, instead=instead)
    found = []
    for name in table.xy:
        array = batch.column(name)
        type_name, shape = describe_type(array.type, where=f"{table.name}: column {name!r}")
        if shape or (kind_of(type_name, "float") is not Kind.FLOAT):
            raise InputError(f"{table.name}: column {name!r} holds {array.type}, a coordinate is a number")
        values = np.full(len(array), np.nan)
        values[present_rows(array)] = as_numpy(array.drop_null() if array.null_count else array)
        found.append(values)
    return Places(found[0], found[1])


def plan_table(
    table: Table,
    *,
    selectors: str | Sequence[str] | None,
    geometry: GeometryMode | None,
    feature_kinds: FeatureKinds,
) -> TablePlan:
    """The features that ``table`` makes.

    Parameters
    ----------
    selectors
        Columns in the order of the features, ``new=old`` renames; None is all. ``longitude``, ``latitude`` and
        ``geometry`` may name what is made from geometries; unnamed, these come last.
    geometry
        How geometries are kept. None: as ``lonlat`` where all are points and no column has that name, else not.
    feature_kinds
        ``float`` or ``native``.

    Raises
    ------
    InputError
        A column that isn't there, or of a type that fits no feature, or no geometries where some are asked for.
    UsageError
        Names that clash.
    """
    pairs = None if selectors is None else parse_selectors(selectors)
    mode: GeometryMode = geometry if geometry is not None else _usual_geometry(table, pairs)
    _check_geometry(table, mode)
    made = _MADE[mode]
    # Columns that are the coordinates come back as what is made of them; others of that name clash.
    coordinates = table.xy or () if mode == "lonlat" else ()
    columns = [name for name in table.columns if not (name in coordinates and name in made)]
    if pairs is None:
        pairs = [(name, name) for name in (*columns, *made)]
    else:
        pairs += [(name, name) for name in made if name not in [old for _, old in pairs]]
    infos = [
        _made_info(new, old, mode)
        if old in made and old not in columns
        else _info(table, new, old, columns, feature_kinds)
        for new, old in pairs
    ]
    _check_names(infos, made, columns)
    crs = ""
    if mode != "none":
        crs = table.crs if mode == "wkb" else LONLAT
    needs_lonlat = mode in ("lonlat", "geojson")
    return TablePlan(
        table=table,
        columns=tuple(infos),
        geometry=mode,
        crs=crs,
        notes=_notes(table, mode, geometry, columns),
        transform=transform_between(table.crs, LONLAT, where=table.name) if needs_lonlat else None,
    )


def parse_selectors(selectors: str | Sequence[str]) -> list[tuple[str, str]]:
    """(new, old) of each selector."""
    texts = [text.strip() for text in selectors.split(",")] if isinstance(selectors, str) else list(selectors)
    pairs = []
    for text in texts:
        new, separator, old = text.partition("=")
        if not new or (separator and not old):
            raise UsageError(f"--selectors: {text!r} names no column; give a,b or new=old")
        pairs.append((new, old or new))
    return pairs


def _usual_geometry(table: Table, pairs: Sequence[tuple[str, str]] | None) -> GeometryMode:
    if not table.is_points or {LONGITUDE, LATITUDE} & set(table.columns):
        return "none"
    if pairs is not None and not {LONGITUDE, LATITUDE} <= {old for _, old in pairs}:
        return "none"
    return "lonlat"


def _check_geometry(table: Table, mode: GeometryMode) -> None:
    if mode == "none":
        return
    if not table.has_geometry:
        raise InputError(
            f"{table.name}: has no geometries for --geometry {mode}; name the points' columns with --x and --y"
        )
    if table.geometry is None and mode != "lonlat":
        raise UsageError(f"--geometry {mode}: {table.name} has points in columns alone; use lonlat or none")


def _info(table: Table, new: str, old: str, columns: Sequence[str], feature_kinds: FeatureKinds) -> ColumnInfo:
    if old not in columns:
        near = difflib.get_close_matches(old, columns, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(f"{table.name}: there is no column {old!r}{hint}; there are {', '.join(columns) or 'none'}")
    arrow = table.schema.field(old).type
    type_name, shape = describe_type(arrow, where=f"{table.name}: column {old!r}")
    return ColumnInfo(name=new, source=old, type=type_name, kind=kind_of(type_name, feature_kinds), shape=shape)


def _made_info(new: str, old: str, mode: GeometryMode) -> ColumnInfo:
    type_name = {"lonlat": "float64", "wkb": "binary"}.get(mode, "string")
    return ColumnInfo(name=new, source=old, type=type_name, kind=kind_of(type_name, "float"), is_made=True)


def _check_names(infos: Sequence[ColumnInfo], made: Sequence[str], columns: Sequence[str]) -> None:
    names = [info.name for info in infos]
    taken = [name for name in made if name in columns and any(info.source == name for info in infos)]
    twice = [name for name in names if names.count(name) > 1]
    if taken or any(name in made for name in twice):
        clash = (taken or twice)[0]
        raise UsageError(
            f"the feature {clash!r} is made from the geometry and is a column too; use --geometry none, or name the"
            " columns wanted with --selectors"
        )
    if twice:
        raise UsageError(f"--selectors: two features are called {twice[0]!r}; rename one as new={twice[0]}")


def _notes(table: Table, mode: GeometryMode, asked: str | None, columns: Sequence[str]) -> tuple[str, ...]:
    if mode != "none" or asked is not None or not table.has_geometry or {LONGITUDE, LATITUDE} & set(columns):
        return table.warnings
    left_out = f"{table.name}: the geometries are left out; --geometry lonlat, wkb or geojson keeps them"
    return (*table.warnings, left_out)

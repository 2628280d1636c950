"""Patch tables of several sets as one."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr._version import __version__
from geotfr.errors import UsageError
from geotfr.grid.crs import same_crs
from geotfr.grid.footprints import LONLAT, bounds_outlines
from geotfr.mixer.patch_tables import PATCH_TABLE_KEY
from geotfr.vectors.arrow_arrays import numbers, texts_by_number
from geotfr.vectors.extra import load_arrow
from geotfr.vectors.geoparquet import BBOX, bbox_column, geo_metadata, outline_wkb, wkb_bounds
from geotfr.vectors.patch_table import TABLE_FORMAT, write_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from geotfr.vectors.geoparquet import ByteSink
    from geotfr.vectors.patch_table import PatchTable

__all__ = ["write_joined_tables"]

_LAST = ("west", "south", "east", "north", "source", "split", "geometry", BBOX)


def write_joined_tables(file: ByteSink, tables: Sequence[PatchTable], *, before: PatchTable | None = None) -> int:
    """Write the rows of all ``tables``, one behind the other; the rows written.

    A split that the joined table had ``before`` stays with its patches; new ones have none.

    Columns that a table doesn't have are null in its rows; the share of a class that it doesn't have, of a band whose
    classes it counted, is 0. Outlines are in the one CRS of all, or else in longitude and
    latitude: the bounds.

    Raises
    ------
    UsageError
        Two sets with one source, or a column of different types.
    """
    pa = load_arrow()
    sources = [patches.source for table in tables for patches in table.sets]
    for source in sources:
        if sources.count(source) > 1:
            raise UsageError(
                f"two sets of one source, {source!r}; its name tells the rows of a table apart: rename one"
            )
    crs = tables[0].sets[0].geobox.crs
    is_one_crs = all(same_crs(patches.geobox.crs, crs) for table in tables for patches in table.sets)
    types: dict[str, Any] = {}
    for table in tables:
        for field in table.schema:
            known = types.setdefault(field.name, field.type)
            if known != field.type:
                raise UsageError(f"{table.path}: column {field.name!r} is {field.type}, elsewhere {known}")
    names = [*(name for name in types if name not in _LAST), *(name for name in _LAST if name in types)]
    described = {
        "format": TABLE_FORMAT,
        "geotfr_version": __version__,
        "sets": [patches.to_dict() for table in tables for patches in table.sets],
        "extra": {**({} if before is None else before.extra), "members": [table.path.name for table in tables]},
    }
    splits = _Splits(before)
    geo = geo_metadata(
        "geometry",
        geometry_types=["Polygon"],
        crs=crs if is_one_crs else LONLAT,
        is_ccw=True,
        bbox=BBOX if BBOX in names else None,
    )
    schema = pa.schema(
        [pa.field(name, types[name]) for name in names],
        metadata={"geo": json.dumps(geo), PATCH_TABLE_KEY: json.dumps(described)},
    )

    def batches() -> Iterator[Any]:
        for table in tables:
            counted = {_class_band(name) for name in table.names} - {None}
            for group in table.groups():
                arrays = {name: group[name] for name in group.column_names}
                arrays |= _outlines(group, is_one_crs=is_one_crs)
                arrays["split"] = splits.of(group)
                none = numbers(np.zeros(group.num_rows))
                for name in names:
                    if name not in arrays:
                        is_counted = _class_band(name) in counted and types[name] == pa.float64()
                        arrays[name] = none if is_counted else pa.nulls(group.num_rows, types[name])
                yield pa.Table.from_arrays([arrays[name] for name in names], schema=schema)

    write_batches(file, schema, batches())
    return sum(map(len, tables))


def _outlines(group: Any, *, is_one_crs: bool) -> dict[str, Any]:
    """The columns of outlines and their bounds that the rows of ``group`` get, where they aren't the group's own."""
    if not is_one_crs:
        sides = [np.asarray(group[name].to_numpy(zero_copy_only=False), np.float64) for name in _LAST[:4]]
        bounds = np.stack(sides, axis=1)
        return {"geometry": outline_wkb(bounds_outlines(bounds)), BBOX: bbox_column(bounds)}
    # A table of an earlier version has no bounds.
    return {} if BBOX in group.column_names else {BBOX: bbox_column(wkb_bounds(group["geometry"]))}


def _class_band(column: str) -> str | None:
    """The band that a column of class shares is of, empty where it is the only one; None for another column.

    >>> _class_band("share_landcover_3"), _class_band("share_3"), _class_band("mean_b1")
    ('landcover', '', None)
    """
    found = re.fullmatch(r"share_(?:(.*)_)?-?[0-9]+", column)
    return None if found is None else found[1] or ""


class _Splits:
    """The splits of patches that a table knows, by source and number."""

    def __init__(self, table: PatchTable | None) -> None:
        self._texts: list[str] = []
        self._codes: dict[str, Any] = {}
        if table is None:
            return
        codes, self._texts = table.codes("split")
        patch_numbers, owners = table.column("number"), table.set_numbers()
        for place, patches in enumerate(table.sets):
            mine = owners == place
            known = np.full(patches.rows * patches.columns, -1, np.int64)
            known[patch_numbers[mine]] = codes[mine]
            self._codes[patches.source] = known

    def of(self, group: Any) -> Any:
        """The splits of the rows of ``group``, which are those of one source; its own for a source not known."""
        source = group["source"][0].as_py() if group.num_rows else None
        known = self._codes.get(source or "")
        if known is None:
            return group["split"]
        patches = group["number"].to_numpy()
        places = np.minimum(patches, len(known) - 1)
        return texts_by_number(np.where(patches < len(known), known[places], -1), self._texts)

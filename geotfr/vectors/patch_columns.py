"""The columns of a patch table, made of what is known of the patches and of where their records are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.grid.crs import same_crs
from geotfr.grid.footprints import LONLAT, Footprints, bounds_outlines
from geotfr.vectors import arrow_arrays as arrow
from geotfr.vectors.extra import load_arrow
from geotfr.vectors.geoparquet import BBOX, bbox_column, bbox_type, outline_wkb

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from geotfr.records.places import RecordPlaces
    from geotfr.vectors.patch_set import TablePart

__all__ = ["GROUP_ROWS", "PatchColumns", "place_columns"]

GROUP_ROWS = 1 << 15
"""Rows that are made, and written, at a time."""

_STATISTICS = ("count", "min", "max", "mean", "std")


class PatchColumns:
    """The columns that all parts of a table together have, and the batches that fill them.

    Attributes
    ----------
    crs
        Of the outlines: that of all parts, or longitude and latitude where they have several.
    fields
        Names and types, pyarrow fields.
    """

    def __init__(self, parts: Sequence[TablePart]) -> None:
        pa = load_arrow()
        crs = parts[0].patches.geobox.crs
        self._parts = parts
        self._is_one_crs = all(same_crs(part.patches.geobox.crs, crs) for part in parts)
        self.crs = crs if self._is_one_crs else LONLAT
        self._features = list(dict.fromkeys(name for part in parts for name in part.rows.statistics))
        self._classes: dict[str, list[int]] = {}
        for part in parts:
            for name, counts in part.rows.classes.items():
                self._classes[name] = sorted({*self._classes.get(name, ()), *counts.classes.tolist()})
        whole, number, text, small = pa.int64(), pa.float64(), pa.string(), pa.int32()
        types = {
            "number": whole,
            "row": small,
            "column": small,
            "shard": text,
            "record": whole,
            "records": small,
            "offset": whole,
            "length": whole,
            "member": whole,
            "member_start": whole,
            "sha256": pa.binary(32),
            "valid_share": number,
            "masked_share": number,
        }
        for name in self._features:
            types |= {f"{each}_{name}": whole if each == "count" else number for each in _STATISTICS}
        for name, classes in self._classes.items():
            types |= {_share_name(name, value, self._classes): number for value in classes}
        types |= dict.fromkeys(("west", "south", "east", "north"), number)
        types |= {"source": text, "split": text, "geometry": pa.binary(), BBOX: bbox_type()}
        self.fields = [pa.field(name, kind) for name, kind in types.items()]

    def batches(self) -> Iterator[tuple[dict[str, Any], int]]:
        """Of some rows at a time the columns, name -> pyarrow array, and how many rows they are."""
        for part in self._parts:
            patches = part.patches
            footprints = Footprints(patches.geobox.crs, patches.geobox.affine, patches.patch_yx)
            for start in range(0, len(part.rows), GROUP_ROWS):
                rows = slice(start, min(start + GROUP_ROWS, len(part.rows)))
                yield self._columns(part, rows, footprints), rows.stop - rows.start

    def bounds(self) -> list[float] | None:
        """The bounds of all outlines; None without a row, and where they are in longitude and latitude."""
        boxes = []
        for part in self._parts:
            if not self._is_one_crs or not len(part.rows):
                return None
            row, column = np.divmod(part.rows.numbers, part.patches.columns)
            ends = np.array([[r, c] for r in (row.min(), row.max()) for c in (column.min(), column.max())])
            footprints = Footprints(part.patches.geobox.crs, part.patches.geobox.affine, part.patches.patch_yx)
            outlines = footprints.outlines(ends[:, 0], ends[:, 1])
            boxes.append(np.concatenate([outlines.min(axis=(0, 1)), outlines.max(axis=(0, 1))]))
        west, south = np.min(boxes, axis=0)[:2].tolist()
        east, north = np.max(boxes, axis=0)[2:].tolist()
        return [west, south, east, north]

    def _columns(self, part: TablePart, rows: slice, footprints: Footprints) -> dict[str, Any]:
        pa = load_arrow()
        patches, numbers = part.patches, part.rows.numbers[rows]
        row, column = np.divmod(numbers, patches.columns)
        count = len(numbers)
        bounds = footprints.lonlat_bounds(row, column)
        outlines = footprints.outlines(row, column) if self._is_one_crs else bounds_outlines(bounds)
        return {
            "number": arrow.numbers(numbers),
            "row": arrow.numbers(row.astype(np.int32)),
            "column": arrow.numbers(column.astype(np.int32)),
            **place_columns(part.places.part(rows), [name for name, _, _ in patches.shards]),
            "records": arrow.numbers(np.full(count, part.rows.records, np.int32)),
            "length": arrow.numbers(part.rows.lengths[rows]),
            "sha256": arrow.blobs(part.rows.digests[rows]),
            **_shares(part, rows, count),
            **self._statistics(part, rows, count),
            **{
                name: arrow.numbers_but_nan(bounds[:, place])
                for place, name in enumerate(("west", "south", "east", "north"))
            },
            "source": arrow.repeated_text(patches.source, count),
            "split": pa.nulls(count, pa.string()),
            "geometry": outline_wkb(outlines),
            BBOX: bbox_column(np.concatenate([outlines.min(axis=1), outlines.max(axis=1)], axis=1)),
        }

    def _statistics(self, part: TablePart, rows: slice, count: int) -> dict[str, Any]:
        pa = load_arrow()
        columns: dict[str, Any] = {}
        for name in self._features:
            found = part.rows.statistics.get(name)
            if found is None:
                columns |= {
                    f"{each}_{name}": pa.nulls(count, pa.int64() if each == "count" else pa.float64())
                    for each in _STATISTICS
                }
                continue
            some = found.part(rows)
            columns[f"count_{name}"] = arrow.numbers(some.counts)
            columns[f"min_{name}"] = arrow.numbers_but_nan(some.lows)
            columns[f"max_{name}"] = arrow.numbers_but_nan(some.highs)
            columns[f"mean_{name}"] = arrow.numbers_but_nan(some.means)
            columns[f"std_{name}"] = arrow.numbers_but_nan(some.deviations)
        pixels = part.patches.patch_yx[0] * part.patches.patch_yx[1]
        for name, classes in self._classes.items():
            counts = part.rows.classes.get(name)
            known = {} if counts is None else dict(zip(counts.classes.tolist(), counts.counts[rows].T, strict=True))
            for value in classes:
                share = pa.nulls(count, pa.float64())
                if counts is not None:
                    share = arrow.numbers(known[value] / pixels if value in known else np.zeros(count))
                columns[_share_name(name, value, self._classes)] = share
        return columns


def place_columns(places: RecordPlaces, names: Sequence[str]) -> dict[str, Any]:
    """The columns that tell where records are: name -> pyarrow array. ``names`` are those of the shards."""
    is_packed = places.members >= 0
    return {
        "shard": arrow.texts_by_number(places.shards, names),
        "record": arrow.numbers(places.records),
        "offset": arrow.numbers(places.offsets),
        "member": arrow.numbers(places.members, valid=is_packed),
        "member_start": arrow.numbers(places.member_starts, valid=is_packed),
    }


def _share_name(band: str, value: int, classes: Mapping[str, Any]) -> str:
    return f"share_{value}" if len(classes) == 1 else f"share_{band}_{value}"


def _shares(part: TablePart, rows: slice, count: int) -> dict[str, Any]:
    pa = load_arrow()
    if part.rows.masked is None:
        return {name: pa.nulls(count, pa.float64()) for name in ("valid_share", "masked_share")}
    masked = part.rows.masked[rows] / (part.patches.patch_yx[0] * part.patches.patch_yx[1])
    return {"valid_share": arrow.numbers(1 - masked), "masked_share": arrow.numbers(masked)}

"""Record files as tables: their columns, their geometries, their rows batch by batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import InputError, UsageError
from geotfr.grid.crs import crs_text, crs_wkt
from geotfr.records.faults import ReadReport
from geotfr.records.kind import Kind
from geotfr.vectors.decode import read_feature_rows
from geotfr.vectors.extra import load
from geotfr.vectors.geometry import LONLAT, point_wkb, wkb_of_geojson
from geotfr.vectors.plan import LATITUDE, LONGITUDE
from geotfr.vectors.restore import Restorer, restored_type
from geotfr.vectors.schema import scan_records
from geotfr.vectors.sink import TableShape
from geotfr.vectors.types import ColumnInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from geotfr.records.framing import BadRecord
    from geotfr.vectors.columns import FeatureColumn
    from geotfr.vectors.decode import FeatureRows
    from geotfr.vectors.manifest import TableManifest

__all__ = ["GeometryRequest", "RecordTable", "record_table"]

_GEOMETRY = "geometry"


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometryRequest:
    """Where the geometries of records are.

    Attributes
    ----------
    x, y
        Features with the points' coordinates; by default ``longitude`` and ``latitude``, where they are.
    column
        Feature with WKB or GeoJSON.
    crs
        CRS of the geometries, in place of the manifest's, or of EPSG:4326.
    """

    x: str | None = None
    y: str | None = None
    column: str | None = None
    crs: str | None = None

    def __post_init__(self) -> None:
        if (self.x is None) != (self.y is None):
            raise UsageError("--x and --y: one is given without the other; name both features")
        if self.x is not None and self.column is not None:
            raise UsageError("--x, --y and --geometry-column: each says where the geometry is; give one")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTable:
    """The rows that record files hold.

    Attributes
    ----------
    shape
        What the batches are.
    rows
        Records, where they are known.
    """

    shape: TableShape
    rows: int | None
    paths: tuple[str, ...]
    restorers: tuple[Restorer, ...]
    geometry: _Points | _Shapes | None
    on_bad_record: BadRecord

    def batches(self, report: ReadReport) -> Iterator[Any]:
        """pyarrow RecordBatches of all rows, in order."""
        pa = load("pyarrow")
        for path in self.paths:
            width = max(1, len(self.shape.schema))
            for rows in read_feature_rows(path, on_bad_record=self.on_bad_record, report=report, width=width):
                arrays = [restorer.array(rows) for restorer in self.restorers]
                if self.geometry is not None:
                    arrays.append(self.geometry.wkb(rows))
                yield pa.RecordBatch.from_arrays(arrays, schema=self.shape.schema)


@dataclass(frozen=True, slots=True)
class _Points:
    """Points of two features."""

    x: str
    y: str

    def wkb(self, rows: FeatureRows) -> Any:
        found = []
        for name in (self.x, self.y):
            column = rows.columns.get(name)
            values = np.full(rows.count, np.nan)
            if column is not None:
                if column.kind is Kind.BYTES or not np.array_equal(column.lengths(), column.present):
                    raise InputError(f"{rows.path}: the feature {name!r} is not one number a record: no coordinate")
                values[column.present] = column.values
            found.append(values)
        return point_wkb(*found)


@dataclass(frozen=True, slots=True)
class _Shapes:
    """Geometries of one feature: WKB, or GeoJSON text."""

    column: str
    is_geojson: bool

    def wkb(self, rows: FeatureRows) -> Any:
        type_name = "string" if self.is_geojson else "binary"
        array = Restorer(info=_bytes_info(self.column, type_name)).array(rows)
        return wkb_of_geojson(array, where=rows.path, first_row=rows.first) if self.is_geojson else array


def record_table(
    paths: Sequence[str],
    manifest: TableManifest | None,
    request: GeometryRequest,
    *,
    date_format: str | None,
    keeps_coordinates: bool,
    on_bad_record: BadRecord,
    report: ReadReport,
) -> RecordTable:
    """The table that the record files ``paths`` hold.

    Parameters
    ----------
    manifest
        The table's manifest. Without one, all records are looked at for their columns first.
    date_format
        Text columns all of whose values are dates of this format (:func:`time.strptime`) become timestamps.
    keeps_coordinates
        Keep the coordinates of points as columns, and make no geometry of them: for formats that have none.

    Raises
    ------
    InputError
        A feature that isn't there, or is no geometry.
    RecordError
        Damaged records, or a key that holds several kinds.
    """
    if date_format is not None and "%" not in date_format:
        raise UsageError(f"--date-format {date_format!r}: has no %; give it as strptime does: %Y-%m-%d, %d.%m.%Y %H:%M")
    dates: frozenset[str] = frozenset()
    if manifest is not None:
        columns, rows = manifest.columns, manifest.rows
    if manifest is None or date_format is not None:
        batches = (
            found for path in paths for found in read_feature_rows(path, on_bad_record=on_bad_record, report=report)
        )
        scan = scan_records(batches, date_format=date_format)
        dates = scan.dates
        if manifest is None:
            columns, rows = scan.columns, scan.rows
    infos = [
        replace(info, type="timestamp[s]") if info.name in dates and info.type == "string" else info for info in columns
    ]
    geometry, crs, used = _geometry(paths, infos, manifest, request)
    is_points = isinstance(geometry, _Points)
    if is_points and keeps_coordinates:
        geometry, used = None, ()
    infos = [info for info in infos if info.name not in used]
    pa = load("pyarrow")
    fields = [pa.field(info.name, restored_type(info)) for info in infos]
    name = None
    if geometry is not None:
        name = _free_name(_GEOMETRY, [info.name for info in infos])
        fields.append(pa.field(name, pa.binary()))
    return RecordTable(
        shape=TableShape(schema=pa.schema(fields), geometry=name, is_points=is_points, crs=crs),
        rows=rows,
        paths=tuple(paths),
        restorers=tuple(Restorer(info=info, strptime=date_format if info.name in dates else None) for info in infos),
        geometry=geometry,
        on_bad_record=on_bad_record,
    )


def _geometry(
    paths: Sequence[str], infos: Sequence[ColumnInfo], manifest: TableManifest | None, request: GeometryRequest
) -> tuple[_Points | _Shapes | None, str, tuple[str, ...]]:
    """Where the geometries are, their CRS, and the features that they take the place of."""
    by_name = {info.name: info for info in infos}
    for option, name in (("--x", request.x), ("--y", request.y), ("--geometry-column", request.column)):
        if name is not None and name not in by_name:
            raise InputError(f"{paths[0]}: there is no feature {name!r} for {option}; there are {', '.join(by_name)}")
    crs = None if request.crs is None else crs_text(crs_wkt(request.crs))
    made = [info for info in infos if info.is_made]
    if request.column is not None or (made and manifest is not None and manifest.geometry in ("wkb", "geojson")):
        info = by_name[request.column] if request.column is not None else made[0]
        is_geojson = _is_geojson(paths, info)
        kept = manifest.crs if manifest is not None and info.is_made else ""
        return _Shapes(info.name, is_geojson), crs or (LONLAT if is_geojson else kept), (info.name,)
    if request.x is not None and request.y is not None:
        return _Points(request.x, request.y), crs or LONLAT, ()
    if len(made) == 2:
        named = {info.source: info.name for info in made}
        return _Points(named[LONGITUDE], named[LATITUDE]), crs or LONLAT, tuple(named.values())
    pair = [by_name.get(LONGITUDE), by_name.get(LATITUDE)]
    if all(info is not None and info.kind is not Kind.BYTES and not info.shape for info in pair):
        return _Points(LONGITUDE, LATITUDE), crs or LONLAT, ()
    return None, crs or "", ()


def _is_geojson(paths: Sequence[str], info: ColumnInfo) -> bool:
    """Whether the first geometry is GeoJSON text, and not WKB."""
    for path in paths:
        for rows in read_feature_rows(path, report=ReadReport()):
            column: FeatureColumn | None = rows.columns.get(info.name)
            if column is None or not len(column.values):
                continue
            first = int(column.values[0])
            if column.kind is Kind.BYTES and first in (0, 1, ord("{")):
                return first == ord("{")
            raise InputError(f"{path}: the feature {info.name!r} is neither WKB nor GeoJSON: no geometry")
    return False


def _bytes_info(name: str, type_name: str) -> ColumnInfo:
    return ColumnInfo(name=name, source=name, type=type_name, kind=Kind.BYTES)


def _free_name(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name

"""The place that an export covers: polygons in a CRS of their own.

A region comes as text: GeoJSON (in the text or in a file), WKT, EWKT, or ``west,south,east,north``. x comes first
(longitude, easting) whatever the CRS says of its axes. shapely does the geometry; heavy, so it is imported when a
function needs it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from geotfr.errors import InputError, LimitError, MissingInputError, UsageError
from geotfr.regular_files import open_input
from geotfr.stores.path import local_text

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

__all__ = ["LON_LAT", "Region", "parse_region", "region_file"]

LON_LAT = "OGC:CRS84"
"""The CRS of a region that names none: longitude and latitude in degrees, in this order."""

MAX_BYTES = 64 << 20
"""The largest file that is read as a region."""

FORMS = "give GeoJSON or WKT (the text, or a file's path), or west,south,east,north"

_WKT = re.compile(r"\s*(?:SRID=(\d+);)?\s*((?:MULTI)?POLYGON|GEOMETRYCOLLECTION|POINT|LINESTRING|MULTI\w+)\b", re.I)


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Polygons on the ground.

    Attributes
    ----------
    shape
        A valid polygon or multipolygon with area, x first. Longitudes may pass 180 where it crosses the antimeridian.
    crs
        The CRS of its coordinates, a text that pyproj parses.
    """

    shape: BaseGeometry
    crs: str = LON_LAT


def parse_region(text: str) -> Region:
    """The region that ``text`` describes, in longitude and latitude unless it names a CRS.

    Parameters
    ----------
    text
        GeoJSON (a geometry, Feature or FeatureCollection, with the CRS of GeoJSON 2008 if it has one), WKT or EWKT,
        the path of a file that holds one of these (``@path`` if it could be taken for text), or
        ``west,south,east,north``; a box whose west is greater than its east crosses the antimeridian.

    Raises
    ------
    UsageError
        If it is none of these, or has no valid polygon with area.
    MissingInputError, LimitError
        For a file that can't be read, or has more than 64 MiB.

    Examples
    --------
    >>> parse_region("12.5,41,13,42").shape.bounds
    (12.5, 41.0, 13.0, 42.0)
    >>> parse_region("170,-10,-170,10").shape.bounds
    (170.0, -10.0, 190.0, 10.0)
    >>> parse_region("SRID=32633;POLYGON((0 0, 10 0, 10 10, 0 0))").crs
    'EPSG:32633'
    """
    path = region_file(text)
    if path is not None:
        return _in_text(_read(Path(path)), name=path)
    found = text.strip()
    return _box(found) or _in_text(found, name="--region")


def region_file(text: str) -> str | None:
    """The path of the file that holds the region, if ``text`` is none itself; see :func:`parse_region`.

    >>> region_file("@12,41,13,42"), region_file("aoi.geojson"), region_file("12.5,41,13,42")
    ('12,41,13,42', 'aoi.geojson', None)
    """
    found = text.strip()
    if found.startswith("@"):
        return local_text(found[1:])
    is_text = found.startswith("{") or _WKT.match(found) is not None or _numbers(found) is not None
    return None if is_text else local_text(found)


def _read(path: Path) -> str:
    try:
        with open_input(path, wanted="a region") as file:
            found = file.read(MAX_BYTES + 1)
        if len(found) > MAX_BYTES:
            raise LimitError(f"{path}: more than {MAX_BYTES:,} bytes are too many for a region")
        return found.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a region: byte {error.start} is not UTF-8; {FORMS}") from error
    except MissingInputError as error:
        raise MissingInputError(f"--region {_short(str(path))}: no such file; {FORMS}") from error
    except (InputError, OSError) as error:
        reason = _short(str(error.__cause__ or error).partition(f"{path}: ")[2] or str(error.__cause__ or error))
        raise MissingInputError(f"--region {_short(str(path))}: can't be read: {reason}; {FORMS}") from error


def _box(text: str) -> Region | None:
    """The region of ``west,south,east,north``; None if ``text`` isn't four numbers."""
    from shapely import box

    numbers = _numbers(text)
    if numbers is None:
        return None
    if len(numbers) != 4:
        raise UsageError(f"--region {text}: {len(numbers)} numbers; a box is west,south,east,north")
    west, south, east, north = numbers
    if not np.isfinite(numbers).all() or south >= north or west == east or abs(south) > 90 or abs(north) > 90:
        raise UsageError(f"--region {text}: not a box west,south,east,north in degrees with south below north")
    if east < west:
        east += 360
    if east < west or east - west > 360:
        raise UsageError(f"--region {text}: west and east must be longitudes, at most 360 degrees apart")
    return Region(shape=box(west, south, east, north))


def _numbers(text: str) -> list[float] | None:
    """The numbers of a box; None if ``text`` isn't made of numbers."""
    parts = [part for part in re.split(r"[,\s]+", text) if part]
    try:
        return [float(part) for part in parts] or None
    except ValueError:
        return None


def _in_text(text: str, *, name: str) -> Region:
    if text.lstrip().startswith("{"):
        return _geojson(text, name=name)
    return _wkt(text, name=name)


def _wkt(text: str, *, name: str) -> Region:
    from shapely import from_wkt
    from shapely.errors import ShapelyError

    match = _WKT.match(text)
    if match is None:
        raise UsageError(f"{name}: not a region: {_short(text)!r}; {FORMS}")
    try:
        shape = from_wkt(text[match.start(2) :])
    except ShapelyError as error:
        raise UsageError(f"{name}: not WKT: {_words(error)}") from error
    return _checked([shape], f"EPSG:{match[1]}" if match[1] else LON_LAT, name=name)


def _geojson(text: str, *, name: str) -> Region:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not JSON")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        if len(set(keys)) != len(keys):
            raise ValueError(f"a key stands twice in one object: {', '.join(map(repr, keys))}")
        return dict(pairs)

    from shapely import from_geojson
    from shapely.errors import ShapelyError

    try:
        document = json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
        shapes = [from_geojson(json.dumps(geometry)) for geometry in _geometries(document)]
        crs = _named_crs(document)
    except RecursionError as error:
        raise UsageError(f"{name}: not GeoJSON: nested too deeply") from error
    except (ShapelyError, ValueError, TypeError) as error:
        raise UsageError(f"{name}: not GeoJSON: {_words(error)}; {FORMS}") from error
    return _checked(shapes, crs, name=name)


def _geometries(document: Any) -> list[Any]:
    """The geometries of a geometry, a Feature or a FeatureCollection; features without one have none."""
    kind = document.get("type") if isinstance(document, dict) else None
    if kind == "FeatureCollection":
        features = document.get("features")
        if not isinstance(features, list):
            raise ValueError("a FeatureCollection without a list of features")
        return [geometry for feature in features for geometry in _geometries(feature)]
    if kind == "Feature":
        return [] if document.get("geometry") is None else [document["geometry"]]
    if not isinstance(kind, str):
        raise ValueError("no 'type'")
    return [document]


def _named_crs(document: dict[str, Any]) -> str:
    """The CRS that a document of GeoJSON 2008 names; longitude and latitude without one."""
    crs = document.get("crs")
    if crs is None:
        return LON_LAT
    named = crs.get("properties", {}).get("name") if isinstance(crs, dict) and crs.get("type") == "name" else None
    if not isinstance(named, str):
        raise ValueError("its crs has no name")
    return named


def _checked(shapes: list[BaseGeometry], crs: str, *, name: str) -> Region:
    """The union of all polygons in ``shapes``, each checked."""
    import shapely

    from geotfr.grid.crs import is_geographic

    parts = [shapely.force_2d(part) for shape in shapes for part in shapely.get_parts(shape)]
    # A collection may hold collections; polygons are what is left when nothing has parts.
    while any(part.geom_type.startswith(("Multi", "GeometryCollection")) for part in parts):
        parts = [inner for part in parts for inner in shapely.get_parts(part)]
    parts = [part for part in parts if not part.is_empty]
    others = sorted({part.geom_type for part in parts if part.geom_type != "Polygon"})
    if others or not parts:
        raise UsageError(f"{name}: a region is made of polygons, found {', '.join(others) or 'nothing'}")
    for part in parts:
        if not np.isfinite(shapely.get_coordinates(part)).all():
            raise UsageError(f"{name}: a coordinate that is not a finite number")
        if not part.is_valid or part.area == 0:
            raise UsageError(f"{name}: not a valid polygon: {shapely.is_valid_reason(part)}; repair it first")
        if is_geographic(crs):
            _check_edges(part, name=name)
    return Region(shape=shapely.union_all(parts), crs=crs)


def _check_edges(polygon: BaseGeometry, *, name: str) -> None:
    """Refuse an edge that goes the long way round the Earth: nearly always it was meant to cross the antimeridian."""
    import shapely

    for ring in shapely.get_rings(polygon):
        steps = np.abs(np.diff(shapely.get_coordinates(ring)[:, 0]))
        long = steps[(steps > 180) & (steps < 360)]
        if long.size:
            raise UsageError(
                f"{name}: an edge of {long[0]:g} degrees; where a region crosses the antimeridian, give longitudes"
                " beyond 180 or two polygons that meet there; else give the edge a point between"
            )


def _words(error: Exception) -> str:
    return " ".join(str(error).split())


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:60] + "…"

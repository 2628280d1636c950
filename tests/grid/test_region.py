"""Regions as users write them, against shapely's own reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from shapely import box, from_wkt
from shapely.geometry import mapping

from geotfr.errors import GeotfrError, InputError, LimitError, MissingInputError, UsageError
from geotfr.grid.region import LON_LAT, parse_region

SQUARE = box(10, 20, 11, 21)
HOLED = from_wkt("POLYGON((0 0,9 0,9 9,0 9,0 0),(3 3,6 3,6 6,3 6,3 3))")


def feature(geometry: Any) -> dict[str, Any]:
    return {"type": "Feature", "properties": {"name": "é"}, "geometry": geometry}


def test_a_box_is_west_south_east_north_in_longitude_and_latitude() -> None:
    region = parse_region(" 10, 20, 11, 21 ")
    assert region.shape.equals(SQUARE)
    assert region.crs == LON_LAT
    assert parse_region("-71.5,-33,-70,-32.25").shape.bounds == (-71.5, -33, -70, -32.25)


def test_a_box_whose_west_is_east_of_its_east_crosses_the_antimeridian() -> None:
    assert parse_region("170,-10,-170,10").shape.bounds == (170, -10, 190, 10)


@pytest.mark.parametrize(
    "text",
    ["1,2,3", "1,2,3,4,5", "11,21,10,20", "0,10,1,5", "0,0,0,1", "0,0,400,1", "0,-91,1,0", "nan,0,1,1", "0,0,inf,1"],
)
def test_a_box_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_region(text)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("shape", [SQUARE, HOLED, HOLED.union(box(20, 0, 21, 1))])
def test_every_form_gives_the_same_polygons(tmp_path: Path, shape: Any) -> None:
    geometry = mapping(shape)
    texts = [
        json.dumps(geometry),
        json.dumps(feature(geometry)),
        json.dumps({"type": "FeatureCollection", "features": [feature(geometry), feature(None)]}),
        shape.wkt,
        f"SRID=4326;{shape.wkt}",
        shape.wkt.lower(),
    ]
    for number, text in enumerate(texts):
        assert parse_region(text).shape.equals(shape)
        path = tmp_path / f"region {number}"
        path.write_text(text)
        assert parse_region(str(path)).shape.equals(shape)
        assert parse_region(f"@{path}").shape.equals(shape)


def test_features_of_a_collection_unite() -> None:
    parts = [box(0, 0, 2, 2), box(1, 1, 3, 3), box(8, 8, 9, 9)]
    document = {"type": "FeatureCollection", "features": [feature(mapping(part)) for part in parts]}
    assert parse_region(json.dumps(document)).shape.area == 8


def test_a_collection_of_collections_and_heights_are_taken() -> None:
    text = (
        "GEOMETRYCOLLECTION(GEOMETRYCOLLECTION(POLYGON Z((0 0 5,1 0 5,1 1 5,0 0 5))),MULTIPOLYGON(((5 5,6 5,6 6,5 5))))"
    )
    region = parse_region(text)
    assert region.shape.area == 1
    assert not region.shape.has_z


def test_a_crs_of_geojson_2008_or_ewkt_is_told() -> None:
    named = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32633"}}
    assert parse_region(json.dumps({**mapping(SQUARE), "crs": named})).crs == "urn:ogc:def:crs:EPSG::32633"
    assert parse_region(f"SRID=3006;{SQUARE.wkt}").crs == "EPSG:3006"
    # Degrees that go far are fine where they are metres.
    assert parse_region("SRID=3006;POLYGON((0 0,500000 0,500000 9,0 9,0 0))").shape.area == 4.5e6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("POLYGON((0 0,1 1,1 0,0 1,0 0))", "not a valid polygon"),
        ("POLYGON EMPTY", "nothing"),
        ("POINT(1 2)", "Point"),
        ("GEOMETRYCOLLECTION(POLYGON((0 0,1 0,1 1,0 0)),LINESTRING(0 0,1 1))", "LineString"),
        ("POLYGON((0 0,1 0))", "not WKT"),
        ("POLYGON((0 0,1 0,2 0,0 0))", "not a valid polygon"),
        ('{"type": "Polygon"}', "not GeoJSON"),
        ('{"type": "Polygon", "coordinates": [[[0, 0], [1, NaN], [1, 0], [0, 0]]]}', "NaN is not JSON"),
        ('{"type": "Polygon", "coordinates": [[[0, 0], [1, 1e999], [1, 0], [0, 0]]]}', "not GeoJSON"),
        ('{"type": "Polygon", "type": "Point"}', "stands twice"),
        ('{"type": "FeatureCollection", "features": []}', "nothing"),
        ('{"type": "FeatureCollection"}', "without a list"),
        ('{"features": []}', "no 'type'"),
        ('{"type": "Feature", "geometry": null}', "nothing"),
        ('{"type": "Polygon", "coordinates": [', "not GeoJSON"),
        ("[" * 100_000, "can't be read"),
        ('{"type":' + "[" * 100_000, "not GeoJSON"),
        ("nowhere.geojson", "no such file"),
        ("@", "no such file|can't be read"),
        ("", "no such file|can't be read"),
        ("POLYGON((179 -17,-179 -17,-179 -16,179 -16,179 -17))", "antimeridian"),
    ],
    ids=lambda text: text[:40],
)
def test_what_is_no_region_is_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(GeotfrError, match=words) as error:
        parse_region(text)
    assert error.value.exit_code in (2, 10)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def test_a_file_that_is_no_region_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.geojson"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="UTF-8"):
        parse_region(str(path))
    path.write_text("some words")
    with pytest.raises(UsageError, match=r"x\.geojson: not a region"):
        parse_region(str(path))
    with pytest.raises(MissingInputError):
        parse_region(str(tmp_path / "none.geojson"))
    with path.open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(LimitError, match="too many"):
        parse_region(str(path))


def test_a_crs_that_cannot_be_parsed_is_refused() -> None:
    with pytest.raises(InputError, match="can't be parsed"):
        parse_region("SRID=999999;POLYGON((0 0,1 0,1 1,0 0))")


def test_the_globe_is_a_region() -> None:
    assert parse_region("POLYGON((-180 -90,180 -90,180 90,-180 90,-180 -90))").shape.area == 360 * 180

"""Records become tables again: rows, types, geometry, predictions beside their rows."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import shapely
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle.run import run
from tables.tables import framed, payload, payloads

import geotfr

if TYPE_CHECKING:
    from collections.abc import Mapping


pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
geopandas = pytest.importorskip("geopandas")
pd = pytest.importorskip("pandas")

Features = dict[str, tuple[str, list[Any]]]
EXACT = st.floats(width=32, allow_nan=False)
COLUMNS = {
    "double": (pa.float64(), EXACT),
    "single": (pa.float32(), EXACT),
    "small": (pa.int8(), st.integers(-128, 127)),
    "unsigned": (pa.uint16(), st.integers(0, 65535)),
    "whole": (pa.int64(), st.integers(-(2**24), 2**24)),
    "flag": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.text(st.characters(codec="utf-8"), max_size=20)),
    "raw": (pa.binary(), st.binary(max_size=20)),
    "day": (pa.date32(), st.dates(datetime.date(1, 1, 1))),
    "moment": (pa.timestamp("us"), st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))),
    "pair": (pa.list_(pa.float32(), 2), st.lists(EXACT, min_size=2, max_size=2)),
    "several": (pa.list_(pa.int32()), st.lists(st.integers(-1000, 1000), max_size=4)),
    "words": (pa.list_(pa.string()), st.lists(st.text(st.characters(codec="utf-8"), max_size=5), max_size=3)),
}


@st.composite
def arrow_tables(draw: st.DrawFn) -> Any:
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=6, unique=True))
    rows = draw(st.integers(0, 6))
    columns = {}
    for name in names:
        arrow, values = COLUMNS[name]
        found = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        columns[name] = pa.array(found, arrow)
    return pa.table(columns)


def write(path: Path, rows: list[Features]) -> Path:
    path.write_bytes(b"".join(framed(payload(row)) for row in rows))
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(table=arrow_tables(), kinds=st.sampled_from(["float", "native"]))
def test_any_table_comes_back_equal(table: Any, kinds: str, tmp_path: Path) -> None:
    pq.write_table(table, tmp_path / "t.parquet")
    result = geotfr.export_table(tmp_path / "t.parquet", tmp_path / "out", feature_kinds=kinds, overwrite=True)
    geotfr.ingest_table(result.records, tmp_path / "back.parquet", overwrite=True)
    back = pq.read_table(tmp_path / "back.parquet")
    assert back.column_names == table.column_names
    assert back.to_pylist() == table.to_pylist()
    assert type_names(back) == type_names(table)


def type_names(table: Any) -> list[str]:
    """The columns' types, but for the name that Parquet gives the items of lists."""
    return [str(found).replace("element", "item") for found in table.schema.types]


COORDINATES = st.tuples(st.floats(-180, 180, width=32), st.floats(-90, 90, width=32))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(
    points=st.lists(st.none() | COORDINATES, min_size=1, max_size=5),
    suffix=st.sampled_from(["gpkg", "fgb", "geojson", "parquet"]),
)
def test_any_points_come_back_in_every_format(points: list[Any], suffix: str, tmp_path: Path) -> None:
    shapes = [None if xy is None else shapely.Point(xy) for xy in points]
    frame = geopandas.GeoDataFrame({"n": range(len(points))}, geometry=shapes, crs="EPSG:4326")
    result = geotfr.export_table(frame, tmp_path / "out", geometry="lonlat", overwrite=True)
    output = tmp_path / f"back.{suffix}"
    geotfr.ingest_table(result.records, output, overwrite=True)
    back = geopandas.read_parquet(output) if suffix == "parquet" else geopandas.read_file(output)
    assert list(back["n"]) == list(range(len(points)))
    assert back.crs == frame.crs
    for found, wanted in zip(back.geometry, shapes, strict=True):
        assert (found is None) == (wanted is None)
        if wanted is not None:
            assert found.distance(wanted) <= 1e-9


@pytest.mark.parametrize("mode", ["wkb", "geojson"])
def test_polygons_come_back_in_their_crs(mode: str, tmp_path: Path) -> None:
    shapes = [shapely.box(500_000, 0, 500_100, 100), None, shapely.LineString([(500_000, 0), (500_001, 5)])]
    frame = geopandas.GeoDataFrame({"a": [1, 2, 3]}, geometry=shapes, crs="EPSG:32633")
    result = geotfr.export_table(frame, tmp_path / "out", geometry=mode)
    back = geotfr.ingest_table(result.records).frame.to_crs("EPSG:32633")
    for found, wanted in zip(back.geometry, shapes, strict=True):
        assert (found is None) == (wanted is None)
        assert wanted is None or found.equals_exact(wanted, 1e-6)


def test_records_without_a_manifest_go_by_their_kinds(tmp_path: Path) -> None:
    path = write(
        tmp_path / "p.tfrecord",
        [
            {
                "longitude": ("float", [12.5]),
                "latitude": ("float", [41.25]),
                "n": ("int64", [7]),
                "t": ("bytes", [b"a"]),
            },
            {
                "latitude": ("float", [-5]),
                "longitude": ("float", [3]),
                "v": ("float", [1, 2]),
                "t": ("bytes", [b"\xff"]),
            },
        ],
    )
    result = geotfr.ingest_table(path, tmp_path / "back.parquet")
    assert result.columns == ("longitude", "latitude", "n", "t", "v", "geometry")
    back = geopandas.read_parquet(tmp_path / "back.parquet")
    assert [(point.x, point.y) for point in back.geometry] == [(12.5, 41.25), (3, -5)]
    table = pq.read_table(tmp_path / "back.parquet").drop_columns(["geometry", "longitude", "latitude", "bbox"])
    assert table.to_pylist() == [{"n": 7, "t": b"a", "v": None}, {"n": None, "t": b"\xff", "v": [1, 2]}]
    assert [str(field) for field in table.schema.types[:2]] == ["int64", "binary"]


def test_other_coordinates_dates_and_geometry_columns_are_named(tmp_path: Path) -> None:
    path = write(
        tmp_path / "p.tfrecord",
        [
            {
                "e": ("float", [500_000]),
                "n": ("float", [16]),
                "when": ("bytes", [b"29.02.2020"]),
                "shape": ("bytes", [shapely.to_wkb(shapely.box(0, 0, 1, 1))]),
            }
        ],
    )
    frame = geotfr.ingest_table(path, x="e", y="n", crs="EPSG:32633", date_format="%d.%m.%Y").frame
    assert (frame.crs.to_epsg(), frame.geometry[0].x, frame.geometry[0].y) == (32633, 500_000, 16)
    assert frame["when"][0] == datetime.datetime(2020, 2, 29)
    shapes = geotfr.ingest_table(path, geometry_column="shape", crs="EPSG:32633").frame
    assert shapes.geometry[0].equals(shapely.box(0, 0, 1, 1))


def test_arrays_are_lists_where_the_format_has_them_and_columns_elsewhere(tmp_path: Path) -> None:
    path = write(tmp_path / "p.tfrecord", [{"v": ("float", [1, 2])}, {"v": ("float", [3, 4])}])
    geotfr.ingest_table(path, tmp_path / "v.csv")
    assert (tmp_path / "v.csv").read_text().split() == ['"v_0","v_1"', "1,2", "3,4"]
    geotfr.ingest_table(path, tmp_path / "v.geojson")
    found = json.loads((tmp_path / "v.geojson").read_text())["features"]
    assert [feature["properties"]["v"] for feature in found] == [[1, 2], [3, 4]]
    uneven = write(tmp_path / "u.tfrecord", [{"v": ("float", [1, 2])}, {"v": ("float", [3])}])
    refused(tmp_path, uneven, "column 'v' holds arrays of lengths that may differ", 2, "u.gpkg")
    clash = write(tmp_path / "c.tfrecord", [{"v": ("float", [1, 2]), "v_1": ("float", [3])}])
    refused(tmp_path, clash, "makes the column 'v_1', which is there already", 2, "c.csv")


def test_csv_keeps_the_coordinates_as_columns(tmp_path: Path) -> None:
    frame = geopandas.GeoDataFrame({"a": [1]}, geometry=[shapely.Point(12.5, 41.25)], crs="EPSG:4326")
    result = geotfr.export_table(frame, tmp_path / "out")
    geotfr.ingest_table(result.records, tmp_path / "back.csv")
    assert (tmp_path / "back.csv").read_text() == '"a","longitude","latitude"\n1,12.5,41.25\n'


def predictions(path: Path, rows: Mapping[int, float]) -> Path:
    return write(path, [{"id": ("int64", [key]), "score": ("float", [value])} for key, value in rows.items()])


def plots() -> Any:
    shapes = [shapely.box(n, 0, n + 1, 1) for n in range(3)]
    return geopandas.GeoDataFrame({"id": [10, 20, 30], "name": ["a", "é", None]}, geometry=shapes, crs="EPSG:32633")


@pytest.mark.parametrize("suffix", ["gpkg", "parquet"])
def test_predictions_join_their_rows_by_order_or_by_key(suffix: str, tmp_path: Path) -> None:
    plots().to_file(tmp_path / "plots.gpkg")
    ordered = predictions(tmp_path / "o.tfrecord", {10: 1, 20: 2, 30: 3})
    mixed = predictions(tmp_path / "m.tfrecord", {30: 3, 10: 1})
    for path, key, scores in [(ordered, None, [1, 2, 3]), (mixed, "id", [1, None, 3])]:
        output = tmp_path / f"joined.{suffix}"
        geotfr.ingest_table(path, output, join=tmp_path / "plots.gpkg", key=key, overwrite=True)
        back = geopandas.read_parquet(output) if suffix == "parquet" else geopandas.read_file(output)
        assert [None if pd.isna(score) else score for score in back["score"]] == scores
        assert list(back["id"]) == [10, 20, 30]
        assert all(found.equals(wanted) for found, wanted in zip(back.geometry, plots().geometry, strict=True))


@pytest.mark.parametrize("key", [None, "id"])
def test_a_source_without_geometries_takes_those_of_the_records(key: str | None, tmp_path: Path) -> None:
    row: Features = {"id": ("int64", [10]), "longitude": ("float", [12.5]), "latitude": ("float", [41.25])}
    path = write(tmp_path / "p.tfrecord", [row])
    source = pd.DataFrame({"id": [10], "name": ["a"]})
    geotfr.ingest_table(path, tmp_path / "out.gpkg", join=source, key=key)
    back = geopandas.read_file(tmp_path / "out.gpkg")
    assert (back["name"][0], back.geometry[0].x, back.crs.to_epsg()) == ("a", 12.5, 4326)


def test_joins_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    few = predictions(tmp_path / "few.tfrecord", {10: 1})
    many = predictions(tmp_path / "many.tfrecord", {10: 1, 20: 2, 30: 3, 40: 4})
    twice = write(tmp_path / "twice.tfrecord", [{"id": ("int64", [10])}] * 2)
    refused(tmp_path, few, "1 records, .* has more rows", 12, "x.gpkg", join=plots())
    refused(tmp_path, many, "more than 3 records", 12, "x.gpkg", join=plots())
    refused(tmp_path, many, "1 records have no row in .*, the first with id = 40", 12, "x.gpkg", join=plots(), key="id")
    refused(tmp_path, twice, "several records have the key id = 10", 12, "x.gpkg", join=plots(), key="id")
    refused(tmp_path, few, "no column 'nix' for --key", 10, "x.gpkg", join=plots(), key="nix")
    refused(tmp_path, few, "give it with --join", 2, "x.gpkg", key="id")


def refused(tmp_path: Path, path: Any, message: str, code: int, output: str, **options: Any) -> None:
    before = sorted(tmp_path.iterdir())
    with pytest.raises(geotfr.GeotfrError, match=message) as caught:
        geotfr.ingest_table(path, tmp_path / output, **options)
    assert caught.value.exit_code == code
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


def test_bad_records_and_names_are_refused_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = write(tmp_path / "k.tfrecord", [{"a": ("float", [1])}, {"a": ("int64", [1])}])
    refused(tmp_path, kinds, "record 1: feature 'a' holds int64", 12, "k.gpkg")
    good = write(tmp_path / "g.tfrecord", [{"a": ("float", [1])}] * 3)
    refused(tmp_path, good, "no feature 'lon' for --x; there are a", 10, "g.gpkg", x="lon", y="lat")
    refused(tmp_path, good, "no format is known by its suffix", 2, "g.xyz")
    refused(tmp_path, good, "has no %", 2, "g.gpkg", date_format="yyyy")
    refused(tmp_path, tmp_path / "none.tfrecord", "no such file", 10, "n.gpkg")
    monkeypatch.chdir(tmp_path)
    refused(tmp_path, Path(), "not a regular file", 10, "n.gpkg")
    data = bytearray(good.read_bytes())
    data[-6] ^= 1
    bad = tmp_path / "bad.tfrecord"
    bad.write_bytes(bytes(data))
    refused(tmp_path, bad, "record 2 at byte .*: data checksum", 12, "b.gpkg")
    result = geotfr.ingest_table(bad, tmp_path / "b.csv", on_bad_record="skip")
    assert (result.rows, result.records_lost) == (2, 1)


def test_a_manifest_that_lies_is_refused(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.5, 2.5]})
    result = geotfr.export_table(frame, tmp_path / "out")
    for old, new, message in [
        ('"float"', '"int64"', "feature 'a' holds float, not int64"),
        ('"shape": []', '"shape": [2]', "feature 'a' holds 1 values, wanted are 2"),
        ('"float64"', '"struct"', "not a whole table manifest"),
    ]:
        text = result.manifest.read_text()
        result.manifest.write_text(text.replace(old, new))
        refused(tmp_path, result.records, message, 12, "back.gpkg")
        result.manifest.write_text(text)


def test_equal_tables_make_equal_geopackages(tmp_path: Path) -> None:
    result = geotfr.export_table(
        plots().set_geometry(plots().centroid), tmp_path / "out", selectors="id,longitude,latitude"
    )
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        geotfr.ingest_table(result.records, tmp_path / name / "same.gpkg")
    assert (tmp_path / "a" / "same.gpkg").read_bytes() == (tmp_path / "b" / "same.gpkg").read_bytes()


def test_the_command_ingests_several_files_in_natural_order(tmp_path: Path) -> None:
    paths = [predictions(tmp_path / f"p-{number}.tfrecord", {number: 0.5}) for number in (10, 2)]
    outcome = run("ingest-table", *paths, "--output", tmp_path / "out.csv", "--json")
    assert outcome.code == 0, outcome.told
    assert json.loads(outcome.stdout)["rows"] == 2
    assert (tmp_path / "out.csv").read_text() == '"id","score"\n2,0.5\n10,0.5\n'
    data = bytearray(paths[0].read_bytes())
    data[-6] ^= 1
    paths[0].write_bytes(bytes(data))
    assert run("ingest-table", *paths, "--output", tmp_path / "o.csv", "--on-bad-record", "skip").code == 3


def test_export_of_what_was_ingested_gives_the_same_file(tmp_path: Path) -> None:
    rows: list[Features] = [
        {f"b{band}": ("float", [float(np.float32(band * 1.1 + row))]) for band in (3, 1, 2)}
        | {"longitude": ("float", [row]), "latitude": ("float", [-row])}
        for row in range(50)
    ]
    path = write(tmp_path / "ee.tfrecord", rows)
    for suffix in ("parquet", "csv", "gpkg"):
        geotfr.ingest_table(path, tmp_path / f"t.{suffix}")
        result = geotfr.export_table(tmp_path / f"t.{suffix}", tmp_path / f"out-{suffix}")
        assert payloads(result.records) == [payload(row) for row in rows]


def back(suffix: str, column: Any, tmp_path: Path) -> tuple[Any, geotfr.IngestTableResult]:
    """A column that went to records and to a vector file, as GDAL reads it."""
    pyogrio = pytest.importorskip("pyogrio")
    pq.write_table(pa.table({"x": column}), tmp_path / "in.parquet")
    geotfr.export_table(tmp_path / "in.parquet", tmp_path / "t", feature_kinds="native")
    result = geotfr.ingest_table(tmp_path / "t.tfrecord.gz", tmp_path / f"out.{suffix}")
    return pyogrio.read_arrow(tmp_path / f"out.{suffix}")[1]["x"], result


@pytest.mark.parametrize("suffix", ["gpkg", "fgb", "geojson"])
def test_unsigned_numbers_stay_whole_in_vector_files(suffix: str, tmp_path: Path) -> None:
    found, _ = back(suffix, pa.array([1, 2**53 + 1, 2**62 + 1], pa.uint64()), tmp_path)
    assert found.to_pylist() == [1, 2**53 + 1, 2**62 + 1]


@pytest.mark.parametrize("suffix", ["gpkg", "fgb", "geojson"])
def test_moments_in_a_named_zone_are_the_same_moments_in_vector_files(suffix: str, tmp_path: Path) -> None:
    noon = datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.UTC)
    found, result = back(suffix, pa.array([noon, None], pa.timestamp("us", "Europe/Berlin")), tmp_path)
    # FlatGeobuf tells the zone with each value only, which GDAL's Arrow interface passes by.
    moments = geopandas.read_file(tmp_path / f"out.{suffix}")["x"]
    assert str(moments.dtype.tz) == "UTC"
    assert moments[0] == noon
    assert found.null_count == 1
    assert result.warnings == ()


@pytest.mark.parametrize("suffix", ["gpkg", "fgb", "geojson"])
def test_times_finer_than_a_vector_file_holds_are_told(suffix: str, tmp_path: Path) -> None:
    _, result = back(suffix, pa.array([0, 1_000, 1_001, None], pa.timestamp("us")), tmp_path)
    assert result.warnings == (
        f"x: 1 times are rounded to milliseconds, which is what .{suffix} holds; .parquet and .csv keep them",
    )

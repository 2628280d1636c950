"""Tables of every format become the records that Earth Engine would write."""

from __future__ import annotations

import datetime
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from oracle.run import run
from tables.tables import framed, payload, payloads, records

import geotfr
from geotfr.records.gzip import ee_bytes_promised

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
geopandas = pytest.importorskip("geopandas")

POINTS = [shapely.Point(12.5, 41.25), shapely.Point(-70.125, -33.5), shapely.Point(0, 0)]
WRITERS = {
    "gpkg": lambda frame, path: frame.to_file(path, driver="GPKG"),
    "geojson": lambda frame, path: frame.to_file(path, driver="GeoJSON"),
    "shp": lambda frame, path: frame.to_file(path),
    "fgb": lambda frame, path: frame.to_file(path, driver="FlatGeobuf", SPATIAL_INDEX="NO"),
    "parquet": lambda frame, path: frame.to_parquet(path),
}


def plots(crs: str = "EPSG:4326") -> Any:
    """Three points with a whole number, a number and a text."""
    frame = geopandas.GeoDataFrame(
        {"class": [1, 2, 3], "ndvi": [0.5, -0.25, 1.0], "name": ["a", "é", ""]}, geometry=POINTS, crs="EPSG:4326"
    )
    return frame.to_crs(crs)


def table(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_format_gives_the_same_records(suffix: str, tmp_path: Path) -> None:
    frame = plots()
    WRITERS[suffix](frame.drop(columns="name"), tmp_path / f"plots.{suffix}")
    result = geotfr.export_table(tmp_path / f"plots.{suffix}", tmp_path / "out")
    assert result.records == tmp_path / "out.tfrecord.gz"
    assert records(result.records) == [
        {"class": [number], "ndvi": [ndvi], "longitude": [x], "latitude": [y]}
        for number, ndvi, x, y in [(1, 0.5, 12.5, 41.25), (2, -0.25, -70.125, -33.5), (3, 1.0, 0.0, 0.0)]
    ]


def test_rows_and_selectors_keep_their_order_byte_for_byte(tmp_path: Path) -> None:
    result = geotfr.export_table(plots(), tmp_path / "out", selectors="ndvi,name,label=class")
    assert payloads(result.records) == [
        payload({"ndvi": ("float", [ndvi]), "name": ("bytes", [name.encode()]), "label": ("float", [number])})
        for ndvi, name, number in [(0.5, "a", 1), (-0.25, "é", 2), (1.0, "", 3)]
    ]


@pytest.mark.skipif(not ee_bytes_promised(), reason="this Python's zlib isn't zlib")
def test_the_ee_compressor_writes_one_member_of_zlib_level_6(tmp_path: Path) -> None:
    # What is known of Earth Engine's table files: nine features of one float each, records of 220 bytes.
    names = [f"band{number}" for number in range(1, 10)]
    values = np.arange(4500, dtype=np.int64).reshape(500, 9) % 1013
    source = table(tmp_path / "t.parquet", **{name: values[:, place] for place, name in enumerate(names)})
    result = geotfr.export_table(source, tmp_path / "out", selectors=names[::-1], compressor="ee")
    stream = b"".join(
        framed(payload({name: ("float", [int(row[names.index(name)])]) for name in names[::-1]})) for row in values
    )
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = deflate.compress(stream) + deflate.flush()
    trailer = struct.pack("<II", zlib.crc32(stream), len(stream))
    assert result.records.read_bytes() == bytes.fromhex("1f8b08000000000000ff") + body + trailer


def test_nine_floats_under_names_of_six_letters_are_records_of_220_bytes(tmp_path: Path) -> None:
    names = [f"xxxxx{number}" for number in range(9)]
    result = geotfr.export_table(table(tmp_path / "t.parquet", **{name: [1, 2] for name in names}), tmp_path / "out")
    sizes = {16 + len(each) for each in payloads(result.records)}
    assert sizes == {16 + 3 + 9 * (2 + 2 + 6 + 2 + 2 + 2 + 4)}


def test_case_53_keeps_every_row_and_the_way_back_restores_the_types(tmp_path: Path) -> None:
    source = table(
        tmp_path / "t.parquet",
        none=pa.array([1.5, None], pa.float64()),
        date=pa.array([datetime.date(2020, 2, 29), None]),
        flag=pa.array([True, False]),
        text=pa.array(["é", None]),
        moment=pa.array([None, datetime.datetime(2020, 1, 2, 3, 4, 5)], pa.timestamp("ms")),
    )
    result = geotfr.export_table(source, tmp_path / "out")
    assert records(result.records) == [
        {"none": [1.5], "date": [b"2020-02-29"], "flag": [1.0], "text": ["é".encode()]},
        {"flag": [0.0], "moment": [b"2020-01-02T03:04:05.000"]},
    ]
    assert result.absent == {"none": 1, "date": 1, "text": 1, "moment": 1}
    assert any("text: 1 of 2 rows" in line for line in result.warnings)
    geotfr.ingest_table(result.records, tmp_path / "back.parquet")
    assert pq.read_table(tmp_path / "back.parquet").equals(pq.read_table(source))


def test_a_null_geometry_keeps_its_row_and_is_told(tmp_path: Path) -> None:
    frame = geopandas.GeoDataFrame({"a": [1, 2, 3]}, geometry=[POINTS[0], None, shapely.Point()], crs="EPSG:4326")
    result = geotfr.export_table(frame, tmp_path / "out")
    assert [sorted(found) for found in records(result.records)] == [["a", "latitude", "longitude"], ["a"], ["a"]]
    assert result.absent == {"longitude": 2, "latitude": 2}


def test_points_in_metres_become_longitude_and_latitude(tmp_path: Path) -> None:
    result = geotfr.export_table(plots("EPSG:3857"), tmp_path / "out", selectors="longitude,latitude,class")
    found = records(result.records)
    for each, point in zip(found, POINTS, strict=True):
        assert each["longitude"] == pytest.approx([point.x], abs=1e-5)
        assert each["latitude"] == pytest.approx([point.y], abs=1e-5)


@pytest.mark.parametrize("mode", ["wkb", "geojson"])
def test_polygons_go_as_wkb_or_geojson(mode: str, tmp_path: Path) -> None:
    square = shapely.box(0, 0, 2, 1)
    frame = geopandas.GeoDataFrame({"a": [1]}, geometry=[square], crs="EPSG:4326")
    result = geotfr.export_table(frame, tmp_path / "out", geometry=mode)
    (found,) = records(result.records)
    read = shapely.from_wkb if mode == "wkb" else shapely.from_geojson
    assert read(found["geometry"][0] if mode == "wkb" else found["geometry"][0].decode()).equals(square)


def test_geometries_that_are_no_points_are_left_out_and_told(tmp_path: Path) -> None:
    frame = geopandas.GeoDataFrame({"a": [1]}, geometry=[shapely.box(0, 0, 2, 1)], crs="EPSG:4326")
    result = geotfr.export_table(frame, tmp_path / "out")
    assert records(result.records) == [{"a": [1.0]}]
    assert "--geometry lonlat, wkb or geojson keeps them" in result.warnings[0]


def test_native_kinds_keep_whole_numbers(tmp_path: Path) -> None:
    source = table(
        tmp_path / "t.parquet",
        a=pa.array([2**62 + 1, -3]),
        flag=[True, False],
        x=[0.5, 1.5],
        some=pa.array([[1, 2], [300, 4]], pa.list_(pa.int16(), 2)),
    )
    result = geotfr.export_table(source, tmp_path / "out", feature_kinds="native")
    assert records(result.records) == [
        {"a": [2**62 + 1], "flag": [1], "x": [0.5], "some": [1, 2]},
        {"a": [-3], "flag": [0], "x": [1.5], "some": [300, 4]},
    ]


def test_what_float32_can_not_hold_is_counted(tmp_path: Path) -> None:
    source = table(tmp_path / "t.parquet", a=pa.array([2**24, 2**24 + 1, -(2**63)]), x=[1e39, 1.0, float("inf")])
    result = geotfr.export_table(source, tmp_path / "out")
    told = " ".join(result.warnings)
    assert "a: 1 whole numbers beyond 2^24" in told
    assert "x: 1 numbers beyond float32" in told


def test_nan_stays_a_value_and_arrays_are_flattened_row_major(tmp_path: Path) -> None:
    source = table(
        tmp_path / "t.parquet",
        x=pa.array([float("nan")]),
        grid=pa.array([[[1, 2, 3], [4, 5, 6]]], pa.list_(pa.list_(pa.float32(), 3), 2)),
        words=pa.array([["a", "bc"]]),
    )
    result = geotfr.export_table(source, tmp_path / "out")
    (found,) = records(result.records)
    assert np.isnan(found["x"]).all()
    assert (found["grid"], found["words"]) == ([1, 2, 3, 4, 5, 6], [b"a", b"bc"])
    columns = json.loads(result.manifest.read_text())["columns"]
    assert [column["shape"] for column in columns] == [[], [2, 3], [None]]


def test_csv_makes_points_of_columns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,x,y,name\n1,500000,0,a\n2,500000,1000,\n")
    result = geotfr.export_table(tmp_path / "t.csv", tmp_path / "out", x="x", y="y", crs="EPSG:32633")
    first, second = records(result.records)
    assert first["longitude"] == [15.0]
    assert second["latitude"][0] > 0
    assert (second["name"], second["id"]) == ([b""], [2.0])


def test_layers_and_filters_choose_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.gpkg"
    plots().to_file(path, layer="one")
    plots().to_file(path, layer="two")
    result = geotfr.export_table(path, tmp_path / "out", layer="two", where="class > 1", geometry="none")
    assert [found["class"] for found in records(result.records)] == [[2.0], [3.0]]


@pytest.mark.parametrize("workers", [1, 3])
def test_bytes_do_not_depend_on_workers(workers: int, tmp_path: Path) -> None:
    values = np.random.default_rng(1).random(50_000)
    source = table(tmp_path / "t.parquet", a=values, b=[f"name {number}" for number in range(50_000)])
    one = geotfr.export_table(source, tmp_path / "one", workers=1)
    other = geotfr.export_table(source, tmp_path / "other", workers=workers)
    assert one.records.read_bytes() == other.records.read_bytes()
    assert len(records(one.records)) == 50_000


def test_no_rows_make_a_whole_file_without_records(tmp_path: Path) -> None:
    for compressor in ("fast", "ee"):
        source = table(tmp_path / "t.parquet", a=pa.array([], pa.int64()))
        result = geotfr.export_table(source, tmp_path / "out", compressor=compressor, overwrite=True)
        assert records(result.records) == []
        assert "no rows" in result.warnings[0]


def bad(tmp_path: Path, source: Any, message: str, code: int, **options: Any) -> None:
    """The export is refused with ``message``, and nothing is left."""
    before = sorted(tmp_path.iterdir())
    with pytest.raises(geotfr.GeotfrError, match=message) as caught:
        geotfr.export_table(source, tmp_path / "out", **options)
    assert caught.value.exit_code == code
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


def test_bad_values_are_refused_by_row_and_column(tmp_path: Path) -> None:
    source = table(tmp_path / "a.parquet", n=pa.array([1, 2**63], pa.uint64()))
    bad(tmp_path, source, "row 1, column 'n': 9223372036854775808 is beyond int64", 10, feature_kinds="native")
    text = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 3], np.int32)), pa.py_buffer(b"a\xff\xfe")]
    )
    bad(tmp_path, table(tmp_path / "b.parquet", s=text), "row 1, column 's': the text isn't UTF-8", 10)
    nested = table(tmp_path / "c.parquet", l=pa.array([[1], [2, None]]))
    bad(tmp_path, nested, "column 'l': a null inside an array", 10, feature_kinds="native")
    struct_column = table(tmp_path / "d.parquet", s=pa.array([{"a": 1}]))
    bad(tmp_path, struct_column, "column 's': its type struct.* fits no feature", 10)


@pytest.mark.parametrize("first", ["1", "", "18446744073709551615"])
def test_integers_of_a_csv_beyond_int64_are_refused_or_told_as_those_of_parquet(first: str, tmp_path: Path) -> None:
    source = tmp_path / "a.csv"
    source.write_text(f"k,f,n\n7,1.5,{first}\n8,9223372036854775808,9223372036854775808\n")
    row = 0 if len(first) > 1 else 1
    number = first if len(first) > 1 else "9223372036854775808"
    bad(tmp_path, source, f"row {row}, column 'n': {number} is beyond int64", 10, feature_kinds="native")
    result = geotfr.export_table(source, tmp_path / "out")
    assert [found["f"] for found in records(result.records)] == [[1.5], [float(2**63)]]
    assert records(result.records)[1]["n"] == [float(2**63)]


@pytest.mark.parametrize("kinds", ["float", "native"])
@pytest.mark.parametrize(
    "numbers", [("1", "18446744073709551616"), ("-1", "9223372036854775808"), ("-9999999999999999999",)]
)
def test_integers_of_a_csv_that_no_type_holds_are_refused_by_row_and_column(
    numbers: tuple[str, ...], kinds: str, tmp_path: Path
) -> None:
    source = tmp_path / "a.csv"
    source.write_text("k,n\n" + "".join(f"7,{number}\n" for number in numbers))
    told = f"row {len(numbers) - 1}, column 'n': {numbers[-1]} is beyond int64"
    bad(tmp_path, source, told, 10, feature_kinds=kinds)


def test_a_polygon_for_points_is_refused_by_row(tmp_path: Path) -> None:
    frame = geopandas.GeoDataFrame({"a": [1, 2]}, geometry=[POINTS[0], shapely.box(0, 0, 1, 1)], crs="EPSG:4326")
    bad(tmp_path, frame, "row 1 is a Polygon, not a point; use --geometry wkb", 10, geometry="lonlat")


def test_frames_of_mixed_types_are_refused_by_column(tmp_path: Path) -> None:
    import pandas as pd

    bad(tmp_path, pd.DataFrame({"a": [1, 2], "m": [1, "b"]}), "column 'm' has values of several types", 10)
    bad(tmp_path, pd.DataFrame({"big": [2**70, 1]}), "column 'big'", 10)


def test_names_that_clash_or_are_not_there_are_refused(tmp_path: Path) -> None:
    bad(tmp_path, plots(), "two features are called 'a'", 2, selectors="a=class,a=ndvi")
    bad(tmp_path, plots(), "no column 'ndvj'; did you mean 'ndvi'", 10, selectors="ndvj")
    frame = plots().rename(columns={"ndvi": "longitude"})
    bad(tmp_path, frame, "'longitude' is made from the geometry and is a column too", 2, geometry="lonlat")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    bad(tmp_path, tmp_path / "t.csv", "no column 'lon' for --x; there are a, b", 10, x="lon", y="b")
    bad(tmp_path, tmp_path / "t.csv", "has no geometries for --geometry lonlat", 10, geometry="lonlat")


def test_files_that_are_no_tables_are_refused(tmp_path: Path) -> None:
    bad(tmp_path, tmp_path / "missing.gpkg", "no such file", 10)
    # GDAL would open this as a table of another file.
    (tmp_path / "x.gpkg").write_text("<OGRVRTDataSource><OGRVRTLayer name='a'/></OGRVRTDataSource>")
    bad(tmp_path, tmp_path / "x.gpkg", r"a VRT \(XML that names other files\), not a table", 10)
    plots().to_file(tmp_path / "t.gpkg", layer="plots")
    bad(tmp_path, tmp_path / "t.gpkg", "no layer 'nix'; there are plots", 10, layer="nix")
    (tmp_path / "u.csv").write_bytes(b"a,b\n1,x\n2,\xff\xfe\n")
    bad(tmp_path, tmp_path / "u.csv", "column 'b' holds text that isn't UTF-8", 10)
    (tmp_path / "names.csv").write_bytes("größe\n1\n".encode("latin-1"))
    bad(tmp_path, tmp_path / "names.csv", "the name of a column isn't UTF-8", 10)
    (tmp_path / "wide.csv").write_bytes("a,b\n1,2\n".encode("utf-16"))
    bad(tmp_path, tmp_path / "wide.csv", "the text is UTF-16; convert the file to UTF-8", 10)
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and nothing more")
    bad(tmp_path, tmp_path / "cut.parquet", "can't be read", 10)


def test_points_without_a_crs_have_no_place(tmp_path: Path) -> None:
    frame = geopandas.GeoDataFrame({"a": [1]}, geometry=[POINTS[0]])
    bad(tmp_path, frame, "has no CRS", 10)
    result = geotfr.export_table(frame, tmp_path / "out", crs="EPSG:4326")
    assert records(result.records)[0]["longitude"] == [12.5]


def test_the_command_exports_and_refuses_to_overwrite(tmp_path: Path) -> None:
    plots().to_file(tmp_path / "t.gpkg")
    command = ("export-table", tmp_path / "t.gpkg", "--output", tmp_path / "out", "--selectors", "class,k=ndvi")
    outcome = run(*command, "--json")
    assert outcome.code == 0, outcome.told
    assert json.loads(outcome.stdout)["features"] == ["class", "k"]
    assert run(*command).code == 14
    assert run(*command, "--overwrite", "--quiet").told == ""
    assert run("export-table", tmp_path / "none.gpkg", "--output", tmp_path / "o").code == 10


def test_the_manifest_names_no_folder_and_no_time(tmp_path: Path) -> None:
    plots().to_file(tmp_path / "t.gpkg")
    result = geotfr.export_table(tmp_path / "t.gpkg", tmp_path / "out")
    text = result.manifest.read_text()
    assert str(tmp_path) not in text
    found = json.loads(text)
    assert (found["records"]["records"], found["source"]["name"], found["complete"]) == (3, "t.gpkg", True)


def test_columns_named_as_the_coordinates_of_other_columns_are_not_lost(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("longitude,x,y\n1,2,3\n")
    with pytest.raises(geotfr.errors.UsageError, match="'longitude' is made from the geometry and is a column too"):
        geotfr.export_table(tmp_path / "t.csv", tmp_path / "out", x="x", y="y", geometry="lonlat")


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:32633"])
def test_heights_are_kept_as_geojson_and_told_as_lonlat(crs: str, tmp_path: Path) -> None:
    line = shapely.LineString([(500000, 4600000, 1), (500010, 4600000, 2)])
    source = geopandas.GeoDataFrame(
        {"id": [1, 2]}, geometry=[shapely.Point(500000, 4600000, 7), shapely.Point(500000, 4600000)], crs="EPSG:32633"
    )
    lines = geopandas.GeoDataFrame({"id": [1]}, geometry=[line], crs="EPSG:32633").to_crs(crs)
    result = geotfr.export_table(source.to_crs(crs), tmp_path / "points")
    assert result.warnings == (
        "1 points have a z, which longitude and latitude leave out; --geometry wkb or geojson keeps it",
    )
    geotfr.export_table(source.to_crs(crs), tmp_path / "points_json", geometry="geojson")
    geotfr.export_table(lines, tmp_path / "lines", geometry="geojson")
    texts = [json.loads(payload_of(tmp_path / f"{name}.tfrecord.gz")) for name in ("points_json", "lines")]
    assert [len(place) for place in (texts[0]["coordinates"], *texts[1]["coordinates"])] == [3, 3, 3]
    assert [place[2] for place in (texts[0]["coordinates"], *texts[1]["coordinates"])] == [7, 1, 2]


def payload_of(path: Path) -> bytes:
    """The text of the feature geometry of the first record."""
    features = geotfr.parse_single_example(
        next(iter(geotfr.read_records(path))), {"geometry": geotfr.FixedLenFeature([], bytes)}
    )
    found = features["geometry"]
    return bytes(found if isinstance(found, bytes) else found.item())


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:32633"])
def test_a_geometry_without_a_place_has_no_geojson(crs: str, tmp_path: Path) -> None:
    away = shapely.Point(np.inf, 3) if crs == "EPSG:4326" else shapely.Point(1e9, 1e9)
    source = geopandas.GeoDataFrame({"id": [1, 2]}, geometry=[shapely.Point(1, 2), away], crs=crs)
    result = geotfr.export_table(source, tmp_path / "t", geometry="geojson")
    assert result.warnings == ("geometry: 1 of 2 rows have no geometry, so no feature of that name",)
    back = geotfr.ingest_table(tmp_path / "t.tfrecord.gz").frame
    assert back.geometry.isna().tolist() == [False, True]

"""Each format with each content: what goes in comes out, as a reader that isn't geotfr's sees it, or the loss is told.

The source is written by geopandas, pyarrow or csv, exported to records, ingested to each format, and read with pyogrio
(without Arrow), pyarrow or csv.
"""

from __future__ import annotations

import csv
import datetime
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import geotfr

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pyogrio = pytest.importorskip("pyogrio")
geopandas = pytest.importorskip("geopandas")
shapely = pytest.importorskip("shapely")

Rows = list[Any]
UTC = datetime.UTC
BERLIN = datetime.timezone(datetime.timedelta(hours=2))

VALUES: dict[str, tuple[Any, Rows]] = {
    "int64": (pa.int64(), [1, 2**53 + 1, -(2**53) - 1, None, 2**62 + 1]),
    "bool": (pa.bool_(), [True, False, None, True, False]),
    "text": (pa.string(), ["a", 'é,\n"q"', None, "NA", "0012x"]),
    "float": (pa.float64(), [0.5, -1.25, None, 0.0, 3.0]),
    "odd": (pa.float64(), [0.5, math.nan, math.inf, -math.inf, None]),
    "naive": (pa.timestamp("ms"), [datetime.datetime(2024, 1, 1, 10), None, *[datetime.datetime(2024, 7, 1, 9)] * 3]),
    "zoned": (
        pa.timestamp("ms", "UTC"),
        [
            datetime.datetime(2024, 1, 1, 10, tzinfo=BERLIN),
            datetime.datetime(2024, 1, 1, 9, tzinfo=UTC),
            None,
            datetime.datetime(2024, 1, 1, 10, tzinfo=UTC),
            datetime.datetime(1969, 12, 31, 23, tzinfo=UTC),
        ],
    ),
    "none": (pa.float64(), [None] * 5),
    "nested": (pa.list_(pa.float64()), [[1.0, 2.0], [], None, [3.0], [4.0]]),
    "pair": (pa.list_(pa.float64(), 2), [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0], [9.0, 10.0]]),
}
PLACES: dict[str, Rows] = {
    "points": [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)],
    "null": [None, (1, 1), None, (3, 3), None],
}
SHAPES: dict[str, list[str | None]] = {
    "flat": ["POLYGON ((0 0, 1 0, 1 1, 0 0))", "LINESTRING (0 0, 1 1)", "POINT (1 2)"],
    "null": [None, "POINT (1 2)", None, "LINESTRING (0 0, 1 1)", None],
    "empty": ["POLYGON EMPTY", "POINT EMPTY", "POINT (1 2)"],
    "z": ["POINT Z (1 2 3)", "LINESTRING Z (0 0 1, 1 1 2)"],
    "m": ["POINT M (1 2 3)", "POINT ZM (1 2 3 4)"],
    "odd": ["POINT (NaN 1)", "LINESTRING (0 0, Infinity 1)", "POINT (1 2)"],
}
SUFFIXES = ("gpkg", "geojson", "fgb", "parquet", "csv")


def source(path: Path, arrow: Any, values: Rows, places: Rows) -> Path | None:
    """The table with columns n and x at ``path``, in the format of its suffix; None where that has no such column."""
    suffix = path.suffix[1:]
    table = pa.table({"n": pa.array(range(len(values)), pa.int64()), "x": pa.array(values, arrow)})
    if suffix == "parquet":
        pq.write_table(table, path)
    elif suffix == "csv":
        if pa.types.is_nested(arrow):
            return None
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["n", "x"])
            for number, value in enumerate(values):
                text = value.isoformat() if isinstance(value, datetime.datetime) else str(value)
                writer.writerow([number, "" if value is None else text.lower() if isinstance(value, bool) else text])
    else:
        if pa.types.is_nested(arrow) or (arrow == pa.float64() and suffix == "geojson" and not _is_json(values)):
            return None
        wkb = [None if xy is None else shapely.Point(xy).wkb for xy in places]
        drivers = {"gpkg": "GPKG", "geojson": "GeoJSON", "fgb": "FlatGeobuf", "shp": "ESRI Shapefile"}
        pyogrio.write_arrow(
            table.append_column("geometry", pa.array(wkb, pa.binary())),
            path,
            driver=drivers[suffix],
            geometry_name="geometry",
            geometry_type="Point",
            crs="EPSG:4326",
            layer_options={"SPATIAL_INDEX": "NO"} if suffix == "fgb" else {},
        )
    return path


def _is_json(values: Rows) -> bool:
    return all(value is None or math.isfinite(value) for value in values)


def column(path: Path) -> Rows:
    """The column x in order of the rows, by a reader that isn't geotfr's."""
    if path.suffix == ".parquet":
        return list(pq.read_table(path)["x"].to_pylist())
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return [row["x"] for row in csv.DictReader(file)]
    meta, _, _, fields = pyogrio.raw.read(path, read_geometry=False, datetime_as_string=True)
    return list(fields[list(meta["fields"]).index("x")])


def is_null(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float | np.floating) and bool(np.isnan(value)))


def agree(found: Any, wanted: Any) -> bool:
    """Whether a reader's value is ``wanted``: text, numbers of any type, and times as text stand for themselves."""
    if isinstance(wanted, datetime.datetime):
        moment = found if isinstance(found, datetime.datetime) else datetime.datetime.fromisoformat(str(found))
        return (moment.tzinfo is None) == (wanted.tzinfo is None) and moment == wanted
    if isinstance(wanted, bool):
        return str(found).lower() in (("true", "1", "1.0") if wanted else ("false", "0", "0.0"))
    if isinstance(wanted, int) and isinstance(found, str):
        return int(found) == wanted
    if isinstance(wanted, float) and not isinstance(found, str):
        return bool(np.array_equal(np.float64(found), np.float64(wanted), equal_nan=True))
    return (
        float(found) == wanted or str(float(found)) == str(wanted)
        if isinstance(wanted, float)
        else bool(found == wanted)
    )


def check_column(found: Rows, wanted: Rows, suffix: str, warnings: tuple[str, ...]) -> None:
    """Each value equal, or null and counted."""
    assert len(found) == len(wanted)
    lost = 0
    for mine, yours in zip(found, wanted, strict=True):
        if yours is None:
            assert is_null(mine), (mine, yours)
        elif is_null(mine) and isinstance(yours, float) and not math.isfinite(yours) and suffix in ("gpkg", "geojson"):
            lost += 1
        else:
            assert agree(mine, yours), (mine, yours)
    told = [line for line in warnings if line.startswith("x: ") and "null in the output" in line]
    assert [int(line.split()[1]) for line in told] == ([lost] if lost else [])


@pytest.mark.parametrize("content", [name for name in VALUES if name not in ("nested", "pair")])
@pytest.mark.parametrize("form", ["gpkg", "geojson", "fgb", "shp", "parquet", "csv"])
def test_values_of_each_format_reach_every_format(content: str, form: str, tmp_path: Path) -> None:
    arrow, values = VALUES[content]
    if form == "shp" and content in ("naive", "zoned", "odd", "none", "bool", "text", "int64"):
        pytest.skip("dBase has no such values")
    if form == "csv" and content in ("text",):
        # A cell has no null.
        values = ["" if value is None else value for value in values]
    path = source(tmp_path / f"in.{form}", arrow, values, PLACES["null"] if form != "csv" else [])
    if path is None:
        pytest.skip("the format has no such values")
    if form == "gpkg":
        values = [None if isinstance(value, float) and math.isnan(value) else value for value in values]
    exported = geotfr.export_table(path, tmp_path / "t", feature_kinds="native")
    nulls = sum(value is None for value in values)
    assert exported.absent.get("x", 0) == nulls
    for suffix in SUFFIXES:
        result = geotfr.ingest_table(exported.records, tmp_path / f"out.{suffix}")
        check_column(column(tmp_path / f"out.{suffix}"), values, suffix, result.warnings)


@pytest.mark.parametrize("content", ["nested", "pair"])
def test_arrays_reach_every_format_that_has_them(content: str, tmp_path: Path) -> None:
    arrow, values = VALUES[content]
    exported = geotfr.export_table(source(tmp_path / "in.parquet", arrow, values, []), tmp_path / "t")
    for suffix in SUFFIXES:
        output = tmp_path / f"out.{suffix}"
        if suffix not in ("parquet", "geojson") and content == "nested":
            with pytest.raises(geotfr.UsageError, match="lengths that may differ"):
                geotfr.ingest_table(exported.records, output)
            continue
        geotfr.ingest_table(exported.records, output)
        if suffix == "parquet":
            assert column(output) == values
        elif suffix == "geojson":
            found = pyogrio.read_dataframe(output, use_arrow=False)["x"]
            assert [None if each is None else list(each) for each in found] == values


def test_arrays_with_numbers_that_json_has_not_are_null_and_counted(tmp_path: Path) -> None:
    values = [[1.0, math.nan], [2.0], None, [math.inf]]
    exported = geotfr.export_table(source(tmp_path / "in.parquet", VALUES["nested"][0], values, []), tmp_path / "t")
    result = geotfr.ingest_table(exported.records, tmp_path / "out.geojson")

    def refuse(text: str) -> None:
        raise ValueError(text)

    features = json.loads((tmp_path / "out.geojson").read_text(), parse_constant=refuse)["features"]
    assert [each["properties"]["x"] for each in features] == [None, [2.0], None, None]
    assert sum("x: 2 arrays" in line for line in result.warnings) == 1


@pytest.mark.parametrize("geometry", ["lonlat", "wkb", "geojson"])
@pytest.mark.parametrize("form", ["gpkg", "geojson", "fgb", "shp"])
@pytest.mark.parametrize("null", [0, 2, 4])
def test_a_null_geometry_at_any_row_is_null_in_every_format(
    null: int, form: str, geometry: Any, tmp_path: Path
) -> None:
    places = [None if row == null else (row, row) for row in range(5)]
    path = source(tmp_path / f"in.{form}", pa.float64(), [0.5] * 5, places)
    exported = geotfr.export_table(path, tmp_path / "t", geometry=geometry)
    assert set(exported.absent.values()) == {1}
    for suffix in ("gpkg", "fgb", "parquet"):
        geotfr.ingest_table(exported.records, tmp_path / f"out.{suffix}")
        found = shapes(tmp_path / f"out.{suffix}")
        assert [None if each is None else (each.x, each.y) for each in found] == places


def shapes(path: Path) -> list[Any]:
    if path.suffix == ".parquet":
        return list(shapely.from_wkb(pq.read_table(path)["geometry"].to_pylist()))
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return [shapely.from_wkt(row["geometry"]) if row["geometry"] else None for row in csv.DictReader(file)]
    return list(pyogrio.read_dataframe(path, use_arrow=False).geometry)


def geo(*kinds: str) -> str:
    """GeoParquet's description of a column of WKB."""
    column = {"encoding": "WKB", "geometry_types": kinds}
    return json.dumps({"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}})


def without_m(shape: Any) -> Any:
    return shapely.from_wkt({"POINT M (1 2 3)": "POINT (1 2)", "POINT ZM (1 2 3 4)": "POINT Z (1 2 3)"}[shape.wkt])


LOSSES: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("empty", "fgb"): lambda shape: None if shape.is_empty else shape,
    ("empty", "geojson"): lambda shape: None if shape.wkt == "POINT EMPTY" else shape,
    ("z", "fgb"): shapely.force_2d,
    ("m", "fgb"): shapely.force_2d,
    ("m", "gpkg"): without_m,
    ("m", "geojson"): without_m,
    ("odd", "geojson"): lambda shape: shape if np.isfinite(shapely.get_coordinates(shape)).all() else None,
}
COUNTS = {
    ("empty", "fgb"): ["2 geometries are empty"],
    ("empty", "geojson"): ["1 geometries are empty"],
    ("z", "fgb"): ["2 geometries have a z"],
    ("m", "fgb"): ["1 geometries have a z", "2 geometries have an m"],
    ("m", "gpkg"): ["2 geometries have an m"],
    ("m", "geojson"): ["2 geometries have an m"],
    ("odd", "geojson"): ["2 geometries have a coordinate that isn't finite"],
}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("content", SHAPES)
def test_geometries_reach_every_format_or_the_loss_is_counted(content: str, suffix: str, tmp_path: Path) -> None:
    with np.errstate(invalid="ignore"):
        wanted = [None if text is None else shapely.from_wkt(text) for text in SHAPES[content]]
        table = pa.table(
            {"geometry": pa.array([None if each is None else shapely.to_wkb(each, flavor="iso") for each in wanted])}
        )
    table = table.append_column("n", pa.array(range(len(wanted)))).replace_schema_metadata({"geo": geo()})
    pq.write_table(table, tmp_path / "in.parquet")
    exported = geotfr.export_table(tmp_path / "in.parquet", tmp_path / "t", geometry="wkb")
    assert exported.absent.get("geometry", 0) == wanted.count(None)
    result = geotfr.ingest_table(exported.records, tmp_path / f"out.{suffix}")
    lose = LOSSES.get((content, suffix), lambda shape: shape)
    with np.errstate(invalid="ignore"):
        found = shapes(tmp_path / f"out.{suffix}")
    for mine, yours in zip(found, [None if each is None else lose(each) for each in wanted], strict=True):
        assert (mine is None) == (yours is None), (mine, yours)
        assert mine is None or shapely.to_wkt(mine, rounding_precision=-1) == shapely.to_wkt(
            yours, rounding_precision=-1
        )
    told = [line for line in result.warnings if "geometries" in line]
    counts = COUNTS.get((content, suffix), [])
    assert len(told) == len(counts)
    for line, count in zip(told, counts, strict=True):
        assert line.startswith(f"geometry: {count}")


@pytest.mark.parametrize(("mode", "lost"), [("lonlat", ["z", "m"]), ("geojson", ["m"])])
def test_axes_that_records_leave_out_are_counted(mode: Any, lost: list[str], tmp_path: Path) -> None:
    points = [shapely.from_wkt("POINT ZM (1 2 3 4)").wkb, shapely.Point(1, 2).wkb, None]
    table = pa.table({"geometry": pa.array(points)}).replace_schema_metadata({"geo": geo("Point")})
    pq.write_table(table, tmp_path / "in.parquet")
    warnings = geotfr.export_table(tmp_path / "in.parquet", tmp_path / "t", geometry=mode).warnings
    found = [
        axis
        for axis, what in (("z", "1 points have a z"), ("m", "1 geometries have an m"))
        if any(line.startswith(what) for line in warnings)
    ]
    assert found == lost


def test_times_of_which_some_have_no_zone_are_counted(tmp_path: Path) -> None:
    texts = ["2024-01-01T10:00:00+02:00", "2024-01-01T09:00:00", None, "2024-01-01T10:00:00Z"]
    features = [{"type": "Feature", "properties": {"x": text}, "geometry": None} for text in texts]
    (tmp_path / "in.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    exported = geotfr.export_table(tmp_path / "in.geojson", tmp_path / "t")
    assert sum("1 of 3 times have no time zone" in line for line in exported.warnings) == 1
    geotfr.ingest_table(exported.records, tmp_path / "out.parquet")
    hours = [None if each is None else (each.hour, each.utcoffset()) for each in column(tmp_path / "out.parquet")]
    zero = datetime.timedelta(0)
    assert hours == [(8, zero), (9, zero), None, (10, zero)]


def test_bounds_are_written_beside_geometries_and_are_no_column_of_the_table(tmp_path: Path) -> None:
    shapes_in = [shapely.Point(0, 0), shapely.box(5, 5, 6, 6), None, shapely.Point()]
    frame = geopandas.GeoDataFrame({"n": [1, 2, 3, 4]}, geometry=shapes_in, crs="EPSG:4326")
    frame.to_parquet(tmp_path / "theirs.parquet", write_covering_bbox=True)
    exported = geotfr.export_table(tmp_path / "theirs.parquet", tmp_path / "t", geometry="wkb")
    assert exported.features == ("n", "geometry")
    result = geotfr.ingest_table(exported.records, tmp_path / "ours.parquet")
    assert result.columns == ("n", "geometry")
    assert list(geopandas.read_parquet(tmp_path / "ours.parquet", bbox=(4, 4, 7, 7))["n"]) == [2]
    assert pq.ParquetFile(tmp_path / "ours.parquet").metadata.row_group(0).column(0).compression == "ZSTD"
    again = geotfr.export_table(tmp_path / "ours.parquet", tmp_path / "again", geometry="wkb")
    assert again.records.read_bytes() == exported.records.read_bytes()

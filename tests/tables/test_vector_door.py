"""A vector file is read as what its content is, by a driver of that name, and by no other."""

from __future__ import annotations

import json
import shutil
import sqlite3
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from oracle.run import assert_refused, run

import geotfr
from geotfr.errors import InputError, LimitError
from geotfr.vectors import sqlite_container
from geotfr.vectors.source import TableRequest, open_table

pa = pytest.importorskip("pyarrow")
pyogrio = pytest.importorskip("pyogrio")
geopandas = pytest.importorskip("geopandas")

FEATURE = {"type": "Feature", "properties": {"a": 1}, "geometry": {"type": "Point", "coordinates": [1, 2]}}
FORMATS = {".gpkg": "GPKG", ".geojson": "GeoJSON", ".fgb": "FlatGeobuf", ".shp": "ESRI Shapefile"}


def shapes(count: int = 5, crs: Any = "EPSG:32633") -> Any:
    frame = {
        "a": np.arange(count, dtype=np.int32),
        "b": np.linspace(0, 1, count),
        "name": [f"né {at}" for at in range(count)],
    }
    places = [shapely.Point(at, -at).buffer(1, quad_segs=1) for at in range(count)]
    return geopandas.GeoDataFrame(frame, geometry=places, crs=crs)


def column(path: Path, name: str, **given: Any) -> list[Any]:
    table = open_table(path, TableRequest(**given))
    return [value for batch in table.batches() for value in batch.column(name).to_pylist()]


@pytest.mark.parametrize("where", [None, "a > 1 AND name <> 'né 3'"])
@pytest.mark.parametrize("crs", ["EPSG:32633", "ESRI:54009", None, "+proj=laea +lat_0=10 +lon_0=20 +datum=WGS84"])
@pytest.mark.parametrize("suffix", FORMATS)
def test_rows_types_and_crs_are_those_that_pyogrio_reads(
    suffix: str, crs: str | None, where: str | None, tmp_path: Path
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # no CRS
        shapes(crs=crs).to_file(tmp_path / f"t{suffix}", driver=FORMATS[suffix])
    table = open_table(tmp_path / f"t{suffix}", TableRequest(where=where))
    meta, expected = pyogrio.read_arrow(tmp_path / f"t{suffix}", where=where)
    assert pa.Table.from_batches(table.batches(), table.schema).equals(expected)
    assert table.schema.equals(expected.schema, check_metadata=True)
    assert table.geometry == (meta["geometry_name"] or "wkb_geometry")
    assert bool(table.crs) == (meta["crs"] is not None)
    if meta["crs"] and suffix != ".geojson":
        import pyproj

        assert pyproj.CRS(table.crs).equals(pyproj.CRS(meta["crs"]), ignore_axis_order=True)


@pytest.mark.parametrize("suffix", [".gpkg", ".geojson", ".fgb"])
def test_a_name_proves_nothing(suffix: str, tmp_path: Path) -> None:
    shapes().to_file(tmp_path / f"t{suffix}", driver=FORMATS[suffix])
    for other in (".csv", ".shp", ".tif", ".vrt", ".kml", ""):
        shutil.copy(tmp_path / f"t{suffix}", tmp_path / f"u{other}")
        assert sorted(column(tmp_path / f"u{other}", "a")) == [0, 1, 2, 3, 4]


OTHERS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "a sequence": (
        lambda path: shapes(crs="EPSG:4326").to_file(path, driver="GeoJSONSeq"),
        "a sequence of GeoJSON objects",
        "GeoJSONSeq",
    ),
    "TopoJSON": (
        lambda path: path.write_text(
            json.dumps(
                {
                    "type": "Topology",
                    "objects": {"x": {"type": "Point", "coordinates": [1, 2], "properties": {"a": 1}}},
                    "arcs": [],
                }
            )
        ),
        "TopoJSON",
        "TopoJSON",
    ),
    "ESRI's JSON": (
        lambda path: path.write_text(
            json.dumps(
                {
                    "geometryType": "esriGeometryPoint",
                    "spatialReference": {"wkid": 4326},
                    "fields": [{"name": "a", "type": "esriFieldTypeInteger"}],
                    "features": [{"attributes": {"a": 1}, "geometry": {"x": 1, "y": 2}}],
                }
            )
        ),
        "ESRI's JSON",
        "ESRIJSON",
    ),
    "GML": (lambda path: shapes().to_file(path, driver="GML"), "an XML file", "GML"),
    "a database": (lambda path: shapes().to_file(path, driver="SQLite"), "a SQLite database", "SQLite"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_format_is_named_and_read_once_its_driver_is_allowed(name: str, tmp_path: Path) -> None:
    write, words, driver = OTHERS[name]
    path = tmp_path / "t.geojson"
    write(path)
    before = sorted(tmp_path.iterdir())
    assert_refused(run("export-table", path, "-o", tmp_path / "out"), 10, words, "--allow-driver")
    done = run(
        "export-table", path, "-o", tmp_path / "out", "--allow-driver", driver, "--selectors", "a",
        "--geometry", "none", "--json",
    )  # fmt: skip
    assert done.code == 0, done.told
    assert json.loads(done.stdout)["rows"] == (1 if name in ("TopoJSON", "ESRI's JSON") else 5)
    assert {*tmp_path.iterdir()} - {*before} == {tmp_path / "out.tfrecord.gz", tmp_path / "out-manifest.json"}


def test_a_folder_is_read_once_a_driver_of_folders_is_allowed(tmp_path: Path) -> None:
    pyogrio.write_dataframe(shapes(), tmp_path / "t.gdb", driver="OpenFileGDB", layer="t")
    with pytest.raises(InputError, match="a folder"):
        open_table(tmp_path / "t.gdb", TableRequest())
    assert column(tmp_path / "t.gdb", "a", allow_drivers=("OpenFileGDB",)) == [0, 1, 2, 3, 4]


def test_a_driver_that_gdal_lacks_is_named(tmp_path: Path) -> None:
    shapes().to_file(tmp_path / "t.gml", driver="GML")
    with pytest.raises(InputError, match="no driver of vectors named 'KLM'"):
        open_table(tmp_path / "t.gml", TableRequest(allow_drivers=("KLM",)))


def test_what_a_driver_is_allowed_for_in_python(tmp_path: Path) -> None:
    shapes(crs="EPSG:4326").to_file(tmp_path / "t.geojsonl", driver="GeoJSONSeq")
    result = geotfr.export_table(tmp_path / "t.geojsonl", tmp_path / "out", allow_drivers="GeoJSONSeq")
    back = geotfr.ingest_table(
        result.records, join=tmp_path / "t.geojsonl", allow_drivers=["GeoJSONSeq"], overwrite=True
    )
    assert (result.rows, back.rows) == (5, 5)


def test_a_word_in_a_text_makes_no_sequence(tmp_path: Path) -> None:
    texts = ["} {", '"}{', "\\", 'x {"type": "gdal_streamed_alg"} {']
    features = [{**FEATURE, "properties": {"name": text}} for text in texts]
    (tmp_path / "t.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    assert column(tmp_path / "t.geojson", "name") == texts


@pytest.mark.parametrize("bounds", ["type,features", "features,type"])
def test_members_come_in_any_order(bounds: str, tmp_path: Path) -> None:
    document = {"type": "FeatureCollection", "features": [FEATURE] * 3000}
    (tmp_path / "t.geojson").write_text(json.dumps({key: document[key] for key in bounds.split(",")}))
    assert column(tmp_path / "t.geojson", "a") == [1] * 3000


@pytest.mark.parametrize(("cut", "suffix"), [(".shp", ".shp"), (".dbf", ".shp"), (".fgb", ".fgb"), (".gpkg", ".gpkg")])
def test_a_cut_file_is_told_and_no_row_is_lost(cut: str, suffix: str, tmp_path: Path) -> None:
    shapes(5000).to_file(tmp_path / f"t{suffix}", driver=FORMATS[suffix])
    part = tmp_path / f"t{cut}"
    part.write_bytes(part.read_bytes()[: part.stat().st_size // 2])
    assert_refused(run("export-table", tmp_path / f"t{suffix}", "-o", tmp_path / "out"), 10, str(tmp_path))
    assert not list(tmp_path.glob("out*"))


def test_rows_that_are_not_yet_in_the_file_are_not_left_out(tmp_path: Path) -> None:
    shapes().to_file(tmp_path / "t.gpkg", driver="GPKG")
    with sqlite3.connect(tmp_path / "t.gpkg") as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("UPDATE gpkg_contents SET description = 'x'")
        connection.commit()
        with pytest.raises(InputError, match=r"t.gpkg-wal: holds changes that are not yet in t.gpkg"):
            open_table(tmp_path / "t.gpkg", TableRequest())
    connection.close()
    assert column(tmp_path / "t.gpkg", "a") == [0, 1, 2, 3, 4]


VIEWS = {
    "SELECT fid, geom, a FROM t WHERE a > 1": [2, 3, 4],
    "SELECT t.fid, t.geom, t.a FROM t JOIN rtree_t_geom AS r ON r.id = t.fid WHERE r.minx > 1.5": [3, 4],
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 9) SELECT x AS fid, x AS a FROM c": [
        *range(1, 10)
    ],
    "SELECT fid, a FROM t WHERE name LIKE '%3' OR substr(name, -1) = '4'": [3, 4],
    "SELECT 1 AS fid, count(*) AS a FROM (SELECT 1 FROM t)": [5],
}


@pytest.mark.parametrize("sql", VIEWS)
def test_a_plain_view_is_a_layer(sql: str, tmp_path: Path) -> None:
    shapes().to_file(tmp_path / "t.gpkg", driver="GPKG", layer="t")
    with sqlite3.connect(tmp_path / "t.gpkg") as connection:
        connection.execute(f"CREATE VIEW v AS {sql}")
    connection.close()
    # GDAL takes what a view computes for text.
    assert [int(value) for value in column(tmp_path / "t.gpkg", "a", layer="v")] == VIEWS[sql]


@pytest.mark.parametrize(("limit", "value"), [("MAX_VIEW_ROWS", 4), ("MAX_VIEW_BYTES", 100), ("MAX_VIEW_SECONDS", -9)])
def test_a_view_beyond_a_limit_is_refused_and_a_table_is_not(
    limit: str, value: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes(200).to_file(tmp_path / "t.gpkg", driver="GPKG", layer="t")
    with sqlite3.connect(tmp_path / "t.gpkg") as connection:
        connection.execute("CREATE VIEW v AS SELECT a, geom FROM t ORDER BY (SELECT count(*) FROM t AS u, t AS w)")
    connection.close()
    monkeypatch.setattr(sqlite_container, limit, value)
    with pytest.raises(LimitError, match="the view 'v'"):
        open_table(tmp_path / "t.gpkg", TableRequest(layer="v"))
    assert len(column(tmp_path / "t.gpkg", "a", layer="t")) == 200


def test_a_full_text_index_beside_the_layer_is_no_matter(tmp_path: Path) -> None:
    shapes().to_file(tmp_path / "t.gpkg", driver="GPKG", layer="t")
    with sqlite3.connect(tmp_path / "t.gpkg") as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE found USING fts5(name)")
        except sqlite3.OperationalError:
            pytest.skip("this SQLite has no full-text index")
    connection.close()
    assert column(tmp_path / "t.gpkg", "a", layer="t") == [0, 1, 2, 3, 4]

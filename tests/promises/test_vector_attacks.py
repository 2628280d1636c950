"""Hostile vector files, and files beside them: none has another file read, a view run without end, or a byte sent."""

from __future__ import annotations

import functools
import gzip
import io
import json
import os
import pickle
import sqlite3
import struct
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import geopandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from oracle.run import run
from promises.attacks import (
    Attack,
    Target,
    attack,
    attacks_of,
    documented_attacks,
    export,
    needs_inotify,
    run_attack,
)

from geotfr.vectors import sqlite_container

pytestmark = needs_inotify

REFUSED, LIMITED = 10, 13
EXPECTED: dict[str, set[int]] = {}
"""How an attack ends; 10 where nothing is said."""


def hostile(name: str, codes: set[int] | int = REFUSED) -> Callable[[Attack], Attack]:
    """Enter an attack into the list, with the exit codes it may end with."""
    EXPECTED[name] = {codes} if isinstance(codes, int) else codes
    return attack(name)


@functools.cache
def files_of(suffix: str) -> dict[str, bytes]:
    """Suffix -> bytes of a good vector file of three points, and of what is beside it."""
    frame = geopandas.GeoDataFrame(
        {"a": [1, 2, 3]}, geometry=[shapely.Point(at, -at) for at in (1, 2, 3)], crs="EPSG:4326"
    )
    with tempfile.TemporaryDirectory() as folder:
        frame.to_file(Path(folder) / f"t{suffix}")
        return {path.name.removeprefix("t"): path.read_bytes() for path in Path(folder).iterdir()}


def vector(target: Target, suffix: str, *, without: Sequence[str] = ()) -> Path:
    """A good vector file of the attacker's."""
    for ending, content in files_of(suffix).items():
        if ending not in without:
            target.file(f"t{ending}", content)
    return target.folder / f"t{suffix}"


def table(path: Any, *more: Any) -> list[Any]:
    return ["export-table", "-o", "out/t", *more, "--", path]


FEATURE = {"type": "Feature", "properties": {"a": 1}, "geometry": {"type": "Point", "coordinates": [1, -1]}}


def collection(**members: Any) -> str:
    return json.dumps({"type": "FeatureCollection", **members, "features": [FEATURE]})


# Contents that name other files, as every reader of vectors meets them.
def pipeline(source: Any, end: str = "write --output-format=stream streamed_dataset") -> dict[str, str]:
    return {"type": "gdal_streamed_alg", "command_line": f"gdal vector pipeline ! read {source} ! {end}"}


def ogr_vrt(source: Any) -> str:
    return (
        f'<OGRVRTDataSource><OGRVRTLayer name="x"><SrcDataSource>{source}</SrcDataSource></OGRVRTLayer>'
        "</OGRVRTDataSource>"
    )


def as_points(path: Path, target: Target) -> list[Any]:
    return ["sample", target.raster(crs="EPSG:4326"), "--points", path, "-o", "out/p.csv"]


def as_join(path: Path, target: Target) -> list[Any]:
    points = vector(target, ".gpkg")
    assert run("export-table", points, "-o", target.folder / "r", "--quiet").code == 0
    return ["ingest-table", target.folder / "r.tfrecord.gz", "-o", "out/j.csv", "--join", path]


def as_columns(path: Path, target: Target) -> list[Any]:
    assert run("export", target.raster(), "-o", target.folder / "s", "--patch-dimensions", "8", "--quiet").code == 0
    return ["table", target.folder / "s-manifest.json", "-o", "out/t.parquet", "--join", path]


READERS: dict[str, Callable[[Path, Target], list[Any]]] = {
    "a table": lambda path, _: table(path),
    "points to sample": as_points,
    "a table to join": as_join,
    "columns of a patch table": as_columns,
    "labels": lambda path, target: export(target.raster(crs="EPSG:4326"), "--labels", path),
    "labels with a condition": lambda path, target: export(
        target.raster(crs="EPSG:4326"), "--labels", path, "--label-where", "a > 0"
    ),
    "patches to keep": lambda path, target: export(target.raster(crs="EPSG:4326"), "--keep", path),
    "an area": lambda path, target: export(target.raster(crs="EPSG:4326"), "--within", path),
    "a region": lambda path, target: export(target.raster(crs="EPSG:4326"), "--region", f"@{path}"),
}
NAMING: dict[str, Callable[[Target], str]] = {
    "a pipeline of the canary": lambda t: json.dumps(pipeline(t.canary)),
    "a VRT of the canary": lambda t: ogr_vrt(t.canary),
}
for _reader, _words in READERS.items():
    for _content, _made in NAMING.items():

        def _read(
            target: Target,
            words: Callable[[Path, Target], list[Any]] = _words,
            make: Callable[[Target], str] = _made,
        ) -> list[Any]:
            return words(target.file("x.geojson", make(target)), target)

        hostile(f"{_reader}: {_content}", {2, REFUSED})(_read)

# JSON that only looks like GeoJSON.
JSONS: dict[str, Callable[[Target], str]] = {
    "a pipeline of an address": lambda t: json.dumps(pipeline(f"/vsicurl/{t.url}")),
    "a pipeline that writes a file": lambda t: json.dumps(pipeline(t.canary, f"write {t.folder / 'made.gpkg'}")),
    "a pipeline after a byte order mark": lambda t: "\ufeff\n" + json.dumps(pipeline(t.canary)),
    "a pipeline whose type is escaped": lambda t: json.dumps(pipeline(t.canary)).replace("gdal", "\\u0067dal"),
    "a pipeline whose type comes late": lambda t: json.dumps(
        {"padding": "x" * 100_000, **dict(reversed(pipeline(t.canary).items()))}
    ),
    "a pipeline with GeoJSON's type before": lambda t: (
        '{"type": "FeatureCollection", "features": [], ' + json.dumps(pipeline(t.canary))[1:]
    ),
    "a pipeline with GeoJSON's type behind": lambda t: (
        json.dumps(pipeline(t.canary))[:-1] + ', "type": "FeatureCollection", "features": []}'
    ),
    "a sequence with a pipeline in it": lambda t: json.dumps(FEATURE) + "\n" + json.dumps(pipeline(t.canary)),
    "a sequence behind separators": lambda _: f"\x1e{json.dumps(FEATURE)}\n\x1e{json.dumps(FEATURE)}\n",
    "a sequence of collections": lambda _: f"{collection()}\n{collection()}",
    "ESRI's JSON of a service": lambda t: json.dumps(
        {"geometryType": "esriGeometryPoint", "features": [], "exceededTransferLimit": True, "url": t.url}
    ),
    "JSON-FG with a CRS at an address": lambda t: json.dumps(
        {**FEATURE, "conformsTo": ["http://www.opengis.net/spec/json-fg-1/0.2/conf/core"], "coordRefSys": t.url}
    ),
    "a STAC tiled asset": lambda t: json.dumps(
        {"stac_extensions": ["tiled-assets"], "type": "Tiles", "asset_templates": {"x": {"href": t.url}}}
    ),
    "an array": lambda t: json.dumps([pipeline(t.canary)]),
    "100,000 brackets": lambda _: '{"type": "FeatureCollection", "features": ' + "[" * 100_000,
}
for _content, _made in JSONS.items():

    def _json(target: Target, make: Callable[[Target], str] = _made) -> list[Any]:
        return table(target.file("t.geojson", make(target)))

    hostile(f"t.geojson is {_content}")(_json)
CRS_NAMES: dict[str, Callable[[Target], str]] = {
    "a file of definitions": lambda t: f"+init={t.canary}:4326",
    "a path": lambda t: str(t.canary),
    "an address": lambda t: t.url,
    "a grid in a file": lambda t: f"+proj=longlat +nadgrids={t.canary} +type=crs",
    "a URN of an address": lambda t: f"urn:ogc:def:crs:{t.url}",
}
for _content, _made in CRS_NAMES.items():

    def _named(target: Target, make: Callable[[Target], str] = _made) -> list[Any]:
        crs = {"type": "name", "properties": {"name": make(target)}}
        return table(target.file("t.geojson", collection(crs=crs)), "--geometry", "wkb")

    hostile(f"t.geojson names as its CRS {_content}", {0, REFUSED})(_named)


def shifted(grid: Any) -> str:
    """WKT of a CRS whose datum is shifted by a grid in a file."""
    return (
        f'GEOGCS["x",DATUM["x",SPHEROID["x",6378137,298.257],EXTENSION["PROJ4_GRIDS","{grid}"]],PRIMEM["Greenwich",0],'
        'UNIT["degree",0.0174532925199433]]'
    )


# SQLite, which holds programs.
def sqlite(target: Target, *statements: str, name: str = "t.gpkg", journal: str = "delete") -> Path:
    """A GeoPackage in which these statements were run."""
    path = target.file(name, files_of(".gpkg")[".gpkg"])
    connection = sqlite3.connect(path)
    for function in ("ST_IsEmpty", "ST_MinX", "ST_MinY", "ST_MaxX", "ST_MaxY"):  # GDAL's, which its triggers call
        connection.create_function(function, 1, lambda _: 1)
    connection.execute("PRAGMA writable_schema = ON")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.execute(f"PRAGMA journal_mode = {journal}")
    connection.close()
    return path


def planted(kind: str, sql: str, page: int = 0) -> str:
    """The statement that puts a row into the schema which SQLite itself would refuse."""
    return "INSERT INTO sqlite_master VALUES ('{}', 'v', 'v', {}, '{}')".format(kind, page, sql.replace("'", "''"))


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
VIRTUALS: dict[str, Callable[[Target], str]] = {
    "another file of GDAL's": lambda t: planted("table", f"CREATE VIRTUAL TABLE v USING VirtualOGR('{t.canary}')"),
    "a file of GDAL's behind comments": lambda t: planted(
        "table", f"CREATE/* */VIRTUAL--\n TABLE v USING VirtualOGR('{t.canary}')"
    ),
    "a file of GDAL's in the place of a view": lambda t: planted(
        "view", f"CREATE VIRTUAL TABLE v USING VirtualOGR('{t.canary}')"
    ),
    "a file of GDAL's that has a page": lambda t: planted(
        "table", f"CREATE VIRTUAL TABLE v USING VirtualOGR('{t.canary}')", page=2
    ),
    "a Shapefile elsewhere": lambda t: planted(
        "table", f"CREATE VIRTUAL TABLE v USING VirtualShape('{t.canary}', 'UTF-8', 4326)"
    ),
    "a CSV elsewhere": lambda t: planted("table", f"CREATE VIRTUAL TABLE v USING csv(filename='{t.canary}')"),
    "a network": lambda _: planted("table", "CREATE VIRTUAL TABLE v USING VirtualNetwork('x')"),
    "an index whose name hides another": lambda t: planted(
        "table", f"CREATE VIRTUAL TABLE \"x USING rtree(\" USING VirtualOGR('{t.canary}')"
    ),
}
for _content, _made in VIRTUALS.items():

    def _virtual(target: Target, make: Callable[[Target], str] = _made) -> list[Any]:
        return table(sqlite(target, make(target)), "--layer", "t")

    hostile(f"t.gpkg has a virtual table of {_content}")(_virtual)
VIEWS: dict[str, tuple[Callable[[Target], list[str]], int]] = {
    "rows without end": (lambda _: [f"CREATE VIEW v AS {ENDLESS} SELECT x FROM c"], LIMITED),
    "a sum without end": (lambda _: [f"CREATE VIEW v AS {ENDLESS} SELECT sum(x) AS s FROM c"], LIMITED),
    "an order without end": (lambda _: [f"CREATE VIEW v AS {ENDLESS} SELECT x FROM c ORDER BY -x"], LIMITED),
    "a product of tables": (
        lambda _: ["CREATE VIEW v AS SELECT count(*) AS n FROM " + ", ".join(f"t AS t{at}" for at in range(40))],
        LIMITED,
    ),
    "a view of a view without end": (
        lambda _: [f"CREATE VIEW w AS {ENDLESS} SELECT x FROM c", "CREATE VIEW v AS SELECT max(x) AS m FROM w"],
        LIMITED,
    ),
    "a value of a gigabyte": (lambda _: ["CREATE VIEW v AS SELECT zeroblob(900000000) AS x"], LIMITED),
    "large values without end": (lambda _: [f"CREATE VIEW v AS {ENDLESS} SELECT zeroblob(9000000) FROM c"], LIMITED),
    "itself": (lambda _: ["CREATE VIEW w AS SELECT 1", "CREATE VIEW v AS SELECT * FROM w", "DROP VIEW w",
                          "CREATE VIEW w AS SELECT * FROM v"], REFUSED),
    "a function that reads a file": (lambda t: [f"CREATE VIEW v AS SELECT readfile('{t.canary}') AS x"], REFUSED),
    "a function that asks a server": (lambda _: ["CREATE VIEW v AS SELECT ogr_geocode('Rome') AS x"], REFUSED),
    "a function that reads a raster": (
        lambda t: [f"CREATE VIEW v AS SELECT gdal_get_pixel_value('{t.canary}', 1, 'pixel', 0, 0) AS x"],
        REFUSED,
    ),
    "an extension": (lambda t: [f"CREATE VIEW v AS SELECT load_extension('{t.canary}') AS x"], REFUSED),
    "chance": (lambda _: ["CREATE VIEW v AS SELECT random() AS x"], REFUSED),
    "the names of files": (lambda _: ["CREATE VIEW v AS SELECT file FROM pragma_database_list"], REFUSED),
    "the pages of the file": (lambda _: ["CREATE VIEW v AS SELECT value FROM json_each('[1]')"], REFUSED),
}  # fmt: skip
for _content, (_statements, _code) in VIEWS.items():

    def _view(target: Target, make: Callable[[Target], list[str]] = _statements) -> list[Any]:
        return table(sqlite(target, *make(target)), "--layer", "v")

    hostile(f"t.gpkg has a view of {_content}", _code)(_view)

SCHEMAS: dict[str, tuple[Callable[[Target], list[str]], set[int]]] = {
    "a list of contents without end": (
        lambda _: ["DROP TABLE gpkg_contents", f"CREATE VIEW gpkg_contents AS {ENDLESS} SELECT x FROM c"],
        {LIMITED},
    ),
    "contents with a column of a gigabyte": (
        lambda _: [
            "DROP TABLE gpkg_contents",
            "CREATE TABLE gpkg_contents (n, c AS (zeroblob(n)))",
            "INSERT INTO gpkg_contents VALUES (900000000)",
        ],
        {LIMITED},
    ),
    "a column that is computed by a server": (
        lambda _: [planted("table", "CREATE TABLE v (a, b AS (ogr_geocode('Rome')))", page=4)],
        {REFUSED},
    ),
    "a column that is computed, of a gigabyte a row": (
        lambda _: ["CREATE TABLE v (a, b AS (zeroblob(a)))", "INSERT INTO v (a) VALUES (900000000)"],
        {LIMITED},
    ),
    "a trigger": (
        lambda t: [f"CREATE TRIGGER g AFTER UPDATE ON t BEGIN SELECT load_extension('{t.canary}'); END"],
        {0, REFUSED},
    ),
    "a CRS with a grid in a file": (
        lambda t: [f"UPDATE gpkg_spatial_ref_sys SET organization = 'x', definition = '{shifted(t.canary)}'"],
        {REFUSED},
    ),
    "a CRS of EPSG with a grid in a file": (
        lambda t: [f"UPDATE gpkg_spatial_ref_sys SET definition = '{shifted(t.canary)}' WHERE srs_id = 4326"],
        {REFUSED},
    ),
    "a CRS that is a path": (
        lambda t: [f"UPDATE gpkg_spatial_ref_sys SET organization = '{t.canary}', definition = '{t.canary}'"],
        {REFUSED},
    ),
    "a geometry of 2^31 points": (
        lambda _: [
            "UPDATE t SET geom = x'47500001E61000000102000000FFFFFF7F0000000000000000'",
        ],
        {0, 3, REFUSED},
    ),
    "a schema that is none": (lambda _: [planted("table", "CREATE TABLE ((((")], {REFUSED}),
}
for _content, (_statements, _codes) in SCHEMAS.items():

    def _schema(target: Target, make: Callable[[Target], list[str]] = _statements) -> list[Any]:
        path = sqlite(target, *make(target))
        return table(path, "--layer", "v" if "TABLE v " in "".join(make(target)) else "t")

    hostile(f"t.gpkg has {_content}", _codes)(_schema)


@hostile("t.gpkg has an index as its layer", {2, REFUSED})
def _index(target: Target) -> list[Any]:
    return table(sqlite(target), "--layer", "rtree_t_geom")


@hostile("t.gpkg wants a log beside it", 0)
def _wal_mode(target: Target) -> list[Any]:
    return table(sqlite(target, journal="wal"))


def _journal(target: Target) -> bytes:
    """A journal to be carried out, which names the canary as the journal above it."""
    above = os.fsencode(target.canary)
    head = struct.pack(">8sIIIII", bytes.fromhex("d9d505f920a163d7"), 1, 0, 1, 512, 4096).ljust(512, b"\0")
    page = struct.pack(">I", 1) + files_of(".gpkg")[".gpkg"][:4096]
    end = struct.pack(">I", 0xFFFFFFFF) + above + struct.pack(">II", len(above), sum(above))
    return head + page + b"\0\0\0\0" + end + bytes.fromhex("d9d505f920a163d7")


@hostile("t.gpkg has a journal that names the canary")
def _hot_journal(target: Target) -> list[Any]:
    path = vector(target, ".gpkg")
    target.file("t.gpkg-journal", _journal(target))
    return table(path)


for _suffix in ("-wal", "-journal"):

    def _linked_log(target: Target, suffix: str = _suffix) -> list[Any]:
        path = vector(target, ".gpkg")
        (target.folder / f"t.gpkg{suffix}").symlink_to(target.canary)
        return table(path)

    hostile(f"t.gpkg{_suffix} is a link to the canary")(_linked_log)


@hostile("t.gpkg holds map tiles")
def _mbtiles(target: Target) -> list[Any]:
    path = target.folder / "t.gpkg"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE metadata (name TEXT, value TEXT)")
        connection.execute("CREATE TABLE tiles (zoom_level, tile_column, tile_row, tile_data)")
        connection.execute("INSERT INTO metadata VALUES ('json', ?)", (json.dumps(pipeline(target.canary)),))
    connection.close()
    return table(path)


@hostile("t.gpkg is another database")
def _database(target: Target) -> list[Any]:
    path = target.folder / "t.gpkg"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a)")
    connection.close()
    return table(path)


# What stands beside a Shapefile or a CSV.
for _suffix in (".shx", ".dbf", ".prj", ".cpg", ".qix", ".sbn", ".sbx", ".idm", ".ind", ".DBF", ".PRJ"):

    def _linked_side(target: Target, suffix: str = _suffix) -> list[Any]:
        path = vector(target, ".shp", without=(suffix,))
        (target.folder / f"t{suffix}").symlink_to(target.canary)
        return table(path, "--where", "a > 1")

    hostile(f"t{_suffix} beside a Shapefile is a link to the canary")(_linked_side)


@hostile("t.dbf beside a Shapefile is a pipe")
def _pipe_side(target: Target) -> list[Any]:
    path = vector(target, ".shp", without=(".dbf",))
    os.mkfifo(target.folder / "t.dbf")
    return table(path)


@hostile("t.idm beside a Shapefile names the canary as its index")
def _index_side(target: Target) -> list[Any]:
    path = vector(target, ".shp")
    target.file(
        "t.idm",
        f"<OGRMILayerAttrIndex><MIIDFilename>{target.canary}</MIIDFilename><OGRMIAttrIndex><FieldIndex>0</FieldIndex>"
        "<FieldName>a</FieldName><IndexIndex>1</IndexIndex></OGRMIAttrIndex></OGRMILayerAttrIndex>",
    )
    return table(path, "--where", "a = 1")


SIDES: dict[str, tuple[str, Callable[[Target], str]]] = {
    "a definition's file": (".prj", lambda t: f"+init={t.canary}:4326"),
    "a path": (".prj", lambda t: str(t.canary)),
    "an address": (".prj", lambda t: t.url),
    "a grid in a file": (".prj", lambda t: f"+proj=longlat +nadgrids={t.canary} +type=crs"),
    "WKT with a grid in a file": (".prj", lambda t: shifted(t.canary)),
    "an encoding that is a path": (".cpg", lambda t: str(t.canary)),
}
for _content, (_suffix, _made) in SIDES.items():

    def _side(target: Target, suffix: str = _suffix, make: Callable[[Target], str] = _made) -> list[Any]:
        path = vector(target, ".shp")
        target.file(f"t{suffix}", make(target))
        return table(path)

    hostile(f"t{_suffix} beside a Shapefile holds {_content}", {0, REFUSED})(_side)
for _suffix in (".csvt", ".prj", ".csv.aux.xml"):

    def _beside_csv(target: Target, suffix: str = _suffix) -> list[Any]:
        (target.folder / f"t{suffix}").symlink_to(target.canary)
        return table(target.file("t.csv", "a,b\n1,2\n"))

    hostile(f"t{_suffix} beside a CSV is a link to the canary", 0)(_beside_csv)


@hostile("a folder of Shapefiles")
def _folder(target: Target) -> list[Any]:
    vector(target, ".shp")
    return table(target.folder)


for _suffix in (".dbf", ".shx"):

    def _part(target: Target, suffix: str = _suffix) -> list[Any]:
        return table(vector(target, ".shp").with_suffix(suffix))

    hostile(f"a Shapefile's {_suffix} alone")(_part)


@hostile("t.fgb has a CRS with a grid in a file")
def _flatgeobuf_crs(target: Target) -> list[Any]:
    path = str(target.canary)
    frame = geopandas.GeoDataFrame({"a": [1]}, geometry=[shapely.Point(1, 2)], crs=shifted("z" * len(path)))
    frame.to_file(target.folder / "u.fgb")
    content = (target.folder / "u.fgb").read_bytes()
    assert b"z" * len(path) in content
    return table(target.file("t.fgb", content.replace(b"z" * len(path), path.encode())))


# Packed, cut, disguised.
def _zipped(target: Target) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("../../made.geojson", collection())
        archive.writestr("t.geojson", json.dumps(pipeline(target.canary)))
    return packed.getvalue()


def _flatgeobuf(target: Target) -> bytes:
    """Magic bytes without a zero before a VRT: drivers that search the beginning for text find it."""
    return b"fgb\x03fgb\x01" + b"\x20\x20\x20\x20" + ogr_vrt(target.canary).encode() + b" " * 4096


PACKED: dict[str, Callable[[Target], bytes]] = {
    "t.gpkg is a zip": _zipped,
    "t.shp.zip is a zip": _zipped,
    "t.shz is a zip": _zipped,
    "t.geojson is gzip": lambda t: gzip.compress(json.dumps(pipeline(t.canary)).encode()),
    "t.csv is gzip": lambda _: gzip.compress(b"a,b\n1,2\n"),
    "t.csv is a pipeline": lambda t: json.dumps(pipeline(t.canary)).encode(),
    "t.csv is XML": lambda t: f'<?xml version="1.0"?><a href="{t.url}"/>'.encode(),
    "t.csv is a pointer to a large file": lambda _: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    "t.csv holds bytes of nothing": lambda _: bytes(range(256)) * 4,
    "t.fgb is a VRT too": _flatgeobuf,
    "t.fgb ends in its header": lambda _: files_of(".fgb")[".fgb"][:40],
    "t.fgb is of 2^32 bytes": lambda _: b"fgb\x03fgb\x01\xff\xff\xff\xff" + bytes(512),
    "t.shp is a VRT": lambda t: ogr_vrt(t.canary).encode(),
    "t.parquet is cut": lambda _: b"PAR1" + bytes(64),
    "t.parquet is a GeoPackage": lambda _: b"",
    "t.gpkg is a header alone": lambda _: b"SQLite format 3\0" + bytes(84),
    "t.kml is KML with a link": lambda t: (
        f'<kml xmlns="http://www.opengis.net/kml/2.2"><NetworkLink><Link><href>{t.url}</href></Link></NetworkLink></kml>'
    ).encode(),
}
for _name, _bytes in PACKED.items():

    def _packed(target: Target, name: str = _name, make: Callable[[Target], bytes] = _bytes) -> list[Any]:
        return table(target.file(name.split()[0], make(target)))

    hostile(_name, LIMITED if _name.startswith(("t.fgb is a VRT", "t.fgb is of")) else REFUSED)(_packed)


@hostile("t.parquet has its columns in the canary")
def _elsewhere(target: Target) -> list[Any]:
    pq.write_table(pa.table({"a": [1]}), target.folder / "u.parquet")
    metadata = pq.read_metadata(target.folder / "u.parquet")
    metadata.set_file_path(str(target.canary))
    metadata.write_metadata_file(target.folder / "t.parquet")
    return table(target.folder / "t.parquet")


@hostile("t.parquet is a folder")
def _dataset(target: Target) -> list[Any]:
    (target.folder / "t.parquet").mkdir()
    (target.folder / "t.parquet" / "a.parquet").symlink_to(target.canary)
    return table(target.folder / "t.parquet")


class _Opens:
    """Opens a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self._path),)


@hostile("t.parquet has a type that is code", {0, REFUSED})
def _pickled(target: Target) -> list[Any]:
    code = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(_Opens(target.canary)),
    }
    schema = pa.schema([pa.field("a", pa.int64(), metadata=code)])
    pq.write_table(pa.table([pa.array([1])], schema=schema), target.folder / "t.parquet")
    return table(target.folder / "t.parquet")


for _content, _made in CRS_NAMES.items():

    def _geoparquet(target: Target, make: Callable[[Target], str] = _made) -> list[Any]:
        column = {"encoding": "WKB", "geometry_types": ["Point"], "crs": make(target)}
        geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}}
        points = pa.array([shapely.to_wkb(shapely.Point(1, 2))], pa.binary())
        schema = pa.schema([("geometry", pa.binary())], metadata={"geo": json.dumps(geo)})
        pq.write_table(pa.table([points], schema=schema), target.folder / "t.parquet")
        return table(target.folder / "t.parquet")

    hostile(f"t.parquet names as its CRS {_content}")(_geoparquet)

# Pipes, devices, and names that GDAL takes for directives.
SPECIAL: dict[str, Callable[[Path, Target], list[Any]]] = {
    **READERS,
    "numbers of patches": lambda path, target: export(target.raster(), "--keep", path.rename(path.with_suffix(".txt"))),
}
for _reader, _words in SPECIAL.items():
    for _content in ("a pipe that nobody writes", "a device without end"):

        def _special(
            target: Target, words: Callable[[Path, Target], list[Any]] = _words, content: str = _content
        ) -> list[Any]:
            path = target.folder / "x.csv"
            if "pipe" in content:
                os.mkfifo(path)
            else:
                path.symlink_to("/dev/zero")
            return words(path, target)

        hostile(f"{_reader}: {_content}")(_special)
NAMES: dict[str, Callable[[Target], str]] = {
    "CSV's prefix": lambda t: f"CSV:{t.canary}",
    "GeoPackage's prefix": lambda t: f"GPKG:{t.canary}:x",
    "GeoJSON's prefix": lambda t: f"GeoJSON:{t.canary}",
    "GeoJSON's prefix of an address": lambda t: f"GeoJSON:{t.url}",
    "a server of PostgreSQL": lambda t: "PG:host={} port={} dbname=x".format(*t.address.split(":")),
    "a server of MySQL": lambda t: "MySQL:x,host={},port={}".format(*t.address.split(":")),
    "a web feature service": lambda t: f"WFS:{t.url}",
    "an OGC API": lambda t: f"OAPIF:{t.url}",
    "a service of ESRI": lambda t: f"{t.url}/FeatureServer/0/query",
    "tiles at an address": lambda t: f"MVT:{t.url}",
    "a VRT in the name": lambda t: ogr_vrt(t.canary),
    "a pipeline in the name": lambda t: json.dumps(pipeline(t.canary)),
    "a pipeline's command": lambda t: f"GDALG:gdal vector pipeline ! read {t.canary}",
    "a member of a zip": lambda t: f"/vsizip/{t.canary}.zip/canary.tif",
    "an address in the cloud": lambda t: f"/vsicurl/{t.url}",
    "an HTTP driver": lambda t: f"HTTP:{t.url}",
}
for _content, _made in NAMES.items():

    def _as_name(target: Target, make: Callable[[Target], str] = _made) -> list[Any]:
        return table(make(target))

    hostile(f"a table's name is {_content}")(_as_name)

    def _as_labels(target: Target, make: Callable[[Target], str] = _made) -> list[Any]:
        return export(target.raster(crs="EPSG:4326"), "--labels", make(target))

    hostile(f"the labels' name is {_content}")(_as_labels)

QUICK = attacks_of(__name__)[::3]
_SLOW = [name for name in attacks_of(__name__) if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in _SLOW)])
def test_a_hostile_vector_file_reads_no_other_file_and_ends(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: Callable[[str, int], None]
) -> None:
    monkeypatch.setattr(sqlite_container, "MAX_VIEW_SECONDS", 0.2)
    done = run_attack(name, tmp_path, monkeypatch)
    assert done.code in EXPECTED[name], done.told
    count("attacks without a read, a write or a connection", 1)


def test_the_attacks_by_vector_files_are_listed_in_the_documentation() -> None:
    assert documented_attacks("Vector files and what stands beside them") == attacks_of(__name__)


def test_the_good_files_that_attacks_change_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(tmp_path, tmp_path / "canary", "")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    for suffix in (".gpkg", ".shp", ".fgb", ".geojson"):
        done = run(*table(vector(target, suffix), "--overwrite", "--json"))
        assert done.code == 0, done.told
        assert json.loads(done.stdout)["rows"] == 3
    view = sqlite(target, "CREATE VIEW v AS SELECT a, geom FROM t WHERE a > 1")
    done = run(*table(view, "--layer", "v", "--overwrite", "--json"))
    assert (done.code, json.loads(done.stdout)["rows"]) == (0, 2), done.told

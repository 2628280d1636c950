"""STAC Items of exports and rasters, checked by pystac and against the specification's rules; no network."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from oracle.rasters import NORTH_UP, ROTATED, numbered, write_raster
from oracle.run import assert_refused, run
from oracle.sets import write_set

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

pystac = pytest.importorskip("pystac")
pytest.importorskip("jsonschema")
stac_validator = pytest.importorskip("pystac.validation.stac_validator")
pytest.importorskip("pyarrow")
shapely = pytest.importorskip("shapely")


def assert_item(document: dict[str, Any], folder: Path) -> None:
    """The rules of STAC's Item, of the extensions it names, and of links that lead somewhere.

    **Source**: STAC 1.1.0's item-spec; the READMEs of the extensions projection 2.0.0, file 2.1.0 and label 1.0.1.
    """
    assert document["type"] == "Feature"
    assert document["stac_version"] == "1.1.0"
    assert document["id"]
    assert isinstance(document["links"], list)
    properties = document["properties"]
    if properties["datetime"] is None:
        assert properties["start_datetime"] <= properties["end_datetime"]
    else:
        assert datetime.fromisoformat(properties["datetime"]).tzinfo == UTC
    if document["geometry"] is None:
        assert "bbox" not in document
    else:
        west, south, east, north = document["bbox"]
        assert south <= north
        shape = shapely.from_geojson(json.dumps(document["geometry"]))
        assert shape.is_valid
        if west <= east:
            assert shapely.box(west, south, east, north).buffer(1e-9).covers(shape)
        for ring in shape.geoms if shape.geom_type == "MultiPolygon" else [shape]:
            assert ring.exterior.is_ccw
    for asset in document["assets"].values():
        path = folder / asset["href"]
        assert path.stat().st_size == asset["file:size"]
        assert asset["roles"]
        for band in asset.get("bands", ()):
            assert band["data_type"] in ("uint8", "int16", "float32", "float64")
    assert len(properties["proj:shape"]) == 2
    assert len(properties["proj:transform"]) == 6
    assert properties["proj:code"] is None or properties["proj:code"].count(":") == 1
    # What the schema of labels says of rasters: no property's name, and lists of which one type is certain.
    for classes in properties.get("label:classes", ()):
        assert properties["label:type"] == "raster"
        assert classes["name"] is None
        assert len({isinstance(value, str) for value in classes["classes"]}) == 1
    if any("/label/" in each for each in document["stac_extensions"]):
        assert properties["label:properties"] is None
        assert properties["label:description"]
    for asset in document["assets"].values():
        assert {key for key in asset if key.startswith("file:")} == {"file:size", "file:checksum"}
        assert asset["file:checksum"] == "1220" + hashlib.sha256((folder / asset["href"]).read_bytes()).hexdigest()
        for band in asset.get("bands", ()):
            for each in band.get("classification:classes", ()):
                assert isinstance(each["value"], int)
                assert re.fullmatch("[0-9A-Za-z_-]+", each["name"])
                assert re.fullmatch("[0-9A-F]{6}", each.get("color_hint", "000000"))
    has_classes = "classification:classes" in json.dumps(document["assets"])
    assert has_classes == any("/classification/" in each for each in document["stac_extensions"])
    # The core's schemas come with pystac; those of the extensions are on the network.
    stac_validator.JsonSchemaSTACValidator().validate_core(document, pystac.STACObjectType.ITEM, "1.1.0")
    again = pystac.Item.from_dict(document)
    assert again.to_dict(include_self_link=False) == document


def test_an_export_has_an_item_with_its_files(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(2, 8, 8, "int16"), nodata=-1, descriptions=("red", "nir"))
    done = run(
        "export",
        source,
        "-o",
        tmp_path / "set",
        "--patch-dimensions",
        "2",
        "--max-file-size",
        "400",
        "--patch-table",
        "--stac",
        "--datetime",
        "2024-06-01/2024-06-30",
    )
    assert done.code == 0, done.told
    assert "set-stac.json" in done.stderr
    document = json.loads((tmp_path / "set-stac.json").read_text())
    assert_item(document, tmp_path)
    shards = sorted(path.name for path in tmp_path.glob("*.tfrecord.gz"))
    hrefs = {key: asset["href"] for key, asset in document["assets"].items()}
    assert [href for key, href in hrefs.items() if key.startswith("shard")] == [f"./{name}" for name in shards]
    assert {hrefs["mixer"], hrefs["manifest"], hrefs["patches"]} == {
        "./set-mixer.json",
        "./set-manifest.json",
        "./set-patches.parquet",
    }
    assert document["assets"]["shard-00000"]["bands"][1] == {"name": "nir", "data_type": "float32", "nodata": 0.0}
    assert document["properties"]["proj:code"] == "EPSG:32618"
    assert document["properties"]["proj:transform"] == list(NORTH_UP[:6])
    assert document["properties"]["start_datetime"] == "2024-06-01T00:00:00Z"


def test_label_bands_have_the_label_extension(tmp_path: Path) -> None:
    classes = np.array([[1, 1, 2, 0], [1, 7, 2, 2]], "uint8")
    source = write_raster(tmp_path / "scene.tif", classes, nodata=0, descriptions=("kind",))
    result = geotfr.export_image(source, tmp_path / "set", patch_dimensions=2, patch_table=True, class_bands="kind")
    made = geotfr.write_stac_item(result.manifest, date="2024-06-01", class_bands="kind")
    assert_item(made.item, tmp_path)
    properties = made.item["properties"]
    assert properties["label:classes"] == [{"name": None, "classes": [1, 2, 7]}]
    assert properties["label:description"] == "classes of kind"
    assert (properties["label:type"], properties["label:properties"]) == ("raster", None)
    assert any("label" in each for each in made.item["stac_extensions"])
    assert not made.warnings
    # Without a table nothing tells the classes.
    (tmp_path / "set-patches.parquet").unlink()
    unknown = geotfr.write_stac_item(result.manifest, date="2024-06-01", class_bands="kind", overwrite=True)
    assert_item(unknown.item, tmp_path)
    assert "label:classes" not in unknown.item["properties"]


@pytest.mark.parametrize(
    ("transform", "crs", "kind"),
    [
        (ROTATED, "EPSG:32618", "Polygon"),
        (type(NORTH_UP)(1000, 0, 800_000, 0, -1000, 80_000), "EPSG:32660", "MultiPolygon"),
        (type(NORTH_UP)(0.5, 0, 0, 0, 0.5, 0), "EPSG:4326", "Polygon"),
        (NORTH_UP, None, None),
        (NORTH_UP, "+proj=laea +lat_0=52 +lon_0=10 +ellps=GRS80", "Polygon"),
    ],
    ids=["rotated", "antimeridian", "south up", "no crs", "no code"],
)
def test_places_are_told_as_geojson_wants_them(tmp_path: Path, transform: Any, crs: str | None, kind: str) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 80, 80), transform=transform, crs=crs)
    made = geotfr.write_stac_item(source, date="2024-06-01")
    assert_item(made.item, tmp_path)
    assert made.path == tmp_path / "scene.stac.json"
    geometry = made.item["geometry"]
    assert (None if geometry is None else geometry["type"]) == kind
    if crs and crs.startswith("+"):
        assert made.item["properties"]["proj:wkt2"].startswith("PROJCRS")


def test_an_ingested_raster_has_an_item(tmp_path: Path) -> None:
    mixer, shards = write_set(tmp_path, numbered(1, 4, 8), patch=(4, 4))
    arguments = ("ingest-predictions", mixer, *shards, "--output", tmp_path / "map.tif", "--stac")
    done = run(*arguments)
    assert done.code == 0, done.told
    assert "time of change" in done.stderr
    document = json.loads((tmp_path / "map.stac.json").read_text())
    assert_item(document, tmp_path)
    assert document["assets"]["raster"]["bands"] == [{"name": "b1", "data_type": "float32"}]


def test_shards_tell_the_type_and_fill_of_their_records(tmp_path: Path) -> None:
    pixels = numbered(3, 4, 4, "uint8")
    source = write_raster(tmp_path / "scene.tif", pixels, nodata=1, descriptions=("a", "b", "c"))
    for kinds, stored in (("float", "float32"), ("native", "uint8")):
        result = geotfr.export_image(
            source, tmp_path / kinds, patch_dimensions=2, default_value=300.7, feature_kinds=kinds
        )
        made = geotfr.write_stac_item(result.manifest, date="2024-06-01")
        assert_item(made.item, tmp_path)
        assert made.item["assets"]["shard-00000"]["bands"][0] == {"name": "a", "data_type": stored, "nodata": 255}
    floats = write_raster(tmp_path / "floats.tif", numbered(1, 4, 4, "float64"), nodata=1)
    result = geotfr.export_image(floats, tmp_path / "floats", patch_dimensions=2, default_value=-9999.5)
    bands = geotfr.write_stac_item(result.manifest, date="2024-06-01").item["assets"]["shard-00000"]["bands"]
    assert bands == [{"name": "b1", "data_type": "float32", "nodata": -9999.5}]


def test_labels_of_an_export_tell_their_classes(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 8, 8))
    left, top = NORTH_UP[2], NORTH_UP[5]
    side = 4 * NORTH_UP[0]
    squares = [
        shapely.box(left, top - side, left + side, top),
        shapely.box(left + side, top - side, left + 2 * side, top),
    ]
    frame = pytest.importorskip("geopandas").GeoDataFrame(
        {"kind": ["open water", "wood"]}, geometry=squares, crs="EPSG:32618"
    )
    frame.to_file(tmp_path / "shapes.gpkg")
    result = geotfr.export_image(
        source,
        tmp_path / "set",
        patch_dimensions=4,
        labels=tmp_path / "shapes.gpkg",
        label_field="kind",
        label_ignore=9,
    )
    made = geotfr.write_stac_item(result.manifest, date="2024-06-01")
    assert_item(made.item, tmp_path)
    band = next(each for each in made.item["assets"]["shard-00000"]["bands"] if "classification:classes" in each)
    assert {each["value"]: each.get("title") for each in band["classification:classes"]} == {
        0: "background",
        1: "open water",
        2: "wood",
        9: "ignore",
    }
    assert band["classification:classes"][1]["name"] == "open-water"
    assert band["nodata"] == 9


def test_the_classes_of_a_map_are_told(tmp_path: Path) -> None:
    mixer, shards = write_set(tmp_path, np.full((1, 4, 8), 3, np.float32), patch=(4, 4))
    (tmp_path / "classes.csv").write_text("0,none\n3,open water,#1f78b4\n7,,#00ff0080\n")
    arguments = ("ingest-predictions", mixer, *shards, "-o", tmp_path / "map.tif", "--stac", "--dtype", "uint8")
    done = run(*arguments, "--classes", tmp_path / "classes.csv", "--datetime", "2024-06-01")
    assert done.code == 0, done.told
    document = json.loads((tmp_path / "map.stac.json").read_text())
    assert_item(document, tmp_path)
    assert document["assets"]["raster"]["bands"][0]["classification:classes"] == [
        {"value": 0, "name": "none", "title": "none"},
        {"value": 3, "name": "open-water", "title": "open water", "color_hint": "1F78B4"},
        {"value": 7, "name": "class-7", "color_hint": "00FF00"},
    ]


def test_links_are_relative_to_the_item(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    source = write_raster(tmp_path / "data" / "scene.tif", numbered(1, 4, 4))
    made = geotfr.write_stac_item(source, tmp_path / "item.json", date="2024-06-01")
    assert made.item["assets"]["raster"]["href"] == "./data/scene.tif"
    assert_item(made.item, tmp_path)


def test_what_means_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 4, 4))
    export = ("export", source, "-o", tmp_path / "set", "--patch-dimensions", "2", "-q")
    assert_refused(run(*export, "--datetime", "2024-06-01"), 2, "give --stac")
    assert not list(tmp_path.glob("set*"))
    for date in ("june", "2024-06-30/2024-06-01", "2024-06-01/2024-06-02/2024-06-03"):
        with pytest.raises(geotfr.UsageError, match="date: found"):
            geotfr.write_stac_item(source, date=date)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(geotfr.InputError, match="no manifest"):
        geotfr.write_stac_item(tmp_path / "other.json")
    geotfr.write_stac_item(source)
    with pytest.raises(geotfr.OutputExistsError, match="--overwrite"):
        geotfr.write_stac_item(source)
    import sys

    monkeypatch.setitem(sys.modules, "pystac", None)
    assert_refused(run(*export, "--stac"), 2, "pip install 'geotfr[stac]'")
    assert not list(tmp_path.glob("set*"))


def test_an_item_goes_with_the_set_that_it_tells_of(tmp_path: Path) -> None:
    write_raster(tmp_path / "t.tif", numbered(1, 8, 8))
    words = ("export", tmp_path / "t.tif", "--output", tmp_path / "set", "--quiet")
    assert run(*words, "--patch-dimensions", "4", "--stac", "--datetime", "2024-06-01").code == 0
    assert (tmp_path / "set-stac.json").exists()
    assert run(*words, "--patch-dimensions", "2", "--overwrite").code == 0
    assert not (tmp_path / "set-stac.json").exists()
    (tmp_path / "set-stac.json").write_text("mine")
    assert run(*words, "--patch-dimensions", "4", "--overwrite").code == 0
    assert (tmp_path / "set-stac.json").read_text() == "mine"

"""Shapes with vertices that have no place, far ones, classes that a condition leaves out, geometries as text."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from oracle.patches import read_manifest
from oracle.rasters import NORTH_UP, write_raster
from oracle.run import run
from tables.tables import records

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

geopandas = pytest.importorskip("geopandas")
shapely = pytest.importorskip("shapely")
pq = pytest.importorskip("pyarrow.parquet")

SIDE, PATCH = 16, 8
CRS = "EPSG:32618"
EDGE = 1e7
"""Of a shape that covers the raster and reaches far beyond it, in metres."""


def scene(folder: Path) -> Path:
    return write_raster(folder / "scene.tif", np.ones((SIDE, SIDE), np.uint8), transform=NORTH_UP, crs=CRS)


def box(left: float, top: float, right: float, bottom: float) -> Any:
    """A box of pixel coordinates in those of the CRS."""
    a, _, c, _, e, f = NORTH_UP[:6]
    return shapely.box(c + a * left, f + e * bottom, c + a * right, f + e * top)


def frame(shapes: list[Any], **columns: Any) -> Any:
    return geopandas.GeoDataFrame({"n": range(1, len(shapes) + 1)} | columns, geometry=shapes, crs=CRS)


def export(folder: Path, labels: Any, **options: Any) -> geotfr.ExportResult:
    return geotfr.export_image(scene(folder), folder / "out", patch_dimensions=PATCH, labels=labels, **options)


def pixels(folder: Path, band: str) -> Any:
    """The whole label band, put together from the records."""
    patches = [
        {band: np.array(record[band], np.float32).reshape(PATCH, PATCH)}
        for shard in sorted(folder.glob("out*.tfrecord*"))
        for record in records(shard)
    ]
    rows = [np.hstack([patches[row * 2 + column][band] for column in range(2)]) for row in range(2)]
    return np.vstack(rows)


def with_vertex(x: float, y: float) -> Any:
    """A square over the raster's upper-left quarter, one of whose vertices is (x, y)."""
    ring = shapely.get_coordinates(box(0, 0, 8, 8))
    ring[1] = x, y
    with np.errstate(invalid="ignore"):
        return shapely.Polygon(ring)


@pytest.mark.parametrize(
    "objects", [{}, {"coco": True}, {"label_features": "boxes"}, {"label_features": "polygons"}], ids=str
)
@pytest.mark.parametrize("vertex", [(np.nan, 0.0), (np.inf, 0.0), (0.0, -np.inf), (np.nan, np.nan)], ids=str)
def test_shapes_with_a_vertex_that_is_not_finite_are_left_out_and_counted(
    vertex: tuple[float, float], objects: dict[str, Any], tmp_path: Path
) -> None:
    labels = frame([with_vertex(*vertex), box(8, 8, 16, 16), with_vertex(*vertex), None])
    result = export(tmp_path, labels, label_field="n", **objects)
    assert [line for line in result.warnings if "finite" in line] == [
        "the GeoDataFrame: 2 shapes have a vertex that isn't a finite number; left out"
    ]
    assert sum("1 rows have no geometry" in line for line in result.warnings) == 1
    wanted = np.zeros((SIDE, SIDE))
    wanted[8:, 8:] = 2
    np.testing.assert_array_equal(pixels(tmp_path, "n"), wanted)


@pytest.mark.parametrize(
    "objects", [{}, {"coco": True}, {"label_features": "polygons"}, {"label_all_touched": True}], ids=str
)
@pytest.mark.parametrize("reach", [EDGE * 100, 1e12, 1e15], ids=str)
def test_shapes_that_reach_far_beyond_the_raster_are_burnt_and_counted(
    reach: float, objects: dict[str, Any], tmp_path: Path
) -> None:
    a, _, c, _, _, f = NORTH_UP[:6]
    middle = c + a * 8
    half = shapely.Polygon(
        [(middle, f - reach), (middle, f + reach), (middle + reach, f + reach), (middle + reach, f - reach)]
    )
    line = shapely.LineString([(c + a * 4.5, f - reach), (c + a * 4.5, f + reach)])
    result = export(tmp_path, frame([half, line]), label_field="n", **objects)
    assert sum("2 shapes reach more than" in line for line in result.warnings) == 1
    wanted = np.zeros((SIDE, SIDE))
    wanted[:, 8:] = 1
    wanted[:, 4] = 2
    found = pixels(tmp_path, "n")
    if "label_all_touched" in objects:
        # The pixels that the edge runs along are touched, or not, by what rounding makes of it.
        found[:, 7] = 0
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("vertex", [(1e300, 0.0), (-1e308, 1e308), (0.0, 1e25)], ids=str)
def test_shapes_with_a_vertex_too_far_for_a_place_are_left_out_and_counted(
    vertex: tuple[float, float], tmp_path: Path
) -> None:
    result = export(tmp_path, frame([with_vertex(*vertex), box(8, 8, 16, 16)]), label_field="n", coco=True)
    assert sum("1 shapes have a vertex too far" in line for line in result.warnings) == 1
    assert set(np.unique(pixels(tmp_path, "n"))) == {0, 2}
    annotations = json.loads((tmp_path / "out-coco.json").read_text())["annotations"]
    assert {each["category_id"] for each in annotations} == {2}


@pytest.mark.parametrize("option", ["keep", "within"])
def test_places_of_patches_tell_shapes_without_a_place(option: str, tmp_path: Path) -> None:
    shapes = [with_vertex(np.nan, 0), box(-1, -1, 9, 9), with_vertex(1e300, 0)]
    frame(shapes).to_parquet(tmp_path / "places.parquet")
    result = geotfr.export_image(
        scene(tmp_path), tmp_path / "out", patch_dimensions=PATCH, **{option: tmp_path / "places.parquet"}
    )
    assert result.patches_written == 1
    assert sum("1 shapes have a vertex that isn't" in line for line in result.warnings) == 1
    assert sum("1 shapes have a vertex too far" in line for line in result.warnings) == 1


@pytest.mark.parametrize(
    "region", ["POLYGON((0 0, NaN 1, 1 1, 0 0))", "POLYGON((0 0, 1e999 1, 1 1, 0 0))", "0,0,inf,1"]
)
def test_regions_with_a_vertex_that_is_not_finite_are_refused(region: str, tmp_path: Path) -> None:
    outcome = run("export", scene(tmp_path), "--output", tmp_path / "out", "--region", region)
    assert (outcome.code, outcome.told.count("\n")) == (2, 1)


@pytest.mark.parametrize("form", ["gpkg", "csv", "parquet", "frame"])
def test_text_classes_keep_their_numbers_whatever_a_condition_selects(form: str, tmp_path: Path) -> None:
    shapes = [box(0, 0, 4, 4), box(4, 4, 8, 8), box(8, 8, 12, 12)]
    labels = frame(shapes, crop=["wheat", "barley", "maize"], year=[2023, 2024, 2024])
    source: Any = labels
    if form == "csv":
        texts = labels.drop(columns="geometry").assign(geometry=labels.geometry.to_wkt())
        texts.to_csv(tmp_path / "l.csv", index=False)
        source = tmp_path / "l.csv"
    elif form != "frame":
        source = tmp_path / f"l.{form}"
        labels.to_parquet(source) if form == "parquet" else labels.to_file(source)
    found = {}
    for where in (None, "year = 2024", "crop = 'wheat'"):
        folder = tmp_path / str(where)
        folder.mkdir()
        export(folder, source, label_field="crop", label_where=where, label_crs=CRS if form == "csv" else None)
        assert read_manifest(folder)["labels"]["classes"] == {"barley": 1, "maize": 2, "wheat": 3}
        found[where] = set(np.unique(pixels(folder, "crop")))
    assert found == {None: {0, 1, 2, 3}, "year = 2024": {0, 1, 2}, "crop = 'wheat'": {0, 3}}


@pytest.mark.parametrize("classes", [None, "wheat=7,barley=5,rye=9"])
def test_the_patch_table_has_a_share_of_every_class(classes: str | None, tmp_path: Path) -> None:
    shapes = [box(0, 0, 4, 4), box(1000, 1000, 1008, 1008), box(8, 8, 12, 12)]
    labels = frame(shapes, crop=["wheat", "barley", "maize"])
    result = export(tmp_path, labels, label_field="crop", label_classes=classes, patch_table=True)
    wanted = {0, 1, 2, 3} if classes is None else {0, 5, 7, 9}
    again = geotfr.make_patch_table(result.mixer, tmp_path / "again.parquet", class_bands="crop")
    assert result.patch_table is not None
    for path in (result.patch_table, again.table):
        table = pq.read_table(path)
        assert {name for name in table.column_names if name.startswith("share_")} == {
            f"share_{each}" for each in wanted
        }
        absent = table["share_1" if classes is None else "share_5"]
        assert absent.to_pylist() == [0.0] * table.num_rows


def test_readers_of_a_patch_table_choose_patches_by_their_bounds(tmp_path: Path) -> None:
    result = geotfr.export_image(scene(tmp_path), tmp_path / "out", patch_dimensions=PATCH, patch_table=True)
    assert result.patch_table is not None
    whole = geopandas.read_parquet(result.patch_table)
    # A little inside the first patch.
    bounds = tuple(whole.geometry.iloc[0].buffer(-1).bounds)
    assert list(geopandas.read_parquet(result.patch_table, bbox=bounds)["number"]) == [0]
    metadata = pq.ParquetFile(result.patch_table).metadata.row_group(0)
    packed = {metadata.column(n).path_in_schema: metadata.column(n).compression for n in range(metadata.num_columns)}
    assert packed["number"] == packed["bbox.xmin"] == "ZSTD"
    boxes = [tuple(box.values()) for box in pq.read_table(result.patch_table)["bbox"].to_pylist()]
    assert boxes == [shape.bounds for shape in whole.geometry]


def write_csv(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize("column", ["WKT", "geometry", "geom"])
@pytest.mark.parametrize("place", ["option", "srid", "lonlat"])
def test_a_csv_with_a_column_of_wkt_is_burnt_as_its_geometries_are(column: str, place: str, tmp_path: Path) -> None:
    labels = frame([box(0, 0, 4.2, 5.1), box(8, 8, 12, 12)])
    (tmp_path / "frame").mkdir()
    source = labels if place != "lonlat" else labels.to_crs("EPSG:4326")
    texts = [shapely.to_wkt(shape, rounding_precision=-1) for shape in source.geometry]
    if place == "srid":
        texts = [f"SRID=32618;{text}" for text in texts]
    rows = [{"n": str(n), column: text} for n, text in zip(labels["n"], texts, strict=True)]
    path = write_csv(tmp_path / "labels.csv", [*rows, {"n": "3", column: ""}])
    export(tmp_path / "frame", source, label_field="n")
    result = export(tmp_path, path, label_field="n", label_crs=CRS if place == "option" else None)
    np.testing.assert_array_equal(pixels(tmp_path, "n"), pixels(tmp_path / "frame", "n"))
    assert sum("longitude and latitude" in line for line in result.warnings) == (place == "lonlat")
    assert sum("1 rows have no geometry" in line for line in result.warnings) == 1


def test_wkt_that_can_not_be_read_or_placed_is_refused(tmp_path: Path) -> None:
    good = shapely.to_wkt(box(0, 0, 4, 4))
    broken = write_csv(tmp_path / "broken.csv", [{"WKT": good}, {"WKT": "POLYGON((0 0"}])
    with pytest.raises(geotfr.InputError, match="row 1, column 'WKT': not WKT"):
        export(tmp_path, broken, label_crs=CRS)
    with pytest.raises(geotfr.InputError, match="isn't longitude and latitude; give it with --label-crs"):
        export(tmp_path, write_csv(tmp_path / "placeless.csv", [{"WKT": good}]))

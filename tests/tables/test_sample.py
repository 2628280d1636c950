"""Samples at points are the pixels that rasterio reads there, and each block is read once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import rasterio
from oracle.run import DATA, needs_data, run
from tables.tables import records

import geotfr
from geotfr.rasters.source import RasterSource

if TYPE_CHECKING:
    from pathlib import Path

    from geotfr.grid import Window

pq = pytest.importorskip("pyarrow.parquet")
geopandas = pytest.importorskip("geopandas")
shapely = pytest.importorskip("shapely")


def random_points(path: Path, count: int, *, reach: float = 3) -> Any:
    """Points over the raster and up to ``reach`` pixels beyond, in the raster's CRS, and their pixels."""
    random = np.random.default_rng(1)
    with rasterio.open(path) as source:
        cols = random.uniform(-reach, source.width + reach, count)
        rows = random.uniform(-reach, source.height + reach, count)
        places = [source.transform @ place for place in zip(cols, rows, strict=True)]
        frame = geopandas.GeoDataFrame(
            {"id": range(count)}, geometry=[shapely.Point(place) for place in places], crs=source.crs
        )
    return frame, np.floor(np.stack([rows, cols], axis=1)).astype(int)


def masked_pixels(path: Path) -> Any:
    """The colour or data bands as a masked array, NaN masked."""
    with rasterio.open(path) as source:
        indexes = [number for number in source.indexes if source.colorinterp[number - 1].name != "alpha"]
        return np.ma.masked_invalid(source.read(indexes, masked=True), copy=False)


FILES = ("RGB.byte.tif", "cog_nodata_nan.tif", "au-3577-rotated.tif", "cog_uint8_rgb_mask.tif", "cog_uint8_rgba.tif")


@needs_data
@pytest.mark.parametrize("name", FILES)
def test_samples_are_what_rasterio_reads_and_masked_points_are_told(name: str, tmp_path: Path) -> None:
    path = DATA / "geotiff" / name
    frame, places = random_points(path, 300)
    pixels = masked_pixels(path)
    inside = ((places >= 0) & (places < pixels.shape[1:])).all(axis=1)
    mask = np.ma.getmaskarray(pixels).any(axis=0)
    kept = [number for number in range(300) if inside[number] and not mask[tuple(places[number])]]
    result = geotfr.sample_points(path, frame, tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table["id"].to_pylist() == kept
    assert (result.outside, result.masked) == (int((~inside).sum()), int(inside.sum()) - len(kept))
    assert result.outside == 0 or any("points outside the raster" in line for line in result.warnings)
    for band, column in enumerate(table.column_names[1 : 1 + len(pixels)]):
        assert table[column].to_pylist() == [pixels.data[band][tuple(places[number])].item() for number in kept]


@needs_data
@pytest.mark.parametrize("side", [2, 3, 40])
@pytest.mark.parametrize("name", ["RGB.byte.tif", "cog_nodata_nan.tif"])
def test_neighborhoods_hold_the_pixels_around_and_the_default_where_none_are(
    name: str, side: int, tmp_path: Path
) -> None:
    path = DATA / "geotiff" / name
    frame, places = random_points(path, 40, reach=0)
    pixels = masked_pixels(path)
    geotfr.sample_points(
        path, frame, tmp_path / "out.parquet", neighborhood=side, masked="fill", default_value=9, bands="1"
    )
    table = pq.read_table(tmp_path / "out.parquet")
    padded = np.pad(pixels[0].filled(9), side, constant_values=9)
    for number, (row, col) in enumerate(places.tolist()):
        top, left = row - side // 2 + side, col - side // 2 + side
        found = np.array(table[table.column_names[1]][number].as_py())
        assert np.array_equal(found, padded[top : top + side, left : left + side])


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """Two bands of 70 x 90 in tiles of 16, every pixel another, two masked."""
    pixels = np.arange(2 * 70 * 90, dtype=np.int32).reshape(2, 70, 90)
    pixels[0, 3, 4] = pixels[1, 5, 6] = -1
    path = tmp_path / "scene.tif"
    profile = {"driver": "GTiff", "height": 70, "width": 90, "count": 2, "dtype": "int32", "nodata": -1}
    transform = rasterio.Affine(10, 0, 500_000, 0, -10, 700)
    with rasterio.open(
        path, "w", **profile, tiled=True, blockxsize=16, blockysize=16, crs="EPSG:32633", transform=transform
    ) as raster:
        raster.write(pixels)
        raster.descriptions = ("red", "nir")
    return path


def points_at(*places: tuple[float, float], crs: str = "EPSG:32633", **columns: Any) -> Any:
    """Points at (row, column) of the scene."""
    shapes = [shapely.Point(500_000 + 10 * col, 700 - 10 * row) for row, col in places]
    return geopandas.GeoDataFrame(columns, geometry=shapes, crs="EPSG:32633").to_crs(crs)


@pytest.mark.parametrize("side", [1, 5, 33])
def test_no_block_is_read_twice(side: int, scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Window] = []
    plain = RasterSource.read

    def recorded(self: RasterSource, window: Window, *rest: Any) -> None:
        read.append(window)
        plain(self, window, *rest)

    monkeypatch.setattr(RasterSource, "read", recorded)
    monkeypatch.setattr("geotfr.pipeline.tables.sample.UNIT_PIXELS", 256)
    frame, _ = random_points(scene, 400, reach=0)
    result = geotfr.sample_points(scene, frame, tmp_path / "out", neighborhood=side)
    assert len(set(read)) == len(read) == result.blocks_read == 5 * 6
    assert all(window.row % 16 == 0 and window.col % 16 == 0 for window in read)


def test_records_hold_the_columns_then_the_bands(scene: Path, tmp_path: Path) -> None:
    points = points_at((0.5, 0.5), (3.5, 4.5), (5.5, 6.5), (69.9, 89.9), (-1, 0), crs="EPSG:4326", name=list("abcde"))
    result = geotfr.sample_points(scene, points, tmp_path / "out", bands="nir,r=red", geometry="lonlat")
    first, last = records(result.output)
    assert first["name"] == [b"a"]
    assert (first["nir"], first["r"], last["nir"]) == ([6300.0], [0.0], [12599.0])
    assert (result.points, result.rows, result.outside, result.masked) == (5, 2, 1, 2)
    assert result.features == ("name", "nir", "r", "longitude", "latitude")


def test_filled_points_keep_their_rows(scene: Path, tmp_path: Path) -> None:
    points = points_at((3.5, 4.5), (-1, 0))
    result = geotfr.sample_points(scene, points, tmp_path / "out", masked="fill", default_value=-7.9)
    assert records(result.output) == [{"red": [-7.0], "nir": [6300.0 + 3 * 90 + 4]}, {"red": [-7.0], "nir": [-7.0]}]


def test_neighborhoods_are_float_lists_of_their_pixels(scene: Path, tmp_path: Path) -> None:
    result = geotfr.sample_points(scene, points_at((10.5, 20.5)), tmp_path / "out", neighborhood=3, bands="red")
    (found,) = records(result.output)
    assert found["red"] == [row * 90.0 + col for row in (9, 10, 11) for col in (19, 20, 21)]
    assert result.manifest is not None
    assert json.loads(result.manifest.read_text())["columns"][0]["shape"] == [3, 3]
    back = geotfr.ingest_table(result.output).frame
    assert np.array(back["red"][0].tolist()).shape == (3, 3)


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        ({"neighborhood": 0}, "--neighborhood 0", 2),
        ({"masked": "keep"}, "--masked keep", 2),
        ({"bands": "swir"}, "swir", 2),
        ({"neighborhood": 999, "memory_limit": "1MiB"}, "the samples take .*, the limit is 1.0 MiB", 13),
        ({"selectors": "nix"}, "no column 'nix'", 10),
        ({"selectors": "red=name"}, "the band 'red' has the name of a column", 2),
    ],
)
def test_bad_samples_are_refused(options: dict[str, Any], message: str, code: int, scene: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    with pytest.raises(geotfr.GeotfrError, match=message) as caught:
        geotfr.sample_points(scene, points_at((1, 1), name=["a"]), tmp_path / "out", **options)
    assert caught.value.exit_code == code
    assert sorted(tmp_path.iterdir()) == before


def test_polygons_and_tables_without_points_are_refused(scene: Path, tmp_path: Path) -> None:
    frame = geopandas.GeoDataFrame({"a": [1]}, geometry=[shapely.box(0, 0, 1, 1)], crs="EPSG:32633")
    with pytest.raises(geotfr.InputError, match=r"row 0 is a Polygon, not a point; take its centroid first$"):
        geotfr.sample_points(scene, frame, tmp_path / "out")
    with pytest.raises(geotfr.InputError, match="name the points' columns with --x and --y"):
        geotfr.sample_points(scene, frame.drop(columns="geometry"), tmp_path / "out")


def test_the_command_samples_a_csv_to_a_geopackage(scene: Path, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("id,e,n\n7,500005,695\n8,500895,5\n")
    outcome = run(
        *("sample", scene, "--points", tmp_path / "p.csv", "--x", "e", "--y", "n", "--crs", "EPSG:32633"),
        *("--selectors", "id", "--output", tmp_path / "out.gpkg", "--json"),
    )
    assert outcome.code == 0, outcome.told
    assert json.loads(outcome.stdout)["rows"] == 2
    back = geopandas.read_file(tmp_path / "out.gpkg")
    assert (list(back["id"]), list(back["red"]), list(back["nir"])) == ([7, 8], [0, 6299], [6300, 12599])
    assert (back.geometry[0].x, back.geometry[1].y, back.crs.to_epsg()) == (500_005, 5, 32633)


def test_a_number_beyond_int64_is_no_float_of_a_vector_file(tmp_path: Path) -> None:
    path = tmp_path / "wide.tif"
    profile = {"driver": "GTiff", "width": 2, "height": 2, "count": 1, "dtype": "uint64", "crs": "EPSG:32633"}
    with rasterio.open(path, "w", **profile, transform=rasterio.Affine(10, 0, 0, 0, -10, 20)) as target:
        target.write(np.full((1, 2, 2), 2**63 + 5, np.uint64))
    points = geopandas.GeoDataFrame({"id": [1]}, geometry=[shapely.Point(5, 5)], crs="EPSG:32633")
    with pytest.raises(geotfr.UsageError, match=r"column 'b1' holds whole numbers beyond 2\^63 - 1"):
        geotfr.sample_points(path, points, tmp_path / "out.gpkg")
    assert not (tmp_path / "out.gpkg").exists()
    geotfr.sample_points(path, points, tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["b1"].to_pylist() == [2**63 + 5]

"""Cases 15, 16, 18 to 23: position and CRS."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
import rasterio
import rasterio.warp
from oracle import wire
from oracle.images import Options, assert_export, expected_export
from oracle.rasters import NORTH_UP, ROTATED, SOUTH_UP, numbered, read_raster, write_raster
from oracle.run import DATA, assert_refused, needs_data, run
from rasterio.control import GroundControlPoint
from rasterio.crs import CRS
from rasterio.transform import Affine

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

SINUSOIDAL = (
    'PROJCS["Sinusoidal",GEOGCS["Unknown",DATUM["Custom",SPHEROID["Custom",6371007.181,0]],'
    'PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]],PROJECTION["Sinusoidal"],'
    'PARAMETER["longitude_of_center",0],PARAMETER["false_easting",0],PARAMETER["false_northing",0],'
    'UNIT["metre",1]]'
)
EUROPA = (
    'GEOGCS["GCS_Europa_2000",DATUM["D_Europa_2000",SPHEROID["Europa_2000_IAU_IAG",1564130,488.7906]],'
    'PRIMEM["Reference_Meridian",0],UNIT["degree",0.0174532925199433]]'
)


def there_and_back(source: Path, folder: Path, **options: object) -> tuple[dict[str, object], Path]:
    """(the mixer, the raster that comes back)."""
    folder.mkdir(exist_ok=True)
    geotfr.export_image(source, folder / "set", **options)
    mixer = folder / "set.json"
    geotfr.ingest_predictions(mixer, [folder / "set.tfrecord.gz"], folder / "back.tif")
    return json.loads(mixer.read_text(encoding="utf-8")), folder / "back.tif"


@pytest.mark.parametrize("meaning", ["Area", "Point"])
def test_case_15_the_matrix_is_rasterios_transform_for_area_and_for_point(meaning: str, tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 4, 4))
    with rasterio.open(source, "r+") as target:
        target.update_tags(AREA_OR_POINT=meaning)
    with rasterio.open(source) as opened:
        assert opened.tags()["AREA_OR_POINT"] == meaning
        transform = opened.transform
    mixer, back = there_and_back(source, tmp_path / "out", patch_dimensions=2)
    assert mixer["projection"]["affine"]["doubleMatrix"] == list(transform)[:6]
    assert read_raster(back)[1]["transform"] == transform


def test_case_16_a_large_origin_survives_the_round_trip(tmp_path: Path) -> None:
    transform = Affine(20, 0, 50200, 0, -20, 7799840)
    source = write_raster(tmp_path / "scene.tif", numbered(1, 4, 4), transform=transform, crs="EPSG:32735")
    _, back = there_and_back(source, tmp_path / "out", patch_dimensions=2)
    assert list(read_raster(back)[1]["transform"]) == pytest.approx(list(transform), abs=1e-9, rel=0)


def test_case_18_a_rotated_grid_keeps_its_shear_terms_its_place_and_its_pixels(tmp_path: Path) -> None:
    data = numbered(1, 40, 20)
    source = write_raster(tmp_path / "scene.tif", data, transform=ROTATED, crs="EPSG:3577")
    mixer, back = there_and_back(source, tmp_path / "out", patch_dimensions=10, kernel_size=4)
    matrix = mixer["projection"]["affine"]["doubleMatrix"]
    assert matrix == list(ROTATED)[:6]
    assert 0 not in (matrix[1], matrix[3])
    pixels, profile, _ = read_raster(back)
    assert np.array_equal(pixels, data)
    corners = [profile["transform"] @ (col, row) for col in (0, 20) for row in (0, 40)]
    xs, ys = zip(*corners, strict=True)
    assert (min(xs), min(ys), max(xs), max(ys)) == pytest.approx((100, -82.84, 524.26, 341.42), abs=0.005)


def test_case_19_a_south_up_raster_stays_in_storage_order(tmp_path: Path) -> None:
    data = np.arange(20, dtype="float32").reshape(1, 5, 4)
    source = write_raster(tmp_path / "scene.tif", data, transform=SOUTH_UP, crs="EPSG:4326")
    mixer, back = there_and_back(source, tmp_path / "out", patch_dimensions=(4, 5))
    assert mixer["projection"]["affine"]["doubleMatrix"][4] > 0
    (record,) = wire.read_shard(tmp_path / "out" / "set.tfrecord.gz")
    assert np.array_equal(record["b1"], data.ravel())
    pixels, profile, _ = read_raster(back)
    assert np.array_equal(pixels, data)
    assert profile["transform"] == SOUTH_UP


def test_case_19_a_region_picks_the_right_rows_of_a_south_up_raster(tmp_path: Path) -> None:
    data = np.arange(20, dtype="float32").reshape(1, 5, 4)
    source = write_raster(tmp_path / "scene.tif", data, transform=SOUTH_UP, crs="EPSG:4326")
    # Rows 3 and 4, the northern ones, and columns 1 and 2.
    mixer, back = there_and_back(source, tmp_path / "out", patch_dimensions=1, region=(-179.5, -88.5, -178.5, -87.5))
    assert mixer["projection"]["affine"]["doubleMatrix"] == [0.5, 0, -179.5, 0, 0.5, -88.5]
    pixels, profile, _ = read_raster(back)
    assert np.array_equal(pixels, data[:, 3:5, 1:3])
    assert profile["transform"] == SOUTH_UP @ Affine.translation(1, 3)


def test_case_18_a_region_on_a_rotated_grid_keeps_the_shear_terms(tmp_path: Path) -> None:
    data = numbered(1, 40, 20)
    source = write_raster(tmp_path / "scene.tif", data, transform=ROTATED, crs="EPSG:3577")
    corners = [ROTATED @ corner for corner in ((5, 10), (15, 10), (15, 30), (5, 30), (5, 10))]
    region = {
        "type": "Polygon",
        "coordinates": [[list(corner) for corner in corners]],
        "crs": {"type": "name", "properties": {"name": "EPSG:3577"}},
    }
    # By its bounds it would be an upright square with all of these pixels in its middle.
    mixer, back = there_and_back(source, tmp_path / "out", patch_dimensions=1, region=region)
    matrix = mixer["projection"]["affine"]["doubleMatrix"]
    assert (matrix[0], matrix[1], matrix[3], matrix[4]) == (ROTATED.a, ROTATED.b, ROTATED.d, ROTATED.e)
    assert ~ROTATED @ (matrix[2], matrix[5]) == pytest.approx((5, 10), abs=1e-9)
    assert np.array_equal(read_raster(back)[0], data[:, 10:30, 5:15])


@pytest.mark.parametrize("crs", ["EPSG:32735", "EPSG:2193", "EPSG:3006", "EPSG:3857"])
@pytest.mark.parametrize("seed", range(3))
def test_case_20_the_patch_under_a_point_of_the_region_holds_it(crs: str, seed: int, tmp_path: Path) -> None:
    origins = {
        "EPSG:32735": (300000, 7500000),
        "EPSG:2193": (1570000, 5180000),
        "EPSG:3006": (670000, 6580000),
        "EPSG:3857": (1500000, 6000000),
    }
    transform = Affine(100, 0, origins[crs][0], 0, -100, origins[crs][1])
    source = write_raster(tmp_path / "scene.tif", numbered(1, 30, 40), transform=transform, crs=crs)
    row, col = np.random.default_rng(seed).integers(2, 28, 2).tolist()
    x, y = transform @ (col + 0.5, row + 0.5)
    (lon,), (lat,) = rasterio.warp.transform(crs, "EPSG:4326", [x], [y])
    # Some pixels around the point: the grid covers them outwards, and the point stays in the right one.
    geotfr.export_image(
        source,
        tmp_path / "set",
        patch_dimensions=1,
        region=(lon - 0.002, lat - 0.002, lon + 0.002, lat + 0.002),
        clip_region=False,
    )
    mixer = json.loads((tmp_path / "set.json").read_text())
    place = Affine(*mixer["projection"]["affine"]["doubleMatrix"])
    patch_col, patch_row = (math.floor(value) for value in ~place @ (x, y))
    records = wire.read_shard(tmp_path / "set.tfrecord.gz")
    number = patch_row * mixer["patchesPerRow"] + patch_col
    assert records[number]["b1"].tolist() == [row * 40 + col + 1]


@needs_data
def test_case_21_gcps_only_are_refused_unless_allowed(tmp_path: Path) -> None:
    source = DATA / "geotiff" / "au-gcp.tif"
    more = ("--patch-dimensions", "32", "--quiet")
    outcome = run("export", source, "--output", tmp_path / "set", *more)
    assert_refused(outcome, 10, "au-gcp.tif", "GCPs", "warp", "--allow-ungeoreferenced")
    assert list(tmp_path.iterdir()) == []
    allowed = run("export", source, "--output", tmp_path / "set", *more, "--allow-ungeoreferenced")
    assert allowed.code == 0, allowed.told
    mixer = json.loads((tmp_path / "set.json").read_text())
    assert mixer["projection"]["affine"]["doubleMatrix"] == [1, 0, 0, 0, 1, 0]
    with rasterio.open(source) as opened:
        pixels = opened.read(1)
    (first, *_) = wire.read_shard(tmp_path / "set.tfrecord.gz", checked=0)
    assert np.array_equal(first["b1"], pixels[:32, :32].ravel())


def test_case_21_made_gcps_and_rpcs_are_refused_too(tmp_path: Path) -> None:
    points = [GroundControlPoint(row, col, 100 + col, 50 - row) for row in (0, 4) for col in (0, 4)]
    path = tmp_path / "gcps.tif"
    with rasterio.open(
        path, "w", driver="GTiff", width=4, height=4, count=1, dtype="uint8", gcps=points, crs="EPSG:4326"
    ) as target:
        target.write(np.ones((1, 4, 4), "uint8"))
    outcome = run("export", path, "--output", tmp_path / "set", "--patch-dimensions", "2", "--quiet")
    assert_refused(outcome, 10, "gcps.tif", "--allow-ungeoreferenced")
    rpcs = rasterio.rpc.RPC(
        **dict.fromkeys(("height_off", "lat_off", "long_off", "line_off", "samp_off"), 1.0),
        **dict.fromkeys(("height_scale", "lat_scale", "long_scale", "line_scale", "samp_scale"), 2.0),
        **dict.fromkeys(("line_den_coeff", "line_num_coeff", "samp_den_coeff", "samp_num_coeff"), [1.0] * 20),
    )
    path = tmp_path / "rpcs.tif"
    with rasterio.open(path, "w", driver="GTiff", width=4, height=4, count=1, dtype="uint8", rpcs=rpcs) as target:
        target.write(np.ones((1, 4, 4), "uint8"))
    outcome = run("export", path, "--output", tmp_path / "set", "--patch-dimensions", "2", "--quiet")
    assert_refused(outcome, 10, "rpcs.tif", "--allow-ungeoreferenced")
    assert not list(tmp_path.glob("set*"))


def test_case_22_a_transform_without_crs_is_exported_with_a_warning_and_comes_back_without(
    tmp_path: Path,
) -> None:
    data = numbered(1, 4, 4)
    source = write_raster(tmp_path / "scene.tif", data, crs=None)
    out = tmp_path / "out"
    out.mkdir()
    outcome = run("export", source, "--output", out / "set", "--patch-dimensions", "2")
    assert outcome.code == 0, outcome.told
    warnings = [line for line in outcome.stderr.splitlines() if "warning" in line.lower() and "CRS" in line]
    assert len(warnings) == 1, outcome.stderr
    expected = expected_export([source], Options(patch=(2, 2)), name="set")
    assert json.loads(expected.mixer)["projection"]["crs"] == ""
    assert_export(out, expected)
    outcome = run("ingest-predictions", out / "set.json", out / "set.tfrecord.gz", "--output", tmp_path / "back.tif")
    assert outcome.code == 0, outcome.told
    pixels, profile, _ = read_raster(tmp_path / "back.tif")
    assert profile["crs"] is None
    assert profile["transform"] == NORTH_UP
    assert np.array_equal(pixels, data)


def test_case_22_a_crs_given_is_assigned_to_a_source_without_one(tmp_path: Path) -> None:
    data = numbered(1, 4, 4)
    source = write_raster(tmp_path / "scene.tif", data, crs=None)
    mixer, back = there_and_back(source, tmp_path / "out", patch_dimensions=2, crs="EPSG:32735")
    assert mixer["projection"]["crs"] == "EPSG:32735"
    pixels, profile, _ = read_raster(back)
    assert profile["crs"] == CRS.from_epsg(32735)
    assert profile["transform"] == NORTH_UP
    assert np.array_equal(pixels, data)


@pytest.mark.parametrize("more", [{}, {"alpha": np.full((4, 4), 255)}], ids=["plain", "alpha"])
@pytest.mark.parametrize(
    ("grid", "side"), [({"dimensions": (2, 2)}, 20), ({"scale": 5}, 5), ({"scale": 20, "resampling": "average"}, 20)]
)
def test_case_22_a_source_without_crs_is_resampled_onto_another_grid_of_its_own_place(
    grid: dict[str, object], side: int, more: dict[str, np.ndarray], tmp_path: Path
) -> None:
    data = np.kron([[1, 2], [3, 4]], np.ones((2, 2))).astype("uint8")
    source = write_raster(tmp_path / "scene.tif", data, crs=None, **more)
    mixer, back = there_and_back(source, tmp_path / "out", patch_dimensions=1, **grid)
    assert mixer["projection"]["crs"] == ""
    pixels, profile, _ = read_raster(back)
    assert profile["crs"] is None
    assert profile["transform"] == NORTH_UP @ Affine.scale(side / 10)
    want = np.kron([[1, 2], [3, 4]], np.ones((20 // side, 20 // side)))
    assert np.array_equal(pixels[0], want)


def test_case_22_sources_without_crs_on_two_grids_are_stacked(tmp_path: Path) -> None:
    fine = write_raster(tmp_path / "fine.tif", numbered(1, 4, 4), crs=None)
    coarse = write_raster(
        tmp_path / "coarse.tif", np.array([[1, 2], [3, 4]], "uint8"), crs=None, transform=NORTH_UP @ Affine.scale(2)
    )
    geotfr.export_image([fine, coarse], tmp_path / "set", patch_dimensions=4)
    (record,) = wire.read_shard(tmp_path / "set.tfrecord.gz")
    assert record["coarse"].reshape(4, 4).tolist() == [[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]]
    assert record["fine"].tolist() == list(range(1, 17))


@pytest.mark.parametrize(
    "crs",
    ["EPSG:32735", "EPSG:4326", "EPSG:2193", "EPSG:3006", "ESRI:54009", "ESRI:102001", SINUSOIDAL, EUROPA],
    ids=lambda text: text.split(",")[0],
)
def test_case_23_the_crs_that_comes_back_is_the_sources(crs: str, tmp_path: Path) -> None:
    transform = Affine(0.25, 0, 20.5, 0, -0.25, 30.75)
    source = write_raster(tmp_path / "scene.tif", numbered(1, 4, 4), crs=crs, transform=transform)
    with rasterio.open(source) as opened:
        want = opened.crs
    mixer, back = there_and_back(source, tmp_path / "out", patch_dimensions=2)
    got = read_raster(back)[1]["crs"]
    assert got == want
    assert got.to_wkt() == want.to_wkt()
    text = mixer["projection"]["crs"]
    assert not text.startswith("{"), "PROJJSON"
    assert CRS.from_string(text) == want
    authority = want.to_authority()
    if authority:
        assert text == ":".join(authority)


@pytest.mark.parametrize("value", [1e7, 12345678.9, 0.001, 0.00099, 1e-10, 123456.0, 9999999.999, 1e22, 0.1])
def test_doubles_are_written_as_java_does_and_read_back_equal(value: float, tmp_path: Path) -> None:
    # The file's own doubles may differ in the last digit from what was asked for: compare with what it holds.
    source = write_raster(
        tmp_path / "scene.tif", numbered(1, 2, 2), transform=Affine(value, 0, -value, 0, -value, value)
    )
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image(source, out / "set", patch_dimensions=2)
    assert_export(out, expected_export([source], Options(patch=(2, 2)), name="set"))
    mixer = json.loads((out / "set.json").read_text())
    with rasterio.open(source) as opened:
        assert mixer["projection"]["affine"]["doubleMatrix"] == list(opened.transform)[:6]
    assert math.isfinite(value)

"""Grids of exports: Earth Engine's combinations and snapping, regions, axis order and the antimeridian."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyproj import Transformer
from rasterio.features import geometry_mask
from rasterio.transform import Affine
from rasterio.warp import calculate_default_transform
from shapely import Point, box
from shapely.affinity import affine_transform

from geotfr.errors import InputError, UsageError
from geotfr.grid import GeoBox
from geotfr.grid.export_grid import GridRequest, export_grid, lattice_offset
from geotfr.grid.region import Region, parse_region

UTM = GeoBox(shape_yx=(100, 80), affine=(10.0, 0.0, 500000.0, 0.0, -10.0, 5200000.0), crs="EPSG:32633")
SOUTH_UP = GeoBox(shape_yx=(360, 720), affine=(0.5, 0.0, -180.0, 0.0, 0.5, -90.0), crs="EPSG:4326")
SIDE = 10 * 0.5**0.5
ROTATED = GeoBox(shape_yx=(20, 40), affine=(SIDE, SIDE, 100.0, SIDE, -SIDE, 200.0), crs="EPSG:32633")
METRES_PER_DEGREE = 6378137 * math.pi / 180


def utm_region(west: float, south: float, east: float, north: float) -> Region:
    return Region(shape=box(west, south, east, north), crs="EPSG:32633")


def grid_of(source: GeoBox = UTM, **request: Any) -> GeoBox:
    return export_grid(source, GridRequest(**request)).geobox


OPTIONS: dict[str, Any] = {
    "region": utm_region(500100, 5199500, 500200, 5199600),
    "crs_transform": (20.0, 0.0, 500000.0, 0.0, -20.0, 5200000.0),
    "scale": 30.0,
    "dimensions": (40, 50),
}
ILLEGAL = ({"crs_transform", "scale"}, {"scale", "dimensions"}, {"crs_transform", "dimensions", "region"})


@pytest.mark.parametrize(
    "names",
    [set(c) for n in range(5) for c in itertools.combinations(OPTIONS, n)],
    ids=lambda names: "+".join(sorted(names)) or "none",
)
def test_case_10_earth_engines_combinations_alone_are_legal(names: set[str]) -> None:
    chosen = {name: OPTIONS[name] for name in names}
    if any(pair <= names for pair in ILLEGAL):
        with pytest.raises(UsageError, match="legal are: --scale; --dimensions; --crs-transform") as error:
            GridRequest(**chosen)
        assert error.value.exit_code == 2
    else:
        assert grid_of(**chosen).pixel_count > 0


@pytest.mark.parametrize(
    "request_",
    [
        {"scale": 0.0},
        {"scale": -3.0},
        {"scale": math.nan},
        {"scale": math.inf},
        {"dimensions": 0},
        {"dimensions": (4, -1)},
        {"crs_transform": (1.0, 1.0, 0.0, 1.0, 1.0, 0.0)},
        {"crs_transform": (math.nan, 0.0, 0.0, 0.0, 1.0, 0.0)},
        {"crs_transform": (1.0, 0.0, 0.0, 0.0, -1.0, 0.0), "dimensions": 5},
        {"clip_region": True},
    ],
    ids=str,
)
def test_numbers_without_meaning_are_refused(request_: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        GridRequest(**request_)


@pytest.mark.parametrize("source", [UTM, SOUTH_UP, ROTATED])
def test_without_options_the_grid_is_the_sources(source: GeoBox) -> None:
    found = export_grid(source, GridRequest())
    assert found.geobox is source
    assert found.clip is None
    assert grid_of(source, crs=source.crs) is source


@pytest.mark.parametrize("source", [UTM, SOUTH_UP, ROTATED], ids=["north-up", "south-up", "rotated"])
@settings(deadline=None)
@given(data=st.data())
def test_a_region_alone_cuts_the_sources_own_pixels_outwards(source: GeoBox, data: st.DataObject) -> None:
    rows, cols = source.shape_yx
    corners = [(data.draw(st.floats(0.1, cols - 0.1)), data.draw(st.floats(0.1, rows - 0.1))) for _ in range(2)]
    (x0, y0), (x1, y1) = (source.xy(*corner) for corner in corners)
    west, east, south, north = min(x0, x1), max(x0, x1) + 0.3, min(y0, y1), max(y0, y1) + 0.3
    found = grid_of(source, region=Region(shape=box(west, south, east, north), crs=source.crs))
    offset = lattice_offset(found, source)
    assert offset is not None
    # In pixel positions, by the four corners of the region; the oracle is rasterio's affine.
    inverse = ~Affine(*source.affine)
    ends = [inverse @ corner for corner in itertools.product((west, east), (south, north))]
    for axis, (first, size) in enumerate(((offset[1], found.shape_yx[1]), (offset[0], found.shape_yx[0]))):
        least, most = min(end[axis] for end in ends), max(end[axis] for end in ends)
        assert first - 1e-5 <= least < first + 1 + 1e-5
        assert first + size - 1 - 1e-5 < most <= first + size + 1e-5


def test_case_19_a_region_picks_the_right_rows_of_a_south_up_raster() -> None:
    source = GeoBox(shape_yx=(4, 5), affine=(1.0, 0.0, 10.0, 0.0, 1.0, 50.0), crs="EPSG:4326")
    found = grid_of(source, region=parse_region("11,52,13,54"))
    assert lattice_offset(found, source) == (2, 1)
    assert found.shape_yx == (2, 2)
    assert found.affine == (1.0, 0.0, 11.0, 0.0, 1.0, 52.0)


def test_edges_that_meet_pixels_up_to_rounding_add_none() -> None:
    source = GeoBox(shape_yx=(1000, 1000), affine=(0.1, 0.0, 7.3, 0.0, -0.1, 43.7), crs="EPSG:4326")
    for k in range(1, 200, 7):
        west, north = 7.3 + 0.1 * k, 43.7 - 0.1 * k
        found = grid_of(source, region=parse_region(f"{west!r},{north - 0.3!r},{west + 0.4!r},{north!r}"))
        assert found.shape_yx == (3, 4)
        assert lattice_offset(found, source) == (k, k)


def test_the_grid_covers_the_region_where_the_source_ends() -> None:
    found = grid_of(region=utm_region(499955, 5199905, 500045, 5200035))
    assert found.affine == (10.0, 0.0, 499950.0, 0.0, -10.0, 5200040.0)
    assert found.shape_yx == (14, 10)


@pytest.mark.parametrize("text", ["0,0,1,1", "100,-10,101,-9"])
def test_a_region_outside_the_raster_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError, match="outside the raster") as error:
        grid_of(region=parse_region(text))
    assert error.value.exit_code == 10


@pytest.mark.parametrize("crs", ["EPSG:2193", "EPSG:3006", "EPSG:32633"])
@settings(deadline=None)
@given(data=st.data())
def test_case_20_a_region_in_longitude_and_latitude_covers_its_point(crs: str, data: st.DataObject) -> None:
    origin = (1570000.0, 5180000.0) if crs == "EPSG:2193" else (500000.0, 6600000.0)
    source = GeoBox(shape_yx=(500, 400), affine=(10.0, 0.0, origin[0], 0.0, -10.0, origin[1]), crs=crs)
    col, row = data.draw(st.floats(1, 399)), data.draw(st.floats(1, 499))
    lon, lat = Transformer.from_crs(crs, "EPSG:4326", always_xy=True).transform(*source.xy(col, row))
    found = grid_of(
        source, region=parse_region(f"{lon - 1e-7:.10f},{lat - 1e-7:.10f},{lon + 1e-7:.10f},{lat + 1e-7:.10f}")
    )
    offset = lattice_offset(found, source)
    assert offset is not None
    assert offset[0] <= row <= offset[0] + found.shape_yx[0]
    assert offset[1] <= col <= offset[1] + found.shape_yx[1]
    assert max(found.shape_yx) <= 2


@settings(deadline=None)
@given(scale=st.floats(0.5, 500), crs=st.sampled_from(["EPSG:32633", "EPSG:4326", "EPSG:3857", "EPSG:2263"]))
def test_with_scale_the_origin_is_a_multiple_of_the_pixel(scale: float, crs: str) -> None:
    if crs == "EPSG:2263":  # US survey feet, New York
        source = GeoBox(shape_yx=(50, 50), affine=(10.0, 0.0, 583000.0, 0.0, -10.0, 4510000.0), crs="EPSG:32618")
    else:
        source = UTM
    units = {"EPSG:4326": METRES_PER_DEGREE, "EPSG:2263": 1200 / 3937}.get(crs, 1.0)
    found = grid_of(source, crs=crs, scale=scale)
    a, b, c, d, e, f = found.affine
    assert (a, b, d, e) == pytest.approx((scale / units, 0, 0, -scale / units))
    for origin in (c, f):
        assert origin / a == pytest.approx(round(origin / a), abs=1e-6)
    # It covers all corners of the source, and no line of pixels is spare by more than what lines bend.
    rows, cols = source.shape_yx
    corners = [source.xy(x, y) for x in (0, cols) for y in (0, rows)]
    moved = [Transformer.from_crs(source.crs, crs, always_xy=True).transform(*corner) for corner in corners]
    west, south, east, north = found.bounds()
    for x, y in moved:
        assert west - 1e-5 * a <= x <= east + 1e-5 * a
        assert south - 1e-5 * a <= y <= north + 1e-5 * a


@pytest.mark.parametrize(
    ("scale", "degrees"),
    [
        (10.0, 8.983152841195215e-05),
        (30.0, 0.00026949458523585647),
        (500.0, 0.004491576420597608),
        (1000.0, 0.008983152841195215),
    ],
)
def test_with_scale_degrees_count_as_earth_engine_counts_them(scale: float, degrees: float) -> None:
    assert grid_of(crs="EPSG:4326", scale=scale).affine[0] == degrees


def test_dimensions_set_both_sides_or_the_longer_one() -> None:
    region = utm_region(500100, 5199400, 500300, 5199500)
    both = grid_of(region=region, dimensions=(40, 50))
    assert both.shape_yx == (50, 40)
    assert both.affine == (5.0, 0.0, 500100.0, 0.0, -2.0, 5199500.0)
    longer = grid_of(region=region, dimensions=40)
    assert longer.shape_yx == (20, 40)
    assert longer.affine == (5.0, 0.0, 500100.0, 0.0, -5.0, 5199500.0)
    assert grid_of(dimensions=50).shape_yx == (50, 40)


def test_crs_transform_with_dimensions_is_the_exact_rectangle() -> None:
    affine = (7.0, 1.0, 3.5, 0.5, -9.0, 11.25)
    found = grid_of(crs="EPSG:3857", crs_transform=affine, dimensions=(3, 2))
    assert found == GeoBox(shape_yx=(2, 3), affine=affine, crs="EPSG:3857")


def test_crs_transform_with_a_region_is_a_lattice() -> None:
    lattice = GeoBox(shape_yx=(1, 1), affine=(30.0, 0.0, 7.0, 0.0, -30.0, 11.0), crs="EPSG:32633")
    found = grid_of(region=utm_region(500100, 5199500, 500200, 5199600), crs_transform=lattice.affine)
    assert lattice_offset(found, lattice) is not None
    west, south, east, north = found.bounds()
    assert 500100 - 30 < west <= 500100 < 500200 <= east < 500230
    assert 5199500 - 30 < south <= 5199500 < 5199600 <= north < 5199630


def test_crs_alone_takes_the_suggested_pixel_snapped() -> None:
    found = export_grid(UTM, GridRequest(crs="EPSG:3857"), suggested_pixel=lambda *_: 14.5).geobox
    assert found.affine[0] == 14.5
    assert found.affine[2] % 14.5 == 0
    assert found.affine[5] % 14.5 == 0


TRIANGLE = parse_region("SRID=32633;POLYGON((500100 5199500,500300 5199500,500100 5199700,500100 5199500))")


@pytest.mark.parametrize(
    ("options", "clips"),
    [
        ({}, True),
        ({"crs_transform": (10.0, 0.0, 0.0, 0.0, -10.0, 0.0)}, True),
        ({"scale": 10.0}, False),
        ({"dimensions": (20, 20)}, False),
        ({"clip_region": False}, False),
        ({"scale": 10.0, "clip_region": True}, True),
        ({"dimensions": 20, "clip_region": True}, True),
    ],
    ids=str,
)
def test_the_shape_masks_unless_scale_or_dimensions_are_given(options: dict[str, Any], clips: bool) -> None:
    found = export_grid(UTM, GridRequest(region=TRIANGLE, **options))
    assert found.geobox.shape_yx == (20, 20)
    assert (found.clip is not None) == clips
    if found.clip is not None:
        a, b, c, d, e, f = found.geobox.affine
        on_ground = affine_transform(found.clip, [a, b, d, e, c, f])
        assert on_ground.symmetric_difference(TRIANGLE.shape).area < 1e-6
        inside = geometry_mask([found.clip], (20, 20), Affine.translation(0, 0) @ Affine.scale(1.0), invert=True)
        centres = [[Point(found.geobox.xy(col + 0.5, row + 0.5)) for col in range(20)] for row in range(20)]
        strictly = [[TRIANGLE.shape.buffer(-1e-6).contains(centre) for centre in line] for line in centres]
        assert (inside | ~np.array(strictly)).all()


def test_case_22_a_crs_for_a_source_without_one_is_assigned() -> None:
    source = GeoBox(shape_yx=(5, 5), affine=(10.0, 0.0, 500000.0, 0.0, -10.0, 5200000.0), crs="")
    assert grid_of(source, crs="EPSG:32633") == GeoBox(shape_yx=(5, 5), affine=source.affine, crs="EPSG:32633")
    with pytest.raises(UsageError, match="--crs"):
        grid_of(source, region=parse_region("1,2,3,4"))


@pytest.mark.parametrize("crs", ["EPSG:123456", "nonsense", "/etc/passwd", "https://example.com/crs"])
def test_a_crs_that_cannot_be_parsed_is_an_input_error(crs: str) -> None:
    with pytest.raises(InputError, match=r"can't be parsed|not opened") as error:
        grid_of(crs=crs, scale=10.0)
    assert error.value.exit_code == 10


AT_180 = GeoBox(shape_yx=(235, 232), affine=(1000.0, 0.0, 570585.0, 0.0, -1000.0, 5847615.0), crs="EPSG:32660")
AT_180_REGIONS = (
    "179.5,51.5,-179.5,52",
    "179.5,51.5,180.5,52",
    "MULTIPOLYGON(((179.5 51.5,180 51.5,180 52,179.5 52,179.5 51.5)),"
    "((-180 51.5,-179.5 51.5,-179.5 52,-180 52,-180 51.5)))",
)


@pytest.mark.parametrize("text", AT_180_REGIONS)
@pytest.mark.parametrize(
    "options", [{}, {"scale": 1000.0}, {"dimensions": 64}, {"crs": "EPSG:4326", "scale": 1000.0}], ids=str
)
def test_a_region_across_the_antimeridian_is_one_degree_wide(text: str, options: dict[str, Any]) -> None:
    found = grid_of(AT_180, region=parse_region(text), **options)
    west, _, east, _ = found.bounds()
    width = (east - west) * (METRES_PER_DEGREE if found.crs == "EPSG:4326" else 1)
    assert 60_000 < width < 115_000


def test_a_source_across_the_antimeridian_has_a_narrow_grid_in_degrees() -> None:
    west, south, east, north = grid_of(AT_180, crs="EPSG:4326").bounds()
    assert 177.9 < west < 178.1
    assert 181 < east < 182
    assert 50 < south < north < 53


@pytest.mark.parametrize("text", AT_180_REGIONS[2:])
def test_a_cut_region_on_a_raster_round_the_earth_is_refused_not_358_degrees_wide(text: str) -> None:
    with pytest.raises(InputError, match="antimeridian"):
        grid_of(SOUTH_UP, region=parse_region(text))


def test_a_raster_from_0_to_360_takes_western_longitudes() -> None:
    source = GeoBox(shape_yx=(180, 360), affine=(1.0, 0.0, 0.0, 0.0, -1.0, 90.0), crs="EPSG:4326")
    assert grid_of(source, region=parse_region("-100,10,-98,12")).affine[2] == 260
    assert grid_of(source, region=parse_region(AT_180_REGIONS[2])).bounds() == (179, 51, 181, 52)


def test_a_grid_without_end_is_refused() -> None:
    with pytest.raises(UsageError, match="allowed are 10,000,000 a side"):
        grid_of(scale=1e-6)


@settings(deadline=None)
@given(
    rows=st.integers(-50, 50),
    cols=st.integers(-50, 50),
    source=st.sampled_from([UTM, SOUTH_UP, ROTATED]),
    part=st.floats(-1, 1),
)
def test_a_lattice_offset_is_whole_or_there_is_none(rows: int, cols: int, source: GeoBox, part: float) -> None:
    a, b, _, d, e, _ = source.affine
    x, y = source.xy(cols, rows)
    shifted = GeoBox(shape_yx=(7, 9), affine=(a, b, x, d, e, y), crs=source.crs)
    assert lattice_offset(shifted, source) == (rows, cols)
    x, y = source.xy(cols + part, rows)
    moved = GeoBox(shape_yx=(7, 9), affine=(a, b, x, d, e, y), crs=source.crs)
    if 0.001 < abs(part) < 0.999:
        assert lattice_offset(moved, source) is None
    finer = GeoBox(shape_yx=(7, 9), affine=(a / 2, b / 2, x, d / 2, e / 2, y), crs=source.crs)
    assert lattice_offset(finer, source) is None


GLOBE = GeoBox(shape_yx=(90, 180), affine=(2.0, 0.0, -180.0, 0.0, -2.0, 90.0), crs="EPSG:4326")
GLOBE_360 = GeoBox(shape_yx=(90, 180), affine=(2.0, 0.0, 0.0, 0.0, -2.0, 90.0), crs="EPSG:4326")


@pytest.mark.parametrize("crs", ["EPSG:6933", "ESRI:54009", "ESRI:54030"])
@pytest.mark.parametrize("source", [GLOBE, GLOBE_360], ids=["-180-180", "0-360"])
def test_a_raster_round_the_earth_is_covered_up_to_the_maps_cut(source: GeoBox, crs: str) -> None:
    # pyproj moves a point each third of a degree, those of the poles and of 180 degrees among them.
    lon, lat = np.meshgrid(np.linspace(-180, 180, 1081), np.linspace(-90, 90, 541))
    x, y = Transformer.from_crs("EPSG:4326", crs, always_xy=True).transform(lon.ravel(), lat.ravel())
    x, y = x[np.isfinite(x)], y[np.isfinite(y)]
    west, south, east, north = grid_of(source, crs=crs, scale=200_000.0).bounds()
    ends = (x.min(), y.min(), x.max(), y.max())
    assert west <= ends[0] + 1e-3
    assert south <= ends[1] + 1e-3
    assert east >= ends[2] - 1e-3
    assert north >= ends[3] - 1e-3
    assert np.abs(np.array([west, south, east, north]) - ends).max() < 300_000


@pytest.mark.filterwarnings("ignore:Use .@. matmul:PendingDeprecationWarning")  # of rasterio
@pytest.mark.parametrize("source", [GLOBE, GLOBE_360], ids=["-180-180", "0-360"])
def test_the_globe_in_utm_reaches_at_least_where_gdal_suggests(source: GeoBox) -> None:
    rows, cols = source.shape_yx
    pixel, width, height = calculate_default_transform("EPSG:4326", "EPSG:32633", cols, rows, *GLOBE.bounds())
    west, south, east, north = grid_of(source, crs="EPSG:32633", scale=200_000.0).bounds()
    assert west < pixel.c
    assert north > pixel.f - pixel.a
    assert east > pixel.c + width * pixel.a
    assert south < pixel.f - height * pixel.a


@pytest.mark.parametrize(
    ("crs", "text"),
    [
        ("EPSG:32633", "-180,-80,180,80"),  # its inside lies beyond its edge
        ("EPSG:3832", "-180,-60,180,60"),  # cut at 30 degrees west
        ("ESRI:54030", "170,0,190,20"),  # cut at 180
    ],
)
def test_a_region_that_its_map_cuts_is_refused(crs: str, text: str) -> None:
    with pytest.raises(InputError, match="cuts it, or maps it beyond its own edge") as error:
        grid_of(GLOBE, crs=crs, scale=100_000.0, region=parse_region(text))
    assert error.value.exit_code == 10
    assert crs in str(error.value)


@pytest.mark.parametrize(
    ("source", "text", "west"),
    [
        (GLOBE, "170,0,190,20", 170),
        (GLOBE, "-190,0,-170,20", -190),
        (GLOBE_360, "-10,0,10,20", -10),
        (GLOBE_360, "350,0,370,20", 350),
        (GLOBE_360, "-100,0,-90,20", 260),
        (GLOBE, "190,0,200,20", -170),
    ],
)
def test_a_region_stays_on_its_turn_of_the_earth_if_the_raster_is_there(source: GeoBox, text: str, west: int) -> None:
    assert grid_of(source, region=parse_region(text)).affine[2] == west

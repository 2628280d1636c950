"""Bounds and outlines in longitude and latitude, for any projection and longitude, against dense sampling."""

from __future__ import annotations

import numpy as np
import pyproj
import pytest
import shapely

from geotfr.grid.footprints import Footprints, lonlat_bounds

R = 6378137 * np.pi / 180
WORLD = 180 * R
GEOS = "+proj=geos +h=35785831 +lon_0={} +sweep=y +datum=WGS84 +type=crs"
SINU = "+proj=sinu +R=6371007.181 +type=crs"
TILE = 6371007.181 * np.pi / 18
ROTATED = "+proj=ob_tran +o_proj=longlat +o_lon_p=0 +o_lat_p=39.25 +lon_0=18 +type=crs"
NOWHERE = (np.nan,) * 4

# Boxes west, south, east, north in the CRS, and their right bounds.
EXACT = {
    "190 degrees of Mercator": ("EPSG:3857", (-95 * R, -20 * R, 95 * R, 20 * R), (-95, -19.605, 95, 19.605)),
    "the world in Mercator": ("EPSG:3857", (-WORLD, -WORLD, WORLD, WORLD), (-180, -85.0511, 180, 85.0511)),
    "Mercator beyond 180": ("EPSG:3857", (170 * R, 0, 190 * R, R), (170, 0, -170, 1.0)),
    "Mercator far beyond 180": ("EPSG:3857", (185 * R, 0, 185.1 * R, R), (-175, 0, -174.9, 1.0)),
    "one and a half times round": ("EPSG:3857", (-WORLD, 0, 2 * WORLD, R), (-180, 0, 180, 1.0)),
    "over the antimeridian": ("EPSG:4326", (170, -10, 190, 10), (170, -10, -170, 10)),
    "from 0 to 360": ("EPSG:4326", (0, -90, 360, 90), (-180, -90, 180, 90)),
    "from 0 to almost 360": ("EPSG:4326", (0, -90, 359.5, 90), (0, -90, -0.5, 90)),
    "beyond 180": ("EPSG:4326", (200, 0, 210, 10), (-160, 0, -150, 10)),
    "west of -180": ("EPSG:4326", (-200, 0, -190, 10), (160, 0, 170, 10)),
    "from 180 on": ("EPSG:4326", (180, 0, 190, 10), (-180, 0, -170, 10)),
    "up to 180": ("EPSG:4326", (170, 0, 180, 10), (170, 0, 180, 10)),
    "190 degrees": ("EPSG:4326", (-95, 0, 95, 10), (-95, 0, 95, 10)),
    "beyond the poles": ("EPSG:4326", (-0.25, -90.25, 359.75, 90.25), (-180, -90, 180, 90)),
    "another datum over the antimeridian": ("EPSG:4267", (170, -10, 190, 10), (170, -10, -170, 10)),
    "another datum beyond 180": ("EPSG:4267", (200, 10, 200.5, 10.5), (-160, 10, -159.5, 10.5)),
    "a pole inside": ("EPSG:3995", (-3e5, -3e5, 3e5, 3e5), (-180, 86.0967, 180, 90)),
    "a pole at a corner": ("EPSG:3995", (0, 0, 3e5, 3e5), (90, 86.0967, 180, 90)),
    "a pole on an edge": ("EPSG:3995", (-1e5, 0, 1e5, 3e5), (90, 87.0901, -90, 90)),
    "the south pole": ("EPSG:3031", (-4e6, -4e6, 4e6, 4e6), (-180, -90, 180, -41.0316)),
    "a geostationary disk": (GEOS.format(0), (-5.5e6, -5.5e6, 5.5e6, 5.5e6), (-81.2995, -81.3282, 81.2995, 81.3282)),
    "a disk over the antimeridian": (
        GEOS.format(140.7), (-5.5e6, -5.5e6, 5.5e6, 5.5e6), (59.4005, -81.3282, -138.0005, 81.3282)
    ),
    "off the disk": (GEOS.format(0), (-5.5e6, 5.3e6, -5e6, 5.5e6), NOWHERE),
    "the sinusoidal world": (SINU, (-18 * TILE, -9 * TILE, 18 * TILE, 9 * TILE), (-180, -90, 180, 90)),
    "a sinusoidal tile at the end": (SINU, (17 * TILE, 0, 18 * TILE, TILE), (170, 0, 180, 10)),
    "a sinusoidal tile beyond the end": (SINU, (17 * TILE, 8 * TILE, 18 * TILE, 9 * TILE), NOWHERE),
    "the world of a rotated pole": (ROTATED, (-180, -90, 180, 90), (-180, -90, 180, 90)),
    "no CRS": ("", (0, 0, 1, 1), NOWHERE),
    "the Moon": ("IAU_2015:30100", (0, 0, 1, 1), NOWHERE),
    "a local CRS": ('LOCAL_CS["local",UNIT["metre",1]]', (0, 0, 1, 1), NOWHERE),
    "a geocentric CRS": ("EPSG:4978", (0, 0, 1e6, 1e6), NOWHERE),
}  # fmt: skip
SAMPLED = {
    "a rotated pole": (ROTATED, (-30, -30, 30, 30)),
    "a rotated pole beyond 180": (ROTATED, (340, -5, 345, 5)),
    "UTM over the antimeridian": ("EPSG:32660", (3e5, 0, 9e5, 1e6)),
    "UTM from the north": ("EPSG:32660", (-1e5, 5e6, 1.6e6, 9.9e6)),
    "half a geostationary disk": (GEOS.format(0), (-5.5e6, 0, 0, 5.5e6)),
    "the limb": (GEOS.format(0), (5.3e6, -1e5, 5.5e6, 1e5)),
    "Europe": ("EPSG:3035", (2.5e6, 1.5e6, 7.5e6, 5.5e6)),
    "New Zealand": ("EPSG:2193", (1e6, 4.7e6, 2.1e6, 6.3e6)),
    "a corner of Mollweide": ("ESRI:54009", (1e7, 5e6, 1.8e7, 9e6)),
    "grads": ("EPSG:4807", (-10, 40, 10, 60)),
    "US feet": ("EPSG:2263", (9e5, 1e5, 1.1e6, 3e5)),
    "compound": ("EPSG:7415", (1e5, 4e5, 2e5, 5e5)),
    "Pacific Mercator": ("EPSG:3832", (1e6, 0, 4e6, 1e6)),
}


def grid(box: tuple[float, float, float, float], count: int = 100) -> tuple[float, ...]:
    west, south, east, north = box
    return ((east - west) / count, 0.0, west, 0.0, -(north - south) / count, north)


def bounds(crs: str, box: tuple[float, float, float, float]) -> np.ndarray:
    zero = np.zeros(1, np.int64)
    found: np.ndarray = lonlat_bounds(crs, grid(box), (100, 100), zero, zero)[0]  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("name", EXACT)
def test_bounds_are_right_for_any_projection_and_longitude(name: str) -> None:
    crs, box, expected = EXACT[name]
    np.testing.assert_allclose(bounds(crs, box), expected, atol=0.002 if "world" not in name else 0.2)


@pytest.mark.parametrize("name", SAMPLED)
def test_bounds_are_those_of_dense_samples(name: str) -> None:
    crs, (west, south, east, north) = SAMPLED[name]
    transformer = pyproj.Transformer.from_crs(crs, "OGC:CRS84", always_xy=True)
    x, y = (axis.ravel() for axis in np.meshgrid(np.linspace(west, east, 401), np.linspace(south, north, 401)))
    lon, lat = transformer.transform(x, y)
    back_x, back_y = transformer.transform(lon, lat, direction="INVERSE")
    turn = 360.0 if crs == ROTATED else np.inf
    with np.errstate(invalid="ignore"):
        off = np.abs(back_x - x)
        off = np.minimum(off, np.abs(turn - off))
        there = np.hypot(off, back_y - y) < 1e-3 * (east - west)
    found = bounds(crs, (west, south, east, north))
    # Samples miss the limb, where the ground falls away from the camera.
    atol = 2.0 if crs.startswith("+proj=geos") else 0.2
    first = found[0]
    # From the west that was found, no sample is beyond the east.
    span = (found[2] - first) % 360
    reached = (lon[there] - first + 1e-6) % 360
    assert reached.max() <= span + 0.01
    assert span - reached.max() < atol
    assert reached.min() < atol
    np.testing.assert_allclose([found[1], found[3]], [lat[there].min(), lat[there].max()], atol=atol)


@pytest.mark.parametrize("name", [*EXACT, *SAMPLED])
def test_geometries_are_valid_cut_at_the_antimeridian_and_within_their_bounds(name: str) -> None:
    """**Source**: RFC 7946, 3.1.6, 3.1.9 and 5.2."""
    crs, box = (EXACT.get(name) or SAMPLED[name])[:2]
    geometry = Footprints(crs, grid(box), (100, 100)).geojson()  # type: ignore[arg-type]
    west, south, east, north = bounds(crs, box)
    if np.isnan(west):
        assert geometry is None
        return
    assert geometry is not None
    shape = shapely.geometry.shape(geometry)
    assert shape.is_valid
    assert all(part.exterior.is_ccw for part in shapely.get_parts(shape))
    least, low, most, high = shape.bounds
    assert -180 <= least <= most <= 180
    assert (low, high) == pytest.approx((south, north), abs=0.5)
    if west > east:
        assert geometry["type"] == "MultiPolygon"
        assert (least, most) == (-180, 180)
        assert not shape.intersects(shapely.box(east + 0.1, south, west - 0.1, north))
    else:
        assert (least, most) == pytest.approx((west, east), abs=0.5)


def test_patches_of_a_grid_have_the_bounds_that_each_has_alone() -> None:
    for crs, affine in (
        ("EPSG:3995", (1000.0, 0.0, -2e5, 0.0, -1000.0, 2e5)),
        (GEOS.format(0), (2.75e4, 0.0, -5.5e6, 0.0, -2.75e4, 5.5e6)),
        ("EPSG:32660", (1e3, 0.0, 6e5, 0.0, -1e3, 4e5)),
    ):
        rows, columns = (axis.ravel() for axis in np.meshgrid(np.arange(4), np.arange(4), indexing="ij"))
        together = lonlat_bounds(crs, affine, (100, 100), rows, columns)
        for row, column, found in zip(rows, columns, together, strict=True):
            alone = lonlat_bounds(crs, affine, (100, 100), np.array([row]), np.array([column]))[0]
            np.testing.assert_allclose(found, alone, atol=1e-6)


def test_the_four_patches_round_a_pole_share_it() -> None:
    rows, columns = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    found = lonlat_bounds("EPSG:3995", (1000.0, 0.0, -1e5, 0.0, -1000.0, 1e5), (100, 100), rows, columns)
    assert found[:, 3].tolist() == [90] * 4
    np.testing.assert_allclose(found[:, [0, 2]], [[-180, -90], [90, 180], [-90, 0], [0, 90]], atol=1e-6)

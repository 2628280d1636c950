"""Regions and grids where an export only chooses pixels: cut, clipped, snapped, nearest."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from oracle import wire
from oracle.images import Grid, Options, assert_export, expected_export
from oracle.rasters import NORTH_UP, ROTATED, SOUTH_UP, numbered, read_raster, write_raster
from oracle.run import assert_refused, contents, run
from rasterio.transform import Affine
from rasterio.warp import transform as to_crs

import geotfr

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

METRES_PER_DEGREE = 6378137 * math.pi / 180


def polygon(*rings: Sequence[tuple[float, float]], crs: str | None = "EPSG:32618") -> dict[str, Any]:
    """A GeoJSON polygon that carries its CRS, unless ``crs`` is None."""
    found: dict[str, Any] = {"type": "Polygon", "coordinates": [[list(point) for point in ring] for ring in rings]}
    return found if crs is None else found | {"crs": {"type": "name", "properties": {"name": crs}}}


def box(left: float, bottom: float, right: float, top: float) -> list[tuple[float, float]]:
    """A closed ring."""
    return [(left, bottom), (right, bottom), (right, top), (left, top), (left, bottom)]


def utm(col: float, row: float) -> tuple[float, float]:
    """The map coordinates of a pixel's upper left corner in rasters at NORTH_UP."""
    return NORTH_UP @ (col, row)


def compared(source: Path, folder: Path, options: Options, **more: object) -> dict[str, Any]:
    """The mixer of an export that is, byte for byte, the oracle's."""
    folder.mkdir(exist_ok=True)
    geotfr.export_image(source, folder / "set", **options.keywords(), **more)
    expected = expected_export([source], options, name="set")
    assert_export(folder, expected)
    return json.loads((folder / expected.mixer_name).read_text())


def window(row: int, col: int, rows: int, columns: int, transform: Affine = NORTH_UP) -> Grid:
    """The grid of some pixels of a raster."""
    return Grid(affine=transform @ Affine.translation(col, row), width=columns, height=rows)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """9 columns, 7 rows, a value of its own in each pixel of two bands."""
    return write_raster(tmp_path / "scene.tif", numbered(2, 7, 9, "int16"))


def test_a_region_cuts_the_sources_own_pixels(source: Path, tmp_path: Path) -> None:
    (left, top), (right, bottom) = utm(2, 1), utm(8, 5)
    options = Options(patch=(3, 2), kernel=(3, 3), default_value=-1, grid=window(1, 2, 4, 6))
    mixer = compared(source, tmp_path / "out", options, region=polygon(box(left, bottom, right, top)))
    assert mixer["projection"]["affine"]["doubleMatrix"] == [10, 0, left, 0, -10, top]
    records = wire.read_shard(tmp_path / "out" / "set.tfrecord.gz")
    # The raster's data right outside the region is not in the margin: it is masked.
    first = np.reshape(records[0]["b1"], (4, 5))
    assert (first[0] == -1).all()
    assert (first[:, 0] == -1).all()
    assert first[1, 1] == numbered(2, 7, 9)[0, 1, 2]


def test_a_region_that_cuts_pixels_covers_them_outwards_and_masks_those_whose_middle_is_outside(
    source: Path, tmp_path: Path
) -> None:
    # From a quarter into column 2 (middle inside) to a quarter into column 7 (middle outside); rows alike.
    (left, top), (right, bottom) = utm(2.25, 1.25), utm(7.25, 5.25)
    region = polygon(box(left, bottom, right, top))
    inside: Callable[[float, float], bool] = lambda x, y: left < x < right and bottom < y < top  # noqa: E731
    options = Options(patch=(6, 5), default_value=-1, grid=window(1, 2, 5, 6), inside=inside)
    compared(source, tmp_path / "clipped", options, region=region)
    options = Options(patch=(6, 5), default_value=-1, grid=window(1, 2, 5, 6))
    compared(source, tmp_path / "whole", options, region=region, clip_region=False)


@pytest.mark.parametrize("mode", ["pixel", "band"])
def test_a_polygon_with_a_hole_and_a_multi_polygon_mask_what_is_outside(
    mode: str, source: Path, tmp_path: Path
) -> None:
    (left, top), (right, bottom) = utm(1, 1), utm(6, 6)
    hole = box(*utm(2, 4), *utm(4, 2))
    part = box(*utm(7, 7), *utm(9, 5))

    def inside(x: float, y: float) -> bool:
        col, row = ~NORTH_UP @ (x, y)
        return (1 < col < 6 and 1 < row < 6 and not (2 < col < 4 and 2 < row < 4)) or (col > 7 and row > 5)

    region = {
        "type": "MultiPolygon",
        "coordinates": [[box(left, bottom, right, top), hole], [part]],
        "crs": {"type": "name", "properties": {"name": "EPSG:32618"}},
    }
    options = Options(
        patch=(4, 3), kernel=(2, 2), default_value=-1, grid=window(1, 1, 6, 8), inside=inside, mask_mode=mode
    )
    compared(source, tmp_path / "out", options, region=region)


def test_a_triangle_masks_the_pixels_whose_middle_is_outside(source: Path, tmp_path: Path) -> None:
    # No middle of a pixel lies on its long side.
    corners = [utm(0, 7), utm(9, 7), utm(0, 0.35)]

    def inside(x: float, y: float) -> bool:
        col, row = ~NORTH_UP @ (x, y)
        return row > 0.35 + (7 - 0.35) / 9 * col

    options = Options(patch=(3, 7), default_value=-1, inside=inside)
    compared(source, tmp_path / "out", options, region=polygon([*corners, corners[0]]))


@pytest.mark.parametrize("form", ["text", "tuple", "geojson", "geojson file", "feature", "wkt", "collection"])
def test_a_region_is_lon_lat_in_any_of_its_forms(form: str, tmp_path: Path) -> None:
    transform = Affine(0.25, 0, 12.5, 0, -0.25, 41.25)
    source = write_raster(tmp_path / "scene.tif", numbered(1, 6, 8), transform=transform, crs="EPSG:4326")
    west, south, east, north = 13.0, 40.25, 14.0, 41.0
    shape = polygon(box(west, south, east, north), crs=None)
    ring = ", ".join(f"{x} {y}" for x, y in box(west, south, east, north))
    file = tmp_path / "region.geojson"
    feature = {"type": "Feature", "properties": {}, "geometry": shape}
    collection = {"type": "FeatureCollection", "features": [feature]}
    file.write_text(json.dumps(collection))
    forms: dict[str, object] = {
        "text": f"{west},{south},{east},{north}",
        "tuple": (west, south, east, north),
        "geojson": shape,
        "geojson file": str(file),
        "feature": json.dumps(feature),
        "wkt": f"POLYGON (({ring}))",
        "collection": collection,
    }
    options = Options(patch=(2, 3), grid=window(1, 2, 3, 4, transform))
    compared(source, tmp_path / "out", options, region=forms[form])


def test_the_command_line_takes_a_region_that_starts_with_a_minus(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 5, 4), transform=SOUTH_UP, crs="EPSG:4326")
    outcome = run(
        *("export", source, "--output", tmp_path / "set", "--patch-dimensions", "1", "--quiet"),
        *("--region", "-179.5,-89,-179,-88.5"),
    )
    assert outcome.code == 0, outcome.told
    (record,) = wire.read_shard(tmp_path / "set.tfrecord.gz")
    # South-up: row 2 is from -89 to -88.5.
    assert record["b1"].tolist() == [2 * 4 + 1 + 1]


def test_a_region_on_a_rotated_grid_goes_by_its_four_corners(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 40, 20), transform=ROTATED, crs="EPSG:3577")
    # An upright square around the middle of pixel (row 20, column 10): its corners reach 1.42 pixels' sides away.
    x, y = ROTATED @ (10.5, 20.5)
    half = 10.0
    corners = [~ROTATED @ (x + dx, y + dy) for dx in (-half, half) for dy in (-half, half)]
    columns, rows = zip(*corners, strict=True)
    first_col, last_col = math.floor(min(columns)), math.ceil(max(columns))
    first_row, last_row = math.floor(min(rows)), math.ceil(max(rows))
    assert (last_col - first_col, last_row - first_row) == (3, 3)
    options = Options(
        patch=(3, 3),
        default_value=-1,
        grid=window(first_row, first_col, 3, 3, ROTATED),
        inside=lambda px, py: abs(px - x) < half and abs(py - y) < half,
    )
    compared(
        source, tmp_path / "out", options, region=polygon(box(x - half, y - half, x + half, y + half), crs="EPSG:3577")
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("--crs-transform", "10,0,500000,0,-10,4000000"), ("--scale", "10")),
        (("--scale", "10"), ("--dimensions", "4x4")),
        (("--crs-transform", "10,0,500000,0,-10,4000000"), ("--dimensions", "4x4", "--region", "-75,36,-74.9,36.1")),
        (("--clip-region",), ()),
    ],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_grid_options_that_contradict_each_other_are_usage_errors(
    first: tuple[str, ...], second: tuple[str, ...], dry: tuple[str, ...], source: Path, tmp_path: Path
) -> None:
    before = contents(tmp_path)
    outcome = run(
        *("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2", "--quiet"),
        *(*first, *second, *dry),
    )
    assert_refused(outcome, 2, first[0], *second[:1])
    assert contents(tmp_path) == before


def test_crs_transform_with_dimensions_is_the_exact_rectangle(source: Path, tmp_path: Path) -> None:
    # One column left of the raster, two rows below its end.
    transform = NORTH_UP @ Affine.translation(-1, 4)
    options = Options(patch=(5, 5), default_value=-1, grid=Grid(affine=transform, width=5, height=5))
    mixer = compared(
        source, tmp_path / "out", options, crs_transform=list(transform)[:6], dimensions=(5, 5), crs="EPSG:32618"
    )
    assert mixer["projection"]["affine"]["doubleMatrix"] == list(transform)[:6]
    (record,) = wire.read_shard(tmp_path / "out" / "set.tfrecord.gz")
    block = np.reshape(record["b1"], (5, 5))
    assert (block[:, 0] == -1).all()
    assert (block[3:] == -1).all()
    assert np.array_equal(block[:3, 1:], numbered(2, 7, 9)[0, 4:, :4])


def test_nearest_takes_the_pixel_under_the_middle(source: Path, tmp_path: Path) -> None:
    # Pixels of 3.7 m, shifted: no middle lies on an edge.
    transform = Affine(3.7, 0, 500003, 0, -3.7, 3999995)
    options = Options(patch=(4, 5), kernel=(3, 3), default_value=-1, grid=Grid(affine=transform, width=24, height=20))
    compared(source, tmp_path / "out", options, crs_transform=list(transform)[:6], dimensions="24x20")


@pytest.mark.parametrize("kinds", ["float", "native"])
def test_sources_on_other_grids_come_onto_the_firsts_by_nearest_each_with_its_own_nodata(
    kinds: str, source: Path, tmp_path: Path
) -> None:
    coarse = write_raster(
        tmp_path / "coarse.tif",
        numbered(2, 4, 4, "uint8"),
        transform=NORTH_UP @ Affine.translation(1, -1) @ Affine.scale(3, 3),
        nodata=6,
    )
    fine = write_raster(
        tmp_path / "fine.tif",
        numbered(1, 16, 20, "uint8"),
        transform=NORTH_UP @ Affine.translation(0.65, 0.65) @ Affine.scale(0.3, 0.3),
        nodata=7,
    )
    for mode in ("pixel", "band"):
        options = Options(
            patch=(3, 2), kernel=(3, 3), default_value=99, native=kinds == "native", mask_mode=mode, pad=True
        )
        out = tmp_path / mode
        out.mkdir()
        geotfr.export_image([source, coarse, fine], out / "set", **options.keywords())
        expected = expected_export([source, coarse, fine], options, name="set")
        assert [band.name for band in expected.scene.bands] == [
            "scene_b1",
            "scene_b2",
            "coarse_b1",
            "coarse_b2",
            "fine",
        ]
        assert 0 < expected.scene.valid.sum() < 63
        assert_export(out, expected)


def test_crs_transform_with_a_region_covers_it_outwards_on_its_own_lattice(source: Path, tmp_path: Path) -> None:
    lattice = Affine(10, 0, 3, 0, -10, 7)  # 3 m east and 7 m north of the source's own lattice
    (left, top), (right, bottom) = utm(2, 1), utm(6, 5)
    grid = Grid(affine=Affine(10, 0, left - 7, 0, -10, top + 7), width=5, height=5)
    options = Options(
        patch=(5, 5),
        default_value=-1,
        grid=grid,
        inside=lambda x, y: left < x < right and bottom < y < top,
    )
    compared(
        source,
        tmp_path / "out",
        options,
        crs_transform=list(lattice)[:6],
        region=polygon(box(left, bottom, right, top)),
    )


def test_scale_snaps_the_origin_to_multiples_of_the_pixel_and_takes_the_region_by_its_bounds(
    source: Path, tmp_path: Path
) -> None:
    (left, top), (right, bottom) = utm(2, 1), utm(8, 6)
    # Multiples of 30 m outside 500020..500080 and 3999940..3999990.
    grid = Grid(affine=Affine(30, 0, 500010, 0, -30, 3999990), width=3, height=2)
    assert (left, right, bottom, top) == (500020, 500080, 3999940, 3999990)
    triangle = [(left, bottom), (right, bottom), (left, top), (left, bottom)]
    options = Options(patch=(3, 2), default_value=-1, grid=grid)
    mixer = compared(source, tmp_path / "out", options, scale=30, region=polygon(triangle))
    matrix = mixer["projection"]["affine"]["doubleMatrix"]
    assert matrix == [30, 0, 500010, 0, -30, 3999990]
    assert matrix[2] % 30 == 0
    assert matrix[5] % 30 == 0
    clipped = Options(
        patch=(3, 2),
        default_value=-1,
        grid=grid,
        inside=lambda x, y: x > left and y > bottom and (x - left) / (right - left) + (y - bottom) / (top - bottom) < 1,
    )
    compared(source, tmp_path / "clipped", clipped, scale=30, region=polygon(triangle), clip_region=True)


def test_scale_without_a_region_covers_the_raster(source: Path, tmp_path: Path) -> None:
    # 90 m x 70 m from (500000, 4000000); multiples of 25 m.
    grid = Grid(affine=Affine(25, 0, 500000, 0, -25, 4000000), width=4, height=3)
    mixer = compared(source, tmp_path / "out", Options(patch=(2, 3), default_value=-1, grid=grid), scale=25)
    assert mixer["projection"]["affine"]["doubleMatrix"] == [25, 0, 500000, 0, -25, 4000000]


def test_scale_is_metres_in_a_degree_crs(tmp_path: Path) -> None:
    transform = Affine(0.01, 0, 12.5, 0, -0.01, 41.25)
    source = write_raster(tmp_path / "scene.tif", numbered(1, 30, 40), transform=transform, crs="EPSG:4326")
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image(source, out / "set", patch_dimensions=2, scale=1000)
    matrix = json.loads((out / "set.json").read_text())["projection"]["affine"]["doubleMatrix"]
    side = 1000 / METRES_PER_DEGREE
    assert (matrix[0], matrix[4]) == pytest.approx((side, -side), rel=1e-15)
    for origin in (matrix[2], matrix[5]):
        assert origin / side == pytest.approx(round(origin / side), abs=1e-6)
    assert matrix[2] <= 12.5 < matrix[2] + side
    assert matrix[5] >= 41.25 > matrix[5] - side


def test_dimensions_divide_the_regions_bounds(source: Path, tmp_path: Path) -> None:
    (left, top), (right, bottom) = utm(0, 0), utm(9, 6)
    triangle = [(left, bottom), (right, bottom), (left, top), (left, bottom)]
    grid = Grid(affine=Affine(30, 0, left, 0, -20, top), width=3, height=3)
    options = Options(patch=(3, 1), default_value=-1)
    # Rows of 20 m: their middle is on an edge between two source rows, so only the place is compared.
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image(source, out / "set", **options.keywords(), dimensions=(3, 3), region=polygon(triangle))
    mixer = json.loads((out / "set.json").read_text())
    assert mixer["projection"]["affine"]["doubleMatrix"] == list(grid.affine)[:6]
    assert (mixer["patchesPerRow"], mixer["totalPatches"]) == (1, 3)
    own = Options(patch=(3, 2), grid=window(0, 0, 6, 9))
    compared(source, tmp_path / "own", own, dimensions="9x6", region=polygon(triangle))


def test_one_dimension_is_the_longer_side(source: Path, tmp_path: Path) -> None:
    (left, top), (right, bottom) = utm(0, 0), utm(9, 3)
    region = polygon(box(left, bottom, right, top))
    compared(source, tmp_path / "out", Options(patch=(3, 3), grid=window(0, 0, 3, 9)), dimensions=9, region=region)


@pytest.mark.parametrize("crs", ["EPSG:32618", "EPSG:2193", "EPSG:3006"])
def test_the_patch_under_a_point_in_lon_lat_holds_it(crs: str, tmp_path: Path) -> None:
    # In 2193 and 3006 the authority's axis order is northing first; pixels and mixers are easting first.
    origins = {"EPSG:32618": (500000, 4000000), "EPSG:2193": (1570000, 5180000), "EPSG:3006": (670000, 6580000)}
    left, top = origins[crs]
    transform = Affine(100, 0, left, 0, -100, top)
    source = write_raster(tmp_path / "scene.tif", numbered(1, 40, 30), transform=transform, crs=crs)
    row, col = 31, 7
    x, y = transform @ (col + 0.5, row + 0.5)
    (lon,), (lat,) = to_crs(crs, "EPSG:4326", [x], [y])
    near = 2e-4  # some 20 m: well inside the pixel
    geotfr.export_image(
        source, tmp_path / "set", patch_dimensions=1, region=(lon - near, lat - near, lon + near, lat + near)
    )
    (record,) = wire.read_shard(tmp_path / "set.tfrecord.gz")
    assert record["b1"].tolist() == [row * 30 + col + 1]
    matrix = json.loads((tmp_path / "set.json").read_text())["projection"]["affine"]["doubleMatrix"]
    assert matrix == [100, 0, left + 100 * col, 0, -100, top - 100 * row]


def test_what_was_cut_comes_back_in_its_place(source: Path, tmp_path: Path) -> None:
    (left, top), (right, bottom) = utm(2, 1), utm(8, 5)
    result = geotfr.export_image(
        source, tmp_path / "set", patch_dimensions=2, region=polygon(box(left, bottom, right, top))
    )
    geotfr.ingest_predictions(result.mixer, result.shards, tmp_path / "back.tif")
    pixels, profile, _ = read_raster(tmp_path / "back.tif")
    assert np.array_equal(pixels, numbered(2, 7, 9)[:, 1:5, 2:8])
    assert profile["transform"] == NORTH_UP @ Affine.translation(2, 1)


def test_a_source_without_crs_takes_the_one_given(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 4, 4), crs=None)
    outcome = run(
        *("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2", "--crs", "EPSG:32735"),
    )
    assert outcome.code == 0, outcome.told
    mixer = json.loads((tmp_path / "set.json").read_text())
    assert mixer["projection"]["crs"] == "EPSG:32735"
    assert mixer["projection"]["affine"]["doubleMatrix"] == list(NORTH_UP)[:6]
    records = wire.read_shard(tmp_path / "set.tfrecord.gz")
    assert [record["b1"][0] for record in records] == [1, 3, 9, 11]


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (("--region", "100,10,101,11"), 10, ("region",)),
        (("--region", "1,2,3"), 2, ("region",)),
        (("--region", "POLYGON ((1 2, 3 4"), 2, ("region",)),
        (("--region", '{"type": "Point", "coordinates": [1, 2]}'), 2, ("region",)),
        (("--region", "-75,36,-75,36.1"), 2, ("region",)),
        (("--region", "-75,95,-74,96"), {2, 10}, ("region",)),
        (("--region", "no/such/file.geojson"), {2, 10}, ("no/such/file.geojson",)),
        (("--crs", "EPSG:999999"), {2, 10}, ("999999",)),
        (("--crs", "not a crs"), {2, 10}, ("not a crs",)),
        (("--scale", "0"), 2, ("scale",)),
        (("--scale", "-3"), 2, ("scale",)),
        (("--scale", "nan"), 2, ("scale",)),
        (("--dimensions", "0x3"), 2, ("dimensions",)),
        (("--crs-transform", "1,0,0,0,1"), 2, ("transform",)),
        (("--crs-transform", "1,2,0,2,4,0", "--dimensions", "2x2"), 2, ("transform",)),
        (("--resampling", "lanczos"), 2, ("nearest",)),
    ],
)
def test_grids_that_make_no_sense_are_told_in_one_line(
    more: tuple[str, ...], code: int | set[int], words: tuple[str, ...], source: Path, tmp_path: Path
) -> None:
    before = contents(tmp_path)
    outcome = run("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2", "--quiet", *more)
    assert outcome.code in ({code} if isinstance(code, int) else code), outcome.told
    assert "Traceback" not in outcome.told
    for word in words:
        assert word in outcome.stderr
    assert contents(tmp_path) == before


def test_a_region_across_the_antimeridian_is_never_358_degrees_wide(tmp_path: Path) -> None:
    transform = Affine(1, 0, -180, 0, -1, 90)
    source = write_raster(tmp_path / "scene.tif", numbered(1, 180, 360), transform=transform, crs="EPSG:4326")
    outcome = run(
        *("export", source, "--output", tmp_path / "set", "--patch-dimensions", "1", "--quiet"),
        *("--region", "179,0,-179,1"),
    )
    if outcome.code == 0:
        mixer = json.loads((tmp_path / "set.json").read_text())
        assert mixer["patchesPerRow"] <= 2
    else:
        assert outcome.code == 2, outcome.told
        assert len(outcome.stderr.strip().splitlines()) == 1

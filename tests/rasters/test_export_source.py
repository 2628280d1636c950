"""Sources cut to the grid of an export: regions, masks, scales, complex parts, several files on one lattice."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.rasters import NORTH_UP, ROTATED, SOUTH_UP, write_raster
from oracle.sources import opened, read, read_each, whole
from rasterio.features import geometry_mask
from rasterio.transform import Affine
from shapely import box

from geotfr.errors import InputError, UsageError
from geotfr.grid import Window
from geotfr.grid.region import Region, parse_region

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "geotiff"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the folder of real rasters is not there")


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 x 30 pixels with a number each, from 1."""
    pixels = np.arange(1, 1201, dtype=np.uint16).reshape(30, 40)
    return write_raster(tmp_path_factory.mktemp("numbers") / "x.tif", pixels, tiled=True, blockxsize=16, blockysize=16)


def region(west: float, south: float, east: float, north: float, crs: str = "EPSG:32618") -> Region:
    return Region(shape=box(west, south, east, north), crs=crs)


def test_without_options_every_pixel_is_the_files(numbers: Path) -> None:
    with opened([numbers]) as source, rasterio.open(numbers) as oracle:
        assert source.geobox.affine == tuple(oracle.transform)[:6]
        np.testing.assert_array_equal(read(source)[0], oracle.read())
        assert not source.has_mask
        assert source.block_shape_yx == (16, 16)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_region_cuts_pixels_and_masks_beyond_the_raster(numbers: Path, data: st.DataObject) -> None:
    row, col = data.draw(st.integers(-9, 28)), data.draw(st.integers(-9, 38))
    height, width = data.draw(st.integers(max(1, 1 - row), 40)), data.draw(st.integers(max(1, 1 - col), 50))
    west, north = 500000 + 10 * col, 4000000 - 10 * row
    with opened([numbers], region=region(west, north - 10 * height, west + 10 * width, north)) as source:
        assert source.geobox.shape_yx == (height, width)
        pixels, valid = read(source)
        # An obvious oracle: pad the whole raster, then cut.
        padded = np.zeros((30 + 100, 40 + 100), np.uint16)
        padded[50:80, 50:90] = np.arange(1, 1201).reshape(30, 40)
        wanted = padded[50 + row : 50 + row + height, 50 + col : 50 + col + width]
        np.testing.assert_array_equal(pixels[0], wanted)
        np.testing.assert_array_equal(valid, wanted != 0)
        assert source.has_mask or valid.all()
        # Every window has the same pixels.
        first, last = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
        part, part_valid = read(source, Window(row=first, col=last, height=height - first, width=width - last))
        np.testing.assert_array_equal(part[0], wanted[first:, last:])
        np.testing.assert_array_equal(part_valid, valid[first:, last:])


@pytest.mark.parametrize("transform", [NORTH_UP, SOUTH_UP, ROTATED], ids=["north-up", "south-up", "rotated"])
def test_a_polygon_with_a_hole_masks_by_pixel_centres_on_any_grid(tmp_path: Path, transform: Affine) -> None:
    crs = "EPSG:4326" if transform is SOUTH_UP else "EPSG:32618"
    path = write_raster(
        tmp_path / "x.tif", np.arange(1200, dtype=np.int16).reshape(30, 40), transform=transform, crs=crs
    )
    corners = [transform @ corner for corner in ((3.2, 2.3), (33.713, 4.1), (30.4, 27.2), (5.1, 25.9))]
    hole = [transform @ corner for corner in ((12.3, 9.4), (20.2, 9.1), (17.3, 19.2))]
    rings = [", ".join(f"{x!r} {y!r}" for x, y in [*ring, ring[0]]) for ring in (corners, hole)]
    shape = parse_region(f"SRID={crs[5:]};POLYGON(({rings[0]}), ({rings[1]}))")
    with opened([path], region=shape) as source:
        rows, cols = source.geobox.shape_yx
        pixels, valid = read(source)
        wanted = geometry_mask([shape.shape], (rows, cols), Affine(*source.geobox.affine), invert=True)
        np.testing.assert_array_equal(valid, wanted)
        assert 0 < wanted.sum() < wanted.size
        for first in range(0, rows, 7):  # strips have the mask of the whole
            height = min(7, rows - first)
            part = read(source, Window(row=first, col=0, height=height, width=cols))
            np.testing.assert_array_equal(part[1], wanted[first : first + height])
        _, whole_pixels, each = read_each(source)
        np.testing.assert_array_equal(whole_pixels, wanted)
        assert np.array(each)[0].all() or transform is ROTATED
        # The pixels are those of the file, found by their place on the ground.
        x, y = source.geobox.xy(cols // 2 + 0.5, rows // 2 + 0.5)
        with rasterio.open(path) as oracle:
            assert next(oracle.sample([(x, y)]))[0] == pixels[0][rows // 2, cols // 2]


def test_a_region_that_is_not_clipped_masks_nothing(numbers: Path) -> None:
    triangle = parse_region("SRID=32618;POLYGON((500000 3999800,500200 3999800,500000 4000000,500000 3999800))")
    with opened([numbers], region=triangle) as clipped, opened([numbers], region=triangle, clip_region=False) as box_:
        assert clipped.geobox == box_.geobox
        assert 0 < read(clipped)[1].sum() < 400
        assert read(box_)[1].all()


def test_a_region_wholly_outside_is_an_input_error(numbers: Path) -> None:
    with pytest.raises(InputError, match="outside the raster") as error:
        opened([numbers], region=parse_region("10,10,11,11"))
    assert error.value.exit_code == 10


@needs_data
def test_case_20_real_files_are_cut_where_the_region_is() -> None:
    path = DATA / "RGB.byte.tif"
    with rasterio.open(path) as oracle:
        lon, lat = -77.5, 25.0
        with opened([path], region=parse_region(f"{lon - 0.05},{lat - 0.05},{lon + 0.05},{lat + 0.05}")) as source:
            pixels, _ = read(source)
            rows, cols = source.geobox.shape_yx
            for row, col in ((0, 0), (rows // 2, cols // 3), (rows - 1, cols - 1)):
                sample = next(oracle.sample([source.geobox.xy(col + 0.5, row + 0.5)]))
                assert sample.tolist() == [int(band[row, col]) for band in pixels]


@needs_data
def test_the_rotated_file_is_cut_by_all_corners() -> None:
    path = DATA / "au-3577-rotated.tif"
    with opened([path], region=parse_region("140,-30,141,-29")) as source, rasterio.open(path) as oracle:
        pixels, _ = read(source)
        rows, cols = source.geobox.shape_yx
        want = next(oracle.sample([source.geobox.xy(cols / 2, rows / 2)]))[0]
        found = pixels[0][int(rows / 2), int(cols / 2)]
        assert found == want or np.isnan([found, want]).all()


def test_files_of_one_lattice_are_cut_not_resampled(tmp_path: Path, numbers: Path) -> None:
    shifted = Affine(10, 0, 500000 + 10 * 5, 0, -10, 4000000 - 10 * -3)
    other = write_raster(tmp_path / "other.tif", np.arange(1, 651, dtype=np.int32).reshape(26, 25), transform=shifted)
    with opened([numbers, other], resampling="cubic") as source:
        (_, pixels), valid, (first, second) = read_each(source)
        assert valid.all()
        assert first.all()
        wanted = np.zeros((30, 40), np.int32)
        wanted[0:23, 5:30] = np.arange(1, 651).reshape(26, 25)[3:]
        np.testing.assert_array_equal(np.where(second, pixels, 0), wanted)
        np.testing.assert_array_equal(second, wanted != 0)
        np.testing.assert_array_equal(read(source)[1], wanted != 0)


def test_a_mask_raster_masks_where_it_is_0(tmp_path: Path, numbers: Path) -> None:
    clouds = np.ones((2, 30, 40), np.uint8)
    clouds[1, 3:5, 7:11] = 0
    clouds[0, 20] = 0
    path = write_raster(tmp_path / "clouds.tif", clouds, nodata=1)
    wanted = clouds[1] != 0
    with opened([numbers], masks=(f"{path}:2",)) as source:
        assert source.has_mask
        np.testing.assert_array_equal(read(source)[1], wanted)
        _, valid, each = read_each(source)
        np.testing.assert_array_equal(valid, wanted)
        assert each[0].all()
        assert [file.name for file in source.sources] == ["x.tif", "clouds.tif"]
    with opened([numbers], masks=(f"{path}:2", f"{path}:1")) as source:
        np.testing.assert_array_equal(read(source)[1], clouds.all(axis=0))
    with pytest.raises(UsageError, match="say which one masks"):
        opened([numbers], masks=(str(path),))


def test_a_coarse_mask_is_warped_by_nearest(tmp_path: Path, numbers: Path) -> None:
    coarse = np.array([[1, 0, 1, 1], [1, 1, 1, 0], [0, 1, 1, 1]], np.float32)
    path = write_raster(tmp_path / "m.tif", coarse, transform=Affine(100, 0, 500000, 0, -100, 4000000))
    with opened([numbers], masks=(str(path),), resampling="cubic") as source:
        np.testing.assert_array_equal(read(source)[1], np.kron(coarse, np.ones((10, 10))) != 0)


def test_case_31_each_band_has_its_own_mask_when_asked(tmp_path: Path) -> None:
    data = np.array([[[0, 1, 2]], [[1, 0, 2]]], np.uint8)
    mask = np.array([[True, True, False]])
    with opened([write_raster(tmp_path / "x.tif", data, nodata=0, mask=mask)]) as source:
        _, valid, each = read_each(source)
        assert valid.tolist() == [[True, True, True]]
        assert [own.tolist() for own in each] == [[[False, True, False]], [[True, False, False]]]
        assert read(source)[1].tolist() == [[False, False, False]]


@needs_data
def test_case_33_scaled_bands_are_raw_with_a_note_or_physical() -> None:
    path = DATA / "cog_scale.tif"
    with rasterio.open(path) as oracle:
        raw = oracle.read()
    with opened([path]) as source:
        assert any("--unscale" in warning for warning in source.warnings)
        np.testing.assert_array_equal(read(source)[0], raw)
    with opened([path], unscale=True) as source:
        assert not any("--unscale" in warning for warning in source.warnings)
        assert [band.dtype.name for band in source.bands] == ["float32", "float32"]
        pixels, valid = read(source)
        np.testing.assert_array_equal(valid, (raw != 0).all(axis=0))
        for band, scale, offset in ((0, 1e-4, 1000), (1, 1e-3, 2000)):
            wanted = (raw[band].astype(np.float64) * scale + offset).astype(np.float32)
            np.testing.assert_array_equal(pixels[band][valid], wanted[valid])


@pytest.mark.parametrize(("scale", "offset"), [(0.5, 0.0), (1.0, -3.0), (2.0, 10.0)])
def test_case_33_scale_only_and_offset_only_work_and_masks_come_first(
    tmp_path: Path, scale: float, offset: float
) -> None:
    path = write_raster(tmp_path / "x.tif", np.array([[7, -1, 4]], np.int16), nodata=-1)
    with rasterio.open(path, "r+") as dataset:
        dataset.scales, dataset.offsets = (scale,), (offset,)
    with opened([path], unscale=True) as source:
        pixels, valid = read(source)
        assert valid.tolist() == [[True, False, True]]
        assert pixels[0][valid].tolist() == [7 * scale + offset, 4 * scale + offset]


def test_case_34_complex_bands_are_refused_or_give_two_features(tmp_path: Path) -> None:
    data = np.array([[1 + 2j, 3 - 4j, complex(np.nan, 1)]], np.complex64)
    path = write_raster(tmp_path / "x.tif", data)
    with pytest.raises(InputError, match="--complex real,imag") as error:
        opened([path])
    assert error.value.exit_code == 10
    with opened([path], complex_parts=True) as source:
        assert [f.name for f in source.features] == ["b1_real", "b1_imag"]
        assert [band.dtype.name for band in source.bands] == ["float32", "float32"]
        pixels, valid = read(source)
        assert valid.tolist() == [[True, True, False]]
        assert pixels[0][valid].tolist() == [1, 3]
        assert pixels[1][valid].tolist() == [2, -4]


def test_case_22_a_source_without_crs_takes_the_one_given(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "x.tif", np.ones((3, 4), np.uint8), crs=None)
    assert any("no CRS" in warning for warning in opened([path]).warnings)
    assigned = opened([path], crs="EPSG:32618")
    assert (assigned.geobox.crs, assigned.warnings) == ("EPSG:32618", ())
    assert read(assigned)[1].all()


@needs_data
@pytest.mark.parametrize("name", sorted(path.name for path in DATA.glob("*.tif")) if DATA.is_dir() else [])
def test_case_23_without_options_the_crs_and_grid_are_the_inputs(name: str) -> None:
    with rasterio.open(DATA / name) as oracle, opened([DATA / name], allow_ungeoreferenced=True) as source:
        assert source.geobox.affine == tuple(oracle.transform)[:6]
        assert source.geobox.shape_yx == oracle.shape
        assert bool(source.geobox.crs) == bool(oracle.crs)


def test_a_pickled_source_and_a_reopened_one_read_the_same(tmp_path: Path, numbers: Path) -> None:
    options: dict[str, Any] = {
        "crs": "EPSG:4326",
        "region": region(500050, 3999800, 500300, 3999950),
        "clip_region": True,
    }
    with opened([numbers], **options) as source:
        wanted = read(source)
        for other in (pickle.loads(pickle.dumps(source)), source.reopen()):
            found = read(other)
            np.testing.assert_array_equal(found[0], wanted[0])
            np.testing.assert_array_equal(found[1], wanted[1])
            assert other.geobox == source.geobox
            other.close()
        source.close()
        np.testing.assert_array_equal(read(source, whole(source))[0], wanted[0])

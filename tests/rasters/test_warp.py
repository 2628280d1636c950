"""Sources warped onto the grid of an export, against rasterio's WarpedVRT read at once."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.rasters import NORTH_UP, ROTATED, write_raster
from oracle.sources import opened, read, read_each
from rasterio.enums import ColorInterp, Resampling
from rasterio.transform import Affine
from rasterio.vrt import WarpedVRT
from rasterio.warp import reproject

from geotfr.errors import InputError, ReadError, UsageError
from geotfr.grid import GeoBox, Window
from geotfr.grid.region import parse_region
from geotfr.rasters.request import RESAMPLINGS, SourceRequest

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "geotiff"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the folder of real rasters is not there")


def warped_at_once(
    path: Path, box: GeoBox, resampling: str, band: int, **options: Any
) -> tuple[np.ndarray, np.ndarray]:
    """(pixels, valid) of a band as one WarpedVRT gives them, with memory enough not to split."""
    rows, cols = box.shape_yx
    with rasterio.open(path) as whole:
        profile = {
            "driver": "GTiff",
            "width": whole.width,
            "height": whole.height,
            "count": 1,
            "dtype": whole.dtypes[band - 1],
        }
        pixels, tag = whole.read(band), whole.nodata
        profile |= {"crs": whole.crs, "transform": whole.transform, "nodata": tag}
    options = {"add_alpha": True, **options} if tag is None else options
    # A file of that band alone: GDAL lets the nodata of one band mask the others.
    with rasterio.MemoryFile() as memory:
        with memory.open(**profile) as target:
            target.write(pixels, 1)
        with (
            memory.open() as source,
            WarpedVRT(
                source,
                crs=box.crs,
                transform=Affine(*box.affine),
                height=rows,
                width=cols,
                resampling=Resampling[resampling],
                warp_mem_limit=2000,
                **options,
            ) as warp,
        ):
            return warp.read(1), warp.read_masks(1) != 0


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """900 x 1000 pixels of two bands with noise, some of them nodata."""
    pixels = np.random.default_rng(0).integers(0, 2000, (2, 1000, 900)).astype(np.uint16)
    path = tmp_path_factory.mktemp("scene") / "x.tif"
    return write_raster(
        path, pixels, nodata=0, transform=Affine(10, 0, 500000, 0, -10, 5200000), crs="EPSG:32633", tiled=True
    )


GRIDS: dict[str, dict[str, Any]] = {
    "degrees": {"crs": "EPSG:4326"},
    "coarser": {"crs": "EPSG:3857", "scale": 37.0},
    "finer": {"crs": "EPSG:3035", "scale": 7.0},
    "same CRS": {"scale": 15.0},
    "rotated": {"crs_transform": (9.0, 3.0, 500000.0, 3.0, -9.0, 5200000.0)},
}


# The slow kernels meet one grid each.
SEAMS = [
    *itertools.product(GRIDS, ["nearest", "bilinear"]),
    ("degrees", "cubic"),
    ("same CRS", "average"),
    ("coarser", "mode"),
]


@pytest.mark.parametrize(("grid", "resampling"), SEAMS)
def test_strips_have_the_pixels_of_one_whole_warp(scene: Path, grid: str, resampling: str) -> None:
    with opened([scene], resampling=resampling, **GRIDS[grid]) as source:
        rows, cols = source.geobox.shape_yx
        assert rows > 256
        out = np.empty((2, rows, cols), np.uint16)
        valid = np.empty((rows, cols), bool)
        each = [np.empty((rows, cols), bool) for _ in range(2)]
        for first in range(0, rows, 100):  # strips that don't fit what is warped at a time
            window = Window(row=first, col=0, height=min(100, rows - first), width=cols)
            lines = slice(first, window.row_stop)
            source.read(window, out[:, lines], valid[lines], [own[lines] for own in each])
        assert valid.all()
        for band in (1, 2):
            wanted, wanted_valid = warped_at_once(scene, source.geobox, resampling, band)
            np.testing.assert_array_equal(each[band - 1], wanted_valid)
            np.testing.assert_array_equal(out[band - 1][wanted_valid], wanted[wanted_valid])


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_window_has_the_pixels_of_the_whole_with_any_number_of_threads(scene: Path, data: st.DataObject) -> None:
    resampling = data.draw(st.sampled_from(["nearest", "bilinear"]))
    grid = {"crs": "EPSG:4326", "scale": 40.0}
    with opened([scene], resampling=resampling, **grid) as alone:
        pixels, valid = read(alone)
    with opened([scene], resampling=resampling, threads=data.draw(st.integers(1, 3)), **grid) as source:
        rows, cols = source.geobox.shape_yx
        top, left = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, cols - 1))
        height, width = data.draw(st.integers(1, rows - top)), data.draw(st.integers(1, cols - left))
        part, part_valid = read(source, Window(row=top, col=left, height=height, width=width))
        cut = slice(top, top + height), slice(left, left + width)
        np.testing.assert_array_equal(part, [band[cut] for band in pixels])
        np.testing.assert_array_equal(part_valid, valid[cut])


@needs_data
@pytest.mark.parametrize("resampling", ["nearest", "bilinear", "cubic", "average"])
@pytest.mark.parametrize("name", ["RGB.byte.tif", "lowres.tif", "cog_uint8_rgb_nodata.tif", "cog_scale.tif"])
def test_real_files_are_warped_as_rasterio_warps_them(name: str, resampling: str) -> None:
    with opened([DATA / name], resampling=resampling, crs="EPSG:3857") as source:
        pixels, _, each = read_each(source)
        for band in range(len(source.bands)):
            wanted, wanted_valid = warped_at_once(DATA / name, source.geobox, resampling, band + 1)
            np.testing.assert_array_equal(each[band], wanted_valid)
            np.testing.assert_array_equal(pixels[band][wanted_valid], wanted[wanted_valid])


@needs_data
def test_a_scene_across_the_antimeridian_is_warped_to_degrees() -> None:
    with opened([DATA / "cog_dateline.tif"], crs="EPSG:4326", scale=450.0) as source:
        west, _, east, _ = source.geobox.bounds()
        assert 177 < west < 180 < east < 183
        pixels, valid = read(source)
        wanted, wanted_valid = warped_at_once(DATA / "cog_dateline.tif", source.geobox, "nearest", 1)
        np.testing.assert_array_equal(valid, wanted_valid)
        np.testing.assert_array_equal(pixels[0][valid], wanted[valid])


@needs_data
@pytest.mark.parametrize("resampling", ["nearest", "bilinear", "average"])
def test_case_29_three_ways_to_mask_stay_one_when_warped(resampling: str) -> None:
    found = []
    for name in ("cog_uint8_rgb_mask.tif", "cog_uint8_rgb_nodata.tif", "cog_uint8_rgba.tif"):
        with opened([DATA / name], resampling=resampling, crs="EPSG:3857", scale=500.0) as source:
            pixels, valid = read(source)
            assert len(source.bands) == 3
            found.append((np.where(valid, pixels, 0), valid))
    for pixels, valid in found[1:]:
        np.testing.assert_array_equal(valid, found[0][1])
        # GDAL moves a valid value that equals nodata by one.
        assert np.abs(pixels.astype(int) - found[0][0]).max() <= 1


ONES = np.ones((10, 10), np.uint8)
TURNED = (ROTATED.a, ROTATED.b, 499950.0, ROTATED.d, ROTATED.e, 4000000.0)


@pytest.mark.parametrize("resampling", RESAMPLINGS)
@pytest.mark.parametrize("kind", ["plain", "alpha", "mask", "external mask", "float"])
def test_case_28_corners_of_a_turned_raster_are_masked(tmp_path: Path, kind: str, resampling: str) -> None:
    options: dict[str, Any] = {
        "alpha": {"alpha": np.full((10, 10), 255)},
        "mask": {"mask": np.ones((10, 10), bool)},
        "external mask": {"mask": np.ones((10, 10), bool), "external_mask": True},
    }.get(kind, {})
    path = write_raster(tmp_path / "x.tif", ONES.astype(np.float32 if kind == "float" else np.uint8), **options)
    with opened([path], resampling=resampling, crs_transform=TURNED, dimensions=(16, 16)) as source:
        pixels, valid = read(source)
        # The oracle: whether the pixel's centre is in the raster.
        inverse = ~NORTH_UP
        wanted = np.zeros((16, 16), bool)
        for row, col in itertools.product(range(16), range(16)):
            x, y = inverse @ source.geobox.xy(col + 0.5, row + 0.5)
            wanted[row, col] = 0 <= x < 10 and 0 <= y < 10
        assert 60 < wanted.sum() < 130
        if resampling in ("average", "mode"):  # these take a pixel that the raster touches
            assert valid[wanted].all()
            assert not valid.all()
        else:
            np.testing.assert_array_equal(valid, wanted)
        assert (pixels[0][valid] == 1).all()


@pytest.mark.parametrize("resampling", ["bilinear", "cubic", "average", "mode"])
@pytest.mark.parametrize(
    "kind", ["nodata", "float nodata", "nan", "both", "alpha", "faint alpha", "mask", "mask and nodata", "all"]
)
def test_masked_pixels_take_no_part(tmp_path: Path, kind: str, resampling: str) -> None:
    """Every valid pixel is 100; masked ones hold another value, which must not show."""
    rng = np.random.default_rng(1)
    hidden = rng.random((40, 40)) < 0.3
    dtype = np.float32 if "nan" in kind or kind in ("both", "float nodata", "all") else np.uint8
    pixels = np.full((40, 40), 100, dtype)
    options: dict[str, Any] = {}
    marks: list[Any] = []
    if "nodata" in kind or kind in ("both", "all"):
        options["nodata"] = 200
        marks.append(200)
    if kind in ("nan", "both", "all"):
        marks.append(np.nan)
    masks_by_band = kind in ("alpha", "faint alpha", "mask", "mask and nodata", "all")
    which = rng.integers(0, len(marks) + masks_by_band, (40, 40))
    for number, mark in enumerate(marks):
        pixels[hidden & (which == number)] = mark
    by_band = hidden & (which == len(marks))
    pixels[by_band] = 7
    if "mask" in kind or kind == "all":
        options["mask"] = ~by_band
    elif "alpha" in kind:
        options["alpha"] = np.where(by_band, 0, 1 if kind == "faint alpha" else 255)
    path = write_raster(tmp_path / "x.tif", pixels, **options)
    with opened([path]) as plain:
        np.testing.assert_array_equal(read(plain)[1], ~hidden)
    with opened([path], resampling=resampling, scale=23.0) as source:
        found, valid = read(source)
        assert valid.sum() > 100
        np.testing.assert_allclose(found[0][valid], 100, rtol=1e-6)


@pytest.mark.parametrize("resampling", ["nearest", "bilinear"])
def test_alpha_and_mask_band_unite_when_warped(tmp_path: Path, resampling: str) -> None:
    alpha = np.full((20, 20), 255)
    alpha[:10] = 0
    mask = np.ones((20, 20), bool)
    mask[:, :10] = False
    path = write_raster(tmp_path / "x.tif", np.full((20, 20), 9, np.uint8), mask=mask, alpha=alpha)
    with opened([path], resampling=resampling, scale=5.0) as source:
        assert np.argwhere(read(source)[1]).min(axis=0).tolist() == [20, 20]
        assert read(source)[1][20:, 20:].all()


def test_each_bands_own_mask_is_warped(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "x.tif", np.ones((2, 2, 2), np.uint8))
    masks = np.array([[[255, 0], [255, 255]], [[255, 255], [0, 255]]], np.uint8)
    profile = {"driver": "GTiff", "width": 2, "height": 2, "count": 2, "dtype": "uint8", "transform": NORTH_UP}
    with rasterio.open(tmp_path / "x.tif.msk", "w", **profile) as dataset:
        dataset.write(masks)
        dataset.update_tags(INTERNAL_MASK_FLAGS_1=0, INTERNAL_MASK_FLAGS_2=0)
    with opened([path], scale=5.0) as source:
        _, valid, each = read_each(source)
        assert valid.all()
        for own, mask in zip(each, masks, strict=True):
            np.testing.assert_array_equal(own, np.kron(mask, np.ones((2, 2))) != 0)


def test_each_source_has_its_own_nodata_on_the_first_sources_grid(tmp_path: Path) -> None:
    one = write_raster(tmp_path / "one.tif", np.array([[1, 0], [1, 1]], np.uint8), nodata=0)
    coarse = Affine(20, 0, 500000, 0, -20, 4000000)
    two = write_raster(tmp_path / "two.tif", np.array([[0]], np.int16), transform=coarse, nodata=-5)
    three = write_raster(tmp_path / "three.tif", np.array([[-5]], np.int16), transform=coarse, nodata=-5)
    with opened([one, two, three]) as source:
        assert source.geobox.affine == tuple(NORTH_UP)[:6]
        pixels, _, each = read_each(source)
        assert [own.tolist() for own in each] == [[[True, False], [True, True]], [[True] * 2] * 2, [[False] * 2] * 2]
        assert pixels[1].tolist() == [[0, 0], [0, 0]]
    with opened([two, one]) as source:
        assert source.geobox.shape_yx == (1, 1)


def test_nodata_given_by_the_user_is_warped_by(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "x.tif", np.array([[0, 5], [0, 5]], np.uint8), nodata=0)
    with opened([path], nodata=5, scale=5.0) as source:
        np.testing.assert_array_equal(read(source)[1], [[True, True, False, False]] * 4)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64"])
def test_every_type_is_warped_with_its_extremes(tmp_path: Path, dtype: str) -> None:
    limits = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else np.finfo(dtype)
    pixels = np.array([[limits.min, limits.max], [0, 1]], dtype)
    path = write_raster(tmp_path / "x.tif", pixels)
    with opened([path], scale=5.0) as source:
        found, valid = read(source)
        assert valid.all()
        np.testing.assert_array_equal(found[0], np.kron(pixels, np.ones((2, 2), dtype)))


def test_complex_and_scaled_bands_are_warped(tmp_path: Path) -> None:
    data = np.array([[1 + 2j, 3 - 4j]], np.complex64)
    with opened([write_raster(tmp_path / "c.tif", data)], complex_parts=True, scale=5.0) as source:
        (real, imag), valid = read(source)
        assert valid.all()
        assert real.tolist() == [[1, 1, 3, 3]] * 2
        assert imag.tolist() == [[2, 2, -4, -4]] * 2
    path = write_raster(tmp_path / "s.tif", np.array([[3, -1]], np.int16), nodata=-1)
    with rasterio.open(path, "r+") as dataset:
        dataset.scales, dataset.offsets = (0.5,), (10,)
    with opened([path], unscale=True, scale=5.0) as source:
        (found,), valid = read(source)
        assert valid.tolist() == [[True, True, False, False]] * 2
        assert (found[valid] == 11.5).all()


def test_a_grid_beyond_the_raster_is_masked_there(scene: Path) -> None:
    region = parse_region(
        "SRID=32633;POLYGON((499000 5199000,501000 5199000,501000 5201000,499000 5201000,499000 5199000))"
    )
    with opened([scene], region=region, scale=100.0) as source:
        assert source.geobox.shape_yx == (20, 20)
        _, _, each = read_each(source)
        assert not each[0][:10].any()
        assert not each[0][:, :10].any()
        assert each[0][10:, 10:].mean() > 0.9


def test_a_damaged_source_is_told_with_its_rows(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 65535, (2, 512, 512)).astype(np.uint16)
    path = write_raster(tmp_path / "x.tif", pixels, tiled=True, compress="deflate")
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    with opened([path], scale=15.0) as source, pytest.raises(ReadError, match="can't be warped") as error:
        read(source)
    assert error.value.exit_code == 12
    assert str(error.value).startswith(f"{path}: bands 1, 2, rows ")


def test_a_file_that_turned_into_a_vrt_is_not_opened(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "x.tif", ONES)
    canary = write_raster(tmp_path / "canary.tif", ONES * 77)
    source = opened([path], scale=5.0)
    path.write_text(
        f'<VRTDataset rasterXSize="10" rasterYSize="10"><VRTRasterBand dataType="Byte" band="1"><SimpleSource>'
        f"<SourceFilename>{canary}</SourceFilename></SimpleSource></VRTRasterBand></VRTDataset>"
    )
    with pytest.raises(InputError, match="VRT"):
        read(source)


def test_names_that_xml_reads_otherwise_are_taken_as_they_are(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "a & b <c> 'é\".tif", ONES * 5)
    with opened([path], scale=5.0) as source:
        assert (read(source)[0][0] == 5).all()


def test_a_scene_is_warped_onto_a_grid_round_the_earth(tmp_path: Path) -> None:
    globe = write_raster(
        tmp_path / "globe.tif", np.ones((180, 360), np.uint8), transform=Affine(1, 0, -180, 0, -1, 90), crs="EPSG:4326"
    )
    here = Affine(10000, 0, 200000, 0, -10000, 4900000)
    scene = write_raster(tmp_path / "scene.tif", np.full((60, 60), 7, np.uint8), transform=here, crs="EPSG:32633")
    for resampling in RESAMPLINGS:
        with opened([globe, scene], resampling=resampling) as source:
            (_, pixels), _, (_, valid) = read_each(source)
            rows, cols = np.nonzero(valid)
            # 600 km wide around 15 degrees east, 39 to 44 degrees north.
            assert (rows.min(), rows.max()) == pytest.approx((90 - 44.5, 90 - 39), abs=1.5)
            assert (cols.min(), cols.max()) == pytest.approx((180 + 11, 180 + 18.5), abs=1.5)
            assert (pixels[valid] == 7).all()


def test_integers_that_gdal_cannot_warp_exactly_are_told(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "x.tif", np.array([[2**53 + 1]], np.int64))
    assert opened([path]).warnings == ()
    assert opened([path], scale=5.0).warnings == ("x.tif: 64-bit integers beyond 2**53 are not exact after warping",)


def test_a_raster_without_crs_cannot_be_warped(tmp_path: Path, scene: Path) -> None:
    path = write_raster(tmp_path / "x.tif", ONES, crs=None)
    with pytest.raises(InputError, match="no CRS"):
        opened([scene, path])


def test_a_resampling_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="nearest, bilinear, cubic, average, mode"):
        SourceRequest(resampling="lanczos")  # type: ignore[arg-type]


def test_nothing_warns(scene: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with opened([scene], crs="EPSG:3857") as source:
            read(source)


def test_alpha_taken_as_data_is_warped_as_data(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "x.tif", np.stack([ONES, ONES * 40]))
    with rasterio.open(path, "r+") as dataset:
        dataset.colorinterp = [ColorInterp.gray, ColorInterp.alpha]
    with opened([path], bands=["1", "2"], scale=5.0) as source:
        (first, alpha), valid = read(source)
        assert valid.all()
        assert (first == 1).all()
        assert (alpha == 40).all()


def globe(path: Path, west: float, *, side: float = 4.5, crs: str = "EPSG:4326", **options: Any) -> Path:
    """A raster round the Earth from longitude ``west``, 1 to 250 again and again."""
    rows, cols = round(180 / side), round(360 / side)
    pixels = (np.arange(rows * cols) % 250 + 1).reshape(rows, cols).astype(np.uint8)
    return write_raster(path, pixels, transform=Affine(side, 0, west, 0, -side, 90), crs=crs, **options)


def at_middles(path: Path, box: GeoBox) -> np.ndarray:
    """The raster's pixels under the middles of ``box``, longitudes taken round the Earth; one pixel at a time."""
    with rasterio.open(path) as dataset:
        pixels, inverse = dataset.read(1), ~dataset.transform
        found = np.zeros(box.shape_yx, pixels.dtype)
        for row, col in np.ndindex(*box.shape_yx):
            x, y = inverse @ box.xy(col + 0.5, row + 0.5)
            if 0 <= y < dataset.height:
                found[row, col] = pixels[int(y), int(x % dataset.width)]
    return found


SEAM_GRIDS = [{}, {"scale": 173_000.0}, {"crs": "EPSG:4269", "scale": 173_000.0}]


@pytest.mark.parametrize("options", SEAM_GRIDS, ids=str)
@pytest.mark.parametrize("west", [-180, 0, -178.2])
@pytest.mark.parametrize("text", ["170,0,190,20", "-190,0,-170,20", "-10,0,10,20", "350,0,370,20", "1,-10,361,10"])
def test_a_raster_round_the_earth_fills_a_grid_across_its_ends(
    tmp_path: Path, text: str, west: float, options: dict[str, Any]
) -> None:
    path = globe(tmp_path / "x.tif", west)
    with opened([path], region=parse_region(text), **options) as source:
        (pixels,), _, (valid,) = read_each(source)
        assert valid.all()
        np.testing.assert_array_equal(pixels, at_middles(path, source.geobox))
        assert source.warnings == ()


def test_windows_across_the_ends_have_the_pixels_of_the_whole(tmp_path: Path) -> None:
    path = globe(tmp_path / "x.tif", -180, nodata=7)
    with opened([path], region=parse_region("100,-30,260,30")) as source:
        (pixels,), valid = read(source)
        np.testing.assert_array_equal(valid, pixels != 7)
        rows, cols = source.geobox.shape_yx
        for left, width in itertools.product((0, 3, cols // 2 - 1, cols // 2 + 2), (1, 5, cols // 4)):
            (part,), part_valid = read(source, Window(row=1, col=left, height=rows - 1, width=width))
            np.testing.assert_array_equal(part, pixels[1:, left : left + width])
            np.testing.assert_array_equal(part_valid, valid[1:, left : left + width])


@pytest.mark.parametrize("wests", [(-180, 0), (0, -180)])
def test_rasters_on_two_turns_of_the_earth_are_stacked_by_place(tmp_path: Path, wests: tuple[float, float]) -> None:
    paths = [globe(tmp_path / f"{number}.tif", west) for number, west in enumerate(wests)]
    with opened(paths) as source:
        pixels, valid, each = read_each(source)
        assert valid.all()
        assert all(own.all() for own in each)
        for path, found in zip(paths, pixels, strict=True):
            np.testing.assert_array_equal(found, at_middles(path, source.geobox))


def test_a_scene_given_on_another_turn_of_the_earth_is_moved(tmp_path: Path) -> None:
    scene = write_raster(tmp_path / "scene.tif", ONES, transform=Affine(1, 0, 190, 0, -1, 5), crs="EPSG:4326")
    with opened([globe(tmp_path / "x.tif", -180, side=1.0), scene]) as source:
        _, _, (_, valid) = read_each(source)
        rows, cols = ONES.shape
        assert valid.sum() == rows * cols
        assert valid[85 : 85 + rows, 10 : 10 + cols].all()


def test_a_raster_a_column_wider_than_the_earth_keeps_its_own_pixels(tmp_path: Path) -> None:
    pixels = np.arange(91, dtype=np.uint8)[np.newaxis].repeat(45, axis=0)
    path = write_raster(tmp_path / "x.tif", pixels, transform=Affine(4, 0, -182, 0, -4, 90), crs="EPSG:4326")
    with opened([path]) as source:
        np.testing.assert_array_equal(read(source)[0][0], pixels)


def test_what_the_seam_costs_is_told(tmp_path: Path) -> None:
    region = parse_region("170,0,190,20")
    with opened([globe(tmp_path / "x.tif", -180)], region=region, scale=173_000.0, resampling="bilinear") as source:
        assert read(source)[1].all()
        assert source.warnings == ("x.tif: where its ends meet, bilinear takes the pixels of one end alone",)
    ragged = write_raster(
        tmp_path / "y.tif",
        np.ones((25, 51), np.uint8),
        transform=Affine(7, 0, -180, 0, -7, 87.5),
        crs="EPSG:4326",
    )
    with opened([ragged], region=region) as source:
        assert source.warnings == ("y.tif: its ends don't meet on a pixel's edge; pixels beyond its end are resampled",)


def test_the_ends_of_a_mirrored_raster_are_not_joined(tmp_path: Path) -> None:
    path = write_raster(
        tmp_path / "x.tif", np.ones((40, 80), np.uint8), transform=Affine(-4.5, 0, 180, 0, -4.5, 90), crs="EPSG:4326"
    )
    with pytest.raises(InputError, match="can't be joined on a rotated or mirrored grid") as error:
        opened([path], region=parse_region("170,0,190,20"))
    assert error.value.exit_code == 10


@pytest.mark.parametrize("crs", ["EPSG:6933", "ESRI:54009", "EPSG:32633", "EPSG:32650"])
@pytest.mark.parametrize("west", [-180, 0, -178.2])
def test_the_globe_is_warped_to_maps_as_gdal_warps_it(tmp_path: Path, west: float, crs: str) -> None:
    path = globe(tmp_path / "x.tif", west)
    with opened([path], crs=crs, scale=500_000.0) as source:
        (pixels,), valid = read(source)
        wanted = np.zeros(valid.shape, np.uint8)
        with rasterio.open(path) as dataset:
            # reproject knows where longitudes begin, which a WarpedVRT doesn't.
            reproject(
                dataset.read(1),
                wanted,
                src_transform=dataset.transform,
                src_crs=dataset.crs,
                dst_transform=Affine(*source.geobox.affine),
                dst_crs=crs,
                dst_nodata=0,
            )
        assert valid.mean() > 0.7
        np.testing.assert_array_equal(valid, wanted != 0)
        np.testing.assert_array_equal(pixels[valid], wanted[valid])


def test_a_scene_in_degrees_across_180_is_warped_to_a_map_whole(tmp_path: Path) -> None:
    path = write_raster(
        tmp_path / "x.tif", np.full((20, 20), 5, np.uint8), transform=Affine(1, 0, 170, 0, -1, 10), crs="EPSG:4326"
    )
    with opened([path], crs="EPSG:3832", scale=50_000.0) as source:
        _, cols = source.geobox.shape_yx
        assert cols == pytest.approx(20 * 111_320 / 50_000, abs=2)
        assert read(source)[1][1:-1, 1:-1].all()


@pytest.mark.parametrize("scale", [200_000.0, 9_000.0])
def test_a_raster_round_the_pole_that_no_edge_of_the_grid_meets_is_warped(tmp_path: Path, scale: float) -> None:
    path = write_raster(
        tmp_path / "x.tif", np.full((30, 360), 7, np.uint8), transform=Affine(1, 0, -180, 0, -1, -60), crs="EPSG:4326"
    )
    with opened([path], crs="EPSG:3031", scale=scale) as source:
        (pixels,), valid = read(source)
        _, wanted_valid = warped_at_once(path, source.geobox, "nearest", 1)
        assert 0.7 < valid.mean() < 0.8
        np.testing.assert_array_equal(valid, wanted_valid)
        assert (pixels[valid] == 7).all()

"""Written GeoTIFFs, against rasterio; and failures, told at once and by one family of errors."""

from __future__ import annotations

import logging
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rasterio
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.rasters import NORTH_UP, ROTATED, SOUTH_UP, write_raster

from geotfr.errors import OutputError, UsageError
from geotfr.grid import GeoBox
from geotfr.rasters.creation import GTIFF_OPTIONS, creation_options
from geotfr.rasters.read_back import check_raster
from geotfr.rasters.safe_open import quiet_georeference
from geotfr.rasters.sink import GeoTiffSink


def geobox(rows: int, cols: int, transform: rasterio.Affine = NORTH_UP, crs: str = "EPSG:32618") -> GeoBox:
    a, b, c, d, e, f = tuple(transform)[:6]
    return GeoBox(shape_yx=(rows, cols), affine=(a, b, c, d, e, f), crs=crs)


def written(path: Path, data: np.ndarray, box: GeoBox, **options: str) -> Path:
    names = [f"p{band}" for band in range(len(data))]
    with GeoTiffSink(path, geobox=box, dtype=data.dtype, band_names=names, creation_options=options) as sink:
        sink.write(0, 0, data)
    return path


def predictor(path: Path) -> str | None:
    with rasterio.open(path) as dataset:
        return dataset.tags(ns="IMAGE_STRUCTURE").get("PREDICTOR")


@pytest.mark.parametrize("transform", [NORTH_UP, SOUTH_UP, ROTATED, rasterio.Affine(1 / 3, 0, 0.1, 0, -1e-5, 7e6)])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "int64"])
def test_pixels_and_georeference_come_back_exactly(tmp_path: Path, dtype: str, transform: rasterio.Affine) -> None:
    data = np.arange(2 * 300 * 280).reshape(2, 300, 280).astype(dtype)
    box = geobox(300, 280, transform)
    path = tmp_path / "x.tif"
    with GeoTiffSink(path, geobox=box, dtype=dtype, band_names=("größe", "b"), nodata=7) as sink:
        for row in (0, 256):
            sink.write(row, 0, data[:, row : row + 256, :128])
            sink.write(row, 128, data[:, row : row + 256, 128:])
    with rasterio.open(path) as dataset:
        np.testing.assert_array_equal(dataset.read(), data)
        assert tuple(dataset.transform)[:6] == tuple(transform)[:6]
        assert dataset.crs == rasterio.CRS.from_epsg(32618)
        assert dataset.descriptions == ("größe", "b")
        assert dataset.nodatavals == (7, 7)
        assert dataset.block_shapes == [(256, 256)] * 2
        assert dataset.compression == rasterio.enums.Compression.deflate
    assert predictor(path) == ("3" if dtype.startswith("float") else "2")
    check_raster(path, geobox=box, dtype=dtype, band_names=("größe", "b"), nodata=7, samples=[(0, 0, data)])
    assert [found.name for found in tmp_path.iterdir()] == ["x.tif"]


def test_case_22_a_grid_without_crs_or_transform_is_written_without(tmp_path: Path) -> None:
    data = np.ones((1, 2, 3), np.uint8)
    for transform in (NORTH_UP, rasterio.Affine.identity()):
        box = geobox(2, 3, transform, crs="")
        path = written(tmp_path / "x.tif", data, box)
        check_raster(path, geobox=box, dtype="uint8", band_names=["p0"])
        with quiet_georeference(), rasterio.open(path) as dataset:
            assert dataset.crs is None
            assert dataset.transform == transform


def test_threads_do_not_change_the_bytes(tmp_path: Path) -> None:
    data = np.random.default_rng(0).random((3, 600, 700), np.float32)
    for threads in (1, 2, 4):
        path = tmp_path / f"{threads}.tif"
        with GeoTiffSink(path, geobox=geobox(600, 700), dtype="float32", band_names="abc", threads=threads) as sink:
            for row in (0, 256, 512):
                sink.write(row, 0, data[:, row : row + 256])
    assert (tmp_path / "1.tif").read_bytes() == (tmp_path / "2.tif").read_bytes()
    assert (tmp_path / "1.tif").read_bytes() == (tmp_path / "4.tif").read_bytes()


def test_gdal_knows_every_creation_option(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    profile = {"driver": "GTiff", "width": 4, "height": 4, "count": 1, "dtype": "uint8", "transform": NORTH_UP}
    for name in ["NO_SUCH_OPTION", *sorted(GTIFF_OPTIONS)]:
        caplog.clear()
        with caplog.at_level(logging.WARNING, "rasterio._env"):
            try:
                with rasterio.open(tmp_path / "x.tif", "w", **profile, **{name: "1"}):
                    pass
            except rasterio.errors.RasterioError:
                pass  # a value that means nothing to a known option
        is_known = "does not support creation option" not in caplog.text
        assert is_known == (name != "NO_SUCH_OPTION"), name


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"compres": "lzw"}, "did you mean COMPRESS"),
        ({"ZLEVEL": "1", "zlevel": "2"}, "given twice"),
        ({"compress": "foo"}, "COMPRESS: found 'foo'; allowed are NONE"),
        ({"zlevel": "99"}, "ZLEVEL=99"),
        ({"blockxsize": "100"}, "multiples of 16"),
    ],
)
def test_wrong_creation_options_are_usage_errors(tmp_path: Path, options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError) as error:
        GeoTiffSink(
            tmp_path / "x.tif",
            geobox=geobox(4, 4),
            dtype="uint8",
            band_names="a",
            creation_options=options,
        )
    assert words in str(error.value)


def test_given_creation_options_win(tmp_path: Path) -> None:
    data = np.ones((2, 40, 40), np.float32)
    path = written(
        tmp_path / "x.tif", data, geobox(40, 40), compress="zstd", Interleave="band", tiled="no", bigtiff="yes"
    )
    with rasterio.open(path) as dataset:
        assert dataset.compression == rasterio.enums.Compression.zstd
        assert dataset.interleaving == rasterio.enums.Interleaving.band
        assert not dataset.profile["tiled"]
    assert path.read_bytes()[2] == 43
    assert predictor(path) == "3"
    assert predictor(written(tmp_path / "y.tif", data, geobox(40, 40), compress="none")) is None


@given(
    bands=st.integers(1, 20),
    rows=st.integers(1, 200_000),
    cols=st.integers(1, 200_000),
    dtype=st.sampled_from(["uint8", "uint16", "float32", "float64"]),
)
@settings(max_examples=200)
def test_case_47_what_may_pass_4_gib_with_overviews_is_bigtiff(bands: int, rows: int, cols: int, dtype: str) -> None:
    options = creation_options({}, shape=(bands, rows, cols), dtype=np.dtype(dtype), block_yx=(256, 256), threads=1)
    raw = bands * rows * cols * np.dtype(dtype).itemsize
    if raw * 4 / 3 >= 2**32:
        assert options["BIGTIFF"] == "YES"
    if min(rows, cols) >= 2560 and raw * 2 < 2**32:
        assert options["BIGTIFF"] == "NO"


def test_nodata_beyond_the_type_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="300"):
        GeoTiffSink(tmp_path / "x.tif", geobox=geobox(4, 4), dtype="uint8", band_names="a", nodata=300)


def test_a_missing_folder_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No such file") as error:
        GeoTiffSink(tmp_path / "none" / "x.tif", geobox=geobox(4, 4), dtype="uint8", band_names="a")
    assert error.value.exit_code == 14
    assert "\n" not in str(error.value)


def test_an_existing_file_is_replaced_without_being_opened(tmp_path: Path) -> None:
    path = tmp_path / "x.tif"
    path.write_text("<VRTDataset>not one</VRTDataset>")
    data = np.ones((1, 2, 2), np.uint8)
    written(path, data, geobox(2, 2))
    check_raster(path, geobox=geobox(2, 2), dtype="uint8", band_names=["p0"], samples=[(0, 0, data)])


LIMITED = """
import resource, sys
import numpy as np
from geotfr.errors import OutputError
from geotfr.grid import GeoBox
from geotfr.rasters.safe_open import quiet_georeference
from geotfr.rasters.sink import GeoTiffSink

path, limit, compress = sys.argv[1], int(sys.argv[2]), sys.argv[3]
box = GeoBox(shape_yx=(300, 300), affine=(10.0, 0.0, 0.0, 0.0, -10.0, 0.0), crs="EPSG:32618")
data = np.random.default_rng(0).random((3, 300, 300), np.float32)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
try:
    with GeoTiffSink(path, geobox=box, dtype="f4", band_names="abc", creation_options={"COMPRESS": compress}) as sink:
        for row in range(0, 300, 100):
            sink.write(row, 0, data[:, row : row + 100])
except OutputError as error:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(error)
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize("compress", ["DEFLATE", "NONE"])
@pytest.mark.parametrize("limit", [10, 2_000, 500_000, 900_000])
def test_case_51_a_full_disk_is_told_by_write_or_close(tmp_path: Path, compress: str, limit: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "x.tif"), str(limit), compress],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 14, done.stderr
    assert done.stdout.startswith(f"{tmp_path / 'x.tif'}: ")
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
    assert "is the disk full" in done.stdout or limit == 10  # then it can't even be made


@pytest.mark.parametrize("change", ["size", "types", "transform", "names", "nodata", "crs", "pixels", "cut"])
def test_the_check_finds_every_difference(tmp_path: Path, change: str) -> None:
    data = np.arange(2 * 40 * 50, dtype=np.int16).reshape(2, 40, 50)
    path = write_raster(
        tmp_path / "x.tif", data, nodata=-1, descriptions=("a", "b"), tiled=True, blockxsize=16, blockysize=16
    )
    meant = {
        "geobox": geobox(40, 50),
        "dtype": "int16",
        "band_names": ("a", "b"),
        "nodata": -1,
        "samples": [(20, 10, data[:, 20:, 10:])],
    }
    check_raster(path, **meant)
    if change == "cut":
        path.write_bytes(path.read_bytes()[:-500])
    else:
        meant |= {
            "size": {"geobox": geobox(40, 51)},
            "types": {"dtype": "int32"},
            "transform": {"geobox": geobox(40, 50, rasterio.Affine(10, 0, 500000.0000001, 0, -10, 4000000))},
            "names": {"band_names": ("a", "c")},
            "nodata": {"nodata": None},
            "crs": {"geobox": geobox(40, 50, crs="EPSG:32619")},
            "pixels": {"samples": [(0, 0, data[:, :5] + 1)]},
        }[change]
    with pytest.raises(OutputError, match=r"x\.tif: "):
        check_raster(path, **meant)


def test_nan_equals_nan_in_the_check(tmp_path: Path) -> None:
    data = np.array([[[1, np.nan]]], np.float32)
    with GeoTiffSink(tmp_path / "x.tif", geobox=geobox(1, 2), dtype="f4", band_names="a", nodata=math.nan) as sink:
        sink.write(0, 0, data)
    check_raster(
        tmp_path / "x.tif",
        geobox=geobox(1, 2),
        dtype="f4",
        band_names="a",
        nodata=math.nan,
        samples=[(0, 0, data)],
    )


def test_an_error_inside_the_block_is_not_hidden_by_closing(tmp_path: Path) -> None:
    sink = GeoTiffSink(tmp_path / "x.tif", geobox=geobox(4, 4), dtype="uint8", band_names="a")
    with pytest.raises(KeyError), sink:
        raise KeyError
    sink.close()  # the second one does nothing


def test_a_crs_that_geotiff_cannot_hold_is_left_out_without_a_side_file(tmp_path: Path) -> None:
    box = geobox(2, 2, crs="+proj=isea +datum=WGS84")
    path = written(tmp_path / "x.tif", np.ones((1, 2, 2), np.uint8), box)
    check_raster(path, geobox=box, dtype="uint8", band_names=["p0"])
    with rasterio.open(path) as dataset:
        assert dataset.crs is None
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x.tif"]

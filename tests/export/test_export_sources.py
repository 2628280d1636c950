"""Every make of GeoTIFF that GDAL writes is read as rasterio reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import rasterio
from oracle.images import Options, assert_export, expected_export
from oracle.rasters import numbered, write_raster
from rasterio.enums import ColorInterp

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = Options(patch=(16, 16), kernel=(4, 6), default_value=-3)


def check(sources: list[Path], folder: Path, options: Options = OPTIONS, **more: Any) -> None:
    """Export ``sources`` and compare with the oracle."""
    folder.mkdir()
    geotfr.export_image(
        sources,
        folder / "set",
        patch_dimensions=options.patch,
        kernel_size=options.kernel,
        default_value=options.default_value,
        **more,
    )
    assert_export(folder, expected_export(sources, options, name="set"))


MAKES: dict[str, dict[str, Any]] = {
    "bigtiff": {"bigtiff": "yes"},
    "big endian": {"endianness": "big"},
    "big endian bigtiff": {"endianness": "big", "bigtiff": "yes"},
    "zstd": {"compress": "zstd", "predictor": 2},
    "packbits": {"compress": "packbits"},
    "lerc": {"compress": "lerc"},
    "band interleaved": {"interleave": "band", "tiled": True, "blockxsize": 16, "blockysize": 16},
    "sparse": {"sparse_ok": True, "tiled": True, "blockxsize": 16, "blockysize": 16},
    "one strip": {"blockysize": 4096},
    "twelve bits": {"nbits": 12},
}


@pytest.mark.parametrize("make", MAKES)
def test_a_make_of_geotiff_is_read_right(make: str, tmp_path: Path) -> None:
    data = (numbered(2, 50, 60, "uint16") - 1) % 4096
    data[:, :16, :16] = 0
    check([write_raster(tmp_path / "scene.tif", data, nodata=0, **MAKES[make])], tmp_path / "out")


def test_one_bit_pixels_are_read_right(tmp_path: Path) -> None:
    data = (np.random.default_rng(0).random((1, 40, 40)) < 0.5).astype("uint8")
    check([write_raster(tmp_path / "scene.tif", data, nbits=1)], tmp_path / "out")


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int32", "int64", "uint64", "float64"])
def test_every_type_is_read_right(dtype: str, tmp_path: Path) -> None:
    data = np.random.default_rng(1).integers(0, 120, (1, 40, 40)).astype(dtype)
    check([write_raster(tmp_path / "scene.tif", data, nodata=7)], tmp_path / "out")


def test_a_palette_is_not_applied(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "scene.tif", numbered(1, 32, 32, "int64").astype("uint8") % 4)
    with rasterio.open(path, "r+") as target:
        target.write_colormap(1, {value: (value * 60, 0, 0, 255) for value in range(4)})
    check([path], tmp_path / "out")


def test_overviews_beside_the_file_change_nothing(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "scene.tif", numbered(1, 64, 64), tiled=True, blockxsize=16, blockysize=16)
    with rasterio.Env(TIFF_USE_OVR=True), rasterio.open(path, "r+") as target:
        target.build_overviews([2, 4])
    assert (tmp_path / "scene.tif.ovr").exists()
    check([path], tmp_path / "out")


@pytest.mark.parametrize(
    ("dtype", "nodata"),
    [("uint8", 255), ("int16", -32768), ("uint16", 65535), ("int32", -(2**31)), ("float32", -1e-30)],
)
def test_nodata_at_the_end_of_a_types_range_masks(dtype: str, nodata: float, tmp_path: Path) -> None:
    data = np.random.default_rng(2).integers(0, 100, (2, 40, 40)).astype(dtype)
    data[0, 3:30, 5:20] = nodata
    check([write_raster(tmp_path / "scene.tif", data, nodata=nodata)], tmp_path / "out")


@pytest.mark.parametrize("nodata", [-9999, 1.5, 300, float("nan")])
def test_nodata_that_a_type_cannot_hold_masks_nothing(nodata: float, tmp_path: Path) -> None:
    data = np.random.default_rng(3).integers(0, 256, (1, 40, 40)).astype("uint8")
    path = write_raster(tmp_path / "scene.tif", data)
    options = Options(patch=(16, 16), kernel=(4, 6), default_value=-3, nodata=nodata)
    check([path], tmp_path / "out", options, nodata=nodata)


def test_long_and_many_names_are_written_right(tmp_path: Path) -> None:
    # A key of 128 bytes and more takes a length of two bytes.
    names = ["x" * 127, "y" * 128, "ü" * 150, *(f"band {number}" for number in range(60))]
    path = write_raster(tmp_path / "scene.tif", numbered(len(names), 16, 16), descriptions=names)
    check([path], tmp_path / "out")


def test_two_sources_of_one_name_keep_both_features(tmp_path: Path) -> None:
    paths = []
    for number, folder in enumerate(("a", "b")):
        (tmp_path / folder).mkdir()
        paths.append(write_raster(tmp_path / folder / "same.tif", numbered(1, 20, 20) + number))
    check(paths, tmp_path / "out")
    expected = expected_export(paths, OPTIONS, name="set")
    assert [band.name for band in expected.scene.bands] == ["same", "same_1"]


def test_an_alpha_band_between_the_others_is_a_mask(tmp_path: Path) -> None:
    data = np.random.default_rng(4).integers(0, 3, (3, 32, 32)).astype("uint8")
    path = write_raster(tmp_path / "scene.tif", data, photometric="minisblack")
    with rasterio.open(path, "r+") as target:
        target.colorinterp = [ColorInterp.gray, ColorInterp.alpha, ColorInterp.undefined]
    with rasterio.open(path) as source:
        assert source.colorinterp[1] == ColorInterp.alpha
    check([path], tmp_path / "out")


def test_a_mask_of_one_source_masks_the_whole_stack(tmp_path: Path) -> None:
    valid = np.random.default_rng(5).random((32, 32)) < 0.7
    plain = write_raster(tmp_path / "plain.tif", numbered(1, 32, 32))
    masked = write_raster(tmp_path / "masked.tif", numbered(1, 32, 32, "uint16"), mask=valid)
    alpha = write_raster(tmp_path / "alpha.tif", numbered(1, 32, 32, "uint8"), alpha=np.roll(valid, 3) * 255)
    check([plain, masked, alpha], tmp_path / "out")


def test_a_file_without_any_name_ending_is_read_by_its_content(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "scene.tif", numbered(1, 20, 20))
    check([path.rename(tmp_path / "scene")], tmp_path / "out")


def test_a_path_of_text_and_one_source_outside_a_list_are_taken(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "scene.tif", numbered(1, 20, 20))
    out = tmp_path / "out"
    out.mkdir()
    result = geotfr.export_image(str(path), str(out / "set"), patch_dimensions="16x16")
    assert_export(out, expected_export([path], Options(patch=(16, 16)), name="set"))
    assert result.patches_written == 1
    assert not result.warnings

"""Sources in memory, through the same class as files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import pytest
from oracle.rasters import NORTH_UP, write_raster
from oracle.sources import opened, read, read_each
from rasterio.crs import CRS

from geotfr.errors import InputError, UsageError
from geotfr.grid.region import parse_region
from geotfr.rasters.memory import is_memory_source, memory_raster

PIXELS = np.arange(1, 13, dtype=np.uint16).reshape(3, 4)
UTM = "EPSG:32618"
SIX = tuple(NORTH_UP)[:6]


@pytest.mark.parametrize(
    "transform", [NORTH_UP, SIX, list(SIX), np.array(SIX)], ids=["Affine", "tuple", "list", "array"]
)
@pytest.mark.parametrize("crs", [UTM, CRS.from_epsg(32618), pyproj.CRS(32618), pyproj.CRS(32618).to_wkt()], ids=repr)
def test_any_form_of_transform_and_crs_is_taken(transform: Any, crs: Any) -> None:
    raster = memory_raster((PIXELS, transform, crs))
    assert raster.geobox.affine == SIX
    assert raster.geobox.crs == UTM
    assert raster.pixels.shape == (1, 3, 4)
    assert np.shares_memory(raster.pixels, PIXELS)


def test_a_source_in_memory_reads_as_a_file_of_the_same_pixels(tmp_path: Path) -> None:
    bands = np.stack([PIXELS, PIXELS * 2])
    mask = PIXELS % 3 != 0
    path = write_raster(tmp_path / "x.tif", bands, mask=mask)
    memory = (bands, NORTH_UP, UTM, mask)
    region = parse_region("SRID=32618;POLYGON((499985 3999955,500025 3999955,500025 3999995,499985 3999955))")
    for options in (
        {},
        {"region": region},
        {"scale": 7.0, "resampling": "bilinear"},
        {"crs": "EPSG:4326"},
        {"nodata": 4},
    ):
        with opened([path], **options) as one, opened([memory], **options) as other:
            assert one.geobox == other.geobox
            assert one.has_mask == other.has_mask
            assert [band.name for band in other.bands] == ["b1", "b2"]
            (first, first_whole, first_each), (second, second_whole, second_each) = read_each(one), read_each(other)
            np.testing.assert_array_equal(first_whole, second_whole)
            np.testing.assert_array_equal(first_each, second_each)
            for pixels, others, valid in zip(first, second, first_each, strict=True):
                np.testing.assert_array_equal(pixels[valid], others[valid])


def test_files_and_arrays_stack(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "file.tif", PIXELS)
    with opened([path, (PIXELS * 3, SIX, UTM)], array_bands=("both=1-2",)) as source:
        assert [f.name for f in source.features] == ["both"]
        np.testing.assert_array_equal(read(source)[0], [PIXELS, PIXELS * 3])
        assert [file.name for file in source.sources] == ["file.tif", "memory_2"]
    with opened([path, (PIXELS, SIX, UTM)]) as source:
        assert [band.name for band in source.bands] == ["file", "memory_2"]


def test_the_array_is_never_changed_and_may_be_read_only() -> None:
    pixels = PIXELS.copy()
    pixels.setflags(write=False)
    with opened([(pixels, SIX, UTM)], scale=7.0) as source:
        read(source)
    np.testing.assert_array_equal(pixels, PIXELS)


@pytest.mark.parametrize("options", [{}, {"scale": 7.0}], ids=["cut", "warped"])
def test_masked_arrays_nan_and_masks_unite(options: dict[str, Any]) -> None:
    pixels = np.ma.masked_array(np.ones((2, 2, 2), np.float32), mask=False)
    pixels[0, 0, 0] = np.ma.masked
    pixels[1, 0, 1] = np.nan
    mask = np.array([[True, True], [False, True]])
    with opened([(pixels, SIX, UTM, mask)], **options) as source:
        valid = read(source)[1]
        assert valid.sum() == (1 if not options else valid[-2:, -2:].sum())
        assert valid.any()


@pytest.mark.parametrize("dtype", ["bool", "float16", ">i4", "int8", "uint64", "float64"])
def test_types_that_a_geotiff_lacks_become_ones_that_it_has(dtype: str) -> None:
    pixels = np.array([[0, 1], [1, 0]]).astype(dtype)
    with opened([(pixels, SIX, UTM)]) as source:
        wanted = {"bool": "uint8", "float16": "float32", ">i4": "int32"}.get(dtype, dtype)
        assert source.bands[0].dtype == np.dtype(wanted)
        assert read(source)[0][0].tolist() == [[0, 1], [1, 0]]


def test_a_source_in_memory_is_pickled_with_its_pixels() -> None:
    with opened([(PIXELS, SIX, UTM, PIXELS > 3)], scale=5.0) as source:
        wanted = read(source)
        found = read(pickle.loads(pickle.dumps(source)))
        np.testing.assert_array_equal(wanted[0], found[0])
        np.testing.assert_array_equal(wanted[1], found[1])


def test_without_a_crs_there_is_a_warning_unless_one_is_assigned() -> None:
    assert any("no CRS" in warning for warning in opened([(PIXELS, SIX, None)]).warnings)
    assert opened([(PIXELS, SIX, None)], crs=UTM).geobox.crs == UTM


@pytest.mark.parametrize(
    "source",
    [
        (PIXELS,),
        (PIXELS, SIX),
        (PIXELS, SIX, UTM, None, None),
        (PIXELS[0], SIX, UTM),
        (PIXELS[:, :0], SIX, UTM),
        (PIXELS.astype(str), SIX, UTM),
        (PIXELS.astype("datetime64[s]"), SIX, UTM),
        (PIXELS, (1, 0, 0, 0, 0, 0), UTM),
        (PIXELS, (1, 0, 0), UTM),
        (PIXELS, "six", UTM),
        (PIXELS, None, UTM),
        (PIXELS, (np.nan, 0, 0, 0, 1, 0), UTM),
        (PIXELS, SIX, UTM, PIXELS),
        (PIXELS, SIX, UTM, np.ones((4, 3), bool)),
        ("x.tif", SIX, UTM),
    ],
    ids=repr,
)
def test_other_tuples_are_refused_in_one_line(source: Any) -> None:
    with pytest.raises(UsageError, match=r"in memory|a source is") as error:
        opened([source])
    assert "\n" not in str(error.value)


def test_a_crs_that_cannot_be_parsed_is_refused() -> None:
    with pytest.raises(InputError, match="can't be parsed"):
        opened([(PIXELS, SIX, "EPSG:1234567")])


def test_a_tuple_that_begins_with_an_array_is_a_source_in_memory() -> None:
    assert is_memory_source((PIXELS, SIX, UTM))
    assert not is_memory_source(("a.tif", "b.tif"))
    assert not is_memory_source("a.tif")

"""Damaged headers and bombs: one clear error, or pixels; never another exception."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle.rasters import NORTH_UP, write_raster

from geotfr.errors import GeotfrError, InputError
from geotfr.grid import Window
from geotfr.rasters.source import open_sources

if TYPE_CHECKING:
    from pathlib import Path

KINDS = (
    {},
    {"compress": "deflate", "tiled": True, "blockxsize": 16, "blockysize": 16},
    {"compress": "lzw", "nodata": 3, "bigtiff": "YES"},
)


class _Files(list[bytes]):
    """Files that no report prints."""

    def __repr__(self) -> str:
        return f"{len(self)} files"


@pytest.fixture(scope="module")
def whole_files(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Small files of different kinds, with tags of their own."""
    data = np.arange(2 * 40 * 48, dtype=np.uint16).reshape(2, 40, 48)
    path = tmp_path_factory.mktemp("whole") / "x.tif"
    return _Files(write_raster(path, data, descriptions=("aé", "b"), **kind).read_bytes() for kind in KINDS)


# rasterio itself trips over messages of GDAL that quote bytes which are not UTF-8, and goes on.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@given(
    kind=st.integers(0, len(KINDS) - 1),
    changes=st.lists(st.tuples(st.integers(0, 1500), st.integers(0, 255)), min_size=1, max_size=4),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_damage_of_a_header_ends_in_pixels_or_a_clear_error(
    tmp_path: Path, whole_files: list[bytes], kind: int, changes: list[tuple[int, int]]
) -> None:
    content = bytearray(whole_files[kind])
    for place, value in changes:
        content[place % len(content)] = value
    path = tmp_path / "x.tif"
    path.write_bytes(content)
    try:
        with open_sources([str(path)], allow_ungeoreferenced=True) as source:
            if source.block_bytes > 1 << 24 or len(source.bands) > 100:
                return  # the plan refuses these before a pixel is read
            rows, cols = (min(size, 64) for size in source.geobox.shape_yx)
            out = [np.empty((rows, cols), band.dtype) for band in source.bands]
            source.read(Window(row=0, col=0, height=rows, width=cols), out, np.empty((rows, cols), bool))
    except GeotfrError as error:
        refused = error
    else:
        return
    assert "\n" not in str(refused)
    assert refused.exit_code in (10, 12)


def test_a_bomb_tells_its_block_before_a_pixel_is_read(tmp_path: Path) -> None:
    path = write_raster(
        tmp_path / "x.tif",
        np.zeros((3, 16, 4096), np.uint8),
        tiled=True,
        blockxsize=4096,
        blockysize=4096,
        compress="deflate",
        interleave="pixel",
    )
    source = open_sources([str(path)])
    assert source.block_shape_yx == (4096, 4096)
    assert source.block_bytes == 3 * 4096 * 4096


def test_a_transform_that_maps_to_no_area_is_refused(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "x.tif", np.zeros((2, 2), np.uint8), transform=type(NORTH_UP)(1, 2, 5, 2, 4, 5))
    with pytest.raises(InputError, match="maps pixels to no area"):
        open_sources([str(path)])

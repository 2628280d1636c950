"""Tiles of floats that are made without GDAL are what GDAL reads back, and fails as GDAL's do."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import rasterio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from oracle.rasters import NORTH_UP, ROTATED

from geotfr.errors import OutputError
from geotfr.grid import GeoBox
from geotfr.rasters.float_tiles import encoded_tile, takes_float_tiles
from geotfr.rasters.sink import GeoTiffSink

if TYPE_CHECKING:
    from pathlib import Path


def geobox(rows: int, cols: int, transform: rasterio.Affine = NORTH_UP) -> GeoBox:
    return GeoBox(shape_yx=(rows, cols), affine=tuple(transform)[:6], crs="EPSG:32618")


def write(path: Path, pixels: np.ndarray, *, block: int = 16, fast: bool = True, **more: Any) -> None:
    """All of ``pixels`` (band, row, col), a row of tiles at a time."""
    with GeoTiffSink(
        path,
        geobox=geobox(*pixels.shape[1:], more.pop("transform", NORTH_UP)),
        dtype=pixels.dtype,
        band_names=[f"b{band}" for band in range(len(pixels))],
        block_yx=(block, block),
        has_whole_tiles=fast,
        **more,
    ) as sink:
        for row in range(0, pixels.shape[1], block):
            sink.write(row, 0, pixels[:, row : row + block])


def read(path: Path) -> tuple[np.ndarray, dict[str, Any]]:
    with rasterio.open(path) as raster:
        return raster.read(), {**raster.profile, "names": raster.descriptions, "tags": raster.tags(1)}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pixels=st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 40)).flatmap(
        lambda shape: st.one_of(
            arrays.arrays(np.float32, shape, elements=st.floats(width=32), fill=st.nothing() if shape[1] < 3 else None),
            arrays.arrays(np.float64, shape, elements=st.floats()),
        )
    ),
    threads=st.integers(1, 3),
    bigtiff=st.sampled_from(["YES", "NO"]),
)
def test_gdal_reads_back_every_bit(pixels: np.ndarray, threads: int, bigtiff: str, tmp_path: Path) -> None:
    path = tmp_path / "x.tif"
    options = {"BIGTIFF": bigtiff}
    write(path, pixels, threads=threads, nodata=-1.0, creation_options=options, transform=ROTATED)
    fast, profile = read(path)
    assert fast.tobytes() == pixels.tobytes()
    write(path, pixels, threads=threads, nodata=-1.0, creation_options=options, transform=ROTATED, fast=False)
    slow, wanted = read(path)
    assert slow.tobytes() == pixels.tobytes()
    assert repr(profile) == repr(wanted)  # NaN is not itself


def test_a_tile_is_gdals_own_but_for_the_compression(tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).normal(size=(3, 16, 16)).astype("float32")
    write(tmp_path / "x.tif", pixels, fast=False)
    stream = (tmp_path / "x.tif").read_bytes()
    with rasterio.open(tmp_path / "x.tif") as raster:
        place = int(raster.tags(1, ns="TIFF")["BLOCK_OFFSET_0_0"]) if raster.tags(1, ns="TIFF") else None
    tile = zlib.decompress(encoded_tile(pixels, (16, 16)))
    starts = [place] if place is not None else [at for at in range(len(stream) - 1) if stream[at] == 0x78]
    found = []
    for at in starts:
        try:
            found.append(zlib.decompressobj().decompress(stream[at:]))
        except zlib.error:
            continue
    assert tile in found


def test_the_bytes_do_not_depend_on_the_threads(tmp_path: Path) -> None:
    pixels = np.random.default_rng(2).normal(size=(2, 100, 90)).astype("float32")
    for threads in (1, 2, 4):
        write(tmp_path / f"{threads}.tif", pixels, threads=threads)
    streams = {(tmp_path / f"{threads}.tif").read_bytes() for threads in (1, 2, 4)}
    assert len(streams) == 1


@pytest.mark.parametrize("threads", [1, 3])
def test_pixels_may_be_overwritten_once_they_are_taken(threads: int, tmp_path: Path) -> None:
    pixels = np.random.default_rng(3).normal(size=(2, 256, 64)).astype("float32")
    window = np.empty((2, 16, 64), "float32")
    with GeoTiffSink(
        tmp_path / "x.tif",
        geobox=geobox(256, 64),
        dtype="f4",
        band_names=["a", "b"],
        block_yx=(16, 16),
        has_whole_tiles=True,
        threads=threads,
    ) as sink:
        for row in range(0, 256, 16):
            window[:] = pixels[:, row : row + 16]
            sink.write(row, 0, window)
            window[:] = -1
    np.testing.assert_array_equal(read(tmp_path / "x.tif")[0], pixels)


def test_tags_that_come_late_reach_the_file(tmp_path: Path) -> None:
    pixels = np.ones((1, 16, 16), "float32")
    with GeoTiffSink(
        tmp_path / "x.tif", geobox=geobox(16, 16), dtype="f4", band_names=["a"], block_yx=(16, 16), has_whole_tiles=True
    ) as sink:
        sink.write(0, 0, pixels)
        sink.tag_bands([{"STATISTICS_MEAN": "1"}])
    back, facts = read(tmp_path / "x.tif")
    assert (back == 1).all()
    assert facts["tags"]["STATISTICS_MEAN"] == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["x.tif"]


@pytest.mark.parametrize(
    ("given", "dtype", "is_taken"),
    [
        ({}, "f4", True),
        ({"BIGTIFF": "YES"}, "f8", True),
        ({}, "u1", False),
        ({"ZLEVEL": "6"}, "f4", False),
        ({"COMPRESS": "ZSTD"}, "f4", False),
        ({"INTERLEAVE": "BAND"}, "f4", False),
        ({"PREDICTOR": "2"}, "f4", False),
        ({"DISCARD_LSB": "0"}, "f4", False),
        ({"TILED": "NO"}, "f4", False),
        ({"SPARSE_OK": "TRUE"}, "f4", False),
    ],
)
def test_only_the_defaults_of_floats_are_made_here(given: dict[str, str], dtype: str, *, is_taken: bool) -> None:
    from geotfr.rasters.creation import creation_options

    options = creation_options(given, shape=(3, 99, 99), dtype=np.dtype(dtype), block_yx=(16, 16), threads=2)
    assert takes_float_tiles(options, np.dtype(dtype)) is is_taken


def test_a_window_that_is_not_whole_tiles_is_a_bug_that_is_told(tmp_path: Path) -> None:
    sink = GeoTiffSink(
        tmp_path / "x.tif", geobox=geobox(40, 40), dtype="f4", band_names=["a"], block_yx=(16, 16), has_whole_tiles=True
    )
    for row, col, shape in ((8, 0, (1, 16, 16)), (0, 0, (1, 16, 20)), (32, 32, (1, 7, 8))):
        with pytest.raises(ValueError, match="whole tiles"):
            sink.write(row, col, np.ones(shape, "float32"))
    sink.abandon()


LIMITED = """
import resource, sys
import numpy as np
from geotfr.errors import OutputError
from geotfr.grid import GeoBox
from geotfr.rasters.sink import GeoTiffSink
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
pixels = np.random.default_rng(1).normal(size=(1, 256, 256)).astype("float32")
try:
    with GeoTiffSink(sys.argv[1], geobox=GeoBox(shape_yx=(256, 256), affine=(1.0, 0.0, 0.0, 0.0, -1.0, 0.0), crs=""),
                     dtype="f4", band_names=["a"], block_yx=(64, 64), has_whole_tiles=True) as sink:
        for row in range(0, 256, 64):
            sink.write(row, 0, pixels[:, row:row + 64])
except OutputError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of a file's size")
@pytest.mark.parametrize("limit", [100, 20_000, 150_000])
def test_a_limit_of_the_files_size_is_one_line(limit: int, tmp_path: Path) -> None:
    path = tmp_path / "x.tif"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, path, str(limit)], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.count("\n") == 1, done.stdout + done.stderr
    assert "x.tif" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_file_that_is_laid_out_otherwise_is_refused(tmp_path: Path) -> None:
    from geotfr.rasters.tile_writer import FloatTileWriter

    for content in (b"", b"MM\x00\x2a" + b"\x00" * 20, b"II\x2a\x00\x08\x00\x00\x00\x00\x00" + b"\x00" * 8):
        path = tmp_path / "x.tif"
        path.write_bytes(content)
        with pytest.raises(OutputError, match=r"x\.tif"):
            FloatTileWriter(path, shape_yx=(16, 16), tile_yx=(16, 16), threads=1)

"""Opening: by the first bytes, by one driver, and nothing else read, fetched or made."""

from __future__ import annotations

import gzip
import logging
import os
import socket
import zipfile
from pathlib import Path

import numpy as np
import pytest
import rasterio
from oracle.rasters import write_raster
from rasterio._env import get_gdal_config

from geotfr.errors import InputError, MissingInputError, UsageError
from geotfr.rasters.pictures import write_png
from geotfr.rasters.safe_open import GDAL_OPTIONS, raster_env, safe_open

VRT = """<VRTDataset rasterXSize="{size}" rasterYSize="{size}"><VRTRasterBand dataType="Byte" band="1"><SimpleSource>
<SourceFilename>{source}</SourceFilename><SourceBand>1</SourceBand></SimpleSource></VRTRasterBand></VRTDataset>"""


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A raster that no hostile file may reach."""
    return write_raster(tmp_path / "canary.tif", np.full((32, 32), 7, np.uint8))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (b"hello, world\n", "a text file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"<!DOCTYPE html><html>", "an HTML page"),
        (b"<GDAL_WMS></GDAL_WMS>", "a WMS description"),
        (b"<?xml version='1.0'?><a/>", "an XML file"),
        (b'{"type": "Feature"}', "a JSON file"),
        (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
        (b"\xff\xd8\xff\xe0", "a JPEG picture"),
        (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "a JPEG 2000 file"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 (or NetCDF-4) file"),
        (b"CDF\x02", "a NetCDF file"),
        (gzip.compress(b"x", mtime=0), "a gzip file"),
        (b"\x20" + bytes(7) + b"\x01\x02\x03\x04" + b"\x0a\x1e" + bytes(30), "a TFRecord file"),
        (b"\x01\x02\x03\x04", "of a kind that is not known"),
    ],
)
def test_what_is_no_raster_is_named_and_the_flag_too(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x.tif"
    path.write_bytes(content)
    with pytest.raises(InputError, match="--allow-driver") as error:
        safe_open(path)
    assert str(error.value).startswith(f"{path}: ")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_zip_is_not_looked_into(tmp_path: Path, canary: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.tif", "w") as archive:
        archive.write(canary, "a.tif")
    with pytest.raises(InputError, match="a zip archive"):
        safe_open(tmp_path / "x.tif")


def test_missing_files_folders_and_pipes_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="no such file"):
        safe_open(tmp_path / "none.tif")
    with pytest.raises(InputError, match="a folder"):
        safe_open(tmp_path)
    os.mkfifo(tmp_path / "pipe.tif")
    with pytest.raises(InputError, match="a pipe"):
        safe_open(tmp_path / "pipe.tif")


def test_names_that_look_like_addresses_or_directives_are_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("http:x.tif", "GTIFF_DIR:1:x.tif", "-x.tif", "a b[1]é\n.tif", "x" * 251 + ".tif"):
        write_raster(tmp_path / name, np.full((2, 2), 5, np.uint8))
        with safe_open(name) as dataset:
            assert dataset.read().max() == 5
    for address in ("/vsicurl/http://127.0.0.1:9/x.tif", "http://127.0.0.1:9/x.tif", "/vsimem/x.tif"):
        with pytest.raises(MissingInputError):
            safe_open(address)


def test_a_name_that_is_not_utf8_is_one_clear_line(tmp_path: Path, canary: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff.tif"
    Path(os.fsdecode(name)).write_bytes(canary.read_bytes())
    with pytest.raises(InputError, match="can't be opened as GTiff"):
        safe_open(os.fsdecode(name))


def test_a_vrt_named_tif_reads_no_other_file_and_no_network(tmp_path: Path, canary: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        address = f"/vsicurl/http://127.0.0.1:{server.getsockname()[1]}/x.tif"
        for number, source in enumerate((str(canary), address)):
            path = tmp_path / f"{number}.tif"
            path.write_text(VRT.format(size=32, source=source))
            with pytest.raises(InputError, match=r"a VRT .*--allow-driver VRT"):
                safe_open(path)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_an_mrf_named_tif_creates_no_file(tmp_path: Path) -> None:
    made = tmp_path / "made.dat"
    (tmp_path / "x.tif").write_text(
        f"<MRF_META><Raster><Size x='512' y='512'/><DataFile>{made}</DataFile></Raster></MRF_META>"
    )
    with pytest.raises(InputError, match="an MRF description"):
        safe_open(tmp_path / "x.tif")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.tif"]


@pytest.mark.parametrize("suffix", [".ovr", ".msk", ".OVR", ".MSK", ".ovr.ovr", ".msk.ovr"])
def test_a_side_file_that_is_no_tiff_is_refused(tmp_path: Path, canary: Path, suffix: str) -> None:
    path = write_raster(tmp_path / "x.tif", np.ones((32, 32), np.uint8))
    (tmp_path / f"x.tif{suffix}").write_text(VRT.format(size=16, source=canary))
    with pytest.raises(InputError, match=r"side file of x\.tif, a VRT"):
        safe_open(path)


def test_side_files_that_are_tiffs_are_used(tmp_path: Path) -> None:
    mask = np.eye(32, dtype=bool)
    path = write_raster(tmp_path / "x.tif", np.ones((32, 32), np.uint8), mask=mask, external_mask=True)
    assert (tmp_path / "x.tif.msk").exists()
    with raster_env(), safe_open(path) as dataset:
        np.testing.assert_array_equal(dataset.read_masks(1) != 0, mask)


def test_tags_that_name_another_file_as_overviews_are_refused(tmp_path: Path, canary: Path) -> None:
    other = tmp_path / "other.vrt"
    other.write_text(VRT.format(size=16, source=canary))
    inside = write_raster(tmp_path / "inside.tif", np.ones((32, 32), np.uint8))
    with rasterio.open(inside, "r+") as dataset:
        dataset.update_tags(ns="OVERVIEWS", OVERVIEW_FILE=str(other))
    beside = write_raster(tmp_path / "beside.tif", np.ones((32, 32), np.uint8))
    (tmp_path / "beside.tif.aux.xml").write_text(
        f'<PAMDataset><Metadata domain="OVERVIEWS"><MDI key="OVERVIEW_FILE">{other}</MDI></Metadata></PAMDataset>'
    )
    for path in (inside, beside):
        with rasterio.open(path) as dataset:
            assert dataset.overviews(1) == [2]  # GDAL by itself follows the name
        with pytest.raises(InputError, match="name another file as its overviews"):
            safe_open(path)


def test_an_allowed_driver_opens_what_its_first_bytes_say(tmp_path: Path) -> None:
    picture = tmp_path / "x.png"
    write_png(picture, np.full((3, 2, 2), 7, np.uint8))
    with pytest.raises(InputError, match="--allow-driver PNG"):
        safe_open(picture)
    with safe_open(picture, allow_drivers=("GTiff", "PNG")) as dataset:
        assert (dataset.driver, dataset.read().max()) == ("PNG", 7)
    with pytest.raises(InputError, match="--allow-driver PNG"):
        safe_open(picture, allow_drivers=("GTiff", "VRT"))


def test_formats_without_a_mark_are_tried_by_the_allowed_drivers(tmp_path: Path) -> None:
    pixels = np.arange(6, dtype=np.uint8).reshape(1, 2, 3) + 128
    profile = {"driver": "ENVI", "width": 3, "height": 2, "count": 1, "dtype": "uint8"}
    with pytest.warns(rasterio.errors.NotGeoreferencedWarning):
        target = rasterio.open(tmp_path / "x.dat", "w", **profile)
    with target:
        target.write(pixels)
    with safe_open(tmp_path / "x.dat", allow_drivers=("GTiff", "PNG", "ENVI")) as dataset:
        np.testing.assert_array_equal(dataset.read(), pixels)
    with pytest.raises(UsageError, match="GDAL has no such driver"):
        safe_open(tmp_path / "x.dat", allow_drivers=("GTiff", "ENVY"))


@pytest.mark.parametrize("bigtiff", ["YES", "NO"])
@pytest.mark.parametrize("endianness", ["LITTLE", "BIG"])
def test_all_four_kinds_of_tiff_open(tmp_path: Path, bigtiff: str, endianness: str) -> None:
    data = np.arange(6, dtype=np.uint16).reshape(2, 3)
    path = write_raster(tmp_path / "x.tif", data, bigtiff=bigtiff, endianness=endianness)
    with safe_open(path) as dataset:
        np.testing.assert_array_equal(dataset.read(1), data)


def test_a_cut_header_is_one_clear_line(tmp_path: Path, canary: Path) -> None:
    for size in (4, 8, 40):
        (tmp_path / "cut.tif").write_bytes(canary.read_bytes()[:size])
        with pytest.raises(InputError, match=r"cut\.tif: can't be opened as GTiff") as error:
            safe_open(tmp_path / "cut.tif")
        assert "\n" not in str(error.value)


def test_gdal_knows_every_option(tmp_path: Path, canary: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "rasterio._env"), safe_open(canary, threads=2):
        pass
    assert not caplog.records
    with caplog.at_level(logging.WARNING, "rasterio._env"), rasterio.open(canary, NUM_THREAD="2"):
        pass
    assert "NUM_THREAD" in caplog.text  # the check sees a misspelt name
    libraries = list(Path(rasterio.__file__).parent.parent.glob("rasterio.libs/lib*"))
    if not libraries:
        pytest.skip("rasterio brings no GDAL library of its own to look the names up in")
    known = b"".join(path.read_bytes() for path in libraries if path.name.startswith(("libgdal", "libproj")))
    for name in ("GDAL_CACHEMAX", "GDAL_PAM_ENABLED", *GDAL_OPTIONS):
        assert name.encode() + b"\x00" in known, name


def test_the_cache_has_the_size_asked_for_and_gets_its_own_back() -> None:
    with rasterio.Env():
        before = get_gdal_config("GDAL_CACHEMAX")
    with raster_env(cache_bytes=48 << 20):
        assert get_gdal_config("GDAL_CACHEMAX") == 48 << 20
        assert get_gdal_config("GDAL_DISABLE_READDIR_ON_OPEN") == "TRUE"
    with rasterio.Env():
        assert get_gdal_config("GDAL_CACHEMAX") == before
        assert get_gdal_config("GDAL_DISABLE_READDIR_ON_OPEN") is None

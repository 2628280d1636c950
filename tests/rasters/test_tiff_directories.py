"""What a TIFF's own directories say: its pages, and nodata that its pixels can't hold."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from oracle.rasters import NORTH_UP, write_raster
from oracle.run import assert_refused, run

import geotfr


def pages(path: Path, count: int, **more: Any) -> Path:
    """A TIFF of ``count`` images, whose pixels are their numbers."""
    profile = {"driver": "GTiff", "width": 4, "height": 4, "count": 1, "dtype": "uint8", "crs": "EPSG:32618"}
    for page in range(1, count + 1):
        with rasterio.open(
            path, "w", transform=NORTH_UP, **profile, **more, **({"APPEND_SUBDATASET": "YES"} if page > 1 else {})
        ) as made:
            made.write(np.full((1, 4, 4), page, np.uint8))
    return path


def first_value(result: Any) -> float:
    return float(geotfr.PatchDataset(result.mixer)[0]["b1"].max())


@pytest.mark.parametrize("more", [{}, {"BIGTIFF": "YES"}, {"ENDIANNESS": "BIG"}], ids=["TIFF", "BigTIFF", "big-endian"])
def test_pages_are_told_and_each_can_be_named(tmp_path: Path, more: dict[str, Any]) -> None:
    path = pages(tmp_path / "x.tif", 3, **more)
    result = geotfr.export_image(path, tmp_path / "first", patch_dimensions=2)
    assert first_value(result) == 1
    told = [text for text in result.warnings if "3 pages" in text]
    assert len(told) == 1
    assert f"GTIFF_DIR:2:{path}" in told[0]
    for page in (1, 2, 3):
        result = geotfr.export_image(f"GTIFF_DIR:{page}:{path}", tmp_path / f"page{page}", patch_dimensions=2)
        assert first_value(result) == page
        assert not result.warnings
        scaled = geotfr.export_image(f"GTIFF_DIR:{page}:{path}:1", tmp_path / "s", patch_dimensions=2, scale=30)
        assert first_value(scaled) == page
        for made in tmp_path.glob("s*"):
            made.unlink()
    assert_refused(
        run("export", f"GTIFF_DIR:4:{path}", "-o", tmp_path / "n", "--patch-dimensions", "2"), 10, "page 4 of"
    )
    assert_refused(
        run("export", f"GTIFF_DIR:2:{path}x", "-o", tmp_path / "n", "--patch-dimensions", "2"), 10, "no such"
    )
    assert not list(tmp_path.glob("n*"))


def test_overviews_and_masks_are_no_pages(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "x.tif", np.ones((1, 64, 64), np.uint8))
    with rasterio.open(path, "r+") as made:
        made.build_overviews([2, 4])
        made.write_mask(np.ones((64, 64), np.uint8))
    assert not geotfr.export_image(path, tmp_path / "set", patch_dimensions=8).warnings


def test_a_file_that_is_called_as_a_page_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pages(Path("x.tif"), 2)
    write_raster(Path("GTIFF_DIR:2:x.tif"), np.full((1, 4, 4), 9, np.uint8))
    assert first_value(geotfr.export_image("GTIFF_DIR:2:x.tif", "set", patch_dimensions=2)) == 9


def with_nodata(path: Path, dtype: str, text: str) -> Path:
    """A raster of 31, 0 and other values, whose nodata tag is ``text``."""
    pixels = np.array([[31, 0, 1, 30], [2, 3, 4, 5]], dtype)
    write_raster(path, pixels[np.newaxis], nodata=7)
    data = bytearray(path.read_bytes())
    (at,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, at)
    for entry in range(at + 2, at + 2 + 12 * count, 12):
        if struct.unpack_from("<H", data, entry) == (42113,):
            value = text.encode() + b"\0"
            struct.pack_into("<II", data, entry + 4, len(value), len(data))
            if len(value) <= 4:
                data[entry + 8 : entry + 12] = value.ljust(4, b"\0")
            data += value
    path.write_bytes(data)
    return path


USELESS = ("nan", "30.5", "-9999", "300000", "text", "1e30", "inf", "-nan", "31abc", "0x1F")


@pytest.mark.parametrize("text", USELESS)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint64"])
def test_nodata_that_the_type_cannot_hold_masks_nothing_and_is_told(tmp_path: Path, dtype: str, text: str) -> None:
    if (dtype, text) == ("uint64", "300000"):
        return
    path = with_nodata(tmp_path / "x.tif", dtype, text)
    result = geotfr.export_image(path, tmp_path / "set", patch_dimensions=2, default_value=99)
    assert result.masked_share == 0
    assert [text in warning for warning in result.warnings] == [True]
    found = np.concatenate([patch["b1"] for patch in geotfr.PatchDataset(result.mixer)], axis=1)
    assert sorted(found.ravel().tolist()) == [0, 1, 2, 3, 4, 5, 30, 31]


@pytest.mark.parametrize("text", ["31", " 31", "31.0", "3.1e1", "31 31 31"])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "float32"])
def test_nodata_that_the_type_holds_masks_in_any_spelling(tmp_path: Path, dtype: str, text: str) -> None:
    path = with_nodata(tmp_path / "x.tif", dtype, text)
    result = geotfr.export_image(path, tmp_path / "set", patch_dimensions=2)
    assert result.masked_share == 1 / 8
    assert not result.warnings


def test_nodata_of_a_side_file_decides(tmp_path: Path) -> None:
    path = with_nodata(tmp_path / "x.tif", "uint8", "31")
    (tmp_path / "x.tif.aux.xml").write_text(
        '<PAMDataset><PAMRasterBand band="1"><NoDataValue>0</NoDataValue></PAMRasterBand></PAMDataset>'
    )
    with rasterio.open(path) as opened:
        expected = int((opened.read(1) == opened.nodata).sum())
        value = opened.nodata
    result = geotfr.export_image(path, tmp_path / "set", patch_dimensions=2, default_value=99)
    assert result.masked_share == expected / 8 == 1 / 8
    found = np.concatenate([patch["b1"] for patch in geotfr.PatchDataset(result.mixer)], axis=1)
    assert value not in found


@pytest.mark.parametrize("name", ["a\\b", "\\", "a\\"])
def test_a_backslash_in_a_sets_name_is_refused(tmp_path: Path, name: str) -> None:
    source = write_raster(tmp_path / "x.tif", np.ones((1, 4, 4), np.uint8))
    assert_refused(run("export", source, "-o", f"{tmp_path}/{name}", "--patch-dimensions", "2"), 2, "backslash")
    (tmp_path / "t.csv").write_text("a\n1\n")
    assert_refused(run("export-table", tmp_path / "t.csv", "-o", f"{tmp_path}/{name}"), 2, "backslash")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv", "x.tif"]

"""Paths as a shell and a browser spell them, and files of other formats given as records."""

from __future__ import annotations

import bz2
import lzma
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from oracle.rasters import NORTH_UP, write_raster
from oracle.run import run

import geotfr

if TYPE_CHECKING:
    from pathlib import Path


def spelled(path: Path, form: str) -> str:
    return f"~/{path.name}" if form == "home" else f"file://{path}"


@pytest.mark.parametrize("form", ["home", "file"])
def test_names_in_the_home_folder_and_addresses_of_files_work_where_paths_do(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    geopandas = pytest.importorskip("geopandas")
    shapely = pytest.importorskip("shapely")
    monkeypatch.setenv("HOME", str(tmp_path))
    write_raster(tmp_path / "s.tif", np.ones((16, 16), np.uint8), transform=NORTH_UP, crs="EPSG:32618")
    outline = shapely.box(*geotfr_bounds(tmp_path / "s.tif"))
    geopandas.GeoDataFrame({"n": [1]}, geometry=[outline], crs="EPSG:32618").to_file(tmp_path / "l.gpkg")
    (tmp_path / "r.wkt").write_text(f"SRID=32618;{outline.wkt}")

    def path(name: str) -> str:
        return spelled(tmp_path / name, form)

    result = geotfr.export_image(
        path("s.tif"),
        path("out"),
        patch_dimensions=8,
        labels=path("l.gpkg"),
        keep=path("l.gpkg"),
        region=path("r.wkt"),
        crs="EPSG:32618",
        patch_table=True,
    )
    assert result.patches_written == 4
    (tmp_path / "band.tif").write_bytes((tmp_path / "s.tif").read_bytes())
    for arguments in (
        ["export", path("band.tif") + ":1", "--output", path("cli"), "--patch-dimensions", "8"],
        ["verify", path(result.manifest.name)],
        ["inspect", path(result.shards[0].name)],
        ["export-table", path("l.gpkg"), "--output", path("t")],
        ["ingest-table", path("t.tfrecord.gz"), "--output", path("t.csv")],
        ["stats", path("out-patches.parquet")],
    ):
        outcome = run(*arguments)
        assert outcome.code == 0, (arguments, outcome.told)
    assert (tmp_path / "t.csv").is_file()
    assert not any(tmp_path.glob("~*"))


def geotfr_bounds(path: Path) -> tuple[float, float, float, float]:
    import rasterio

    with rasterio.open(path) as file:
        return tuple(file.bounds)


def test_a_file_that_is_called_so_is_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_raster(tmp_path / "~.tif", np.ones((8, 8), np.uint8), transform=NORTH_UP, crs="EPSG:32618")
    assert run("export", "~.tif", "--output", "out", "--patch-dimensions", "8").code == 0
    assert run("inspect", "file://other/a.tfrecord").code == 2


def packed(name: str) -> bytes:
    makers: dict[str, Any] = {"bzip2": bz2.compress, "xz": lzma.compress}
    return makers[name](b"x" * 100)


HEADS = {
    "zstd": b"\x28\xb5\x2f\xfd" + bytes(60),
    "TIFF": b"II*\0\x08\0\0\0" + bytes(60),
    "BigTIFF": b"II+\0\x08\0\0\0" + bytes(60),
    "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(60),
    "netCDF": b"CDF\x01" + bytes(60),
    "PNG": b"\x89PNG\r\n\x1a\n" + bytes(60),
    "JPEG": b"\xff\xd8\xff\xe0" + bytes(60),
    "Parquet": b"PAR1" + bytes(60),
    "SQLite": b"SQLite format 3\0" + bytes(60),
    "NumPy": b"\x93NUMPY\x01\0" + bytes(60),
    "tar": b"a.txt" + bytes(252) + b"ustar" + bytes(60),
}


@pytest.mark.parametrize("name", ["zip", "bzip2", "xz", *HEADS])
@pytest.mark.parametrize("command", ["inspect", "verify", "ingest-table"])
def test_files_of_other_formats_are_named(name: str, command: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    if name == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.tfrecord", "x" * 100)
    else:
        path.write_bytes(HEADS[name] if name in HEADS else packed(name))
    output = ["--output", tmp_path / "t.csv"] if command == "ingest-table" else []
    outcome = run(command, path, *output)
    assert outcome.code == 12
    assert name in outcome.stdout + outcome.told
    assert "not TFRecord" in outcome.stdout + outcome.told

"""Sources in a store are read by GDAL with the same credentials, where the user allows it, and nothing beside them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import rasterio
from oracle.rasters import write_raster
from oracle.run import assert_refused, contents, run
from oracle.store import Shop

from geotfr.rasters.remote import RemoteFile, ask, fetching

pytestmark = pytest.mark.interop

ADDRESS = "s3://sets/in/scene.tif"
GIVEN = ("--patch-dimensions", "16", "--quiet")


@pytest.fixture
def raster(tmp_path: Path, shop: Shop) -> Path:
    """A raster that lies at ``ADDRESS`` too."""
    noise = np.random.default_rng(3).integers(1, 99, (2, 160, 192)).astype("int16")
    path = write_raster(tmp_path / "scene.tif", noise, nodata=0, tiled=True, blockxsize=32, blockysize=32)
    shop.put("in/scene.tif", path.read_bytes())
    return path


def test_without_the_flag_nothing_is_asked_for_and_the_flag_is_named(shop: Shop, raster: Path, tmp_path: Path) -> None:
    assert_refused(run("export", ADDRESS, "-o", tmp_path / "x", *GIVEN), 10, ADDRESS, "--allow-network")
    assert shop.asked == []


@pytest.mark.parametrize("warp", [(), ("--scale", "45", "--resampling", "bilinear")], ids=["as-it-is", "warped"])
def test_a_source_in_a_store_gives_the_bytes_of_a_local_one(
    shop: Shop, raster: Path, tmp_path: Path, warp: tuple[str, ...]
) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "stored").mkdir()
    assert run("export", raster, "-o", tmp_path / "local" / "s", *GIVEN, *warp).code == 0
    shop.asked.clear()
    outcome = run("export", ADDRESS, "-o", tmp_path / "stored" / "s", "--allow-network", *GIVEN, *warp)
    assert outcome.code == 0, outcome.told
    local, stored = contents(tmp_path / "local"), contents(tmp_path / "stored")
    options = [json.loads(each.pop("s-manifest.json"))["options"] for each in (local, stored)]
    assert stored == local
    assert [each["allow_network"] for each in options] == [False, True]
    # The one object alone: no side file, no listing.
    assert {path for _, path in shop.asked} == {"/sets/in/scene.tif"}


def test_a_source_may_come_from_and_a_set_go_to_a_store(shop: Shop, raster: Path, tmp_path: Path) -> None:
    outcome = run("export", f"{ADDRESS}:2", "-o", "s3://sets/out/s", "--allow-network", *GIVEN)
    assert outcome.code == 0, outcome.told
    outcome = run("export", f"{raster}:2", "-o", tmp_path / "s", *GIVEN)
    assert outcome.code == 0, outcome.told
    assert shop.objects()["out/s.tfrecord.gz"] == (tmp_path / "s.tfrecord.gz").read_bytes()


def test_what_is_no_raster_or_not_there_is_one_line(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEOTFR_RETRY_SECONDS", "0.3")
    words = ("-o", tmp_path / "x", "--allow-network", *GIVEN)
    assert_refused(run("export", "s3://sets/none.tif", *words), 10, "s3://sets/none.tif", "no such object")
    shop.put("x.tif", b"<VRTDataset><!-- /vsis3/sets/secret.tif --></VRTDataset>")
    assert_refused(run("export", "s3://sets/x.tif", *words), 10, "s3://sets/x.tif", "not a TIFF")
    shop.fault = lambda request: 503 if request else None
    assert_refused(run("export", ADDRESS, *words), 10, ADDRESS, "503")
    assert_refused(run("export", "s3://sets/x.tif?key=secret", *words), 2, "a query")
    assert_refused(run("export", "ftp://sets/x.tif", *words), 10, "ftp://sets/x.tif", "can't be read")


def test_a_file_in_a_store_leads_to_no_other(shop: Shop, raster: Path, tmp_path: Path) -> None:
    """An allowed VRT, local or not, may name what it likes: no object but the one that the user named is asked for."""
    vrt = (
        '<VRTDataset rasterXSize="192" rasterYSize="160"><GeoTransform>0,1,0,0,0,-1</GeoTransform>'
        '<VRTRasterBand dataType="Int16" band="1"><SimpleSource><SourceFilename relativeToVRT="{}">{}</SourceFilename>'
        "<SourceBand>1</SourceBand></SimpleSource></VRTRasterBand></VRTDataset>"
    )
    shop.put("in/named.vrt", vrt.format(0, "/vsis3/sets/in/scene.tif").encode())
    shop.put("in/beside.vrt", vrt.format(1, "scene.tif").encode())
    (tmp_path / "local.vrt").write_text(vrt.format(0, "/vsis3/sets/in/scene.tif"))
    for source in ("s3://sets/in/named.vrt", "s3://sets/in/beside.vrt", str(tmp_path / "local.vrt")):
        words = ("--allow-driver", "VRT", "--allow-network", "--allow-ungeoreferenced", *GIVEN)
        outcome = run("export", source, "-o", tmp_path / "x", *words)
        assert outcome.code in (10, 12), outcome.told
    assert not [path for _, path in shop.asked if "scene.tif" in path]


def test_an_object_that_was_replaced_is_read_anew(shop: Shop, raster: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        noise = np.random.default_rng(seed).integers(1, 99, (1, 32, 32)).astype("int16")
        path = write_raster(tmp_path / f"{seed}.tif", noise)
        shop.put("in/again.tif", path.read_bytes())
        outcome = run(
            "export", "s3://sets/in/again.tif", "-o", tmp_path / "s", "--allow-network", "--overwrite", *GIVEN
        )
        assert outcome.code == 0, outcome.told
        found = run("inspect", tmp_path / "s-manifest.json", "--json")
        assert found.code == 0
        assert f'"high": {noise.max()}' in found.stdout


def test_gdal_knows_the_options_of_stores(shop: Shop, monkeypatch: pytest.MonkeyPatch, raster: Path) -> None:
    told = ask(ADDRESS)
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "a")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "b")
    libraries = list(Path(rasterio.__file__).parent.parent.glob("rasterio.libs/libgdal*"))
    if not libraries:
        pytest.skip("rasterio brings no GDAL library of its own to look the names up in")
    known = libraries[0].read_bytes()
    with fetching(told) as env:
        names = [*env.options]  # type: ignore[attr-defined]
    assert {"AWS_NO_SIGN_REQUEST", "AWS_S3_ENDPOINT", "AZURE_STORAGE_ACCOUNT"} <= {*names}
    for name in names:
        assert name.encode() + b"\x00" in known, name


def test_what_a_store_tells_of_a_file(shop: Shop, raster: Path) -> None:
    data = raster.read_bytes()
    told = ask(ADDRESS)
    assert isinstance(told, RemoteFile)
    assert (told.address, told.size_bytes) == (ADDRESS, len(data))
    assert data.startswith(told.head)
    assert told.version

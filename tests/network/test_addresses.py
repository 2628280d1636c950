"""Sources at web addresses: refused unless the network is allowed, and then the file alone is fetched."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.rasters import write_raster
from oracle.run import assert_refused, contents, run

import geotfr
from geotfr.errors import GeotfrError, InputError, MissingInputError, UsageError

GIVEN: dict[str, Any] = {"patch_dimensions": 8, "max_file_size": 4000}


@dataclass
class Site:
    """A folder that a server on the loopback address shows, and the paths that were asked for."""

    folder: Path
    address: str = ""
    asked: list[str] = field(default_factory=list)
    etag: str = '"1"'
    tells_size: bool = True
    moved: str = ""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    shown = Site(tmp_path / "site")
    shown.folder.mkdir()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def _answer(self, *, with_body: bool) -> None:
            shown.asked.append(self.path)
            if shown.moved:
                self.send_response(302)
                self.send_header("Location", shown.moved)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            path = shown.folder / self.path.partition("?")[0].lstrip("/")
            content = path.read_bytes() if path.is_file() else None
            body = b"" if content is None else content
            asked = self.headers.get("Range")
            if content is not None and asked:
                first, _, last = asked.removeprefix("bytes=").partition("-")
                body = content[int(first) : int(last or len(content)) + 1]
                self.send_response(206)
                end = int(first) + len(body) - 1
                self.send_header("Content-Range", f"bytes {first}-{end}/{len(content) if shown.tells_size else '*'}")
            else:
                self.send_response(404 if content is None else 200)
            if shown.etag:
                self.send_header("ETag", shown.etag)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    shown.address = f"http://127.0.0.1:{server.server_port}"
    yield shown
    server.shutdown()
    thread.join()
    server.server_close()


def scene(folder: Path, name: str = "scene.tif", **more: Any) -> Path:
    noise = np.random.default_rng(3).integers(1, 99, (2, 40, 48)).astype("int16")
    return write_raster(folder / name, noise, nodata=0, tiled=True, blockxsize=16, blockysize=16, **more)


def test_an_address_is_refused_and_the_flag_is_named(site: Site, tmp_path: Path) -> None:
    scene(site.folder)
    address = f"{site.address}/scene.tif"
    words = ("export", address, "-o", tmp_path / "set", "--patch-dimensions", "8", "--quiet")
    assert_refused(run(*words), 10, address, "--allow-network")
    (tmp_path / "points.csv").write_text("lon,lat\n-75,45\n")
    words = (
        "sample",
        address,
        "--points",
        tmp_path / "points.csv",
        "--x",
        "lon",
        "--y",
        "lat",
        "-o",
        tmp_path / "t.csv",
    )
    assert_refused(run(*words), 10, address, "--allow-network")
    assert site.asked == []


def test_with_the_flag_an_address_gives_the_bytes_of_the_file(site: Site, tmp_path: Path) -> None:
    here = scene(site.folder)
    found, wanted = tmp_path / "found", tmp_path / "wanted"
    found.mkdir()
    wanted.mkdir()
    words = ("export", f"{site.address}/scene.tif?key=secret", "-o", found / "set", "--patch-dimensions", "8")
    done = run(*words, "--allow-network", "--mask", f"{site.address}/scene.tif?key=secret:2", "--quiet", "--json")
    assert done.code == 0, done.told
    geotfr.export_image(here, wanted / "set", patch_dimensions=8, masks=f"{here}:2", allow_network=True)
    assert contents(found) == contents(wanted)
    assert b"secret" not in (found / "set-manifest.json").read_bytes()


def test_nothing_beside_the_file_is_asked_for(site: Site, tmp_path: Path) -> None:
    scene(site.folder)
    for suffix in (".ovr", ".msk", ".aux.xml", ".OVR"):
        (site.folder / f"scene.tif{suffix}").write_text("<VRTDataset/>")
    given = {"allow_network": True, "crs": "EPSG:4326", "resampling": "bilinear", **GIVEN}
    geotfr.export_image(f"{site.address}/scene.tif", tmp_path / "set", **given)
    assert set(site.asked) == {"/scene.tif"}


@pytest.mark.parametrize("allowed", [False, True])
def test_a_vrt_that_is_allowed_fetches_nothing(allowed: bool, site: Site, tmp_path: Path) -> None:
    scene(site.folder)
    body = (
        f"<SimpleSource><SourceFilename>/vsicurl/{site.address}/scene.tif</SourceFilename><SourceBand>1</SourceBand>"
        '<SrcRect xOff="0" yOff="0" xSize="48" ySize="40"/><DstRect xOff="0" yOff="0" xSize="48" ySize="40"/>'
    )
    (tmp_path / "x.vrt").write_text(
        '<VRTDataset rasterXSize="48" rasterYSize="40"><GeoTransform>0,1,0,0,0,-1</GeoTransform>'
        f'<VRTRasterBand dataType="Int16" band="1">{body}</SimpleSource></VRTRasterBand></VRTDataset>'
    )
    given = {**GIVEN, "allow_drivers": "VRT", "allow_network": allowed}
    with pytest.raises(GeotfrError):
        geotfr.export_image(tmp_path / "x.vrt", tmp_path / "set", **given)
    assert site.asked == []


def test_a_server_cannot_send_to_another_kind_of_address(site: Site, tmp_path: Path) -> None:
    here = scene(tmp_path)
    site.moved = f"file://{here}"
    with pytest.raises(InputError, match="the server answers 302"):
        geotfr.plan_export(f"{site.address}/scene.tif", patch_dimensions=8, allow_network=True)


def test_a_warped_address_gives_the_bytes_of_the_file(site: Site, tmp_path: Path) -> None:
    here = scene(site.folder)
    found, wanted = tmp_path / "found", tmp_path / "wanted"
    found.mkdir()
    wanted.mkdir()
    given = {"allow_network": True, "scale": 25, "resampling": "average", **GIVEN}
    geotfr.export_image(f"{site.address}/scene.tif", found / "set", **given)
    geotfr.export_image(here, wanted / "set", **given)
    assert contents(found) == contents(wanted)


@pytest.mark.parametrize(
    ("name", "content", "error", "words"),
    [
        ("none.tif", None, MissingInputError, "the server answers 404"),
        ("vrt.tif", b"<VRTDataset/>", InputError, "a VRT .* --allow-driver VRT"),
        ("page.tif", b"<html>", InputError, "an HTML page"),
        ("cut.tif", b"II*\0\x08\0\0\0", InputError, "can't be opened as GTiff"),
    ],
)
def test_what_is_no_raster_there_is_told(
    name: str, content: bytes | None, error: type[InputError], words: str, site: Site, tmp_path: Path
) -> None:
    if content is not None:
        (site.folder / name).write_bytes(content)
    with pytest.raises(error, match=words):
        geotfr.plan_export(f"{site.address}/{name}", patch_dimensions=8, allow_network=True)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ftp://127.0.0.1/x.tif", "allowed are https://, http://, s3://"),
        ("http://127.0.0.1:1/x.tif", "can't be fetched: .*refused"),
        ("http://[/x.tif", "can't be fetched: Invalid IPv6"),
        ("http:///x.tif", "can't be fetched: no host"),
        ("/vsicurl/http://127.0.0.1:1/x.tif", "no such file"),
        ("/vsis3/bucket/x.tif", "no such file"),
    ],
)
def test_other_addresses_are_told(address: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        geotfr.plan_export(address, patch_dimensions=8, allow_network=True)


def test_a_server_that_tells_no_size_is_refused(site: Site, tmp_path: Path) -> None:
    scene(site.folder)
    site.tells_size = False
    with pytest.raises(InputError, match="doesn't tell the file's size"):
        geotfr.plan_export(f"{site.address}/scene.tif", patch_dimensions=8, allow_network=True)


def test_a_stopped_export_is_resumed_if_the_server_tells_the_same_version(site: Site, tmp_path: Path) -> None:
    scene(site.folder)
    out, whole = tmp_path / "out", tmp_path / "whole"
    out.mkdir()
    whole.mkdir()
    address, given = f"{site.address}/scene.tif", {"allow_network": True, **GIVEN, "resume": True}
    geotfr.export_image(address, whole / "set", **given)
    told = 0

    def stop(patches: int, size: int) -> None:
        nonlocal told
        told += size
        if told > 4_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        geotfr.export_image(address, out / "set", progress=stop, **given)
    site.etag = '"2"'
    with pytest.raises(UsageError, match=r"sources\.0\.version was '\"1\"', is '\"2\"'"):
        geotfr.export_image(address, out / "set", **given)
    site.etag = ""
    with pytest.raises(UsageError, match="its server tells no version of it"):
        geotfr.export_image(address, out / "set", **given)
    site.etag = '"1"'
    assert geotfr.export_image(address, out / "set", **given).shards_resumed
    assert contents(out) == contents(whole)


def test_an_address_of_a_store_without_consent_is_told_as_any_other() -> None:
    with pytest.raises(MissingInputError, match="--allow-network"):
        geotfr.plan_export("s3://bucket/x.tif", patch_dimensions=8)
    with pytest.raises(MissingInputError, match=r"no such file$"):
        geotfr.plan_export("ftp://bucket/x.tif", patch_dimensions=8)
    with pytest.raises(UsageError, match="a query"):
        geotfr.plan_export("s3://bucket/x.tif?key=secret", patch_dimensions=8, allow_network=True)


def test_record_files_are_read_from_a_web_server(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mixer and shards by their addresses; a server lists none. Nothing that isn't named or listed is asked for."""
    monkeypatch.setenv("GEOTFR_RETRY_SECONDS", "0.2")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = scene(tmp_path)
    geotfr.export_image(source, site.folder / "s", **GIVEN)
    manifest = geotfr.read_manifest(site.folder / "s-manifest.json")
    addresses = [f"{site.address}/{shard.name}" for shard in manifest.shards]
    assert geotfr.read_manifest(f"{site.address}/s-manifest.json") == manifest
    assert list(geotfr.read_records(addresses)) == list(geotfr.read_records(sorted(site.folder.glob("*.gz"))))
    outcome = run("verify", f"{site.address}/s-manifest.json")
    assert outcome.code == 0, outcome.told
    stored, local = (geotfr.PatchDataset(f"{place}/s-mixer.json") for place in (site.address, site.folder))
    np.testing.assert_array_equal(stored[3]["b1"], local[3]["b1"])
    names = {path.name for path in site.folder.iterdir()}
    beside = {f"{shard.name}.idx" for shard in manifest.shards} | {"s-patches.parquet", "spatches.parquet"}
    assert {path.lstrip("/") for path in site.asked} <= names | beside | {
        "s-mixer-manifest.json",
        "s-mixermanifest.json",
    }
    assert_refused(run("verify", f"{site.address}/none.tfrecord"), 10, "none.tfrecord", "no such file")
    assert_refused(run("verify", site.address), 10, "no such file")

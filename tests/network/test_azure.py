"""Azure's storage at another endpoint, by http: rasters are read there, and a refusal of a name is told as it is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from oracle.rasters import write_raster
from oracle.run import run

pytest.importorskip("obstore")

BODY = (
    b"<Error><Code>InvalidResourceName</Code><Message>The name holds invalid characters.\nRequestId:1</Message></Error>"
)
KEY = "c2VjcmV0LXNlY3JldC1zZWNyZXQ="


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    data = write_raster(tmp_path / "x.tif", np.full((1, 32, 32), 7, np.uint8)).read_bytes()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if "Bad" in self.path:
                self._send(400, BODY, {})
            elif self.path.partition("?")[0] != "/account/cont/x.tif":
                self._send(404, b"", {})
            else:
                first, _, last = (self.headers.get("Range") or "bytes=0-").partition("=")[2].partition("-")
                part = data[int(first) : int(last) + 1 if last else None]
                told = {"ETag": '"0x1"', "Last-Modified": "Tue, 01 Dec 2020 00:00:00 GMT"}
                told["Content-Range"] = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
                self._send(206 if self.headers.get("Range") else 200, part, told)

        def do_HEAD(self) -> None:
            self.do_GET()

        def _send(self, status: int, body: bytes, more: dict[str, str]) -> None:
            self.send_response(status)
            for key, value in {**more, "Content-Length": str(len(body))}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"http://127.0.0.1:{server.server_port}/account")
    monkeypatch.setenv("GEOTFR_RETRY_SECONDS", "1")
    yield str(server.server_port)
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("variable", [("AZURE_STORAGE_ACCOUNT_KEY", KEY), ("AZURE_SKIP_SIGNATURE", "true")])
def test_a_raster_at_another_endpoint_of_azure_is_exported(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: tuple[str, str]
) -> None:
    del endpoint
    monkeypatch.setenv(*variable)
    words = ("--patch-dimensions", "8", "--no-compressed")
    done = run("export", "az://cont/x.tif", "--allow-network", "-o", tmp_path / "far", *words)
    assert done.code == 0, done.told
    assert run("export", tmp_path / "x.tif", "-o", tmp_path / "near", *words).code == 0
    assert (tmp_path / "far.tfrecord").read_bytes() == (tmp_path / "near.tfrecord").read_bytes()


def test_a_name_that_the_store_refuses_is_told_in_its_words(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del endpoint
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    assert run("export", tmp_path / "x.tif", "-o", tmp_path / "set", "--patch-dimensions", "8").code == 0
    done = run("push", tmp_path / "set", "az://Bad_Name/sets/set", "--retry-seconds", "1")
    assert done.code == 14
    assert "The name holds invalid characters" in done.stderr
    assert "InvalidResourceName" in done.stderr
    assert KEY not in done.told

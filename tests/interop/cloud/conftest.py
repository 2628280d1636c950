"""An S3 server on the loopback address, and a proxy before it that fails requests on demand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from oracle.store import Shop, make_set


@pytest.fixture(scope="session")
def server() -> Iterator[tuple[str, int]]:
    moto_server = pytest.importorskip("moto.server")
    running = moto_server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    running.start()
    yield running.get_host_and_port()
    running.stop()


@pytest.fixture
def shop(server: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    pytest.importorskip("obstore")
    shop = Shop(*server)
    shop.request("POST", "/moto-api/reset")
    assert shop.request("PUT", "/sets")[0] == 200

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            shop.asked.append((self.command, self.path))
            fault = None if shop.fault is None else shop.fault(f"{self.command} {self.path}")
            if fault == "cut":
                self.close_connection = True
                return
            if fault is not None:
                status, headers, data = fault, [], b"<Error><Code>Injected</Code></Error>"
            else:
                status, headers, data = shop.request(self.command, self.path, body, dict(self.headers))
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in ("transfer-encoding", "connection", "content-length", "server", "date"):
                    self.send_header(name, value)
            length = next((value for name, value in headers if name.lower() == "content-length"), str(len(data)))
            self.send_header("Content-Length", length)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            pass

    for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
        setattr(Proxy, f"do_{method}", Proxy._pass)

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    proxy.daemon_threads = True
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{proxy.server_port}")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDofthetests")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secretofthetests")
    yield shop
    proxy.shutdown()
    proxy.server_close()
    thread.join()


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """The prefix of a set of several shards."""
    return make_set(tmp_path / "out", seed=1)

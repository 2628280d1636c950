"""An S3 store as the tests see it, past the code under test, and sets to send there."""

from __future__ import annotations

import http.client
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import geotfr
from oracle.rasters import write_raster

Fault = Literal["cut"] | int | None


_KEY = "tests/20260101/us-east-1/s3/aws4_request"
SIGNED = {"Authorization": f"AWS4-HMAC-SHA256 Credential={_KEY}, SignedHeaders=host, Signature=0"}
"""The server checks no signature, but objects are private: a request needs one."""


@dataclass
class Shop:
    """A store with the bucket ``sets``: what was asked, and what to answer instead of the server."""

    host: str
    port: int
    asked: list[tuple[str, str]] = field(default_factory=list)
    fault: Callable[[str], Fault] | None = None
    """Told ``METHOD path``: what to answer instead, a status or a cut connection; None: the server's answer."""

    def request(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Any:
        """(status, headers, body) of the server itself, past the proxy."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        try:
            connection.request(method, path, body=body, headers=headers or SIGNED)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def objects(self) -> dict[str, bytes]:
        """Every object of the bucket with its bytes."""
        listing = self.request("GET", "/sets?list-type=2")[2].decode()
        return {key: self.request("GET", f"/sets/{key}")[2] for key in re.findall(r"<Key>([^<]*)</Key>", listing)}

    def unfinished(self) -> int:
        """Multipart uploads that are neither completed nor aborted."""
        return int(self.request("GET", "/sets?uploads")[2].decode().count("<UploadId>"))

    def put(self, key: str, data: bytes) -> None:
        """An object of someone else's."""
        assert self.request("PUT", f"/sets/{key}", data)[0] == 200

    def sent(self, method: str = "PUT") -> list[str]:
        """Names of the objects that were asked for by ``method``, locks aside, in order."""
        paths = [path.partition("?")[0].rpartition("/")[2] for each, path in self.asked if each == method]
        return [name for name in paths if not name.endswith(".lock")]


def make_set(folder: Path, *, seed: int, side: int = 64, patch: int = 16, **options: Any) -> Path:
    folder.mkdir(exist_ok=True)
    values = np.random.default_rng(seed).random((1, side, side), np.float32)
    raster = write_raster(folder / "source.tif", values)
    given = {"compressed": False, "max_file_size": 4000, "overwrite": True, **options}
    geotfr.export_image(raster, folder / "scene", patch_dimensions=patch, **given)
    return folder / "scene"


def objects(memory: Any) -> dict[str, bytes]:
    """Every object of a store in memory with its bytes."""
    import obstore

    listed = obstore.list_with_delimiter(memory)["objects"]
    return {each["path"]: bytes(obstore.get(memory, each["path"]).bytes()) for each in listed}


def failing(monkeypatch: pytest.MonkeyPatch, operation: str, when: Callable[[str], bool]) -> None:
    """Let ``operation`` of the library raise for the objects that ``when`` tells, by the last name that it is given."""
    import obstore

    inner: Callable[..., Any] = getattr(obstore, operation)

    def instead(store: Any, name: Any, *args: Any, **options: Any) -> Any:
        names = [each for each in (name, *args) if isinstance(each, str)]
        if names and when(names[-1]):
            raise OSError("status code: 503")
        return inner(store, name, *args, **options)

    monkeypatch.setattr(obstore, operation, instead)

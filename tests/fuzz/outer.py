"""Targets of the fuzzer that lie further out than records: texts, the command line, rasters, whole ingests."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import struct
import tempfile
from functools import cache
from pathlib import Path

import google_crc32c
import numpy as np
import rasterio

from geotfr.errors import GeotfrError, InputError
from geotfr.grid.crs import crs_text, crs_wkt
from geotfr.mixer import read_manifest, read_mixer
from geotfr.mixer.manifest import manifest_of
from geotfr.mixer.mixer import mixer_from_text

__all__ = ["command", "crs", "ingest", "manifest", "mixer", "raster"]

CALM = {0, 2, 3, 10, 12, 13, 14}
"""Exit codes of a run that ended as it should."""

ADDRESS_SPACE_BYTES = 3 << 30
CPU_S = 20
MAX_ARGUMENTS = 24

MIXER = (
    b'{"projection": {"crs": "EPSG:32618", "affine": {"doubleMatrix": [10.0, 0.0, 0.0, 0.0, -10.0, 0.0]}},'
    b' "patchDimensions": [4, 2], "patchesPerRow": 2, "totalPatches": 4}'
)


def _alike(found: object, wanted: object) -> bool:
    """Equal, NaN being NaN."""
    return repr(found) == repr(wanted)


def _check_line(error: GeotfrError) -> None:
    assert len(str(error).splitlines()) == 1, str(error)


def mixer(data: bytes) -> None:
    """A mixer that is read is one that JSON reads too, and reads back from its own text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.json"
        path.write_bytes(data)
        try:
            found = read_mixer(path)
        except GeotfrError as error:
            _check_line(error)
            return
    told = json.loads(data.decode("utf-8-sig"))
    assert [found.patches_per_row, found.total_patches] == [told["patchesPerRow"], told["totalPatches"]]
    assert found.affine == tuple(told["projection"]["affine"]["doubleMatrix"])
    assert mixer_from_text(found.to_text()) == found


def manifest(data: bytes) -> None:
    """A manifest that is read reads back from its own text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.json"
        path.write_bytes(data)
        try:
            found = read_manifest(path)
        except GeotfrError as error:
            _check_line(error)
            return
    assert _alike(manifest_of(json.loads(found.to_text())), found)


def crs(data: bytes) -> None:
    """A text that is taken for a CRS gives a text that means itself, and WKT that reads back."""
    text = data.decode("utf-8", "replace")
    try:
        found = crs_text(text)
    except InputError as error:
        _check_line(error)
        return
    assert crs_text(found) == found
    wkt = crs_wkt(found)
    assert crs_wkt(wkt) == wkt


def _frame(payload: bytes) -> bytes:
    header = struct.pack("<Q", len(payload))
    return header + _masked(header) + payload + _masked(payload)


def _masked(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def ingest(data: bytes) -> None:
    """A mixer and framed payloads make a raster of the mixer's size, or an error and nothing.

    The first byte of ``data`` tells how long the mixer's text is, in fours (0: a good one); the rest is cut into four
    payloads. Fewer than four would be told by their number alone.
    """
    from geotfr import ingest_predictions

    size = 4 * data[0] if data else 0
    text, rest = (data[1 : 1 + size] if size else MIXER), data[1 + size :]
    step = -(-len(rest) // 4)
    with tempfile.TemporaryDirectory() as folder:
        place, out = Path(folder), Path(folder) / "out"
        out.mkdir()
        (place / "m.json").write_bytes(text)
        payloads = [rest[number * step : (number + 1) * step] for number in range(4)]
        (place / "p.tfrecord").write_bytes(b"".join(map(_frame, payloads)))
        try:
            ingest_predictions(place / "m.json", [place / "p.tfrecord"], out / "x.tif", workers=1)
        except GeotfrError as error:
            _check_line(error)
            assert not list(out.iterdir())
            return
        wanted = read_mixer(place / "m.json")
        with rasterio.open(out / "x.tif") as written:
            rows = wanted.total_patches // wanted.patches_per_row
            assert written.shape == (rows * wanted.patch_xy[1], wanted.patches_per_row * wanted.patch_xy[0])


@cache
def _inputs() -> dict[str, bytes]:
    """Small good files by name, which command lines can name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scene.tif"
        with rasterio.open(
            path,
            "w",
            driver="GTiff",
            width=16,
            height=12,
            count=2,
            dtype="uint8",
            crs="EPSG:32618",
            transform=rasterio.Affine(10, 0, 0, 0, -10, 0),
        ) as target:
            target.write(np.arange(2 * 12 * 16, dtype=np.uint8).reshape(2, 12, 16))
        scene = path.read_bytes()
    # One Example with the float list b1 of eight ones.
    values = b"\x0a\x20" + struct.pack("<8f", *[1.0] * 8)
    feature = b"\x12" + bytes([len(values)]) + values
    entry = b"\x0a\x02b1\x12" + bytes([len(feature)]) + feature
    features = b"\x0a" + bytes([len(entry)]) + entry
    record = b"\x0a" + bytes([len(features)]) + features
    return {
        "scene.tif": scene,
        "m.json": MIXER,
        "p.tfrecord": _frame(record) * 4,
        "points.csv": b"lon,lat,name\n-75.0,0.0,a\n-75.0,-0.0005,b\n",
    }


def _arguments(data: bytes) -> list[str]:
    """The lines of ``data`` as arguments; none of them leaves the folder, uses the network or starts a server."""
    found = []
    for line in data.decode("utf-8", "replace").split("\n")[:MAX_ARGUMENTS]:
        text = line.replace("\0", "").replace("..", ".").replace("://", ":")
        if not text.startswith(("--allow", "--debug", "--workers")):
            found.append(text.lstrip("/").replace("=/", "="))
    if found[:1] == ["export"] and any(text.startswith(("--scale", "--dim", "--crs", "--reg")) for text in found):
        # A grid of its own may have 10^12 pixels: no fault, but hours.
        found.append("--dry-run")
    return found


def command(data: bytes) -> None:
    """Any command line ends with an exit code that is told, one line if it failed, and writes only where it stands."""
    from geotfr_cli.main import main

    args = _arguments(data)
    out, err = io.StringIO(), io.StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, content in _inputs().items():
            Path(name).write_bytes(content)
        code: object = 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(args)
            except SystemExit as stop:
                code = stop.code
            finally:
                for number, handler in handlers.items():
                    signal.signal(number, handler)
        assert code in CALM, (args, code, err.getvalue())
        assert "Traceback" not in err.getvalue(), args
        assert {name: Path(name).read_bytes() for name in _inputs() if Path(name).exists()} == _inputs(), args
        assert not list(Path().rglob(".geotfr-*")), args


def _opened(path: str) -> None:
    """Open, and read the first window and a mask; a told error is as good as pixels."""
    from geotfr.rasters.safe_open import raster_env, safe_open
    from geotfr.rasters.source import open_sources

    with contextlib.suppress(GeotfrError), raster_env(), safe_open(path) as dataset:
        dataset.tags()
    with contextlib.suppress(GeotfrError), raster_env(), open_sources([path], allow_ungeoreferenced=True) as source:
        from geotfr.grid import Window

        rows, cols = (min(side, 64) for side in source.geobox.shape_yx)
        pixels = [np.empty((rows, cols), band.dtype) for band in source.bands]
        source.read(Window(row=0, col=0, height=rows, width=cols), pixels, np.empty((rows, cols), bool))


def raster(data: bytes) -> None:
    """A file called .tif opens or is refused, in a child with limits: it neither dies nor runs on.

    What begins as nothing that GDAL knows gets a TIFF's first bytes.
    """
    import resource

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.tif"
        path.write_bytes(data if data[:2] in (b"II", b"MM") else b"II*\0" + data[4:])
        child = os.fork()
        if child == 0:
            code = 1
            try:
                resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
                resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                _opened(str(path))
                code = 0
            except MemoryError:
                # The limit is the child's, and the file's block is larger.
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.WIFEXITED(status), f"ended by signal {os.WTERMSIG(status)}"
        assert os.WEXITSTATUS(status) == 0, "an error that isn't told"

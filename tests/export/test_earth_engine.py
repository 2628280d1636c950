"""A real Earth Engine export, decoded and exported again, comes out byte for byte the same."""

from __future__ import annotations

import json
import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracle import wire
from oracle.rasters import write_raster
from oracle.run import DATA, needs_data, run
from rasterio.transform import Affine

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_data

FOLDER = DATA / "earth-engine"
STEM = "TEST_coeff_output_SIF_C_S_Amer"
SHARD = FOLDER / f"{STEM}-00005.tfrecord"
MIXER = FOLDER / f"{STEM}-mixer.json"
PATCH, MARGIN, SIDE = 256, 30, 316
FIRST_PATCH = 10


def records(stream: bytes) -> list[bytes]:
    """The payloads, by their lengths alone (the checksums are compared by the bytes)."""
    payloads, at = [], 0
    while at < len(stream):
        (length,) = struct.unpack_from("<Q", stream, at)
        payloads.append(stream[at + 12 : at + 12 + length])
        at += 16 + length
    return payloads


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A raster of the whole grid, -9999 but for the two blocks that the shard holds.

    Earth Engine's region reached beyond the last whole patch: the right margin of patch 11 holds real data. So the
    raster is 3 patches and a margin wide, and its grid still 3 x 5 patches.
    """
    mixer = json.loads(MIXER.read_text())
    decoded = [wire.decode_example(payload) for payload in records(SHARD.read_bytes())]
    names = list(decoded[0])
    grid = np.full((len(names), 5 * PATCH, 3 * PATCH + MARGIN), -9999, np.float32)
    for number, record in enumerate(decoded, FIRST_PATCH):
        top, left = (number // 3) * PATCH - MARGIN, (number % 3) * PATCH - MARGIN
        for band, name in enumerate(names):
            block = np.asarray(record[name], np.float32).reshape(SIDE, SIDE)
            grid[band, top : top + SIDE, left : left + SIDE] = block
    path = tmp_path_factory.mktemp("earth-engine") / "grid.tif"
    return write_raster(
        path,
        grid,
        transform=Affine(*mixer["projection"]["affine"]["doubleMatrix"]),
        crs="EPSG:4326",
        nodata=-9999,
        descriptions=names,
    )


def export(scene: Path, folder: Path, *more: str) -> None:
    outcome = run(
        *("export", scene, "--output", f"{folder}/{STEM}", "--quiet"),
        *("--patch-dimensions", "256", "--kernel-size", "60"),
        *("--default-value", "-9999", "--max-file-size", "5000000", *more),
    )
    assert outcome.code == 0, outcome.told


def test_the_hand_written_wire_format_is_earth_engines() -> None:
    stream = SHARD.read_bytes()
    again = b""
    for payload in records(stream):
        decoded = wire.decode_example(payload)
        again += wire.frame(wire.example((key, wire.float_feature(values)) for key, values in decoded.items()))
    assert again == stream


def test_uncompressed_shard_5_and_the_mixer_equal_earth_engines_bytes(scene: Path, tmp_path: Path) -> None:
    export(scene, tmp_path, "--no-compressed")
    shards = sorted(path.name for path in tmp_path.glob("*.tfrecord"))
    assert shards == [f"{STEM}-{index:05d}.tfrecord" for index in range(8)]
    assert (tmp_path / SHARD.name).read_bytes() == SHARD.read_bytes()
    assert (tmp_path / MIXER.name).read_bytes() == MIXER.read_bytes()


@pytest.mark.skipif("ng" in zlib.ZLIB_RUNTIME_VERSION, reason="zlib-ng gives other bytes at level 6 than zlib")
def test_the_ee_compressor_gives_earth_engines_gzip_stream(scene: Path, tmp_path: Path) -> None:
    export(scene, tmp_path, "--compressor", "ee")
    content = (tmp_path / f"{SHARD.name}.gz").read_bytes()
    assert content[:10].hex(" ") == "1f 8b 08 00 00 00 00 00 00 ff"
    assert content == wire.gzip_earth_engine(SHARD.read_bytes())
    assert (tmp_path / MIXER.name).read_bytes() == MIXER.read_bytes()


def test_the_default_compressor_holds_earth_engines_records(scene: Path, tmp_path: Path) -> None:
    export(scene, tmp_path)
    assert wire.inflate((tmp_path / f"{SHARD.name}.gz").read_bytes()) == SHARD.read_bytes()

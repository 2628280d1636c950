"""Pixels that can't be read stop an export, or are masked and counted where that is asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from oracle.rasters import write_raster
from oracle.run import assert_refused, contents, run

import geotfr
from geotfr.errors import ReadError, UsageError

GIVEN: dict[str, Any] = {"patch_dimensions": 8, "kernel_size": 4, "max_file_size": 4000, "mask_mode": "band"}


def damaged(tmp_path: Path, blocks: list[tuple[int, int]]) -> tuple[Path, Path]:
    """A file of 16 x 16 blocks, some of which can't be inflated, and the same file with these masked."""
    data = np.random.default_rng(3).integers(1, 200, (2, 60, 70)).astype("uint8")
    masked = data.copy()
    creation: dict[str, Any] = {"tiled": True, "blockxsize": 16, "blockysize": 16, "interleave": "pixel"}
    bad = write_raster(tmp_path / "bad.tif", data, compress="deflate", **creation)
    content = bytearray(bad.read_bytes())
    with rasterio.open(bad) as source:
        for row, col in blocks:
            offset = int(source.get_tag_item(f"BLOCK_OFFSET_{col}_{row}", "TIFF", bidx=1))
            content[offset : offset + 40] = b"\xff" * 40
            masked[:, row * 16 : row * 16 + 16, col * 16 : col * 16 + 16] = 0
    bad.write_bytes(content)
    return bad, write_raster(tmp_path / "masked.tif", masked, nodata=0, **creation)


def shards(folder: Path) -> list[bytes]:
    return [content for name, content in contents(folder).items() if ".tfrecord" in name]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("blocks", [[(1, 2)], [(0, 0), (3, 4), (2, 1)]])
def test_unreadable_blocks_are_masked_alone_and_counted(
    blocks: list[tuple[int, int]], workers: int, tmp_path: Path
) -> None:
    bad, masked = damaged(tmp_path, blocks)
    with pytest.raises(ReadError, match=r"bad\.tif: bands 1, 2, rows .* can't be read"):
        geotfr.export_image(bad, tmp_path / "set", **GIVEN)
    assert not list(tmp_path.glob("set*"))
    found, wanted = tmp_path / "found", tmp_path / "wanted"
    found.mkdir()
    wanted.mkdir()
    result = geotfr.export_image(bad, found / "set", on_read_error="mask", workers=workers, **GIVEN)
    other = geotfr.export_image(masked, wanted / "set", **GIVEN)
    assert shards(found) == shards(wanted)
    assert result.masked_share == other.masked_share
    pixels = sum((16 if row < 3 else 60 - 48) * (16 if col < 4 else 70 - 64) for row, col in blocks)
    assert result.pixels_unreadable == pixels
    assert geotfr.read_manifest(result.manifest).pixels_unreadable == pixels
    assert f"{pixels:,} pixels in {len(blocks)} storage blocks" in result.warnings[-1]


def test_the_command_line_tells_the_loss_and_exits_with_3(tmp_path: Path) -> None:
    bad, _ = damaged(tmp_path, [(1, 2)])
    words = ("export", bad, "-o", tmp_path / "set", "--patch-dimensions", "8")
    assert_refused(run(*words, "--quiet"), 12, "bad.tif", "bands 1, 2")
    done = run(*words, "--on-read-error", "mask", "--json")
    assert done.code == 3
    assert json.loads(done.stdout)["pixels_unreadable"] == 256
    assert "256 pixels in 1 storage block" in done.stderr


def test_a_resumed_run_counts_what_the_stopped_one_met(tmp_path: Path) -> None:
    bad, _ = damaged(tmp_path, [(0, 1), (3, 3)])
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    geotfr.export_image(bad, whole / "set", on_read_error="mask", workers=1, **GIVEN)

    written = 0

    def stop(patches: int, size: int) -> None:
        nonlocal written
        written += size
        if written > 10_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        geotfr.export_image(bad, broken / "set", on_read_error="mask", workers=1, resume=True, progress=stop, **GIVEN)
    result = geotfr.export_image(bad, broken / "set", on_read_error="mask", workers=1, resume=True, **GIVEN)
    assert result.shards_resumed
    assert contents(broken) == contents(whole)


def test_a_readable_source_gives_the_same_bytes_with_masking_allowed(tmp_path: Path) -> None:
    _, good = damaged(tmp_path, [])
    found, wanted = tmp_path / "found", tmp_path / "wanted"
    found.mkdir()
    wanted.mkdir()
    assert geotfr.export_image(good, found / "set", on_read_error="mask", **GIVEN).pixels_unreadable == 0
    geotfr.export_image(good, wanted / "set", **GIVEN)
    assert contents(found) == contents(wanted)


def test_an_unknown_choice_is_refused(tmp_path: Path) -> None:
    _, good = damaged(tmp_path, [])
    with pytest.raises(UsageError, match=r"on_read_error: found 'skip'; allowed are error and mask"):
        geotfr.export_image(good, tmp_path / "set", on_read_error="skip", **GIVEN)

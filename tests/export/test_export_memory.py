"""How a raster is read in strips, by whom and within which memory never shows in the bytes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle.images import Options, assert_export, expected_export
from oracle.rasters import write_raster

import geotfr

LAYOUTS: list[dict[str, Any]] = [
    {},
    {"blockysize": 1},
    {"blockysize": 7, "interleave": "band"},
    {"tiled": True, "blockxsize": 16, "blockysize": 32, "compress": "deflate"},
    {"tiled": True, "blockxsize": 64, "blockysize": 16, "interleave": "band", "compress": "lzw", "predictor": 2},
]


def noise(seed: int, shape: tuple[int, int, int]) -> np.ndarray:
    """uint16 values of which one in twelve is 0, the nodata value of these tests."""
    return np.random.default_rng(seed).integers(0, 12, shape).astype("uint16") * 5


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.tuples(st.integers(20, 70), st.integers(20, 180)),
    patch=st.tuples(st.integers(8, 20), st.integers(5, 20)),
    kernel=st.tuples(st.integers(1, 24), st.integers(1, 24)),
    layout=st.sampled_from(LAYOUTS),
    workers=st.integers(1, 3),
    threshold=st.sampled_from([1.0, 0.09]),
)
def test_storage_layout_and_workers_never_show_in_the_bytes(
    seed: int,
    size: tuple[int, int],
    patch: tuple[int, int],
    kernel: tuple[int, int],
    layout: dict[str, Any],
    workers: int,
    threshold: float,
) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        data = noise(seed, (2, size[1], size[0]))
        source = write_raster(Path(temporary) / "scene.tif", data, nodata=0, **layout)
        out = Path(temporary) / "out"
        out.mkdir()
        options = Options(
            patch=patch,
            kernel=kernel,
            default_value=3,
            masked_threshold=threshold,
            max_file_size=9000,
            compressed=False,
        )
        geotfr.export_image(
            source,
            out / "set",
            patch_dimensions=patch,
            kernel_size=kernel,
            default_value=3,
            masked_threshold=threshold,
            max_file_size=9000,
            compressed=False,
            workers=workers,
        )
        assert_export(out, expected_export([source], options, name="set"))


def least_memory_limit(source: Path | list[Path], options: dict[str, Any]) -> int:
    """The smallest memory limit with which an export is not refused."""
    refused, works = 0, geotfr.plan_export(source, **options).memory_bytes
    while works - refused > 1:
        middle = (refused + works) // 2
        try:
            geotfr.plan_export(source, memory_limit=middle, **options)
            works = middle
        except geotfr.LimitError:
            refused = middle
    return works


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[3]], ids=["strips", "tiles"])
def test_the_memory_limit_never_shows_in_the_bytes(layout: dict[str, Any], workers: int, tmp_path: Path) -> None:
    data = noise(5, (2, 150, 700))
    source = write_raster(tmp_path / "scene.tif", data, nodata=0, **layout)
    given: dict[str, Any] = {
        "patch_dimensions": (33, 20),
        "kernel_size": (14, 9),
        "compressed": False,
        "max_file_size": 50_000,
        "workers": workers,
    }
    expected = expected_export(
        [source],
        Options(patch=(33, 20), kernel=(14, 9), compressed=False, max_file_size=50_000),
        name="set",
    )
    least = least_memory_limit(source, given)
    full = geotfr.plan_export(source, **given).memory_bytes
    for number, limit in enumerate([least, least + 20_000, (least + full) // 2, full]):
        plan = geotfr.plan_export(source, memory_limit=limit, **given)
        assert plan.memory_bytes <= limit
        out = tmp_path / str(number)
        out.mkdir()
        geotfr.export_image(source, out / "set", memory_limit=limit, **given)
        assert_export(out, expected)


def test_a_stack_of_sources_with_other_types_and_blocks_is_read_right_in_any_memory(tmp_path: Path) -> None:
    first = write_raster(tmp_path / "first.tif", noise(1, (2, 130, 200)), nodata=0, **LAYOUTS[4])
    second = write_raster(tmp_path / "second.tif", noise(2, (1, 130, 200)).astype("float64"), nodata=5)
    valid = np.random.default_rng(3).random((130, 200)) < 0.9
    third = write_raster(tmp_path / "third.tif", noise(4, (1, 130, 200)).astype("int16"), mask=valid, **LAYOUTS[3])
    sources = [first, second, third]
    given: dict[str, Any] = {"patch_dimensions": 25, "kernel_size": 12, "default_value": -7}
    expected = expected_export(sources, Options(patch=(25, 25), kernel=(12, 12), default_value=-7), name="set")
    for number, limit in enumerate([least_memory_limit(sources, given), None]):
        out = tmp_path / str(number)
        out.mkdir()
        geotfr.export_image(sources, out / "set", memory_limit=limit, **given)
        assert_export(out, expected)

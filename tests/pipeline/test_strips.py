"""Strips hold the raster's pixels, and each row of a raster is read once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geotfr.errors import LimitError
from geotfr.grid import GeoBox, Window
from geotfr.options import ExportOptions
from geotfr.patches import PatchLayout
from geotfr.patches.features import BandSpec, feature_specs
from geotfr.pipeline.export.encode import make_encoder
from geotfr.pipeline.export.plan import ExportPlan, plan_for
from geotfr.pipeline.export.strips import StripReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class CountingSource:
    """Pixels in memory, and how often each was read."""

    def __init__(self, pixels: NDArray[np.uint16], valid: NDArray[np.bool_] | None) -> None:
        self.pixels = pixels
        self.valid = valid
        self.has_mask = valid is not None
        self.reads = np.zeros(pixels.shape[1:], np.int64)
        self.windows: list[Window] = []

    def read(
        self,
        window: Window,
        out: Sequence[NDArray[Any]],
        valid: NDArray[np.bool_],
        band_valid: Sequence[NDArray[np.bool_]] | None = None,
    ) -> None:
        part = slice(window.row, window.row_stop), slice(window.col, window.col_stop)
        assert window == window.clipped(self.pixels.shape[1:])
        self.reads[part] += 1
        self.windows.append(window)
        valid[...] = True
        for number, target in enumerate(out):
            target[...] = self.pixels[number][part]
            if self.valid is not None and band_valid is not None:
                band_valid[number][...] = self.valid[number][part]


def planned(
    shape: tuple[int, int],
    bands: int,
    *,
    block: tuple[int, int],
    workers: int,
    memory: int | None = None,
    **options: Any,
) -> tuple[ExportPlan, tuple[BandSpec, ...]]:
    checked = ExportOptions.checked(**options)
    layout = PatchLayout(
        geobox=GeoBox(shape_yx=shape, affine=(1.0, 0.0, 0.0, 0.0, -1.0, 0.0), crs=""),
        patch_yx=checked.patch_yx,
        kernel_yx=checked.kernel_yx,
        pads_edge=checked.edge == "pad",
    )
    specs = tuple(BandSpec(name=f"b{n}", planes=range(n, n + 1), is_array=False) for n in range(bands))
    dtypes = (np.dtype(np.uint16),) * bands
    features = feature_specs(specs, dtypes, tensor_depths={}, collapse=False, feature_kinds="float", default_value=0)
    plan = plan_for(
        layout=layout,
        features=features,
        plane_dtypes=dtypes,
        encoder=make_encoder(layout, features, sequences=False, patch_index=None),
        has_mask=True,
        block_shape_yx=block,
        block_bytes=block[0] * block[1] * bands * 2,
        scratch_pixel_bytes=0,
        max_shard_bytes=2**30,
        compresses=False,
        workers=workers,
        memory_limit=memory,
    )
    return plan, specs


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(st.integers(4, 60), st.integers(4, 60)),
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.integers(1, 16),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 2]),
    st.integers(0, 2**32 - 1),
)
def test_strips_hold_the_pixels_and_their_masks(
    shape: tuple[int, int],
    patch: tuple[int, int],
    kernel: tuple[int, int],
    block: int,
    pads: bool,
    masks: bool,
    workers: int,
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 1000, (2, *shape), np.uint16)
    valid = random.random((2, *shape)) < 0.7
    if not pads and (patch[0] > shape[1] or patch[1] > shape[0]):
        return
    plan, bands = planned(
        shape,
        2,
        block=(block, 8),
        workers=workers,
        patch_dimensions=patch,
        kernel_size=kernel,
        edge="pad" if pads else "drop",
    )
    source = CountingSource(pixels, valid if masks else None)
    layout = plan.layout
    seen = 0
    for strip in StripReader(plan, source, bands, mask_mode="pixel"):
        window = layout.blocks_window(strip.rows, strip.columns)
        for line in range(window.height):
            for col in range(window.width):
                row_px, col_px = window.row + line, window.col + col
                is_inside = 0 <= row_px < shape[0] and 0 <= col_px < shape[1]
                expected = is_inside and (not masks or bool(valid[:, row_px, col_px].all()))
                assert (strip.valid is None or bool(strip.valid[line, col])) == expected
                if is_inside:
                    assert [int(plane[line, col]) for plane in strip.planes] == pixels[:, row_px, col_px].tolist()
        seen += strip.masked_counts.size
    assert seen == layout.count
    assert source.reads.max() == 1, "a pixel was read twice"


@pytest.mark.parametrize("kernel", [1, 9, 40])
@pytest.mark.parametrize("block", [1, 3, 16, 64])
def test_rows_are_read_in_whole_storage_blocks_and_once(kernel: int, block: int) -> None:
    plan, bands = planned((100, 80), 1, block=(block, 80), workers=2, patch_dimensions=(16, 10), kernel_size=kernel)
    source = CountingSource(np.zeros((1, 100, 80), np.uint16), None)
    for _ in StripReader(plan, source, bands, mask_mode="pixel"):
        pass
    assert source.reads.max() == 1
    for window in source.windows:
        assert window.row % block == 0
        assert window.row_stop % block == 0 or window.row_stop == 100


def test_a_raster_too_wide_for_the_memory_is_read_in_column_groups_of_whole_blocks() -> None:
    size = {"block": (64, 64), "workers": 2, "patch_dimensions": 32}
    free, _ = planned((64, 60_000), 6, **size)
    tight, _ = planned((64, 60_000), 6, memory=free.memory_bytes - 60 * 2**20, **size)
    assert free.strips.patch_columns == free.layout.columns
    assert tight.strips.patch_columns < free.strips.patch_columns
    assert tight.strips.patch_columns * 32 % 64 == 0
    assert tight.memory_bytes < free.memory_bytes
    numbers = [
        row * tight.layout.columns + column
        for rows, columns in tight.strip_ranges()
        for row in rows
        for column in columns
    ]
    assert numbers == list(range(tight.layout.count)), "column groups must keep the order of the patches"


def test_planned_memory_does_not_grow_with_the_raster() -> None:
    size = {"block": (256, 256), "workers": 2, "patch_dimensions": 256, "kernel_size": 128}
    small, _ = planned((20_000, 20_000), 4, **size)
    large, _ = planned((200_000, 200_000), 4, **size)
    assert large.memory_bytes <= small.memory_bytes * 1.1
    assert large.memory_bytes < 300 * 2**20


def test_a_limit_that_no_plan_fits_is_refused_with_the_least_that_would_do() -> None:
    with pytest.raises(LimitError, match=r"needs at least .* raise --memory-limit"):
        planned((4096, 4096), 6, block=(256, 256), workers=2, patch_dimensions=256, memory=2**20)

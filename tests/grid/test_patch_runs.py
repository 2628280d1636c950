"""Patches are cut in as few steps as rows that are alike allow, in their order."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from geotfr.patches.cut import rectangles, runs

if TYPE_CHECKING:
    from pathlib import Path


@given(
    columns=st.integers(1, 6),
    positions=st.one_of(
        st.sets(st.integers(0, 40)),
        st.builds(lambda start, count: set(range(start, start + count)), st.integers(0, 20), st.integers(0, 30)),
    ),
)
def test_rectangles_hold_the_patches_in_their_order(columns: int, positions: set[int]) -> None:
    wanted = sorted(positions)
    found = list(rectangles(np.array(wanted, np.int64), columns))
    assert [
        (run.row + row) * columns + run.column + column
        for run in found
        for row in range(run.rows)
        for column in range(run.count)
    ] == wanted
    assert len(found) <= len(list(runs(np.array(wanted, np.int64), columns)))
    if wanted and len(wanted) % columns == wanted[0] % columns == 0 and wanted[-1] - wanted[0] == len(wanted) - 1:
        assert len(found) == 1


def test_an_export_of_the_raster_as_it_is_needs_no_shapely(tmp_path: Path) -> None:
    # Importing it takes 40 ms.
    program = (
        "import sys, geotfr, numpy as np\n"
        "from rasterio import Affine\n"
        "for crs in ('EPSG:32633', 'EPSG:4326'):\n"
        "    source = np.ones((64, 64), np.uint8), Affine(0.1, 0, 3, 0, -0.1, 59), crs\n"
        f"    geotfr.export_image(source, {str(tmp_path / 'set')!r}, patch_dimensions=32, overwrite=True)\n"
        "sys.exit('shapely' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

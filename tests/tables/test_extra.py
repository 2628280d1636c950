"""Without the extra, tables say what to install."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import geotfr
from geotfr.vectors.arrow_arrays import present_rows
from geotfr.vectors.extra import load

if TYPE_CHECKING:
    from pathlib import Path


def test_a_missing_library_is_told_with_what_installs_it() -> None:
    with pytest.raises(geotfr.UsageError, match=r"pip install 'geotfr\[vector\]'"):
        load("no_such_library.at_all")


def test_the_commands_help_needs_no_library_of_the_extra() -> None:
    code = (
        "import sys\nfrom geotfr_cli.main import main\n"
        "try:\n    main([sys.argv[1], '--help'])\nexcept SystemExit:\n    pass\n"
        "print('HEAVY', *sorted({'pyarrow', 'pyogrio', 'geopandas', 'pandas', 'numpy', 'rasterio'} & set(sys.modules)))"
    )
    for command in ("export-table", "ingest-table", "sample"):
        done = subprocess.run([sys.executable, "-c", code, command], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1].split() == ["HEAVY"]


def test_rows_that_are_null_are_those_that_pyarrow_tells() -> None:
    pa = pytest.importorskip("pyarrow")
    random = np.random.default_rng(1)
    values = [None if missing else True for missing in random.random(1000) < 0.3]
    for array in (pa.array(values, pa.bool_()), pa.array(map(str, values)), pa.nulls(20), pa.array([1, 2])):
        for part in (array, array[3:], array[13:17], array[:0]):
            found = present_rows(part)
            assert found.dtype == np.bool_
            assert found.tolist() == part.is_valid().to_pylist()


@pytest.mark.parametrize("holds_nulls", [False, True])
def test_numbers_of_a_parquet_file_are_exported_and_come_back_without_pandas(
    tmp_path: Path, *, holds_nulls: bool
) -> None:
    # pyarrow imports it to make an array of numpy's: 0.2 s, half of what a million rows take.
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values = [1.5, None if holds_nulls else 2.5, 3.5]
    pq.write_table(pa.table({"lon": [1.0, 2.0, 3.0], "lat": [5.0, 6.0, 7.0], "ndvi": values}), tmp_path / "t.parquet")
    program = (
        "import sys, geotfr\n"
        f"geotfr.export_table({str(tmp_path / 't.parquet')!r}, {str(tmp_path / 'out')!r}, x='lon', y='lat')\n"
        f"geotfr.ingest_table({str(tmp_path / 'out.tfrecord.gz')!r}, {str(tmp_path / 'back.parquet')!r})\n"
        "sys.exit('pandas' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

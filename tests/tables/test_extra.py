"""Without the extra, tables say what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

import geotfr
from geotfr.vectors.extra import load


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

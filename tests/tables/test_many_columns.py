"""Many features of different names cost memory for what is there, and too many are over a limit."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from oracle.memory import PEAK_MIB
from tables.tables import framed, payload

import geotfr
from geotfr.errors import LimitError
from geotfr.vectors import decode

if TYPE_CHECKING:
    from pathlib import Path

MOST_MIB = 512
INGESTED = (
    PEAK_MIB
    + """
import sys
import geotfr
try:
    geotfr.ingest_table(sys.argv[1], sys.argv[2])
except geotfr.errors.LimitError as error:
    print(f"{error.exit_code} {peak_mib()}")
"""
)


@pytest.mark.parametrize(("records", "names"), [(30_000, 1), (1, 30_000)], ids=["a name a record", "one record"])
def test_more_names_than_columns_are_over_a_limit_in_bounded_memory(records: int, names: int, tmp_path: Path) -> None:
    path = tmp_path / "names.tfrecord"
    rows = ({f"f{record * names + name}": ("float", [1.0]) for name in range(names)} for record in range(records))
    path.write_bytes(b"".join(framed(payload(row)) for row in rows))
    output = tmp_path / "names.parquet"
    child = subprocess.run(
        [sys.executable, "-c", INGESTED, str(path), str(output)], capture_output=True, text=True, check=True
    )
    code, peak = map(int, child.stdout.split())
    assert code == LimitError.exit_code
    assert peak <= MOST_MIB
    assert [found.name for found in tmp_path.iterdir()] == ["names.tfrecord"]


@pytest.mark.parametrize("cells", [1, 12, 50])
def test_records_that_are_cut_into_steps_come_back_in_order(
    cells: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(decode, "_MOST_CELLS", cells)
    path = tmp_path / "sparse.tfrecord"
    rows = [
        {
            f"n{row % 3}": ("int64", [row]),
            "text": ("bytes", [b"x" * (row % 5)]),
            "texts": ("bytes", [b"%d" % row, b"b"]),
        }
        for row in range(40)
    ]
    path.write_bytes(b"".join(framed(payload(row)) for row in rows))
    geotfr.ingest_table(path, tmp_path / "sparse.parquet")
    table = pq.read_table(tmp_path / "sparse.parquet")
    assert table["text"].to_pylist() == ["x" * (row % 5) for row in range(40)]
    assert table["texts"].to_pylist() == [[str(row), "b"] for row in range(40)]
    for name in range(3):
        assert table[f"n{name}"].to_pylist() == [row if row % 3 == name else None for row in range(40)]

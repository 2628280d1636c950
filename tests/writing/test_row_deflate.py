"""Rows deflated by their columns are the rows again, for every decoder."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import zlib

import deflate
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from isal import isal_zlib
from records_reading.slow_inflate import inflate

from geotfr.records.gzip import quick_member, quick_member_of_rows
from geotfr.records.kind import Kind
from geotfr.records.layout import ExampleLayout, FeatureLayout
from geotfr.records.row_deflate import row_code


def rows_that_vary(varying: np.ndarray, count: int, seed: int) -> np.ndarray:
    """``count`` rows of noise; alike in the columns that don't vary."""
    random = np.random.default_rng(seed)
    rows = random.integers(0, 256, (count, len(varying)), np.uint8)
    rows[:, ~varying] = rows[0, ~varying]
    return rows


def check(rows: np.ndarray) -> None:
    """Inflated by several decoders, one of which goes bit by bit and takes complete codes only."""
    code = row_code(rows)
    assert code is not None
    packed, wanted = code.deflate(rows), rows.tobytes()
    assert zlib.decompress(packed, -15) == wanted
    assert isal_zlib.decompress(packed, -15) == wanted
    assert deflate.deflate_decompress(packed, len(wanted)) == wanted
    slow = bytearray()
    assert inflate(packed, slow) == len(packed)
    assert slow == wanted


@given(
    # Stretches of columns, every other one of which varies.
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    shared=st.integers(3, 700),
    place=st.integers(0, 12),
    starts=st.booleans(),
    count=st.integers(3, 30),
    seed=st.integers(0, 1000),
)
@settings(max_examples=150, deadline=None)
def test_rows_come_back_whatever_columns_vary(
    sizes: list[int], shared: int, place: int, *, starts: bool, count: int, seed: int
) -> None:
    varying = np.concatenate([np.full(size, (number % 2 == 0) == starts) for number, size in enumerate(sizes)])
    rows = rows_that_vary(np.insert(varying, min(place, len(varying)), np.zeros(shared, np.bool_)), count, seed)
    # Too few to be met often: those that no code makes whole bytes.
    assume(row_code(rows) is not None)
    check(rows)


@pytest.mark.parametrize("length", [3, 4, 257, 258, 259, 516, 519, 24577, 32768])
@pytest.mark.parametrize("varying", [(), (0,), (-1,), (0, 1), (-3, -2, -1)])
def test_rows_come_back_whatever_their_length(length: int, varying: tuple[int, ...]) -> None:
    mask = np.zeros(length, np.bool_)
    mask[list(varying)] = True
    if np.count_nonzero(~mask) < 3:
        assert row_code(rows_that_vary(mask, 5, 1)) is None
    else:
        check(rows_that_vary(mask, 5, length))


def test_rows_that_share_nothing_have_no_code() -> None:
    assert row_code(rows_that_vary(np.ones(20, np.bool_), 100, 1)) is None
    assert row_code(rows_that_vary(np.zeros(20, np.bool_), 2, 1)) is None
    assert row_code(rows_that_vary(np.zeros(32769, np.bool_), 4, 1)) is None


def records(values: np.ndarray) -> np.ndarray:
    """Framed Examples of ``values`` ``(n, features)``, ``(n, record bytes) uint8``."""
    layout = ExampleLayout([FeatureLayout(name=f"x{i}", kind=Kind.FLOAT, length=1) for i in range(values.shape[1])])
    found = layout.allocate(len(values))
    for number in range(values.shape[1]):
        layout.values(found, number)[:, 0] = values[:, number]
    layout.seal(found)
    return found


RANDOM = np.random.default_rng(5)
TABLES = {
    "noise": RANDOM.random((3000, 8)),
    "classes": RANDOM.integers(0, 5, (3000, 8)),
    "numbers": RANDOM.integers(0, 10_000, (3000, 8)),
    "sorted": np.arange(24_000).reshape(3000, 8) // 100,
    "alike": np.ones((3000, 8)),
}


@pytest.mark.parametrize("table", TABLES)
def test_a_member_of_rows_is_read_and_no_larger_than_others(table: str) -> None:
    rows = records(TABLES[table])
    packed = quick_member_of_rows(rows)
    assert gzip.decompress(packed) == rows.tobytes()
    assert len(packed) <= 1.02 * len(quick_member(rows.reshape(-1).data))
    if table == "noise":
        assert len(packed) < 1.3 * len(zlib.compress(rows.tobytes(), 6))
    program = shutil.which("gzip")
    if program is not None:
        done = subprocess.run([program, "-dc"], input=packed, stdout=subprocess.PIPE, check=True)
        assert done.stdout == rows.tobytes()


def test_rows_that_no_code_makes_whole_bytes_have_none() -> None:
    varying = np.array([0, 0, 0, 1, 1, 0, 0, 0, 1], np.bool_)
    assert row_code(rows_that_vary(varying, 3, 0)) is None

"""Rows become the very bytes of the slow and obvious writing, whichever way they are put together."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables.tables import framed, payload

from geotfr.records.faults import ReadReport
from geotfr.records.kind import Kind
from geotfr.records.runs import splits_of
from geotfr.vectors.columns import FeatureColumn
from geotfr.vectors.decode import read_feature_rows
from geotfr.vectors.encode import encode_rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Rows = list[list[Any] | None]
DTYPES = {"float": np.float32, "int64": np.int64}
NAMES = ("a", "é", "long name", "d")


def column(name: str, kind: str, rows: Rows) -> FeatureColumn:
    """``rows`` as a column; None is a row without the feature."""
    present = np.array([row is not None for row in rows])
    flat = [value for row in rows for value in row or ()]
    is_bytes = kind == "bytes"
    return FeatureColumn(
        name=name,
        kind=Kind(kind),
        values=np.frombuffer(b"".join(flat), np.uint8) if is_bytes else np.array(flat, DTYPES[kind]),
        row_splits=splits_of(np.array([len(row or ()) for row in rows], np.int64)),
        present=present,
        value_splits=splits_of(np.array([len(value) for value in flat], np.int64)) if is_bytes else None,
    )


def slow(columns: Sequence[tuple[str, str, Rows]], count: int) -> list[bytes]:
    return [
        framed(payload({name: (kind, rows[row] or []) for name, kind, rows in columns if rows[row] is not None}))
        for row in range(count)
    ]


def fast(columns: Sequence[tuple[str, str, Rows]], count: int) -> list[bytes]:
    data, ends = encode_rows([column(*each) for each in columns], count)
    bounds = [0, *ends.tolist()]
    return [data[a:b].tobytes() for a, b in pairwise(bounds)]


VALUES = {
    "float": st.floats(width=32, allow_nan=False),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "bytes": st.binary(max_size=200),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[tuple[str, str, Rows]], int]:
    count = draw(st.integers(1, 6))
    columns = []
    for name in NAMES[: draw(st.integers(1, 4))]:
        kind = draw(st.sampled_from(("float", "int64", "bytes")))
        row = st.none() | st.lists(VALUES[kind], max_size=3)
        columns.append((name, kind, draw(st.lists(row, min_size=count, max_size=count))))
    return columns, count


@given(table=tables())
def test_any_rows_are_the_slow_bytes(table: tuple[list[tuple[str, str, Rows]], int]) -> None:
    assert fast(*table) == slow(*table)


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param([("a", "float", [[n / 8] for n in range(100)]), ("b", "bytes", [[b"xy"]] * 100)], id="one layout"),
        pytest.param([("a", "float", [[1.0], None] * 50), ("b", "int64", [[n * 50] for n in range(100)])], id="few"),
        pytest.param([("a", "float", [[0.5]] * 100), ("b", "bytes", [[b"x" * n] for n in range(100)])], id="each own"),
        pytest.param([("b", "bytes", [[b"x" * (n * 11)] for n in range(100)])], id="long runs"),
        pytest.param([("b", "bytes", [[b"x"] * (n % 4) for n in range(100)])], id="lists of texts"),
        pytest.param([("a", "float", [[1.0] * (n % 3) for n in range(100)])], id="lists that may be empty"),
        pytest.param([("a", "float", [None] * 100)], id="records of nothing"),
    ],
)
def test_each_way_of_putting_records_together_gives_the_slow_bytes(
    columns: list[tuple[str, str, Rows]], tmp_path: Path
) -> None:
    made = fast(columns, 100)
    assert made == slow(columns, 100)
    path = tmp_path / "x.tfrecord"
    path.write_bytes(b"".join(made))
    (found,) = read_feature_rows(str(path), report=ReadReport())
    for name, kind, rows in columns:
        wanted = column(name, kind, rows)
        if not wanted.present.any():
            assert name not in found.columns
            continue
        for attribute in ("values", "row_splits", "present", "value_splits"):
            assert np.array_equal(getattr(found.columns[name], attribute), getattr(wanted, attribute))


def test_no_rows_are_no_bytes() -> None:
    data, ends = encode_rows([column("a", "float", [])], 0)
    assert (data.size, ends.size) == (0, 0)

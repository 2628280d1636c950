"""Conditions on columns choose the rows that SQLite chooses, and nothing in them is ever run."""

from __future__ import annotations

import datetime
import sqlite3
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables.tables import records

import geotfr
from geotfr.errors import InputError, LimitError, UsageError
from geotfr.vectors.condition import condition_on, filtered
from geotfr.vectors.expression import parse_expression

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = [0, 1, -1, 255, 256, 2**31, 2**53, 2**53 + 1, 2**60 + 1, -(2**63), 2**63 - 1, None]
FLOATS = [0.0, 0.5, -0.5, 1.0, 255.0, 1e300, -2.25, None]
TEXTS = ["water", "Water", "for_est", "50%", "it's", "", "é", None]
ROWS = [
    (number, WHOLE[number % len(WHOLE)], FLOATS[number % len(FLOATS)], TEXTS[(number * 5 + 1) % len(TEXTS)])
    for number in range(96)
]


def rows_table() -> pa.Table:
    number, whole, floats, texts = zip(*ROWS, strict=True)
    return pa.table({"n": number, "i": pa.array(whole, pa.int64()), "f": floats, "class name": texts})


def chosen(text: str, table: pa.Table | None = None) -> list[Any]:
    table = rows_table() if table is None else table
    condition = condition_on(parse_expression(text), table.schema, table="t")
    (batch,) = table.combine_chunks().to_batches()
    found: list[Any] = filtered(batch, condition).column(0).to_pylist()
    return found


def by_sqlite(text: str) -> list[int]:
    base = sqlite3.connect(":memory:")
    base.execute("pragma case_sensitive_like = on")
    base.execute('create table t (n integer, i integer, f real, "class name" text)')
    base.executemany("insert into t values (?, ?, ?, ?)", ROWS)
    found = [row[0] for row in base.execute(f"select n from t where {text}")]
    base.close()
    return found


whole_values = st.one_of(st.sampled_from([str(value) for value in WHOLE if value is not None]), st.just("-3"))
float_values = st.sampled_from(["0.5", ".5", "1", "-2.25", "1e300", "255", "-5e-1"])
text_values = st.sampled_from(["'" + value.replace("'", "''") + "'" for value in TEXTS if value is not None])
patterns = st.sampled_from(["'%er'", "'for_est'", "'5%'", "'it''s'", "'_'"])
others = st.sampled_from(["i", "f"])
signs = st.sampled_from(["=", "==", "!=", "<>", "<", "<=", ">", ">="])
KINDS = [
    ("i", st.one_of(whole_values, st.sampled_from(["0.5", "1e300", "255.0"]))),
    ("f", float_values),
    ('"class name"', text_values),
]


@st.composite
def one_test(draw: st.DrawFn) -> str:
    column, values = draw(st.sampled_from(KINDS))
    is_not = draw(st.sampled_from(["", "not "]))
    kind = draw(st.sampled_from(["sign", "turned", "in", "between", "null", "like", "columns"]))
    if kind == "sign":
        return f"{column} {draw(signs)} {draw(values)}"
    if kind == "turned":
        return f"{draw(values)} {draw(signs)} {column}"
    if kind == "in":
        return f"{column} {is_not}in ({', '.join(draw(st.lists(values, min_size=1, max_size=4)))})"
    if kind == "between":
        return f"{column} {is_not}between {draw(values)} AND {draw(values)}"
    if kind == "like":
        return f'"class name" {is_not}like {draw(patterns)}'
    if kind == "columns":
        return f"n {draw(signs)} {draw(others)}"
    return f"{column} is {is_not}NULL"


conditions = st.recursive(
    one_test(),
    lambda inner: st.one_of(
        st.builds("{} and {}".format, inner, inner),
        st.builds("{} OR {}".format, inner, inner),
        st.builds("not ({})".format, inner),
        st.builds("({})".format, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(conditions)
def test_chooses_the_rows_that_sqlite_chooses(text: str) -> None:
    assert chosen(text) == by_sqlite(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("b", [1, 4]),
        ("not b", [2]),
        ("b = true", [1, 4]),
        ("b = 1", [1, 4]),
        ("u > 9223372036854775807", [3]),
        ("u > -1", [1, 2, 3]),
        ("u < 18446744073709551616", [1, 2, 3]),
        ("d >= '2024-02-29'", [2, 3]),
        ("t = '2024-01-01T00:00:00Z'", [1]),
        ("t < '2024-01-01T00:00:01'", [1]),
        ("c in ('x', 'z')", [1, 4]),
        ("c not in ('x')", [2, 4]),
        ("h > 1.5", [2, 3]),
        ("nothing is null and nothing2 is null", [1, 2, 3, 4]),
        ("nothing = 1", []),
        ("l is not null", [1, 2, 3]),
        ("c ilike 'X'", [1]),
        (" or ".join(f"n = {number}" for number in range(4000)), [1, 2, 3, 4]),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_each_type_compares_by_value(text: str, wanted: list[int]) -> None:
    table = pa.table(
        {
            "n": [1, 2, 3, 4],
            "b": [True, False, None, True],
            "u": pa.array([0, 1, 2**64 - 1, None], pa.uint64()),
            "d": [datetime.date(2024, 1, 1), datetime.date(2024, 2, 29), datetime.date(2025, 1, 1), None],
            "t": pa.array([1704067200000, 1704067201000, None, None], pa.timestamp("ms", tz="UTC")),
            "c": pa.array(["x", "y", None, "z"]).dictionary_encode(),
            "h": pa.array([1, 2, 3, None], pa.float16()),
            "nothing": pa.nulls(4),
            "nothing2": pa.nulls(4),
            "l": [[1], [2], [], None],
        }
    )
    assert chosen(text, table) == wanted


@pytest.mark.parametrize(
    ("text", "at", "told"),
    [
        ("", 1, "is missing"),
        ("i = ", 5, "a number, a text or a column is missing"),
        ("i = 1 f = 2", 7, "'f' is too much"),
        ("i = 'a", 5, "the ' has no end"),
        ("i = 1; drop table t", 6, "';' is none of the language"),
        ("__import__('os').system('id')", 17, "'.' is none of the language"),
        ("exit()", 5, "'(' is too much"),
        ("i ** 9", 3, "'*' is none of the language"),
        ("(i = 1", 8, "')' is missing for the parenthesis at character 1"),
        ("i = null", 5, "is null"),
        ("i between 1 or 2", 13, "'and' is missing"),
        ("i in (n)", 7, "a 'text' or a number is allowed"),
        ("i in ()", 7, "found ')'"),
        ("i not 3", 7, "in, between or like is missing"),
        ("i like 3", 8, "needs a 'text'"),
        ("i like 'x'", 3, "like needs a column of text"),
        ("i = 'x'", 3, "a number is compared with text"),
        ("i", 1, "neither true nor false"),
        ("1 = 1", 3, "two constants"),
        ("d = 'soon'", 5, "'soon' is no date32[day]"),
        ("d > t", 5, "date32[day] is compared with timestamp"),
        ("l = 1", 1, "can only be tested with is null"),
        ("not " * 70 + "i = 1", 261, "more than 64"),
        ("(" * 70 + "i = 1", 66, "more than 64"),
    ],
)
def test_what_is_no_condition_is_refused_with_its_place(text: str, at: int, told: str) -> None:
    schema = pa.schema(
        {"i": pa.int64(), "f": pa.float64(), "n": pa.int64(), "d": pa.date32(), "t": pa.timestamp("s")}
        | {"l": pa.list_(pa.int64())}
    )
    with pytest.raises(UsageError) as caught:
        condition_on(parse_expression(text), schema, table="t")
    assert f": character {at}: " in str(caught.value)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_column_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"character 11: t has no column 'valid_shar'; did you mean valid_share\?"):
        condition_on(
            parse_expression("x = 1 and valid_shar > 0"),
            pa.schema({"x": pa.int8(), "valid_share": pa.float32()}),
            table="t",
        )


def test_too_long_a_text_is_refused() -> None:
    with pytest.raises(LimitError, match="at most 65,536"):
        parse_expression("x = 1 or " * 10_000 + "x = 1")


@pytest.mark.parametrize("format_name", ["csv", "parquet", "frame"])
def test_tables_that_gdal_does_not_read_are_filtered_too(format_name: str, tmp_path: Path) -> None:
    table = pa.table({"id": range(40_000), "class": ["water", "forest", "road", "field"] * 10_000})
    source: Any = tmp_path / f"t.{format_name}"
    if format_name == "parquet":
        pq.write_table(table, source)
    elif format_name == "csv":
        table.to_pandas().to_csv(source, index=False)
    else:
        source = table.to_pandas()
    result = geotfr.export_table(source, tmp_path / "out", where="class in ('water', 'road') and id >= 39990")
    assert [(found["id"], found["class"]) for found in records(result.records)] == [
        ([39990.0], [b"road"]),
        ([39992.0], [b"water"]),
        ([39994.0], [b"road"]),
        ([39996.0], [b"water"]),
        ([39998.0], [b"road"]),
    ]


def test_no_row_of_a_filter_is_told(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id\n1\n")
    result = geotfr.export_table(tmp_path / "t.csv", tmp_path / "out", where="id > 1")
    assert (result.rows, "no rows" in result.warnings[0]) == (0, True)

"""Conditions with very many values are evaluated, or refused as over a limit."""

from __future__ import annotations

import pyarrow as pa
import pytest

from geotfr.errors import LimitError
from geotfr.vectors.condition import condition_on
from geotfr.vectors.expression import parse_expression

TABLE = pa.table(
    {
        "row": [0, 1, 2, 3, 4],
        "double": pa.array([1.5, -0.0, None, 0.1, float("nan")]),
        "single": pa.array([1.5, 0.0, None, 0.1, 5.0], pa.float32()),
        "whole": pa.array([1, 0, None, 9, 5], pa.int16()),
        "truth": [True, False, None, True, True],
        "text": ["a", "b", None, "c", "d"],
    }
)


@pytest.mark.parametrize("repeated", [1, 3000])
@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("double in ({})|1.5,0,0.1", [0, 1, 3]),
        ("not double in ({})|1.5,0,.1", [4]),
        ("single in ({})|1.5,0.0,0.1", [0, 1]),
        ("whole in ({})|1,9,1.5", [0, 3]),
        ("truth in ({})|true,true", [0, 3, 4]),
        ("text in ({})|'a','d'", [0, 4]),
    ],
)
def test_a_list_of_thousands_of_values_chooses_as_a_short_one(condition: str, rows: list[int], repeated: int) -> None:
    form, _, values = condition.partition("|")
    parsed = parse_expression(form.format(",".join([values] * repeated)))
    assert TABLE.filter(condition_on(parsed, TABLE.schema, table="t"))["row"].to_pylist() == rows


def test_a_condition_without_an_end_is_over_a_limit() -> None:
    with pytest.raises(LimitError):
        parse_expression(f"whole in ({','.join(map(str, range(20_000)))})")

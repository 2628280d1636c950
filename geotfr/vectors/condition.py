"""Conditions on columns as expressions of pyarrow, with the types of a table's columns.

pyarrow's own rules for mixed numbers compare int64 with a fraction in float32, or refuse them. Here numbers compare by
their values: whole numbers as whole numbers, and with floats as float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from geotfr.errors import InputError, UsageError
from geotfr.options.values import nearest
from geotfr.vectors.arrow_arrays import constant, numbers, texts
from geotfr.vectors.expression import Between, Column, Comparison, Constant, IsIn, IsLike, IsNull, Not, Several
from geotfr.vectors.extra import load
from geotfr.vectors.types import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from geotfr.vectors.expression import Expression, Node

    Family = Literal["bool", "whole", "float", "text", "time"]

__all__ = ["condition_on", "filtered"]

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_FAMILY_NAMES = {"bool": "a boolean", "whole": "a number", "float": "a number", "text": "text", "time": "a time"}


def condition_on(expression: Expression, schema: Any, *, table: str) -> Any:
    """``expression`` as a ``pyarrow.compute.Expression`` over columns of a pyarrow ``schema``.

    It is null where a null decides, so that a filter leaves the row out, as in SQL; it fits ``Table.filter`` and
    ``pyarrow.parquet.read_table(filters=…)``.

    Raises
    ------
    InputError
        A column that ``table`` hasn't; the nearest one is named.
    UsageError
        Values that can't be compared, or a part that is neither true nor false.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from geotfr.vectors.expression import parse_expression
    >>> plots = pa.table({"class": ["water", "forest", None], "number": [1, 2, 3]})
    >>> wanted = condition_on(parse_expression("class != 'water' or number > 2"), plots.schema, table="plots")
    >>> plots.filter(wanted)["number"].to_pylist()
    [2, 3]
    """
    return _Compiler(expression, schema, table).condition(expression.root)


def filtered(batch: Any, condition: Any) -> Any:
    """The rows of a pyarrow RecordBatch for which ``condition`` is true, in order, as a RecordBatch."""
    pa = load("pyarrow")
    kept = pa.Table.from_batches([batch]).filter(condition).combine_chunks().to_batches()
    return kept[0] if kept else batch.slice(0, 0)


@dataclass(frozen=True, slots=True)
class _Value:
    """A column or a constant; ``made`` is pyarrow's expression of a column, or the constant's Python value."""

    made: Any
    family: Family
    type: Any
    at: int

    @property
    def is_column(self) -> bool:
        return self.type is not None


class _Compiler:
    def __init__(self, expression: Expression, schema: Any, table: str) -> None:
        self._expression = expression
        self._schema = schema
        self._table = table
        self._pa, self._pc = load("pyarrow"), load("pyarrow.compute")

    def condition(self, node: Node) -> Any:
        """The expression of a node that is true or false."""
        if isinstance(node, Several):
            return self._joined(node)
        if isinstance(node, Not):
            return ~self.condition(node.part)
        if isinstance(node, Comparison):
            return self._compared(node.operator, self._value(node.left), self._value(node.right), node.at)
        if isinstance(node, Between):
            value = self._value(node.value)
            low = self._compared(">=", value, self._value(node.low), node.at)
            return low & self._compared("<=", value, self._value(node.high), node.at)
        if isinstance(node, IsNull):
            if isinstance(node.value, Constant):
                return self._pc.scalar(constant(False))
            self._stored(node.value)
            return self._pc.field(node.value.name).is_null()
        if isinstance(node, IsIn):
            return self._is_in(node)
        if isinstance(node, IsLike):
            text = self._value(node.value)
            if not text.is_column or text.family != "text":
                raise self._mismatch(f"like needs a column of text, found {_FAMILY_NAMES[text.family]}", node.at)
            return self._pc.match_like(self._cast(text, "text"), node.pattern, ignore_case=node.ignores_case)
        value = self._value(node)
        if value.family != "bool":
            raise self._mismatch(f"{_FAMILY_NAMES[value.family]} alone is neither true nor false; compare it", value.at)
        return value.made if value.is_column else self._pc.scalar(constant(value.made))

    def _joined(self, node: Several) -> Any:
        return _in_pairs([self.condition(part) for part in node.parts], and_ if node.join == "and" else or_)

    def _is_in(self, node: IsIn) -> Any:
        value, allowed = self._value(node.value), [self._value(constant) for constant in node.allowed]
        # Checks the types too.
        equal = [self._compared("=", value, each, each.at) for each in allowed]
        values: list[Any] = [each.made for each in allowed]
        if value.family == "whole":
            least, most = _limits(value.type)
            whole = [int(each) for each in values if each == int(each) and least <= each <= most]
            known = numbers(np.array(whole, value.type.to_pandas_dtype()))
        elif value.family == "text":
            known = texts(values).cast(self._pa.large_string())
        elif value.family == "float" and value.is_column:
            # Zero equals its negative, whose bits are others.
            known = numbers(np.array([_as_float(each) for each in (*values, *(-0.0 for each in values if each == 0))]))
        else:
            # Truths, of which there are two, or a constant.
            return _in_pairs(list(dict(zip(values, equal, strict=True)).values()), or_)
        made = self._float(value) if value.family == "float" else self._cast(value, value.family)
        # pyarrow's is_in takes a null for a value that isn't there; in SQL it isn't known.
        unknown = constant(None, self._pa.bool_())
        return self._pc.if_else(made.is_valid(), made.isin(known), unknown)

    def _value(self, node: Node) -> _Value:
        if isinstance(node, Constant):
            kinds: dict[type, Family] = {bool: "bool", int: "whole", float: "float", str: "text"}
            return _Value(node.value, kinds[type(node.value)], None, node.at)
        if not isinstance(node, Column):
            raise self._mismatch("a column or a constant is missing", node.at)
        arrow, stored = self._stored(node)
        family = self._family(stored)
        if family is None:
            raise self._mismatch(f"column {node.name!r} holds {arrow}, which can only be tested with is null", node.at)
        made = self._pc.field(node.name)
        return _Value(made if stored == arrow else made.cast(stored), family, stored, node.at)

    def _stored(self, node: Column) -> tuple[Any, Any]:
        """The type of a column, and the one that a dictionary or an extension type stores."""
        if node.name not in self._schema.names:
            raise InputError(
                self._expression.problem(
                    f"{self._table} has no column {node.name!r}{nearest(node.name, self._schema.names)}"
                    f" (there are {_listed(self._schema.names)}; text stands in 'single quotes')",
                    node.at,
                )
            )
        arrow = self._schema.field(node.name).type
        return arrow, plain(arrow)

    def _family(self, arrow: Any) -> Family | None:
        types = self._pa.types
        tests: tuple[tuple[Family, tuple[Callable[[Any], bool], ...]], ...] = (
            ("bool", (types.is_boolean,)),
            ("whole", (types.is_integer,)),
            ("float", (types.is_floating, types.is_decimal, types.is_null)),
            ("text", (types.is_string, types.is_large_string, types.is_string_view)),
            ("time", (types.is_date, types.is_timestamp, types.is_time)),
        )
        return next((family for family, each in tests if any(test(arrow) for test in each)), None)

    def _compared(self, operator: str, left: _Value, right: _Value, at: int) -> Any:
        if not left.is_column and not right.is_column:
            raise self._mismatch("two constants are compared; name a column", at)
        if not left.is_column:
            turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
            return self._compared(turned.get(operator, operator), right, left, at)
        a, b = self._alike(left, right, at)
        return _OPERATORS[operator](a, b)

    def _alike(self, left: _Value, right: _Value, at: int) -> tuple[Any, Any]:
        """Both sides in one type of pyarrow in which they compare by value."""
        numbers = ("bool", "whole", "float")
        families = {left.family, right.family}
        if families == {"bool"} or families == {"text"}:
            return self._cast(left, left.family), self._cast(right, left.family)
        if families <= set(numbers):
            return self._numbers(left, right)
        if left.family == "time" and (right.family == "time" or (right.family == "text" and not right.is_column)):
            return self._times(left, right)
        if left.is_column and self._pa.types.is_null(left.type):
            return left.made.cast(self._pa.large_string()), self._cast(right, "text")
        raise self._mismatch(f"{_FAMILY_NAMES[left.family]} is compared with {_FAMILY_NAMES[right.family]}", at)

    def _cast(self, value: _Value, family: Family) -> Any:
        if not value.is_column:
            return constant(value.made, self._pa.large_string() if family == "text" else None)
        if family == "text" and not self._pa.types.is_large_string(value.type):
            return value.made.cast(self._pa.large_string())
        return value.made

    def _numbers(self, left: _Value, right: _Value) -> tuple[Any, Any]:
        pa = self._pa
        if right.is_column:
            if "float" in (left.family, right.family):
                return self._float(left), self._float(right)
            # Wide enough for int64 and uint64.
            wide = pa.decimal128(20, 0)
            return self._whole(left).cast(wide), self._whole(right).cast(wide)
        number = right.made
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if left.family == "float" or isinstance(number, float):
            return self._float(left), constant(_as_float(number), pa.float64())
        arrow = pa.uint8() if left.family == "bool" else left.type
        least, most = _limits(arrow)
        if least <= number <= most:
            return self._whole(left), constant(int(number), arrow)
        return self._float(left), constant(math.copysign(math.inf, number), pa.float64())

    def _whole(self, value: _Value) -> Any:
        return value.made.cast(self._pa.uint8()) if value.family == "bool" else value.made

    def _float(self, value: _Value) -> Any:
        # Booleans have no way to floats but through integers.
        return self._whole(value).cast(self._pa.float64(), safe=False)

    def _times(self, left: _Value, right: _Value) -> tuple[Any, Any]:
        if right.is_column:
            if left.type != right.type:
                raise self._mismatch(f"{left.type} is compared with {right.type}; cast one first", right.at)
            return left.made, right.made
        forms = (right.made, f"{right.made}Z") if getattr(left.type, "tz", None) else (right.made,)
        arrow = self._pa.date32() if self._pa.types.is_date(left.type) else left.type
        for text in forms:
            try:
                return left.made.cast(arrow), constant(text).cast(arrow)
            except self._pa.ArrowException:
                continue
        raise self._mismatch(f"{right.made!r} is no {left.type}, which is written as ISO 8601", right.at)

    def _mismatch(self, what: str, at: int) -> UsageError:
        return UsageError(self._expression.problem(what, at))


def _in_pairs(parts: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
    """``parts`` joined as a tree of pairs: pyarrow walks expressions by recursion."""
    while len(parts) > 1:
        parts = [reduce(join, parts[place : place + 2]) for place in range(0, len(parts), 2)]
    return parts[0]


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.copysign(math.inf, number)


def _limits(arrow: Any) -> tuple[int, int]:
    bits = int(arrow.bit_width)
    is_signed = str(arrow).startswith("i")
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (", …" if len(names) > 20 else "")

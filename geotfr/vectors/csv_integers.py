"""Whole numbers beyond int64 in a CSV file, of which pyarrow makes float64 without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geotfr.errors import InputError
from geotfr.vectors.extra import load

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["types_of_large_integers"]

_WHOLE = r"^\s*-?[0-9]+\s*$"
_DIGITS = 19
"""What int64's ends have."""


def types_of_large_integers(path: Path, schema: Any, options: dict[str, Any]) -> dict[str, Any]:
    """``uint64`` for each column that pyarrow takes for floats though it holds whole numbers alone.

    As pyarrow does, by the first block: a later number that the type can't hold ends the reading.

    Parameters
    ----------
    schema, options
        What pyarrow's CSV reader told, and was told.

    Raises
    ------
    InputError
        Numbers beyond uint64 too, or beyond int64 among negative ones.
    """
    csv, pa = load("pyarrow.csv"), load("pyarrow")
    pc = load("pyarrow.compute")
    floats = [name for name, arrow in zip(schema.names, schema.types, strict=True) if pa.types.is_floating(arrow)]
    if not floats or len(set(schema.names)) < len(schema.names):
        return {}
    convert = csv.ConvertOptions(
        null_values=options["convert_options"].null_values,
        strings_can_be_null=True,
        column_types=dict.fromkeys(floats, pa.string()),
        include_columns=floats,
    )
    with csv.open_csv(path, **{**options, "convert_options": convert}) as file:
        block: Any = next(iter(file), None)
    found: dict[str, Any] = {}
    for name in floats if block is not None else ():
        texts = block.column(name)
        if texts.null_count == len(texts) or not pc.all(pc.match_substring_regex(texts, _WHOLE)).as_py():
            continue
        # Nulls have no length, and no number.
        long = pc.indices_nonzero(pc.fill_null(pc.greater_equal(pc.utf8_length(texts), _DIGITS), False)).to_pylist()
        numbers = {row: int(texts[row].as_py()) for row in long}
        beyond = [row for row, number in numbers.items() if not -(1 << 63) <= number < 1 << 63]
        has_negative = pc.any(pc.match_substring(texts, "-")).as_py()
        odd = [row for row in beyond if has_negative or numbers[row] >= 1 << 64]
        if odd:
            raise InputError(
                f"{path}: row {odd[0]}, column {name!r}: {numbers[odd[0]]} is beyond int64, which ends at 2^63 - 1;"
                " write it with a decimal point to have it rounded, or with a letter to have text"
            )
        if beyond:
            found[name] = pa.uint64()
    return found

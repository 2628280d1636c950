"""What a table's column is, in words that a manifest can keep, and as a feature of records."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geotfr.errors import InputError
from geotfr.records.kind import Kind
from geotfr.vectors.extra import load

if TYPE_CHECKING:
    from geotfr.options.export import FeatureKinds

    Shape = tuple[int | None, ...]

__all__ = ["ColumnInfo", "arrow_type", "describe_type", "kind_of", "plain"]

_ARROW_NAMES = {
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
    "date32[day]": "date",
    "date64[ms]": "date",
    "large_string": "string",
    "string_view": "string",
    "large_binary": "binary",
    "binary_view": "binary",
}
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]")
_PLAIN = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|null|string|binary|date|time(32|64)\[(s|ms|us|ns)\]")
_TEXTS = ("string", "binary", "date", "time")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnInfo:
    """One feature of a table's records.

    Attributes
    ----------
    name
        The feature.
    source
        The column that it was.
    is_made
        Whether it was no column, but is made from the geometry.
    type
        Type of a value: ``bool``, ``int8`` to ``uint64``, ``float16`` to ``float64``, ``string``, ``binary``,
        ``date``, ``time32[s]``, ``timestamp[ms]``, ``timestamp[ms, UTC]``, ``null`` (no value at all).
    kind
        The list that holds it: ``float``, ``int64`` or ``bytes``.
    shape
        Empty for one value a row; of arrays the length of each axis, None where rows differ.
    """

    name: str
    source: str
    type: str
    kind: Kind
    shape: Shape = ()
    is_made: bool = False


def describe_type(arrow: Any, *, where: str) -> tuple[str, Shape]:
    """The name and shape of a pyarrow type.

    Raises
    ------
    InputError
        A type that no feature can hold; ``where`` names the column.
    """
    pa = load("pyarrow")
    shape: list[int | None] = []
    found = plain(arrow)
    while pa.types.is_list(found) or pa.types.is_large_list(found) or pa.types.is_fixed_size_list(found):
        shape.append(found.list_size if pa.types.is_fixed_size_list(found) else None)
        found = plain(found.value_type)
    text = _ARROW_NAMES.get(str(found), str(found))
    if pa.types.is_decimal(found):
        text = "float64"
    zoned = _ZONED.fullmatch(text)
    if zoned:
        text = f"timestamp[{zoned[1]}, {zoned[2]}]" if zoned[2] else f"timestamp[{zoned[1]}]"
    elif not _PLAIN.fullmatch(text):
        raise InputError(f"{where}: its type {arrow} fits no feature; leave it out with --selectors, or cast it first")
    return text, tuple(shape)


def plain(arrow: Any) -> Any:
    """The type that a pyarrow dictionary or extension type stores."""
    pa = load("pyarrow")
    while isinstance(arrow, pa.BaseExtensionType) or pa.types.is_dictionary(arrow):
        arrow = arrow.value_type if pa.types.is_dictionary(arrow) else arrow.storage_type
    return arrow


def kind_of(type_name: str, feature_kinds: FeatureKinds) -> Kind:
    """The list that holds values of a type.

    **Source**: Earth Engine's table exports: all numbers are floats, strings are bytes.

    >>> kind_of("int32", "float"), kind_of("int32", "native"), kind_of("date", "float")
    (<Kind.FLOAT: 'float'>, <Kind.INT64: 'int64'>, <Kind.BYTES: 'bytes'>)
    """
    if type_name.startswith(_TEXTS):
        return Kind.BYTES
    is_whole = type_name == "bool" or "int" in type_name
    return Kind.INT64 if is_whole and feature_kinds == "native" else Kind.FLOAT


def arrow_type(type_name: str) -> Any:
    """The pyarrow type of one value; None for a name that isn't known."""
    pa = load("pyarrow")
    zoned = re.fullmatch(r"timestamp\[(s|ms|us|ns)(?:, (.+))?\]", type_name)
    if zoned:
        return pa.timestamp(zoned[1], zoned[2])
    if not _PLAIN.fullmatch(type_name):
        return None
    if type_name.startswith("time"):
        width, unit = type_name[4:].rstrip("]").split("[")
        return (pa.time32 if width == "32" else pa.time64)(unit)
    return {"bool": pa.bool_(), "date": pa.date32(), "null": pa.float32()}.get(type_name) or getattr(pa, type_name)()

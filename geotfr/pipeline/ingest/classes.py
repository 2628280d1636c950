"""The file of ``--classes``: value, name and colour of each class, a line each."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from geotfr.errors import InputError, MissingInputError

__all__ = ["ClassInfo", "class_colour", "read_classes"]

_COLOUR = re.compile(r"#?([0-9a-fA-F]{6})([0-9a-fA-F]{2})?")
_HEADER = "value"
_LARGEST = 65535
# Twelve that are told apart side by side, light and dark in turn; then again, mixed with white.
_COLOURS = (
    (31, 120, 180),
    (178, 223, 138),
    (227, 26, 28),
    (253, 191, 111),
    (51, 160, 44),
    (106, 61, 154),
    (255, 255, 153),
    (177, 89, 40),
    (166, 206, 227),
    (255, 127, 0),
    (251, 154, 153),
    (202, 178, 214),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassInfo:
    """One class: its ``value``, 0 to 65535, its ``name``, and its ``rgba`` colour, 0 to 255 each, or None."""

    value: int
    name: str
    rgba: tuple[int, int, int, int] | None


def class_colour(value: int, place: int) -> tuple[int, int, int]:
    """The colour of a class that has none of its own, the ``place``-th of those shown: the same in every picture."""
    index = value if 0 <= value < 4 * len(_COLOURS) else place
    red, green, blue = _COLOURS[index % len(_COLOURS)]
    white = 0.5 * min(index // len(_COLOURS), 1)
    return int(red + (255 - red) * white), int(green + (255 - green) * white), int(blue + (255 - blue) * white)


def read_classes(path: str | Path) -> tuple[ClassInfo, ...]:
    """The classes in a CSV file ``value,name,colour``, in the order of their values.

    A header that begins with ``value``, empty lines and lines that begin with ``# `` are left out. A colour is
    ``#rrggbb`` or ``#rrggbbaa``, or is missing; a file that names none gives no colour table.

    Raises
    ------
    MissingInputError
        There is no such file.
    InputError
        It isn't UTF-8 text, or a line isn't a class, or a value stands twice.
    """
    try:
        text = Path(path).read_text("utf-8-sig")
    except FileNotFoundError as error:
        raise MissingInputError(f"{path}: no such file; --classes names a CSV file: value,name,colour") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: can't be read as UTF-8 text: {error}") from error
    classes: dict[int, ClassInfo] = {}
    for number, cells in enumerate(csv.reader(text.splitlines()), 1):
        fields = [cell.strip() for cell in cells]
        if not any(fields) or fields[0].startswith("# ") or (not classes and fields[0].lower() == _HEADER):
            continue
        found = _class(fields, f"{path}: line {number}")
        if found.value in classes:
            raise InputError(f"{path}: line {number}: class {found.value} stands twice; give each value once")
        classes[found.value] = found
    if not classes:
        raise InputError(f"{path}: no classes; a line is value,name,colour, as 3,water,#1f78b4")
    return tuple(classes[value] for value in sorted(classes))


def _class(fields: list[str], where: str) -> ClassInfo:
    value, name, colour = [*fields, "", ""][:3]
    if len(fields) > 3 or not (value.isascii() and value.isdecimal() and int(value) <= _LARGEST):
        raise InputError(
            f"{where}: found {','.join(fields)!r}; a class is value,name,colour with a value from 0 to {_LARGEST}, as"
            " 3,water,#1f78b4"
        )
    if not colour:
        return ClassInfo(value=int(value), name=name, rgba=None)
    found = _COLOUR.fullmatch(colour)
    if found is None:
        raise InputError(f"{where}: colour {colour!r}; allowed is #rrggbb or #rrggbbaa")
    red, green, blue = bytes.fromhex(found[1])
    return ClassInfo(value=int(value), name=name, rgba=(red, green, blue, int(found[2] or "ff", 16)))

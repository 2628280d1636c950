"""JSON from files of unknown make: no NaN, no key twice, bounded size and depth, errors in one line."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NoReturn

from geotfr.errors import DamagedError, GeotfrError, LimitError, MissingInputError
from geotfr.mixer.store_hint import store_hint
from geotfr.regular_files import open_regular, read_regular
from geotfr.stores.path import input_path, is_local

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["check_types", "may_be_json", "parse_json", "read_json", "understanding"]

MAX_JSON_BYTES = 64 * 2**20
_MAX_DEPTH = 32
_HEAD_BYTES = 512


def read_json(path: str | Path, *, what: str) -> dict[str, Any]:
    """The JSON object in ``path``.

    Raises
    ------
    MissingInputError
        There is no such file.
    InputError
        It is a pipe, a device or a folder.
    LimitError
        The file is larger than 64 MiB.
    DamagedError
        It isn't UTF-8 JSON, or not an object, or holds NaN, a key twice, or is nested deeper than 32 levels.
    """
    path = input_path(path)
    try:
        if is_local(path):
            data = read_regular(path, most_bytes=MAX_JSON_BYTES, what=what, follows_links=True)
        else:
            size = path.stat().st_size
            if size > MAX_JSON_BYTES:
                raise LimitError(f"{path}: {size:,} bytes are too many for a {what}; allowed are {MAX_JSON_BYTES:,}")
            data = path.read_bytes()
    except GeotfrError:
        # A store has told what is wrong.
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingInputError(f"{path}: no such file; a {what} is expected there{store_hint(path)}") from error
    except OSError as error:
        raise MissingInputError(f"{path}: the {what} can't be read: {error.strerror}") from error
    return parse_json(data, name=str(path), what=what)


def may_be_json(path: str | Path) -> bool:
    """Whether ``path`` begins as a JSON object does: a look that spares reading shards, which a store sends whole."""
    path = input_path(path)
    if path.suffix == ".json":
        return True
    with os.fdopen(open_regular(path, follows_links=True), "rb") if is_local(path) else path.open("rb") as file:
        return file.read(_HEAD_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"")


def parse_json(data: bytes | str, *, name: str, what: str) -> dict[str, Any]:
    """The JSON object in ``data``; ``name`` and ``what`` go into the errors, see :func:`read_json`."""

    def refuse_constant(text: str) -> NoReturn:
        raise DamagedError(f"{name}: not a {what}: {text} is not JSON")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise DamagedError(f"{name}: not a {what}: the key {key!r} stands twice in one object")
            found[key] = value
        return found

    try:
        # Some editors put a byte order mark in front.
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        _check_depth(text, name=name, what=what)
        value = json.loads(text, parse_constant=refuse_constant, object_pairs_hook=unique)
    except UnicodeDecodeError as error:
        raise DamagedError(f"{name}: not a {what}: byte {error.start} is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise DamagedError(
            f"{name}: not a {what}: line {error.lineno} column {error.colno} is not JSON: {error.msg}"
        ) from error
    except ValueError as error:
        if isinstance(error, DamagedError):
            raise
        raise LimitError(
            f"{name}: not a {what}: a whole number has more than {sys.get_int_max_str_digits():,} digits"
        ) from error
    if not isinstance(value, dict):
        raise DamagedError(f"{name}: not a {what}: found {type(value).__name__}, an object is expected")
    return value


@contextlib.contextmanager
def understanding(name: str | Path, what: str) -> Iterator[None]:
    """Turn Python's errors of values that a file from elsewhere holds (a key missing, another type) into one of ours.

    Raises
    ------
    DamagedError
        ``name`` isn't a whole ``what``.
    """
    try:
        yield
    except GeotfrError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DamagedError(f"{name}: not a whole {what}: {type(error).__name__}: {error}") from error


def check_types(made: Any) -> None:
    """Refuse values of a dataclass instance that aren't of the JSON types that its fields are annotated with.

    Raises
    ------
    TypeError
        One isn't; a boolean is no number here.
    """
    for each in fields(made):
        value = getattr(made, each.name)
        names = str(each.type).split(" | ")
        found = "bool" if isinstance(value, bool) else "None" if value is None else type(value).__name__
        if set(names) <= _JSON_TYPES and found not in names:
            raise TypeError(f"{each.name} is {value!r}, {each.type} is expected")


_JSON_TYPES = {"str", "int", "float", "bool", "None"}


def _check_depth(text: str, *, name: str, what: str) -> None:
    """Refuse deep nesting before the recursive parser meets it; brackets within strings don't count."""
    depth = 0
    in_string = escaped = False
    for char in text:
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            if depth > _MAX_DEPTH:
                raise LimitError(f"{name}: not a {what}: nested deeper than {_MAX_DEPTH} levels")
        elif char in "]}":
            depth -= 1

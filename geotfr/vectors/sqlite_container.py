"""SQLite files (GeoPackage and its kind) before GDAL opens them: what they hold is a program.

A virtual table may read any file, and a view may never end. Here Python's SQLite reads the schema, and the view that is
wanted once: GDAL's has no limits.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

from geotfr.background import run_at_most
from geotfr.errors import InputError, LimitError
from geotfr.grid.crs import check_crs_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["MAX_VALUE_BYTES", "MAX_VIEW_BYTES", "MAX_VIEW_ROWS", "MAX_VIEW_SECONDS", "SqliteContainer"]

MAX_VIEW_ROWS = 10_000_000
"""Rows of a view."""

MAX_VIEW_BYTES = 1 << 30
"""Bytes of all texts and geometries of a view."""

MAX_VALUE_BYTES = MAX_VIEW_BYTES // 16
"""Bytes of one of them."""

MAX_VIEW_SECONDS = 10
"""For which a view is read."""

_STEPS = 20_000
"""Instructions of SQLite between two looks at the clock."""

INDICES = frozenset({"rtree", "rtree_i32", "fts3", "fts4", "fts5"})
"""Modules of the virtual tables that hold their data in tables of the same file."""

# Between words SQLite takes comments for white space.
_GAP = r"(?:\s|--[^\n]*\n|/\*.*?\*/)"
_VIRTUAL = re.compile(rf"{_GAP}*CREATE{_GAP}+VIRTUAL\b", re.IGNORECASE | re.DOTALL)
_MODULE = re.compile(
    r"""CREATE VIRTUAL TABLE (?:"[^"]*"|\[[^\]]*\]|`[^`]*`|\w+) USING (\w+)\s*(?:\(|$)""", re.IGNORECASE
)
_OWN_TABLE = re.compile(
    r"gpkg\w*|rtree_\w*|geometry_columns|spatial_ref_sys|layer_styles|(?:views|virts)_geometry_columns"
)
_COMPUTED = """
    SELECT DISTINCT t.name FROM sqlite_master AS t, pragma_table_xinfo(t.name) AS c
    WHERE t.type = 'table' AND t.rootpage > 0 AND c.hidden IN (2, 3)
"""
"""Tables with columns that are computed when they are read."""

_CRS_COLUMNS = {
    "gpkg_spatial_ref_sys": ("organization", "definition", "definition_12_063"),
    "spatial_ref_sys": ("auth_name", "srtext", "proj4text"),
}
"""Table -> its columns that GDAL interprets as CRSs."""

_GEOMETRY_OF_LAYER = re.compile(r"\(\w+\)$")

# Functions that give the same for the same row, in any SQLite.
# fmt: off
_FUNCTIONS = frozenset((
    "->", "->>", "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "avg", "ceil", "ceiling",
    "char", "coalesce", "concat", "concat_ws", "cos", "cosh", "count", "cume_dist", "degrees", "dense_rank", "exp",
    "first_value", "floor", "format", "glob", "group_concat", "hex", "if", "ifnull", "iif", "instr", "json",
    "json_array", "json_array_length", "json_extract", "json_group_array", "json_group_object", "json_object",
    "json_quote", "json_type", "json_valid", "lag", "last_value", "lead", "length", "like", "ln", "log", "log10",
    "log2", "lower", "ltrim", "match", "max", "min", "mod", "nth_value", "ntile", "nullif", "octet_length",
    "percent_rank", "pi", "pow", "power", "printf", "quote", "radians", "rank", "replace", "round", "row_number",
    "rtrim", "sign", "sin", "sinh", "sqrt", "string_agg", "substr", "substring", "sum", "tan", "tanh", "total",
    "trim", "trunc", "typeof", "unicode", "upper", "zeroblob",
))
# fmt: on


class SqliteContainer:
    """A SQLite file that is safe to open, and may be asked whether a layer is safe to read.

    Raises
    ------
    InputError
        Changes that stand beside it in another file, a schema that can't be read, or a virtual table that isn't an
        index.
    LimitError
        A view in place of one of the format's own tables passes a limit.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        _check_journals(path)
        with self._connected() as connection:
            rows = connection.execute("SELECT type, name, rootpage, sql FROM sqlite_master").fetchall()
        texts = [(_text(kind), _text(name), page, _text(sql)) for kind, name, page, sql in rows]
        self._tables = {name.lower() for kind, name, *_ in texts if kind == "table"}
        self._views = {name.lower() for kind, name, *_ in texts if kind == "view"}
        self._indices: set[str] = set()
        for kind, name, page, sql in texts:
            if (kind == "table" and not page) or _VIRTUAL.match(sql):
                self._check_virtual(name, sql)
        with self._connected() as connection:
            computed = connection.execute(_COMPUTED).fetchall()
        self._computed = {_text(name).lower() for (name,) in computed}
        for name in sorted(filter(_OWN_TABLE.fullmatch, self._views | self._computed)):
            self._read_once(name)
        self._check_crss()

    @property
    def driver(self) -> str:
        """GDAL's driver for such a file."""
        if "gpkg_contents" in self._tables | self._views:
            return "GPKG"
        return "MBTiles" if {"tiles", "metadata"} <= self._tables | self._views else "SQLite"

    def check_layer(self, layer: str) -> None:
        """Refuse a layer that is neither a table nor a view that ends.

        Raises
        ------
        InputError
            A virtual table, or a view over one, or with functions that aren't SQLite's own.
        LimitError
            The rows pass a limit of number, bytes or time.
        """
        name = layer.lower()
        if name not in self._tables | self._views:
            # A layer for one of several columns of geometries.
            name = _GEOMETRY_OF_LAYER.sub("", name)
        if name in self._indices:
            raise InputError(f"{self.path}: the layer {layer!r} is a virtual table, an index; give another layer")
        if name in self._views | self._computed:
            self._read_once(name)

    def _check_crss(self) -> None:
        for name, columns in _CRS_COLUMNS.items():
            if name not in self._tables | self._views:
                continue
            with self._connected() as connection:
                cursor = connection.execute(f"SELECT * FROM {name}")
                places = [at for at, (column, *_) in enumerate(cursor.description) if column.lower() in columns]
                for row in cursor:
                    for at in places:
                        check_crs_text(_text(row[at]), where=f"{self.path}: {name}")

    def _check_virtual(self, name: str, sql: str) -> None:
        found = _MODULE.match(sql)
        module = found[1] if found else "of a form that is not known"
        if module.lower() not in INDICES:
            raise InputError(
                f"{self.path}: {name!r} is a virtual table ({module}), which may read other files; allowed are"
                f" {', '.join(sorted(INDICES))}; copy the layer to a file of its own"
            )
        self._indices.add(name.lower())

    def _read_once(self, name: str) -> None:
        """Read a view to its end, or to a limit."""
        ended: list[BaseException | None] = []

        def read() -> None:
            try:
                self._read_within_limits(name)
                ended.append(None)
            except BaseException as error:
                ended.append(error)

        # SQLite looks at the clock between instructions, and one may take hours: a search in a long text.
        run_at_most(MAX_VIEW_SECONDS + 1, read)
        if not ended:
            raise self._too_slow(name)
        if ended[0] is not None:
            raise ended[0]

    def _too_slow(self, name: str) -> LimitError:
        return LimitError(
            f"{self._named(name)} isn't read after {MAX_VIEW_SECONDS:g} seconds; write its rows to a table"
        )

    def _named(self, name: str) -> str:
        return f"{self.path}: the {'view' if name in self._views else 'table'} {name!r}"

    def _read_within_limits(self, name: str) -> None:
        refused: list[str] = []
        known = self._tables | self._views
        ends = time.monotonic() + MAX_VIEW_SECONDS

        def allow(action: int, first: str | None, second: str | None, *_: str | None) -> int:
            if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
                return sqlite3.SQLITE_OK
            # Without a column it may also be a table that the view makes for itself.
            if action == sqlite3.SQLITE_READ and (not second or (first or "").lower() in known):
                return sqlite3.SQLITE_OK
            if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS:
                return sqlite3.SQLITE_OK
            refused.append(f"the function {second}()" if action == sqlite3.SQLITE_FUNCTION else f"the table {first!r}")
            return sqlite3.SQLITE_DENY

        where = self._named(name)
        rows = size = 0
        with self._connected() as connection:
            connection.set_progress_handler(lambda: time.monotonic() > ends, _STEPS)
            connection.set_authorizer(allow)
            try:
                cursor = connection.execute('SELECT * FROM "{}"'.format(name.replace('"', '""')))
                for row in cursor:
                    rows += 1
                    size += sum(len(value) for value in row if isinstance(value, bytes))
                    if rows > MAX_VIEW_ROWS or size > MAX_VIEW_BYTES:
                        raise LimitError(
                            f"{where} has more than {MAX_VIEW_ROWS:,} rows or {MAX_VIEW_BYTES:,} bytes; write its rows"
                            " to a table"
                        )
            except sqlite3.DataError as error:
                raise LimitError(f"{where} has a value of more than {MAX_VALUE_BYTES:,} bytes") from error
            except sqlite3.DatabaseError as error:
                if refused:
                    raise InputError(
                        f"{where} uses {refused[0]}, which isn't allowed; write its rows to a table"
                    ) from error
                if time.monotonic() > ends:
                    raise self._too_slow(name) from error
                raise InputError(f"{where} can't be read: {error}; write its rows to a table") from error

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        # Immutable: no lock, no journal and no write-ahead log is looked for, and none is made.
        address = f"file:{quote(os.fsencode(self.path.resolve()))}?mode=ro&immutable=1"
        try:
            with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
                connection.text_factory = bytes
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
                connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
                yield connection
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the second: a name in a message isn't UTF-8
            told = " ".join(str(error).split())
            raise InputError(f"{self.path}: a SQLite file that can't be read: {told}") from error


def _check_journals(path: Path) -> None:
    real = path.resolve()
    for suffix in ("-wal", "-journal"):
        journal = real.with_name(real.name + suffix)
        if journal.is_symlink() or (journal.exists() and (not journal.is_file() or journal.stat().st_size)):
            raise InputError(
                f"{journal}: holds changes that are not yet in {path.name}; close the program that has it open, or"
                " export the layer to a new file"
            )


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")

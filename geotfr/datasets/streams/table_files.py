"""CSV files and files of fixed-length binary records as streams, each record with a key that names file and record."""

from __future__ import annotations

import csv
import gzip
import io
import os
from abc import abstractmethod
from collections.abc import Mapping
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from geotfr.datasets.shards import file_state, unchanged
from geotfr.datasets.streams.rows import packed
from geotfr.datasets.streams.sources import Source
from geotfr.errors import DamagedError, InputError, MissingInputError, UsageError
from geotfr.options import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from geotfr.datasets.streams.node import Pass
    from geotfr.datasets.streams.rows import Rows

    Default = type | np.dtype[Any] | str | bytes | float | np.generic

__all__ = ["BinaryFiles", "CsvFiles"]

LINES_AT_ONCE = 4096
BYTES_AT_ONCE = 4 << 20
GZIP_MAGIC = b"\x1f\x8b"


class _KeyedFiles(Source):
    """Files whose records get a key, ``FILE:RECORD`` with the record's number from 0."""

    def __init__(self, paths: Sequence[Path], key: str | None) -> None:
        self._paths = tuple(map(os.fspath, paths))
        self._states = [file_state(path) for path in self._paths]
        self._key = key

    @property
    def name(self) -> str:
        sizes = sum(size for size, _ in self._states)
        return f"{type(self).__name__}({len(self._paths)} files, {sizes} bytes, key={self._key})"

    def read(self, at: Pass) -> Iterator[Rows]:  # noqa: ARG002
        for path, state in zip(self._paths, self._states, strict=True):
            unchanged(path, state)
            first = 0
            for columns in self.columns(path):
                count = len(next(iter(columns.values())))
                keyed = dict(columns)
                if self._key is not None:
                    keys = [f"{path}:{number}" for number in range(first, first + count)]
                    keyed = {self._key: np.array(keys, object), **columns}
                first += count
                yield packed(keyed)

    @abstractmethod
    def columns(self, path: str) -> Iterator[Mapping[str, NDArray[Any]]]:
        """The records of one file, some at a time."""


class CsvFiles(_KeyedFiles):
    """Lines of text; see :func:`geotfr.datasets.stream.stream_csv`."""

    def __init__(
        self, paths: Sequence[Path], columns: Mapping[str, Default], *, header: bool, delimiter: str, key: str | None
    ) -> None:
        super().__init__(paths, key)
        self._header = header
        self._delimiter = delimiter
        self._types = {name: _typed(name, default) for name, default in columns.items()}
        if key in self._types:
            raise UsageError(f"key: {key!r} is a column too; give another name, or None")

    def columns(self, path: str) -> Iterator[Mapping[str, NDArray[Any]]]:
        with _opened(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as text:
            lines = csv.reader(text, delimiter=self._delimiter, strict=True)
            try:
                places = self._places(path, lines)
                # Each with the number of its last line; empty lines are no records.
                while rows := [(row, lines.line_num) for row in islice(filter(None, lines), LINES_AT_ONCE)]:
                    yield self._converted(path, rows, places)
            except (csv.Error, UnicodeDecodeError, EOFError, OSError) as error:
                raise DamagedError(f"{path}: behind line {lines.line_num}: no CSV in UTF-8: {error}") from error

    def _places(self, path: str, lines: Iterator[list[str]]) -> dict[str, int]:
        """Column -> its place in a line."""
        if not self._header:
            return {name: place for place, name in enumerate(self._types)}
        head = next(iter(lines), [])
        for name in self._types:
            if name not in head:
                raise InputError(
                    f"{path}: no column {name!r}; there are {', '.join(head) or 'none'}{nearest(name, head)}"
                )
        return {name: head.index(name) for name in self._types}

    def _converted(
        self, path: str, rows: list[tuple[list[str], int]], places: dict[str, int]
    ) -> dict[str, NDArray[Any]]:
        width = max(places.values()) + 1
        for row, line in rows:
            if len(row) < width:
                raise DamagedError(f"{path}: line {line}: {len(row)} columns; {width} are wanted")
        made = {}
        for name, place in places.items():
            made[name] = self._array(path, name, [(row[place], line) for row, line in rows])
        return made

    def _array(self, path: str, name: str, cells: list[tuple[str, int]]) -> NDArray[Any]:
        dtype, default = self._types[name]
        if default is None:
            empty = next((line for cell, line in cells if cell == ""), None)
            if empty is not None:
                raise DamagedError(f"{path}: line {empty}: column {name!r} is empty and has no default; give one")
        filled = [default if cell == "" else cell for cell, _ in cells]
        if dtype == np.object_:
            return np.fromiter(filled, dtype, len(filled))
        try:
            return np.array(filled, dtype=dtype)
        except (ValueError, OverflowError) as error:
            raise _bad_cell(path, name, cells, dtype) from error


def _typed(name: str, default: Default) -> tuple[np.dtype[Any], Any]:
    """dtype and default of a column; None for a column that may not be empty."""
    if isinstance(default, type | np.dtype):
        dtype = np.dtype({float: np.float32, int: np.int64, str: object}.get(cast("type", default), default))
        value: Any = None
    elif isinstance(default, str):
        dtype, value = np.dtype(object), default
    elif isinstance(default, np.generic):
        dtype, value = default.dtype, default
    elif isinstance(default, float | int) and not isinstance(default, bool):
        dtype, value = np.dtype(np.float32 if isinstance(default, float) else np.int64), default
    else:
        dtype, value = np.dtype(np.void), None
    if dtype.kind not in "iufO":
        raise UsageError(
            f"columns: {name!r}: found {default!r}; allowed are a default (0.0, 0, '') and a type (float, int, str,"
            " numpy.float64 …) for a column that is never empty"
        )
    return dtype, value


def _bad_cell(path: str, name: str, cells: list[tuple[str, int]], dtype: np.dtype[Any]) -> DamagedError:
    for cell, line in cells:
        try:
            np.array([cell or "0"], dtype=dtype)
        except (ValueError, OverflowError):
            return DamagedError(f"{path}: line {line}: column {name!r}: {cell!r} is no {dtype.name}")
    return DamagedError(f"{path}: column {name!r}: no {dtype.name}")


class BinaryFiles(_KeyedFiles):
    """Records of one length; see :func:`geotfr.datasets.stream.stream_binary`."""

    def __init__(
        self, paths: Sequence[Path], dtype: np.dtype[Any], *, header_bytes: int, footer_bytes: int, key: str | None
    ) -> None:
        super().__init__(paths, key)
        if dtype.itemsize < 1 or dtype.hasobject or header_bytes < 0 or footer_bytes < 0:
            raise UsageError(
                f"stream_binary: records of {dtype.itemsize} bytes, header {header_bytes}, footer {footer_bytes};"
                " records have at least 1 byte and no Python objects, header and footer at least 0"
            )
        if key is not None and key in (dtype.names or ("record",)):
            raise UsageError(f"key: {key!r} is a field too; give another name, or None")
        self._dtype = dtype
        self._header_bytes = header_bytes
        self._footer_bytes = footer_bytes

    @property
    def name(self) -> str:
        return f"{super().name[:-1]}, {self._dtype}, {self._header_bytes}, {self._footer_bytes})"

    def columns(self, path: str) -> Iterator[Mapping[str, NDArray[Any]]]:
        size = self._dtype.itemsize
        done = 0
        try:
            with _opened(path) as file:
                head = file.read(self._header_bytes)
                if len(head) < self._header_bytes:
                    raise DamagedError(f"{path}: {len(head)} bytes; a header of {self._header_bytes} is wanted")
                rest = b""
                while chunk := file.read(max(BYTES_AT_ONCE, size)):
                    data = rest + chunk
                    count = max(len(data) - self._footer_bytes, 0) // size
                    rest = data[count * size :]
                    done += count
                    if count:
                        yield self._fields(np.frombuffer(data, self._dtype, count))
        except (EOFError, OSError) as error:
            raise DamagedError(f"{path}: after record {done}: can't be read: {error}") from error
        if len(rest) != self._footer_bytes:
            raise DamagedError(
                f"{path}: {len(rest)} bytes are left after {done} records of {size}; a footer of"
                f" {self._footer_bytes} is wanted"
            )

    def _fields(self, records: NDArray[Any]) -> dict[str, NDArray[Any]]:
        if self._dtype.names is None:
            return {"record": records}
        return {name: records[name] for name in self._dtype.names}


def _opened(path: str) -> IO[bytes]:
    """The file, inflated if it is gzip."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123  # a name
            is_gzip = file.read(2) == GZIP_MAGIC
        return cast("IO[bytes]", gzip.open(path)) if is_gzip else open(path, "rb")  # noqa: PTH123
    except FileNotFoundError as error:
        raise MissingInputError(f"{path}: no such file") from error
    except OSError as error:
        raise InputError(f"{path}: can't be opened: {error.strerror}") from error

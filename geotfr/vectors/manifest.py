"""What geotfr keeps of a table beside its records: types, names, shapes and the geometry.

Snake_case JSON, written last, with the image manifest's rules: no time, no absolute path, the same input and options
give the same bytes. It is described in ``docs/how-to/tables.md``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

from geotfr._version import __version__
from geotfr.errors import DamagedError
from geotfr.mixer.strict_json import read_json
from geotfr.options.tables import GeometryMode
from geotfr.records.kind import Kind
from geotfr.vectors.types import ColumnInfo, arrow_type

__all__ = ["TABLE_FORMAT", "TableManifest", "find_table_manifest", "read_table_manifest"]

TABLE_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TableManifest:
    """A table's records and how they were made.

    Attributes
    ----------
    options
        The options as used, in snake_case.
    columns
        The features, in order.
    geometry, crs
        How geometries are kept, and in which CRS.
    absent
        Feature -> rows without it, where there are some.
    records
        The record file's name, without folder.
    rows, size_bytes, crc32c
        Its records, bytes, and their CRC32C in 8 hex digits.
    source
        The source's name without folder, and its bytes; None for what was in memory.
    compressor, compressor_level, compressor_library
        As in the image manifest.
    """

    options: dict[str, Any]
    columns: tuple[ColumnInfo, ...]
    geometry: GeometryMode
    crs: str
    absent: dict[str, int]
    records: str
    rows: int
    size_bytes: int
    crc32c: str
    source: tuple[str, int] | None
    compressor: str
    compressor_level: int | None
    compressor_library: str | None

    def to_text(self) -> str:
        """The manifest's JSON."""
        document = {
            "table_format": TABLE_FORMAT,
            "geotfr_version": __version__,
            "options": self.options,
            "columns": [
                {
                    "name": column.name,
                    "source": column.source,
                    "type": column.type,
                    "kind": column.kind.value,
                    "shape": list(column.shape),
                    "is_made": column.is_made,
                    "absent": self.absent.get(column.name, 0),
                }
                for column in self.columns
            ],
            "geometry": {"mode": self.geometry, "crs": self.crs},
            "records": {"name": self.records, "records": self.rows, "bytes": self.size_bytes, "crc32c": self.crc32c},
            "source": None if self.source is None else {"name": self.source[0], "bytes": self.source[1]},
            "compressor": {
                "name": self.compressor,
                "level": self.compressor_level,
                "library": self.compressor_library,
            },
            "complete": True,
        }
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def find_table_manifest(records: Path) -> TableManifest | None:
    """The manifest beside a record file that names it; None where there is none.

    Raises
    ------
    DamagedError
        There is one, but not whole.
    """
    stem = re.sub(r"(\.tfrecord)?(\.gz)?$", "", records.name, flags=re.IGNORECASE)
    for name in (f"{stem}-manifest.json", "manifest.json"):
        path = records.parent / name
        if not path.is_file():
            continue
        try:
            found = read_json(path, what="manifest")
        except DamagedError:
            if name == "manifest.json":
                continue  # perhaps another program's
            raise
        if "table_format" in found:
            manifest = read_table_manifest(path)
            if manifest.records == records.name:
                return manifest
    return None


def read_table_manifest(path: Path) -> TableManifest:
    """The table manifest in the file ``path``.

    Raises
    ------
    MissingInputError
        There is no such file.
    DamagedError
        It is no table manifest, of a newer format, or a part is missing or of another type.
    """
    found = read_json(path, what="table manifest")
    if found.get("table_format") != TABLE_FORMAT:
        raise DamagedError(
            f"{path}: table format {found.get('table_format')!r} is not known; this geotfr reads {TABLE_FORMAT}"
        )
    try:
        return _from_json(found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(f"{path}: not a whole table manifest: {type(error).__name__}: {error}") from error


def _from_json(found: dict[str, Any]) -> TableManifest:
    mode = found["geometry"]["mode"]
    if mode not in get_args(GeometryMode):
        raise ValueError(f"geometry {mode!r}")
    records, source, compressor = found["records"], found["source"], found["compressor"]
    return TableManifest(
        options=dict(found["options"]),
        columns=tuple(_column(column) for column in found["columns"]),
        geometry=cast("GeometryMode", mode),
        crs=str(found["geometry"]["crs"]),
        absent={str(column["name"]): int(column["absent"]) for column in found["columns"] if column["absent"]},
        records=str(records["name"]),
        rows=int(records["records"]),
        size_bytes=int(records["bytes"]),
        crc32c=str(records["crc32c"]),
        source=None if source is None else (str(source["name"]), int(source["bytes"])),
        compressor=str(compressor["name"]),
        compressor_level=compressor["level"],
        compressor_library=compressor["library"],
    )


def _column(found: dict[str, Any]) -> ColumnInfo:
    shape = tuple(None if length is None else int(length) for length in found["shape"])
    if any(length is not None and not 0 <= length < 1 << 31 for length in shape):
        raise ValueError(f"shape {shape}")
    if arrow_type(str(found["type"])) is None:
        raise ValueError(f"type {found['type']!r}")
    return ColumnInfo(
        name=str(found["name"]),
        source=str(found["source"]),
        type=str(found["type"]),
        kind=Kind(found["kind"]),
        shape=shape,
        is_made=bool(found["is_made"]),
    )

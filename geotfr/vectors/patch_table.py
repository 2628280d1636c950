"""The patch table: a GeoParquet file with a row for each patch that was written.

Its columns are described in ``docs/reference/patch-table.md``. The file's metadata hold, as JSON, the grids and
shards that the rows belong to, so that a table is read without the manifests.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr._version import __version__
from geotfr.errors import DamagedError, InputError, MissingInputError, OutputError, UsageError
from geotfr.mixer.patch_tables import PATCH_TABLE_KEY
from geotfr.mixer.strict_json import understanding
from geotfr.patches.layout import pixels_inside
from geotfr.stores.path import input_path, is_local
from geotfr.vectors import arrow_arrays
from geotfr.vectors.extra import load_arrow
from geotfr.vectors.geoparquet import BBOX, Writable, geo_metadata, leaf_columns
from geotfr.vectors.patch_columns import GROUP_ROWS, PatchColumns, place_columns
from geotfr.vectors.patch_set import PatchSet, TablePart

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from geotfr.records.places import RecordPlaces
    from geotfr.vectors.geoparquet import ByteSink

__all__ = [
    "PatchSet",
    "PatchTable",
    "TablePart",
    "read_patch_table",
    "rewrite_patch_table",
    "write_batches",
    "write_patch_table",
]

TABLE_FORMAT = 1
# Columns whose least and greatest value tell nothing, or are their whole size.
_UNORDERED = ("sha256", "geometry")
# Columns that don't get smaller; names of bands follow.
_NOISE = ("sha256", "mean_", "std_")
# The table's own columns of whole numbers, and the least value of each.
_WHOLE = {"number": 0, "row": 0, "column": 0, "record": 0, "records": 1, "offset": 0, "length": 1}


class PatchTable:
    """A patch table that is read column by column.

    Attributes
    ----------
    path
        Its file.
    sets
        The sets that its rows belong to.
    extra
        What else stands in its metadata: ``split`` where :func:`geotfr.split_patches` made one.
    names
        Its columns, in order.
    """

    def __init__(self, path: Path, file: Any, described: Mapping[str, Any]) -> None:
        self.path = path
        self._at = path
        self._file = file
        with understanding(path, "patch table; make it again"):
            self.sets = tuple(PatchSet.from_dict(each) for each in described["sets"])
            self.extra: dict[str, Any] = dict(described.get("extra", {}))
        self.names: tuple[str, ...] = tuple(file.schema_arrow.names)

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows)

    @staticmethod
    def moved(table: PatchTable, path: Path) -> PatchTable:
        """``table`` as if it were at ``path``, beside whose shards it belongs."""
        other = object.__new__(PatchTable)
        other.__dict__.update(table.__dict__)
        other.path, other._at = path, table._at
        return other

    @property
    def schema(self) -> Any:
        """The columns with their types, a pyarrow schema."""
        return self._file.schema_arrow

    def groups(self) -> Iterator[Any]:
        """All columns of some rows at a time, pyarrow tables."""
        for group in range(self._file.num_row_groups):
            try:
                yield self._file.read_row_group(group)
            except (load_arrow().ArrowException, OSError) as error:
                raise DamagedError(f"{self.path}: can't be read: {' '.join(str(error).split())}") from error

    @property
    def features(self) -> tuple[str, ...]:
        """The features that have statistics, in order."""
        return tuple(name.removeprefix("mean_") for name in self.names if name.startswith("mean_"))

    def check_columns(self, names: Sequence[str]) -> None:
        """Refuse columns that the table doesn't have.

        Raises
        ------
        UsageError
            With the columns that there are.
        """
        for name in names:
            if name not in self.names:
                shown = ", ".join(self.names[:30])
                raise UsageError(f"{self.path}: no column {name!r}; the table has {shown}")

    def arrow(self, names: Sequence[str] | None = None, where: Any = None) -> Any:
        """The columns ``names`` (all by default) as a pyarrow table; ``where`` is a pyarrow expression of any column.

        Raises
        ------
        UsageError
            A column that isn't there.
        DamagedError
            The file can't be read.
        """
        if names is not None:
            self.check_columns(names)
        pa = load_arrow()
        try:
            if where is None:
                return self._file.read(columns=None if names is None else list(names))
            dataset = load_arrow("pyarrow.dataset").dataset(self._at, format="parquet")
            # Little is read ahead: memory is worth more here than the last tenth of speed.
            return dataset.to_table(
                columns=None if names is None else list(names),
                filter=where,
                batch_readahead=2,
                fragment_readahead=1,
            )
        except (pa.ArrowException, OSError) as error:
            raise DamagedError(f"{self.path}: can't be read: {' '.join(str(error).split())}") from error

    def column(self, name: str) -> NDArray[Any]:
        """A column as an array; numbers that are null are NaN (or -1 where the others are whole), texts None.

        Raises
        ------
        UsageError
            A column that isn't there.
        DamagedError
            One of the table's own that isn't there, of another type, or with values that no patch has.
        """
        least = _WHOLE.get(name)
        if least is None:
            return arrow_arrays.as_numpy(self.arrow([name])[name].combine_chunks())
        values = self._own(name)
        if not load_arrow().types.is_integer(values.type):
            raise self._damaged(None, name, f"the type {values.type}; whole numbers are expected")
        found = arrow_arrays.as_numpy(values)
        is_wrong = ~arrow_arrays.present_rows(values) | (found < least)
        if name == "number":
            most = np.array([patches.rows * patches.columns for patches in self.sets])[self.set_numbers()]
            is_wrong |= found >= most
        if is_wrong.any():
            row = int(np.argmax(is_wrong))
            raise self._damaged(row, name, f"{values[row].as_py()}, which no patch has")
        return found.astype(np.int64, copy=False)

    def shards(self) -> tuple[NDArray[np.int64], list[str]]:
        """For each row the number of its shard, and the names of the shards of all sets, each once.

        Raises
        ------
        DamagedError
            A row names another shard, or none.
        """
        names = list(dict.fromkeys(name for patches in self.sets for name, _, _ in patches.shards))
        return self._places_in("shard", names, "which isn't among the table's shards"), names

    def check_records(self, shards: NDArray[np.int64], records: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Refuse rows whose record is beyond those of their shard: shard s has ``counts[s]``.

        Raises DamagedError.
        """
        is_beyond = records >= counts[shards]
        if is_beyond.any():
            row = int(np.argmax(is_beyond))
            raise self._damaged(row, "record", f"{records[row]}, where the shard has {counts[shards[row]]:,} records")

    def _places_in(self, column: str, known: Sequence[str], problem: str) -> NDArray[np.int64]:
        pa, pc = load_arrow(), load_arrow("pyarrow.compute")
        values = self._own(column)
        try:
            texts = values.cast(pa.string())
        except pa.ArrowException as error:
            raise self._damaged(None, column, f"the type {values.type}; texts are expected") from error
        places = pc.index_in(texts, value_set=arrow_arrays.texts(known), skip_nulls=True)
        if places.null_count:
            row = int(np.argmin(arrow_arrays.present_rows(places)))
            raise self._damaged(row, column, f"{values[row].as_py()!r}, {problem}")
        return arrow_arrays.as_numpy(places).astype(np.int64)

    def _own(self, name: str) -> Any:
        """A column that every patch table has, a pyarrow array."""
        if name not in self.names:
            raise self._damaged(None, name, "no such column")
        found = self.arrow([name])[name]
        # A table edited elsewhere may hold texts by their numbers.
        pa = load_arrow()
        if pa.types.is_dictionary(found.type):
            found = found.cast(found.type.value_type)
        return found.combine_chunks()

    def _damaged(self, row: int | None, column: str, found: str) -> DamagedError:
        where = f"{self.path}: " + ("" if row is None else f"row {row}, ") + f"column {column!r}"
        return DamagedError(f"{where}: found {found}; make the table again with 'geotfr table --overwrite'")

    def selected(self, *, split: str | None = None, where: str | None = None) -> NDArray[np.bool_]:
        """The rows of a split for which a condition is true: ``(n,) bool``.

        Raises
        ------
        UsageError
            A split that the table hasn't, or a condition that doesn't parse or asks for columns that aren't there.
        """
        wanted = np.ones(len(self), np.bool_)
        if split is not None:
            wanted &= self._of_split(split)
        if where is not None:
            from geotfr.vectors.condition import condition_on
            from geotfr.vectors.expression import parse_expression

            parsed = parse_expression(where, option="where")
            condition = condition_on(parsed, self.schema, table=str(self.path))
            names = parsed.columns()
            rows = self.arrow(names or ["number"]).append_column("\0row", arrow_arrays.numbers(np.arange(len(self))))
            is_true = np.zeros(len(self), np.bool_)
            is_true[arrow_arrays.as_numpy(rows.filter(condition)["\0row"].combine_chunks())] = True
            wanted &= is_true
        return wanted

    def _of_split(self, split: str) -> NDArray[np.bool_]:
        codes, known = self.codes("split")
        if split not in known:
            told = f"there are {', '.join(known)}" if known else "'geotfr split' makes them"
            raise UsageError(f"{self.path}: no split {split!r}; {told}")
        found: NDArray[np.bool_] = codes == known.index(split)
        return found

    def codes(self, name: str) -> tuple[NDArray[np.int64], list[str]]:
        """Of each row the number of its value in a column, -1 for null, and the values as text, sorted."""
        pa, pc = load_arrow(), load_arrow("pyarrow.compute")
        values = self.arrow([name])[name]
        try:
            texts = values.cast(pa.string())
        except pa.ArrowException as error:
            raise UsageError(f"{self.path}: column {name!r} is {values.type}; texts or numbers are wanted") from error
        known = sorted(value for value in texts.unique().to_pylist() if value is not None)
        places = pc.index_in(texts, value_set=arrow_arrays.texts(known), skip_nulls=True)
        found = pc.fill_null(places, arrow_arrays.constant(-1, pa.int32()))
        return arrow_arrays.as_numpy(found.combine_chunks()).astype(np.int64), known

    def digests(self) -> NDArray[np.void]:
        """The SHA-256 of each patch: ``(n,)`` of 32 bytes each."""
        pa, values = load_arrow(), self._own("sha256")
        try:
            values = values.cast(pa.binary(32))
        except pa.ArrowException as error:
            raise self._damaged(None, "sha256", f"the type {values.type}; 32 bytes a row are expected") from error
        if values.null_count:
            raise self._damaged(int(np.argmin(arrow_arrays.present_rows(values))), "sha256", "null")
        data = np.frombuffer(values.buffers()[1] or b"", np.dtype("V32"))
        found: NDArray[np.void] = data[values.offset : values.offset + len(values)]
        return found

    def sets_by_shards(self) -> list[list[int]]:
        """The numbers of the sets, those together whose records are in the same files."""
        groups: list[list[int]] = []
        seen: set[str] = set()
        for number, patches in enumerate(self.sets):
            names = {name for name, _, _ in patches.shards}
            if groups and (seen & names or not names):
                groups[-1].append(number)
                seen |= names
            else:
                groups.append([number])
                seen = names
        return groups

    def pixels_inside(self) -> NDArray[np.int64]:
        """``(rows, 2) int64``: how many pixel rows and columns of each patch lie inside its raster."""
        inside = np.zeros((len(self), 2), np.int64)
        owners, numbers = self.set_numbers(), self.column("number")
        for place, patches in enumerate(self.sets):
            own = owners == place
            inside[own] = pixels_inside(patches.geobox.shape_yx, patches.patch_yx, patches.columns, numbers[own])
        return inside

    def set_numbers(self) -> NDArray[np.int64]:
        """For each row the number of its set in :attr:`sets`: ``(n,) int64``."""
        if len(self.sets) == 1:
            return np.zeros(len(self), np.int64)
        return self._places_in("source", [each.source for each in self.sets], "which none of the table's sets has")


def read_patch_table(path: str | Path) -> PatchTable:
    """The patch table in the file ``path``; columns are read when they are asked for.

    Raises
    ------
    MissingInputError
        There is no such file.
    InputError
        It is no Parquet file, or no patch table.
    DamagedError
        It is of a newer format, or its metadata are damaged.
    """
    path = input_path(path)
    pa, pq = load_arrow(), load_arrow("pyarrow.parquet")
    if not path.is_file():
        raise MissingInputError(f"{path}: no such file; 'geotfr table' makes a patch table")
    try:
        file = pq.ParquetFile(path if is_local(path) else path.open("rb"))
        text = (file.schema_arrow.metadata or {}).get(PATCH_TABLE_KEY.encode())
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: no Parquet file: {' '.join(str(error).split())}") from error
    if text is None:
        raise InputError(f"{path}: a Parquet file, but no patch table; 'geotfr table' makes one of a set")
    try:
        described = json.loads(text)
        version = described["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedError(f"{path}: the metadata of the patch table aren't whole; make it again") from error
    if version != TABLE_FORMAT:
        raise DamagedError(f"{path}: patch table format {version!r} is not known; this geotfr reads {TABLE_FORMAT}")
    return PatchTable(path, file, described)


def write_patch_table(
    file: ByteSink, parts: Sequence[TablePart], added: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Write the rows of ``parts``, at least one, to an open file; its columns, in order.

    Parameters
    ----------
    added
        More columns: name -> pyarrow array of all rows.

    Raises
    ------
    OutputError
        pyarrow can't write them.
    """
    pa = load_arrow()
    added = added or {}
    made = PatchColumns(parts)
    for name in added:
        if any(field.name == name for field in made.fields):
            raise UsageError(f"column {name!r} is the table's own; rename yours")
    geo = geo_metadata(
        "geometry", geometry_types=["Polygon"], crs=made.crs, bounds=made.bounds(), is_ccw=True, bbox=BBOX
    )
    described = {
        "format": TABLE_FORMAT,
        "geotfr_version": __version__,
        "sets": [part.patches.to_dict() for part in parts],
        "extra": {},
    }
    fields = [*made.fields, *(pa.field(name, array.type) for name, array in added.items())]
    schema = pa.schema(fields, metadata={"geo": json.dumps(geo), PATCH_TABLE_KEY: json.dumps(described)})

    def batches() -> Iterator[Any]:
        row = 0
        for columns, count in made.batches():
            columns |= {name: array.slice(row, count) for name, array in added.items()}
            row += count
            yield pa.Table.from_arrays([columns[field.name] for field in schema], schema=schema)

    write_batches(file, schema, batches())
    return tuple(schema.names)


def rewrite_patch_table(
    table: PatchTable,
    file: ByteSink,
    columns: Mapping[str, Any],
    *,
    extra: Mapping[str, Any] | None = None,
    kept: NDArray[np.bool_] | None = None,
    places: RecordPlaces | None = None,
    shards: Sequence[tuple[str, int, str]] = (),
) -> None:
    """Write ``table`` to an open file with some columns replaced or added, row group by row group.

    Parameters
    ----------
    columns
        Column -> pyarrow array of the table's length.
    extra
        Replaces parts of the metadata's ``extra``.
    kept
        Which rows to write, ``(n,) bool``; all by default.
    places, shards
        Of the rows that are kept, where their records are now: all sets have these shards, (name, bytes, CRC32C).
    """
    pa = load_arrow()
    old = table.schema
    fields = [pa.field(field.name, columns[field.name].type) if field.name in columns else field for field in old]
    fields += [pa.field(name, array.type) for name, array in columns.items() if name not in old.names]
    metadata = dict(old.metadata)
    described = json.loads(metadata[PATCH_TABLE_KEY.encode()])
    described["extra"] = {**table.extra, **(extra or {})}
    if places is not None:
        described["sets"] = [_moved(each, shards) for each in described["sets"]]
    metadata[PATCH_TABLE_KEY.encode()] = json.dumps(described)
    schema = pa.schema(fields, metadata=metadata)

    def batches() -> Iterator[Any]:
        row = written = 0
        for read in table.groups():
            found = {name: read[name] for name in read.column_names}
            found |= {name: array.slice(row, read.num_rows) for name, array in columns.items()}
            made = pa.Table.from_arrays([found[field.name] for field in schema], schema=schema)
            if kept is not None:
                made = made.filter(arrow_arrays.booleans(kept[row : row + read.num_rows]))
            if places is not None:
                part = places.part(slice(written, written + made.num_rows))
                for name, array in place_columns(part, [name for name, _, _ in shards]).items():
                    made = made.set_column(schema.get_field_index(name), schema.field(name), array)
            row, written = row + read.num_rows, written + made.num_rows
            yield made

    write_batches(file, schema, batches())


def _moved(described: Mapping[str, Any], shards: Sequence[tuple[str, int, str]]) -> dict[str, Any]:
    """What the metadata tell of a set whose records are in other shards now."""
    kept = {key: value for key, value in described.items() if key != "first_in_shard"}
    return {**kept, "shards": [list(shard) for shard in shards]}


def _ahead(batches: Iterator[Any]) -> Iterator[Any]:
    """``batches``, the next one made by a thread while one is written."""
    with ThreadPoolExecutor(1, thread_name_prefix="geotfr-table") as thread:
        coming = thread.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = thread.submit(next, batches, None)
            yield batch


def write_batches(file: ByteSink, schema: Any, batches: Iterator[Any]) -> None:
    """Write pyarrow tables of a patch table's ``schema`` to an open file.

    Raises
    ------
    OutputError
        pyarrow can't write them.
    """
    pa, pq = load_arrow(), load_arrow("pyarrow.parquet")
    # Dictionaries of measured numbers only cost time; texts and counts repeat.
    repeated = [
        field.name
        for field in schema
        if pa.types.is_string(field.type) or field.name == "records" or field.name.startswith("count_")
    ]
    # Digests and means are noise to it.
    compression = {
        leaf: "none" if field.name.startswith(_NOISE) else "zstd" for field in schema for leaf in leaf_columns(field)
    }
    ordered = [leaf for field in schema if field.name not in _UNORDERED for leaf in leaf_columns(field)]
    try:
        with pq.ParquetWriter(
            pa.PythonFile(Writable(file), "w"),
            schema,
            compression=compression,
            use_dictionary=repeated,
            write_statistics=ordered,
        ) as writer:
            for batch in _ahead(batches):
                writer.write_table(batch, row_group_size=GROUP_ROWS)
    except pa.ArrowException as error:
        raise OutputError(f"the patch table can't be written: {' '.join(str(error).split())}") from error

"""The patch table: a GeoParquet file with a row for each patch that was written.

Its columns are described in ``docs/reference/patch-table.md``. The file's metadata hold, as JSON, the grids and
shards that the rows belong to, so that a table is read without the manifests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr._version import __version__
from geotfr.errors import DamagedError, InputError, MissingInputError, OutputError, UsageError
from geotfr.grid.crs import same_crs
from geotfr.grid.footprints import LONLAT, bounds_outlines, lonlat_bounds, patch_corners
from geotfr.mixer.patch_tables import PATCH_TABLE_KEY
from geotfr.vectors.extra import load_arrow
from geotfr.vectors.geoparquet import Writable, geo_metadata, outline_wkb

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from geotfr.grid import GeoBox
    from geotfr.patches.rows import PatchRows
    from geotfr.records.places import RecordPlaces
    from geotfr.vectors.geoparquet import ByteSink

__all__ = [
    "PatchSet",
    "PatchTable",
    "TablePart",
    "read_patch_table",
    "rewrite_patch_table",
    "text_column",
    "write_batches",
    "write_patch_table",
]

TABLE_FORMAT = 1
_GROUP_ROWS = 1 << 15
_STATISTICS = ("count", "min", "max", "mean", "std")
# Columns whose least and greatest value tell nothing, or are their whole size.
_UNORDERED = ("sha256", "geometry")


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchSet:
    """One set of shards of one grid, as the table's metadata tell it.

    Attributes
    ----------
    source
        What the patches were cut from: the names of the rasters, joined by ``+``; empty where nobody knows.
    geobox
        The grid.
    patch_yx, margin_yx
        (rows, columns).
    rows, columns
        Patches of the grid.
    shards
        (name, bytes, CRC32C as 8 hex digits or empty) of each shard.
    fills
        Feature -> what its masked values hold; absent where nobody knows.
    """

    source: str
    geobox: GeoBox
    patch_yx: tuple[int, int]
    margin_yx: tuple[int, int]
    rows: int
    columns: int
    shards: tuple[tuple[str, int, str], ...]
    fills: Mapping[str, float]

    @property
    def kernel_yx(self) -> tuple[int, int]:
        """(rows, columns) of a kernel with these margins."""
        return max(2 * self.margin_yx[0], 1), max(2 * self.margin_yx[1], 1)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "source": self.source,
            "grid": {
                "crs": self.geobox.crs,
                "transform": list(self.geobox.affine),
                "height": self.geobox.shape_yx[0],
                "width": self.geobox.shape_yx[1],
            },
            "patch": list(self.patch_yx),
            "margin": list(self.margin_yx),
            "rows": self.rows,
            "columns": self.columns,
            "shards": [list(shard) for shard in self.shards],
            "fills": dict(self.fills),
        }

    @staticmethod
    def from_dict(found: Mapping[str, Any]) -> PatchSet:
        """What :meth:`to_dict` gave."""
        from geotfr.grid import GeoBox

        grid = found["grid"]
        a, b, c, d, e, f = (float(value) for value in grid["transform"])
        height, width = (int(side) for side in found["patch"])
        margin_y, margin_x = (int(side) for side in found["margin"])
        return PatchSet(
            source=str(found["source"]),
            geobox=GeoBox(
                shape_yx=(int(grid["height"]), int(grid["width"])), affine=(a, b, c, d, e, f), crs=str(grid["crs"])
            ),
            patch_yx=(height, width),
            margin_yx=(margin_y, margin_x),
            rows=int(found["rows"]),
            columns=int(found["columns"]),
            shards=tuple((str(name), int(size), str(crc)) for name, size, crc in found["shards"]),
            fills={str(name): float(value) for name, value in found["fills"].items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePart:
    """The rows of one set: what is in its patches, and where their records are."""

    patches: PatchSet
    rows: PatchRows
    places: RecordPlaces


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
        try:
            self.sets = tuple(PatchSet.from_dict(each) for each in described["sets"])
            self.extra: dict[str, Any] = dict(described.get("extra", {}))
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedError(f"{path}: the metadata of the patch table aren't whole; make it again") from error
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
            yield self._file.read_row_group(group)

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
        """A column as an array; numbers that are null are NaN (or -1 where the others are whole), texts None."""
        pa = load_arrow()
        values = self.arrow([name])[name].combine_chunks()
        if pa.types.is_integer(values.type) and values.null_count:
            values = values.fill_null(-1)
        found: NDArray[Any] = values.to_numpy(zero_copy_only=False)
        return found

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
            rows = self.arrow(names or ["number"]).append_column("\0row", load_arrow().array(np.arange(len(self))))
            is_true = np.zeros(len(self), np.bool_)
            is_true[rows.filter(condition)["\0row"].to_numpy()] = True
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
        found = pc.fill_null(pc.index_in(texts, value_set=pa.array(known, pa.string()), skip_nulls=True), -1)
        return found.to_numpy().astype(np.int64), known

    def digests(self) -> NDArray[np.void]:
        """The SHA-256 of each patch: ``(n,)`` of 32 bytes each."""
        values = self.arrow(["sha256"])["sha256"].combine_chunks()
        data = np.frombuffer(values.buffers()[1] or b"", np.dtype("V32"))
        found: NDArray[np.void] = data[values.offset : values.offset + len(values)]
        return found

    def set_numbers(self) -> NDArray[np.int64]:
        """For each row the number of its set in :attr:`sets`: ``(n,) int64``."""
        if len(self.sets) == 1:
            return np.zeros(len(self), np.int64)
        pc, pa = load_arrow("pyarrow.compute"), load_arrow()
        names = pa.array([each.source for each in self.sets])
        found = pc.index_in(self.arrow(["source"])["source"], value_set=names)
        if found.null_count:
            raise DamagedError(f"{self.path}: a row's source is in none of the table's sets; make the table again")
        return np.asarray(found.to_numpy(), np.int64)


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
    path = Path(path)
    pa, pq = load_arrow(), load_arrow("pyarrow.parquet")
    if not path.is_file():
        raise MissingInputError(f"{path}: no such file; 'geotfr table' makes a patch table")
    try:
        file = pq.ParquetFile(path)
        text = (file.schema_arrow.metadata or {}).get(PATCH_TABLE_KEY.encode())
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: no Parquet file: {' '.join(str(error).split())}") from error
    if text is None:
        raise InputError(f"{path}: a Parquet file, but no patch table; 'geotfr table' makes one of a set")
    try:
        described = json.loads(text)
        version = described["format"]
    except (ValueError, KeyError, TypeError) as error:
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
    layout = _Layout(parts)
    for name in added:
        if any(field.name == name for field in layout.fields):
            raise UsageError(f"column {name!r} is the table's own; rename yours")
    geo = geo_metadata(
        "geometry", geometry_types=["Polygon"], crs=layout.crs, bounds=_all_bounds(layout, parts), is_ccw=True
    )
    described = {
        "format": TABLE_FORMAT,
        "geotfr_version": __version__,
        "sets": [part.patches.to_dict() for part in parts],
        "extra": {},
    }
    fields = [*layout.fields, *(pa.field(name, array.type) for name, array in added.items())]
    schema = pa.schema(fields, metadata={"geo": json.dumps(geo), PATCH_TABLE_KEY: json.dumps(described)})

    def batches() -> Iterator[Any]:
        row = 0
        for part in parts:
            for arrays, count in layout.batches(part):
                arrays |= {name: array.slice(row, count) for name, array in added.items()}
                row += count
                yield pa.table([arrays[field.name] for field in schema], schema=schema)

    write_batches(file, schema, batches())
    return tuple(schema.names)


def text_column(codes: NDArray[np.int64], texts: Sequence[str]) -> Any:
    """A pyarrow array of ``texts`` by their numbers; -1 is null."""
    pa = load_arrow()
    places = pa.array(np.maximum(codes, 0).astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(places, pa.array(list(texts) or [""], pa.string())).cast(pa.string())


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
    described["extra"] = {**described.get("extra", {}), **(extra or {})}
    if places is not None:
        described["sets"] = [{**each, "shards": [list(shard) for shard in shards]} for each in described["sets"]]
    metadata[PATCH_TABLE_KEY.encode()] = json.dumps(described)
    schema = pa.schema(fields, metadata=metadata)

    def batches() -> Iterator[Any]:
        row = written = 0
        for read in table.groups():
            arrays = {name: read[name] for name in read.column_names}
            arrays |= {name: array.slice(row, read.num_rows) for name, array in columns.items()}
            made = pa.table([arrays[field.name] for field in schema], schema=schema)
            if kept is not None:
                made = made.filter(pa.array(kept[row : row + read.num_rows]))
            if places is not None:
                part = places.part(slice(written, written + made.num_rows))
                for name, array in _place_arrays(part, [name for name, _, _ in shards]).items():
                    made = made.set_column(schema.get_field_index(name), schema.field(name), array)
            row, written = row + read.num_rows, written + made.num_rows
            yield made

    write_batches(file, schema, batches())


def _place_arrays(places: RecordPlaces, names: Sequence[str]) -> dict[str, Any]:
    """The columns that tell where records are."""
    pa = load_arrow()
    return {
        "shard": pa.DictionaryArray.from_arrays(pa.array(places.shards), pa.array(names, pa.string())).cast(
            pa.string()
        ),
        "record": pa.array(places.records),
        "offset": pa.array(places.offsets),
        "member": pa.array(places.members, mask=places.members < 0),
        "member_start": pa.array(places.member_starts, mask=places.members < 0),
    }


class _Layout:
    """The columns that all parts together have, and the batches that fill them."""

    def __init__(self, parts: Sequence[TablePart]) -> None:
        pa = load_arrow()
        crs = parts[0].patches.geobox.crs
        self.is_one_crs = all(same_crs(part.patches.geobox.crs, crs) for part in parts)
        self.crs = crs if self.is_one_crs else LONLAT
        self.features = list(dict.fromkeys(name for part in parts for name in part.rows.statistics))
        self.classes: dict[str, list[int]] = {}
        for part in parts:
            for name, counts in part.rows.classes.items():
                self.classes[name] = sorted({*self.classes.get(name, ()), *counts.classes.tolist()})
        whole, number, text, small = pa.int64(), pa.float64(), pa.string(), pa.int32()
        types = {
            "number": whole,
            "row": small,
            "column": small,
            "shard": text,
            "record": whole,
            "records": small,
            "offset": whole,
            "length": whole,
            "member": whole,
            "member_start": whole,
            "sha256": pa.binary(32),
            "valid_share": number,
            "masked_share": number,
        }
        for name in self.features:
            types |= {f"{each}_{name}": whole if each == "count" else number for each in _STATISTICS}
        for name, classes in self.classes.items():
            types |= {_share_name(name, value, self.classes): number for value in classes}
        types |= dict.fromkeys(("west", "south", "east", "north"), number)
        types |= {"source": text, "split": text, "geometry": pa.binary()}
        self.fields = [pa.field(name, kind) for name, kind in types.items()]

    def batches(self, part: TablePart) -> Iterator[tuple[dict[str, Any], int]]:
        """The columns of some rows at a time, and how many."""
        for start in range(0, len(part.rows), _GROUP_ROWS):
            rows = slice(start, min(start + _GROUP_ROWS, len(part.rows)))
            yield self._arrays(part, rows), rows.stop - rows.start

    def _arrays(self, part: TablePart, rows: slice) -> dict[str, Any]:
        pa = load_arrow()
        patches, numbers, places = part.patches, part.rows.numbers[rows], part.places.part(rows)
        row, column = np.divmod(numbers, patches.columns)
        count = len(numbers)
        bounds = lonlat_bounds(patches.geobox.crs, patches.geobox.affine, patches.patch_yx, row, column)
        digests = np.ascontiguousarray(part.rows.digests[rows])
        arrays = {
            "number": pa.array(numbers),
            "row": pa.array(row.astype(np.int32)),
            "column": pa.array(column.astype(np.int32)),
            **_place_arrays(places, [name for name, _, _ in patches.shards]),
            "records": pa.array(np.full(count, part.rows.records, np.int32)),
            "length": pa.array(part.rows.lengths[rows]),
            "sha256": pa.Array.from_buffers(pa.binary(32), count, [None, pa.py_buffer(digests)]),
            "source": pa.repeat(pa.scalar(patches.source or None, pa.string()), count),
            "split": pa.nulls(count, pa.string()),
            "geometry": outline_wkb(self._outlines(patches, row, column, bounds)),
        }
        for place, name in enumerate(("west", "south", "east", "north")):
            arrays[name] = _floats(bounds[:, place])
        arrays |= _shares(part, rows, count)
        arrays |= self._statistics(part, rows, count)
        return arrays

    def _outlines(
        self, patches: PatchSet, row: NDArray[np.int64], column: NDArray[np.int64], bounds: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        if self.is_one_crs:
            return patch_corners(patches.geobox.affine, patches.patch_yx, row, column)
        return bounds_outlines(bounds)

    def _statistics(self, part: TablePart, rows: slice, count: int) -> dict[str, Any]:
        pa = load_arrow()
        arrays: dict[str, Any] = {}
        for name in self.features:
            found = part.rows.statistics.get(name)
            if found is None:
                arrays |= {
                    f"{each}_{name}": pa.nulls(count, pa.int64() if each == "count" else pa.float64())
                    for each in _STATISTICS
                }
                continue
            arrays[f"count_{name}"] = pa.array(found.counts[rows])
            arrays[f"min_{name}"] = _floats(found.lows[rows])
            arrays[f"max_{name}"] = _floats(found.highs[rows])
            arrays[f"mean_{name}"] = _floats(found.means[rows])
            arrays[f"std_{name}"] = _floats(found.deviations[rows])
        pixels = part.patches.patch_yx[0] * part.patches.patch_yx[1]
        for name, classes in self.classes.items():
            counts = part.rows.classes.get(name)
            known = {} if counts is None else dict(zip(counts.classes.tolist(), counts.counts[rows].T, strict=True))
            for value in classes:
                share = pa.nulls(count, pa.float64())
                if counts is not None:
                    share = pa.array(known[value] / pixels if value in known else np.zeros(count))
                arrays[_share_name(name, value, self.classes)] = share
        return arrays


def _share_name(band: str, value: int, classes: Mapping[str, Any]) -> str:
    return f"share_{value}" if len(classes) == 1 else f"share_{band}_{value}"


def _shares(part: TablePart, rows: slice, count: int) -> dict[str, Any]:
    pa = load_arrow()
    if part.rows.masked is None:
        return {name: pa.nulls(count, pa.float64()) for name in ("valid_share", "masked_share")}
    masked = part.rows.masked[rows] / (part.patches.patch_yx[0] * part.patches.patch_yx[1])
    return {"valid_share": pa.array(1 - masked), "masked_share": pa.array(masked)}


def _floats(values: NDArray[np.float64]) -> Any:
    """An array whose NaN are null."""
    return load_arrow().array(values, from_pandas=True)


def _all_bounds(layout: _Layout, parts: Sequence[TablePart]) -> list[float] | None:
    """The bounds of all footprints; None without a row, and where some have no place."""
    boxes = []
    for part in parts:
        if not layout.is_one_crs or not len(part.rows):
            return None
        row, column = np.divmod(part.rows.numbers, part.patches.columns)
        ends = np.array([[r, c] for r in (row.min(), row.max()) for c in (column.min(), column.max())])
        outlines = patch_corners(part.patches.geobox.affine, part.patches.patch_yx, ends[:, 0], ends[:, 1])
        boxes.append(np.concatenate([outlines.min(axis=(0, 1)), outlines.max(axis=(0, 1))]))
    west, south = np.min(boxes, axis=0)[:2].tolist()
    east, north = np.max(boxes, axis=0)[2:].tolist()
    return [west, south, east, north]


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
    ordered = [field.name for field in schema if field.name not in _UNORDERED]
    try:
        with pq.ParquetWriter(
            pa.PythonFile(Writable(file), "w"),
            schema,
            # A third larger than zstd makes it, in 0.6 of the time.
            compression="snappy",
            use_dictionary=repeated,
            write_statistics=ordered,
        ) as writer:
            for batch in _ahead(batches):
                writer.write_table(batch, row_group_size=_GROUP_ROWS)
    except pa.ArrowException as error:
        raise OutputError(f"the patch table can't be written: {' '.join(str(error).split())}") from error

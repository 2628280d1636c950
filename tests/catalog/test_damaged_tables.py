"""Patch tables whose values no set has end in one error that names row and column, whatever reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracle.rasters import write_raster

import geotfr
from geotfr.errors import DamagedError

Change = Callable[[pa.Table], pa.Table]


def put(column: str, row: int, value: object, kind: pa.DataType | None = None) -> Change:
    def change(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index(column)
        values = table[column].to_pylist()
        values[row] = value
        return table.set_column(place, column, pa.array(values, kind or table.schema.field(column).type))

    return change


def retyped(column: str, kind: pa.DataType) -> Change:
    def change(table: pa.Table) -> pa.Table:
        values = [kind.to_pandas_dtype()(0) if kind != pa.string() else "x" for _ in range(table.num_rows)]
        return table.set_column(table.schema.get_field_index(column), column, pa.array(values, kind))

    return change


DAMAGES: dict[str, tuple[Change, str, int | None]] = {
    "another shard": (put("shard", 3, "other.tfrecord"), "shard", 3),
    "a shard elsewhere": (put("shard", 3, "../x.tfrecord"), "shard", 3),
    "no shard": (put("shard", 2, None), "shard", 2),
    "shards as numbers": (retyped("shard", pa.float64()), "shard", None),
    "a record beyond the shard": (put("record", 5, 16), "record", 5),
    "a record far beyond": (put("record", 5, 2**62), "record", 5),
    "a negative record": (put("record", 1, -1), "record", 1),
    "no record": (put("record", 1, None), "record", 1),
    "records as floats": (retyped("record", pa.float64()), "record", None),
    "records as text": (retyped("record", pa.string()), "record", None),
    "a negative number": (put("number", 4, -7), "number", 4),
    "a number beyond the grid": (put("number", 4, 10**9), "number", 4),
    "no number": (put("number", 0, None), "number", 0),
    "no digest": (put("sha256", 6, None), "sha256", 6),
    "short digests": (retyped("sha256", pa.string()), "sha256", None),
    "no record column": (lambda table: table.drop_columns(["record"]), "record", None),
}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    source = write_raster(tmp_path / "scene.tif", np.arange(1024, dtype=np.uint8).reshape(1, 32, 32))
    geotfr.export_image(source, tmp_path / "set", patch_dimensions=8, patch_table=True)
    return tmp_path / "set-patches.parquet"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_table_is_told_with_row_and_column(made: Path, damage: str) -> None:
    change, column, row = DAMAGES[damage]
    table = pq.read_table(made)
    pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), made)
    with pytest.raises(DamagedError) as caught:
        geotfr.PatchDataset(made, check_digests=True)
    assert f"column {column!r}" in str(caught.value)
    assert row is None or f"row {row}," in str(caught.value)


@pytest.mark.parametrize("kind", [pa.int32(), pa.uint64(), pa.dictionary(pa.int8(), pa.string())])
def test_a_table_edited_elsewhere_may_have_other_types_of_the_same_values(made: Path, kind: Any) -> None:
    table = pq.read_table(made)
    column = "shard" if pa.types.is_dictionary(kind) else "record"
    values = table[column].combine_chunks().cast(kind) if column == "record" else table[column].dictionary_encode()
    place = table.schema.get_field_index(column)
    pq.write_table(table.set_column(place, column, values).replace_schema_metadata(table.schema.metadata), made)
    dataset = geotfr.PatchDataset(made, check_digests=True)
    assert [int(dataset[number]["b1"][0, 0]) for number in range(3)] == [0, 8, 16]

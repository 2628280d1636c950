"""CSV and binary files flow as what Python's csv and numpy read of them."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import numpy as np
import pytest

import geotfr
from geotfr.errors import DamagedError, InputError, MissingInputError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

TEXT = 'lon,lat,"kind, of",n\n1.5,2,rice,3\n,4,"a ""b""\nc",\n-1e3,,,-7\n'


def test_lines_are_typed_and_empty_cells_take_their_default(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(TEXT)
    columns = {"n": 9, "lon": 0.5, "kind, of": "none", "lat": np.float64(-1)}
    rows = list(geotfr.stream_csv(path, columns))
    assert [list(row) for row in rows] == [["key", "n", "lon", "kind, of", "lat"]] * 3
    assert [row["key"] for row in rows] == [f"{path}:{number}" for number in range(3)]
    assert [row["n"] for row in rows] == [3, 9, -7]
    assert [row["lon"] for row in rows] == [1.5, 0.5, -1000]
    assert [row["kind, of"] for row in rows] == ["rice", 'a "b"\nc', "none"]
    assert [row["lat"] for row in rows] == [2, 4, -1]
    assert [rows[0][name].dtype for name in ("n", "lon", "lat")] == [np.int64, np.float32, np.float64]


@pytest.mark.parametrize("form", ["plain", "gzip", "mark"])
def test_files_of_many_lines_batch_and_shuffle(tmp_path: Path, form: str) -> None:
    for file in range(2):
        text = "\ufeff" * (form == "mark") + "".join(f"{file};{line}\r\n" for line in range(5000))
        content = text.encode()
        (tmp_path / f"{file}.csv").write_bytes(gzip.compress(content) if form == "gzip" else content)
    stream = geotfr.stream_csv(
        str(tmp_path / "*.csv"), {"file": int, "line": int}, header=False, delimiter=";", key="where"
    )
    batches = list(stream.shuffle(3000).batch(999))
    where = [key for batch in batches for key in batch["where"].tolist()]
    files = np.concatenate([batch["file"] for batch in batches])
    lines = np.concatenate([batch["line"] for batch in batches])
    assert where == [f"{tmp_path / str(f)}.csv:{n}" for f, n in zip(files.tolist(), lines.tolist(), strict=True)]
    assert sorted(zip(files.tolist(), lines.tolist(), strict=True)) == [(f, n) for f in range(2) for n in range(5000)]


def test_bad_lines_and_columns_are_told_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,x\n\n2,y\n,z\n3\n")
    cases = {
        (InputError, r"a\.csv: no column 'aa'; there are a, b; did you mean a\?"): {"aa": 0},
        (DamagedError, r"a\.csv: line 6: 1 columns; 2 are wanted"): {"b": ""},
        (DamagedError, r"a\.csv: line 5: column 'a' is empty and has no default"): {"a": int},
    }
    for (error, message), columns in cases.items():
        with pytest.raises(error, match=message):
            list(geotfr.stream_csv(path, columns))
    path.write_text("a\n1\nx\n")
    with pytest.raises(DamagedError, match=r"a\.csv: line 3: column 'a': 'x' is no int64"):
        list(geotfr.stream_csv(path, {"a": 0}))
    path.write_bytes(b"a\n\xff\n")
    with pytest.raises(DamagedError, match="no CSV in UTF-8"):
        list(geotfr.stream_csv(path, {"a": 0}))
    for columns, message in (({}, "columns: none"), ({"a": None}, "found None"), ({"a": b"x"}, "found b'x'")):
        with pytest.raises(UsageError, match=message):
            geotfr.stream_csv(path, columns)
    with pytest.raises(UsageError, match="key: 'a' is a column too"):
        geotfr.stream_csv(path, {"a": 0}, key="a")
    with pytest.raises(MissingInputError, match="no file matches"):
        geotfr.stream_csv(str(tmp_path / "*.txt"), {"a": 0})


@pytest.mark.parametrize("is_gzip", [False, True])
@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_binary_records_are_those_of_numpy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, is_gzip: bool
) -> None:
    monkeypatch.setattr("geotfr.datasets.streams.table_files.BYTES_AT_ONCE", chunk)
    dtype = np.dtype([("id", ">i2"), ("values", "<f4", (3,)), ("flag", "u1")])
    records = np.zeros(40, dtype)
    records["id"] = np.arange(40)
    records["values"] = np.random.default_rng(2).normal(size=(40, 3))
    content = b"head" + records.tobytes() + b"foot!"
    path = tmp_path / "a.bin"
    path.write_bytes(gzip.compress(content) if is_gzip else content)
    got = list(geotfr.stream_binary(path, dtype, header_bytes=4, footer_bytes=5))
    assert [row["id"] for row in got] == list(range(40))
    np.testing.assert_array_equal(np.stack([row["values"] for row in got]), records["values"])
    assert [row["key"] for row in got] == [f"{path}:{number}" for number in range(40)]
    raw = list(geotfr.stream_binary(path, dtype.itemsize, header_bytes=4, footer_bytes=5, key=None))
    assert b"".join(row["record"].tobytes() for row in raw) == records.tobytes()


def test_binary_files_of_no_whole_records_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(10))
    with pytest.raises(DamagedError, match="2 bytes are left after 2 records of 4; a footer of 0 is wanted"):
        list(geotfr.stream_binary(path, 4))
    with pytest.raises(DamagedError, match="10 bytes; a header of 20 is wanted"):
        list(geotfr.stream_binary(path, 4, header_bytes=20))
    path.write_bytes(gzip.compress(bytes(10))[:-9])
    with pytest.raises(DamagedError, match="can't be read"):
        list(geotfr.stream_binary(path, 5))
    for dtype, options, message in (
        (np.dtype(object), {}, "no Python objects"),
        (4, {"header_bytes": -1}, "header -1"),
        ([("a", "u1")], {"key": "a"}, "key: 'a' is a field too"),
    ):
        with pytest.raises(UsageError, match=message):
            geotfr.stream_binary(path, dtype, **options)

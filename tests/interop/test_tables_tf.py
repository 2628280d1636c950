"""TensorFlow reads each kind of a table's features, and geotfr reads TensorFlow's tables."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.interop
tf = pytest.importorskip("tensorflow")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = 300


def table() -> Any:
    random = np.random.default_rng(1)
    return pa.table(
        {
            "x": random.normal(size=ROWS),
            "n": random.integers(-300, 300, ROWS),
            "flag": random.random(ROWS) < 0.5,
            "text": [f"é{'x' * (row % 40)}" for row in range(ROWS)],
            "day": [datetime.date(2020, 1, 1) + datetime.timedelta(row) for row in range(ROWS)],
            "pair": pa.array(random.random((ROWS, 2)).tolist(), pa.list_(pa.float32(), 2)),
            "several": [[float(value) for value in range(row % 4)] for row in range(ROWS)],
            "missing": [None if row % 3 else 0.5 for row in range(ROWS)],
        }
    )


def parsed(path: Path, spec: dict[str, Any]) -> Any:
    dataset = tf.data.TFRecordDataset(str(path), compression_type="GZIP")
    return tf.io.parse_example(list(dataset.as_numpy_iterator()), spec)


@pytest.mark.parametrize("compressor", ["fast", "ee"])
@pytest.mark.parametrize("kinds", ["float", "native"])
def test_tensorflow_reads_every_kind(kinds: str, compressor: str, tmp_path: Path) -> None:
    source = table()
    pq.write_table(source, tmp_path / "t.parquet")
    result = geotfr.export_table(tmp_path / "t.parquet", tmp_path / "out", feature_kinds=kinds, compressor=compressor)
    whole = tf.int64 if kinds == "native" else tf.float32
    found = parsed(
        result.records,
        {
            "x": tf.io.FixedLenFeature([], tf.float32),
            "n": tf.io.FixedLenFeature([], whole),
            "flag": tf.io.FixedLenFeature([], whole),
            "text": tf.io.FixedLenFeature([], tf.string),
            "day": tf.io.FixedLenFeature([], tf.string),
            "pair": tf.io.FixedLenFeature([2], tf.float32),
            "several": tf.io.VarLenFeature(tf.float32),
            "missing": tf.io.FixedLenFeature([], tf.float32, default_value=-1),
        },
    )
    assert np.array_equal(found["x"].numpy(), source["x"].to_numpy().astype(np.float32))
    assert np.array_equal(found["n"].numpy(), source["n"].to_numpy())
    assert np.array_equal(found["flag"].numpy(), source["flag"].to_numpy())
    assert [text.decode() for text in found["text"].numpy()] == source["text"].to_pylist()
    assert [text.decode() for text in found["day"].numpy()] == [day.isoformat() for day in source["day"].to_pylist()]
    assert found["pair"].numpy().tolist() == source["pair"].to_pylist()
    several = tf.RaggedTensor.from_sparse(found["several"])
    assert several.to_list() == source["several"].to_pylist()
    assert np.array_equal(found["missing"].numpy() < 0, [row % 3 != 0 for row in range(ROWS)])


def test_many_rows_of_numbers_are_one_stream_to_tensorflow(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    source = {"x": random.normal(size=20_000), "n": random.integers(0, 9, 20_000).astype(float)}
    pq.write_table(pa.table(source), tmp_path / "t.parquet")
    result = geotfr.export_table(tmp_path / "t.parquet", tmp_path / "out", workers=2)
    found = parsed(result.records, dict.fromkeys(source, tf.io.FixedLenFeature([], tf.float32)))
    for name, values in source.items():
        assert np.array_equal(found[name].numpy(), values.astype(np.float32))


def test_tables_that_tensorflow_wrote_come_in(tmp_path: Path) -> None:
    path = tmp_path / "rows.tfrecord.gz"
    source = table()
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
        for row in source.to_pylist():
            feature = {
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=[row["x"]])),
                "n": tf.train.Feature(int64_list=tf.train.Int64List(value=[row["n"]])),
                "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[row["text"].encode()])),
                "several": tf.train.Feature(float_list=tf.train.FloatList(value=row["several"])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    geotfr.ingest_table(path, tmp_path / "back.parquet")
    back = pq.read_table(tmp_path / "back.parquet")
    assert sorted(back.column_names) == ["n", "several", "text", "x"]
    assert back["x"].to_pylist() == source["x"].to_numpy().astype(np.float32).tolist()
    for name in ("n", "text", "several"):
        assert back[name].to_pylist() == source[name].to_pylist()

"""What TensorFlow reads from a file is what geotfr reads, and both live in one process."""

from __future__ import annotations

import gzip
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from records_reading.shards import frame, sized_member

from geotfr.integrity.indexing import write_index
from geotfr.integrity.inspect import inspect, parsing_code_of
from geotfr.integrity.verify import verify
from geotfr.records.crc import masked_crc32c_rows
from geotfr.records.index import IndexedRecords
from geotfr.records.reader import read_features, read_records

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.interop
tf = pytest.importorskip("tensorflow")


def examples(count: int) -> list[bytes]:
    rng = np.random.default_rng(1)

    def make(number: int) -> bytes:
        return tf.train.Example(
            features=tf.train.Features(
                feature={
                    "b1": tf.train.Feature(float_list=tf.train.FloatList(value=rng.normal(size=5))),
                    "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[number * 97 - 3000])),
                    "name": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"x" * (number % 4)])),
                }
            )
        ).SerializeToString()

    return [make(number) for number in range(count)]


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_files_that_tensorflow_wrote_are_read_to_its_values(tmp_path: Path, compression: str) -> None:
    path = str(tmp_path / "a.tfrecord")
    payloads = examples(200)
    with tf.io.TFRecordWriter(path, compression) as writer:
        for payload in payloads:
            writer.write(payload)
    assert list(read_records(path)) == payloads
    specs = {
        "b1": tf.io.FixedLenFeature([5], tf.float32),
        "id": tf.io.FixedLenFeature([1], tf.int64),
        "name": tf.io.FixedLenFeature([], tf.string),
    }
    wanted = [tf.io.parse_single_example(payload, specs) for payload in payloads]
    number = 0
    for batch in read_features(path):
        for row in range(len(batch)):
            assert np.array_equal(batch.features["b1"][row], wanted[number]["b1"].numpy())
            assert np.array_equal(batch.features["id"][row], wanted[number]["id"].numpy())
            assert batch.features["name"][row].tobytes() == wanted[number]["name"].numpy()
            number += 1
    assert number == 200


@pytest.mark.parametrize("member", [gzip.compress, sized_member])
def test_many_members_are_one_stream_for_both(tmp_path: Path, member) -> None:
    payloads = examples(50)
    path = tmp_path / "a.tfrecord.gz"
    path.write_bytes(b"".join(member(frame(payload)) for payload in payloads))
    dataset = tf.data.TFRecordDataset(str(path), "GZIP")
    assert [record.numpy() for record in dataset] == payloads == list(read_records(path))


def test_checksums_are_tensorflows(tmp_path: Path) -> None:
    rows = np.random.default_rng(2).integers(0, 256, (20, 60), np.uint8)
    path = tmp_path / "a"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in rows:
            writer.write(row.tobytes())
    stored = np.frombuffer(path.read_bytes(), np.uint8).reshape(20, 76)[:, -4:].copy().view("<u4")[:, 0]
    assert np.array_equal(masked_crc32c_rows(rows), stored)


@pytest.mark.parametrize("order", ["geotfr first", "tensorflow first"])
def test_message_types_live_beside_tensorflows_in_either_order(order: str) -> None:
    ours = "from geotfr.records.messages import example_class; E = example_class(); E()\n"
    theirs = "import tensorflow as tf; tf.train.Example()\n"
    check = (
        "m = tf.train.Example(); m.features.feature['a'].float_list.value.append(1.5)\n"
        "assert E.FromString(m.SerializeToString()).features.feature['a'].float_list.value[0] == 1.5\n"
        "assert E is not tf.train.Example\n"
    )
    script = (ours + theirs if order == "geotfr first" else theirs + ours) + check
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_the_printed_code_reads_the_inspected_files(tmp_path: Path, compression: str) -> None:
    path = str(tmp_path / "a.tfrecord")
    payloads = examples(40)
    with tf.io.TFRecordWriter(path, compression) as writer:
        for payload in payloads:
            writer.write(payload)
    names: dict = {}
    exec(parsing_code_of(inspect(path), "tf"), names)
    batches = list(names["dataset"])
    assert sum(batch["b1"].shape[0] for batch in batches) == 40
    assert batches[0]["id"].numpy()[:3, 0].tolist() == [-3000, -2903, -2806]
    assert batches[0]["name"].numpy()[:3].tolist() == [b"", b"x", b"xx"]


def test_an_index_reaches_what_tensorflow_reads(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord.gz"
    payloads = examples(30)
    path.write_bytes(b"".join(sized_member(frame(payload)) for payload in payloads))
    write_index(path)
    records = IndexedRecords(path)
    for number, record in enumerate(tf.data.TFRecordDataset(str(path), "GZIP")):
        assert records[number] == record.numpy()


def test_what_verify_refuses_tensorflow_refuses_too(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    whole = b"".join(map(frame, examples(3)))
    for place in range(0, len(whole), 5):
        path.write_bytes(whole[:place] + bytes((whole[place] ^ 16,)) + whole[place + 1 :])
        assert not verify(path).is_good
        with pytest.raises(tf.errors.DataLossError):
            list(tf.data.TFRecordDataset(str(path)))

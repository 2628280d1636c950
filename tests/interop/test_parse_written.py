"""What geotfr writes, TensorFlow reads; pictures go both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geotfr.rasters.encoded import decode_picture, encode_picture
from geotfr.records.parse.code import features_code, parsing_code
from geotfr.records.parse.infer import infer_features
from geotfr.storage.example_files import write_examples, write_sequence_examples

pytestmark = pytest.mark.interop
tf = pytest.importorskip("tensorflow")
tf.get_logger().setLevel("ERROR")

PATCH = np.random.default_rng(7).random((6, 4), np.float32)
RECORDS: list[dict[str, Any]] = [
    {"B4": PATCH * number, "class": np.array([number, -number, 2**40]), "name": f"é{number}", "raw": b"\x00\xff"}
    for number in range(5)
]


@pytest.mark.parametrize(
    ("compression", "compressor"), [("none", "fast"), ("gzip", "fast"), ("gzip", "ee"), ("zlib", "fast")]
)
def test_tensorflow_reads_written_examples(tmp_path: Path, compression: Any, compressor: Any) -> None:
    written = write_examples(
        tmp_path / "a.tfrecord", RECORDS, compression=compression, compressor=compressor, records_per_shard=2
    )
    names = [str(path) for path in written.paths]
    dataset = tf.data.TFRecordDataset(names, "" if compression == "none" else compression.upper())
    specs = {
        "B4": tf.io.FixedLenFeature([6, 4], tf.float32),
        "class": tf.io.FixedLenFeature([3], tf.int64),
        "name": tf.io.FixedLenFeature([], tf.string),
        "raw": tf.io.FixedLenFeature([], tf.string),
    }
    found = [tf.io.parse_single_example(record, specs) for record in dataset]
    assert len(found) == 5
    for each, record in zip(found, RECORDS, strict=True):
        assert np.array_equal(each["B4"].numpy(), record["B4"])
        assert np.array_equal(each["class"].numpy(), record["class"])
        assert each["name"].numpy() == record["name"].encode()
        assert each["raw"].numpy() == record["raw"]


def test_tensorflow_reads_written_sequences(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    write_sequence_examples(path, [({"s": float(number)}, {"t": np.array([1, number])}) for number in range(3)])
    records = list(tf.data.TFRecordDataset(str(path)))
    context, lists, _ = tf.io.parse_sequence_example(
        tf.stack(records),
        {"s": tf.io.FixedLenFeature([], tf.float32)},
        {"t": tf.io.FixedLenSequenceFeature([], tf.int64)},
    )
    assert context["s"].numpy().tolist() == [0, 1, 2]
    assert lists["t"].numpy().tolist() == [[1, 0], [1, 1], [1, 2]]


def test_the_printed_pipeline_runs_in_tensorflow(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord.gz"
    write_examples(path, RECORDS, compression="gzip")
    features = infer_features(path)
    assert set(eval(features_code(features, target="tf"), {"tf": tf})) == set(RECORDS[0])
    scope: dict[str, Any] = {}
    exec(parsing_code(features, [str(path)], target="tf", is_gzip=True), scope)
    (batch,) = scope["dataset"]
    assert batch["B4"].shape == (5, 24)


@pytest.mark.parametrize("shape", [(8, 6, 1), (8, 6, 3), (8, 6, 4)])
def test_pictures_go_both_ways(shape: tuple[int, ...]) -> None:
    picture = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    assert np.array_equal(tf.io.decode_png(encode_picture(picture)).numpy(), picture)
    assert np.array_equal(decode_picture(tf.io.encode_png(picture).numpy()), picture)
    if shape[-1] != 4:
        # With the colours at half the resolution decoders smooth noise in different ways.
        data = tf.io.encode_jpeg(picture, quality=95, chroma_downsampling=False).numpy()
        theirs = tf.io.decode_jpeg(data, dct_method="INTEGER_ACCURATE").numpy().astype(int)
        assert np.abs(decode_picture(data) - theirs).max() <= 4
        assert tf.io.decode_jpeg(encode_picture(picture, driver="jpeg")).shape == shape

"""TensorFlow reads the objects of a record as its object detection asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from labels.test_burnt_labels import export, frame, scene
from oracle import wire

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.interop
tf = pytest.importorskip("tensorflow")

FLOATS = [*(f"image/object/bbox/{side}" for side in ("xmin", "xmax", "ymin", "ymax")), "image/object/polygon/xy"]
RINGS = [f"image/object/polygon/{part}" for part in ("points", "object", "hole")]
WHOLE = ["image/object/class/label", "image/object/instance", *RINGS]


def test_tensorflow_and_geotfr_parse_what_the_records_hold(tmp_path: Path) -> None:
    result = export(scene(tmp_path), tmp_path, frame(), label_field="class", label_features="polygons")
    spec = {
        **{name: tf.io.VarLenFeature(tf.float32) for name in FLOATS},
        **{name: tf.io.VarLenFeature(tf.int64) for name in WHOLE},
        "image/object/class/text": tf.io.VarLenFeature(tf.string),
        "image/height": tf.io.FixedLenFeature([], tf.int64),
        "b1": tf.io.FixedLenFeature([22, 22], tf.float32),
    }
    payloads = list(tf.data.TFRecordDataset([str(path) for path in result.shards], compression_type="GZIP"))
    records = [record for shard in result.shards for record in wire.read_shard(shard)]
    assert len(payloads) == len(records) > 10
    for payload, record in zip(payloads, records, strict=True):
        found = tf.io.parse_single_example(payload, spec)
        assert int(found["image/height"]) == 22
        for name in (*FLOATS, *WHOLE):
            np.testing.assert_array_equal(found[name].values.numpy(), record[name])
        assert found["image/object/class/text"].values.numpy().tolist() == record["image/object/class/text"]
    batch = tf.io.parse_example([payload.numpy() for payload in payloads], spec)
    ours = geotfr.parse_example(
        [payload.numpy() for payload in payloads],
        {name: geotfr.VarLenFeature("float32") for name in FLOATS},
    )
    for name in FLOATS:
        np.testing.assert_array_equal(ours[name].values, batch[name].values.numpy())
        np.testing.assert_array_equal(ours[name].indices, batch[name].indices.numpy())

"""The examples printed in TensorFlow's documentation of the five specs, in geotfr and in TensorFlow.

**Source**: the documentation of ``tf.io.parse_example``, ``tf.io.RaggedFeature``, ``tf.io.SparseFeature`` and
``tf.io.parse_sequence_example``, TensorFlow 2.21. Behind them, what the generated records don't hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parsing import wire

from geotfr.errors import RecordError
from geotfr.records.parse.example import parse_example, parse_single_example
from geotfr.records.parse.sequence import parse_sequence_example
from geotfr.records.parse.specs import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
)

pytestmark = pytest.mark.interop
tf = pytest.importorskip("tensorflow")
tf.get_logger().setLevel("ERROR")


def example(text: str) -> bytes:
    """A serialized Example from protobuf's text form, as the documentation prints it."""
    from google.protobuf import text_format

    return text_format.Parse(text, tf.train.Example()).SerializeToString()


def sparse(value: Any) -> tuple[list[Any], list[Any], list[int]]:
    as_list = (value.indices, value.values, value.dense_shape)
    indices, values, shape = (np.asarray(each).tolist() for each in as_list)
    return indices, values, shape


FT = [
    example('features { feature { key: "ft" value { float_list { value: [1.0, 2.0] } } } }'),
    example("features { }"),
    example('features { feature { key: "ft" value { float_list { value: [3.0] } } } }'),
]


def test_variable_lengths() -> None:
    printed = ([[0, 0], [0, 1], [2, 0]], [1.0, 2.0, 3.0], [3, 2])
    assert sparse(parse_example(FT, {"ft": VarLenFeature(np.float32)})["ft"]) == printed
    assert sparse(tf.io.parse_example(FT, {"ft": tf.io.VarLenFeature(tf.float32)})["ft"]) == printed


def test_padded_lists() -> None:
    # Printed without the record that lacks the feature.
    printed = [[1.0, 2.0], [-1.0, -1.0], [3.0, -1.0]]
    ours = parse_example(FT, {"ft": FixedLenSequenceFeature([], np.float32, allow_missing=True, default_value=-1.0)})
    theirs = tf.io.parse_example(
        FT, {"ft": tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True, default_value=-1.0)}
    )
    assert np.asarray(ours["ft"]).tolist() == theirs["ft"].numpy().tolist() == printed


KEYWORDS = [
    example(
        """features {
          feature { key: "kw" value { bytes_list { value: [ "knit", "big" ] } } }
          feature { key: "gps" value { float_list { value: [] } } }
        }"""
    ),
    example(
        """features {
          feature { key: "kw" value { bytes_list { value: [ "emmy" ] } } }
          feature { key: "dank" value { int64_list { value: [ 42 ] } } }
          feature { key: "gps" value { } }
        }"""
    ),
]


def test_empty_lists_and_features_without_a_kind() -> None:
    ours = {"kw": VarLenFeature(bytes), "dank": VarLenFeature(np.int64), "gps": VarLenFeature(np.float32)}
    parsed = parse_example(KEYWORDS, ours, ["input0", "input1"])
    assert sparse(parsed["kw"]) == ([[0, 0], [0, 1], [1, 0]], [b"knit", b"big", b"emmy"], [2, 2])
    assert sparse(parsed["dank"]) == ([[1, 0]], [42], [2, 1])
    assert sparse(parsed["gps"]) == ([], [], [2, 0])


def test_an_empty_list_takes_the_default_as_printed() -> None:
    records = [
        example(
            """features {
              feature { key: "age" value { int64_list { value: [ 0 ] } } }
              feature { key: "gender" value { bytes_list { value: [ "f" ] } } }
            }"""
        ),
        example(
            """features {
              feature { key: "age" value { int64_list { value: [] } } }
              feature { key: "gender" value { bytes_list { value: [ "f" ] } } }
            }"""
        ),
    ]
    parsed = parse_example(records, {"age": FixedLenFeature([], np.int64, -1), "gender": FixedLenFeature([], bytes)})
    # The documentation prints [[0], [-1]] for the shape [], which is one value per record.
    assert np.asarray(parsed["age"]).tolist() == [0, -1]
    assert np.asarray(parsed["gender"]).tolist() == [b"f", b"f"]
    # TensorFlow's own code doesn't do what it prints.
    with pytest.raises(tf.errors.InvalidArgumentError, match="age"):
        tf.io.parse_example(records, {"age": tf.io.FixedLenFeature([], tf.int64, -1)})


def test_sparse_features() -> None:
    records = [
        example(
            """features {
              feature { key: "val" value { float_list { value: [ 0.5, -1.0 ] } } }
              feature { key: "ix" value { int64_list { value: [ 3, 20 ] } } }
            }"""
        ),
        example(
            """features {
              feature { key: "val" value { float_list { value: [ 0.0 ] } } }
              feature { key: "ix" value { int64_list { value: [ 42 ] } } }
            }"""
        ),
    ]
    printed = ([[0, 3], [0, 20], [1, 42]], [0.5, -1.0, 0.0], [2, 100])
    ours = SparseFeature(index_key="ix", value_key="val", dtype=np.float32, size=100)
    theirs = tf.io.SparseFeature(index_key="ix", value_key="val", dtype=tf.float32, size=100)
    assert sparse(parse_example(records, {"sparse": ours})["sparse"]) == printed
    assert sparse(tf.io.parse_example(records, {"sparse": theirs})["sparse"]) == printed


def test_sparse_features_of_two_dimensions() -> None:
    record = example(
        """features {
          feature { key: "val" value { float_list { value: [ 0.5, -1.0 ] } } }
          feature { key: "ix0" value { int64_list { value: [ 3, 20 ] } } }
          feature { key: "ix1" value { int64_list { value: [ 1, 0 ] } } }
        }"""
    )
    spec = SparseFeature(index_key=["ix0", "ix1"], value_key="val", dtype=np.float32, size=[100, 3])
    parsed = parse_single_example(record, {"sparse": spec})["sparse"]
    assert sparse(parsed) == ([[3, 1], [20, 0]], [0.5, -1.0], [100, 3])


def test_ragged_features() -> None:
    batch = [
        example(
            """features {
              feature {key: "v" value {int64_list {value: [3, 1, 4, 1, 5, 9]}}}
              feature {key: "s1" value {int64_list {value: [0, 2, 3, 3, 6]}}}
              feature {key: "s2" value {int64_list {value: [0, 2, 3, 4]}}}
            }"""
        ),
        example(
            """features {
              feature {key: "v" value {int64_list {value: [2, 7, 1, 8, 2, 8, 1]}}}
              feature {key: "s1" value {int64_list {value: [0, 3, 4, 5, 7]}}}
              feature {key: "s2" value {int64_list {value: [0, 1, 1, 4]}}}
            }"""
        ),
    ]
    splits = RaggedFeature.RowSplits
    features = {
        "f1": RaggedFeature(value_key="v", dtype=np.int64),
        "f2": RaggedFeature(value_key="v", dtype=np.int64, partitions=[splits("s1")]),
        "f3": RaggedFeature(value_key="v", dtype=np.int64, partitions=[splits("s2"), splits("s1")]),
    }
    single: Any = parse_single_example(batch[0], features)
    assert single["f1"].tolist() == [3, 1, 4, 1, 5, 9]
    assert single["f2"].to_list() == [[3, 1], [4], [], [1, 5, 9]]
    assert single["f3"].to_list() == [[[3, 1], [4]], [[]], [[1, 5, 9]]]
    parsed: Any = parse_example(batch, features)
    assert parsed["f1"].to_list() == [[3, 1, 4, 1, 5, 9], [2, 7, 1, 8, 2, 8, 1]]
    assert parsed["f2"].to_list() == [[[3, 1], [4], [], [1, 5, 9]], [[2, 7, 1], [8], [2], [8, 1]]]
    assert parsed["f3"].to_list() == [
        [[[3, 1], [4]], [[]], [[1, 5, 9]]],
        [[[2, 7, 1]], [], [[8], [2], [8, 1]]],
    ]


def test_shapes_of_sequences() -> None:
    record = tf.train.SequenceExample()
    for step in range(3):
        record.feature_lists.feature_list["scalar"].feature.add().float_list.value.append(step)
        record.feature_lists.feature_list["vector"].feature.add().int64_list.value.extend([step, step])
    _, lists, lengths = parse_sequence_example(
        [record.SerializeToString()] * 2,
        None,
        {"scalar": FixedLenSequenceFeature([], np.float32), "vector": FixedLenSequenceFeature([2], np.int64)},
    )
    assert np.shape(lists["scalar"]) == (2, 3)
    assert np.shape(lists["vector"]) == (2, 3, 2)
    assert lengths["scalar"].tolist() == [3, 3]


def test_entries_with_more_than_key_and_value_are_refused_by_both() -> None:
    entry = wire.field(1, b"a") + wire.field(2, wire.feature(("float", [1.0]))) + wire.UNKNOWN_FIELDS
    record = wire.field(1, wire.field(1, entry))
    with pytest.raises(RecordError):
        parse_example([record], {"a": VarLenFeature(np.float32)})
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.io.parse_example([record], {"a": tf.io.VarLenFeature(tf.float32)})


def test_keys_that_are_no_text_are_refused_where_tensorflow_steps_over_them() -> None:
    odd = wire.field(1, wire.field(1, b"\xff") + wire.field(2, wire.feature(("float", [1.0]))))
    record = wire.field(1, odd + wire.entry("a", wire.feature(("float", [2.0]))))
    with pytest.raises(RecordError, match="bytes are no Example"):
        parse_example([record], {"a": VarLenFeature(np.float32)})
    assert tf.io.parse_example([record], {"a": tf.io.VarLenFeature(tf.float32)})["a"].values.numpy().tolist() == [2.0]


def test_tensorflows_dtypes_are_understood() -> None:
    assert VarLenFeature(tf.string) == VarLenFeature(bytes)
    assert FixedLenFeature([], tf.float32) == FixedLenFeature([], np.float32)
    assert RaggedFeature(tf.int64, row_splits_dtype=tf.int64) == RaggedFeature("int64", row_splits_dtype="int64")

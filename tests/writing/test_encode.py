"""Encoding Python values, held against protobuf."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.wire import unframe
from parsing.wire import varint

from geotfr.errors import UsageError
from geotfr.records.encode import encode_example, encode_sequence_example, encode_varints
from geotfr.records.kind import Kind
from geotfr.records.messages import example_class, sequence_example_class
from geotfr.records.varying import example_records, list_column


def read(record: bytes) -> dict[str, tuple[str | None, list[Any]]]:
    """Key -> (kind, values), by protobuf."""
    message: Any = example_class().FromString(record)
    return {key: content(feature) for key, feature in message.features.feature.items()}


def content(feature: Any) -> tuple[str | None, list[Any]]:
    kind = feature.WhichOneof("kind")
    return kind, list(getattr(feature, kind).value) if kind else []


@pytest.mark.parametrize(
    ("value", "kind", "values"),
    [
        (b"\x00a\x00", "bytes_list", [b"\x00a\x00"]),
        ("é", "bytes_list", ["é".encode()]),
        (["a", b"b\x00"], "bytes_list", [b"a", b"b\x00"]),
        (np.array(["a", "bc"]), "bytes_list", [b"a", b"bc"]),
        (np.array([b"a\x00", "b"], object), "bytes_list", [b"a\x00", b"b"]),
        (True, "int64_list", [1]),
        (-3, "int64_list", [-3]),
        ([1, 2], "int64_list", [1, 2]),
        (np.int16(-5), "int64_list", [-5]),
        (np.arange(4, dtype=np.uint8).reshape(2, 2), "int64_list", [0, 1, 2, 3]),
        (np.uint64(2**63 - 1), "int64_list", [2**63 - 1]),
        (0.5, "float_list", [0.5]),
        ([1, 0.5], "float_list", [1, 0.5]),
        (np.array([[1.5, 2], [3, 4]]), "float_list", [1.5, 2, 3, 4]),
        (np.array([], np.float32), "float_list", []),
        (np.array([], np.int32), "int64_list", []),
        (np.float16(0.25), "float_list", [0.25]),
        (float("inf"), "float_list", [float("inf")]),
    ],
)
def test_the_type_decides_the_kind(value: Any, kind: str, values: list[Any]) -> None:
    assert read(encode_example({"a": value})) == {"a": (kind, values)}


@pytest.mark.parametrize(
    ("value", "stated", "kind", "values"),
    [
        ([1, 2], "float", "float_list", [1.0, 2.0]),
        ([1.0, -2.0], "int64", "int64_list", [1, -2]),
        (np.arange(3, dtype=np.uint8), "bytes", "bytes_list", [b"\x00\x01\x02"]),
        ([], "float32", "float_list", []),
        ([], "string", "bytes_list", []),
        ([], "int64", "int64_list", []),
    ],
)
def test_a_stated_kind_goes_before_the_type(value: Any, stated: str, kind: str, values: list[Any]) -> None:
    assert read(encode_example({"a": value}, kinds={"a": stated})) == {"a": (kind, values)}


@pytest.mark.parametrize(
    ("value", "kinds", "words"),
    [
        ([], None, "empty list, which has no type"),
        ([1, "a"], None, "holds a int that fits no list"),
        ([[1], [2, 3]], None, "rows of several lengths"),
        (1e39, None, "beyond float32"),
        (np.array([1.0, -1e39]), None, "float64 values beyond float32"),
        (np.array([1j]), {"a": "int64"}, "complex128, which is no number"),
        (0.5, {"a": "int64"}, "holds 0.5, which is no int64"),
        (float("nan"), {"a": "int64"}, "no int64"),
        (np.uint64(2**63), None, "int64 ends at 9223372036854775807"),
        (1j, None, "complex128, which is no number"),
        (np.arange(3), {"a": "bytes"}, "raw bytes are made of uint8"),
        ("text", {"a": "float"}, "its kind is stated as float"),
        (1, {"a": "double"}, "kind 'double' of 'a' is not known"),
    ],
)
def test_values_that_no_kind_holds_are_refused(value: Any, kinds: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        encode_example({"a": value}, kinds=kinds)


def test_none_leaves_the_feature_out_and_keys_keep_their_order() -> None:
    record = encode_example({"z": 1, "gone": None, "a": 2})
    assert set(read(record)) == {"z", "a"}
    assert record.index(b"\x0a\x01z") < record.index(b"\x0a\x01a")


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_varints_are_those_of_the_slow_way(values: list[int]) -> None:
    assert encode_varints(np.array(values, np.int64)) == b"".join(varint(value) for value in values)


def test_sequences_have_a_context_and_steps() -> None:
    record = encode_sequence_example(
        {"scalar": 1.5, "gone": None}, {"array": np.array([[1, 2], [3, 4]]), "mixed": ["a", None, ""], "none": None}
    )
    message: Any = sequence_example_class().FromString(record)
    assert {key: content(feature) for key, feature in message.context.feature.items()} == {
        "scalar": ("float_list", [1.5])
    }
    lists = {
        key: [content(feature) for feature in steps.feature]
        for key, steps in message.feature_lists.feature_list.items()
    }
    assert lists == {
        "array": [("int64_list", [1, 2]), ("int64_list", [3, 4])],
        "mixed": [("bytes_list", [b"a"]), (None, []), ("bytes_list", [b""])],
    }
    assert encode_sequence_example({}, {}) == b""


def test_a_key_that_is_no_text_is_refused() -> None:
    with pytest.raises(UsageError, match="the key 1 is no text"):
        encode_example({1: 2})  # type: ignore[dict-item]


@pytest.mark.parametrize("record", [{"\ud800": 1}, {"a": "\ud800"}, {"a": ["b", "\ud800"]}, [1], 3])
def test_what_is_no_record_is_refused(record: Any) -> None:
    with pytest.raises(UsageError, match=r"no Unicode text|a mapping of feature names"):
        encode_example(record)


@pytest.mark.parametrize("length", [0, 1, 5, 200, 3000])
def test_columns_of_any_length_become_the_records_of_protobuf(length: int) -> None:
    rng = np.random.default_rng(length)
    floats, small = rng.normal(size=(3, length)).astype("<f4"), rng.integers(0, 256, (3, length), np.uint8)
    columns = [list_column("f", Kind.FLOAT, floats), list_column("b", Kind.BYTES, small)]
    data, ends = example_records(columns, 3)
    payloads = unframe(data.tobytes())
    assert ends.tolist() == np.cumsum([len(each) + 16 for each in payloads]).tolist()
    for row, payload in enumerate(payloads):
        assert read(payload) == {
            "f": ("float_list", floats[row].tolist()),
            "b": ("bytes_list", [small[row].tobytes()]),
        }

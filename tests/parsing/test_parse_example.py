"""parse_example: the cases from the field, its errors, and its ways of reading held against each other."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parsing.wire import UNKNOWN_FIELDS, Content, entry, example, feature, field

from geotfr.errors import RecordError, UsageError
from geotfr.records.parse import read
from geotfr.records.parse.example import parse_example, parse_single_example
from geotfr.records.parse.specs import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
)
from geotfr.records.parse.values import RaggedValue, SparseValue


def floats(count: int) -> Content:
    return "float", [float(number) for number in range(count)]


def dense(parsed: dict[str, Any], key: str) -> Any:
    assert isinstance(parsed[key], np.ndarray)
    return parsed[key]


# Case 38.
def test_a_missing_key_is_told_with_the_keys_there_and_the_nearest() -> None:
    record = example({"landcover": ("int64", [3]), "B4": floats(1)})
    with pytest.raises(RecordError, match=r"1: no feature 'Landcover'; keys there: 'B4', 'landcover'; did you mean"):
        parse_example([example({"Landcover": ("int64", [1])}), record], {"Landcover": FixedLenFeature([1], np.int64)})


def test_a_missing_key_takes_the_default() -> None:
    record = example({"landcover": ("int64", [3])})
    spec = FixedLenFeature([1], np.int64, [-1])
    assert dense(parse_example([record] * 2, {"Landcover": spec}), "Landcover").tolist() == [[-1], [-1]]


def test_only_the_records_without_the_feature_take_the_default() -> None:
    records = [example({"a": floats(2)}), example({}), example({"a": "no kind"}), example({"a": ("float", [])})]
    parsed = parse_example(records, {"a": FixedLenFeature([2], np.float32, [7, 8])})
    assert dense(parsed, "a").tolist() == [[0, 1], [7, 8], [7, 8], [7, 8]]


# Case 39.
def test_a_wrong_shape_is_told_with_key_record_counts_and_the_shape_that_fits() -> None:
    with pytest.raises(RecordError) as error:
        parse_example([example({"B4": floats(256)})], {"B4": FixedLenFeature([4, 4], np.float32)}, ["patch 7"])
    assert str(error.value) == (
        "record patch 7: feature 'B4' has 256 values, shape [4, 4] takes 16; 256 = 16x16: use shape [16, 16], "
        "which is a patch of 4x4 with kernel 12 (or 13), or one of 16x16 without"
    )


# Case 40.


@pytest.mark.parametrize(
    ("asked", "count", "words"),
    [
        ([8, 8, 1], 144, r"use shape \[12, 12, 1\], which is a patch of 8x8 with kernel 4"),
        ([4, 4, 1], 256, r"use shape \[16, 16, 1\], which is a patch of 4x4 .*, or one of 16x16 without"),
        ([7, 3, 1], 144, r"use shape \[12, 12, 1\] if the patch is square"),
    ],
)
def test_case_40_the_hint_keeps_the_channel_that_was_asked_for(asked: list[int], count: int, words: str) -> None:
    record = example({"B4": floats(count)})
    with pytest.raises(RecordError, match=words) as caught:
        parse_example([record], {"B4": FixedLenFeature(asked, np.float32)})
    (fitting,) = re.findall(r"use shape \[(.*?)\]", str(caught.value))
    spec = FixedLenFeature([int(side) for side in fitting.split(",")], np.float32)
    assert parse_example([record], {"B4": spec})["B4"].size == count  # type: ignore[union-attr]


def test_a_patch_with_its_kernel_is_recognised() -> None:
    record = example({"B4": floats(144)})
    with pytest.raises(RecordError, match=r"use shape \[12, 12\], which is a patch of 8x8 with kernel 4"):
        parse_example([record], {"B4": FixedLenFeature([8, 8], np.float32)})
    assert dense(parse_example([record], {"B4": FixedLenFeature([12, 12], np.float32)}), "B4").shape == (1, 12, 12)


# Case 41.
@pytest.mark.parametrize("content", [("float", []), "no kind"])
def test_an_empty_feature_takes_the_default_or_is_refused_or_has_length_0(content: Content) -> None:
    record = example({"a": content})
    assert dense(parse_example([record], {"a": FixedLenFeature([], np.float32, 5.0)}), "a").tolist() == [5.0]
    with pytest.raises(RecordError, match="feature 'a' is there without values; give a default_value"):
        parse_example([record], {"a": FixedLenFeature([], np.float32)})
    variable = parse_example([record], {"a": VarLenFeature(np.float32)})["a"]
    assert isinstance(variable, SparseValue)
    assert variable.dense_shape == (1, 0)


# Case 43.
@pytest.mark.parametrize("count", [1, 3])
def test_another_kind_is_told_with_both_kinds(count: int) -> None:
    records = [example({"class": ("int64", [5])})] * count
    with pytest.raises(RecordError, match=r"record 0: feature 'class' is int64, asked for as float; .*cast=True"):
        parse_example(records, {"class": FixedLenFeature([1], np.float32)})


def test_cast_reads_integers_as_floats_and_whole_floats_as_integers() -> None:
    record = example({"i": ("int64", [-5, 2**40]), "f": ("float", [3.0, -4.0]), "half": ("float", [0.5])})
    parsed = parse_example([record], {"i": VarLenFeature(np.float32), "f": FixedLenFeature([2], np.int64)}, cast=True)
    assert parsed["i"].values.tolist() == [-5.0, 2.0**40]  # type: ignore[union-attr]
    assert dense(parsed, "f").tolist() == [[3, -4]]
    with pytest.raises(RecordError, match="feature 'half' is float with values that are no int64"):
        parse_example([record], {"half": FixedLenFeature([1], np.int64)}, cast=True)


def test_bytes_are_never_cast() -> None:
    with pytest.raises(RecordError, match=r"'a' is bytes, asked for as float; ask for bytes$"):
        parse_example([example({"a": ("bytes", [b"1"])})], {"a": VarLenFeature(np.float32)}, cast=True)


def test_shapes_of_one_value_stay() -> None:
    records = [example({"a": floats(1), "s": ("bytes", [b"x"])})] * 2
    parsed = parse_example(records, {"a": FixedLenFeature([1], np.float32), "s": FixedLenFeature([], bytes)})
    assert dense(parsed, "a").shape == (2, 1)
    assert dense(parsed, "s").tolist() == [b"x", b"x"]
    single = parse_single_example(records[0], {"s": FixedLenFeature([], bytes)})
    assert dense(single, "s").shape == ()


def test_an_empty_default_fills_features_of_no_values() -> None:
    parsed = parse_example([example({}), example({"a": ("float", [])})], {"a": FixedLenFeature([0], np.float32, [])})
    assert dense(parsed, "a").shape == (2, 0)


def test_results_can_be_written_to() -> None:
    parsed = parse_example([example({"a": floats(4)})] * 3, {"a": FixedLenFeature([4], np.float32)})
    dense(parsed, "a")[0, 0] = 9


def test_padding_fills_the_shorter_records() -> None:
    records = [example({"a": floats(4)}), example({"a": floats(2)}), example({})]
    spec = FixedLenSequenceFeature([2], np.float32, allow_missing=True, default_value=-1)
    parsed = dense(parse_example(records, {"a": spec}), "a")
    assert parsed.tolist() == [[[0, 1], [2, 3]], [[0, 1], [-1, -1]], [[-1, -1], [-1, -1]]]
    with pytest.raises(RecordError, match="record 0: feature 'a' has 3 values, no multiple of 2"):
        parse_example([example({"a": floats(3)})], {"a": spec})


def test_sparse_values_are_sorted_by_index_unless_told() -> None:
    record = example({"ix": ("int64", [20, 3]), "val": ("float", [0.5, -1.0])})
    for is_sorted, indices in ((False, [[0, 3], [0, 20]]), (True, [[0, 20], [0, 3]])):
        value = parse_example([record], {"s": SparseFeature("ix", "val", np.float32, 9, is_sorted)})["s"]
        assert isinstance(value, SparseValue)
        assert value.indices.tolist() == indices
        assert value.dense_shape == (1, 9)


def test_misaligned_sparse_features_are_refused() -> None:
    record = example({"ix": ("int64", [20, 3]), "val": ("float", [0.5])})
    with pytest.raises(RecordError, match="SparseFeature 's' has 1 values in 'val' and 2 indices in 'ix'"):
        parse_example([record], {"s": SparseFeature("ix", "val", np.float32, 9)})


@pytest.mark.parametrize(
    ("partition", "numbers"),
    [
        (RaggedFeature.RowSplits("p"), [0, 2, 2, 3]),
        (RaggedFeature.RowLengths("p"), [2, 0, 1]),
        (RaggedFeature.RowStarts("p"), [0, 2, 2]),
        (RaggedFeature.RowLimits("p"), [2, 2, 3]),
        (RaggedFeature.ValueRowIds("p"), [0, 0, 2]),
    ],
)
def test_every_partition_cuts_the_same_rows(partition: Any, numbers: list[int]) -> None:
    record = example({"v": floats(3), "p": ("int64", numbers)})
    value = parse_example([record, record], {"v": RaggedFeature(np.float32, partitions=[partition])})["v"]
    assert isinstance(value, RaggedValue)
    assert value.to_list() == [[[0, 1], [], [2]]] * 2
    assert value.row_splits.dtype == np.int32


@pytest.mark.parametrize(
    ("partition", "numbers"),
    [
        (RaggedFeature.RowSplits("p"), [1, 3]),
        (RaggedFeature.RowSplits("p"), [0, 2]),
        (RaggedFeature.RowLengths("p"), [4, -1]),
        (RaggedFeature.RowLengths("p"), [2**62, 2**62, 2**62, 2**62, 3]),
        (RaggedFeature.RowStarts("p"), [1]),
        (RaggedFeature.RowStarts("p"), []),
        (RaggedFeature.RowLimits("p"), [3, 2]),
        (RaggedFeature.RowLimits("p"), [2**63 - 1, -(2**63), 3]),
        (RaggedFeature.ValueRowIds("p"), [0, 2, 1]),
        (RaggedFeature.ValueRowIds("p"), [0, 0, 2**60]),
        (RaggedFeature.ValueRowIds("p"), [0, 0]),
        (RaggedFeature.UniformRowLength(2), []),
    ],
)
def test_a_partition_that_does_not_cover_its_record_is_refused(partition: Any, numbers: list[int]) -> None:
    good = example({"v": floats(2), "p": ("int64", [])})
    bad = example({"v": floats(3), "p": ("int64", numbers)})
    spec = RaggedFeature(np.float32, partitions=[partition])
    with pytest.raises(RecordError, match=r"record 1: RaggedFeature 'v': .* doesn't cut its 3 items into rows"):
        parse_example([example({}), bad, good], {"v": spec})


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ({}, "features is empty"),
        ({"a": FixedLenSequenceFeature([], np.float32)}, "allow_missing=True"),
        ({"a": VarLenFeature(np.float32), "b": RaggedFeature(np.float32, "a")}, "'a' is asked for as sparse float and"),
        (
            {"a": VarLenFeature(np.float32), "b": SparseFeature("a", "v", np.int64, 3)},
            "float and as sparse int64",
        ),
        ({"a": "float32"}, "key 'a' has 'float32'; features take FixedLenFeature"),
        ({b"a": VarLenFeature(np.float32)}, "is no text"),
        ([], "features is empty"),
        ([("a", VarLenFeature(np.float32))], "a mapping from key to spec, found list"),
        ({"\ud800": VarLenFeature(np.float32)}, "UTF-8"),
    ],
)
def test_specs_that_contradict_each_other_are_refused(features: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_example([example({})], features)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: FixedLenFeature([None], np.float32), "use FixedLenSequenceFeature"),
        (lambda: FixedLenFeature(None, np.float32), "needs a shape"),
        (lambda: FixedLenFeature([-1], np.float32), "whole numbers"),
        (lambda: FixedLenFeature([], np.float64), "float64 is none that an Example holds; use float32, int64 or bytes"),
        (lambda: FixedLenFeature([], np.int64, 1.5), "which is not int64"),
        (lambda: FixedLenFeature([2], np.int64, 1), "default_value of 1 values"),
        (lambda: FixedLenFeature([], bytes, 1), "takes bytes or text"),
        (lambda: FixedLenSequenceFeature([0], np.int64), "block of 0 values"),
        (lambda: SparseFeature("i", "v", np.int64, [3]), "a name and a number, or two lists"),
        (lambda: SparseFeature(["i"], "v", np.int64, [3, 4]), "one size per index key"),
        (lambda: SparseFeature([], "v", np.int64, []), "no index_key"),
        (lambda: SparseFeature("i", "", np.int64, 3), "value_key ''"),
        (lambda: RaggedFeature(np.int64, partitions=["s"]), "the partition 's'"),
        (lambda: RaggedFeature(np.int64, partitions="s"), "partitions 's'; use a list"),
        (lambda: RaggedFeature(np.int64, partitions=[RaggedFeature.UniformRowLength(0)]), "1 value or more"),
        (lambda: RaggedFeature(np.int64, row_splits_dtype=np.int16), "row_splits_dtype int16"),
        (lambda: RaggedFeature(np.int64, row_splits_dtype="short one"), "row_splits_dtype 'short one'"),
        (lambda: VarLenFeature("complex"), "dtype"),
        (lambda: VarLenFeature(np.dtype(np.int32)), "dtype int32"),
        (lambda: FixedLenFeature(1.5, np.int64), "use a list of sizes"),
        (lambda: FixedLenFeature([2, 2], np.int64, [[1], [1, 2]]), "rows of several lengths"),
        (lambda: FixedLenFeature([], np.int64, np.uint64(2**63)), "which is not int64"),
    ],
)
def test_an_invalid_spec_is_a_value_error(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_a_record_alone_and_wrong_names_are_usage_errors() -> None:
    spec = {"a": VarLenFeature(np.float32)}
    with pytest.raises(UsageError, match="parse_single_example"):
        parse_example(example({}), spec)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="found a generator; make a list of it"):
        parse_example((example({}) for _ in range(2)), spec)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="1 names for 2 records"):
        parse_example([example({})] * 2, spec, ["one"])


@pytest.mark.parametrize("junk", [b"\xff", b"\x0a\x05abc", example({"a": floats(9)})[:-3]])
def test_bytes_that_are_no_example_are_told(junk: bytes) -> None:
    with pytest.raises(RecordError, match=r"record 1: its \d+ bytes are no Example"):
        parse_example([example({"a": floats(2)}), junk], {"a": VarLenFeature(np.float32)})


@pytest.mark.parametrize("padding", [0, 20_000])
def test_malformed_integers_are_told_whatever_the_size(padding: int) -> None:
    integers = field(3, field(1, b"\xff" * 12 + b"\x01"))
    record = field(1, entry("a", integers) + entry("b", feature(("bytes", [bytes(padding)]))))
    with pytest.raises(RecordError, match="bytes are no Example"):
        parse_example([record] * 20, {"a": VarLenFeature(np.int64)})


CONTENTS = st.fixed_dictionaries(
    {},
    optional={
        "f": st.one_of(
            st.just("no kind"),
            st.tuples(st.just("float"), st.lists(st.floats(width=32, allow_nan=False), max_size=3)),
        ),
        "i": st.tuples(st.just("int64"), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)),
        "b": st.tuples(st.just("bytes"), st.lists(st.binary(max_size=3), max_size=3)),
    },
)
ALL = {"f": VarLenFeature(np.float32), "i": VarLenFeature(np.int64), "b": VarLenFeature(bytes)}


@given(st.lists(CONTENTS, min_size=1, max_size=4), st.booleans())
def test_every_way_of_reading_gives_the_values_written(contents: list[dict[str, Content]], alike: bool) -> None:
    contents = contents * read.WORTH_A_MATRIX if alike else contents
    records = [example(each) for each in contents]
    # Enough alike ones are read as a matrix, unknown fields send records to protobuf, a large feature has them walked.
    walked = [example({**each, "pad": ("bytes", [bytes(read.WALK_FROM_BYTES)])}) for each in contents]
    for batch in (records, [UNKNOWN_FIELDS + record for record in records], walked):
        parsed = parse_example(batch, ALL)
        for key, value in parsed.items():
            assert isinstance(value, SparseValue)
            written = [each.get(key, "missing") for each in contents]
            lists = [list(each[1]) if isinstance(each, tuple) else [] for each in written]
            assert value.values.tolist() == [number for each in lists for number in each]
            assert value.indices.tolist() == [
                [number, position] for number, each in enumerate(lists) for position in range(len(each))
            ]
            assert value.dense_shape == (len(lists), max(len(each) for each in lists))


def test_arrays_of_bytes_are_batches_and_no_records_give_empty_arrays() -> None:
    records = np.array([example({"a": floats(3)}), example({"a": floats(3)})], object)
    specs: dict[str, Any] = {"a": FixedLenFeature([3], np.float32), "b": FixedLenSequenceFeature([2], np.int64, True)}
    assert dense(parse_example(list(records), specs), "a").shape == (2, 3)
    assert dense(parse_example(records, specs), "a").shape == (2, 3)  # type: ignore[arg-type]
    parsed = parse_example([], specs | {"v": VarLenFeature(bytes), "r": RaggedFeature(np.float32)})
    assert dense(parsed, "a").shape == (0, 3)
    assert dense(parsed, "b").shape == (0, 0, 2)
    assert parsed["v"].dense_shape == (0, 0)  # type: ignore[union-attr]
    assert parsed["r"].to_list() == []  # type: ignore[union-attr]


def test_memoryviews_of_a_larger_buffer_are_records_too() -> None:
    record = example({"a": floats(3)})
    buffer = memoryview(record * 3)
    records = [buffer[start : start + len(record)] for start in range(0, len(buffer), len(record))]
    parsed = parse_example(records, {"a": FixedLenFeature([3], np.float32)})
    assert dense(parsed, "a").tolist() == [[0, 1, 2]] * 3


def test_records_of_several_layouts_keep_their_order() -> None:
    # Two orders of keys of one size, a label of one or two bytes, and some odd records in between.
    contents: list[dict[str, Content]] = []
    for number in range(200):
        pairs: list[tuple[str, Content]] = [("a", floats(2)), ("b", ("float", [float(number)]))]
        pairs.append(("label", ("int64", [number * 3])))
        contents.append(dict(pairs[:: 1 if number % 3 else -1]))
    records = [example(each) for each in contents]
    records[::17] = [UNKNOWN_FIELDS + record for record in records[::17]]
    specs = {
        "b": FixedLenFeature([], np.float32),
        "label": FixedLenFeature([], np.int64),
        "a": VarLenFeature(np.float32),
    }
    parsed = parse_example(records, specs)
    assert dense(parsed, "b").tolist() == list(range(200))
    assert dense(parsed, "label").tolist() == list(range(0, 600, 3))
    assert parsed["a"].values.tolist() == [0, 1] * 200  # type: ignore[union-attr]


@pytest.mark.parametrize("padding", [0, 20_000])
@pytest.mark.parametrize(
    "values", [[5, 6], [300, 400], [-1, -2], [2**62, 2**62 + 1], [1, 300, -(2**63)], [2**63 - 1], []]
)
def test_integers_of_all_sizes_are_read_exactly(values: list[int], padding: int) -> None:
    record = example({"i": ("int64", values), "pad": ("bytes", [bytes(padding)])})
    parsed = parse_example([record] * 20, {"i": FixedLenFeature([len(values)], np.int64)})
    assert dense(parsed, "i").tolist() == [values] * 20


def test_an_entry_with_more_than_key_and_value_is_not_lost_in_silence() -> None:
    record = field(1, field(1, field(1, b"a") + field(2, feature(floats(1))) + UNKNOWN_FIELDS))
    with pytest.raises(RecordError, match="record 0: a feature's entry has more in it"):
        parse_example([record], {"a": VarLenFeature(np.float32)})


def test_sparse_values_become_dense_unless_an_index_lies_outside() -> None:
    record = example({"ix": ("int64", [2, 0]), "val": ("bytes", [b"x", b"y"])})
    value = parse_example([record], {"s": SparseFeature("ix", "val", bytes, 3)})["s"]
    assert isinstance(value, SparseValue)
    assert value.to_dense().tolist() == [[b"y", b"", b"x"]]
    value = parse_example([record], {"s": SparseFeature("ix", "val", bytes, 2)})["s"]
    assert isinstance(value, SparseValue)
    with pytest.raises(RecordError, match=r"index \[0, 2\] lies outside the dense shape \[1, 2\]"):
        value.to_dense()


@pytest.mark.parametrize(
    ("shape", "count", "words"),
    [
        ([4, 4], 49, r"49 = 7x7: use shape \[7, 7\] if the patch is square"),
        ([3, 4, 4], 75, r"75 = 3x5x5: use shape \[3, 5, 5\] if the patch is square"),
        ([4, 4], 10, r"use shape \[10\], or VarLenFeature"),
        ([3, 4, 4], 49, r"use shape \[49\], or VarLenFeature"),
    ],
    ids=str,
)
def test_the_shape_that_fits_is_guessed_only_where_one_does(shape: list[int], count: int, words: str) -> None:
    with pytest.raises(RecordError, match=words):
        parse_example([example({"a": floats(count)})], {"a": FixedLenFeature(shape, np.float32)})


def test_missing_bytes_take_their_default_byte_for_byte() -> None:
    spec = FixedLenFeature([2], bytes, ["a", b"b\0"])
    parsed = parse_example([example({}), example({"b": ("bytes", [b"", b"\0"])})], {"b": spec})
    assert dense(parsed, "b").tolist() == [[b"a", b"b\0"], [b"", b"\0"]]


def test_a_sparse_value_is_filled_with_what_is_asked_for() -> None:
    value = parse_example([example({"a": floats(1)}), example({"a": floats(3)})], {"a": VarLenFeature(np.float32)})["a"]
    assert isinstance(value, SparseValue)
    assert value.to_dense(-1).tolist() == [[0, -1, -1], [0, 1, 2]]
    assert value.to_dense().tolist() == [[0, 0, 0], [0, 1, 2]]


def test_rows_of_one_length_are_cut_at_each_level() -> None:
    records = [example({"v": floats(4), "p": ("int64", [1, 1])}), example({"v": floats(2), "p": ("int64", [1])})]
    uniform = RaggedFeature.UniformRowLength(2)
    value = parse_example(records, {"v": RaggedFeature(np.float32, partitions=[uniform])})["v"]
    assert isinstance(value, RaggedValue)
    assert value.to_list() == [[[0, 1], [2, 3]], [[0, 1]]]
    both = [RaggedFeature.RowLengths("p"), uniform]
    value = parse_example(records, {"v": RaggedFeature(np.float32, partitions=both)})["v"]
    assert isinstance(value, RaggedValue)
    assert value.to_list() == [[[[0, 1]], [[2, 3]]], [[[0, 1]]]]
    alone = parse_single_example(records[0], {"v": RaggedFeature(np.float32, partitions=both)})["v"]
    assert isinstance(alone, RaggedValue)
    assert alone.to_list() == [[[0, 1]], [[2, 3]]]
    whole = parse_single_example(records[0], {"v": RaggedFeature(np.float32)})["v"]
    assert isinstance(whole, np.ndarray)
    assert whole.tolist() == [0, 1, 2, 3]

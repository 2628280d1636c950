"""parse_sequence_example and the specs made for the user."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from parsing.wire import example, sequence_example

from geotfr.errors import RecordError, UsageError
from geotfr.records.kind import Kind
from geotfr.records.parse.code import features_code, parsing_code
from geotfr.records.parse.example import parse_example
from geotfr.records.parse.infer import infer_features, infer_sequence_features, patch_features
from geotfr.records.parse.sequence import parse_sequence_example, parse_single_sequence_example
from geotfr.records.parse.specs import (
    Feature,
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
)
from geotfr.records.parse.values import RaggedValue, SparseValue
from geotfr.storage.example_files import write_examples

if TYPE_CHECKING:
    from parsing.wire import Content


def step(*values: float) -> Content:
    return "float", list(values)


# Case 44: 2x2 pixels, an array band of length 3 at depth 2, and a scalar band.
PIXELS = [
    sequence_example({"scalar": step(pixel)}, {"array": [step(10 * pixel), step(10 * pixel + 1)]}) for pixel in range(4)
]


def test_sequence_data_has_its_scalar_in_the_context_and_two_steps() -> None:
    context, lists, lengths = parse_sequence_example(
        PIXELS, {"scalar": FixedLenFeature([], np.float32)}, {"array": FixedLenSequenceFeature([], np.float32)}
    )
    assert context["scalar"].tolist() == [0, 1, 2, 3]  # type: ignore[union-attr]
    assert lists["array"].tolist() == [[0, 1], [10, 11], [20, 21], [30, 31]]  # type: ignore[union-attr]
    assert lengths["array"].tolist() == [2, 2, 2, 2]
    context, lists = parse_single_sequence_example(
        PIXELS[1], {"scalar": FixedLenFeature([1], np.float32)}, {"array": FixedLenSequenceFeature([1], np.float32)}
    )
    assert context["scalar"].tolist() == [1]  # type: ignore[union-attr]
    assert lists["array"].tolist() == [[10], [11]]  # type: ignore[union-attr]


def test_shorter_lists_are_padded_and_their_lengths_told() -> None:
    records = [sequence_example({}, {"a": [step(1), step(2)]}), sequence_example({}, {"a": [step(3)]})]
    records.append(sequence_example({}, {"a": "missing"}))
    _, lists, lengths = parse_sequence_example(
        records, None, {"a": FixedLenSequenceFeature([], np.float32, allow_missing=True)}
    )
    assert lists["a"].tolist() == [[1, 2], [3, 0], [0, 0]]  # type: ignore[union-attr]
    assert lengths["a"].tolist() == [2, 1, 0]
    with pytest.raises(RecordError, match="record 2: no feature list 'a'; keys there: none; set allow_missing=True"):
        parse_sequence_example(records, None, {"a": FixedLenSequenceFeature([], np.float32)})


def test_steps_of_any_length_are_sparse_or_ragged() -> None:
    records = [sequence_example({}, {"a": [step(1, 2), step()]}), sequence_example({}, {"a": ["no kind", step(3)]})]
    _, lists, _ = parse_sequence_example(records, None, {"a": VarLenFeature(np.float32)})
    assert isinstance(lists["a"], SparseValue)
    assert lists["a"].indices.tolist() == [[0, 0, 0], [0, 0, 1], [1, 1, 0]]
    assert lists["a"].dense_shape == (2, 2, 2)
    _, lists, _ = parse_sequence_example(records, None, {"a": RaggedFeature(np.float32)})
    assert isinstance(lists["a"], RaggedValue)
    assert lists["a"].to_list() == [[[1, 2], []], [[], [3]]]


def test_errors_in_a_list_name_record_and_step() -> None:
    records = [sequence_example({}, {"a": [step(1)]}), sequence_example({}, {"a": [step(1), step(1, 2)]})]
    with pytest.raises(RecordError, match=r"record 1: feature list 'a', step 1 has 2 values, shape .* takes 1"):
        parse_sequence_example(records, None, {"a": FixedLenSequenceFeature([], np.float32)})
    records[1] = sequence_example({}, {"a": [step(1), ("int64", [2])]})
    with pytest.raises(RecordError, match="record b: feature list 'a', step 1 is int64, asked for as float"):
        parse_sequence_example(records, None, {"a": VarLenFeature(np.float32)}, ["a", b"b"])


def test_partitions_with_other_steps_than_their_values_are_refused() -> None:
    record = sequence_example({}, {"v": [step(1), step(2)], "p": [("int64", [1])]})
    spec = RaggedFeature(np.float32, "v", [RaggedFeature.RowLengths("p")])
    with pytest.raises(RecordError, match="has 2 steps of values and 1 of 'p'"):
        parse_sequence_example([record], None, {"r": spec})


def test_no_specs_or_wrong_ones_are_refused() -> None:
    with pytest.raises(UsageError, match="are empty"):
        parse_sequence_example(PIXELS)
    with pytest.raises(UsageError, match="context take FixedLenFeature, VarLenFeature, RaggedFeature"):
        parse_sequence_example(PIXELS, {"scalar": FixedLenSequenceFeature([], np.float32)})
    with pytest.raises(UsageError, match="drop default_value"):
        parse_sequence_example(PIXELS, None, {"array": FixedLenSequenceFeature([], np.float32, False, 1)})


# Case 42.
def test_the_inferred_schema_tells_presence_and_lengths() -> None:
    records = [
        example({"a": step(1), "b": step(1)}),
        example({"b": step(1)}),
        example({"a": step(1), "b": step(1), "c": ("bytes", [b"x", b"y"]), "d": "no kind"}),
    ]
    features = infer_features(records)
    assert features["b"] == FixedLenFeature([1], np.float32)
    assert features["a"] == VarLenFeature(np.float32)
    assert set(features) == {"a", "b", "c"}
    summary = features.summaries["a"]
    assert (summary.records, summary.present, summary.min_length, summary.max_length) == (3, 2, 1, 1)
    assert features.summaries["c"].kinds == {Kind.BYTES: 1}
    assert features.summaries["d"].present == 0
    assert parse_example(records, features)["b"].shape == (3, 1)  # type: ignore[union-attr]


def test_a_key_of_several_kinds_has_no_spec() -> None:
    with pytest.raises(RecordError, match="'a' is of several kinds: 1 as float, 1 as int64"):
        infer_features([example({"a": step(1)}), example({"a": ("int64", [1])})])
    with pytest.raises(UsageError, match="no records"):
        infer_features([])


def test_sequences_are_inferred() -> None:
    context, lists = infer_sequence_features(PIXELS)
    assert dict(context) == {"scalar": FixedLenFeature([1], np.float32)}
    assert dict(lists) == {"array": FixedLenSequenceFeature([], np.float32)}
    assert (lists.summaries["array"].min_steps, lists.summaries["array"].max_steps) == (2, 2)


# Case 40.
def test_the_spec_of_a_patch_with_kernel_has_its_margin() -> None:
    features = patch_features(
        ["B4", "class", "t"],
        patch_xy=(8, 6),
        kernel_xy=(4, 5),
        dtype={"B4": np.float32, "class": bytes, "t": "int64"},
        depths={"t": 3},
    )
    assert features["B4"] == FixedLenFeature([10, 12], np.float32)
    assert features["class"] == FixedLenFeature([], bytes)
    assert features["t"] == FixedLenFeature([3, 10, 12], np.int64)


SPECS: dict[str, Feature] = {
    "B4": FixedLenFeature([2, 1], np.float32, [float("inf"), 1]),
    'odd "é"': VarLenFeature(bytes),
    "s": SparseFeature(["i", "j"], "v", np.float32, [3, 4], True),
    "s1": SparseFeature("i", "v", np.float32, 3),
    "q": FixedLenSequenceFeature([], np.int64, allow_missing=True, default_value=-1),
    "r": RaggedFeature(
        np.int64, "k", [RaggedFeature.RowSplits("p"), RaggedFeature.UniformRowLength(2)], row_splits_dtype=np.int64
    ),
    "r0": RaggedFeature(bytes),
}


def test_printed_code_makes_the_same_specs() -> None:
    class Module:
        FixedLenFeature, VarLenFeature, SparseFeature = FixedLenFeature, VarLenFeature, SparseFeature
        FixedLenSequenceFeature, RaggedFeature = FixedLenSequenceFeature, RaggedFeature

    code = features_code(SPECS, target="geotfr")
    assert eval(code, {"geotfr": Module, "np": np}) == SPECS


@pytest.mark.parametrize("target", ["tf", "geotfr", "torch"])
def test_printed_scripts_compile_and_name_the_files(target: Any) -> None:
    script = parsing_code({"B4": FixedLenFeature([2], np.float32)}, ["a b.tfrecord.gz"], target=target, is_gzip=True)
    compile(script, "script", "exec")
    assert '"a b.tfrecord.gz"' in script


def test_the_printed_loop_reads_the_file(tmp_path: Path) -> None:
    path = tmp_path / 'odd "name".tfrecord'
    write_examples(path, [{"B4": [1.0, 2.0], "name": "é"}])
    scope: dict[str, Any] = {}
    exec(parsing_code(infer_features(path), [str(path)], target="geotfr"), scope)
    assert scope["example"]["B4"].tolist() == [1, 2]
    assert scope["example"]["name"].tolist() == ["é".encode()]


def test_steps_are_cut_into_rows_by_lengths_of_their_own_or_one_for_all() -> None:
    record = sequence_example(
        {}, {"v": [step(1, 2, 3, 4), step(), step(5, 6)], "p": [("int64", [1, 1]), ("int64", []), ("int64", [1])]}
    )
    uniform = RaggedFeature.UniformRowLength(2)
    for partitions, rows in (
        ([uniform], [[[[1, 2], [3, 4]], [], [[5, 6]]]]),
        ([RaggedFeature.RowLengths("p"), uniform], [[[[[1, 2]], [[3, 4]]], [], [[[5, 6]]]]]),
    ):
        spec = RaggedFeature(np.float32, "v", partitions)
        _, lists, _ = parse_sequence_example([record], None, {"r": spec})
        assert isinstance(lists["r"], RaggedValue)
        assert lists["r"].to_list() == rows
    other = RaggedFeature(np.float32, "v", [RaggedFeature.UniformRowLength(4)])
    with pytest.raises(RecordError, match=r"record 1: .* doesn't cut its 2 items into rows"):
        parse_sequence_example([sequence_example({}, {}), record], None, {"r": other})


def test_a_schema_is_inferred_from_several_files_up_to_a_limit(tmp_path: Path) -> None:
    paths = []
    for number, lengths in enumerate(([2, 2], [2, 3])):
        records = [{"a": np.zeros(length, np.float32)} for length in lengths]
        paths.append(tmp_path / f"{number}.tfrecord")
        write_examples(paths[-1], records)
    assert infer_features(paths)["a"] == VarLenFeature(np.float32)
    assert infer_features(paths, limit=3)["a"] == FixedLenFeature([2], np.float32)
    assert infer_features(paths, limit=3).summaries["a"].records == 3


def test_steps_without_values_make_a_list_of_any_length() -> None:
    _, lists = infer_sequence_features([sequence_example({}, {"a": [step(1), "no kind"], "b": [step(1), step(2)]})])
    assert lists["a"] == VarLenFeature(np.float32)
    assert lists["b"] == FixedLenSequenceFeature([], np.float32)


def test_code_is_made_for_known_libraries() -> None:
    with pytest.raises(UsageError, match="no code is made for 'jax'; use tf, geotfr or torch"):
        parsing_code({"a": VarLenFeature(np.float32)}, ["a.tfrecord"], target="jax")  # type: ignore[arg-type]

"""parse_sequence_example against tf.io.parse_sequence_example and parse_single_sequence_example.

The differences on purpose are those of ``test_parse_example.py``. The context adds one: a fixed-length
feature that is there without a kind takes the default, as in an Example; TensorFlow 2.21 refuses it in a
context. Shapes of no values aren't generated: there TensorFlow's two parsers contradict each other.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interop.parse_oracle import LISTS, Spec, for_geotfr, for_tensorflow, rewrite_features
from interop.test_parse_example import (
    COMMON,
    KEYS,
    KINDS,
    LAYOUTS,
    PARTITIONS,
    SHAPES,
    SPOILT,
    VALUES,
    compare,
    contents,
    outcome,
    partitions,
    row_lengths,
    specs,
)
from parsing import wire

from geotfr.records.parse.read import WORTH_A_MATRIX
from geotfr.records.parse.sequence import parse_sequence_example, parse_single_sequence_example

pytestmark = pytest.mark.interop
tf = pytest.importorskip("tensorflow")
tf.get_logger().setLevel("ERROR")

QUICK_CASES = 100
ALL_CASES = 1200


@st.composite
def list_specs(draw: st.DrawFn) -> dict[str, Spec]:
    made = {}
    for key in draw(st.lists(st.sampled_from(KEYS), max_size=2, unique=True)):
        name = draw(st.sampled_from(["FixedLenSequenceFeature", "VarLenFeature", "RaggedFeature"]))
        arguments: dict[str, Any] = {}
        cuts = []
        if name == "FixedLenSequenceFeature":
            shape = draw(SHAPES.filter(lambda shape: 0 not in shape))
            arguments = {"shape": shape, "allow_missing": draw(st.booleans())}
        if name == "RaggedFeature":
            for level in range(draw(st.integers(0, 2))):
                uniform = draw(st.integers(0, 4)) == 0
                partition = "UniformRowLength" if uniform else draw(PARTITIONS)
                cuts.append((partition, draw(st.integers(1, 2)) if uniform else f"level {level} of {key}"))
        made[key] = Spec(name, draw(KINDS), arguments, tuple(cuts))
    return made


@st.composite
def list_contents(draw: st.DrawFn, made: dict[str, Spec]) -> dict[str, Any]:
    """The feature lists of one record: mostly what the specs ask for."""
    found: dict[str, Any] = {}
    for key, spec in made.items():
        steps = draw(st.integers(0, 3))
        if draw(st.integers(0, 14)) == 0:
            found[key] = "missing"
            continue
        found[key] = []
        for _, argument in spec.partitions:
            if isinstance(argument, str):
                found[argument] = []
        for _ in range(steps):
            numbers, count = draw(partitions(spec))
            if spec.name == "FixedLenSequenceFeature":
                count = math.prod(spec.arguments["shape"])
            for each, cut in numbers.items():
                is_spoilt = draw(st.integers(0, 29)) == 0
                found[each].append(
                    draw(SPOILT.filter(lambda value: value != "missing")) if is_spoilt else ("int64", cut)
                )
            odd = draw(st.integers(0, 29))
            kind = draw(KINDS) if odd == 0 else spec.kind
            count = draw(st.integers(0, 3)) if odd == 1 else count
            value = kind, draw(st.lists(VALUES[kind], min_size=count, max_size=count))
            found[key].append("no kind" if odd == 2 else value)
    return found


def is_odd(value: Any, layout: str) -> bool:
    """Whether TensorFlow reads a feature written like this otherwise than protobuf."""
    if value in ("no kind", "missing"):
        return False
    return layout == "unknown fields" or (value[0] != "bytes" and layout in ("chunks", "empty chunk"))


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Spec], dict[str, Spec], list[tuple[bytes, bool]]]:
    context = draw(specs(names=("FixedLenFeature", "VarLenFeature", "RaggedFeature")))
    context = {key: spec for key, spec in context.items() if 0 not in spec.arguments.get("shape", ())}
    lists = draw(list_specs())
    batch = []
    for _ in range(draw(st.integers(1, 3))):
        layout = draw(LAYOUTS)
        in_context = draw(contents(context))
        in_lists = draw(list_contents(lists))
        record = wire.sequence_example(in_context, in_lists, layout)
        odd = any(is_odd(value, layout) for value in in_context.values())
        odd |= any(is_odd(step, layout) for steps in in_lists.values() if steps != "missing" for step in steps)
        batch.append((record, odd))
    if draw(st.booleans()):
        batch = batch * WORTH_A_MATRIX
    return context, lists, batch


def rewritten(record: bytes, context: dict[str, Spec]) -> tuple[bytes, Any, bool]:
    """The record as protobuf reads it and geotfr takes it, its message, and whether that differs for TensorFlow."""
    message = tf.train.SequenceExample.FromString(record)
    message.DiscardUnknownFields()
    changed = rewrite_features(message.context.feature, context)
    return message.SerializeToString(), message, changed


def is_broken(message: Any, context: dict[str, Spec], lists: dict[str, Spec]) -> bool:
    """Whether a partition doesn't cover its values, or has other steps than they have."""
    for key, spec in context.items():
        if spec.name == "RaggedFeature" and breaks(spec, key, message.context.feature):
            return True
    for key, spec in lists.items():
        if spec.name != "RaggedFeature":
            continue
        rows = {
            each: list(message.feature_lists.feature_list[each].feature)
            for each in [key, *(argument for _, argument in spec.partitions if isinstance(argument, str))]
            if each in message.feature_lists.feature_list
        }
        steps = len(rows.get(key, []))
        keyed = [argument for _, argument in spec.partitions if isinstance(argument, str)]
        if any(len(rows.get(each, [])) != steps for each in keyed):
            return True
        if any(breaks(spec, key, {each: found[step] for each, found in rows.items()}) for step in range(steps)):
            return True
    return False


def breaks(spec: Spec, key: str, features: Any) -> bool:
    def numbers(each: str) -> list[int]:
        return list(features[each].int64_list.value) if each in features else []

    items = sum(len(getattr(features[key], name).value) for name in LISTS) if key in features else 0
    for partition, argument in reversed(spec.partitions):
        lengths = row_lengths(partition, argument, numbers, items)
        if lengths is None or any(length < 0 for length in lengths) or sum(lengths) != items:
            return True
        items = len(lengths)
    return False


def check(case: Any) -> None:
    context, lists, batch = case
    records = [record for record, _ in batch]
    news = [rewritten(record, context) for record in records]
    oracle = [new if odd or changed else old for (old, odd), (new, _, changed) in zip(batch, news, strict=True)]
    broken = [is_broken(message, context, lists) for _, message, _ in news]
    ours = for_geotfr(context), for_geotfr(lists)
    theirs = for_tensorflow(tf, context), for_tensorflow(tf, lists)
    compare(
        outcome(lambda: parse_sequence_example(records, *ours)),
        outcome(lambda: tf.io.parse_sequence_example(oracle, *theirs)),
        any(broken),
    )
    compare(
        outcome(lambda: parse_single_sequence_example(records[0], *ours)),
        outcome(lambda: tf.io.parse_single_sequence_example(oracle[0], *theirs)),
        broken[0],
    )


@settings(max_examples=QUICK_CASES, **COMMON)
@given(cases())
def test_a_quick_share_of_sequence_examples_is_parsed_as_tensorflow_does(case: Any) -> None:
    check(case)


@pytest.mark.slow
@settings(max_examples=ALL_CASES, **COMMON)
@given(cases())
def test_sequence_examples_are_parsed_as_tensorflow_does(case: Any) -> None:
    check(case)

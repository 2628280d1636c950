"""parse_example against tf.io.parse_example: equal values, or both refuse.

Where geotfr differs from TensorFlow 2.21 on purpose:

``empty list``
    A fixed-length feature that is there with an empty list takes the default, as TensorFlow's documentation
    prints. TensorFlow 2.21 refuses it. The oracle is TensorFlow on the record without that feature.
``lists written in an odd way``
    Several chunks, and fields that TensorFlow doesn't know inside a feature: TensorFlow reads the first
    chunk, or refuses. geotfr reads what protobuf reads. The oracle is TensorFlow on the record rewritten by
    protobuf.
``repeated key, at last without a kind``
    TensorFlow's dense features and single Examples take the value before; geotfr, as protobuf, the last
    entry. The oracle is the rewritten record again.
``misaligned sparse features`` and ``broken partitions``
    TensorFlow builds a tensor in which values stand in another record, or which can't be printed. geotfr
    refuses; the test checks with plain Python that the record is broken.
``a lone record without row splits``
    TensorFlow makes a ragged tensor of -1 rows; geotfr one of 0 rows. The oracle is TensorFlow on the record
    with row splits [0].
``keys that are no UTF-8 text``
    TensorFlow steps over them. Protobuf, and so geotfr, refuses the record; see ``test_parse_documentation.py``.
``equal indices``
    geotfr keeps the record's order; TensorFlow's sort mixes them from 17 values on. They aren't generated here.
``default of no values``
    For a fixed-length feature of shape [0] TensorFlow takes an empty default for none. It isn't generated
    here.
"""

from __future__ import annotations

import itertools
import math
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interop.parse_oracle import LISTS, Spec, for_geotfr, for_tensorflow, plain, rewrite_features
from parsing import wire

from geotfr.errors import GeotfrError
from geotfr.records.parse.example import parse_example, parse_single_example
from geotfr.records.parse.read import WORTH_A_MATRIX

pytestmark = pytest.mark.interop
tf = pytest.importorskip("tensorflow")
tf.get_logger().setLevel("ERROR")

QUICK_CASES = 200
ALL_CASES = 2400

FLOATS = st.sampled_from([0.0, -0.0, 1.5, -2.0, 3.25, 1e30, float("inf"), float("nan")])
INTS = st.one_of(st.integers(-3, 200), st.sampled_from([-(2**63), 2**63 - 1, 300, 2**35]))
BYTES = st.sampled_from([b"", b"a", b"\xff\x00", b"knit"])
VALUES = {"float": FLOATS, "int64": INTS, "bytes": BYTES}
# Small numbers: TensorFlow allocates as many rows as the largest row number says.
SPOILT = st.one_of(
    st.just("missing"),
    st.just("no kind"),
    st.tuples(st.just("int64"), st.lists(st.integers(-3, 9), max_size=4)),
    st.tuples(st.just("float"), st.lists(FLOATS, max_size=2)),
)
KINDS = st.sampled_from(["float", "int64", "bytes"])
LAYOUTS = st.sampled_from(["packed"] * 6 + ["unpacked", "chunks", "empty chunk", "unknown fields"])
KEYS = ["a", "b", "é", "", "long key " * 20]
SHAPES = st.sampled_from([(), (1,), (2,), (2, 1), (3,), (0,), (1, 1, 2)])
PARTITIONS = st.sampled_from(["RowSplits", "RowLengths", "RowStarts", "RowLimits", "ValueRowIds"])


@st.composite
def specs(draw: st.DrawFn, *, names: tuple[str, ...]) -> dict[str, Spec]:
    """Specs that mostly agree with each other."""
    made = {}
    for key in draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True)):
        name, kind = draw(st.sampled_from(names)), draw(KINDS)
        arguments: dict[str, Any] = {}
        cuts: list[tuple[str, Any]] = []
        if name == "FixedLenFeature":
            shape = draw(SHAPES)
            count = math.prod(shape)
            if count and draw(st.booleans()):
                arguments["default_value"] = draw(st.lists(VALUES[kind], min_size=count, max_size=count))
            arguments["shape"] = shape
        elif name == "FixedLenSequenceFeature":
            arguments = {"shape": draw(SHAPES.filter(lambda shape: 0 not in shape)), "allow_missing": True}
            if draw(st.booleans()):
                # TensorFlow keeps the scalar constants that it has made: -0.0 comes back as an earlier 0.0.
                arguments["default_value"] = draw(VALUES[kind].filter(lambda value: str(value) != "-0.0"))
        elif name == "SparseFeature":
            rank = draw(st.integers(1, 2))
            index = [f"index {axis} of {key}" for axis in range(rank)]
            size = draw(st.lists(st.integers(1, 9), min_size=rank, max_size=rank))
            is_list = rank > 1 or draw(st.booleans())
            arguments = {
                "index_key": index if is_list else index[0],
                "size": size if is_list else size[0],
                "value_key": f"values of {key}",
                "already_sorted": draw(st.booleans()),
            }
        elif name == "RaggedFeature":
            for level in range(draw(st.integers(0, 3))):
                uniform = draw(st.integers(0, 4)) == 0
                partition = "UniformRowLength" if uniform else draw(PARTITIONS)
                cuts.append((partition, draw(st.integers(1, 2)) if uniform else f"level {level} of {key}"))
        made[key] = Spec(name, kind, arguments, tuple(cuts))
    return made


def partition_values(kind: str, lengths: list[int]) -> list[int]:
    """Row lengths told as a partition of ``kind``."""
    limits = list(itertools.accumulate(lengths))
    return {
        "RowSplits": [0, *limits],
        "RowLengths": lengths,
        "RowStarts": [0, *limits][: len(lengths)],
        "RowLimits": limits,
        "ValueRowIds": [row for row, length in enumerate(lengths) for _ in range(length)],
    }[kind]


@st.composite
def values(draw: st.DrawFn, kind: str, count: int) -> wire.Content:
    """Mostly ``count`` values of ``kind``."""
    odd = draw(st.integers(0, 19))
    if odd == 0:
        return "missing"
    if odd == 1:
        return "no kind"
    kind = draw(KINDS) if odd == 2 else kind
    count = draw(st.integers(0, 4)) if odd in (3, 4) else 0 if odd == 5 else count
    return kind, draw(st.lists(VALUES[kind], min_size=count, max_size=count))


@st.composite
def partitions(draw: st.DrawFn, spec: Spec) -> tuple[dict[str, list[int]], int]:
    """Numbers under the partition keys of a ragged feature, and how many values they cut into rows."""
    found = {}
    count = draw(st.integers(0, 3))
    for partition, argument in spec.partitions:
        if partition == "UniformRowLength":
            count *= argument
            continue
        lengths = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
        if partition == "ValueRowIds" and lengths:
            # Rows behind the last value can't be told this way.
            lengths[-1] = max(lengths[-1], 1)
        found[argument] = partition_values(partition, lengths)
        count = sum(lengths)
    return found, count


@st.composite
def sparse(draw: st.DrawFn, spec: Spec) -> dict[str, wire.Content]:
    count = draw(st.integers(0, 4))
    found = {spec.arguments["value_key"]: draw(values(spec.kind, count))}
    index = spec.arguments["index_key"]
    for each in [index] if isinstance(index, str) else index:
        numbers = st.lists(st.integers(0, 9), min_size=count, max_size=count, unique=True)
        found[each] = "int64", draw(numbers)
    return found


@st.composite
def contents(draw: st.DrawFn, made: dict[str, Spec]) -> dict[str, wire.Content]:
    """One record's features: mostly what the specs ask for."""
    found: dict[str, wire.Content] = {}
    for key, spec in made.items():
        if spec.name == "SparseFeature":
            found |= draw(sparse(spec))
        elif spec.name == "RaggedFeature":
            numbers, count = draw(partitions(spec))
            for each, cut in numbers.items():
                is_spoilt = draw(st.integers(0, 19)) == 0
                found[each] = draw(SPOILT) if is_spoilt else ("int64", cut)
            found[key] = draw(values(spec.kind, count))
        else:
            blocks = 1 if spec.name == "FixedLenFeature" else draw(st.integers(0, 3))
            found[key] = draw(values(spec.kind, blocks * math.prod(spec.arguments.get("shape", ()))))
    found["other"] = draw(values("float", 1))
    return found


@st.composite
def serialized(draw: st.DrawFn, features: dict[str, wire.Content]) -> tuple[bytes, bool]:
    """A record with the given features, and whether TensorFlow reads it otherwise than protobuf."""
    is_odd = False
    entries = []
    for key, value in features.items():
        if value == "missing":
            continue
        if draw(st.integers(0, 9)) == 0:
            kind = draw(KINDS)
            entries.append(wire.entry(key, wire.feature((kind, draw(st.lists(VALUES[kind], max_size=2))))))
            is_odd |= value == "no kind"
        layout = draw(LAYOUTS)
        is_numbers = value != "no kind" and value[0] != "bytes"
        is_odd |= value != "no kind" and (layout == "unknown fields" or (is_numbers and layout.endswith("chunk")))
        is_odd |= is_numbers and layout == "chunks"
        entries.append(wire.entry(key, wire.feature(value, layout), value_first=draw(st.integers(0, 9)) == 0))
    cut = draw(st.integers(0, len(entries))) if draw(st.integers(0, 5)) == 0 else len(entries)
    record = wire.field(1, b"".join(entries[:cut]))
    if cut < len(entries):
        record += wire.field(1, b"".join(entries[cut:]))
    if draw(st.integers(0, 5)) == 0:
        record = wire.UNKNOWN_FIELDS + record
    return record, is_odd


def rewritten(record: bytes, made: dict[str, Spec]) -> tuple[bytes, Any, bool]:
    """The record as protobuf reads it and geotfr takes it, its message, and whether that differs for TensorFlow."""
    message = tf.train.Example.FromString(record)
    message.DiscardUnknownFields()
    changed = rewrite_features(message.features.feature, made)
    return message.SerializeToString(), message, changed


def is_broken(message: Any, made: dict[str, Spec]) -> bool:
    """Whether a sparse feature is misaligned or a partition doesn't cover its values: the slow, obvious way."""

    def numbers(key: str) -> list[int]:
        feature = message.features.feature
        return list(feature[key].int64_list.value) if key in feature else []

    def count(key: str) -> int:
        if key not in message.features.feature:
            return 0
        feature = message.features.feature[key]
        return sum(len(getattr(feature, name).value) for name in LISTS)

    for key, spec in made.items():
        if spec.name == "SparseFeature":
            index = spec.arguments["index_key"]
            keys = [index] if isinstance(index, str) else index
            if any(count(each) != count(spec.arguments["value_key"]) for each in keys):
                return True
        if spec.name == "RaggedFeature":
            items = count(key)
            for partition, argument in reversed(spec.partitions):
                lengths = row_lengths(partition, argument, numbers, items)
                if lengths is None or any(length < 0 for length in lengths) or sum(lengths) != items:
                    return True
                items = len(lengths)
    return False


def row_lengths(partition: str, argument: Any, numbers: Any, items: int) -> list[int] | None:
    if partition == "UniformRowLength":
        return [argument] * (items // argument)
    given = numbers(argument)
    if partition == "RowLengths":
        return given
    if partition == "ValueRowIds":
        if given != sorted(given) or (given and given[0] < 0) or len(given) != items:
            return None
        return [given.count(row) for row in range(given[-1] + 1)] if given else []
    if partition == "RowSplits":
        if given and given[0] != 0:
            return None
        limits = given[1:]
    elif partition == "RowStarts":
        if given and given[0] != 0:
            return None
        limits = [*given[1:], items] if given else []
    else:
        limits = given
    return [stop - start for start, stop in zip([0, *limits], limits, strict=False)]


def outcome(call: Any) -> Any:
    """The plain result, or the error."""
    try:
        return plain(call())
    except (GeotfrError, tf.errors.OpError, ValueError, TypeError) as error:
        return error


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Spec], list[tuple[bytes, bool]]]:
    names = (
        "FixedLenFeature",
        "VarLenFeature",
        "SparseFeature",
        "FixedLenSequenceFeature",
        "RaggedFeature",
    )
    made = draw(specs(names=names))
    batch = [draw(serialized(draw(contents(made)))) for _ in range(draw(st.integers(1, 3)))]
    if draw(st.booleans()):
        # Enough of each layout to be read as a matrix.
        batch = batch * WORTH_A_MATRIX
    return made, batch


def check(case: tuple[dict[str, Spec], list[tuple[bytes, bool]]]) -> None:
    made, batch = case
    records = [record for record, _ in batch]
    news = [rewritten(record, made) for record in records]
    oracle = [new if odd or changed else old for (old, odd), (new, _, changed) in zip(batch, news, strict=True)]
    broken = [is_broken(message, made) for _, message, _ in news]
    ours, theirs = for_geotfr(made), for_tensorflow(tf, made)
    compare(
        outcome(lambda: parse_example(records, ours)),
        outcome(lambda: tf.io.parse_example(oracle, theirs)),
        any(broken),
    )
    compare(
        outcome(lambda: parse_single_example(records[0], ours)),
        outcome(lambda: tf.io.parse_single_example(oracle[0], theirs)),
        broken[0],
    )


def compare(ours: Any, theirs: Any, is_broken_record: bool) -> None:
    if isinstance(ours, Exception):
        assert isinstance(ours, GeotfrError), ours
        assert is_broken_record or isinstance(theirs, Exception), (ours, theirs)
    else:
        assert not is_broken_record
        assert not isinstance(theirs, Exception), (ours, theirs)
        assert ours == theirs


COMMON: Any = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": list(HealthCheck),
}


@settings(max_examples=QUICK_CASES, **COMMON)
@given(cases())
def test_a_quick_share_of_examples_is_parsed_as_tensorflow_does(case: Any) -> None:
    check(case)


@pytest.mark.slow
@settings(max_examples=ALL_CASES, **COMMON)
@given(cases())
def test_examples_are_parsed_as_tensorflow_does(case: Any) -> None:
    check(case)


def test_examples_with_float_bits_keep_them() -> None:
    signalling = struct.unpack("<f", bytes.fromhex("0100807f"))[0]
    record = wire.example({"a": ("float", [signalling])})
    specs_of = {"a": Spec("VarLenFeature", "float")}
    assert plain(parse_example([record], for_geotfr(specs_of))) == plain(
        dict(tf.io.parse_example([record], for_tensorflow(tf, specs_of)))
    )

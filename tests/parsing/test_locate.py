"""Reading without protobuf, held against protobuf on records that were changed at random."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example as with_case
from hypothesis import given
from hypothesis import strategies as st
from parsing import wire

from geotfr.errors import RecordError
from geotfr.records.kind import Kind
from geotfr.records.locate import locate
from geotfr.records.messages import example_class, sequence_example_class
from geotfr.records.parse import read
from geotfr.records.parse.batch import Batch
from geotfr.records.parse.columns import Column
from geotfr.records.parse.read import WORTH_A_MATRIX, read_columns

KINDS = {"f": Kind.FLOAT, "i": Kind.INT64, "b": Kind.BYTES}
RECORD = wire.example(
    {"f": ("float", [1.5, -2.0]), "i": ("int64", [3, 300, -1]), "b": ("bytes", [b"ab", b""]), "n": "no kind"}
)
SEQUENCE = wire.sequence_example(
    {"f": ("float", [1.5]), "i": ("int64", [7]), "b": ("bytes", [b"ab"])},
    {"f": [("float", [1.0]), "no kind", ("float", [])], "i": [("int64", [1, 2])], "b": [("bytes", [b"x"])]},
)


@st.composite
def changed(draw: st.DrawFn, record: bytes) -> bytes:
    """``record`` with one or two bytes changed, left out or added."""
    data = bytearray(record)
    for _ in range(draw(st.integers(1, 2))):
        position = draw(st.integers(0, len(data) - 1))
        how = draw(st.sampled_from(["change", "bit", "drop", "add"]))
        if how == "change":
            data[position] = draw(st.integers(0, 255))
        elif how == "bit":
            data[position] ^= 1 << draw(st.integers(0, 7))
        elif how == "drop":
            del data[position]
        else:
            data.insert(position, draw(st.integers(0, 255)))
    return bytes(data)


def by_protobuf(record: bytes, *, is_sequence: bool) -> dict[Any, Any] | None:
    """(section, key) -> rows of (kind, values), by protobuf alone; None where it refuses."""
    from google.protobuf.message import DecodeError
    from google.protobuf.unknown_fields import UnknownFieldSet

    make: Any = sequence_example_class() if is_sequence else example_class()
    try:
        message = make.FromString(record)
    except DecodeError:
        return None
    maps = (message.context, message.feature_lists) if is_sequence else (message.features,)
    if any(each.field_number == 1 for one in maps for each in UnknownFieldSet(one)):
        # Entries that protobuf has put aside; geotfr refuses to lose them.
        return None
    found: dict[Any, Any] = {}
    for key in KINDS:
        features = (message.context if is_sequence else message.features).feature
        found["context" if is_sequence else "features", key] = [contents(features[key])] if key in features else [None]
        if is_sequence:
            lists = message.feature_lists.feature_list
            found["feature_lists", key] = [contents(step) for step in lists[key].feature] if key in lists else []
    return found


def contents(feature: Any) -> tuple[str, list[Any]] | None:
    kind = feature.WhichOneof("kind")
    return (kind.removesuffix("_list"), list(getattr(feature, kind).value)) if kind else None


def rows_of(column: Column) -> list[Any]:
    """A column as :func:`by_protobuf` has it."""
    rows, start = [], 0
    for count, present in zip(column.counts.tolist(), column.present.tolist(), strict=True):
        rows.append((column.kind.value, column.values[start : start + count].tolist()) if present else None)
        start += count
    assert start == len(column.values)
    return rows


def has_kind(rows: list[Any], kind: Kind) -> bool:
    return all(row is None or row[0] == kind.value for row in rows)


def check(record: bytes, *, is_sequence: bool) -> None:
    """Read ``record`` in every way, also among whole ones; what protobuf takes has to come out the same."""
    whole = SEQUENCE if is_sequence else RECORD
    sections = ("context", "feature_lists") if is_sequence else ("features",)
    wanted = {(section, key): kind for section in sections for key, kind in KINDS.items()}
    for records in ([record], [record] * WORTH_A_MATRIX, [whole] * WORTH_A_MATRIX + [record, whole]):
        expected = [by_protobuf(each, is_sequence=is_sequence) for each in records]
        try:
            found = read_columns(Batch(records, None, is_sequence=is_sequence), wanted)
        except RecordError:
            if all(
                each is not None and has_kind(each[where], kind) for each in expected for where, kind in wanted.items()
            ):
                raise
            continue
        for where, column in found.items():
            rows = [row for each in expected if each is not None for row in each[where]]
            if None not in expected:
                # As text, where NaN equals NaN and -0.0 isn't 0.0.
                assert repr(rows_of(column)) == repr(rows)


@pytest.fixture(params=["small", "large"], autouse=True, scope="module")
def size(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whether the records count as small or as large."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "large":
            patch.setattr(read, "WALK_FROM_BYTES", -1)
        yield


@given(changed(RECORD))
@with_case(RECORD)
@with_case(b"")
def test_changed_examples_are_read_as_protobuf_does_or_refused(record: bytes) -> None:
    check(record, is_sequence=False)


@given(changed(SEQUENCE))
@with_case(SEQUENCE)
@with_case(b"")
def test_changed_sequence_examples_are_read_as_protobuf_does_or_refused(record: bytes) -> None:
    check(record, is_sequence=True)


@pytest.mark.parametrize("layout", ["unpacked", "chunks", "empty chunk", "unknown fields"])
def test_uncommon_layouts_are_left_to_protobuf(layout: wire.Layout) -> None:
    record = wire.example({"i": ("int64", [1, 2])}, layout)
    assert locate(memoryview(record), is_sequence=False) is None
    check(record, is_sequence=False)


def test_records_of_very_many_values_are_left_to_protobuf() -> None:
    record = wire.example({"b": ("bytes", [b""] * 20_000)})
    assert locate(memoryview(record), is_sequence=False) is None
    columns = read_columns(Batch([record], None, is_sequence=False), {("features", "b"): Kind.BYTES})
    assert len(columns["features", "b"].values) == 20_000


def test_a_cut_integer_takes_nothing_of_the_next_record() -> None:
    whole = wire.example({"i": ("int64", [1, 2])})
    cut = whole[:-1] + b"\x82"
    with pytest.raises(RecordError):
        read_columns(
            Batch([*[whole] * WORTH_A_MATRIX, cut, whole], None, is_sequence=False), {("features", "i"): Kind.INT64}
        )


ODD = {
    "a key twice": wire.field(1, wire.entry("i", wire.feature(("int64", [1]))) * 2),
    "a length of ten bytes": b"\x0a\x82" + b"\x80" * 8 + b"\x00\x0a\x00",
    "another field in a list": wire.field(1, wire.entry("b", wire.field(1, wire.field(2, b"x") + wire.field(1, b"y")))),
    "another field in an entry": wire.field(1, wire.field(1, wire.field(1, b"b") + wire.field(3, b""))),
}


@pytest.mark.parametrize("what", ODD)
def test_odd_records_are_left_to_protobuf(what: str) -> None:
    assert locate(memoryview(ODD[what]), is_sequence=False) is None
    check(ODD[what], is_sequence=False)


def test_lists_of_very_many_steps_are_left_to_protobuf() -> None:
    record = wire.sequence_example({}, {"i": [("int64", [1])] * 10_001})
    assert locate(memoryview(record), is_sequence=True) is None
    columns = read_columns(Batch([record], None, is_sequence=True), {("feature_lists", "i"): Kind.INT64})
    assert columns["feature_lists", "i"].values.tolist() == [1] * 10_001


def test_a_feature_of_another_kind_is_told_however_it_is_read() -> None:
    for records in ([RECORD], [RECORD] * WORTH_A_MATRIX):
        with pytest.raises(RecordError, match="record 0: feature 'f' is float, asked for as int64"):
            read_columns(Batch(records, None, is_sequence=False), {("features", "f"): Kind.INT64})

"""Features come out as protobuf decodes them, whatever way they are stored, in batches of one shape."""

from __future__ import annotations

import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.memory import PEAK_MIB
from records_reading.shards import example, field, floats, frame, integers, shard, texts, varint

from geotfr.errors import LimitError, RecordError
from geotfr.records.faults import ReadReport
from geotfr.records.messages import example_class
from geotfr.records.reader import FeatureBatch, read_features

if TYPE_CHECKING:
    from pathlib import Path

KINDS = {"float_list": np.float32, "int64_list": np.int64}


def decoded(payload: bytes) -> dict[str, Any]:
    """Key -> dtype and bits of the values, a list of bytes values, or None; by protobuf."""
    found: dict[str, Any] = {}
    for key, feature in example_class().FromString(payload).features.feature.items():  # type: ignore[attr-defined]
        kind = feature.WhichOneof("kind")
        if kind in KINDS:
            found[key] = KINDS[kind].__name__, np.array(getattr(feature, kind).value, KINDS[kind]).tobytes()
        else:
            found[key] = None if kind is None else list(feature.bytes_list.value)
    return found


def given_out(batch: FeatureBatch, row: int) -> dict[str, Any]:
    """As :func:`decoded`, of one record of a batch."""
    found: dict[str, Any] = {}
    for key, values in batch.features.items():
        if values is None:
            found[key] = None
        elif isinstance(values, list):
            assert len(values[row]) != 1
            found[key] = list(values[row])
        elif values.dtype == np.uint8:
            found[key] = [values[row].tobytes()]
        else:
            found[key] = values.dtype.name, values[row].tobytes()
    return found


def check(path: Path, payloads: list[bytes], **options: Any) -> list[FeatureBatch]:
    """Every record comes once, in order, as protobuf decodes it."""
    content = shard(payloads)
    path.write_bytes(content)
    number = place = 0
    for batch in read_features(path, **options):
        assert batch.path == str(path)
        for row in range(len(batch)):
            assert (batch.records[row], batch.offsets[row]) == (number, place)
            assert given_out(batch, row) == decoded(payloads[number])
            place += len(payloads[number]) + 16
            number += 1
    assert number == len(payloads)
    return list(read_features(path, **options))


KEYS = st.sampled_from(["a", "b", "cc", "é"])
FEATURES = st.one_of(
    st.lists(st.floats(width=32), max_size=3).map(lambda v: floats(*v)),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3).map(lambda v: integers(*v)),
    st.lists(st.integers(0, 400), max_size=3).map(lambda v: integers(*v)),
    st.lists(st.binary(max_size=3), max_size=3).map(lambda v: texts(*v)),
    st.just(b""),
    # Legal, and written by nobody: unpacked, in chunks, overlong varints, empty chunks, unknown fields, two kinds.
    st.lists(st.floats(width=32), max_size=3).map(
        lambda v: field(2, b"".join(b"\x0d" + struct.pack("<f", x) for x in v))
    ),
    st.lists(st.integers(0, 2**63 - 1), max_size=3).map(lambda v: field(3, b"".join(b"\x08" + varint(x) for x in v))),
    st.just(field(2, field(1, bytes(4)) + field(1, bytes(8)))),
    st.just(field(3, field(1, b"\x81\x80\x00\x05"))),
    st.just(field(3, field(1, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))),
    st.just(field(2, field(1, b""))),
    st.just(field(9, b"unknown") + floats(1.5) + varint(72) + varint(5)),
    st.just(floats(1.5) + integers(4)),
    st.just(floats(1.5) + floats(2.5)),
)
ENTRIES = st.tuples(KEYS, FEATURES).map(lambda e: field(1, field(1, e[0].encode()) + field(2, e[1])))
ODD_ENTRIES = st.one_of(
    st.tuples(KEYS, FEATURES).map(lambda e: field(1, field(2, e[1]) + field(1, e[0].encode()))),
    st.just(field(1, field(1, b"a"))),
    st.just(field(1, field(2, floats(1.0)))),
    st.just(field(7, b"x")),
    st.just(field(1, field(1, b"a") + field(9, b"unknown") + field(2, floats(1.0)))),
)
EXAMPLES = st.one_of(
    st.dictionaries(KEYS, FEATURES, max_size=3).map(lambda f: example(**f)),
    st.lists(st.one_of(ENTRIES, ENTRIES, ODD_ENTRIES), max_size=4).map(lambda e: field(1, b"".join(e))),
    st.lists(ENTRIES, max_size=2).map(lambda e: b"".join(field(1, x) for x in e)),
    st.just(b""),
    st.just(field(1, b"") + field(5, b"more")),
)


@given(st.lists(EXAMPLES, min_size=1, max_size=12), st.booleans(), st.sampled_from([200, 4 << 20]))
@settings(max_examples=300, deadline=None)
def test_features_are_as_protobuf_decodes_them(
    tmp_path_factory: pytest.TempPathFactory, payloads: list[bytes], verify: bool, batch_bytes: int
) -> None:
    path = tmp_path_factory.mktemp("features") / "a"
    check(path, payloads, verify_checksums=verify, batch_bytes=batch_bytes)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=300), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_files_of_mixed_layouts_keep_their_order(
    tmp_path_factory: pytest.TempPathFactory, forms: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)

    def record(form: int) -> bytes:
        if form < 3:
            return example(x=floats(*rng.normal(size=2)), n=integers(int(rng.choice([1, 300, 70000]))))
        if form == 3:
            return example(n=integers(5), x=floats(*rng.normal(size=2)))
        if form == 4:
            return example(x=floats(*rng.normal(size=2)), s=texts(b"abc"[: int(rng.integers(4))]))
        return example(x=floats(*rng.normal(size=2)), n=integers(*range(int(rng.integers(4)))))

    check(tmp_path_factory.mktemp("mixed") / "a", [record(form) for form in forms], batch_bytes=2000)


def test_a_batch_holds_all_records_of_one_shape(tmp_path: Path) -> None:
    alike = [example(x=floats(1.0, number), n=integers(number % 7 * 40)) for number in range(1000)]
    batches = check(tmp_path / "a", alike)
    assert [len(batch) for batch in batches] == [1000]
    others = [example(x=floats(1.0)), example(x=integers(1)), example(y=floats(1.0, 2.0))]
    batches = check(tmp_path / "a", [*alike, *others, *alike[:3]])
    assert [len(batch) for batch in batches] == [1000, 1, 1, 1, 3]


def test_a_changed_key_of_equal_length_is_seen_with_checksums_or_without(tmp_path: Path) -> None:
    payloads = [example(**{("b1" if number % 500 < 400 else "b2"): floats(number)}) for number in range(1000)]
    for verify in (True, False):
        batches = check(tmp_path / "a", payloads, verify_checksums=verify, batch_bytes=4000)
        assert {key for batch in batches for key in batch.features} == {"b1", "b2"}


def test_keys_stand_in_the_records_own_order(tmp_path: Path) -> None:
    path = tmp_path / "a"
    reordered = field(1, b"".join(field(1, field(2, floats(1.0)) + field(1, key)) for key in (b"z", b"a", b"m", b"a")))
    path.write_bytes(shard([example(z=floats(1.0), a=floats(2.0), m=floats(3.0)), reordered]))
    assert [list(batch.features) for batch in read_features(path)] == [["z", "a", "m"], ["z", "m", "a"]]


def test_names_choose_features(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(shard([example(a=floats(1.0), b=integers(1), c=texts(b"x"))] * 3 + [example(b=integers(2))]))
    batches = list(read_features(path, names=["c", "b", "none"]))
    assert [(list(batch.features), len(batch)) for batch in batches] == [(["b", "c"], 3), (["b"], 1)]


def test_patches_are_views_of_one_buffer(tmp_path: Path) -> None:
    path = tmp_path / "a"
    values = np.arange(4096, dtype=np.float32)
    path.write_bytes(shard([example(b1=floats(*(values + number)), b2=texts(bytes(64))) for number in range(600)]))
    addresses = set()
    count = 0
    for batch in read_features(path, batch_bytes=1 << 20):
        array = batch.features["b1"]
        assert isinstance(array, np.ndarray)
        assert array.base is not None
        assert np.array_equal(array, values + batch.records[:, None])
        addresses.add(array.__array_interface__["data"][0])
        count += len(batch)
    assert count == 600
    assert len(addresses) < 5


@pytest.mark.parametrize("values", [[0, 127], [128, 16383], [2**31, 2**62], [-1, 0], [-(2**63), 2**63 - 1]])
def test_integers_of_every_width_decode(tmp_path: Path, values: list[int]) -> None:
    rng = np.random.default_rng(3)
    numbers = rng.integers(values[0], values[1], 200_000, endpoint=True)
    path = tmp_path / "a"
    path.write_bytes(frame(example(n=integers(*numbers.tolist()))))
    (batch,) = read_features(path)
    assert np.array_equal(batch.features["n"], numbers[None])


BAD = {
    "no message": b"\xff\xff\xff",
    "a length past the end": b"\x0a\x7f\x00",
    "a key that is no UTF-8": field(1, field(1, field(1, b"\xff") + field(2, floats(1.0)))),
    "a float that is cut": example(a=field(2, field(1, b"abc"))),
    "a varint without end": example(a=field(3, field(1, b"\x80\x80"))),
    "a length of eleven bytes": b"\x0a" + b"\xff" * 10 + b"\x01",
    "a length that is cut": b"\x0a\x80",
    "a varint of eleven bytes": example(a=field(3, field(1, b"\xff" * 10 + b"\x01"))),
}


@pytest.mark.parametrize("what", BAD)
def test_a_payload_that_is_no_example_is_placed(tmp_path: Path, what: str) -> None:
    good = example(a=floats(1.0))
    path = tmp_path / "a"
    path.write_bytes(shard([good, good, BAD[what], good]))
    found: list[FeatureBatch] = []
    with pytest.raises(RecordError, match=rf"record 2 at byte {2 * (len(good) + 16)}: "):
        found.extend(read_features(path))
    assert [batch.records.tolist() for batch in found] == [[0, 1]]
    report = ReadReport()
    batches = list(read_features(path, on_bad_record="skip", report=report))
    assert [number for batch in batches for number in batch.records] == [0, 1, 3]
    assert [fault.record for fault in report.faults] == [2]
    with pytest.raises(Exception, match=r"."):
        example_class().FromString(BAD[what])


def test_lists_that_grow_in_memory_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(shard([example(a=integers(1)), example(n=field(3, field(1, bytes(34 << 20))))]))
    with pytest.raises(LimitError, match=r"record 1 at byte \d+: its values may take 285212672 bytes"):
        list(read_features(path))
    assert len(list(read_features(path, max_record_bytes=1 << 30))) == 2
    path.write_bytes(frame(example(s=texts(*[b""] * 5000), t=field(1, b"\x0a\x00" * (10 << 20)))))
    with pytest.raises(LimitError, match="record 0 at byte 0"):
        list(read_features(path))


def test_a_limit_passed_by_some_records_of_a_size_leaves_the_others(tmp_path: Path) -> None:
    # One size in bytes, three counts of values: the last count is over the limit.
    chunks = [b"\x81\x80\x80\x80\x00" * 6, b"\x81\x80\x00" * 10, b"\x01" * 30]
    payloads = [example(n=field(3, field(1, chunk))) for chunk in chunks * 2]
    path = tmp_path / "a"
    path.write_bytes(shard(payloads))
    report = ReadReport()
    batches = list(read_features(path, max_record_bytes=200, on_bad_record="skip", report=report))
    assert [number for batch in batches for number in batch.records] == [0, 1, 3, 4]
    assert [fault.record for fault in report.faults] == [2, 5]


def test_records_that_all_differ_leave_no_memory_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("geotfr.records.batches.MAX_LAYOUTS_IN_ALL", 5)
    check(tmp_path / "a", [example(**{f"key{number}" * (number % 9 + 1): floats(number)}) for number in range(200)])


HOSTILE = {
    "int64 lists": lambda: field(3, field(1, bytes(31 << 20))),
    "int64 values unpacked": lambda: field(3, b"\x08\x01" * (9 << 20)),
    "floats unpacked": lambda: field(2, b"\x0d\x00\x00\x80\x3f" * (3 << 20)),
    "empty bytes values": lambda: field(1, b"\x0a\x00" * (9 << 20)),
    "short bytes values": lambda: field(1, b"\x0a\x02ab" * (4 << 20)),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_lists_take_less_than_512_mib(tmp_path: Path, what: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(frame(example(x=HOSTILE[what]())))
    script = PEAK_MIB + (
        "import sys\n"
        "from geotfr.errors import LimitError\n"
        "from geotfr.records.reader import read_features\n"
        "try:\n"
        "    list(read_features(sys.argv[1]))\n"
        "except LimitError:\n"
        "    pass\n"
        "print(peak_mib())\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 512


@pytest.mark.parametrize("large", [5000, 20_000])
def test_records_above_4_kib_of_many_sizes_keep_their_order(tmp_path: Path, large: int) -> None:
    payloads = [example(s=texts(bytes((number,)) * (large + number % 3))) for number in range(9)]
    check(tmp_path / "a", [example(s=texts(b"x")), *payloads, example(s=texts(b"y"))])


UNKNOWN = {
    "varint": varint(15 << 3) + varint(300),
    "64 bits": varint(15 << 3 | 1) + bytes(8),
    "bytes": field(15, b"abc"),
    "group": varint(15 << 3 | 3) + field(1, b"in it") + varint(15 << 3 | 4),
    "32 bits": varint(15 << 3 | 5) + bytes(4),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_no_feature_is_lost_behind_unknown_fields(tmp_path: Path, what: str) -> None:
    features = {"b": floats(1.0), "a": integers(1, 2)}
    entries = [field(1, field(1, k.encode()) + field(2, v)) for k, v in features.items()]
    unknown = UNKNOWN[what]
    check(tmp_path / "a", [unknown + field(1, entries[0] + unknown + entries[1]) + unknown] * 3)
    batches = list(read_features(tmp_path / "a", names=["a"]))
    assert [(list(batch.features), len(batch)) for batch in batches] == [(["a"], 3)]


def test_records_that_only_protobuf_reads_leave_no_memory_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("geotfr.records.batches.MAX_LAYOUTS_IN_ALL", 3)
    monkeypatch.setattr("geotfr.records.columns.MOST_ORDERS", 3)
    payloads = [example(**{"k" * number: floats(number)}) + field(15, b"unknown") for number in range(1, 12)]
    check(tmp_path / "a", payloads * 2)


def test_columns_of_alike_records_with_many_or_few_values_are_right(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for count in (2, 40):
        check(tmp_path / "a", [example(x=floats(*rng.normal(size=count))) for _ in range(300)], batch_bytes=8000)

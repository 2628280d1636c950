"""Writing files of Examples: whole or not at all, in shards, in every compression."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geotfr.errors import LimitError, OutputExistsError, UsageError
from geotfr.records.encode import encode_example
from geotfr.records.parse.example import parse_example
from geotfr.records.parse.sequence import parse_sequence_example
from geotfr.records.parse.specs import FixedLenFeature, FixedLenSequenceFeature
from geotfr.records.reader import read_records
from geotfr.storage.example_files import write_examples, write_sequence_examples

RECORDS = [{"a": np.full(4, number, np.float32), "name": f"record {number}"} for number in range(10)]
SPECS = {"a": FixedLenFeature([4], np.float32), "name": FixedLenFeature([], bytes)}
RECORD_BYTES = 16 + len(encode_example(RECORDS[0]))


def names(parsed: Any) -> list[str]:
    return [name.decode() for name in parsed["name"].tolist()]


@pytest.mark.parametrize(
    ("compression", "compressor", "inflate"),
    [
        ("none", "fast", lambda data: data),
        ("gzip", "fast", gzip.decompress),
        ("gzip", "ee", gzip.decompress),
        ("zlib", "fast", zlib.decompress),
    ],
)
def test_what_is_written_reads_back(tmp_path: Path, compression: Any, compressor: Any, inflate: Any) -> None:
    path = tmp_path / "train.tfrecord"
    written = write_examples(path, RECORDS, compression=compression, compressor=compressor)
    assert (written.paths, written.records, written.file_bytes) == ((path,), 10, path.stat().st_size)
    assert len(inflate(path.read_bytes())) == 10 * RECORD_BYTES
    parsed = parse_example(list(read_records(path)), SPECS)
    assert names(parsed) == [f"record {number}" for number in range(10)]
    assert parsed["a"].tolist() == [[number] * 4 for number in range(10)]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        ({"records_per_shard": 4}, [4, 4, 2]),
        ({"max_shard_bytes": 3 * RECORD_BYTES}, [3, 3, 3, 1]),
        ({"max_shard_bytes": 3 * RECORD_BYTES - 1}, [2, 2, 2, 2, 2]),
        ({"max_shard_bytes": 1}, [1] * 10),
        ({"records_per_shard": 100}, [10]),
    ],
)
def test_shards_are_numbered_and_hold_what_the_limits_allow(tmp_path: Path, limits: Any, sizes: list[int]) -> None:
    written = write_examples(tmp_path / "train.tfrecord.gz", RECORDS, compression="gzip", **limits)
    assert [path.name for path in written.paths] == [f"train-{number:05d}.tfrecord.gz" for number in range(len(sizes))]
    assert [len(list(read_records(path))) for path in written.paths] == sizes
    assert [names(parse_example(list(read_records(path)), SPECS))[0] for path in written.paths][:2] == [
        "record 0",
        f"record {sizes[0]}",
    ][: len(sizes)]


@pytest.mark.parametrize(
    ("name", "shard"),
    [
        ("a", "a-00000.tfrecord"),
        ("a.tfrecords", "a-00000.tfrecords"),
        ("a.b.tfrecord", "a.b-00000.tfrecord"),
        ("a.tfrecord.zz", "a-00000.tfrecord.zz"),
    ],
)
def test_the_number_stands_before_the_suffix(tmp_path: Path, name: str, shard: str) -> None:
    assert write_examples(tmp_path / name, RECORDS, records_per_shard=99).paths == (tmp_path / shard,)


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_no_records_make_an_empty_file_of_that_compression(tmp_path: Path, compression: Any) -> None:
    path = tmp_path / "empty.tfrecord"
    write_examples(path, [], compression=compression)
    inflate: Any = {"none": bytes, "gzip": gzip.decompress, "zlib": zlib.decompress}[compression]
    assert inflate(path.read_bytes()) == b""


def test_a_record_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def records() -> Iterator[dict[str, Any]]:
        yield from RECORDS
        yield {"a": 1j}

    with pytest.raises(UsageError, match="record 10: feature 'a' is complex128"):
        write_examples(tmp_path / "train.tfrecord", records(), records_per_shard=2)
    assert list(tmp_path.iterdir()) == []


def test_an_old_set_is_replaced_as_a_whole_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.tfrecord"
    write_examples(path, RECORDS, records_per_shard=2)
    (tmp_path / "train-other.tfrecord").touch()
    with pytest.raises(OutputExistsError):
        write_examples(path, RECORDS, records_per_shard=5)
    write_examples(path, RECORDS, records_per_shard=5, overwrite=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "train-00000.tfrecord",
        "train-00001.tfrecord",
        "train-other.tfrecord",
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"compression": "zlib", "compressor": "ee"}, "Earth Engine's gzip files"),
        ({"compression": "lz4"}, "compression 'lz4' is not known"),
        ({"compressor": "slow"}, "compressor 'slow' is not known"),
        ({"records_per_shard": 0}, "records_per_shard is 0"),
        ({"kinds": {"a": "half"}}, "kind 'half'"),
    ],
)
def test_options_without_meaning_are_refused(tmp_path: Path, options: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        write_examples(tmp_path / "a.tfrecord", RECORDS, **options)


def test_many_chunks_make_one_file(tmp_path: Path) -> None:
    path = tmp_path / "large.tfrecord"
    big = np.arange(300_000, dtype=np.float32)
    write_examples(path, ({"a": big} for _ in range(4)), compression="gzip")
    parsed = parse_example(list(read_records(path)), {"a": FixedLenFeature([300_000], np.float32)})
    assert (parsed["a"] == big).all()


def test_sequences_are_written_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "pixels.tfrecord"
    written = write_sequence_examples(
        path, (({"elevation": float(pixel)}, {"ndvi": np.array([pixel, pixel + 0.5])}) for pixel in range(4))
    )
    assert written.records == 4
    context, lists, lengths = parse_sequence_example(
        list(read_records(path)),
        {"elevation": FixedLenFeature([], np.float32)},
        {"ndvi": FixedLenSequenceFeature([], np.float32)},
    )
    assert context["elevation"].tolist() == [0, 1, 2, 3]  # type: ignore[union-attr]
    assert lists["ndvi"].tolist() == [[0, 0.5], [1, 1.5], [2, 2.5], [3, 3.5]]  # type: ignore[union-attr]
    assert lengths["ndvi"].tolist() == [2, 2, 2, 2]


def test_a_record_above_what_protobuf_reads_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("geotfr.storage.example_files.MAX_RECORD_BYTES", 100)
    with pytest.raises(LimitError, match=r"record 1 has \d+ bytes, protobuf allows 100; cut it up"):
        write_examples(tmp_path / "a.tfrecord", [{"a": b"x"}, {"a": bytes(100)}])
    assert list(tmp_path.iterdir()) == []

"""Records by number equal records in order; an index that isn't the file's is refused."""

from __future__ import annotations

import gzip
import os
import pickle
import zlib
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import pytest
from records_reading.shards import example, floats, frame, shard, sized_member

from geotfr.errors import InputError, MissingInputError, OutputError, OutputExistsError, RecordError
from geotfr.integrity.indexing import write_index
from geotfr.records.gather import IndexedFeatures
from geotfr.records.index import IndexedRecords, RecordIndex, hop_index, read_index
from geotfr.records.members import gzip_members
from geotfr.storage.index_files import indexed_records

if TYPE_CHECKING:
    from pathlib import Path

PAYLOADS = [bytes((number,)) * (number * 37 % 101) for number in range(50)]
RAW = shard(PAYLOADS)
FORMS = {
    "plain": RAW,
    "one member": gzip.compress(RAW),
    "a member a record": b"".join(sized_member(frame(payload)) for payload in PAYLOADS),
    "members that end inside records": b"".join(gzip.compress(RAW[i : i + 91]) for i in range(0, len(RAW), 91)),
    "empty members and padding": gzip.compress(b"") * 2 + gzip.compress(RAW) + gzip.compress(b"") + bytes(9),
}


def make(folder: Path, form: str) -> Path:
    path = folder / "a.tfrecord"
    path.write_bytes(FORMS[form])
    write_index(path)
    return path


@pytest.mark.parametrize("form", FORMS)
def test_records_by_number_are_those_in_order(tmp_path: Path, form: str) -> None:
    with IndexedRecords(make(tmp_path, form)) as records:
        assert len(records) == 50
        assert [records[number] for number in reversed(range(50))] == PAYLOADS[::-1]
        assert records[-1] == PAYLOADS[-1]
        assert records[3:9:2] == PAYLOADS[3:9:2]
        assert list(records) == PAYLOADS
        with pytest.raises(IndexError, match="record 50 of 50"):
            records[50]


def test_the_index_is_in_the_common_text_form(tmp_path: Path) -> None:
    path = make(tmp_path, "plain")
    lines = (tmp_path / "a.tfrecord.idx").read_text().splitlines()
    place = 0
    for line, payload in zip(lines, PAYLOADS, strict=True):
        assert line == f"{place} {len(payload) + 16}"
        place += len(payload) + 16
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [path.name, f"{path.name}.idx"]


def test_an_index_of_another_writer_works(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(RAW)
    # As the tfrecord package's tfrecord2idx and DALI's do.
    lines, place = [], 0
    for payload in PAYLOADS:
        lines.append(f"{place} {len(payload) + 16}\n")
        place += len(payload) + 16
    (tmp_path / "a.idx").write_text("".join(lines))
    assert list(IndexedRecords(path)) == PAYLOADS


@pytest.mark.parametrize("form", ["plain", "a member a record"])
def test_records_are_read_by_threads_after_a_fork_and_after_pickling(tmp_path: Path, form: str) -> None:
    records = IndexedRecords(make(tmp_path, form))
    assert records[7] == PAYLOADS[7]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(records.__getitem__, list(range(50)) * 4)) == PAYLOADS * 4
    copy = pickle.loads(pickle.dumps(records))
    assert list(copy) == PAYLOADS
    records.close()
    assert records[1] == PAYLOADS[1]


def test_large_members_are_reached_through_seek_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("indexed_gzip")
    monkeypatch.setattr("geotfr.records.index.LARGEST_MEMBER_BYTES", 1000)
    path = make(tmp_path, "one member")
    assert (tmp_path / "a.tfrecord.gzidx").exists()
    with IndexedRecords(path) as records:
        assert [records[number] for number in reversed(range(50))] == PAYLOADS[::-1]
    (tmp_path / "a.tfrecord.gzidx").write_bytes(b"torn")
    with pytest.raises(RecordError, match="index doesn't fit the file"):
        IndexedRecords(path)[0]
    (tmp_path / "a.tfrecord.gzidx").unlink()
    with pytest.raises(MissingInputError, match="run 'geotfr index"):
        IndexedRecords(path)[0]


def test_seek_points_without_their_library_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("geotfr.records.index.LARGEST_MEMBER_BYTES", 1000)
    monkeypatch.setitem(__import__("sys").modules, "indexed_gzip", None)
    path = tmp_path / "a.gz"
    path.write_bytes(FORMS["one member"])
    with pytest.raises(InputError, match=r"install geotfr\[index\]"):
        write_index(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.gz"]


@pytest.mark.parametrize("form", FORMS)
def test_an_index_of_a_file_that_grew_or_shrank_is_refused(tmp_path: Path, form: str) -> None:
    path = make(tmp_path, form)
    whole = path.read_bytes()
    for content in (whole + FORMS[form][:64], whole[:-1]):
        path.write_bytes(content)
        with pytest.raises(RecordError, match="run 'geotfr index --overwrite'"):
            IndexedRecords(path)


@pytest.mark.parametrize("suffix", [".idx", ".members"])
def test_a_torn_index_is_refused_wherever_it_is_torn(tmp_path: Path, suffix: str) -> None:
    path = make(tmp_path, "a member a record")
    index = path.with_name(path.name + suffix)
    whole = index.read_bytes()
    for length in range(len(whole)):
        index.write_bytes(whole[:length])
        with pytest.raises(RecordError, match="doesn't fit the file"):
            read_index(path)


@pytest.mark.parametrize(
    "text", ["a b\n", "0 16\n\n", "0\n16\n", "-1 16\n", "0 1e3\n", "0 99999999999999999999\n", "0 1\n"]
)
def test_an_index_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    path = make(tmp_path, "plain")
    path.with_name("a.tfrecord.idx").write_text(text)
    with pytest.raises(RecordError, match="doesn't fit the file"):
        read_index(path)


@pytest.mark.parametrize("form", ["plain", "a member a record", "one member"])
def test_a_file_rewritten_at_its_size_is_refused_on_access(tmp_path: Path, form: str) -> None:
    path = make(tmp_path, form)
    records = IndexedRecords(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    bad = 0
    for number in range(50):
        try:
            assert records[number] == PAYLOADS[number]
        except RecordError:
            bad += 1
    assert bad >= 1


def test_an_index_isnt_replaced_unasked_and_damage_makes_none(tmp_path: Path) -> None:
    path = make(tmp_path, "plain")
    with pytest.raises(OutputExistsError):
        write_index(path)
    write_index(path, overwrite=True)
    other = tmp_path / "b"
    other.write_bytes(RAW[:-1])
    with pytest.raises(RecordError, match="record 49"):
        write_index(other)
    assert not (tmp_path / "b.idx").exists()


def test_what_has_no_random_access_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(zlib.compress(RAW))
    with pytest.raises(InputError, match="zlib"):
        write_index(path)
    path.write_bytes(RAW)
    with pytest.raises(MissingInputError, match="no such index; run 'geotfr index'"):
        IndexedRecords(path)
    with pytest.raises(MissingInputError, match="no such file"):
        IndexedRecords(tmp_path / "none")


def test_an_empty_shard_has_an_empty_index(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"")
    write_index(path)
    assert len(IndexedRecords(path)) == 0


@pytest.mark.parametrize("damage", ["header", "cut", "cut header"])
def test_hops_over_a_file_that_is_damaged_are_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(RAW)
    good = hop_index(path)
    last = int(good.offsets[-1])
    content = bytearray(RAW)
    content[last + 8] ^= 1
    path.write_bytes({"header": bytes(content), "cut": RAW[:-1], "cut header": RAW[: last + 5]}[damage])
    with pytest.raises(RecordError, match=f"record 49 at byte {last}: no whole record"):
        hop_index(path)


@pytest.mark.parametrize("change", [-1, 1], ids=["less", "more"])
@pytest.mark.parametrize("form", ["a member a record", "members that end inside records"])
def test_members_of_other_sizes_than_the_index_tells_are_refused(tmp_path: Path, form: str, change: int) -> None:
    path = make(tmp_path, form)
    found = read_index(path)
    assert found.members is not None
    members = found.members.copy()
    members[10:, 1] += change
    with IndexedRecords(path, RecordIndex(found.offsets, found.lengths, members)) as records:
        assert records[0] == PAYLOADS[0]
        with pytest.raises(RecordError, match="the index doesn't fit the file"):
            list(records)


def test_a_system_without_reads_into_place_reads_by_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(RAW)
    monkeypatch.delattr(os, "preadv")
    with IndexedRecords(path, hop_index(path)) as records:
        assert records.scatterer() is None
        view = bytearray(len(RAW) + 9)
        assert records.reader()(0, memoryview(view)) == len(RAW)
        assert view[: len(RAW)] == RAW


def test_an_index_that_no_folder_takes_stays_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.tfrecord.gz"
    path.write_bytes(gzip.compress(RAW))
    (tmp_path / "file").touch()
    with indexed_records(path, folder=tmp_path / "file") as records:
        assert list(records) == PAYLOADS
    monkeypatch.setattr("geotfr.records.index.LARGEST_MEMBER_BYTES", 100)
    with pytest.raises(OutputError, match="give a folder for the index"):
        indexed_records(path, folder=tmp_path / "file")
    folder = tmp_path / "folder"
    with indexed_records(path, folder=folder) as records:
        assert list(records) == PAYLOADS
    for points in folder.glob("*.gzidx"):
        points.unlink()
    with pytest.raises(MissingInputError, match="geotfr index --overwrite"):
        indexed_records(path, folder=folder)


@pytest.mark.parametrize("tail", [b"", bytes(5), bytes(40), gzip.compress(b"")], ids=len)
def test_members_are_placed_whatever_stands_behind_them(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "a.tfrecord.gz"
    packed = [sized_member(frame(payload)) for payload in PAYLOADS]
    path.write_bytes(b"".join(packed) + tail)
    found = gzip_members(path)
    places = [0, *accumulate(map(len, packed))]
    made = [0, *accumulate(len(payload) + 16 for payload in PAYLOADS)]
    assert found[:50].tolist() == [list(each) for each in zip(places[:-1], made[:-1], strict=True)]
    assert found[-1].tolist() == [path.stat().st_size, len(RAW)]
    with pytest.raises(InputError, match="can't be read"):
        gzip_members(tmp_path / "none")


def test_records_by_number_are_checked_whatever_was_learned_of_them(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    raw = shard([example(x=floats(number)) for number in range(200)])
    size = len(raw) // 200
    path.write_bytes(raw)
    with IndexedRecords(path, hop_index(path)) as records:
        features = IndexedFeatures(records)
        for numbers in (np.arange(100), np.arange(100, 200), np.arange(0, 200, 7)):
            (batch,) = features.batches(numbers)
            assert np.array_equal(batch.features["x"], numbers[:, None])
        damaged = bytearray(raw)
        damaged[150 * size + size - 6] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(RecordError, match=f"record 150 at byte {150 * size}: not the"):
            list(features.batches(np.arange(100, 200)))
        path.write_bytes(raw[: 160 * size + 3])
        with pytest.raises(RecordError, match="record 160 at byte"):
            list(features.batches(np.arange(151, 200)))

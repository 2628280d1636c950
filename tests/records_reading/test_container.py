"""Files are opened by their content, damage is placed, and nothing is allocated on a file's word."""

from __future__ import annotations

import gzip
import os
import resource
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from oracle.memory import PEAK_MIB
from records_reading.shards import example, floats, frame, header, masked_crc, shard, sized_member

from geotfr.errors import InputError, LimitError, MissingInputError, RecordError, UsageError
from geotfr.records.faults import ReadReport
from geotfr.records.framing import RecordBlocks
from geotfr.records.reader import read_records
from geotfr.records.stream import open_stream

TEN = [example(b1=floats(float(number), 0.5), id=floats(*range(number))) for number in range(10)]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def starts(payloads: list[bytes]) -> list[int]:
    found = [0]
    for payload in payloads:
        found.append(found[-1] + len(payload) + 16)
    return found


# What a file is


FORMS = {
    "plain": shard(TEN),
    "gzip": gzip.compress(shard(TEN)),
    "gzip with a name and a comment": b"\x1f\x8b\x08\x18"
    + bytes(6)
    + b"name\0comment\0"
    + gzip.compress(shard(TEN))[10:],
    "a member a record": b"".join(gzip.compress(frame(payload)) for payload in TEN),
    "members of known size": b"".join(sized_member(frame(payload)) for payload in TEN),
    "members that end inside records": b"".join(gzip.compress(shard(TEN)[i : i + 7]) for i in range(0, 800, 7)),
    "empty members between": gzip.compress(b"") + gzip.compress(shard(TEN)) + gzip.compress(b""),
    "gzip and zero padding": gzip.compress(shard(TEN)) + bytes(1000),
    "zlib": zlib.compress(shard(TEN)),
    "zlib and zero padding": zlib.compress(shard(TEN)) + bytes(9),
}


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
@pytest.mark.parametrize("form", FORMS)
def test_the_content_decides_what_a_file_is(tmp_path: Path, form: str, name: str) -> None:
    report = ReadReport()
    assert list(read_records(write(tmp_path / name, FORMS[form]), report=report)) == TEN
    assert bool(report.notes) == (name.endswith(".gz") != ("gzip" in form or "member" in form))
    assert not report.warnings
    assert not report.faults


def test_members_are_inflated_by_threads_in_order(tmp_path: Path) -> None:
    payloads = [os.urandom(70_000) for _ in range(12)]
    path = write(tmp_path / "a.gz", b"".join(sized_member(frame(payload)) for payload in payloads))
    assert list(read_records(path)) == payloads


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda m: m[:-4] + struct.pack("<I", 5), "gzip member 1 says that it holds 5 bytes"),
        (lambda m: m[:-8] + bytes(4) + m[-4:], "the checksum of gzip member 1 is 00000000"),
        (lambda m: m[:16] + struct.pack("<Q", len(m) - 1) + m[24:], None),
        (lambda m: m[:16] + struct.pack("<Q", 2**63) + m[24:], None),
    ],
)
def test_a_member_that_lies_of_its_size_is_read_or_told(tmp_path: Path, change, problem: str | None) -> None:
    payloads = [os.urandom(70_000) for _ in range(4)]
    members = [sized_member(frame(payload)) for payload in payloads]
    path = write(tmp_path / "a.gz", members[0] + change(members[1]) + members[2] + members[3])
    if problem is None:
        assert list(read_records(path)) == payloads
    else:
        with pytest.raises(RecordError, match=problem):
            list(read_records(path))


@pytest.mark.parametrize("length", [559_903, 0x9C78, 0x0178])
def test_a_plain_file_that_begins_like_a_compressed_one_is_plain(tmp_path: Path, length: int) -> None:
    payload = bytes(length)
    path = write(tmp_path / "a.tfrecord", frame(payload))
    assert path.read_bytes()[:2] in (b"\x1f\x8b", b"\x78\x9c", b"\x78\x01")
    assert list(read_records(path)) == [payload]


@pytest.mark.parametrize("asked", ["none", "gzip", "zlib"])
def test_another_compression_than_asked_is_an_error_that_says_what_it_is(tmp_path: Path, asked: str) -> None:
    for form, name in (("plain", "none"), ("gzip", "gzip"), ("zlib", "zlib")):
        path = write(tmp_path / form, FORMS[form])
        if name == asked:
            assert list(read_records(path, compression=asked)) == TEN  # type: ignore[arg-type]
        else:
            with pytest.raises(RecordError, match=f"compression='{asked}' was asked, but the content is "):
                list(read_records(path, compression=asked))  # type: ignore[arg-type]


def test_content_that_is_nothing_is_not_named_plain(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gz", b"\xee" * 40)
    with pytest.raises(RecordError, match="the content is no TFRecord header, gzip or zlib"):
        list(read_records(path, compression="gzip"))
    with pytest.raises(RecordError, match="record 0 at byte 0: length checksum"):
        list(read_records(path))


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that can be opened and not read")
def test_a_file_that_cant_be_read_is_an_input_error() -> None:
    with pytest.raises(InputError, match=r"/proc/self/mem: can't be read: Input/output error"):
        list(read_records("/proc/self/mem"))


def test_unknown_choices_are_usage_errors(tmp_path: Path) -> None:
    path = write(tmp_path / "a", FORMS["plain"])
    with pytest.raises(UsageError, match="'bzip2' is unknown"):
        list(read_records(path, compression="bzip2"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'ignore' is unknown"):
        list(read_records(path, on_bad_record="ignore"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n", "a Git LFS pointer"),
        ("\n<!DOCTYPE html>\n<html><body>404</body></html>", "an HTML page"),
        ('{"error": {"code": 403, "message": "é"}}', "JSON text"),
        ("longitude,latitude\n1,2\n", "a text file"),
    ],
)
@pytest.mark.parametrize("policy", ["error", "skip", "repair"])
def test_a_text_file_is_named_as_such(tmp_path: Path, text: str, kind: str, policy: str) -> None:
    path = write(tmp_path / "a.tfrecord.gz", text.encode())
    with pytest.raises(RecordError, match=kind):
        list(read_records(path, on_bad_record=policy))  # type: ignore[arg-type]


def test_an_empty_plain_file_is_an_empty_shard_with_a_warning(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord", b"")
    report = ReadReport()
    assert list(read_records(path, report=report)) == []
    assert report.warnings == [f"{path}: no records: an empty shard"]
    with pytest.warns(UserWarning, match="no records: an empty shard"):
        list(read_records(path))


def test_an_empty_gzip_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="0 bytes, but even an empty gzip file has a header"):
        list(read_records(write(tmp_path / "a.tfrecord.gz", b"")))
    with pytest.raises(RecordError, match="0 bytes"):
        list(read_records(write(tmp_path / "a.tfrecord", b""), compression="zlib"))


def test_a_missing_file_and_a_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="no such file"):
        list(read_records(tmp_path / "none"))
    with pytest.raises(InputError, match="not a regular file"):
        list(read_records(tmp_path))


def test_files_are_read_in_the_given_order(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, frame(name.encode())) for name in ("b", "a", "c")]
    report = ReadReport()
    assert list(read_records(paths, report=report)) == [b"b", b"a", b"c"]
    assert (report.files, report.records) == (3, 3)


# Damage


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes((content[place] ^ 1,)) + content[place + 1 :]


def test_a_flipped_payload_byte_is_an_error_with_file_record_and_offset(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord", flipped(FORMS["plain"], starts(TEN)[5] + 20))
    found = []
    with pytest.raises(
        RecordError, match=rf"a\.tfrecord: record 5 at byte {starts(TEN)[5]}: data checksum \w{{8}}, computed"
    ):
        found.extend(read_records(path))
    report = ReadReport()
    assert list(read_records(path, on_bad_record="skip", report=report)) == TEN[:5] + TEN[6:]
    assert (report.fault_count, report.faults[0].record) == (1, 5)


def test_skip_tells_once_of_one_record_in_gzip_too(tmp_path: Path) -> None:
    # Stored, so that a flip stays one.
    content = bytearray(gzip.compress(FORMS["plain"], 0))
    content[content.index(TEN[5][-8:]) + 1] ^= 1
    path = write(tmp_path / "a.gz", bytes(content) + gzip.compress(frame(b"more")))
    report = ReadReport()
    assert list(read_records(path, on_bad_record="skip", report=report)) == [*TEN[:5], *TEN[6:], b"more"]
    assert [str(fault.record) for fault in report.faults] == ["5"]
    with pytest.warns(UserWarning, match=r"record 5 .* \(1 faults"):
        list(read_records(path, on_bad_record="skip"))


def test_skip_leaves_out_what_follows_a_wrong_length(tmp_path: Path) -> None:
    path = write(tmp_path / "a", flipped(FORMS["plain"], starts(TEN)[5]))
    report = ReadReport()
    assert list(read_records(path, on_bad_record="skip", report=report)) == TEN[:5]
    assert report.lost_bytes == starts(TEN)[-1] - starts(TEN)[5]


def test_repair_goes_on_at_the_next_record(tmp_path: Path) -> None:
    path = write(tmp_path / "a", flipped(FORMS["plain"], starts(TEN)[5]))
    report = ReadReport()
    assert list(read_records(path, on_bad_record="repair", report=report)) == TEN[:5] + TEN[6:]
    assert report.lost_bytes == len(TEN[5]) + 16


def test_repair_goes_on_behind_junk_and_holes(tmp_path: Path) -> None:
    junk = b"junk" * 30_000
    path = write(tmp_path / "a", shard(TEN[:3]) + junk + shard(TEN[3:6]) + bytes(5_000_000) + shard(TEN[6:]))
    report = ReadReport()
    assert list(read_records(path, on_bad_record="repair", report=report)) == TEN
    assert report.lost_bytes == len(junk) + 5_000_000


@pytest.mark.parametrize("member", [gzip.compress, sized_member])
def test_repair_goes_on_at_the_next_gzip_member(tmp_path: Path, member) -> None:
    members = [member(shard(TEN[start : start + 2])) for start in range(0, 10, 2)]
    members[2] = members[2][:30] + b"\xff" * 20 + members[2][50:]
    path = write(tmp_path / "a.gz", b"".join(members))
    report = ReadReport()
    found = list(read_records(path, on_bad_record="repair", report=report))
    assert found[:4] == TEN[:4]
    assert found[-4:] == TEN[6:]
    assert report.faults[0].member == 2


def test_a_cut_file_gives_its_whole_records(tmp_path: Path) -> None:
    path = write(tmp_path / "a", FORMS["plain"][: starts(TEN)[4] + 21])
    with pytest.raises(RecordError, match=r"record 4 at byte \d+: .*it is cut"):
        list(read_records(path))
    assert list(read_records(path, on_bad_record="skip", report=ReadReport())) == TEN[:4]


@pytest.mark.parametrize("form", ["gzip", "zlib"])
def test_junk_behind_the_data_is_told_after_every_record(tmp_path: Path, form: str) -> None:
    path = write(tmp_path / "a.gz", FORMS[form] + bytes(3) + b"junk")
    found = []
    with pytest.raises(RecordError, match=r"record 10 .*4 bytes at byte \d+ of the file .*junk behind the data"):
        found.extend(read_records(path))
    report = ReadReport()
    assert list(read_records(path, on_bad_record="repair", report=report)) == TEN
    assert report.fault_count == 1


def test_checksums_of_payloads_can_be_left_out(tmp_path: Path) -> None:
    content = flipped(FORMS["plain"], starts(TEN)[5] + 20)
    assert len(list(read_records(write(tmp_path / "a", content), verify_checksums=False))) == 10


# Limits


def test_a_length_of_2_to_the_60_is_refused_before_memory_is_given(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=f"the record has {2**60 + 16} bytes, the file 20 from here"):
        list(read_records(write(tmp_path / "a", header(2**60) + b"12345678")))
    with pytest.raises(LimitError, match=rf"record 1 at byte 17 .*length {2**60}, the limit is 134217728"):
        list(read_records(write(tmp_path / "a.gz", gzip.compress(frame(b"x") + header(2**60) + bytes(100)))))


def test_max_record_bytes_is_a_limit_for_every_record(tmp_path: Path) -> None:
    path = write(tmp_path / "a", shard([b"x" * 10, b"y" * 100, b"z" * 9]))
    assert len(list(read_records(path, max_record_bytes=100))) == 3
    with pytest.raises(LimitError, match="record 1 at byte 26: length 100, the limit is 99; raise max_record_bytes"):
        list(read_records(path, max_record_bytes=99))
    report = ReadReport()
    assert list(read_records(path, max_record_bytes=99, on_bad_record="repair", report=report)) == [b"x" * 10, b"z" * 9]


BOMBS = {
    "zeros": lambda: bytes(64 << 20),
    "one record of zeros": lambda: header(1 << 30) + bytes(64 << 20),
    "records of nothing": lambda: (header(0) + struct.pack("<I", masked_crc(b""))) * (4 << 20),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_gzip_bomb_takes_little_memory(tmp_path: Path, bomb: str) -> None:
    path = write(tmp_path / "a.gz", gzip.compress(BOMBS[bomb](), 6))
    script = PEAK_MIB + (
        "import sys\n"
        "from geotfr.errors import GeotfrError\n"
        "from geotfr.records.reader import read_records\n"
        "before = peak_mib()\n"
        "try:\n"
        "    count = sum(1 for _ in read_records(sys.argv[1]))\n"
        "    print(count)\n"
        "except GeotfrError as error:\n"
        "    print(type(error).__name__)\n"
        "print(peak_mib() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    outcome, mebibytes = done.stdout.split()
    wanted = {"zeros": "RecordError", "one record of zeros": "LimitError", "records of nothing": str(4 << 20)}
    assert outcome == wanted[bomb]
    assert int(mebibytes) < 100


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    record = frame(bytes(1 << 20))
    with path.open("wb") as file:
        for _ in range(80):
            file.write(record)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open_stream(str(path)) as stream:
        assert sum(len(block.starts) for block in RecordBlocks(stream, report=ReadReport())) == 80
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 << 10


def test_a_record_above_2_gib_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.write(header(2**31 + 1))
        # Sparse: it takes no disk, and would take all the time and memory if it were read.
        file.truncate(2**32)
    with pytest.raises(LimitError, match=rf"record 0 at byte 0: length {2**31 + 1}, the limit is {2**31}; raise"):
        list(read_records(path))


@pytest.mark.parametrize("policy", ["skip", "repair"])
def test_bad_records_between_good_ones_are_left_out_each(tmp_path: Path, policy: str) -> None:
    for payloads in ([b"%04d" % number for number in range(900)], [b"x" * (number % 50) for number in range(900)]):
        content = bytearray(shard(payloads))
        ends = starts(payloads)[1:]
        for number in range(0, 900, 3):
            content[ends[number] - 1] ^= 1
        path = write(tmp_path / "a", content)
        report = ReadReport()
        found = list(read_records(path, on_bad_record=policy, report=report))  # type: ignore[arg-type]
        assert found == [payload for number, payload in enumerate(payloads) if number % 3]
        assert [fault.record for fault in report.faults] == list(range(0, 900, 3))
        assert [fault.offset for fault in report.faults] == starts(payloads)[:-1:3]


def test_a_file_of_nothing_but_wrong_lengths_is_given_up(tmp_path: Path) -> None:
    content = frame(b"good") + header(2**31 - 1) * 5000 + frame(b"lost")
    report = ReadReport()
    path = write(tmp_path / "a", content)
    assert list(read_records(path, on_bad_record="repair", report=report)) == [b"good"]
    assert report.fault_count == 2000
    assert report.lost_bytes == len(content) - 20

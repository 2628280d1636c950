"""Every single-bit flip and every cut of a small shard is placed on the right record, or changes no value."""

from __future__ import annotations

import gzip
import re
import struct
import zlib
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import pytest
from records_reading.shards import example, floats, integers, sized_member
from records_reading.shards import shard as make_shard
from records_reading.slow_inflate import NonsenseError, inflate

from geotfr.errors import RecordError
from geotfr.records.faults import ReadReport
from geotfr.records.inflate import InflateError
from geotfr.records.reader import read_records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAYLOADS = [example(b1=floats(1.5), id=integers(7)), example(b1=floats(3.25)), example(b1=floats(3.5))]
RAW = make_shard(PAYLOADS)
BOUNDS = [0, *accumulate(len(payload) + 16 for payload in PAYLOADS)]
PLACE = re.compile(r": record (\d+) at byte (\d+)")


def collect(records: Iterator[bytes], found: list[bytes]) -> str | None:
    """Append ``records`` to ``found``; returns the message of the error that ended them, if one did."""
    try:
        for record in records:
            found.append(record)
    except RecordError as error:
        return str(error)
    return None


def check(path: Path, content: bytes, intact_bytes: int, *, lost_bytes: int = 0) -> None:
    """``content`` gives the records of ``RAW`` that end within its first ``intact_bytes``, then an error there.

    ``lost_bytes``: how many of the intact bytes may go with the damage.
    """
    path.write_bytes(content)
    found: list[bytes] = []
    message = collect(read_records(path), found)
    assert found == PAYLOADS[: len(found)]
    wholes = {sum(bound <= intact_bytes - lost for bound in BOUNDS[1:]) for lost in (0, lost_bytes)}
    assert len(found) in wholes
    if message is None:
        assert intact_bytes in BOUNDS
        return
    place = PLACE.search(message)
    assert place is not None, message
    assert (int(place[1]), int(place[2])) == (len(found), BOUNDS[len(found)])


def flips(content: bytes) -> Iterator[tuple[int, bytes]]:
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        yield bit >> 3, bytes(damaged)


def intact_prefix(content: bytes) -> int:
    """How many bytes of ``RAW`` a gzip file without names holds up to the first thing that is wrong."""
    out = bytearray()
    try:
        while len(content) > 10 and content.startswith(b"\x1f\x8b\x08") and not content[3] & ~0x07:
            start = 10
            if content[3] & 0x04:
                start += 2 + int.from_bytes(content[10:12], "little")
            start += 2 if content[3] & 0x02 else 0
            begin = len(out)
            start += inflate(content[start:], out)
            trailer, content = content[start : start + 8], content[start + 8 :]
            if trailer != struct.pack("<II", zlib.crc32(out[begin:]), len(out) - begin):
                break
    except NonsenseError:
        pass
    return next((i for i, (a, b) in enumerate(zip(out, RAW, strict=False)) if a != b), min(len(out), len(RAW)))


def test_every_bit_flip_of_a_plain_shard_is_placed_on_its_record(tmp_path: Path) -> None:
    for place, content in flips(RAW):
        check(tmp_path / "a.tfrecord", content, place)


def test_every_cut_of_a_plain_shard_is_placed_on_its_record(tmp_path: Path) -> None:
    for length in range(1, len(RAW)):
        check(tmp_path / "a.tfrecord", RAW[:length], length)


GZIPPED = {
    "one member": gzip.compress(RAW, mtime=0),
    "stored blocks": gzip.compress(RAW, 0, mtime=0),
    "a member a record": b"".join(sized_member(RAW[start:stop]) for start, stop in pairwise(BOUNDS)),
    "members that end inside records": b"".join(
        gzip.compress(RAW[start : start + 30], mtime=0) for start in range(0, len(RAW), 30)
    ),
}


@pytest.mark.parametrize("form", GZIPPED)
def test_every_bit_flip_of_a_gzip_shard_is_placed_or_harmless(tmp_path: Path, form: str) -> None:
    for _, content in flips(GZIPPED[form]):
        check(tmp_path / "a.tfrecord.gz", content, intact_prefix(content), lost_bytes=1)


def test_threads_place_bit_flips_as_one_thread_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("geotfr.records.inflate.THREAD_MEMBER_BYTES", 0)
    for place, content in flips(GZIPPED["a member a record"]):
        if place % 4 == 0:
            check(tmp_path / "a.tfrecord.gz", content, intact_prefix(content), lost_bytes=1)


@pytest.mark.parametrize("form", GZIPPED)
def test_every_cut_of_a_gzip_shard_is_placed_or_lies_between_records(tmp_path: Path, form: str) -> None:
    content = GZIPPED[form]
    for length in range(1, len(content)):
        check(tmp_path / "a.tfrecord.gz", content[:length], intact_prefix(content[:length]))


ZLIB = zlib.compress(RAW)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (ZLIB[:-1], "ends inside the zlib stream's checksum"),
        (ZLIB[:-4], "ends inside the zlib stream's checksum"),
        (ZLIB[:-1] + bytes((ZLIB[-1] ^ 1,)), "the zlib stream's checksum is"),
        (ZLIB + b"x", "1 bytes at byte .* are no zlib stream: junk behind the data"),
        (ZLIB + bytes(9) + b"xy", "2 bytes at byte .* are no zlib stream: junk behind the data"),
    ],
    ids=["cut", "no checksum", "wrong checksum", "junk", "junk behind zeros"],
)
def test_damage_behind_the_data_of_a_zlib_file_is_told_after_its_records(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "a.tfrecord"
    found: list[bytes] = []
    path.write_bytes(ZLIB + bytes(9))
    assert collect(read_records(path), found) is None
    assert found == PAYLOADS
    path.write_bytes(content)
    found.clear()
    message = collect(read_records(path), found)
    assert message is not None
    assert re.search(words, message)
    assert found == PAYLOADS


def test_members_behind_zeros_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord.gz"
    half = BOUNDS[len(PAYLOADS) // 2]
    path.write_bytes(gzip.compress(RAW[:half]) + bytes(100) + gzip.compress(RAW[half:]) + bytes(7))
    assert list(read_records(path)) == PAYLOADS


def test_large_members_without_data_are_passed_over(tmp_path: Path) -> None:
    # A member of nothing, whose size is told and makes it worth a thread: stored blocks of no bytes.
    empty = b"\x00\x00\x00\xff\xff" * 20_000 + b"\x03\x00"
    size = 24 + len(empty) + 8
    head = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff" + struct.pack("<H2sHQ", 12, b"GT", 8, size)
    path = tmp_path / "a.tfrecord.gz"
    path.write_bytes(head + empty + bytes(8) + gzip.compress(RAW))
    assert gzip.decompress(path.read_bytes()) == RAW
    assert list(read_records(path)) == PAYLOADS


def test_what_the_fast_inflater_refuses_and_zlib_reads_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        eof = False

        def decompress(self, *_: object) -> bytes:
            raise InflateError

    path = tmp_path / "a.tfrecord.gz"
    path.write_bytes(gzip.compress(RAW[:50]) + gzip.compress(RAW[50:]))
    monkeypatch.setattr("geotfr.records.inflate.isal_zlib.decompressobj", lambda _: Refusing())
    assert list(read_records(path)) == PAYLOADS


def test_a_file_that_looks_like_a_member_everywhere_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("geotfr.records.inflate.MOST_TRIALS", 5)
    false = b"\x1f\x8b\xff"
    path = tmp_path / "a.tfrecord.gz"
    first = bytearray(gzip.compress(RAW))
    first[20] ^= 0xFF
    for count, expected in ((2, PAYLOADS), (50, [])):
        path.write_bytes(bytes(first) + false * count + gzip.compress(RAW))
        report = ReadReport()
        found = list(read_records(path, on_bad_record="repair", report=report))
        assert found[-len(PAYLOADS) :] == expected or not expected
        assert len(found) < 2 * len(PAYLOADS)
        assert report.fault_count

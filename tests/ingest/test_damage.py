"""Any damage of a shard is found and placed on its record, or leaves every value as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from oracle import wire

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

PAYLOADS = [wire.example([("b1", wire.float_feature([number, 2, 3]))]) for number in range(3)]


def read(path: Path) -> list[bytes]:
    return [bytes(payload) for payload in geotfr.read_records(path)]


def test_every_flipped_bit_of_a_plain_shard_is_placed_on_its_record(tmp_path: Path) -> None:
    path = wire.write_shard(tmp_path / "shard.tfrecord", PAYLOADS)
    whole = path.read_bytes()
    size = len(whole) // 3
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        record = bit // 8 // size
        # The first bytes also tell the container: a damaged length of record 0 may look like another format.
        with pytest.raises(geotfr.RecordError, match=r"shard\.tfrecord") as caught:
            read(path)
        if bit // 8 >= 12:
            assert f"record {record}" in str(caught.value), bit
            assert f"byte {record * size}" in str(caught.value), bit


def test_every_cut_of_a_plain_shard_is_found_or_lies_between_records(tmp_path: Path) -> None:
    path = wire.write_shard(tmp_path / "shard.tfrecord", PAYLOADS)
    whole = path.read_bytes()
    size = len(whole) // 3
    for keep in range(1, len(whole)):
        path.write_bytes(whole[:keep])
        if keep % size == 0:
            assert read(path) == PAYLOADS[: keep // size]
            continue
        with pytest.raises(geotfr.RecordError, match=r"shard\.tfrecord") as caught:
            read(path)
        if keep > 12:
            assert f"record {keep // size}" in str(caught.value), keep


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_every_flipped_bit_of_a_compressed_shard_is_found_or_harmless(compression: str, tmp_path: Path) -> None:
    path = wire.write_shard(tmp_path / "shard.tfrecord", PAYLOADS, compression=compression)
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            found = read(path)
        except geotfr.GeotfrError as error:
            told = str(error)
        else:
            told = "shard.tfrecord"
            assert found == PAYLOADS, bit
        assert "shard.tfrecord" in told, bit


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_every_cut_of_a_compressed_shard_is_found(compression: str, tmp_path: Path) -> None:
    path = wire.write_shard(tmp_path / "shard.tfrecord", PAYLOADS, compression=compression)
    whole = path.read_bytes()
    for keep in range(1, len(whole)):
        path.write_bytes(whole[:keep])
        with pytest.raises(geotfr.GeotfrError, match=r"shard\.tfrecord"):
            read(path)


def test_zeros_after_a_gzip_member_are_ignored_and_other_bytes_are_not(tmp_path: Path) -> None:
    path = wire.write_shard(tmp_path / "shard.tfrecord.gz", PAYLOADS, compression="GZIP")
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(512))
    assert read(path) == PAYLOADS
    path.write_bytes(whole + b"junk")
    with pytest.raises(geotfr.RecordError, match=r"shard\.tfrecord\.gz"):
        read(path)


def test_members_that_end_inside_a_record_are_one_stream(tmp_path: Path) -> None:
    import gzip

    stream = b"".join(wire.frame(payload) for payload in PAYLOADS)
    path = tmp_path / "shard.tfrecord.gz"
    path.write_bytes(b"".join(gzip.compress(stream[at : at + 7]) for at in range(0, len(stream), 7)))
    assert read(path) == PAYLOADS

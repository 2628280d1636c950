"""Records that other programs write: extra features, empty ones, keys twice, chunks, unknown fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracle import wire
from oracle.rasters import NORTH_UP, read_raster
from oracle.run import Outcome, assert_refused, contents, run

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

FOUR = wire.float_feature([1, 2, 3, 4])
EIGHT = wire.float_feature([5, 6, 7, 8])


def write(folder: Path, payloads: list[bytes]) -> tuple[Path, Path]:
    """A mixer of 2 x 2 patches in one column, and the shard."""
    mixer = folder / "mixer.json"
    mixer.write_text(wire.mixer_text("EPSG:32618", NORTH_UP[:6], (2, 2), 1, len(payloads)))
    return mixer, wire.write_shard(folder / "pred.tfrecord", payloads)


def ingested(folder: Path, payloads: list[bytes], **options: object) -> tuple[np.ndarray, tuple[str | None, ...]]:
    """(band, row, col) pixels and names."""
    mixer, shard = write(folder, payloads)
    geotfr.ingest_predictions(mixer, [shard], folder / "out.tif", **options)
    pixels, _, names = read_raster(folder / "out.tif")
    return pixels, names


def refused(folder: Path, payloads: list[bytes], *words: str, more: tuple[str, ...] = ()) -> Outcome:
    mixer, shard = write(folder, payloads)
    before = contents(folder)
    outcome = run("ingest-predictions", mixer, shard, "--output", folder / "out.tif", "--quiet", *more)
    assert_refused(outcome, {2, 12}, *words)
    assert contents(folder) == before
    return outcome


def test_a_feature_that_is_no_picture_is_named_and_can_be_left_out(tmp_path: Path) -> None:
    payload = wire.example([("id", wire.bytes_feature([b"abc"])), ("class", FOUR)])
    refused(tmp_path, [payload] * 2, "'id'", "3")
    pixels, names = ingested(tmp_path, [payload] * 2, bands=["class"])
    assert names == ("class",)
    assert pixels[0].tolist() == [[1, 2], [3, 4]] * 2


def test_a_left_out_feature_may_change_its_length_and_be_missing(tmp_path: Path) -> None:
    payloads = [
        wire.example([("id", wire.bytes_feature([b"a"])), ("class", FOUR)]),
        wire.example([("class", EIGHT), ("id", wire.bytes_feature([b"abcdef", b"g"]))]),
        wire.example([("class", FOUR)]),
    ]
    pixels, _ = ingested(tmp_path, payloads, bands=["class"])
    assert pixels[0].tolist() == [[1, 2], [3, 4], [5, 6], [7, 8], [1, 2], [3, 4]]


def test_a_feature_that_only_a_later_record_has_is_an_error(tmp_path: Path) -> None:
    # A feature missing from some records: which of the two is wrong, nobody can tell.
    refused(tmp_path, [wire.example([("a", FOUR)]), wire.example([("a", FOUR), ("b", EIGHT)])], "'b'")


def test_bytes_in_two_values_are_refused(tmp_path: Path) -> None:
    refused(tmp_path, [wire.example([("a", wire.bytes_feature([b"ab", b"cd"]))])], "pred.tfrecord", "'a'")


@pytest.mark.parametrize(
    "feature",
    [b"", wire.field(2, b""), wire.field(2, wire.field(1, b"")), wire.field(1, b""), wire.field(3, b"")],
    ids=["no kind", "no floats", "empty chunk", "no bytes", "no ints"],
)
@pytest.mark.parametrize("place", [0, 1])
def test_an_empty_feature_is_refused(feature: bytes, place: int, tmp_path: Path) -> None:
    payloads = [wire.example([("a", FOUR)]), wire.example([("a", FOUR)])]
    payloads[place] = wire.example([("a", feature)])
    refused(tmp_path, payloads, "pred.tfrecord", "'a'")


def test_of_a_key_twice_the_last_counts(tmp_path: Path) -> None:
    pixels, names = ingested(tmp_path, [wire.example([("a", FOUR), ("a", EIGHT)])] * 2)
    assert names == ("a",)
    assert pixels[0].tolist() == [[5, 6], [7, 8]] * 2


def test_a_list_in_several_chunks_is_one_list(tmp_path: Path) -> None:
    values = np.array([1, 2, 3, 4], "<f4")
    chunks = wire.field(2, wire.field(1, values[:1].tobytes()) + wire.field(1, values[1:].tobytes()))
    pixels, _ = ingested(tmp_path, [wire.example([("a", chunks)]), wire.example([("a", FOUR)])])
    assert pixels[0].tolist() == [[1, 2], [3, 4]] * 2


def test_unknown_fields_are_passed_over(tmp_path: Path) -> None:
    payload = wire.field(9, b"new") + wire.example([("a", FOUR)]) + wire.field(15, b"newer")
    pixels, _ = ingested(tmp_path, [payload, wire.example([("a", FOUR)])])
    assert pixels[0].tolist() == [[1, 2], [3, 4]] * 2


def test_an_entry_with_its_value_before_its_key_is_read(tmp_path: Path) -> None:
    payload = wire.field(1, wire.field(1, wire.field(2, FOUR) + wire.field(1, b"a")))
    pixels, names = ingested(tmp_path, [payload])
    assert names == ("a",)
    assert pixels[0].tolist() == [[1, 2], [3, 4]]


def test_ten_byte_varints_and_long_ones_are_read(tmp_path: Path) -> None:
    # A small number may be written in more bytes than it needs.
    long_one = b"\x81\x80\x00"
    feature = wire.field(3, wire.field(1, long_one + wire.varint(-1) + wire.varint(2) + wire.varint(300)))
    pixels, _ = ingested(tmp_path, [wire.example([("a", feature)])])
    assert pixels[0].tolist() == [[1, -1], [2, 300]]


def test_a_later_record_with_keys_of_other_lengths_is_read(tmp_path: Path) -> None:
    one = wire.example([("a", FOUR), ("long name", EIGHT)])
    other = wire.example([("long name", FOUR), ("a", EIGHT)])
    pixels, names = ingested(tmp_path, [one, other, one])
    assert names == ("a", "long name")
    assert pixels[0].tolist() == [[1, 2], [3, 4], [5, 6], [7, 8], [1, 2], [3, 4]]
    assert pixels[1].tolist() == [[5, 6], [7, 8], [1, 2], [3, 4], [5, 6], [7, 8]]


def test_a_key_that_is_no_utf_8_is_refused_and_not_a_fault(tmp_path: Path) -> None:
    payload = wire.field(1, wire.field(1, wire.field(1, b"\xff\xfe") + wire.field(2, FOUR)))
    refused(tmp_path, [payload], "pred.tfrecord")


def test_a_feature_of_another_kind_in_a_later_record_is_refused_though_its_length_fits(tmp_path: Path) -> None:
    # Sixteen raw bytes are as long as four floats: only the tag tells them apart.
    raw = wire.bytes_feature([bytes(16)])
    assert len(raw) == len(FOUR)
    refused(tmp_path, [wire.example([("a", FOUR)]), wire.example([("a", raw)])], "record 1", "bytes", "float")

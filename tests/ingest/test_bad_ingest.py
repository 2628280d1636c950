"""Bad input to an ingest: one line, the right exit code, and nothing at the output's name."""

from __future__ import annotations

import json
import resource
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import wire
from oracle.rasters import numbered, read_raster
from oracle.run import Outcome, assert_refused, contents, run, run_apart
from oracle.sets import write_set

import geotfr

PICTURE = numbered(1, 10, 4)
"""Ten patches of 2 x 2."""


@pytest.fixture
def mixer_and_shard(tmp_path: Path) -> tuple[Path, Path]:
    """A good set: 10 patches of 2 x 2 in one plain shard."""
    mixer, (shard,) = write_set(tmp_path, PICTURE, patch=(2, 2))
    return mixer, shard


def ingest(mixer: Path, *shards: Path, more: tuple[str, ...] = ()) -> Outcome:
    """Ingest into ``out.tif`` beside the mixer, which must not be there after a refusal."""
    return run("ingest-predictions", mixer, *shards, "--output", mixer.parent / "out.tif", "--quiet", *more)


def refused(mixer: Path, *shards: Path, code: int | set[int], words: tuple[str, ...] = ()) -> None:
    before = contents(mixer.parent)
    assert_refused(ingest(mixer, *shards), code, *words)
    assert contents(mixer.parent) == before


def test_the_good_set_is_good(mixer_and_shard: tuple[Path, Path]) -> None:
    outcome = ingest(*mixer_and_shard)
    assert outcome.code == 0, outcome.told
    assert np.array_equal(read_raster(mixer_and_shard[0].parent / "out.tif")[0], PICTURE)


LIES: dict[str, dict[str, Any]] = {
    "rows are not whole": {"totalPatches": 11},
    "more columns than patches": {"patchesPerRow": 11},
    "no columns": {"patchesPerRow": 0},
    "negative columns": {"patchesPerRow": -2},
    "no patches": {"totalPatches": 0},
    "half a patch": {"totalPatches": 10.5},
    "text for a number": {"totalPatches": "10"},
    "true for a number": {"patchesPerRow": True},
    "too many columns": {"patchesPerRow": 10**8, "totalPatches": 10**8},
    "patch of zero": {"patchDimensions": [0, 2]},
    "one dimension": {"patchDimensions": [2]},
    "another patch": {"patchDimensions": [3, 3]},
    "huge patch": {"patchDimensions": [10**9, 10**9]},
    "no projection": {"projection": None},
    "five numbers": {"projection": {"crs": "", "affine": {"doubleMatrix": [1, 0, 0, 0, 1]}}},
    "flat matrix": {"projection": {"crs": "", "affine": {"doubleMatrix": [1, 1, 0, 1, 1, 0]}}},
    "no such crs": {"projection": {"crs": "EPSG:0", "affine": {"doubleMatrix": [1, 0, 0, 0, -1, 0]}}},
    "crs is a url": {"projection": {"crs": "https://localhost:1/crs", "affine": {"doubleMatrix": [1, 0, 0, 0, -1, 0]}}},
    "crs is a file": {"projection": {"crs": "/etc/hostname", "affine": {"doubleMatrix": [1, 0, 0, 0, -1, 0]}}},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_mixer_that_lies_is_refused(lie: str, mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    mixer.write_text(json.dumps({**json.loads(mixer.read_text()), **LIES[lie]}))
    refused(mixer, shard, code={10, 12} if "crs" in lie else 12)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_mixer_with_a_number_that_is_none_is_refused(number: str, mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    mixer.write_text(mixer.read_text().replace("500000.0", number))
    refused(mixer, shard, code=12, words=("scene-mixer.json",))


def test_a_mixer_with_a_key_twice_is_refused(mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    mixer.write_text(mixer.read_text().replace('"totalPatches": 10', '"totalPatches": 10, "totalPatches": 12'))
    refused(mixer, shard, code=12, words=("totalPatches",))


@pytest.mark.parametrize("text", ["", "not json", "{}", "[]", '{"patchesPerRow": 2}', "[" * 100_000, "\x00" * 50])
def test_a_file_that_is_no_mixer_is_refused(text: str, mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    mixer.write_text(text)
    # Nesting beyond what any mixer needs is a limit, 13.
    refused(mixer, shard, code={10, 12, 13}, words=("scene-mixer.json",))


def test_missing_files_are_exit_10_and_named(mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    refused(mixer, shard.with_name("none.tfrecord"), code=10, words=("none.tfrecord",))
    refused(mixer.with_name("none.json"), shard, code=10, words=("none.json",))


def test_case_45_a_flipped_byte_is_placed_on_its_record_and_offset(mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    stream = bytearray(shard.read_bytes())
    size = len(stream) // 10
    offset = 5 * size
    stream[offset + 12 + 20] ^= 0x40
    shard.write_bytes(stream)
    refused(mixer, shard, code=12, words=(shard.name, "record 5", str(offset)))
    with pytest.raises(geotfr.errors.RecordError, match=rf"record 5 .*{offset}"):
        list(geotfr.read_records(shard))


def test_a_flipped_length_is_found_before_anything_is_allocated(mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    stream = bytearray(shard.read_bytes())
    size = len(stream) // 10
    stream[3 * size + 6] ^= 0x40
    shard.write_bytes(stream)
    refused(mixer, shard, code=12, words=(shard.name, "record 3", str(3 * size)))


@pytest.mark.parametrize("length", [2**60, 2**63, 2**31])
def test_a_length_that_lies_under_a_right_checksum_is_refused(length: int, mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    header = struct.pack("<Q", length)
    shard.write_bytes(header + wire.masked_crc(header) + b"\x00" * 100)
    refused(mixer, shard, code={12, 13}, words=(shard.name,))


@pytest.mark.parametrize("keep", [5, 13, 100])
def test_a_cut_shard_is_refused_with_its_record(keep: int, mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    stream = shard.read_bytes()
    size = len(stream) // 10
    shard.write_bytes(stream[: 4 * size + keep % size])
    refused(mixer, shard, code=12, words=(shard.name,))


def test_a_cut_gzip_is_refused(mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    wire.write_shard(shard, wire.unframe(shard.read_bytes()), compression="GZIP")
    whole = shard.read_bytes()
    for keep in (5, len(whole) // 2, len(whole) - 3):
        shard.write_bytes(whole[:keep])
        refused(mixer, shard, code=12, words=(shard.name,))


def test_case_46_a_gzip_named_plain_and_a_plain_file_named_gzip_are_read_with_a_note(tmp_path: Path) -> None:
    for compression, name in (("GZIP", "pred.tfrecord"), ("", "pred.tfrecord.gz"), ("ZLIB", "pred.tfrecord.gz")):
        folder = tmp_path / f"{compression}{name}"
        folder.mkdir()
        mixer, (shard,) = write_set(folder, PICTURE, patch=(2, 2), compression=compression)
        shard = shard.rename(folder / name)
        outcome = run("ingest-predictions", mixer, shard, "--output", folder / "out.tif")
        assert outcome.code == 0, outcome.told
        assert name in outcome.stderr, outcome.stderr
        assert np.array_equal(read_raster(folder / "out.tif")[0], PICTURE)


FOREIGN = {
    "text": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n",
    "html": b"<!DOCTYPE html><html><body>404 Not Found</body></html>",
    "tiff": b"II*\x00" + bytes(200),
    "no example": wire.frame(b"\xff\xff\xff\xff"),
    "another message": wire.frame(wire.field(7, b"hello")) * 10,
    "empty messages": wire.frame(b"") * 10,
    "no features": wire.frame(wire.field(1, b"")) * 10,
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_records_are_refused_and_named(kind: str, mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    shard.write_bytes(FOREIGN[kind])
    refused(mixer, shard, code={10, 12}, words=(shard.name,))


def write_records(mixer: Path, records: list[list[tuple[str, bytes]]]) -> None:
    wire.write_shard(mixer.parent / "pred-00000.tfrecord", [wire.example(features) for features in records])


def four(value: float = 1) -> bytes:
    return wire.float_feature([value] * 4)


def test_a_feature_missing_from_a_record_is_refused(mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    good = [("a", four()), ("b", four())]
    write_records(mixer, [good] * 7 + [good[:1]] + [good] * 2)
    refused(mixer, shard, code=12, words=(shard.name, "record 7", "'b'"))


def test_a_feature_of_another_length_is_refused(mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    write_records(mixer, [[("a", four())]] * 8 + [[("a", wire.float_feature([1] * 5))]] + [[("a", four())]])
    refused(mixer, shard, code=12, words=(shard.name, "record 8", "5", "4"))


def test_a_feature_of_another_kind_is_refused(mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    write_records(mixer, [[("a", four())]] * 9 + [[("a", wire.int64_feature([1] * 4))]])
    refused(mixer, shard, code=12, words=(shard.name, "record 9", "int64", "float"))


def test_a_length_that_fits_no_reading_lists_the_readings(mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    write_records(mixer, [[("a", wire.float_feature([1] * 7))]] * 10)
    refused(mixer, shard, code={2, 12}, words=("7", "4"))


def test_padded_records_with_the_wrong_kernel_are_refused(tmp_path: Path) -> None:
    mixer, (shard,) = write_set(tmp_path, numbered(1, 10, 10), patch=(5, 5), margin=(2, 2))
    before = contents(tmp_path)
    assert_refused(ingest(mixer, shard, more=("--kernel-size", "3")), {2, 12}, "81")
    assert contents(tmp_path) == before


def test_a_band_that_no_record_has_is_refused_with_the_bands_that_are_there(
    mixer_and_shard: tuple[Path, Path],
) -> None:
    mixer, shard = mixer_and_shard
    before = contents(mixer.parent)
    assert_refused(ingest(mixer, shard, more=("--bands", "landcover")), {2, 12}, "landcover", "b1")
    assert contents(mixer.parent) == before


@pytest.mark.parametrize(
    "more",
    [
        ("--dtype", "uint8", "--nodata", "-1"),
        ("--dtype", "float99"),
        ("--kernel-size", "-1"),
        ("--shard-order", "random"),
        ("--creation-option", "COMPRESS"),
    ],
    ids=" ".join,
)
def test_an_option_without_meaning_is_a_usage_error(more: tuple[str, ...], mixer_and_shard: tuple[Path, Path]) -> None:
    before = contents(mixer_and_shard[0].parent)
    outcome = ingest(*mixer_and_shard, more=more)
    assert outcome.code == 2, outcome.told
    assert contents(mixer_and_shard[0].parent) == before


def test_a_misspelt_creation_option_is_not_accepted_in_silence(mixer_and_shard: tuple[Path, Path]) -> None:
    outcome = ingest(*mixer_and_shard, more=("--creation-option", "COMPRES=LZW"))
    assert outcome.code == 2, outcome.told
    assert "COMPRESS" in outcome.stderr


def test_an_existing_output_is_refused_without_overwrite(mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    output = mixer.parent / "out.tif"
    output.write_bytes(b"mine")
    assert_refused(ingest(mixer, shard), 14, "out.tif", "--overwrite")
    assert output.read_bytes() == b"mine"
    assert ingest(mixer, shard, more=("--overwrite",)).code == 0
    assert np.array_equal(read_raster(output)[0], PICTURE)


def test_a_failed_overwrite_leaves_the_old_output_whole(mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    output = mixer.parent / "out.tif"
    output.write_bytes(b"mine")
    stream = bytearray(shard.read_bytes())
    stream[-10] ^= 1
    shard.write_bytes(stream)
    before = contents(mixer.parent)
    assert ingest(mixer, shard, more=("--overwrite",)).code == 12
    assert contents(mixer.parent) == before


def test_a_missing_folder_is_exit_14(mixer_and_shard: tuple[Path, Path], tmp_path: Path) -> None:
    outcome = run("ingest-predictions", *mixer_and_shard, "--output", tmp_path / "none" / "out.tif", "--quiet")
    assert_refused(outcome, 14, "none")
    assert not (tmp_path / "none").exists()


def test_an_output_over_one_of_its_inputs_is_refused(mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    before = contents(mixer.parent)
    for target in (mixer, shard):
        outcome = run("ingest-predictions", mixer, shard, "--output", target, "--overwrite", "--quiet")
        assert outcome.code != 0
        assert contents(mixer.parent) == before


def _limit_file_size() -> None:
    import signal

    # The kernel's default answer to a file that grows too large is to kill the process.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


def test_case_51_a_file_size_limit_is_exit_14_and_leaves_nothing(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).random((1, 256, 256)).astype("float32")
    mixer, shards = write_set(tmp_path, noise, patch=(64, 64))
    before = contents(tmp_path)
    outcome = run_apart(
        *("ingest-predictions", mixer, *shards, "--output", tmp_path / "out.tif", "--quiet"),
        preexec=_limit_file_size,
    )
    assert_refused(outcome, 14, "out.tif", "limit of file sizes")
    assert outcome.stderr.count("out.tif") == 1
    assert contents(tmp_path) == before


def test_int64_values_that_the_type_asked_for_cannot_hold_are_told(mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    write_records(mixer, [[("a", wire.int64_feature([1, 2, 300, 4]))]] * 10)
    outcome = run(
        *("ingest-predictions", mixer, shard, "--output", mixer.parent / "out.tif", "--dtype", "uint8"),
    )
    # Either refused, or done with the loss counted: exit 3 is for losses nobody asked for.
    assert outcome.code in {2, 3, 12}, outcome.told
    assert outcome.stderr.strip()


def test_the_python_errors_are_the_built_in_ones_too(mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    output = mixer.parent / "out.tif"
    with pytest.raises(FileNotFoundError):
        geotfr.ingest_predictions(mixer, [shard.with_name("none")], output)
    with pytest.raises(ValueError, match="10"):
        geotfr.ingest_predictions(mixer, [shard, _copy(shard)], output)
    geotfr.ingest_predictions(mixer, [shard], output)
    with pytest.raises(FileExistsError):
        geotfr.ingest_predictions(mixer, [shard], output)


def _copy(shard: Path) -> Path:
    other = shard.with_name("pred-00001.tfrecord")
    other.write_bytes(shard.read_bytes())
    return other


def test_read_mixer_and_write_mixer_are_each_others_inverse(mixer_and_shard: tuple[Path, Path], tmp_path: Path) -> None:
    mixer = mixer_and_shard[0]
    value = geotfr.read_mixer(mixer)
    geotfr.write_mixer(tmp_path / "again.json", value)
    assert (tmp_path / "again.json").read_bytes() == mixer.read_bytes()
    assert geotfr.read_mixer(tmp_path / "again.json") == value


def test_read_records_gives_the_payloads(mixer_and_shard: tuple[Path, Path]) -> None:
    shard = mixer_and_shard[1]
    want = wire.unframe(shard.read_bytes())
    for compression in ("", "GZIP", "ZLIB"):
        wire.write_shard(shard, want, compression=compression)
        assert [bytes(payload) for payload in geotfr.read_records(shard)] == want


LOSSY = [
    *("COMPRESS=JPEG", "COMPRESS=webp", "COMPRESS=JXL", "COMPRESS=FOO", "COMPRESS=LERC MAX_Z_ERROR=0.5"),
    "COMPRESS=LERC_ZSTD MAX_Z_ERROR=1",
]


@pytest.mark.parametrize("form", ["gtiff", "cog"])
@pytest.mark.parametrize("options", [*LOSSY, "DISCARD_LSB=2", "COMPRESS=WEBP WEBP_LEVEL=100"])
def test_lossy_compression_is_refused_before_any_work(
    options: str, form: str, mixer_and_shard: tuple[Path, Path]
) -> None:
    mixer, _ = mixer_and_shard
    before = contents(mixer.parent)
    given = [part for option in options.split() for part in ("--co", option)]
    outcome = ingest(*mixer_and_shard, more=("--dtype", "uint8", "--format", form, *given))
    assert_refused(outcome, 2, "--creation-option")
    if options in LOSSY[:4]:
        assert "allowed are NONE, DEFLATE, ZSTD" in outcome.stderr
    assert contents(mixer.parent) == before


@pytest.mark.parametrize(
    ("form", "options"),
    [
        *((form, f"COMPRESS={name}") for form in ("gtiff", "cog") for name in ("lerc", "LZMA", "LERC_ZSTD")),
        ("gtiff", "COMPRESS=PACKBITS"),
        ("gtiff", "COMPRESS=LERC MAX_Z_ERROR=0"),
        ("gtiff", "COMPRESS=WEBP WEBP_LOSSLESS=YES INTERLEAVE=PIXEL"),
        ("cog", "COMPRESS=WEBP QUALITY=100"),
    ],
)
def test_lossless_compression_is_taken(form: str, options: str, tmp_path: Path) -> None:
    picture = np.random.default_rng(1).integers(0, 255, (3, 12, 12)).astype("float32")
    mixer, (shard,) = write_set(tmp_path, picture, patch=(2, 2), names=("b1", "b2", "b3"))
    given = [part for option in options.split() for part in ("--co", option)]
    outcome = ingest(mixer, shard, more=("--dtype", "uint8", "--format", form, *given))
    assert outcome.code == 0, outcome.told
    assert np.array_equal(read_raster(tmp_path / "out.tif")[0], picture)


def test_records_without_features_are_told_so(mixer_and_shard: tuple[Path, Path]) -> None:
    mixer, shard = mixer_and_shard
    geotfr.write_examples(shard, [{}] * 10, overwrite=True)
    refused(mixer, shard, code=12, words=("record 0", "no features in it"))

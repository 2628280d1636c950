"""Everything that is wrong with a set is told with its place, and nothing that is right."""

from __future__ import annotations

import gzip
import json
import zlib
from itertools import pairwise
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
from records_reading.shards import example, field, floats, integers, shard, sized_member

import geotfr
from geotfr.errors import DamagedError, MissingInputError, UsageError
from geotfr.integrity.verify import verify

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "earth-engine"


def patch(number: int, **more: bytes) -> bytes:
    return example(b1=floats(*(float(number + i) for i in range(4))), b2=floats(*range(4)), **more)


def mixer_text(total: int, per_row: int = 2) -> str:
    return json.dumps(
        {
            "projection": {"crs": "EPSG:32618", "affine": {"doubleMatrix": [30.0, 0.0, 5e5, 0.0, -30.0, 4e6]}},
            "patchDimensions": [2, 2],
            "patchesPerRow": per_row,
            "totalPatches": total,
        }
    )


def manifest_text(shards: list[Path], counts: list[int]) -> str:
    """A manifest as docs/reference/manifest.md describes it."""
    return json.dumps(
        {
            "format": 1,
            "geotfr_version": "1.0",
            "options": {},
            "grid": {"crs": "EPSG:32618", "transform": [30.0, 0.0, 5e5, 0.0, -30.0, 4e6], "height": 6, "width": 4},
            "patch": {"height": 2, "width": 2},
            "kernel": {"height": 1, "width": 1},
            "margin": {"height": 0, "width": 0},
            "rows": 3,
            "columns": 2,
            "left_out": {"rows": 0, "columns": 0},
            "bands": [{"name": "b1", "dtype": "float32", "kind": "float", "depth": None, "nodata": None}],
            "patches_written": sum(counts),
            "patches_dropped": [],
            "shards": [
                {
                    "name": path.name,
                    "records": count,
                    "bytes": path.stat().st_size,
                    "crc32c": f"{google_crc32c.value(path.read_bytes()):08x}",
                }
                for path, count in zip(shards, counts, strict=True)
            ],
            "sources": [],
            "compressor": {"name": "none", "level": None, "library": None},
            "complete": True,
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three shards of two patches each, mixer and manifest."""
    shards = [tmp_path / f"p-0000{number}.tfrecord" for number in range(3)]
    for number, path in enumerate(shards):
        path.write_bytes(shard([patch(2 * number), patch(2 * number + 1)]))
    (tmp_path / "p-mixer.json").write_text(mixer_text(6))
    (tmp_path / "p-manifest.json").write_text(manifest_text(shards, [2, 2, 2]))
    return tmp_path


def problems(*paths: Path) -> list[str]:
    result = verify(list(paths))
    assert result.is_good == (not result.faults)
    json.dumps(result.to_dict(), allow_nan=False)
    return [f"{Path(fault.path).name}: {fault.problem}" for fault in result.faults]


def test_a_good_set_is_good_however_it_is_named(folder: Path) -> None:
    for paths in (
        [folder],
        [folder / "p-mixer.json"],
        [folder / "p-manifest.json"],
        sorted(folder.glob("*.tfrecord")),
        [folder / "p-mixer.json", *folder.glob("*.tfrecord")],
    ):
        result = verify(paths)
        assert result.faults == ()
        assert (result.records, len(result.files)) == (6, 3)
    assert verify(folder / "p-mixer.json").expected_records == 6


def test_a_mixer_of_any_name_finds_its_shards(folder: Path) -> None:
    (folder / "p-manifest.json").unlink()
    assert verify(folder / "p-mixer.json").records == 6
    (folder / "p-mixer.json").rename(folder / "mine.json")
    assert verify(folder / "mine.json").records == 6
    (folder / "q-00000.tfrecord").write_bytes(b"")
    with pytest.raises(UsageError, match="several sets of shards"):
        verify(folder / "mine.json")


def test_a_flipped_byte_is_placed_with_its_gzip_member(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord.gz"
    members = [bytearray(gzip.compress(shard([patch(number)]), 0)) for number in range(4)]
    members[2][60] ^= 1
    path.write_bytes(b"".join(members))
    (fault,) = verify(path).faults
    size = len(patch(0)) + 16
    assert (fault.record, fault.offset, fault.member) == (2, 2 * size, 2)
    assert verify(path).records == 3


def test_every_damaged_record_is_told(tmp_path: Path) -> None:
    content = bytearray(shard([patch(number) for number in range(100)]))
    size = len(patch(0)) + 16
    for number in range(3, 100, 10):
        content[number * size + 30] ^= 0xFF
    path = tmp_path / "a"
    path.write_bytes(content)
    result = verify(path)
    assert [fault.record for fault in result.faults] == list(range(3, 100, 10))
    assert result.records == 90


def test_a_cut_between_records_is_found_by_the_count(folder: Path) -> None:
    path = folder / "p-00002.tfrecord"
    path.write_bytes(path.read_bytes()[: len(patch(0)) + 16])
    found = problems(folder)
    assert "p-mixer.json: totalPatches is 6, the shards hold 5 whole records: too few" in found
    assert "p-00002.tfrecord: 1 records, the manifest says 2" in found
    assert any("CRC32C of the file" in problem for problem in found)
    (folder / "p-manifest.json").unlink()
    assert problems(folder) == ["p-mixer.json: totalPatches is 6, the shards hold 5 whole records: too few"]


def test_every_cut_of_a_set_is_found(folder: Path) -> None:
    (folder / "p-manifest.json").unlink()
    path = folder / "p-00001.tfrecord"
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert problems(folder)


def test_a_missing_shard_is_told_as_a_gap_and_by_the_manifest(folder: Path) -> None:
    (folder / "p-00001.tfrecord").unlink()
    found = problems(folder)
    assert "p-00002.tfrecord: shard 1 is missing before it" in found
    assert "p-manifest.json: the shard p-00001.tfrecord of the manifest is not there" in found
    assert "p-00001.tfrecord: no such file" in problems(folder / "p-manifest.json")


def test_a_set_without_its_last_shard_is_incomplete(folder: Path) -> None:
    (folder / "p-00002.tfrecord").unlink()
    assert any("too few" in problem for problem in problems(folder / "p-mixer.json", *folder.glob("*.tfrecord")))


def test_too_many_and_foreign_shards_are_told(folder: Path) -> None:
    (folder / "p-00003.tfrecord").write_bytes(shard([patch(9)]))
    result = verify(folder)
    assert any("7 whole records: too many" in str(fault) for fault in result.faults)
    assert any("not in the manifest" in warning for warning in result.warnings)


def test_a_file_that_changed_but_reads_well_has_another_digest(folder: Path) -> None:
    (folder / "p-00001.tfrecord").write_bytes(shard([patch(7), patch(8)]))
    (problem,) = problems(folder)
    assert problem.startswith("p-00001.tfrecord: CRC32C of the file is ")


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (example(b1=floats(1.0, 2.0, 3.0), b2=floats(*range(4))), "the feature 'b1' has 3 values of kind float"),
        (example(b1=floats(*range(4))), "the feature 'b2' is missing"),
        (patch(1, b3=floats(1.0)), "the feature 'b3' is not in the first record"),
        (example(b1=integers(*range(4)), b2=floats(*range(4))), "the feature 'b1' has 4 values of kind int64"),
    ],
)
def test_a_record_of_another_shape_is_told_in_a_set(folder: Path, record: bytes, problem: str) -> None:
    (folder / "p-manifest.json").unlink()
    (folder / "p-00001.tfrecord").write_bytes(shard([patch(2), record]))
    (fault,) = verify(folder).faults
    assert fault.problem.startswith(problem)
    assert (Path(fault.path).name, fault.record) == ("p-00001.tfrecord", 1)
    # Alone, a file may hold what it likes.
    assert verify(folder / "p-00001.tfrecord").is_good


def test_the_order_of_keys_is_no_fault(folder: Path) -> None:
    (folder / "p-manifest.json").unlink()
    other = example(b2=floats(*range(4)), b1=floats(*range(4)))
    (folder / "p-00001.tfrecord").write_bytes(shard([patch(2), other]))
    assert verify(folder).is_good


def test_a_payload_that_is_no_example_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(shard([patch(0), b"\xff\xff", patch(1)]))
    (fault,) = verify(path).faults
    assert (fault.record, fault.problem) == (1, "the payload is no tf.train.Example")


def test_sequences_are_decoded_too(tmp_path: Path) -> None:
    step = field(1, floats(1.0))
    sequence = field(1, field(1, field(1, b"c") + field(2, integers(3)))) + field(
        2, field(1, field(1, b"s") + field(2, step * 3))
    )
    path = tmp_path / "a"
    path.write_bytes(shard([sequence] * 3))
    assert verify(path).records == 3
    path.write_bytes(shard([sequence, sequence[:-1], sequence]))
    (fault,) = verify(path).faults
    assert (fault.record, fault.problem) == (1, "the payload is no tf.train.SequenceExample")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "0 bytes"),
        (b"<html><body>not found</body></html>", "an HTML page"),
        (gzip.compress(shard([patch(0)]), mtime=0) + b"junk", "junk behind the data"),
        (zlib.compress(shard([patch(0)]))[:-2], "ends inside the zlib stream's checksum"),
        (b"\x1f\x8b\x07" + gzip.compress(b"", mtime=0)[3:], "compression method 7"),
    ],
)
def test_what_is_no_record_file_is_a_fault(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(content)
    (fault,) = verify(path).faults
    assert problem in fault.problem
    assert str(fault).count(str(path)) == 1


def test_an_empty_shard_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(b"")
    result = verify(tmp_path)
    assert result.is_good
    assert "an empty shard" in result.warnings[0]


def test_what_isnt_there_or_contradicts_itself_is_an_error(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(MissingInputError, match="no such file"):
        verify(tmp_path / "none.tfrecord")
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingInputError, match="no TFRecord files there"):
        verify(tmp_path / "empty")
    with pytest.raises(UsageError, match="no files"):
        verify([])
    (folder / "other-mixer.json").write_text(mixer_text(4))
    with pytest.raises(UsageError, match="2 mixers"):
        verify(folder)
    (folder / "other-mixer.json").write_text('{"projection": 1}')
    with pytest.raises(DamagedError, match="not a mixer"):
        verify(folder / "other-mixer.json")


def test_damage_that_never_ends_is_counted_not_kept(tmp_path: Path) -> None:
    record = bytearray(shard([b""]))
    record[-1] ^= 1
    path = tmp_path / "a"
    path.write_bytes(bytes(record) * 5000)
    result = verify(path)
    assert (result.fault_count, len(result.faults)) == (5000, 1000)
    assert "... and 4000 faults more" in result.to_text()


def test_gaps_are_found_for_each_set_alone(tmp_path: Path) -> None:
    for name in ("a-1", "a-2", "b-9", "b-13", "c"):
        (tmp_path / f"{name}.tfrecord").write_bytes(shard([patch(0)]))
    assert problems(tmp_path) == ["b-13.tfrecord: shards 10 to 12 are missing before it"]


@pytest.mark.skipif(not DATA.exists(), reason="the real export is not at hand")
def test_a_real_shard_is_whole_and_its_set_is_not() -> None:
    (path,) = DATA.glob("*.tfrecord")
    assert verify(path).is_good
    (fault,) = verify(DATA).faults
    assert "totalPatches is 15, the shards hold 2 whole records: too few" in fault.problem


def test_members_of_geotfr_are_counted(tmp_path: Path) -> None:
    payloads = [patch(number) for number in range(6)]
    path = tmp_path / "a.gz"
    bounds = [0, 1, 4, 6]
    path.write_bytes(b"".join(sized_member(shard(payloads[a:b])) for a, b in pairwise(bounds)))
    (file,) = verify(path).files
    assert (file.compression, file.members, file.records, file.record_bytes) == ("gzip", 3, 6, len(shard(payloads)))


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "..", "", "a\0b", "a\\b", 5])
def test_a_manifest_cant_name_files_elsewhere(folder: Path, name: object) -> None:
    manifest = json.loads((folder / "p-manifest.json").read_text())
    manifest["shards"][0]["name"] = name
    (folder / "p-manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DamagedError, match=r"a file name without folder is allowed|not a whole manifest"):
        verify(folder / "p-manifest.json")


@pytest.mark.parametrize(
    "name", ["a b.tfrecord", "[x]*?.tfrecord", "-dash.tfrecord", "é\n.tfrecord", "x" * 240 + ".tfrecord"]
)
def test_odd_names_are_names(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(shard([patch(0)]))
    assert verify(tmp_path).records == verify(tmp_path / name).records == 1


@pytest.mark.parametrize("beside", ["manifest", "mixer alone"])
def test_a_record_for_each_pixel_of_a_block_is_a_whole_set(tmp_path: Path, beside: str) -> None:
    source = (np.arange(64, dtype=np.uint8).reshape(8, 8), (10.0, 0.0, 5e5, 0.0, -10.0, 4e6), "EPSG:32618")
    made = geotfr.export_image(source, tmp_path / "set", patch_dimensions=4, kernel_size=2, sequence_data=True)
    assert made.mixer is not None
    if beside != "manifest":
        made.manifest.unlink()
    found = verify(made.mixer)
    assert [str(fault) for fault in found.faults] == []
    assert found.expected_records == found.records == 4 * 6 * 6


def test_a_file_that_cannot_be_opened_is_counted(tmp_path: Path) -> None:
    (tmp_path / "empty.tfrecord.gz").touch()
    found = verify(tmp_path / "empty.tfrecord.gz")
    assert (found.files, found.unread_files) == ((), 1)
    assert found.to_text().splitlines()[-1] == "1 files, 0 bytes, 0 records: 1 fault"

"""What files hold is told as it is; what is whole is saved as it is."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from records_reading.shards import example, field, floats, frame, integers, shard, texts

from geotfr.errors import OutputExistsError, RecordError, UsageError
from geotfr.integrity.indexing import write_index
from geotfr.integrity.inspect import inspect, parsing_code_of
from geotfr.integrity.repair import repair
from geotfr.records.reader import read_records

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "earth-engine"


def write(path: Path, payloads: list[bytes]) -> Path:
    path.write_bytes(shard(payloads))
    return path


def test_keys_are_told_with_kind_lengths_presence_range_and_nan_share(tmp_path: Path) -> None:
    write(tmp_path / "a-0.tfrecord", [example(x=floats(1.0, math.nan, -3.5, 2.0), n=integers(-7), name=texts(b"pond"))])
    write(tmp_path / "a-1.tfrecord", [example(n=integers(4, 500)), example(x=floats(math.inf, 0, 0, 0), name=b"")])
    (tmp_path / "a-2.tfrecord.gz").write_bytes(gzip.compress(frame(example(name=texts(b"a", b"lake"), x=floats()))))
    result = inspect(tmp_path, records=3)
    assert (result.message, result.records) == ("Example", 4)
    keys = {key.key: key for key in result.keys}
    assert list(keys) == ["x", "n", "name"]
    x, n, name = keys["x"], keys["n"], keys["name"]
    assert (x.kind, x.records, x.presence, x.min_length, x.max_length) == ("float", 3, 0.75, 0, 4)
    assert (x.low, x.high, x.nan_share) == (-3.5, math.inf, 0.125)
    assert (n.kind, n.records, n.min_length, n.max_length, n.low, n.high) == ("int64", 2, 1, 2, -7, 500)
    assert (name.kind, name.records, name.min_length, name.max_length) == ("bytes", 3, 0, 2)
    assert (name.min_bytes, name.max_bytes) == (1, 4)
    assert [file.compression for file in result.files] == ["none", "none", "gzip"]
    assert len(result.samples) == 3
    assert result.samples[0]["features"]["name"] == {"kind": "bytes", "length": 1, "values": ["pond"]}
    text = json.dumps(result.to_dict(), allow_nan=False)
    assert json.loads(text)["keys"][0]["high"] == "inf"
    assert "-3.5 to inf" in result.to_text()


def test_shapes_are_guessed_from_the_mixer_beside_or_from_squares(tmp_path: Path) -> None:
    write(
        tmp_path / "a.tfrecord",
        [example(p=floats(*range(32)), q=floats(*range(64)), r=floats(*range(16)), s=floats(*range(7)))],
    )
    assert [key.shape for key in inspect(tmp_path).keys] == [None, (8, 8), (4, 4), None]
    mixer = {
        "projection": {"crs": "", "affine": {"doubleMatrix": [1.0, 0.0, 0.0, 0.0, -1.0, 0.0]}},
        "patchDimensions": [8, 2],
        "patchesPerRow": 1,
        "totalPatches": 1,
    }
    (tmp_path / "a.json").write_text(json.dumps(mixer))
    assert [key.shape for key in inspect(tmp_path / "a.tfrecord").keys] == [(2, 2, 8), (4, 2, 8), (2, 8), None]
    mixer["patchDimensions"] = [4, 4]
    (tmp_path / "a.json").write_text(json.dumps(mixer))
    write(tmp_path / "a.tfrecord", [example(p=floats(*range(36)), raw=texts(bytes(16)))])
    assert [key.shape for key in inspect(tmp_path).keys] == [(6, 6), (4, 4)]


def test_sequences_are_told_by_context_and_lists(tmp_path: Path) -> None:
    def sequence(steps: int) -> bytes:
        context = field(1, field(1, b"id") + field(2, integers(steps)))
        return field(1, context) + field(2, field(1, field(1, b"evi") + field(2, field(1, floats(0.5, 1.0)) * steps)))

    write(tmp_path / "a", [sequence(2), sequence(5)])
    result = inspect(tmp_path / "a", records=1)
    assert (result.message, result.records) == ("SequenceExample", 2)
    context, steps = result.keys
    assert (context.part, context.key, context.high) == ("context", "id", 5)
    assert (steps.part, steps.key, steps.min_steps, steps.max_steps, steps.max_length) == (
        "feature_lists",
        "evi",
        2,
        5,
        2,
    )
    assert result.samples[0]["features"]["evi"]["steps"] == 2
    with pytest.raises(UsageError, match="no Examples"):
        parsing_code_of(result, "tf")
    write(tmp_path / "b", [example(a=floats(1.0))])
    with pytest.raises(UsageError, match="inspect them apart"):
        inspect([tmp_path / "a", tmp_path / "b"])


def test_damage_is_read_around_and_told(tmp_path: Path) -> None:
    content = bytearray(shard([example(a=floats(number)) for number in range(5)]))
    content[-3] ^= 1
    (tmp_path / "a").write_bytes(content)
    result = inspect(tmp_path / "a")
    assert (result.records, result.fault_count) == (4, 1)
    assert "damaged: " in result.to_text()
    (tmp_path / "a").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid\n")
    with pytest.raises(RecordError, match="Git LFS pointer"):
        inspect(tmp_path / "a")


@pytest.mark.parametrize("target", ["tf", "geotfr", "torch"])
def test_the_code_is_python_that_names_every_feature(tmp_path: Path, target: str) -> None:
    write(tmp_path / "a", [example(p=floats(*range(16)), raw=texts(b"xy"), n=integers(number)) for number in range(3)])
    write(tmp_path / "b", [example(p=floats(*range(16)), raw=texts(b"xy"))])
    code = parsing_code_of(inspect([tmp_path / "a", tmp_path / "b"]), target)  # type: ignore[arg-type]
    compile(code, "code", "exec")
    assert "FixedLenFeature([4, 4]" in code
    assert "VarLenFeature(" in code
    assert str(tmp_path / "a") in code


def test_code_for_files_that_one_pipeline_cant_read_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a", [example(x=floats(1.0)), example(x=integers(1))])
    with pytest.raises(UsageError, match="of several kinds"):
        parsing_code_of(inspect(tmp_path / "a"), "geotfr")
    write(tmp_path / "a", [example(x=floats(1.0))])
    (tmp_path / "b").write_bytes(gzip.compress(shard([example(x=floats(1.0))])))
    with pytest.raises(UsageError, match="files of one compression"):
        parsing_code_of(inspect([tmp_path / "a", tmp_path / "b"]), "tf")


@pytest.mark.skipif(not DATA.exists(), reason="the real export is not at hand")
def test_a_real_export_is_told_as_it_is() -> None:
    result = inspect(DATA)
    assert [key.key for key in result.keys] == ["constant", "sin_1", "cos_1", "sin_2", "cos_2"]
    assert {key.shape for key in result.keys} == {(316, 316)}
    assert {key.low for key in result.keys} == {-9999.0}


# Repair


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_whole_records_are_saved_and_the_rest_is_told(tmp_path: Path, suffix: str) -> None:
    payloads = [bytes((number,)) * 50 for number in range(10)]
    content = bytearray(shard(payloads))
    content[3 * 66 + 1] ^= 1
    content[7 * 66 + 30] ^= 1
    path, output = tmp_path / "a", tmp_path / f"b{suffix}"
    path.write_bytes(content[:-5])
    result = repair(path, output)
    wanted = [payload for number, payload in enumerate(payloads) if number not in (3, 7, 9)]
    assert list(read_records(output, compression="gzip" if suffix else "none")) == wanted
    assert (result.records, result.fault_count) == (7, 3)
    assert result.lost_bytes == 66 + 66 + 61
    assert path.read_bytes() == content[:-5]
    json.dumps(result.to_dict())
    assert result.to_text().count("lost: ") == 3


def test_a_good_file_comes_out_byte_for_byte(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [np.random.default_rng(1).bytes(5000) for _ in range(30)])
    assert repair(path, tmp_path / "b").fault_count == 0
    assert (tmp_path / "b").read_bytes() == path.read_bytes()


def test_nothing_is_repaired_in_place_or_over_a_file_unasked(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [b"x"])
    (tmp_path / "link").symlink_to(path)
    for output in (path, tmp_path / "link"):
        with pytest.raises(UsageError, match="isn't repaired in place"):
            repair(path, output, overwrite=True)
    (tmp_path / "b").write_bytes(b"mine")
    with pytest.raises(OutputExistsError):
        repair(path, tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"mine"
    repair(path, tmp_path / "b", overwrite=True)
    assert (tmp_path / "b").read_bytes() == path.read_bytes()


def test_a_file_that_is_none_leaves_no_output(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"<html><body></body></html>")
    with pytest.raises(RecordError, match="HTML page"):
        repair(tmp_path / "a", tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_a_file_size_limit_leaves_nothing_at_the_final_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [bytes(5000)] * 20)
    script = (
        "import resource, signal, sys\n"
        "from geotfr.errors import OutputError\n"
        "from geotfr.integrity.indexing import write_index\n"
        "from geotfr.integrity.repair import repair\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "for work in (lambda: repair(sys.argv[1], sys.argv[2]), lambda: write_index(sys.argv[1])):\n"
        "    try:\n"
        "        work()\n"
        "    except OutputError as error:\n"
        "        print(error.exit_code, error)\n"
    )
    command = [sys.executable, "-c", script, str(path), str(tmp_path / "b")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["14", f"{tmp_path / 'b'}:"], ["14", f"{path}.idx:"]]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_case_51_half_an_index_is_not_left_and_the_next_run_makes_it(tmp_path: Path) -> None:
    # Of many small records the list of places is longer than that of gzip members.
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(write(tmp_path / "plain", [bytes(8)] * 200).read_bytes()))
    (tmp_path / "plain").unlink()
    script = (
        "import resource, signal, sys\n"
        "from geotfr.integrity.indexing import write_index\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))\n"
        "write_index(sys.argv[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
    assert f"{path}.idx: can't be written" in done.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.gz"]
    write_index(path)
    assert {entry.name for entry in tmp_path.iterdir()} == {"a.gz", "a.gz.idx", "a.gz.members"}

"""The commands print what the functions find, and exit as promised."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from records_reading.shards import example, floats, shard

from geotfr.errors import MissingInputError, OutputExistsError, RecordError, UsageError
from geotfr_cli.commands import index, inspect, repair, verify

if TYPE_CHECKING:
    from pathlib import Path

    import click

PAYLOADS = [example(b1=floats(*(float(number + i) for i in range(4)))) for number in range(5)]


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(shard(PAYLOADS))
    return str(path)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    content = bytearray(shard(PAYLOADS))
    content[len(content) // 2] ^= 1
    path = tmp_path / "b.tfrecord"
    path.write_bytes(content)
    return str(path)


def run(command: click.Command, *arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(command, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_verify_exits_0_or_12(good: str, bad: str) -> None:
    code, out, _ = run(verify.command, good)
    assert (code, out.strip().endswith("5 records: good")) == (0, True)
    code, out, _ = run(verify.command, bad)
    assert code == 12
    assert "b.tfrecord: record 2 at byte" in out
    code, out, _ = run(verify.command, good, bad, "--json")
    found = json.loads(out)
    assert (code, found["is_good"], found["records"]) == (12, False, 9)
    assert found["faults"][0]["record"] == 2
    assert run(verify.command, bad, "--quiet") == (12, "", "")


def test_inspect_prints_keys_samples_and_code(good: str) -> None:
    code, out, _ = run(inspect.command, good, "--records", "1")
    assert code == 0
    assert "b1" in out
    assert "record 0 at byte 0" in out
    assert json.loads(run(inspect.command, good, "--json")[1])["keys"][0]["shape"] == [2, 2]
    code, out, _ = run(inspect.command, good, "--code", "tf")
    assert code == 0
    assert out.startswith("import tensorflow as tf\n")
    assert "tf.io.FixedLenFeature([2, 2], tf.float32)" in out


@pytest.mark.parametrize("more", [(), ("--json",), ("--code", "geotfr"), ("--quiet",)])
def test_inspect_exits_12_where_files_are_damaged(more: tuple[str, ...], good: str, bad: str) -> None:
    code, out, err = run(inspect.command, good, bad, *more)
    assert code == 12
    if "--code" in more:
        assert "FixedLenFeature" in out
    if "--quiet" not in more:
        assert "b.tfrecord" in out + err
        assert "record 2 at byte" in out + err or '"record": 2' in out


def test_a_damaged_file_without_a_whole_record_is_not_called_an_empty_shard(good: str, tmp_path: Path) -> None:
    torn = tmp_path / "torn.tfrecord"
    torn.write_bytes(shard(PAYLOADS)[:30])
    empty = tmp_path / "none.tfrecord"
    empty.write_bytes(b"")
    code, out, err = run(inspect.command, good, str(torn))
    assert code == 12
    assert "damaged: " in out
    assert "empty shard" not in out + err
    with pytest.raises(RecordError, match=r"torn.tfrecord.*no whole record is left"):
        run(inspect.command, str(torn), "--code", "tf")
    code, out, err = run(inspect.command, good, str(empty))
    assert code == 0
    assert "none.tfrecord: no records: an empty shard" in err


def test_repair_exits_3_where_records_are_lost(good: str, bad: str, tmp_path: Path) -> None:
    assert run(repair.command, good, "--output", str(tmp_path / "c"))[0] == 0
    code, out, _ = run(repair.command, bad, "--output", str(tmp_path / "d.gz"))
    assert code == 3
    assert "4 whole records; 1 damaged places" in out
    with pytest.raises(OutputExistsError):
        run(repair.command, bad, "--output", str(tmp_path / "c"))
    with pytest.raises(UsageError):
        run(repair.command, bad, "--output", bad, "--overwrite")


def test_index_writes_beside_the_file(good: str, tmp_path: Path) -> None:
    assert run(index.command, good)[0] == 0
    assert (tmp_path / "a.tfrecord.idx").exists()
    with pytest.raises(OutputExistsError):
        run(index.command, good)
    code, out, _ = run(index.command, good, "--overwrite", "--json")
    assert (code, json.loads(out)["files"][0]["records"]) == (0, 5)


def test_sizes_are_read_as_everywhere(good: str) -> None:
    assert run(verify.command, good, "--max-record-bytes", "1KiB")[0] == 0
    assert run(verify.command, good, "--max-record-bytes", "5")[0] == 12
    with pytest.raises(UsageError, match="max_record_bytes"):
        run(verify.command, good, "--max-record-bytes", "many")


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError):
        run(verify.command, str(tmp_path / "none"))
    assert run(verify.command)[0] == 2


def test_the_commands_load_nothing_before_they_run() -> None:
    script = (
        "import sys\n"
        "from geotfr_cli.commands import index, inspect, repair, verify\n"
        "heavy = {'numpy', 'rasterio', 'google.protobuf', 'tensorflow'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""Parts of an export, run in any order and anywhere, make the very files of one run."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle.rasters import write_raster
from oracle.run import assert_refused, contents, run

import geotfr
from geotfr.errors import DamagedError, LockedError, MissingInputError, OutputExistsError, UsageError
from geotfr.pipeline.export import chunks
from geotfr.pipeline.export.parts import distribute
from geotfr.records import gzip
from geotfr.storage import OutputSet
from geotfr.storage.lock import OutputLock

GIVEN: dict[str, Any] = {"patch_dimensions": 8, "kernel_size": 4, "max_file_size": 4000}
KINDS: dict[str, dict[str, Any]] = {
    "float": {},
    "Earth Engine's gzip": {"compressor": "ee"},
    "Earth Engine's gzip of native": {"compressor": "ee", "feature_kinds": "native"},
    "plain": {"compressed": False},
    "plain native": {"compressed": False, "feature_kinds": "native", "max_file_size": 700},
    "native": {"feature_kinds": "native"},
    "threshold": {"masked_threshold": 0.1},
    "all dropped": {"masked_threshold": 0, "nodata": 59, "kernel_size": 1, "patch_dimensions": 64},
    "sequence": {"sequence_data": True, "max_file_size": 9000, "patch_dimensions": 16},
    "native sequence": {
        "sequence_data": True,
        "max_file_size": 9000,
        "patch_dimensions": 16,
        "feature_kinds": "native",
    },
    "index": {"patch_index": "number"},
    "one record a shard": {"max_file_size": 10, "feature_kinds": "native", "patch_dimensions": 16},
    "one shard": {"max_file_size": 2**30},
    "padded": {"edge": "pad", "patch_dimensions": 50},
    "cloud storage": {"naming": "cloud-storage", "feature_kinds": "native"},
    "valid": {"valid_feature": "valid", "kernel_size": 3, "edge": "pad"},
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """66 x 200 of two bands, a part of it masked."""
    noise = np.random.default_rng(5).integers(0, 60, (2, 200, 66)).astype("int16")
    noise[:, :, :12] = 0
    noise[:, 100:125] = 0
    return write_raster(tmp_path / "scene.tif", noise, nodata=0, tiled=True, blockxsize=16, blockysize=16)


def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A folder for the files of one run, one for those of the parts."""
    made = tmp_path / "whole", tmp_path / "parts"
    for folder in made:
        folder.mkdir()
    return made


def run_parts(source: Path, out: Path, total: int, options: dict[str, Any], *, seed: int = 0) -> None:
    """Stage all parts, in an order that ``seed`` chooses."""
    order = list(range(total))
    random.Random(seed).shuffle(order)
    for number in order:
        geotfr.export_part(source, out / "set", split=(number, total), workers=1 + number % 2, **options)
        assert not [name for name in contents(out) if not name.startswith(".")], "a part gave a file its name"


@pytest.mark.parametrize(
    ("kind", "total", "chunk_bytes"),
    [(kind, (2, 5, 16)[number % 3], (1500, chunks.CHUNK_BYTES)[number % 4 == 3]) for number, kind in enumerate(KINDS)],
)
def test_parts_make_the_files_and_tell_the_counts_of_one_run(
    kind: str, total: int, chunk_bytes: int, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", chunk_bytes)
    options = {**GIVEN, **KINDS[kind]}
    whole, out = folders(tmp_path)
    one = geotfr.export_image(source, whole / "set", **options)
    run_parts(source, out, total, options)
    told = geotfr.finalize_export(out / "set")
    assert contents(out) == contents(whole)
    assert [path.name for path in told.shards] == [path.name for path in one.shards]
    assert (told.patches_written, told.patches_dropped) == (one.patches_written, one.patches_dropped)
    assert (told.masked_share, told.size_bytes) == (one.masked_share, one.size_bytes)
    assert sorted(told.warnings) == sorted(one.warnings)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=st.tuples(st.integers(9, 60), st.integers(9, 60)),
    patch=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    total=st.integers(1, 9),
    shard_bytes=st.integers(1, 6000),
    chunk_bytes=st.integers(1, 3000),
    kinds=st.sampled_from(["float", "native"]),
    threshold=st.sampled_from([1, 0.2]),
    sequences=st.booleans(),
    compressor=st.sampled_from(["fast", "ee", "none"]),
)
def test_the_law_holds_for_any_layout(
    tmp_path_factory: pytest.TempPathFactory,
    shape: tuple[int, int],
    patch: tuple[int, int],
    total: int,
    shard_bytes: int,
    chunk_bytes: int,
    kinds: str,
    threshold: float,
    sequences: bool,
    compressor: str,
) -> None:
    folder = tmp_path_factory.mktemp("law")
    noise = np.random.default_rng(sum(shape)).integers(0, 300, (2, *shape)).astype("int16")
    noise[:, : shape[0] // 3, : shape[1] // 2] = 0
    raster = write_raster(folder / "scene.tif", noise, nodata=0)
    options: dict[str, Any] = {
        "patch_dimensions": patch,
        # Shards of less than a few records are many files.
        "max_file_size": max(shard_bytes, patch[0] * patch[1] * 20),
        "feature_kinds": kinds,
        "masked_threshold": threshold,
        "sequence_data": sequences,
        **({"compressed": False} if compressor == "none" else {"compressor": compressor}),
    }
    whole, out = folders(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(chunks, "CHUNK_BYTES", chunk_bytes)
        geotfr.export_image(raster, whole / "set", workers=1, **options)
        run_parts(raster, out, total, {**options}, seed=total)
        geotfr.finalize_export(out / "set", verify=True)
    assert contents(out) == contents(whole)


def test_only_the_chunks_in_which_a_shard_ends_are_packed_again(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1500)
    _, out = folders(tmp_path)
    run_parts(source, out, 3, {**GIVEN, "feature_kinds": "native"})
    packed: list[int] = []
    member = gzip.gzip_member

    def counted(data: bytes) -> bytes:
        packed.append(len(data))
        return member(data)

    monkeypatch.setattr(gzip, "gzip_member", counted)
    told = geotfr.finalize_export(out / "set")
    assert 0 < len(packed) <= 2 * len(told.shards)


def test_shards_that_are_whole_in_a_part_are_renamed(source: Path, tmp_path: Path) -> None:
    _, out = folders(tmp_path)
    run_parts(source, out, 2, GIVEN)
    before = {path.stat().st_ino for path in out.glob(".*.tmp")}
    told = geotfr.finalize_export(out / "set")
    assert told.shards_copied == 0
    assert {path.stat().st_ino for path in told.shards} == before


@pytest.mark.parametrize("kind", ["float", "native"])
@pytest.mark.parametrize("is_resumed", [True, False])
def test_a_part_may_be_run_again(
    kind: str, is_resumed: bool, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1500)
    options = {**GIVEN, **KINDS[kind]}
    whole, out = folders(tmp_path)
    geotfr.export_image(source, whole / "set", **options)
    run_parts(source, out, 3, options)
    before = {path.name: path.stat().st_mtime_ns for path in out.glob(".*.tmp")}
    told = geotfr.export_part(source, out / "set", split="1/3", resume=is_resumed, **options)
    after = {path.name: path.stat().st_mtime_ns for path in out.glob(".*.tmp")}
    assert (after == before) == is_resumed
    assert told.files_resumed == (told.files if is_resumed else 0)
    geotfr.finalize_export(out / "set")
    assert contents(out) == contents(whole)


def test_a_stopped_part_goes_on_where_it_was(source: Path, tmp_path: Path) -> None:
    whole, out = folders(tmp_path)
    geotfr.export_image(source, whole / "set", **GIVEN)
    run_parts(source, out, 2, GIVEN)
    left = [20_000]

    def stop(patches: int, size: int) -> None:
        left[0] -= size
        if left[0] < 0:
            raise StopError

    with pytest.raises(StopError):
        geotfr.export_part(source, out / "set", split="1/2", progress=stop, **GIVEN)
    with pytest.raises(MissingInputError, match=r"1 of 2 parts .*missing: 1"):
        geotfr.finalize_export(out / "set")
    left[0] = 20_000
    with pytest.raises(StopError):
        geotfr.export_part(source, out / "set", split="1/2", progress=stop, resume=True, **GIVEN)
    with pytest.raises(MissingInputError, match=r"not finished: 1.*--split 1/2 --resume"):
        geotfr.finalize_export(out / "set")
    assert geotfr.export_part(source, out / "set", split="1/2", resume=True, **GIVEN).files_resumed > 2
    geotfr.finalize_export(out / "set")
    assert contents(out) == contents(whole)


class StopError(Exception):
    """Ends a run."""


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"kernel_size": 2}, "parts 1 were made otherwise than part 0: "),
        ({"default_value": 7}, "options.default_value is 7, not 0"),
        ({"bands": [1]}, "parts 1 were made otherwise"),
    ],
)
def test_parts_made_otherwise_are_listed(others: dict[str, Any], words: str, source: Path, tmp_path: Path) -> None:
    whole, out = folders(tmp_path)
    geotfr.export_image(source, whole / "set", **GIVEN)
    for number in (0, 2):
        geotfr.export_part(source, out / "set", split=(number, 3), **GIVEN)
    geotfr.export_part(source, out / "set", split="1/3", **{**GIVEN, **others})
    with pytest.raises(UsageError, match=words):
        geotfr.finalize_export(out / "set")
    geotfr.export_part(source, out / "set", split="1/3", **GIVEN)
    geotfr.finalize_export(out / "set")
    assert contents(out) == contents(whole)


def test_a_source_with_another_time_of_change_is_refused_or_taken_as_a_copy(source: Path, tmp_path: Path) -> None:
    whole, out = folders(tmp_path)
    geotfr.export_image(source, whole / "set", **GIVEN)
    geotfr.export_part(source, out / "set", split="0/2", **GIVEN)
    os.utime(source, ns=(1, 1))
    geotfr.export_part(source, out / "set", split="1/2", **GIVEN)
    with pytest.raises(UsageError, match=r"modified_ns.*--ignore-source-times"):
        geotfr.finalize_export(out / "set")
    geotfr.finalize_export(out / "set", ignore_source_times=True)
    assert contents(out) == contents(whole)


def test_parts_of_several_splits_need_to_be_told_apart(source: Path, tmp_path: Path) -> None:
    whole, out = folders(tmp_path)
    geotfr.export_image(source, whole / "set", **GIVEN)
    run_parts(source, out, 3, GIVEN)
    geotfr.export_part(source, out / "set", split="1/2", **GIVEN)
    with pytest.raises(UsageError, match=r"1 of 2, 3 of 3.*--parts 3"):
        geotfr.finalize_export(out / "set")
    geotfr.finalize_export(out / "set", parts=3)
    assert contents(out) == contents(whole)


@pytest.mark.parametrize("kind", ["float", "native"])
@pytest.mark.parametrize("damage", ["byte", "cut", "gone"])
def test_a_staged_file_that_changed_is_found(
    damage: str, kind: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1500)
    options = {**GIVEN, **KINDS[kind]}
    whole, out = folders(tmp_path)
    geotfr.export_image(source, whole / "set", **options)
    run_parts(source, out, 3, options)
    staged = sorted(out.glob(".*part-1-of-3*.tmp"))[-1]
    content = staged.read_bytes()
    staged.unlink()
    if damage == "byte":
        staged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "cut":
        staged.write_bytes(content[:-1])
    with pytest.raises((DamagedError, OSError), match="part-1-of-3"):
        geotfr.finalize_export(out / "set", verify=True)
    assert not [name for name in contents(out) if not name.startswith(".")]
    geotfr.export_part(source, out / "set", split="1/3", resume=True, **options)
    geotfr.finalize_export(out / "set")
    assert contents(out) == contents(whole)


def test_a_part_or_a_set_that_is_being_written_is_locked(source: Path, tmp_path: Path) -> None:
    _, out = folders(tmp_path)
    run_parts(source, out, 2, GIVEN)
    before = contents(out)
    with OutputLock(out / "set", keeps_leftovers=True, part="part-1-of-2"):
        with pytest.raises(LockedError, match="part 1 of 2"):
            geotfr.export_part(source, out / "set", split="1/2", **GIVEN)
        # Another part may be run meanwhile.
        geotfr.export_part(source, out / "set", split="0/2", resume=True, **GIVEN)
    with OutputLock(out / "set", keeps_leftovers=True, is_shared=True):
        geotfr.export_part(source, out / "set", split="0/2", resume=True, **GIVEN)
        for work in (geotfr.finalize_export, lambda prefix: geotfr.export_image(source, prefix, **GIVEN)):
            with pytest.raises(LockedError):
                work(out / "set")
    with OutputLock(out / "set", keeps_leftovers=True):
        assert_refused(run("finalize", out / "set"), 11, "is writing it")
        with pytest.raises(LockedError):
            geotfr.export_part(source, out / "set", split="0/2", resume=True, **GIVEN)
    # A part that shared the lock leaves its file; who finalizes removes it.
    assert {name for name in contents(out) if not name.endswith(".lock")} == {
        name for name in before if not name.endswith(".lock")
    }
    geotfr.finalize_export(out / "set")
    assert not list(out.glob(".*"))


def test_the_same_part_twice_and_two_finalizes_at_once_do_no_harm(source: Path, tmp_path: Path) -> None:
    whole, out = folders(tmp_path)
    geotfr.export_image(source, whole / "set", patch_dimensions=8)
    command = [sys.executable, "-m", "geotfr_cli"]
    part = [*command, "export", source, "-o", out / "set", "--patch-dimensions", "8", "--workers", "1", "--quiet"]

    def together(*commands: list[Any]) -> list[int]:
        runs = [subprocess.Popen(each, stderr=subprocess.PIPE, text=True) for each in commands]
        told = [run.communicate()[1] for run in runs]
        for run_, words in zip(runs, told, strict=True):
            assert run_.returncode in (0, 10, 11, 14), words
            assert run_.returncode == 0 or len(words.splitlines()) == 1
        return [run_.returncode for run_ in runs]

    codes = together(*[[*part, "--split", f"{number}/2"] for number in (0, 0, 1)])
    assert codes[2] == 0
    assert set(codes[:2]) <= {0, 11}
    assert 0 in codes[:2]
    codes = together(*[[*command, "finalize", out / "set", "--quiet"] for _ in range(2)])
    assert codes.count(0) == 1
    assert contents(out) == contents(whole)


def test_finalize_tells_what_is_not_there(source: Path, tmp_path: Path) -> None:
    _, out = folders(tmp_path)
    assert_refused(run("finalize", out / "set"), 10, "no part", "--split")
    assert_refused(run("finalize", tmp_path / "none" / "set"), 14, "missing")
    geotfr.export_part(source, out / "set", split="3/5", **GIVEN)
    assert_refused(run("finalize", out / "set"), 10, "4 of 5 parts", "missing: 0, 1, 2, 4", "--split 0/5")
    assert_refused(run("finalize", out / "set", "--parts", "7"), 10, "missing: 0, 1, 2, 3, 4, 5, 6")


def test_a_set_is_replaced_only_with_overwrite(source: Path, tmp_path: Path) -> None:
    whole, out = folders(tmp_path)
    geotfr.export_image(source, whole / "set", **GIVEN)
    geotfr.export_image(source, out / "set", patch_dimensions=8, max_file_size=900)
    before = contents(out)
    with pytest.raises(OutputExistsError):
        geotfr.export_part(source, out / "set", split="0/2", **GIVEN)
    run_over = {**GIVEN, "overwrite": True}
    for number in range(2):
        geotfr.export_part(source, out / "set", split=(number, 2), **run_over)
    with pytest.raises(OutputExistsError, match="--overwrite"):
        geotfr.finalize_export(out / "set")
    assert {name: content for name, content in contents(out).items() if not name.startswith(".")} == before
    geotfr.finalize_export(out / "set", overwrite=True)
    assert contents(out) == contents(whole)


@pytest.mark.parametrize("split", ["2/2", "-1/2", "1", "a/b", "0/0", "1/200000", ""])
def test_a_split_that_is_none_is_refused(split: str, source: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="PART/PARTS"):
        geotfr.export_part(source, tmp_path / "set", split=split, **GIVEN)


def test_a_source_in_memory_has_no_parts(tmp_path: Path) -> None:
    array = np.zeros((16, 16), "float32")
    with pytest.raises(UsageError, match="memory"):
        geotfr.export_part(
            (array, (10.0, 0.0, 0.0, 0.0, -10.0, 0.0), "EPSG:32633"),  # type: ignore[arg-type]
            tmp_path / "set",
            split="0/2",
            patch_dimensions=8,
        )


def test_the_commands_stage_and_finalize(source: Path, tmp_path: Path) -> None:
    whole, out = folders(tmp_path)
    geotfr.export_image(source, f"{whole}/", **GIVEN)
    options = ["--patch-dimensions", "8", "--kernel-size", "4", "--max-file-size", "4000"]
    for number in (1, 0):
        done = run("export", source, "-o", f"{out}/", *options, "--split", f"{number}/2", "--json")
        assert done.code == 0, done.stderr
        told = json.loads(done.stdout)
        assert (told["part"], told["parts"], told["files_resumed"]) == (number, 2, 0)
    done = run("finalize", f"{out}/", "--json")
    assert done.code == 0, done.stderr
    assert json.loads(done.stdout)["parts"] == 2
    assert contents(out) == contents(whole)


def test_unreadable_blocks_of_all_parts_count_once(source: Path, tmp_path: Path) -> None:
    broken = bytearray(source.read_bytes())
    broken[len(broken) // 2 : len(broken) // 2 + 3000] = bytes(3000)
    raster = tmp_path / "broken.tif"
    raster.write_bytes(broken)
    whole, out = folders(tmp_path)
    options = {**GIVEN, "on_read_error": "mask"}
    one = geotfr.export_image(raster, whole / "set", **options)
    run_parts(raster, out, 4, options)
    told = geotfr.finalize_export(out / "set")
    assert one.pixels_unreadable == told.pixels_unreadable
    assert contents(out) == contents(whole)


@pytest.mark.parametrize("how", ["split", "executor"])
@pytest.mark.parametrize("kind", ["native", "sequence", "threshold", "all dropped", "Earth Engine's gzip", "plain"])
def test_the_patch_table_is_that_of_one_run(
    how: str, kind: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1500)
    monkeypatch.setattr(distribute, "_TASK_BYTES", 10_000)
    given: dict[str, Any] = {**GIVEN, **KINDS[kind], "patch_table": True, "class_bands": "b1"}
    whole, out = folders(tmp_path)
    geotfr.export_image(source, whole / "set", workers=1, **given)
    if how == "executor":
        with ThreadPoolExecutor(2) as pool:
            table = geotfr.export_image(source, out / "set", executor=pool, **given).patch_table
    else:
        run_parts(source, out, 3, given)
        table = geotfr.finalize_export(out / "set").patch_table
    assert table == out / "set-patches.parquet"
    assert contents(out) == contents(whole)


def test_parts_with_and_without_a_table_are_not_put_together(source: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    _, out = folders(tmp_path)
    for number in range(2):
        geotfr.export_part(source, out / "set", split=(number, 2), patch_table=number == 0, **GIVEN)
    with pytest.raises(UsageError, match=r"made otherwise than part 0: table.* is None, not"):
        geotfr.finalize_export(out / "set")


def test_a_part_with_a_table_that_was_stopped_stages_all_of_its_rows(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    given = {**GIVEN, "patch_table": True, "class_bands": "b1"}
    whole, out = folders(tmp_path)
    geotfr.export_image(source, whole / "set", workers=1, **given)
    with monkeypatch.context() as patched:
        patched.setattr(OutputSet, "complete", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            geotfr.export_part(source, out / "set", split=(1, 2), resume=True, **given)
    for number in (1, 0):
        geotfr.export_part(source, out / "set", split=(number, 2), resume=True, **given)
    with monkeypatch.context() as patched:
        patched.setattr(OutputSet, "complete", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            geotfr.finalize_export(out / "set")
    geotfr.finalize_export(out / "set")
    assert contents(out) == contents(whole)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("compressor", ["ee", "fast"])
def test_case_75_statistics_of_parts_are_those_of_one_run(tmp_path: Path, dtype: str, compressor: str) -> None:
    random = np.random.default_rng(4)
    pixels = (random.normal(100, 30, (2, 100, 130)) * (1e6 if dtype == "int32" else 1)).astype(dtype)
    pixels[:, 20:40, 50:70] = pixels[0, :3, 100] = -9999
    source = write_raster(tmp_path / "scene.tif", pixels, nodata=-9999, tiled=True, blockxsize=16, blockysize=16)
    given: dict[str, Any] = {
        "patch_dimensions": 9,
        "kernel_size": 3,
        "max_file_size": 6000,
        "patch_table": True,
        "compressor": compressor,
    }
    whole = tmp_path / "whole"
    whole.mkdir()
    table = geotfr.export_image(source, whole / "set", workers=1, **given).patch_table
    assert table is not None
    for parts in (2, 4, 5):
        out = tmp_path / f"parts-{parts}"
        out.mkdir()
        for number in range(parts):
            geotfr.export_part(source, out / "set", split=(number, parts), workers=1 + number % 2, **given)
        geotfr.finalize_export(out / "set")
        assert contents(out) == contents(whole)
    # Which patches are kept changes nothing that is told of one.
    kept = [*range(40), 77, 79, *range(100, 154, 7)]
    chosen = geotfr.export_image(source, tmp_path / "chosen", keep=kept, workers=2, **given).patch_table
    every, some = (pytest.importorskip("pyarrow.parquet").read_table(path) for path in (table, chosen))
    told = [
        name for name in every.column_names if name.split("_")[0] in ("mean", "std", "min", "max", "count", "masked")
    ]
    assert len(told) >= 9
    numbers = every["number"].to_pylist()
    expected = every.select(told).take([numbers.index(number) for number in some["number"].to_pylist()])
    assert some.num_rows == len(kept)
    assert some.select(told).to_pydict() == expected.to_pydict()

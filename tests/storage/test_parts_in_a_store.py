"""Parts in a store, and runs that go on there, make the very objects of one run; by a store in memory."""

from __future__ import annotations

import contextlib
import json
import os
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pytest
from oracle.rasters import write_raster
from oracle.run import assert_refused, contents, run
from oracle.store import failing, objects

import geotfr
from geotfr.errors import (
    DamagedError,
    InputError,
    LockedError,
    MissingInputError,
    OutputError,
    OutputExistsError,
    UsageError,
)
from geotfr.pipeline.export import chunks
from geotfr.pipeline.export.parts import distribute
from geotfr.storage.remote import Store, StoreAddress, StoreLock, lock
from geotfr.storage.remote import store as store_module
from geotfr.stores.path import StorePath

OUT = "s3://bucket/set"
GIVEN: dict[str, Any] = {"patch_dimensions": 8, "kernel_size": 4, "max_file_size": 4000}
KINDS: dict[str, dict[str, Any]] = {
    "float": {},
    "plain": {"compressed": False},
    "native": {"feature_kinds": "native"},
    "Earth Engine's gzip": {"compressor": "ee", "feature_kinds": "native"},
    "threshold": {"masked_threshold": 0.1},
    "one shard": {"max_file_size": 2**30},
    "all dropped": {"masked_threshold": 0, "nodata": 59, "kernel_size": 1, "patch_dimensions": 64},
}


class StopError(Exception):
    """Ends a run."""


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1500)
    monkeypatch.setattr(distribute, "_TASK_BYTES", 20_000)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """66 x 200 of two bands, a part of it masked."""
    noise = np.random.default_rng(5).integers(0, 60, (2, 200, 66)).astype("int16")
    noise[:, :, :12] = 0
    noise[:, 100:125] = 0
    return write_raster(tmp_path / "scene.tif", noise, nodata=0, tiled=True, blockxsize=16, blockysize=16)


def whole_of(source: Path, options: dict[str, Any]) -> dict[str, bytes]:
    """The files of one run into a folder."""
    folder = source.parent / "whole"
    folder.mkdir()
    geotfr.export_image(source, folder / "set", **options)
    return contents(folder)


def part(source: Path, number: int, total: int, **options: Any) -> Any:
    return geotfr.export_part(source, OUT, split=(number, total), workers=1, **options)


def stopping(after: int) -> Callable[[int, int], None]:
    """A progress that ends the run when ``after`` bytes are written."""
    left = [after]

    def stop(_: int, size: int) -> None:
        left[0] -= size
        if left[0] < 0:
            raise StopError

    return stop


def put_staged(memory: Any, part_number: int, data: Callable[[bytes], bytes | None]) -> None:
    """Let the last staged file of a part hold what ``data`` makes of it."""
    name = sorted(name for name in objects(memory) if f".part-{part_number}-" in name and name.endswith(".tmp"))[-1]
    made = data(objects(memory)[name])
    if made is None:
        obstore.delete(memory, name)
    else:
        obstore.put(memory, name, made)


@pytest.mark.parametrize(("kind", "total"), [(kind, (2, 5)[number % 2]) for number, kind in enumerate(KINDS)])
def test_parts_make_the_objects_and_tell_the_counts_of_one_run(
    kind: str, total: int, memory: Any, source: Path
) -> None:
    options = {**GIVEN, **KINDS[kind]}
    expected = whole_of(source, options)
    one = geotfr.export_image(source, source.parent / "again", **options)
    order = list(range(total))
    random.Random(total).shuffle(order)
    for number in order:
        part(source, number, total, **options)
        assert all(name.startswith(".geotfr-") for name in objects(memory)), "a part gave an object its name"
    told = geotfr.finalize_export(OUT)
    assert objects(memory) == expected
    assert [str(path) for path in told.shards] == [f"s3://bucket/{name}" for name in sorted(expected) if "tfr" in name]
    assert str(told.manifest) == "s3://bucket/set-manifest.json"
    assert (told.patches_written, told.patches_dropped) == (one.patches_written, one.patches_dropped)
    assert (told.masked_share, told.size_bytes) == (one.masked_share, one.size_bytes)
    assert sorted(told.warnings) == sorted(one.warnings)


def test_shards_that_are_whole_in_a_part_are_copied_by_the_store(
    memory: Any, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        part(source, number, 2, **GIVEN)
    sent: list[str] = []
    inner = obstore.put

    def counting(store: Any, name: str, *args: Any, **options: Any) -> Any:
        sent.append(name)
        return inner(store, name, *args, **options)

    monkeypatch.setattr(obstore, "put", counting)
    told = geotfr.finalize_export(OUT)
    assert told.shards_copied == 0
    assert [name for name in sent if not name.startswith(".")] == ["set-mixer.json", "set-manifest.json"]


def test_a_table_of_patches_is_that_of_one_run(memory: Any, source: Path) -> None:
    for kind in ("float", "native"):
        options = {**GIVEN, **KINDS[kind], "patch_table": True, "overwrite": True}
        (source.parent / kind).mkdir()
        geotfr.export_image(source, source.parent / kind / "set", **options)
        for number in range(3):
            part(source, number, 3, **options)
        told = geotfr.finalize_export(OUT, overwrite=True)
        assert objects(memory) == contents(source.parent / kind)
        assert str(told.patch_table) == "s3://bucket/set-patches.parquet"


@pytest.mark.parametrize("is_resumed", [True, False])
@pytest.mark.parametrize("kind", ["float", "native"])
def test_a_part_may_be_run_again(kind: str, is_resumed: bool, memory: Any, source: Path) -> None:
    options = {**GIVEN, **KINDS[kind]}
    expected = whole_of(source, options)
    for number in range(3):
        part(source, number, 3, **options)
    before = objects(memory).keys()
    told = part(source, 1, 3, resume=is_resumed, **options)
    assert told.files_resumed == (told.files if is_resumed else 0)
    assert (objects(memory).keys() == before) == is_resumed
    geotfr.finalize_export(OUT, verify=True)
    assert objects(memory) == expected


def test_a_stopped_part_goes_on_where_it_was_on_any_machine(memory: Any, source: Path) -> None:
    expected = whole_of(source, GIVEN)
    part(source, 0, 2, **GIVEN)
    with pytest.raises(StopError):
        part(source, 1, 2, progress=stopping(20_000), **GIVEN)
    # Without resume nothing of it is left.
    assert not [name for name in objects(memory) if ".part-1-" in name]
    with pytest.raises(MissingInputError, match=r"1 of 2 parts .*missing: 1"):
        geotfr.finalize_export(OUT)
    with pytest.raises(StopError):
        part(source, 1, 2, progress=stopping(20_000), resume=True, **GIVEN)
    with pytest.raises(MissingInputError, match=r"not finished: 1.*--split 1/2 --resume"):
        geotfr.finalize_export(OUT)
    assert part(source, 1, 2, resume=True, **GIVEN).files_resumed > 2
    geotfr.finalize_export(OUT)
    assert objects(memory) == expected


@pytest.mark.parametrize("kind", ["float", "native"])
@pytest.mark.parametrize("damage", ["byte", "cut", "gone"])
def test_a_staged_object_that_changed_is_found(damage: str, kind: str, memory: Any, source: Path) -> None:
    options = {**GIVEN, **KINDS[kind]}
    expected = whole_of(source, options)
    for number in range(3):
        part(source, number, 3, **options)
    made: dict[str, Callable[[bytes], bytes | None]] = {
        "byte": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        "cut": lambda data: data[:-1],
        "gone": lambda _: None,
    }
    put_staged(memory, 1, made[damage])
    with pytest.raises((DamagedError, InputError), match=r"part-1-of-3.*run its part again"):
        geotfr.finalize_export(OUT)
    assert not [name for name in objects(memory) if not name.startswith(".")]
    part(source, 1, 3, resume=True, **options)
    geotfr.finalize_export(OUT)
    assert objects(memory) == expected


def test_a_set_and_its_parts_lock_each_other(memory: Any, source: Path) -> None:
    expected = whole_of(source, GIVEN)
    for number in range(2):
        part(source, number, 2, **GIVEN)
    store, output = Store(StoreAddress.of_folder("s3://bucket")), StorePath("s3://bucket/set")
    with StoreLock(store, output, part="part-1-of-2"):
        with pytest.raises(LockedError, match="is writing part 1 of 2 of this set"):
            part(source, 1, 2, **GIVEN)
        for work in (geotfr.finalize_export, lambda prefix: geotfr.export_image(source, prefix, **GIVEN)):
            with pytest.raises(LockedError, match="is writing part 1 of 2 of this set"):
                work(OUT)
        # Another part may be run meanwhile.
        part(source, 0, 2, resume=True, **GIVEN)
    with StoreLock(store, output):
        with pytest.raises(LockedError, match="is writing this set"):
            part(source, 0, 2, resume=True, **GIVEN)
        assert_refused(run("finalize", OUT), 11, "is writing this set")
    geotfr.finalize_export(OUT)
    assert objects(memory) == expected


def test_the_lock_of_a_process_that_is_gone_is_taken_over_at_once(
    memory: Any, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, output = Store(StoreAddress.of_folder("s3://bucket")), StorePath("s3://bucket/set")
    child = os.fork()
    if not child:
        os._exit(0)
    with monkeypatch.context() as patched:
        mark = lock.process_mark(child)
        os.waitpid(child, 0)
        # A process that is dead has no time of its start: take this one's.
        own = lock.process_mark(os.getpid())
        patched.setattr(lock, "process_mark", lambda _: mark or f"{own.split('-')[0]}-{child}-1")
        for part_name in ("", "part-1-of-2"):
            StoreLock(store, output, part=part_name)
    part(source, 1, 2, **GIVEN)
    part(source, 0, 2, **GIVEN)
    geotfr.finalize_export(OUT)
    assert not [name for name in objects(memory) if name.startswith(".")]


def test_the_same_part_at_once_by_one_that_was_thought_dead_does_no_harm(
    memory: Any, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = whole_of(source, GIVEN)
    part(source, 0, 2, **GIVEN)
    monkeypatch.setattr(lock, "PART_STALE_S", -1)
    goes_on, may_end = threading.Event(), threading.Event()

    def slow(_: int, size: int) -> None:
        if size:
            goes_on.set()
            assert may_end.wait(60)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(part, source, 1, 2, progress=slow, resume=True, **GIVEN)
        assert goes_on.wait(60)
        assert part(source, 1, 2, resume=True, **GIVEN).files
        may_end.set()
        with pytest.raises(LockedError):
            first.result()
    geotfr.finalize_export(OUT, verify=True)
    assert objects(memory) == expected


def test_parts_made_otherwise_are_listed_and_options_of_a_resumed_one(memory: Any, source: Path) -> None:
    expected = whole_of(source, GIVEN)
    part(source, 0, 2, **GIVEN)
    part(source, 1, 2, **{**GIVEN, "kernel_size": 2})
    with pytest.raises(UsageError, match="parts 1 were made otherwise than part 0"):
        geotfr.finalize_export(OUT)
    with pytest.raises(UsageError, match=r"s3://bucket/set: the stopped run can't be resumed"):
        part(source, 1, 2, resume=True, **GIVEN)
    part(source, 1, 2, **GIVEN)
    geotfr.finalize_export(OUT)
    assert objects(memory) == expected


def test_parts_of_several_splits_need_to_be_told_apart(memory: Any, source: Path) -> None:
    expected = whole_of(source, GIVEN)
    with pytest.raises(MissingInputError, match="no part of an export is staged here"):
        geotfr.finalize_export(OUT)
    for number in range(3):
        part(source, number, 3, **GIVEN)
    part(source, 1, 2, **GIVEN)
    with pytest.raises(UsageError, match=r"1 of 2, 3 of 3.*--parts 3"):
        geotfr.finalize_export(OUT)
    geotfr.finalize_export(OUT, parts=3)
    assert objects(memory) == expected


def test_a_set_that_is_there_stays_without_being_told_to_replace_it(memory: Any, source: Path) -> None:
    expected = whole_of(source, GIVEN)
    geotfr.export_image(source, OUT, **{**GIVEN, "max_file_size": 2000})
    before = objects(memory)
    with pytest.raises(OutputExistsError, match="--overwrite"):
        part(source, 0, 2, **GIVEN)
    for number in range(2):
        part(source, number, 2, overwrite=True, **GIVEN)
    with pytest.raises(OutputExistsError, match="--overwrite"):
        geotfr.finalize_export(OUT)
    assert {name: data for name, data in objects(memory).items() if name in before} == before
    geotfr.finalize_export(OUT, overwrite=True)
    assert objects(memory) == expected


class Crashes:
    """Lets the process of a run seem to be killed at its ``operation``-th request that changes the store."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, operation: int) -> None:
        self.left = operation
        for name in ("put", "copy", "delete"):
            monkeypatch.setattr(obstore, name, self._crashing(getattr(obstore, name)))

    def _crashing(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*args: Any, **options: Any) -> Any:
            if self.left <= 0:
                raise StopError
            self.left -= 1
            return inner(*args, **options)

        return instead


@pytest.mark.parametrize("kind", ["float", "native"])
def test_a_finalize_killed_at_any_request_is_continued_by_the_next(
    kind: str, memory: Any, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**GIVEN, **KINDS[kind], "max_file_size": 20_000}
    expected = whole_of(source, options)
    monkeypatch.setattr(lock, "is_gone", lambda _: True)
    for number in range(2):
        part(source, number, 2, **options)
    staged = objects(memory)
    for operation in range(1, 1000):
        for name in objects(memory):
            obstore.delete(memory, name)
        for name, data in staged.items():
            obstore.put(memory, name, data)
        _renoted(memory)
        with monkeypatch.context() as patched:
            crashes = Crashes(patched, operation)
            with contextlib.suppress(BaseException):
                geotfr.finalize_export(OUT)
            is_over = crashes.left > 0
        there = {name for name in objects(memory) if not name.startswith(".")}
        if "set-manifest.json" in there:
            assert there == expected.keys()
            assert all(objects(memory)[name] == data for name, data in expected.items())
        if is_over:
            break
        try:
            geotfr.finalize_export(OUT)
        except OutputExistsError:
            assert there == expected.keys()
        except MissingInputError:
            assert there == expected.keys()
        assert {n: d for n, d in objects(memory).items() if not n.endswith(".lock")} == expected, operation
    assert operation > 10


def _renoted(memory: Any) -> None:
    """The journals tell the ETags of their files: those of a store in memory are new with each put."""
    etags = {each["path"]: each["e_tag"].strip('"') for each in obstore.list_with_delimiter(memory)["objects"]}
    for name, data in objects(memory).items():
        if name.endswith("-journal"):
            lines = [json.loads(line) for line in data.splitlines()]
            for line in lines:
                if "object" in line:
                    line["etag"] = etags[line["object"]]
            obstore.put(memory, name, "".join(json.dumps(line) + "\n" for line in lines).encode())


@pytest.mark.parametrize("kind", ["float", "native", "threshold"])
def test_an_export_that_was_stopped_goes_on_in_the_store(kind: str, memory: Any, source: Path) -> None:
    options = {**GIVEN, **KINDS[kind]}
    expected = whole_of(source, options)
    for _ in range(3):
        with pytest.raises(StopError):
            geotfr.export_image(source, OUT, resume=True, progress=stopping(30_000), **options)
        assert all(name.startswith(".") for name in objects(memory))
    told = geotfr.export_image(source, OUT, resume=True, **options)
    assert told.shards_resumed > 3
    assert objects(memory) == expected
    assert_refused(
        run("export", source, "-o", OUT, "--patch-dimensions", "8", "--resume", "--quiet"),
        14,
        "exists already",
        "--overwrite",
    )


def test_an_export_killed_at_any_request_goes_on_with_the_same_bytes(
    memory: Any, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**GIVEN, "max_file_size": 30_000}
    expected = whole_of(source, options)
    monkeypatch.setattr(lock, "is_gone", lambda _: True)
    for operation in range(1, 1000):
        for name in objects(memory):
            obstore.delete(memory, name)
        with monkeypatch.context() as patched:
            crashes = Crashes(patched, operation)
            with contextlib.suppress(BaseException):
                geotfr.export_image(source, OUT, resume=True, **options)
            is_over = crashes.left > 0
        there = {name: data for name, data in objects(memory).items() if not name.startswith(".")}
        assert "set-manifest.json" not in there or there == expected
        if is_over:
            break
        try:
            geotfr.export_image(source, OUT, resume=True, **options)
        except OutputExistsError:
            assert there == expected
        assert {n: d for n, d in objects(memory).items() if not n.startswith(".")} == expected, operation
    assert operation > 10


def test_a_store_that_fails_is_told_once_and_a_later_run_completes(
    memory: Any, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = whole_of(source, GIVEN)
    with monkeypatch.context() as broken:
        failing(broken, "put", lambda name: name.endswith("00003.tmp"))
        with pytest.raises(OutputError, match=r"s3://bucket/\.geotfr-.*503"):
            part(source, 0, 2, resume=True, **GIVEN)
    assert part(source, 0, 2, resume=True, **GIVEN).files_resumed == 3
    part(source, 1, 2, **GIVEN)
    with monkeypatch.context() as broken:
        failing(broken, "copy", lambda name: name == "set-00005.tfrecord.gz")
        with pytest.raises(OutputError, match=r"s3://bucket/set-00005.tfrecord.gz: .*503"):
            geotfr.finalize_export(OUT)
    assert "set-manifest.json" not in objects(memory)
    geotfr.finalize_export(OUT)
    assert objects(memory) == expected


@pytest.mark.parametrize("kind", ["float", "native"])
def test_an_executor_stages_its_parts_in_the_store(kind: str, memory: Any, source: Path) -> None:
    options = {**GIVEN, **KINDS[kind]}
    expected = whole_of(source, options)
    with ThreadPoolExecutor(3) as pool:
        told = geotfr.export_image(source, OUT, executor=pool, **options)
        assert objects(memory) == expected
        assert {path.name for path in told.shards} < expected.keys()
        with pytest.raises(OutputExistsError):
            geotfr.export_image(source, OUT, executor=pool, **options)
        with pytest.raises(StopError):
            geotfr.export_image(source, OUT, executor=pool, overwrite=True, progress=stopping(20_000), **options)
        # What tasks of another's executor still do when the run has ended is hidden, and removed by the next.
        assert {name: data for name, data in objects(memory).items() if not name.startswith(".")} == expected
        with pytest.raises(StopError):
            geotfr.export_image(
                source, OUT, executor=pool, overwrite=True, resume=True, progress=stopping(20_000), **options
            )
        again = geotfr.export_image(source, OUT, executor=pool, overwrite=True, resume=True, **options)
        assert again.shards_resumed
    assert objects(memory) == expected


def test_a_large_shard_is_copied_through_this_machine(
    memory: Any, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = whole_of(source, GIVEN)
    for number in range(2):
        part(source, number, 2, **GIVEN)
    monkeypatch.setattr(store_module, "_MOST_COPIED", 100)
    failing(monkeypatch, "copy", lambda _: True)
    geotfr.finalize_export(OUT)
    assert objects(memory) == expected


@pytest.mark.parametrize("text", [b'{}\n{"facts": {}, "bytes": "x"}\n', b"[]\n", b"no JSON\n"])
def test_a_journal_of_other_make_is_told(memory: Any, source: Path, text: bytes) -> None:
    expected = whole_of(source, GIVEN)
    part(source, 0, 2, **GIVEN)
    (name,) = [name for name in objects(memory) if name.endswith("-journal")]
    obstore.put(memory, name, text)
    with pytest.raises(DamagedError, match="journal: line"):
        part(source, 0, 2, resume=True, **GIVEN)
    with pytest.raises(DamagedError, match="journal: line"):
        geotfr.finalize_export(OUT)
    for number in range(2):
        part(source, number, 2, **GIVEN)
    geotfr.finalize_export(OUT)
    assert objects(memory) == expected


def test_a_journal_names_no_objects_but_staged_ones(memory: Any, source: Path) -> None:
    part(source, 0, 2, **GIVEN)
    part(source, 1, 2, **GIVEN)
    obstore.put(memory, "secret.txt", b"of another's")
    (secret,) = [each for each in obstore.list_with_delimiter(memory)["objects"] if each["path"] == "secret.txt"]
    (name,) = [name for name in objects(memory) if name.endswith("part-1-of-2-journal")]
    lines = [json.loads(line) for line in objects(memory)[name].splitlines()]
    lines[1] |= {"object": "secret.txt", "etag": secret["e_tag"].strip('"'), "bytes": 12}
    obstore.put(memory, name, "".join(json.dumps(line) + "\n" for line in lines).encode())
    with pytest.raises(InputError, match="is gone; run its part again"):
        geotfr.finalize_export(OUT)
    assert objects(memory)["secret.txt"] == b"of another's"


def test_a_request_whose_first_answer_was_lost_is_no_other_process(
    memory: Any, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = whole_of(source, GIVEN)
    inner = obstore.put

    def twice(store: Any, name: str, data: Any, **options: Any) -> Any:
        if options.get("mode") is not None:
            inner(store, name, data, **options)
        return inner(store, name, data, **options)

    monkeypatch.setattr(obstore, "put", twice)
    monkeypatch.setattr(lock, "_RENEW_S", 0.001)
    for number in range(2):
        part(source, number, 2, **GIVEN)
    geotfr.finalize_export(OUT)
    assert objects(memory) == expected

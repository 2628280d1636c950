"""Sets are written and read in place, by a store in memory; tests/interop/cloud does the same to a server of S3."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pytest
from oracle.rasters import write_raster
from oracle.run import assert_refused, contents, run
from oracle.store import failing, make_set, objects

import geotfr
from geotfr.errors import InputError, LockedError, MissingInputError, OutputError, UsageError
from geotfr.storage.outputs import local_output
from geotfr.storage.remote import Store, StoreAddress, StoreLock, lock
from geotfr.storage.remote.staging import scratch_folder
from geotfr.stores import client
from geotfr.stores.file import FIRST_BYTES
from geotfr.stores.path import StorePath, any_path

EXPORT = ("--patch-dimensions", "16", "--max-file-size", "4000", "--no-compressed", "--quiet")


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    return make_set(tmp_path / "out", seed=1)


def own(scene: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(scene.parent).items() if name.startswith("scene")}


def export(scene: Path, *more: object) -> Any:
    return run("export", scene.parent / "source.tif", "--output", "s3://bucket/scene", *EXPORT, *more)


def test_an_export_has_the_bytes_of_a_local_one_and_is_read_where_it_is(memory: Any, scene: Path) -> None:
    result = geotfr.export_image(
        scene.parent / "source.tif", "s3://bucket/scene", patch_dimensions=16, compressed=False, max_file_size=4000
    )
    assert objects(memory) == own(scene)
    assert str(result.manifest) == "s3://bucket/scene-manifest.json"
    assert isinstance(result.shards[0], StorePath)
    assert geotfr.verify(result.manifest).is_good
    assert geotfr.verify("s3://bucket").records == 16
    assert geotfr.read_mixer(str(result.mixer)) == geotfr.read_mixer(f"{scene}-mixer.json")
    stored, local = geotfr.PatchDataset(str(result.mixer)), geotfr.PatchDataset(f"{scene}-mixer.json")
    np.testing.assert_array_equal(stored[9]["b1"], local[9]["b1"])


def test_a_set_is_replaced_on_request_alone_and_what_it_had_more_goes(memory: Any, scene: Path) -> None:
    assert export(scene).code == 0
    before = objects(memory)
    assert_refused(export(scene), 14, "s3://bucket/scene-", "exists already", "--overwrite")
    assert objects(memory) == before
    assert export(scene, "--max-file-size", "9000", "--overwrite").code == 0
    assert len(objects(memory)) < len(before)
    assert geotfr.verify("s3://bucket/scene-manifest.json").is_good
    assert export(scene, "--overwrite").code == 0
    assert objects(memory) == before


def test_shards_replaced_in_a_store_lose_their_index(memory: Any, scene: Path) -> None:
    assert export(scene).code == 0
    assert len(geotfr.PatchDataset("s3://bucket/scene-manifest.json")) == 16
    assert any(name.endswith(".idx") for name in objects(memory))
    assert export(scene, "--max-file-size", "9000", "--overwrite").code == 0
    assert not [name for name in objects(memory) if name.endswith(".idx")]
    assert len(geotfr.PatchDataset("s3://bucket/scene-manifest.json")) == 16


def test_a_run_that_breaks_is_completed_by_the_next(memory: Any, scene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        failing(broken, "put", lambda name: name == "scene-00002.tfrecord")
        assert_refused(export(scene), 14, "s3://bucket/scene-00002.tfrecord", "503")
    assert objects(memory).keys() == {"scene-00000.tfrecord", "scene-00001.tfrecord"}
    # Other options make other shards: what is there isn't mixed with them.
    assert_refused(export(scene, "--kernel-size", "4"), 14, "other bytes", "--overwrite")
    assert export(scene).code == 0
    assert objects(memory) == own(scene)


def test_one_writer_at_a_time(memory: Any, scene: Path) -> None:
    with StoreLock(Store(StoreAddress.of_folder("s3://bucket")), StorePath("s3://bucket/scene")):
        assert_refused(export(scene), 11, "is writing this set")
    assert export(scene).code == 0


def test_a_lock_is_renewed_while_its_owner_works_and_lost_to_who_took_it(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_RENEW_S", 0.001)
    store = Store(StoreAddress.of_folder("s3://bucket"))
    with StoreLock(store, Path("scene")) as held:
        (name,) = objects(memory)
        first = objects(memory)[name]
        while objects(memory)[name] == first:
            pass
        obstore.put(memory, name, b"{}")
        with pytest.raises(LockedError, match="took over"):
            held.renew(at_once=True)
    assert objects(memory) == {name: b"{}"}


def test_a_raster_and_what_lies_beside_it(memory: Any, scene: Path, tmp_path: Path) -> None:
    (tmp_path / "classes.csv").write_text("0,low,#ff0000\n1,high,#00ff00\n")
    shards = sorted(scene.parent.glob("*.tfrecord"))
    given = ("ingest-predictions", f"{scene}-mixer.json", *shards, "--threshold", "0.5", "--quiet")
    classes = ("--classes", tmp_path / "classes.csv")
    assert run(*given, *classes, "--output", "s3://bucket/m.tif").code == 0
    assert run(*given, *classes, "--output", tmp_path / "m.tif").code == 0
    names = ("m.qml", "m.tif", "m.tif.aux.xml")
    assert objects(memory) == {name: (tmp_path / name).read_bytes() for name in names}
    assert_refused(run(*given, "--output", "s3://bucket/m.tif"), 14, "s3://bucket/m.tif", "exists already")
    # Without classes the side files go.
    assert run(*given, "--output", "s3://bucket/m.tif", "--overwrite").code == 0
    assert objects(memory).keys() == {"m.tif"}
    # A style of the user's own is neither removed nor replaced without a word.
    obstore.put(memory, "m.qml", b"<qgis/>")
    assert run(*given, "--output", "s3://bucket/m.tif", "--overwrite").code == 0
    obstore.delete(memory, "m.tif")
    assert_refused(run(*given, *classes, "--output", "s3://bucket/m.tif"), 14, "m.qml", "--overwrite")
    assert objects(memory) == {"m.qml": b"<qgis/>"}


def test_what_fails_is_told_by_its_address_and_leaves_nothing(memory: Any, tmp_path: Path) -> None:
    def write() -> None:
        with local_output(any_path("s3://bucket/a.bin"), overwrite=False) as path:
            path.write_bytes(b"abc")
            raise InputError(f"{path}: broken")

    with pytest.raises(InputError, match=r"s3://bucket/a\.bin: broken"):
        write()
    assert objects(memory) == {}
    with pytest.raises(OutputError, match="is a bucket"):
        geotfr.write_mixer("s3://bucket", geotfr.read_mixer(f"{make_set(tmp_path / 'o', seed=1)}-mixer.json"))


def test_single_files_are_written_whole(memory: Any, scene: Path, tmp_path: Path) -> None:
    mixer = geotfr.read_mixer(f"{scene}-mixer.json")
    geotfr.write_mixer("s3://bucket/m.json", mixer)
    assert objects(memory)["m.json"] == Path(f"{scene}-mixer.json").read_bytes()
    written = geotfr.write_examples("s3://bucket/t.tfrecord", [{"a": 1}, {"a": 2}], records_per_shard=1)
    assert [str(path) for path in written.paths] == [f"s3://bucket/t-{number:05d}.tfrecord" for number in (0, 1)]
    (tmp_path / "p.csv").write_text("x,y,name\n1,2,a\n3,4,b\n")
    assert run("export-table", tmp_path / "p.csv", "--output", "s3://bucket/p", "--quiet").code == 0
    outcome = run("ingest-table", "s3://bucket/p.tfrecord.gz", "--output", "s3://bucket/p.gpkg", "--quiet")
    assert outcome.code == 0, outcome.told
    assert objects(memory)["p.gpkg"].startswith(b"SQLite format 3")


def test_a_file_is_read_in_growing_blocks_and_anywhere(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.random.default_rng(1).bytes(9 * FIRST_BYTES + 5)
    obstore.put(memory, "a/b.bin", data)
    asked: list[tuple[int, int]] = []
    inner = client.StoreClient.read_range

    def counting(self: client.StoreClient, name: str, start: int, stop: int, *, etag: str = "") -> bytes:
        asked.append((start, stop))
        return inner(self, name, start, stop, etag=etag)

    monkeypatch.setattr(client.StoreClient, "read_range", counting)
    path = any_path("s3://bucket/a/b.bin")
    with path.open("rb") as file:
        assert file.read(10) == data[:10]
        assert asked == [(0, FIRST_BYTES)]
        assert file.read() == data[10:]
        assert file.read(1) == b""
        file.seek(3)
        assert file.read(3) == data[3:6]
        file.seek(-4, 2)
        assert file.read() == data[-4:]
        file.seek(-4, 1)
        assert file.tell() == len(data) - 4
    assert asked[:4] == [
        (0, FIRST_BYTES),
        *((n * FIRST_BYTES, min(2 * n * FIRST_BYTES + FIRST_BYTES, len(data))) for n in (1, 3, 7)),
    ]
    assert path.read_bytes() == data
    with pytest.raises(OSError, match="opened for reading"):
        path.open("w")
    assert [(str(each), each.is_dir()) for each in any_path("s3://bucket").iterdir()] == [("s3://bucket/a", True)]
    assert [each.name for each in any_path("s3://bucket/a").glob("*.bin")] == ["b.bin"]
    assert any_path("s3://bucket").is_dir()
    assert not any_path("s3://bucket").is_file()
    assert not any_path("s3://bucket/c").exists()
    assert not path.is_symlink()
    with pytest.raises(MissingInputError, match="s3://bucket/c: no such object"):
        any_path("s3://bucket/c").stat()
    with pytest.raises(InputError, match="lists no files"):
        list(any_path("https://host/a").iterdir())


@pytest.mark.parametrize("text", ["", "12", "0.5"])
def test_how_long_requests_are_repeated_is_told_by_the_environment(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("GEOTFR_RETRY_SECONDS", text)
    assert client.retry_seconds() == float(text or 120)
    for wrong in ("soon", "-1", "inf", "nan"):
        monkeypatch.setenv("GEOTFR_RETRY_SECONDS", wrong)
        with pytest.raises(UsageError, match="GEOTFR_RETRY_SECONDS"):
            client.retry_seconds()


def test_a_model_reads_and_writes_sets_and_maps_in_place(memory: Any, scene: Path, tmp_path: Path) -> None:
    def model(batch: np.ndarray) -> np.ndarray:
        return batch[:, 0] * 2

    assert export(scene).code == 0
    for source, to in ((f"{scene}-mixer.json", str(tmp_path)), ("s3://bucket/scene-mixer.json", "s3://bucket")):
        geotfr.predict(model, source, f"{to}/p")
        geotfr.predict(model, source, f"{to}/p.tif")
    found = objects(memory)
    made = {name: data for name, data in contents(tmp_path).items() if name.startswith("p")}
    assert len(made) == 4
    assert {name: found[name] for name in made} == made


def test_samples_go_to_a_table_and_to_records(memory: Any, scene: Path, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("x,y\n500015,4200000\n500100,4199900\n")
    given = ("sample", scene.parent / "source.tif", "--points", tmp_path / "p.csv", "--x", "x", "--y", "y")
    for name in ("s.csv", "s"):
        for to in (str(tmp_path), "s3://bucket"):
            outcome = run(*given, "--crs", "EPSG:32618", "--output", f"{to}/{name}", "--quiet")
            assert outcome.code == 0, outcome.told
    for name, data in objects(memory).items():
        assert data == (tmp_path / name).read_bytes()
    assert "s.csv" in objects(memory)


def test_a_forked_process_says_so_and_does_not_wait(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.client_of("s3://bucket").head("x") is None
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(UsageError, match=r"forked .* 'spawn'"):
        client.client_of("s3://bucket")


@pytest.mark.parametrize("compressed", [True, False])
def test_verify_asks_for_the_bytes_of_a_shard_once(
    memory: Any, scene: Path, monkeypatch: pytest.MonkeyPatch, compressed: bool
) -> None:
    values = np.random.default_rng(3).random((1, 2560, 2560), np.float32)
    source = write_raster(scene.parent / "large.tif", values)
    result = geotfr.export_image(source, "s3://bucket/v", patch_dimensions=64, compressed=compressed)
    (shard,) = result.shards
    asked: list[tuple[int, int]] = []
    inner = client.StoreClient.read_range

    def counting(self: client.StoreClient, name: str, start: int, stop: int, *, etag: str = "") -> bytes:
        if name == shard.name:
            asked.append((start, stop))
        return inner(self, name, start, stop, etag=etag)

    monkeypatch.setattr(client.StoreClient, "read_range", counting)
    assert geotfr.verify(result.manifest).is_good
    # Its beginning is asked for once more, to know what the records are.
    assert result.size_bytes <= sum(stop - start for start, stop in asked) < 1.5 * result.size_bytes
    data = bytearray(objects(memory)[shard.name])
    data[-30] ^= 1
    obstore.put(memory, shard.name, bytes(data))
    assert any("CRC32C of the file" in fault.problem for fault in geotfr.verify(result.manifest).faults)


@pytest.mark.parametrize("left", ["scene-00099.tfrecord", "scene.tfrecord", "scene-00001.tfrecord"])
def test_what_an_older_set_left_is_found_before_the_work(
    memory: Any, scene: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    obstore.put(memory, left, b"of other options")
    with monkeypatch.context() as patched:
        patched.setattr(
            "geotfr.pipeline.export.run.ExportJob.write_records", lambda *_: pytest.fail("a pixel was read")
        )
        assert_refused(export(scene), 14, f"s3://bucket/{left}", "not of it", "--overwrite")
    assert objects(memory).keys() == {left}
    assert export(scene, "--overwrite").code == 0
    assert objects(memory) == own(scene)


def test_the_plan_tells_the_space_that_this_machine_needs(memory: Any, scene: Path, tmp_path: Path) -> None:
    def scratch(*more: object, output: str = "s3://bucket/scene") -> Any:
        told = run("export", scene.parent / "source.tif", "--output", output, *EXPORT, "--dry-run", "--json", *more)
        return json.loads(told.stdout)

    whole = scratch()
    assert whole["scratch"] == {"folder": str(tmp_path / "scratch"), "bytes": whole["bytes_uncompressed"]}
    a_shard = whole["records_per_shard"] * whole["record_bytes"]
    assert scratch("--resume")["scratch"]["bytes"] == scratch("--split", "0/2")["scratch"]["bytes"] == 3 * a_shard
    assert scratch(output=str(tmp_path / "scene"))["scratch"] is None
    told = run("export", scene.parent / "source.tif", "--output", "s3://bucket/scene", *EXPORT[:-1], "--dry-run").stdout
    assert f"in {tmp_path / 'scratch'} (TMPDIR) before it is sent" in told
    seen: list[Any] = []
    geotfr.export_image(
        scene.parent / "source.tif", "s3://bucket/p", patch_dimensions=16, on_plan=seen.append, resume=True
    )
    assert seen[0].scratch.bytes == seen[0].total_bytes


def test_what_a_killed_run_left_is_removed_by_the_next_of_the_same_output(
    memory: Any, scene: Path, tmp_path: Path
) -> None:
    with scratch_folder(StorePath("s3://bucket"), StorePath("s3://bucket/scene")) as living:
        (living / "a.tmp").touch()
        dead = [living.with_name(f"{living.name[:-3]}{number}") for number in range(2)]
        for folder in dead:
            folder.mkdir()
            (folder / "b.tmp").touch()
        other = living.with_name("geotfr-of-another")
        other.mkdir()
        assert export(scene).code == 0
        assert (living / "a.tmp").exists()
        assert not any(folder.exists() for folder in dead)
    other.rmdir()


def test_where_there_are_no_locks_no_folder_is_taken_for_a_dead_run_s(
    memory: Any, scene: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr("geotfr.storage.remote.staging.fcntl.flock", unsupported)
    with scratch_folder(StorePath("s3://bucket"), StorePath("s3://bucket/scene")) as living:
        with scratch_folder(StorePath("s3://bucket"), StorePath("s3://bucket/scene")) as other:
            assert other != living
        assert living.exists()


def test_a_system_without_locks_sends_too(memory: Any, scene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("geotfr.storage.remote.staging._HAS_LOCKS", False)
    assert export(scene).code == 0
    assert objects(memory) == own(scene)

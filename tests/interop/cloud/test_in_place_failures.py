"""Work on sets in a store that fails: one clear line, nothing that looks whole, and a later run completes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from oracle.rasters import write_raster
from oracle.run import Outcome, assert_refused, contents, run
from oracle.store import Fault, Shop

import geotfr
from geotfr.storage.outputs import local_output
from geotfr.storage.remote import Store, StoreAddress, StoreLock
from geotfr.stores.path import StorePath

pytestmark = pytest.mark.interop

OUT = "s3://sets/a/scene"


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where outputs are made before they are sent."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("GEOTFR_RETRY_SECONDS", "0.3")
    return folder


def export(scene: Path, *more: object, output: str = OUT) -> Outcome:
    given = ("--patch-dimensions", "16", "--max-file-size", "4000", "--no-compressed", "--quiet")
    return run("export", scene.parent / "source.tif", "--output", output, *given, *more)


def own(scene: Path) -> dict[str, bytes]:
    return {f"a/{name}": data for name, data in contents(scene.parent).items() if name.startswith("scene")}


def map_command(scene: Path, output: str) -> tuple[object, ...]:
    return ("ingest-predictions", f"{scene}-mixer.json", *sorted(scene.parent.glob("*.tfrecord")), "--output", output)


def test_without_credentials_the_variables_are_named(
    shop: Shop, scene: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    assert_refused(export(scene), 14, "no credentials", "AWS_ACCESS_KEY_ID")
    assert_refused(run(*map_command(scene, "s3://sets/m.tif")), 14, "no credentials", "AWS_ACCESS_KEY_ID")
    for command in ("verify", "inspect", "stats"):
        assert_refused(run(command, "s3://sets/a/scene-00000.tfrecord"), 10, "no credentials", "AWS_ACCESS_KEY_ID")
    assert list(scratch.iterdir()) == []


def test_a_bucket_that_is_not_there_is_told_before_any_work(shop: Shop, scene: Path, scratch: Path) -> None:
    assert_refused(export(scene, output="s3://elsewhere/a/scene"), 14, "s3://elsewhere/a", "bucket isn't there")
    assert_refused(run(*map_command(scene, "s3://elsewhere/m.tif")), 14, "s3://elsewhere", "bucket isn't there")
    assert_refused(run("verify", "s3://elsewhere/a/scene-manifest.json"), 10, "s3://elsewhere", "bucket isn't there")
    assert_refused(run("verify", "s3://sets/none-manifest.json"), 10, "s3://sets/none-manifest.json", "no such")
    assert shop.objects() == {}
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("fault", [503, "cut"])
def test_a_storm_while_it_is_sent_leaves_shards_and_the_next_run_completes(
    shop: Shop, scene: Path, scratch: Path, fault: int
) -> None:
    shop.fault = lambda request: fault if request.startswith("PUT") and "scene-00002" in request else None
    assert_refused(export(scene), 14, "s3://sets/a/scene-00002.tfrecord", "run again")
    there = shop.objects()
    assert there.keys() == {"a/scene-00000.tfrecord", "a/scene-00001.tfrecord"}
    assert all(own(scene)[key] == data for key, data in there.items())
    assert list(scratch.iterdir()) == []
    shop.fault = None
    shop.asked.clear()
    assert export(scene).code == 0
    assert shop.objects() == own(scene)
    # What had arrived isn't sent again.
    assert shop.sent()[0] == "scene-00002.tfrecord"


def test_an_upload_cut_in_its_parts_appears_nowhere_and_the_next_run_completes(
    shop: Shop, scene: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("geotfr.storage.remote.digest.PART_BYTES", 5 << 20)
    raster = scene.parent / "big.tif"
    write_raster(raster, np.random.default_rng(5).random((1, 1664, 1664), np.float32))
    words = ("export", raster, "--output", OUT, "--patch-dimensions", "128", "--no-compressed", "--quiet")
    shop.fault = lambda request: "cut" if "partNumber=2" in request else None
    assert_refused(run(*words), 14, "s3://sets/a/scene.tfrecord", "run again")
    assert shop.objects() == {}
    shop.fault = None
    assert run(*words).code == 0
    assert geotfr.verify("s3://sets/a/scene-manifest.json").is_good
    assert shop.unfinished() == 0


@pytest.mark.parametrize("fault", [503, "cut"])
def test_a_part_of_an_upload_that_fails_is_sent_again_by_itself(
    shop: Shop, scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    monkeypatch.setattr("geotfr.storage.remote.digest.PART_BYTES", 5 << 20)
    monkeypatch.setenv("GEOTFR_RETRY_SECONDS", "30")
    data = np.random.default_rng(5).bytes(12 << 20)
    tried: list[str] = []

    def failing(request: str) -> Fault:
        if "partNumber=" not in request:
            return None
        tried.append(request.partition("partNumber=")[2][0])
        return fault if tried[-1] == "2" and tried.count("2") <= 2 else None

    shop.fault = failing
    with local_output(StorePath("s3://sets/a/big.bin"), overwrite=False) as path:
        path.write_bytes(data)
    assert sorted(tried) == ["1", "2", "2", "2", "3"]
    assert shop.objects() == {"a/big.bin": data}
    assert shop.unfinished() == 0


@pytest.mark.parametrize("status", [503, "cut"])
def test_a_storm_while_it_is_read_is_told(shop: Shop, scene: Path, status: int) -> None:
    geotfr.push_set(scene, "s3://sets/a")
    shop.fault = lambda request: status if request.startswith("GET") and "scene-00001" in request else None
    assert_refused(
        run("inspect", "s3://sets/a/scene-manifest.json"), 10, "s3://sets/a/scene-00001.tfrecord", "run again"
    )
    shop.fault = None
    assert run("inspect", "s3://sets/a/scene-manifest.json").code == 0


def test_a_set_that_is_there_is_replaced_on_request_alone(shop: Shop, scene: Path) -> None:
    assert export(scene).code == 0
    before = shop.objects()
    assert_refused(export(scene, "--kernel-size", "4"), 14, "s3://sets/a/scene-", "exists already", "--overwrite")
    assert shop.objects() == before
    # A run that breaks while it replaces the set leaves none that looks whole.
    shop.fault = lambda request: 503 if request.startswith("PUT") and "scene-00001" in request else None
    assert export(scene, "--kernel-size", "4", "--overwrite").code == 14
    assert not [key for key in shop.objects() if key.endswith(".json")]
    shop.fault = None
    # Shards without a manifest are the rest of a run: other bytes still need the flag.
    assert_refused(export(scene), 14, "--overwrite")
    assert export(scene, "--overwrite").code == 0
    assert shop.objects() == before


def test_the_second_of_two_writers_leaves_with_11_before_any_work(shop: Shop, scene: Path) -> None:
    store = Store(StoreAddress.of_folder("s3://sets/a"))
    with StoreLock(store, StorePath("s3://sets/a/scene")):
        assert_refused(export(scene), 11, "is writing this set", "process")
        assert shop.sent() == []
        # Another set of the folder isn't locked.
        assert export(scene, output="s3://sets/a/other").code == 0
    assert export(scene).code == 0
    with StoreLock(Store(StoreAddress.of_folder("s3://sets")), StorePath("s3://sets/m.tif")):
        assert_refused(run(*map_command(scene, "s3://sets/m.tif")), 11, "is writing")
    assert not [key for key in shop.objects() if key.endswith(".lock")]


def test_an_object_replaced_while_a_data_set_reads_it_is_told(shop: Shop, scene: Path, tmp_path: Path) -> None:
    geotfr.push_set(scene, "s3://sets/a")
    patches = geotfr.PatchDataset("s3://sets/a/scene-mixer.json", index_folder=tmp_path / "index")
    first = patches[0]
    assert first
    shop.put("a/scene-00000.tfrecord", b"x" * len(own(scene)["a/scene-00000.tfrecord"]))
    with pytest.raises(geotfr.errors.InputError, match="changed it meanwhile"):
        patches[0]

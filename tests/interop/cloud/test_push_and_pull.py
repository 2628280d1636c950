"""Sets go to an S3 server and come back whole: only what is lacking is sent, in order, and checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from oracle.rasters import NORTH_UP, numbered, write_raster
from oracle.run import assert_refused, contents, run
from oracle.store import Shop, make_set

import geotfr

pytestmark = pytest.mark.interop


def files(scene: Path) -> dict[str, bytes]:
    """The files of the set, without its source."""
    return {name: data for name, data in contents(scene.parent).items() if name.startswith("scene")}


def test_a_set_arrives_with_the_same_bytes_shards_first_and_manifest_last(shop: Shop, scene: Path) -> None:
    result = geotfr.push_set(scene, "s3://sets/a/b")
    own = files(scene)
    assert shop.objects() == {f"a/b/{name}": data for name, data in own.items()}
    sent = shop.sent()
    assert len(own) >= 5
    assert sorted(sent) == sorted(own)
    assert sent[:-2] == sorted(name for name in own if name.endswith(".tfrecord"))
    assert sent[-2:] == ["scene-mixer.json", "scene-manifest.json"]
    assert result.uploaded == tuple(sent)
    assert result.uploaded_bytes == sum(map(len, own.values()))


def test_a_pushed_set_comes_back_and_verifies(shop: Shop, scene: Path, tmp_path: Path) -> None:
    geotfr.push_set(scene, "s3://sets/a")
    outcome = run("pull", "s3://sets/a/scene", tmp_path / "back", "--json")
    assert outcome.code == 0, outcome.told
    assert contents(tmp_path / "back") == files(scene)
    assert [Path(path).name for path in json.loads(outcome.stdout)["files"]][-1] == "scene-manifest.json"
    assert geotfr.verify(tmp_path / "back" / "scene-manifest.json").is_good
    # The originals, and the sets of other names beside it, are left alone.
    assert_refused(run("pull", "s3://sets/a/scene", tmp_path / "back"), 14, "exists already", "--overwrite")
    assert run("pull", "s3://sets/a/scene", tmp_path / "back", "--overwrite").code == 0
    assert contents(tmp_path / "back") == files(scene)


def test_what_is_there_with_the_same_bytes_is_not_sent_again(shop: Shop, scene: Path) -> None:
    geotfr.push_set(scene, "s3://sets/a")
    shop.asked.clear()
    again = geotfr.push_set(scene, "s3://sets/a")
    assert shop.sent() == []
    assert (again.uploaded, set(again.kept)) == ((), set(files(scene)))
    # One is lost: that one alone is sent.
    assert shop.request("DELETE", "/sets/a/scene-00001.tfrecord")[0] == 204
    assert geotfr.push_set(scene, "s3://sets/a").uploaded == ("scene-00001.tfrecord",)


def test_another_set_is_replaced_only_on_request_and_never_looks_whole_meanwhile(
    shop: Shop, scene: Path, tmp_path: Path
) -> None:
    geotfr.push_set(scene, "s3://sets/a")
    shop.put("a/other.json", b"{}")
    before = shop.objects()
    other = make_set(tmp_path / "other", seed=2, max_file_size=9000)
    assert_refused(run("push", other, "s3://sets/a"), 14, "s3://sets/a/scene", "--overwrite")
    assert shop.objects() == before
    told = json.loads(run("push", other, "s3://sets/a", "--overwrite", "--dry-run", "--json").stdout)
    assert shop.objects() == before
    shop.asked.clear()
    told_whole = []

    def watch(request: str) -> None:
        if request.startswith("PUT") and request.endswith(".tfrecord"):
            told_whole.append(bool({"a/scene-manifest.json", "a/scene-mixer.json"} & shop.objects().keys()))

    shop.fault = watch
    result = geotfr.push_set(other, "s3://sets/a", overwrite=True)
    assert (told["uploaded"], told["removed"]) == (list(result.uploaded), list(result.removed))
    assert told_whole
    assert not any(told_whole), "a shard was replaced beside the old mixer or manifest"
    assert shop.sent()[-1] == "scene-manifest.json"
    assert {f"a/{name}": data for name, data in files(other).items()} | {"a/other.json": b"{}"} == shop.objects()


def test_a_large_shard_goes_in_parts_and_is_recognised_again(shop: Shop, tmp_path: Path) -> None:
    scene = make_set(tmp_path / "large", seed=3, side=1536, patch=512, max_file_size="1GiB")
    assert (tmp_path / "large" / "scene.tfrecord").stat().st_size > 8 << 20
    geotfr.push_set(scene, "s3://sets")
    parts = [path for method, path in shop.asked if method == "PUT" and "partNumber=" in path]
    assert len(parts) == 2
    assert shop.objects() == files(scene)
    assert geotfr.push_set(scene, "s3://sets").uploaded == ()
    geotfr.pull_set("s3://sets/scene", tmp_path / "back")
    assert contents(tmp_path / "back") == files(scene)


def test_an_object_with_an_etag_of_other_making_is_compared_by_its_bytes(shop: Shop, tmp_path: Path) -> None:
    scene = make_set(tmp_path / "large", seed=3, side=1536, patch=512, max_file_size="1GiB")
    # In one piece, as another tool may send it: its ETag is the MD5 of the whole.
    shop.put("scene.tfrecord", files(scene)["scene.tfrecord"])
    result = geotfr.push_set(scene, "s3://sets")
    assert result.kept == ("scene.tfrecord",)


def test_a_set_without_manifest_and_names_of_a_folder(shop: Shop, tmp_path: Path) -> None:
    scene = make_set(tmp_path / "out", seed=1)
    (tmp_path / "out" / "scene-manifest.json").unlink()
    geotfr.push_set(scene, "s3://sets/ee/")
    assert shop.sent()[-1] == "scene-mixer.json"
    geotfr.pull_set("s3://sets/ee/scene", tmp_path / "back")
    assert contents(tmp_path / "back") == files(scene)


def test_a_damaged_or_missing_shard_is_not_sent(shop: Shop, scene: Path) -> None:
    shard = scene.parent / "scene-00001.tfrecord"
    data = bytearray(shard.read_bytes())
    data[100] ^= 1
    shard.write_bytes(data)
    assert_refused(run("push", scene, "s3://sets/a"), 12, "scene-00001.tfrecord", "the manifest says")
    assert "scene-00001.tfrecord" not in shop.sent()
    assert not [key for key in shop.objects() if key.endswith(".json")]
    shard.unlink()
    assert_refused(run("push", scene, "s3://sets/a"), 12, "scene-00001.tfrecord", "not there")


def test_damage_in_the_store_is_told_by_a_pull_and_leaves_nothing(shop: Shop, scene: Path, tmp_path: Path) -> None:
    geotfr.push_set(scene, "s3://sets/a")
    data = bytearray(shop.objects()["a/scene-00001.tfrecord"])
    data[100] ^= 1
    shop.put("a/scene-00001.tfrecord", bytes(data))
    outcome = run("pull", "s3://sets/a/scene", tmp_path / "back")
    assert_refused(outcome, 12, "s3://sets/a/scene-00001.tfrecord", "the manifest says")
    assert not (tmp_path / "back").exists()
    shop.request("DELETE", "/sets/a/scene-00001.tfrecord")
    assert_refused(run("pull", "s3://sets/a/scene", tmp_path / "back"), 10, "scene-00001.tfrecord", "not there")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("out/there", "s3://"),
        ("https://example.org/x", "s3://"),
        ("s3://", "bucket"),
        ("s3://key:secret@sets/x", "environment"),
        ("az://c/x?sig=secret", "environment"),
        ("s3://sets/../x", "bucket"),
    ],
)
def test_an_address_that_is_none_is_a_usage_error_and_keys_are_not_repeated(
    address: str, words: str, scene: Path
) -> None:
    outcome = run("push", scene, address)
    assert_refused(outcome, 2, words)
    assert "secret" not in outcome.told


def collection(folder: Path, *names: str) -> Path:
    """A collection of small rasters that share shards; its prefix."""
    pytest.importorskip("pyarrow")
    (folder / "in").mkdir(exist_ok=True)
    (folder / "sets").mkdir(exist_ok=True)
    for place, name in enumerate(names):
        corner = type(NORTH_UP)(10, 0, 500000 + 100 * place, 0, -10, 4000000)
        if not (folder / "in" / f"{name}.tif").exists():
            write_raster(folder / "in" / f"{name}.tif", numbered(1, 4, 6) + place, transform=corner)
    geotfr.export_collection(
        folder / "in", folder / "sets" / "all", shards="shared", patch_dimensions=2, max_file_size=200
    )
    return folder / "sets" / "all"


def test_a_collection_with_shared_shards_goes_with_the_files_of_its_rasters(shop: Shop, tmp_path: Path) -> None:
    prefix = collection(tmp_path, "a", "b")
    # A set of another prefix that begins as the collection's.
    geotfr.export_image(tmp_path / "in" / "a.tif", tmp_path / "sets" / "all-other", patch_dimensions=2)
    own = {name: data for name, data in contents(prefix.parent).items() if not name.startswith("all-other")}
    assert {"all-a-mixer.json", "all-b-manifest.json", "all-patches.parquet", "all-00000.tfrecord.gz"} < set(own)
    geotfr.push_set(prefix, "s3://sets/x")
    geotfr.push_set(tmp_path / "sets" / "all-other", "s3://sets/x")
    sent = shop.sent()
    assert sorted(sent[: len(own)]) == sorted(own)
    assert {*sent[len(own) - 2 : len(own)]} == {"all-a-manifest.json", "all-b-manifest.json"}
    geotfr.pull_set("s3://sets/x/all", tmp_path / "back")
    assert contents(tmp_path / "back") == own
    assert geotfr.verify(tmp_path / "back").is_good
    assert len(geotfr.PatchDataset(tmp_path / "back" / "all-b-manifest.json")) == 6
    # A raster more: shards that are there aren't sent again.
    collection(tmp_path, "a", "b", "c")
    more = run("push", prefix, "s3://sets/x", "--json", "--overwrite")
    assert more.code == 0, more.told
    uploaded = json.loads(more.stdout)["uploaded"]
    before = [name for name in own if name.endswith(".gz")]
    assert not set(before) & set(uploaded)
    assert {"all-c-manifest.json", "all-c-mixer.json", "all-patches.parquet"} < set(uploaded)
    geotfr.pull_set("s3://sets/x/all", tmp_path / "back", overwrite=True)
    assert {name: data for name, data in contents(tmp_path / "back").items() if ".gz." not in name} == {
        name: data for name, data in contents(prefix.parent).items() if not name.startswith("all-other")
    }

"""The commands work on sets where they are, in a store: the same bytes, values and pixels as on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import rasterio
from oracle.run import assert_refused, contents, run
from oracle.store import Shop, make_set

import geotfr

pytestmark = pytest.mark.interop

EXPORT = ("--patch-dimensions", "16", "--max-file-size", "4000")


def own(folder: Path, under: str = "a") -> dict[str, bytes]:
    """The local set's files by the keys that they have in the store."""
    return {f"{under}/{name}": data for name, data in contents(folder).items() if name.startswith("scene")}


@pytest.mark.parametrize(
    "options", [(), ("--no-compressed",), ("--max-file-size", "100MB")], ids=["gz", "plain", "one"]
)
def test_an_export_in_place_has_the_bytes_of_a_local_one_in_its_order(
    shop: Shop, scene: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    source = scene.parent / "source.tif"
    assert run("export", source, "--output", tmp_path / "local" / "scene", *EXPORT, *options).code == 14
    (tmp_path / "local").mkdir()
    assert run("export", source, "--output", tmp_path / "local" / "scene", *EXPORT, *options).code == 0
    outcome = run("export", source, "--output", "s3://sets/a/scene", "--json", *EXPORT, *options)
    assert outcome.code == 0, outcome.told
    assert shop.objects() == own(tmp_path / "local")
    sent = shop.sent()
    assert sent[-1] == "scene-manifest.json"
    assert sent[-2] == ("scene.json" if "100MB" in options else "scene-mixer.json")
    assert sorted(sent[:-2]) == sent[:-2]
    told = json.loads(outcome.stdout)
    assert told["manifest"] == "s3://sets/a/scene-manifest.json"
    assert [path.rpartition("/")[0] for path in told["shards"]] == ["s3://sets/a"] * len(told["shards"])
    assert shop.unfinished() == 0


def test_inputs_are_read_where_they_are(shop: Shop, scene: Path, tmp_path: Path) -> None:
    geotfr.push_set(scene, "s3://sets/a")
    for command in ("verify", "inspect", "stats"):
        local = json.loads(run(command, f"{scene}-manifest.json", "--json").stdout)
        outcome = run(command, "s3://sets/a/scene-manifest.json", "--json")
        assert outcome.code == 0, outcome.told
        assert json.loads(outcome.stdout.replace("s3://sets/a", str(scene.parent))) == local
    assert [bytes(each) for each in geotfr.read_records("s3://sets/a/scene-00000.tfrecord")] == list(
        geotfr.read_records(f"{scene}-00000.tfrecord")
    )
    assert geotfr.read_mixer("s3://sets/a/scene-mixer.json") == geotfr.read_mixer(f"{scene}-mixer.json")
    assert geotfr.read_manifest("s3://sets/a/scene-manifest.json") == geotfr.read_manifest(f"{scene}-manifest.json")


@pytest.mark.parametrize("compressed", [False, True])
def test_a_data_set_reads_ranges_of_what_is_in_the_store(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compressed: bool
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    scene = make_set(tmp_path / "out", seed=3, compressed=compressed)
    geotfr.push_set(scene, "s3://sets/a")
    local = geotfr.PatchDataset(f"{scene}-mixer.json")
    stored = geotfr.PatchDataset("s3://sets/a/scene-mixer.json")
    assert len(stored) == len(local) == 16
    for number in (15, 0, 7):
        for name, values in local[number].items():
            np.testing.assert_array_equal(stored[number][name], values)


def test_a_map_comes_out_of_the_store_and_goes_into_it(shop: Shop, scene: Path, tmp_path: Path) -> None:
    geotfr.push_set(scene, "s3://sets/a")
    geotfr.ingest_predictions(
        scene.parent / "scene-mixer.json", list(scene.parent.glob("*.tfrecord")), tmp_path / "m.tif"
    )
    shards = [f"s3://sets/a/{path.name}" for path in sorted(scene.parent.glob("*.tfrecord"))]
    outcome = run("ingest-predictions", "s3://sets/a/scene-mixer.json", *shards, "--output", "s3://sets/maps/m.tif")
    assert outcome.code == 0, outcome.told
    objects = shop.objects()
    assert objects["maps/m.tif"] == (tmp_path / "m.tif").read_bytes()
    assert [key for key in objects if key.startswith("maps/")] == ["maps/m.tif"]
    (tmp_path / "back.tif").write_bytes(objects["maps/m.tif"])
    with rasterio.open(tmp_path / "back.tif") as back, rasterio.open(scene.parent / "source.tif") as source:
        np.testing.assert_array_equal(back.read(), source.read())
    assert_refused(
        run("ingest-predictions", "s3://sets/a/scene-mixer.json", *shards, "--output", "s3://sets/maps/m.tif"),
        14,
        "s3://sets/maps/m.tif",
        "exists already",
        "--overwrite",
    )


def test_an_index_and_a_patch_table_are_written_beside_the_set_and_used(
    shop: Shop, scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    geotfr.push_set(scene, "s3://sets/a")
    shards = [path.name for path in sorted(scene.parent.glob("*.tfrecord"))]
    outcome = run("index", *(f"s3://sets/a/{name}" for name in shards))
    assert outcome.code == 0, outcome.told
    assert run("index", *(scene.parent / name for name in shards)).code == 0
    assert run("table", f"{scene}-manifest.json", "--quiet").code == 0
    outcome = run("table", "s3://sets/a/scene-manifest.json", "--quiet")
    assert outcome.code == 0, outcome.told
    objects = shop.objects()
    for name in (*(f"{name}.idx" for name in shards), "scene-patches.parquet"):
        assert objects[f"a/{name}"] == (scene.parent / name).read_bytes()
    shop.asked.clear()
    stored = geotfr.PatchDataset("s3://sets/a/scene-patches.parquet", where="mean_b1 > 0.5")
    local = geotfr.PatchDataset(f"{scene}-patches.parquet", where="mean_b1 > 0.5")
    assert 0 < len(stored) == len(local) < 16
    np.testing.assert_array_equal(stored[0]["b1"], local[0]["b1"])
    assert not (tmp_path / "cache").exists()


def test_a_stream_has_the_records_of_the_local_files(shop: Shop, scene: Path) -> None:
    geotfr.push_set(scene, "s3://sets/a")
    for source in ("scene-mixer.json", "scene-00001.tfrecord"):
        stored = list(geotfr.stream(f"s3://sets/a/{source}").shuffle(5, seed=1))
        local = list(geotfr.stream(scene.parent / source).shuffle(5, seed=1))
        assert len(stored) == len(local) > 0
        for one, other in zip(stored, local, strict=True):
            np.testing.assert_array_equal(one["b1"], other["b1"])


def test_tables_and_samples_go_into_the_store_and_come_back(shop: Shop, scene: Path, tmp_path: Path) -> None:
    (tmp_path / "points.csv").write_text("x,y,name\n500015,4200000,a\n500100,4199900,b\n")
    for where in (str(tmp_path / "t"), "s3://sets/t/t"):
        outcome = run("export-table", tmp_path / "points.csv", "--output", where, "--quiet")
        assert outcome.code == 0, outcome.told
    objects = shop.objects()
    for name in ("t.tfrecord.gz", "t-manifest.json"):
        assert objects[f"t/{name}"] == (tmp_path / name).read_bytes()
    outcome = run("ingest-table", "s3://sets/t/t.tfrecord.gz", "--output", "s3://sets/t/back.csv", "--quiet")
    assert outcome.code == 0, outcome.told
    assert run("ingest-table", tmp_path / "t.tfrecord.gz", "--output", tmp_path / "back.csv", "--quiet").code == 0
    assert shop.objects()["t/back.csv"] == (tmp_path / "back.csv").read_bytes()


def test_a_folder_of_a_store_is_one_too(shop: Shop, scene: Path, tmp_path: Path) -> None:
    geotfr.push_set(scene, "s3://sets/a")
    assert geotfr.verify("s3://sets/a").records == geotfr.verify(f"{scene}-manifest.json").records
    assert geotfr.verify("s3://sets/a/").is_good
    assert_refused(run("verify", "s3://sets/b"), 10, "s3://sets/b", "no such")
    outcome = run("ingest-predictions", "s3://sets/a", "--output", tmp_path / "m.tif", "--quiet")
    assert outcome.code == 0, outcome.told
    outcome = run("ingest-predictions", "s3://sets", "--each", "--output", "s3://sets/maps", "--quiet")
    assert outcome.code == 0, outcome.told
    assert shop.objects()["maps/a.tif"] == (tmp_path / "m.tif").read_bytes()
    outcome = run("ingest-predictions", "s3://sets", "--mosaic", "--output", "s3://sets/mosaic.tif", "--quiet")
    assert outcome.code == 0, outcome.told


def test_a_cog_with_classes_a_preview_and_an_upload_manifest(shop: Shop, scene: Path, tmp_path: Path) -> None:
    (tmp_path / "classes.csv").write_text("0,low,#ff0000\n1,high,#00ff00\n")
    geotfr.push_set(scene, "s3://sets/a")
    options = ("--threshold", "0.5", "--classes", tmp_path / "classes.csv", "--format", "cog", "--quiet")
    shards = sorted(path.name for path in scene.parent.glob("*.tfrecord"))
    for place, to in (("s3://sets/a", "s3://sets/m"), (str(scene.parent), str(tmp_path))):
        names = [f"{place}/{name}" for name in ("scene-mixer.json", *shards)]
        outcome = run("ingest-predictions", *names, "--output", f"{to}/m.tif", "--preview", f"{to}/m.png", *options)
        assert outcome.code == 0, outcome.told
    objects = shop.objects()
    for name in ("m.tif", "m.png", "m.tif.aux.xml", "m.qml"):
        assert objects[f"m/{name}"] == (tmp_path / name).read_bytes()


def test_a_map_made_by_processes_goes_into_the_store(shop: Shop, scene: Path, tmp_path: Path) -> None:
    geotfr.push_set(scene, "s3://sets/a")
    given = ("ingest-predictions", "s3://sets/a", "--quiet")
    assert run(*given, "--output", tmp_path / "m.tif").code == 0
    outcome = run(*given, "--output", "s3://sets/maps/m.tif", "--executor", "processes", "--workers", "2")
    assert outcome.code == 0, outcome.told
    assert shop.objects()["maps/m.tif"] == (tmp_path / "m.tif").read_bytes()

"""Collections whose rasters share shards: one run of records for each raster."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from catalog.test_collection import scenes
from oracle import wire
from oracle.rasters import NORTH_UP, numbered, read_raster, write_raster
from oracle.run import assert_refused, contents, run

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("pyarrow")
geopandas = pytest.importorskip("geopandas")

OPTIONS: dict[str, Any] = {"patch_dimensions": 2, "kernel_size": 3, "max_file_size": 400, "shards": "shared"}


def shared(tmp_path: Path, *names: str, **options: Any) -> geotfr.CollectionResult:
    """A collection of small rasters with shared shards of a few records each, at ``tmp_path / "out" / "all"``."""
    scenes(tmp_path / "in", *names)
    (tmp_path / "out").mkdir(exist_ok=True)
    return geotfr.export_collection(tmp_path / "in", tmp_path / "out" / "all", **{**OPTIONS, **options})


def payloads(path: Path) -> list[bytes]:
    return wire.unframe(wire.inflate(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())


def shards_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if re.fullmatch(r"all-\d{5}\.tfrecord(\.gz)?", path.name))


def alone(tmp_path: Path, name: str, **options: Any) -> list[bytes]:
    """The records of one raster exported on its own."""
    folder = tmp_path / f"alone-{name}"
    folder.mkdir()
    given = {key: value for key, value in {**OPTIONS, **options}.items() if key not in ("shards", "max_file_size")}
    geotfr.export_image(tmp_path / "in" / f"{name}.tif", folder / "x", **given)
    return [payload for path in sorted(folder.glob("x*.tfrecord*")) for payload in payloads(path)]


@pytest.mark.parametrize(
    "options",
    [{"compressed": False}, {}, {"compressor": "ee"}, {"max_file_size": 1}, {"max_file_size": "1GiB"}],
    ids=str,
)
def test_shards_are_filled_by_size_alone_and_a_manifest_tells_which_records_are_whose(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    result = shared(tmp_path, "a", "b", "c", **options)
    records = {name: alone(tmp_path, name, **options) for name in "abc"}
    limit = {"1GiB": 2**30}.get(options.get("max_file_size", 400), options.get("max_file_size", 400))
    wanted: list[list[bytes]] = []
    room = 0
    for record in [record for name in "abc" for record in records[name]]:
        size = len(record) + 16
        if not wanted or size > room:
            wanted.append([])
            room = limit
        wanted[-1].append(record)
        room -= size
    assert [payloads(path) for path in result.shards] == wanted
    assert result.shards == tuple(shards_of(tmp_path / "out"))
    everything = [record for shard in wanted for record in shard]
    starts = np.cumsum([0, *map(len, wanted)])
    for name in "abc":
        manifest = json.loads((tmp_path / "out" / f"all-{name}-manifest.json").read_text())
        first = manifest["collection"]["first_record"]
        assert everything[first : first + manifest["patches_written"]] == records[name]
        names = [path.name for path in result.shards]
        own = [names.index(shard["name"]) for shard in manifest["shards"]]
        assert first - starts[own[0]] == manifest["collection"]["first_in_shard"]
        assert starts[own[-1]] < first + len(records[name]) <= starts[own[-1] + 1]
        for number, told in zip(own, manifest["shards"], strict=True):
            content = result.shards[number].read_bytes()
            assert (told["records"], told["bytes"]) == (len(wanted[number]), len(content))
            assert told["crc32c"] == f"{wire.crc32c(content):08x}"


@pytest.mark.parametrize("options", [{"compressed": False}, {}, {"compressor": "ee"}], ids=str)
def test_the_tables_name_the_records(tmp_path: Path, options: dict[str, Any]) -> None:
    result = shared(tmp_path, "a", "b", "c", **options)
    whole = geopandas.read_parquet(result.table)
    assert whole["source"].tolist() == ["a.tif"] * 6 + ["b.tif"] * 9 + ["c.tif"] * 12
    for path in (result.table, tmp_path / "out" / "all-b-patches.parquet"):
        for row in geopandas.read_parquet(path).itertuples():
            content = (tmp_path / "out" / row.shard).read_bytes()
            data = wire.inflate(content) if row.shard.endswith(".gz") else content
            framed = data[row.offset : row.offset + row.length]
            assert wire.unframe(framed) == [payloads(tmp_path / "out" / row.shard)[row.record]]
            assert hashlib.sha256(framed[12:-4]).digest() == row.sha256
            if options == {}:
                at = row.offset - int(row.member_start)
                assert gzip.decompress(content[int(row.member) :])[at : at + row.length] == framed


def test_one_raster_is_read_out_of_the_shared_shards(tmp_path: Path) -> None:
    result = shared(tmp_path, "a", "b", "c", kernel_size=1)
    raster = numbered(1, 6, 6)[0] + 1000
    wanted = [raster[y : y + 2, x : x + 2] for y in (0, 2, 4) for x in (0, 2, 4)]
    for name in ("all-b-manifest.json", "all-b-mixer.json", "all-b-patches.parquet"):
        dataset = geotfr.PatchDataset(tmp_path / "out" / name, with_place=True)
        np.testing.assert_array_equal(dataset[:]["b1"], wanted)
        assert dataset[:]["number"].tolist() == list(range(9))
        assert dataset[4]["bounds"].tolist() == [500120, 3999960, 500140, 3999980]
    chosen = geotfr.PatchDataset(result.table, where="source = 'b.tif'")
    np.testing.assert_array_equal(chosen[:]["b1"], wanted)
    assert len(geotfr.PatchDataset(result.table)) == 27
    with pytest.raises(geotfr.UsageError, match=r"other rasters of the collection too; read one raster's with"):
        geotfr.stream(tmp_path / "out" / "all-b-manifest.json")


def test_predictions_of_one_raster_and_of_the_whole_collection_map_home(tmp_path: Path) -> None:
    result = shared(tmp_path, "a", "b", "c")
    dataset = geotfr.PatchDataset(result.table)
    predicted = [
        wire.example([("p", wire.float_feature((2 * item["b1"][1:3, 1:3]).ravel().tolist()))]) for item in dataset
    ]
    # Their shards are cut elsewhere than those that were exported.
    wire.write_shard(tmp_path / "p-0.tfrecord", predicted[:13])
    wire.write_shard(tmp_path / "p-1.tfrecord", predicted[13:16])
    wire.write_shard(tmp_path / "p-2.tfrecord", predicted[16:])
    wire.write_shard(tmp_path / "own.tfrecord", predicted[6:15])
    mixer = tmp_path / "out" / "all-b-mixer.json"
    given = [tmp_path / f"p-{number}.tfrecord" for number in range(3)]
    for place, (name, height) in enumerate({"a": 4, "b": 6, "c": 8}.items()):
        done = run(
            "ingest-predictions", tmp_path / "out" / f"all-{name}-mixer.json", *given, "--of-collection",
            "-o", tmp_path / f"{name}.tif", "-q", "--verify",
        )  # fmt: skip
        assert done.code == 0, done.told
        pixels, profile, _ = read_raster(tmp_path / f"{name}.tif")
        np.testing.assert_array_equal(pixels, 2 * (numbered(1, height, 6) + 1000 * place))
        assert profile["transform"].c == 500000 + 100 * place
    geotfr.ingest_predictions(mixer, tmp_path / "own.tfrecord", tmp_path / "own.tif")
    assert (tmp_path / "own.tif").read_bytes() == (tmp_path / "b.tif").read_bytes()
    assert_refused(
        run("ingest-predictions", mixer, *given, "-o", tmp_path / "x.tif"), 12, "one too many", "--of-collection"
    )
    few = run("ingest-predictions", mixer, given[0], "--of-collection", "-o", tmp_path / "x.tif")
    assert_refused(few, 12, "13 records", "expects 15")
    geotfr.export_image(tmp_path / "in" / "b.tif", tmp_path / "lone", patch_dimensions=2)
    lone = run("ingest-predictions", tmp_path / "lone.json", given[0], "--of-collection", "-o", tmp_path / "x.tif")
    assert_refused(lone, 2, "of_collection", "leave --of-collection")
    assert not (tmp_path / "x.tif").exists()


def test_exported_shards_come_back_as_the_raster_whose_mixer_is_named(tmp_path: Path) -> None:
    shared(tmp_path, "a", "b", "c")
    manifest = geotfr.read_manifest(tmp_path / "out" / "all-b-manifest.json")
    own = [tmp_path / "out" / shard.name for shard in manifest.shards]
    geotfr.ingest_predictions(tmp_path / "out" / "all-b-mixer.json", own, tmp_path / "b.tif", workers=2)
    np.testing.assert_array_equal(read_raster(tmp_path / "b.tif")[0], numbered(1, 6, 6) + 1000)
    asset = ("--name", "projects/p/assets/b", "--uri-prefix", "gs://bucket/")
    refused = run("upload-manifest", tmp_path / "out" / "all-b-mixer.json", *own, *asset)
    assert_refused(refused, 2, "patches of other rasters of the collection")


def test_a_damaged_record_among_a_collections_predictions_is_the_rasters_own_loss(tmp_path: Path) -> None:
    shared(tmp_path, "a", "b", kernel_size=1)
    predicted = [wire.example([("p", wire.float_feature([float(n)] * 4))]) for n in range(15)]
    path = wire.write_shard(tmp_path / "p.tfrecord", predicted)
    content = bytearray(path.read_bytes())
    size = len(predicted[0]) + 16
    for number in (2, 7):
        content[number * size + 20] ^= 255
    path.write_bytes(bytes(content))
    mixer = tmp_path / "out" / "all-b-mixer.json"
    result = geotfr.ingest_predictions(
        mixer, path, tmp_path / "b.tif", of_collection=True, on_bad_record="skip", nodata=-1
    )
    assert (result.patches, result.patches_lost) == (8, 1)
    values = read_raster(tmp_path / "b.tif")[0][0, ::2, ::2]
    assert values.ravel().tolist() == [6, -1, 8, 9, 10, 11, 12, 13, 14]


def test_a_model_runs_over_one_raster_of_the_shared_shards(tmp_path: Path) -> None:
    shared(tmp_path, "a", "b", "c")
    for source in ("all-b-manifest.json", "all-b-mixer.json"):
        geotfr.predict(lambda batch: batch * 3, tmp_path / "out" / source, tmp_path / "b.tif", overwrite=True)
        pixels, _, _ = read_raster(tmp_path / "b.tif")
        np.testing.assert_array_equal(pixels, 3 * (numbered(1, 6, 6) + 1000))


def test_rasters_are_added_in_new_shards_without_touching_the_old_ones(tmp_path: Path) -> None:
    shared(tmp_path, "b", "d")
    before = contents(tmp_path / "out")
    times = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    scenes(tmp_path / "in", "a", "b2", "c")
    result = geotfr.export_collection(tmp_path / "in", tmp_path / "out" / "all", **OPTIONS)
    after = contents(tmp_path / "out")
    assert (result.exported, result.kept, result.patches) == (("a", "b2", "c"), ("b", "d"), 6 + 9 + 6 + 9 + 12)
    for name, content in before.items():
        if name != "all-patches.parquet":
            assert after[name] == content
            assert (tmp_path / "out" / name).stat().st_mtime_ns == times[name]
    old = [path for path in shards_of(tmp_path / "out") if path.name in before]
    assert list(result.shards) == shards_of(tmp_path / "out")[len(old) :]
    table = geopandas.read_parquet(result.table)
    # In the order of the records, so that sets which share shards are read once.
    assert table["source"].drop_duplicates().tolist() == ["b.tif", "d.tif", "a.tif", "b2.tif", "c.tif"]
    dataset = geotfr.PatchDataset(result.table, columns=["source"])
    records = [payload for path in shards_of(tmp_path / "out") for payload in payloads(path)]
    for item, record in zip(dataset, records, strict=True):
        np.testing.assert_array_equal(item["b1"].ravel(), wire.decode_example(record)["b1"])
    manifest = geotfr.read_manifest(result.manifests["a"])
    assert manifest.collection is not None
    assert (manifest.collection.first_record, manifest.collection.first_in_shard) == (15, 0)
    assert geotfr.verify(tmp_path / "out").is_good
    # Indices of the records lie beside the shards by now.
    after = contents(tmp_path / "out")
    again = geotfr.export_collection(tmp_path / "in", tmp_path / "out" / "all", **OPTIONS)
    assert (again.exported, again.shards) == ((), ())
    assert contents(tmp_path / "out") == after


def test_labels_and_uneven_records_are_those_of_an_export_alone(tmp_path: Path) -> None:
    shapely = pytest.importorskip("shapely")
    scenes(tmp_path / "in", "a", "b", "c")
    for place, name in enumerate("abc"):
        corner = type(NORTH_UP)(10, 0, 500000 + 100 * place, 0, -10, 4000000)
        pixels = numbered(1, 6, 6, "int32") * 10 ** (2 * place)
        write_raster(tmp_path / "in" / f"{name}.tif", pixels, transform=corner)
    boxes = [shapely.box(500000, 3999970, 500035, 4000000), shapely.box(500110, 3999960, 500150, 3999990)]
    labels = geopandas.GeoDataFrame({"class": ["water", "wood"]}, geometry=boxes, crs="EPSG:32618")
    options: dict[str, Any] = {
        "patch_dimensions": 2, "feature_kinds": "native", "labels": labels, "label_field": "class",
        "label_features": "boxes", "label_allow_empty": True,
    }  # fmt: skip
    result = geotfr.export_collection(
        tmp_path / "in", tmp_path / "all", shards="shared", max_file_size=1000, workers=2, **options
    )
    written = iter([payload for path in result.shards for payload in payloads(path)])
    for name in "abc":
        one = geotfr.export_image(
            tmp_path / "in" / f"{name}.tif", tmp_path / f"one-{name}", patch_table=True, **options
        )
        own = [payload for path in one.shards for payload in payloads(path)]
        assert len({len(payload) for payload in own}) > 1
        assert [next(written) for _ in own] == own
        places = ["shard", "record", "offset", "member", "member_start"]
        tables = [tmp_path / f"all-{name}-patches.parquet", tmp_path / f"one-{name}-patches.parquet"]
        ours, wanted = (geopandas.read_parquet(path).drop(columns=places) for path in tables)
        assert "share_0" in ours.columns
        assert ours.equals(wanted)
    assert next(written, None) is None


def test_the_bytes_depend_on_neither_workers_nor_folder(tmp_path: Path) -> None:
    shared(tmp_path, "a", "b", "c", workers=1)
    (tmp_path / "other").mkdir()
    geotfr.export_collection(tmp_path / "in", tmp_path / "other" / "all", **OPTIONS, workers=3)
    assert contents(tmp_path / "out") == contents(tmp_path / "other")


def test_statistics_and_splits_go_over_rasters_that_share_a_shard(tmp_path: Path) -> None:
    result = shared(tmp_path, "a", "b", "c", max_file_size=700)
    values = [numbered(1, 4 + 2 * place, 6) + 1000 * place for place in range(3)]
    for table, wanted in (
        (result.table, np.concatenate([each.ravel() for each in values])),
        (tmp_path / "out" / "all-b-patches.parquet", values[1].ravel()),
    ):
        found = geotfr.compute_statistics(table, bins=0).bands["b1"]
        assert found["count"] == len(wanted)
        np.testing.assert_allclose([found["mean"], found["std"]], [wanted.mean(), wanted.std()])
        assert found["percentiles"]["50"] == np.percentile(wanted, 50)
    where = geotfr.compute_statistics(result.table, where="source = 'b.tif'", bins=0).bands["b1"]
    assert where["max"] == values[1].max()
    geotfr.split_patches(
        result.table, by="group", column="source", shares="train=0.7,val=0.3", shards_prefix=tmp_path / "split"
    )
    splits = {name: geotfr.PatchDataset(tmp_path / f"split-{name}-patches.parquet") for name in ("train", "val")}
    kept = np.concatenate([item["b1"][1:3, 1:3].ravel() for split in splits.values() for item in split])
    np.testing.assert_array_equal(np.sort(kept), np.sort(np.concatenate([each.ravel() for each in values])))
    of_split = geotfr.compute_statistics(tmp_path / "split-train-patches.parquet", bins=0).bands["b1"]
    mean = np.mean([item["b1"][1:3, 1:3] for item in splits["train"]])
    np.testing.assert_allclose(of_split["mean"], mean)


def test_the_table_of_one_raster_is_made_again_from_its_records(tmp_path: Path) -> None:
    shared(tmp_path, "a", "b", "c")
    path = tmp_path / "out" / "all-b-patches.parquet"
    before = path.read_bytes()
    manifest = tmp_path / "out" / "all-b-manifest.json"
    made = geotfr.make_patch_table(manifest, rasters=tmp_path / "in" / "b.tif", overwrite=True)
    assert made.table == path
    assert path.read_bytes() == before


def test_dropped_patches_and_rasters_without_any_have_no_records(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pixels = numbered(1, 4, 4)
    for name, masked in (("a", [0]), ("b", [0, 1, 2, 3]), ("c", [1, 2])):
        data = pixels.copy()
        for number in masked:
            y, x = divmod(number, 2)
            data[:, 2 * y : 2 * y + 2, 2 * x : 2 * x + 2] = -9
        write_raster(tmp_path / "in" / f"{name}.tif", data, nodata=-9)
    result = geotfr.export_collection(
        tmp_path / "in", tmp_path / "all", patch_dimensions=2, masked_threshold=0.5, shards="shared"
    )
    assert not list(tmp_path.glob("*mixer.json"))
    assert result.patches == 5
    dataset = geotfr.PatchDataset(result.table, columns=["number", "source"])
    assert [(str(item["source"])[0], int(item["number"])) for item in dataset] == [
        ("a", 1), ("a", 2), ("a", 3), ("c", 0), ("c", 3)
    ]  # fmt: skip
    assert geotfr.PatchDataset(tmp_path / "all-c-manifest.json").numbers.tolist() == [0, 3]
    assert geotfr.read_manifest(tmp_path / "all-b-manifest.json").shards == ()
    assert geotfr.compute_statistics(result.table, bins=0).bands["b1"]["count"] == 20
    wire.write_shard(
        tmp_path / "p.tfrecord", [wire.example([("p", wire.float_feature([float(n)] * 4))]) for n in range(5)]
    )
    geotfr.ingest_predictions(
        tmp_path / "all-c-manifest.json", tmp_path / "p.tfrecord", tmp_path / "c.tif", of_collection=True, nodata=-1
    )
    assert read_raster(tmp_path / "c.tif")[0][0, ::2, ::2].tolist() == [[3, -1], [-1, 4]]


def test_a_raster_that_changed_makes_all_anew_only_if_asked_and_if_all_are_named(tmp_path: Path) -> None:
    shared(tmp_path, "a", "b", "c")
    many = len(shards_of(tmp_path / "out"))
    before = contents(tmp_path / "out")
    write_raster(tmp_path / "in" / "b.tif", numbered(1, 2, 2))
    os.utime(tmp_path / "in" / "b.tif", ns=(2**61, 2**61))
    command: tuple[Any, ...] = (
        "--collection", "--collection-shards", "shared", "-o", tmp_path / "out" / "all", "--patch-dimensions", "2",
        "--kernel-size", "3", "--max-file-size", "400", "-q",
    )  # fmt: skip
    assert_refused(run("export", tmp_path / "in", *command), 14, "all-b-manifest.json", "--overwrite")
    alone = run("export", tmp_path / "in" / "b.tif", *command, "--overwrite")
    assert_refused(alone, 2, "all-a-patches.parquet", "name it too")
    assert contents(tmp_path / "out") == before
    done = run("export", tmp_path / "in", *command, "--overwrite")
    assert done.code == 0, done.told
    assert 0 < len(shards_of(tmp_path / "out")) < many
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    geotfr.export_collection(tmp_path / "in", fresh / "all", **OPTIONS)
    assert contents(tmp_path / "out") == contents(fresh)


def test_an_error_in_a_later_raster_leaves_what_was_there(tmp_path: Path) -> None:
    shared(tmp_path, "a")
    before = contents(tmp_path / "out")
    scenes(tmp_path / "in2", "b", "c")
    (tmp_path / "in2" / "c.tif").write_bytes(b"II*\0 no raster")
    with pytest.raises(geotfr.InputError, match=r"c\.tif"):
        geotfr.export_collection(tmp_path / "in2", tmp_path / "out" / "all", **OPTIONS)
    assert contents(tmp_path / "out") == before


def test_verify_finds_a_damaged_shared_shard_and_a_raster_that_is_gone(tmp_path: Path) -> None:
    result = shared(tmp_path, "a", "b", "c")
    assert geotfr.verify(tmp_path / "out").records == 27
    for name in "abc":
        assert geotfr.verify(result.manifests[name]).is_good
    manifest = result.manifests["b"].read_bytes()
    result.manifests["b"].unlink()
    assert "18 records were written, 27 are whole" in geotfr.verify(tmp_path / "out").to_text()
    result.manifests["b"].write_bytes(manifest)
    # Another content of the same size, whole by itself.
    result.shards[-1].write_bytes(result.shards[-1].read_bytes()[:4] + b"\1" + result.shards[-1].read_bytes()[5:])
    assert "CRC32C" in geotfr.verify(tmp_path / "out").to_text()


def test_what_cannot_be_in_shared_shards_is_refused(tmp_path: Path) -> None:
    scenes(tmp_path / "in", "a", "b")
    write_raster(tmp_path / "in" / "b.tif", numbered(2, 4, 4))
    arguments: tuple[Any, ...] = ("export", tmp_path / "in", "-o", tmp_path / "all", "--patch-dimensions", "2", "-q")
    together = ("--collection", "--collection-shards", "shared")
    cases: list[tuple[tuple[str, ...], int, tuple[str, ...]]] = [
        (("--collection-shards", "shared"), 2, ("goes with --collection",)),
        ((*together, "--sequence-data"), 2, ("sequence_data",)),
        (together, 2, ("b.tif: its features are b1 (float), b2 (float), those of a.tif b1 (float)", "--bands")),
    ]
    for options, code, words in cases:
        assert_refused(run(*arguments, *options), code, *words)
    assert not list(tmp_path.glob("all*"))
    assert run(*arguments, *together, "--bands", "1").code == 0
    # Shards of the one kind aren't mixed with those of the other.
    separate = run(*arguments, "--collection", "--bands", "1")
    assert_refused(separate, 2, "share shards", "--collection-shards shared")
    geotfr.export_collection(tmp_path / "in", tmp_path / "own", patch_dimensions=2, bands=[1])
    mixed = ("export", tmp_path / "in", "-o", tmp_path / "own", "--patch-dimensions", "2", "--bands", "1", *together)
    assert_refused(run(*mixed), 14, "shards of its own", "--overwrite")
    # Files of the old sets that no new one replaces go too.
    coco = tmp_path / "own-a-coco.json"
    coco.write_text('{"info": {"description": "shapes in the patches of a geotfr set"}}')
    assert run(*mixed, "--overwrite").code == 0
    assert not coco.exists()
    assert not list(tmp_path.glob("own-a*.tfrecord*"))
    assert geotfr.verify([*tmp_path.glob("own-*.tfrecord.gz"), tmp_path / "own-b-manifest.json"]).is_good


@pytest.mark.parametrize(
    "place",
    [
        {"first_record": 6, "first_in_shard": 5},
        {"first_record": 6, "first_in_shard": 10**9},
        {"first_record": -1, "first_in_shard": 2},
        {"first_record": 6, "first_in_shard": -2},
        {"first_record": 6, "first_in_shard": "x"},
        {"first_record": 6, "first_in_shard": None},
        {"first_record": 6},
        [6, 2],
        7,
    ],
    ids=str,
)
def test_a_manifest_whose_place_cannot_be_is_one_clear_error(tmp_path: Path, place: object) -> None:
    result = shared(tmp_path, "a", "b")
    path = result.manifests["b"]
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"collection": place}))
    with pytest.raises(geotfr.DamagedError):
        geotfr.PatchDataset(path)
    assert run("verify", path, "-q").code == 12
    assert run("stats", path.with_name("all-b-manifest.json"), "-q").code in (0, 12)
    shards = [path.with_name(shard["name"]) for shard in document["shards"]]
    back = run("ingest-predictions", path, *shards, "-o", tmp_path / "b.tif", "-q")
    assert back.code == 12, back.told
    assert len(back.stderr.splitlines()) == 1
    made = run("table", path, "-o", tmp_path / "b.parquet", "-q")
    assert made.code == 12, made.told

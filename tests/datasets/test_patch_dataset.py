"""A data set gives the patches that the records hold, by number, however it is asked."""

from __future__ import annotations

import json
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import rasterio
from datasets.scenes import COUNT, PATCH_XY, PER_ROW, write_scene
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import wire
from oracle.rasters import ROTATED, numbered, write_raster

import geotfr
from geotfr.errors import DamagedError, InputError, MissingInputError, RecordError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

DTYPES = {"red": np.float32, "code": np.int64, "class": np.uint8}


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize("margin_xy", [(0, 0), (2, 1)])
def test_each_item_is_the_patch_that_was_cut(tmp_path: Path, compression: str, margin_xy: tuple[int, int]) -> None:
    scene = write_scene(tmp_path, compression=compression, margin_xy=margin_xy)
    dataset = geotfr.PatchDataset(scene.mixer, kernel_size=[2 * margin or 1 for margin in margin_xy])
    assert len(dataset) == COUNT
    for number, item in enumerate(dataset):
        assert list(item) == ["red", "code", "class"]
        for name, values in item.items():
            assert values.dtype == DTYPES[name]
            assert values.flags.writeable
            np.testing.assert_array_equal(values, scene.block(name, number))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory):
    return write_scene(tmp_path_factory.mktemp("scene"), margin_xy=(1, 2))


@pytest.fixture(scope="module")
def dataset(scene) -> geotfr.PatchDataset:
    return geotfr.PatchDataset(scene.mixer, kernel_size=(2, 4))


@settings(max_examples=40, deadline=None)
@given(numbers=st.lists(st.integers(-COUNT, COUNT - 1), max_size=30))
def test_many_items_are_those_asked_for_in_that_order(scene, dataset, numbers: list[int]) -> None:
    got = dataset[numbers]
    for name in DTYPES:
        assert got[name].shape == (len(numbers), 8, 7)
        for place, number in enumerate(numbers):
            np.testing.assert_array_equal(got[name][place], scene.block(name, number % COUNT))


def test_slices_masks_and_numpy_numbers_pick_items(scene, dataset) -> None:
    every_third = np.zeros(COUNT, bool)
    every_third[::3] = True
    expected = scene.blocks("red", range(0, COUNT, 3))
    for index in (slice(None, None, 3), every_third, np.arange(0, COUNT, 3, dtype=np.int32), tuple(range(0, COUNT, 3))):
        np.testing.assert_array_equal(dataset[index]["red"], expected)
    np.testing.assert_array_equal(dataset[::-1]["code"], scene.blocks("code", range(COUNT)[::-1]))
    np.testing.assert_array_equal(dataset[np.uint8(3)]["class"], scene.block("class", 3))
    assert dataset[[]]["red"].shape == (0, 8, 7)


@pytest.mark.parametrize("index", [COUNT, -COUNT - 1, [0, COUNT], [0.5], "red", np.ones(3, bool), [[1]]], ids=str)
def test_what_is_no_item_is_an_index_error(dataset, index: object) -> None:
    with pytest.raises(IndexError):
        dataset[index]


def test_a_stacked_image_holds_the_bands_in_order_in_the_furthest_type(scene) -> None:
    numbers = [7, 2, 7]
    dataset = geotfr.PatchDataset(scene.mixer, kernel_size=(2, 4), stack=True)
    got = dataset[numbers]
    assert list(got) == ["image"]
    assert got["image"].dtype == np.float32
    for channel, name in enumerate(DTYPES):
        np.testing.assert_array_equal(got["image"][:, channel], scene.blocks(name, numbers).astype(np.float32))
    some = geotfr.PatchDataset(scene.mixer, kernel_size=(2, 4), stack=["class", "code"])[3]
    assert {key: (value.dtype, value.shape) for key, value in some.items()} == {
        "image": (np.int64, (2, 8, 7)),
        "red": (np.float32, (8, 7)),
    }
    np.testing.assert_array_equal(some["image"], np.stack([scene.block("class", 3), scene.block("code", 3)]))


def test_only_the_features_asked_for_come_in_that_order(scene) -> None:
    for features in (["class", "red"], "class, red"):
        dataset = geotfr.PatchDataset(scene.mixer, kernel_size=(2, 4), features=features)
        assert list(dataset[0]) == ["class", "red"]
        assert list(dataset.spec) == list(dataset.features) == ["class", "red"]


def test_pixels_are_the_rows_of_all_patches_without_margins(scene, dataset) -> None:
    pixels = dataset.pixels()
    width, height = PATCH_XY
    assert len(pixels) == COUNT * width * height
    expected = {name: scene.blocks(name, range(COUNT))[:, 2:-2, 1:-1].reshape(-1) for name in DTYPES}
    rng = np.random.default_rng(3)
    wanted = rng.integers(0, len(pixels), 60)
    for name, values in pixels[wanted].items():
        np.testing.assert_array_equal(values, expected[name][wanted])
    assert pixels[-1] == {name: values[-1] for name, values in expected.items()}
    assert [each["code"] for each in pixels] == expected["code"].tolist()
    stacked = geotfr.PatchDataset(scene.mixer, kernel_size=(2, 4), stack=["red", "class"]).pixels()
    np.testing.assert_array_equal(
        stacked[30:50]["image"], np.stack([expected["red"], expected["class"].astype(np.float32)], axis=1)[30:50]
    )
    assert stacked.spec["image"].shape == (2,)


@pytest.mark.parametrize("transform", [write_scene.__kwdefaults__["transform"], ROTATED], ids=["north up", "rotated"])
def test_places_are_those_that_rasterio_computes(tmp_path: Path, transform: rasterio.Affine) -> None:
    scene = write_scene(tmp_path, margin_xy=(1, 2), transform=transform)
    dataset = geotfr.PatchDataset(scene.mixer, kernel_size=(2, 4), with_place=True)
    got = dataset[[13, 0, 6]]
    for place, number in enumerate([13, 0, 6]):
        row, column = number // PER_ROW, number % PER_ROW
        expected = transform @ rasterio.Affine.translation(column * 5 - 1, row * 4 - 2)
        corners = [expected @ (x, y) for x in (0, 7) for y in (0, 8)]
        assert (got["number"][place], got["row"][place], got["column"][place]) == (number, row, column)
        np.testing.assert_allclose(got["transform"][place], expected[:6], rtol=1e-12)
        bounds = [f(corner[axis] for corner in corners) for f in (min, max) for axis in (0, 1)]
        np.testing.assert_allclose(got["bounds"][place], bounds, rtol=1e-12)
        told = dataset.place(number)
        assert (told.number, told.row, told.column) == (number, row, column)
        assert told.shard == str(scene.shards[number // 7])
        assert told.record == number % 7
        np.testing.assert_allclose(told.block.affine, expected[:6], rtol=1e-12)
        np.testing.assert_allclose(told.block.bounds(), bounds, rtol=1e-12)
        assert told.block.shape_yx == (8, 7)
        assert told.patch.shape_yx == (4, 5)
        np.testing.assert_allclose(told.patch.xy(0, 0), expected @ (1, 2), rtol=1e-12)


def test_each_item_is_in_exactly_one_shard_of_any_number(scene, dataset) -> None:
    for world in (1, 2, 3, 7, 25):
        parts = [dataset.shard(rank, world) for rank in range(world)]
        assert sorted(number for part in parts for number in part.numbers.tolist()) == list(range(COUNT))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    part = dataset.shard(1, 3).subset([2, 0])
    np.testing.assert_array_equal(part[:]["red"], scene.blocks("red", [7, 1]))
    assert part.numbers.tolist() == [7, 1]
    with pytest.raises(UsageError, match="rank 3 of 3; allowed are 0 to 2"):
        dataset.shard(3, 3)


def test_statistics_bring_bands_to_mean_0_and_deviation_1(scene, tmp_path: Path) -> None:
    statistics = {"bands": {"red": {"mean": 0.25, "std": 2.0}, "class": {"mean": 3.0, "std": 0.0}, "other": {}}}
    path = tmp_path / "stats.json"
    path.write_text(json.dumps(statistics))
    plain = geotfr.PatchDataset(scene.mixer, kernel_size=(2, 4))[:5]
    for source in (statistics, path):
        got = geotfr.PatchDataset(scene.mixer, kernel_size=(2, 4), normalize=source)[:5]
        np.testing.assert_allclose(got["red"], (plain["red"] - 0.25) / 2)
        np.testing.assert_array_equal(got["class"], plain["class"].astype(np.float32) - 3)
        np.testing.assert_array_equal(got["code"], plain["code"])
        assert got["red"].dtype == got["class"].dtype == np.float32
        assert got["code"].dtype == np.int64


def test_an_export_of_geotfr_needs_nothing_but_its_manifest(tmp_path: Path) -> None:
    data = numbered(3, 40, 52, "float32")
    source = write_raster(tmp_path / "scene.tif", data, descriptions=["a", "b", "c"])
    geotfr.export_image(source, tmp_path / "set" / "p", patch_dimensions=16, kernel_size=4, max_file_size=12000) if (
        tmp_path / "set"
    ).mkdir() is None else None
    expected = np.pad(data, ((0, 0), (2, 2), (2, 2)))
    for name in ("p-manifest.json", "p-mixer.json", ""):
        dataset = geotfr.PatchDataset(tmp_path / "set" / name, stack=True)
        assert len(dataset) == 6
        for number in range(6):
            top, left = number // 3 * 16, number % 3 * 16
            inner = expected[:, top : top + 20, left : left + 20].copy()
            # Margins beyond the raster are masked, those beyond the last whole patch are not.
            np.testing.assert_array_equal(dataset[number]["image"], inner)


def test_patches_that_an_export_left_out_keep_their_numbers(tmp_path: Path) -> None:
    data = np.arange(64, dtype=np.float32).reshape(1, 8, 8) + 1
    data[0, :4, 4:] = -1
    write_raster(tmp_path / "scene.tif", data, nodata=-1)
    geotfr.export_image(tmp_path / "scene.tif", tmp_path / "p", patch_dimensions=4, masked_threshold=0.5)
    dataset = geotfr.PatchDataset(tmp_path / "p-manifest.json", with_place=True)
    assert dataset.numbers.tolist() == [0, 2, 3]
    assert dataset[1]["row"] == 1
    np.testing.assert_array_equal(dataset[1]["b1"], data[0, 4:, :4])


def test_tensors_are_channel_row_column(tmp_path: Path) -> None:
    data = numbered(3, 8, 12, "float32")
    write_raster(tmp_path / "t.tif", data)
    geotfr.export_image(tmp_path / "t.tif", tmp_path / "p", patch_dimensions=4, collapse_bands=True)
    for source in (tmp_path / "p-manifest.json", [tmp_path / "p.json", tmp_path / "p.tfrecord.gz"]):
        dataset = geotfr.PatchDataset(source, with_place=True)
        ((name, shape),) = dataset.features.items()
        assert shape.shape == (3, 4, 4)
        np.testing.assert_array_equal(dataset[4][name], data[:, 4:, 4:8])
        np.testing.assert_array_equal(dataset.pixels()[20][name], data[:, 1, 4])
        normal = {"bands": {name: {"mean": [1, 2, 3], "std": [1, 2, 4]}}}
        got = geotfr.PatchDataset(source, normalize=normal)[0][name]
        expected = (data[:, :4, :4] - np.array([1, 2, 3])[:, None, None]) / np.array([1, 2, 4])[:, None, None]
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_shards_alone_are_flat_or_of_the_shape_that_is_given(scene) -> None:
    flat = geotfr.PatchDataset(scene.shards)
    np.testing.assert_array_equal(flat[3]["red"], scene.block("red", 3).reshape(-1))
    shaped = geotfr.PatchDataset(scene.shards[:1], patch_dimensions=(5, 4), kernel_size=(2, 4))
    np.testing.assert_array_equal(shaped[3]["red"], scene.block("red", 3))
    pattern = geotfr.PatchDataset(str(scene.shards[0].parent / "p-*.tfrecord"), shapes={"red": (7, 8)})
    assert len(pattern) == COUNT
    assert pattern[0]["red"].shape == (7, 8)


def test_single_values_beside_patches_are_scalars(tmp_path: Path) -> None:
    payloads = [
        wire.example([("b", wire.float_feature(range(4))), ("label", wire.int64_feature([number]))])
        for number in range(4)
    ]
    shard = wire.write_shard(tmp_path / "a.tfrecord", payloads)
    dataset = geotfr.PatchDataset(shard, patch_dimensions=2)
    assert dataset[[3, 1]]["label"].tolist() == [3, 1]
    assert dataset[2]["label"].shape == ()
    with pytest.raises(UsageError, match=r"stack: features of one \(row, col\) are wanted, found .*label \(\)"):
        geotfr.PatchDataset(shard, patch_dimensions=2, stack=True)
    with pytest.raises(UsageError, match="feature 'label' has no pixels"):
        dataset.pixels()


def test_it_is_the_same_after_pickling_and_in_threads_and_after_a_fork(scene, dataset) -> None:
    expected = scene.blocks("red", range(COUNT))
    dataset[0]
    copy = pickle.loads(pickle.dumps(dataset))
    np.testing.assert_array_equal(copy[:]["red"], expected)
    with ThreadPoolExecutor(4) as threads:
        for number, item in enumerate(threads.map(lambda n: dataset[n % COUNT], range(5 * COUNT))):
            np.testing.assert_array_equal(item["red"], expected[number % COUNT])
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        is_same = all(np.array_equal(dataset[n]["red"], expected[n]) for n in range(COUNT))
        os.write(write, b"1" if is_same else b"0")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 1) == b"1"
    os.close(read)
    os.close(write)
    assert "20 patches of 3 shards; red: float32 (8, 7)" in repr(dataset)


def test_the_index_is_made_beside_the_shards_or_where_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = write_scene(tmp_path, shards=1)
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    geotfr.PatchDataset(scene.mixer)
    beside = scene.shards[0].with_name("p-00000.tfrecord.idx")
    assert len(beside.read_text().splitlines()) == COUNT
    beside.unlink()
    own = tmp_path / "own"
    for _ in range(2):
        np.testing.assert_array_equal(
            geotfr.PatchDataset(scene.mixer, index_folder=own)[3]["red"], scene.block("red", 3)
        )
        assert len(list(own.iterdir())) == 1

    def refused(path: object, **_: object) -> None:
        if "cache" not in str(path):
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("geotfr.storage.atomic.check_output", refused)
    geotfr.PatchDataset(scene.mixer)
    assert not beside.exists()
    assert len(list((cache / "geotfr").iterdir())) == 1
    monkeypatch.setattr("geotfr.storage.index_files.scan_index", None)
    np.testing.assert_array_equal(geotfr.PatchDataset(scene.mixer)[5]["red"], scene.block("red", 5))


def test_a_file_that_changed_is_refused_by_name(tmp_path: Path) -> None:
    scene = write_scene(tmp_path)
    dataset = geotfr.PatchDataset(scene.mixer)
    dataset[:]
    content = scene.shards[1].read_bytes()
    scene.shards[1].write_bytes(content + content)
    os.utime(scene.shards[1], ns=(1, 1))
    dataset[0]
    with pytest.raises(DamagedError, match=r"p-00001\.tfrecord: the file changed since .*make the data set again"):
        dataset[[0, 10]]
    with pytest.raises(RecordError, match=r"p-00001\.tfrecord\.idx: the index doesn't fit the file"):
        geotfr.PatchDataset(scene.mixer)
    scene.shards[1].unlink()
    with pytest.raises(MissingInputError, match=r"p-00001\.tfrecord: no such file"):
        dataset[[0, 10]]


@pytest.mark.parametrize("place", [14, 40, -3], ids=["header", "payload", "footer"])
def test_a_damaged_record_is_named_and_the_others_are_read(tmp_path: Path, place: int) -> None:
    scene = write_scene(tmp_path, shards=1)
    dataset = geotfr.PatchDataset(scene.mixer)
    data = bytearray(scene.shards[0].read_bytes())
    lines = (tmp_path / "p-00000.tfrecord.idx").read_text().splitlines()
    offset, length = map(int, lines[4].split())
    data[offset + (place - 12 if place == 14 else place % length)] ^= 1
    state = scene.shards[0].stat()
    scene.shards[0].write_bytes(data)
    os.utime(scene.shards[0], ns=(state.st_atime_ns, state.st_mtime_ns))
    for index in (4, [2, 4, 9], slice(None)):
        with pytest.raises(RecordError, match=rf"record 4 at byte {offset}: not the {length} bytes"):
            dataset[index]
    np.testing.assert_array_equal(dataset[[3, 5]]["red"], scene.blocks("red", [3, 5]))


def records(folder: Path, *payloads: bytes) -> Path:
    return wire.write_shard(folder / "a.tfrecord", payloads)


def test_records_unlike_the_first_are_named(tmp_path: Path) -> None:
    good = wire.example([("b", wire.float_feature(range(4))), ("c", wire.float_feature([1]))])
    others = {
        "no feature 'c', which the first record has": [("b", range(4)), ("d", [1])],
        "feature 'b' is 3 of float32; the first record's is 4 of float32": [("b", range(3)), ("c", [1])],
    }
    for message, features in others.items():
        other = wire.example([(name, wire.float_feature(values)) for name, values in features])
        dataset = geotfr.PatchDataset(records(tmp_path, good, other))
        (tmp_path / "a.tfrecord.idx").unlink()
        with pytest.raises(RecordError, match=f"record 1 at byte {len(good) + 16}: {message}"):
            dataset[:]
    kinds = wire.example([("b", wire.int64_feature(range(4))), ("c", wire.float_feature([1]))])
    dataset = geotfr.PatchDataset(records(tmp_path, good, kinds))
    with pytest.raises(RecordError, match="feature 'b' is 4 of int64; the first record's is 4 of float32"):
        dataset[1]


def test_what_cannot_be_meant_is_refused_in_one_line(scene, tmp_path: Path) -> None:
    make = geotfr.PatchDataset
    cases = {
        r"no feature 'rad'; there are red, code, class; did you mean red\?": {"features": ["rad"]},
        r"red, red: a name is given twice": {"features": ["red", "red"]},
        r"stack: no feature 'blue'": {"stack": ["blue"]},
        r"patch_dimensions: found 8; the mixer tells 5x4": {"patch_dimensions": 8},
        r"shapes: 'red' as \(3, 3\); the feature has 56 values": {"shapes": {"red": (3, 3)}},
        r"statistics of blue; the features are red, code, class": {"normalize": {"bands": {"blue": {}}}},
    }
    for message, options in cases.items():
        with pytest.raises(UsageError, match=message):
            make(scene.mixer, **{"kernel_size": (2, 4), **options})
    for broken in ({}, {"bands": {"red": {"mean": "x", "std": 1}}}, {"bands": {"red": {"mean": 1, "std": -1}}}):
        with pytest.raises(DamagedError, match="wanted"):
            make(scene.mixer, kernel_size=(2, 4), normalize=broken)
    with pytest.raises(RecordError, match=r"feature 'red': 56 values; .*give kernel_size=, shapes="):
        make(scene.mixer, kernel_size=(4, 4))
    with pytest.raises(DamagedError, match="7 records in 1 shards, 20 patches by the mixer"):
        make([scene.mixer, scene.shards[0]], kernel_size=(2, 4))
    with pytest.raises(UsageError, match="with_place: there is no mixer"):
        make(scene.shards, with_place=True)
    with pytest.raises(UsageError, match="there is no mixer that tells where patches lie"):
        make(scene.shards).place(0)
    with pytest.raises(MissingInputError, match="no file matches"):
        make(str(tmp_path / "*.tfrecord"))
    with pytest.raises(UsageError, match="no files"):
        make([])
    (tmp_path / "empty.tfrecord").write_bytes(b"")
    with pytest.raises(InputError, match="no records in 1 shards"):
        make(tmp_path / "empty.tfrecord")


def test_a_set_of_pixels_is_no_data_set_of_patches(tmp_path: Path) -> None:
    write_raster(tmp_path / "t.tif", numbered(1, 4, 4))
    geotfr.export_image(tmp_path / "t.tif", tmp_path / "p", patch_dimensions=4, sequence_data=True)
    with pytest.raises(UsageError, match="a record is a pixel here, not a patch"):
        geotfr.PatchDataset(tmp_path / "p.json")


def test_large_gzip_members_are_read_through_seek_points_kept_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("indexed_gzip")
    monkeypatch.setattr("geotfr.records.index.LARGEST_MEMBER_BYTES", 100)
    scene = write_scene(tmp_path, shards=1, compression="GZIP")
    own = tmp_path / "own"
    for _ in range(2):
        dataset = pickle.loads(pickle.dumps(geotfr.PatchDataset(scene.mixer, index_folder=own)))
        np.testing.assert_array_equal(dataset[[11, 3]]["red"], scene.blocks("red", [11, 3]))
    assert sorted(path.suffix for path in own.iterdir()) == [".gzidx", ".idx", ".members"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("p-00000")] == ["p-00000.tfrecord.gz"]
    next(own.glob("*.gzidx")).unlink()
    with pytest.raises(MissingInputError, match=r"\.gzidx: no such file; run 'geotfr index --overwrite"):
        geotfr.PatchDataset(scene.mixer, index_folder=own)


@pytest.mark.parametrize("compressed", [True, False], ids=["gzip", "plain"])
def test_a_set_that_is_exported_again_is_indexed_again(tmp_path: Path, compressed: bool) -> None:
    for greatest, patch in ((3000, 8), (4, 8), (4, 16)):
        values = np.random.default_rng(patch).integers(0, greatest, (1, 32, 32)).astype(np.uint16)
        (tmp_path / "t.tif").unlink(missing_ok=True)
        write_raster(tmp_path / "t.tif", values)
        result = geotfr.export_image(
            tmp_path / "t.tif",
            tmp_path / "p",
            patch_dimensions=patch,
            compressed=compressed,
            max_file_size=4000,
            overwrite=True,
        )
        found = geotfr.PatchDataset(result.manifest)[len(geotfr.PatchDataset(result.manifest)) - 1]["b1"]
        np.testing.assert_array_equal(found, values[0, -patch:, -patch:])
        shards = {path.name for path in result.shards}
        assert {path.stem for path in tmp_path.glob("*.idx")} == shards
        assert {path.stem for path in tmp_path.glob("*.members")} == (shards if compressed else set())


def test_an_export_again_keeps_the_index_of_shards_that_did_not_change(tmp_path: Path) -> None:
    write_raster(tmp_path / "t.tif", numbered(1, 32, 32))
    for _ in range(2):
        result = geotfr.export_image(
            tmp_path / "t.tif", tmp_path / "p", patch_dimensions=8, max_file_size=4000, overwrite=True
        )
        if result.shards_unchanged:
            assert {path.stem for path in tmp_path.glob("*.idx")} == {path.name for path in result.shards}
        geotfr.PatchDataset(result.manifest)
    assert len(result.shards_unchanged) == len(result.shards) > 1


def test_records_written_and_mended_anew_are_indexed_again(tmp_path: Path) -> None:
    target = tmp_path / "p.tfrecord.gz"
    for count in (5, 9):
        geotfr.write_examples(
            target, ({"a": np.full(3, i, np.float32)} for i in range(count)), compression="gzip", overwrite=True
        )
        geotfr.write_index(target)
        assert len(geotfr.IndexedRecords(target)) == count
    geotfr.write_examples(tmp_path / "q.tfrecord", ({"a": [1.0]} for _ in range(2)))
    geotfr.repair(tmp_path / "q.tfrecord", target, overwrite=True)
    geotfr.write_index(target)
    assert len(geotfr.IndexedRecords(target)) == 2


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_places_are_numbers_of_python(tmp_path: Path, compression: str) -> None:
    scene = write_scene(tmp_path, compression=compression)
    dataset = geotfr.PatchDataset(scene.mixer, with_place=True, kernel_size=1)
    items = [dataset[3], next(iter(dataset)), *dataset.__getitems__([3, 7]), next(iter(geotfr.stream(dataset)))]
    for item in (*items, dataset.subset([5])[0], dataset.shard(1, 2)[0], next(iter(geotfr.stream(dataset).cache()))):
        told = json.loads(json.dumps({key: item[key] for key in ("number", "row", "column")}))
        assert told["number"] == told["row"] * PER_ROW + told["column"]
        assert {type(item[key]) for key in told} == {int}
    batch = next(iter(geotfr.stream(dataset).batch(3)))
    assert {batch[key].dtype.name for key in ("number", "row", "column")} == {"int64"}


@pytest.mark.parametrize(("shape_yx", "patch"), [((10, 10), 12), ((10, 17), 8), ((9, 9), 3), ((5, 30), (7, 4))])
@pytest.mark.parametrize("kernel", [None, 3])
def test_pixels_of_a_padded_edge_are_those_of_the_raster(
    tmp_path: Path, shape_yx: tuple[int, int], patch: Any, kernel: int | None
) -> None:
    values = np.arange(1, 1 + np.prod(shape_yx), dtype=np.float32).reshape(1, *shape_yx)
    source = write_raster(tmp_path / "scene.tif", values)
    geotfr.export_image(source, tmp_path / "p", patch_dimensions=patch, edge="pad", kernel_size=kernel or 1)
    expected = np.sort(values.ravel())
    table = geotfr.make_patch_table(tmp_path / "p-manifest.json", tmp_path / "of-set-patches.parquet").table
    for found in (tmp_path / "p-manifest.json", table):
        pixels = geotfr.PatchDataset(found).pixels()
        assert len(pixels) == values.size
        name = next(iter(pixels.spec))
        whole = pixels[:][name]
        np.testing.assert_array_equal(np.sort(whole), expected)
        np.testing.assert_array_equal([pixel[name] for pixel in pixels], whole)
        np.testing.assert_array_equal(np.sort([p[name] for p in geotfr.stream(pixels).shuffle(9)]), expected)
        np.testing.assert_array_equal(pixels[[len(pixels) - 1, 0]][name], whole[[-1, 0]])
        statistics = geotfr.compute_statistics(found).bands[name]
        assert (statistics["count"], statistics["min"], statistics["max"]) == (values.size, 1, values.size)
        assert statistics["mean"] == pytest.approx(values.mean())
        assert sum(statistics["histogram"]["counts"]) == values.size


def test_one_shard_of_a_larger_set_is_read_from_its_first_patch_on(tmp_path: Path) -> None:
    scene = write_scene(tmp_path, margin_xy=(2, 2), shards=4)
    part = [scene.mixer, scene.shards[2]]
    dataset = geotfr.PatchDataset(part, kernel_size=4, first_patch=10, with_place=True)
    assert dataset.numbers.tolist() == [10, 11, 12, 13, 14]
    for item in dataset:
        np.testing.assert_array_equal(item["red"], scene.block("red", item["number"]))
    with pytest.raises(DamagedError, match="first_patch="):
        geotfr.PatchDataset(part, kernel_size=4)
    for wrong in (-1, 16, 20):
        with pytest.raises(UsageError, match=f"first_patch: found {wrong}, with 5 records behind it; the set has 20"):
            geotfr.PatchDataset(part, kernel_size=4, first_patch=wrong)
    with pytest.raises(UsageError, match="first_patch: tells which patches of a mixer's grid"):
        geotfr.PatchDataset(scene.shards[2], first_patch=10, patch_dimensions=PATCH_XY)
    for made in (geotfr.PatchDataset, geotfr.stream):
        with pytest.raises(UsageError, match=r"kernel_size: found 4 without the patches' size.*give patch_dimensions"):
            made(scene.shards[2], kernel_size=4)
        assert made(scene.shards[2], kernel_size=4, patch_dimensions=PATCH_XY)

"""TensorFlow reads data sets and streams, and reads in their files what they give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from datasets.scenes import COUNT, write_scene

import geotfr
from geotfr.errors import UsageError

tf = pytest.importorskip("tensorflow")

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory):
    return write_scene(tmp_path_factory.mktemp("scene"))


@pytest.fixture(scope="module")
def dataset(scene) -> geotfr.PatchDataset:
    return geotfr.PatchDataset(scene.mixer, kernel_size=1, with_place=True)


def test_items_and_batches_are_what_tensorflow_reads_in_the_files(scene, dataset) -> None:
    specs = {
        "red": tf.io.FixedLenFeature([4, 5], tf.float32),
        "code": tf.io.FixedLenFeature([4, 5], tf.int64),
        "class": tf.io.FixedLenFeature([], tf.string),
    }
    records = [tf.io.parse_single_example(r, specs) for r in tf.data.TFRecordDataset([str(p) for p in scene.shards])]
    items = list(geotfr.to_tf_dataset(dataset).as_numpy_iterator())
    assert len(items) == len(records) == COUNT
    for item, record in zip(items, records, strict=True):
        np.testing.assert_array_equal(item["red"], record["red"])
        np.testing.assert_array_equal(item["code"], record["code"])
        assert item["class"].tobytes() == record["class"].numpy()
    batches = list(geotfr.to_tf_dataset(dataset, batch_size=6).as_numpy_iterator())
    np.testing.assert_array_equal(np.concatenate([b["red"] for b in batches]), [r["red"] for r in records])


def test_the_element_spec_tells_dtypes_and_shapes(dataset) -> None:
    def told(made: object) -> dict[str, tuple[object, list[int | None]]]:
        return {key: (spec.dtype, spec.shape.as_list()) for key, spec in made.element_spec.items()}

    single = told(geotfr.to_tf_dataset(dataset))
    assert single["red"] == (tf.float32, [4, 5])
    assert single["class"] == (tf.uint8, [4, 5])
    assert single["number"] == (tf.int64, [])
    assert single["bounds"] == (tf.float64, [4])
    assert told(geotfr.to_tf_dataset(dataset, batch_size=6))["red"] == (tf.float32, [None, 4, 5])
    assert told(geotfr.to_tf_dataset(dataset, batch_size=6, drop_remainder=True))["red"] == (tf.float32, [6, 4, 5])
    assert told(geotfr.to_tf_dataset(dataset.pixels()))["code"] == (tf.int64, [])
    batches = geotfr.stream(dataset).shuffle(5).batch(6)
    assert told(geotfr.to_tf_dataset(batches.prefetch(1)))["code"] == (tf.int64, [None, 4, 5])
    dropped = geotfr.stream(dataset).batch(6, drop_remainder=True)
    assert told(geotfr.to_tf_dataset(dropped))["code"] == (tf.int64, [6, 4, 5])


def test_shuffled_epochs_hold_each_patch_once(dataset) -> None:
    for made in (
        geotfr.to_tf_dataset(dataset, batch_size=6, shuffle=3),
        geotfr.to_tf_dataset(geotfr.stream(dataset).shuffle(20, seed=3).batch(6)),
    ):
        orders = [[n for batch in made.as_numpy_iterator() for n in batch["number"].tolist()] for _ in range(2)]
        assert [sorted(order) for order in orders] == [list(range(COUNT))] * 2
        assert orders[0] != orders[1]


def test_tensors_share_the_arrays_memory(dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    places = []
    read = geotfr.PatchDataset.__getitem__

    def watched(self: geotfr.PatchDataset, index: object) -> dict[str, np.ndarray]:
        batch = read(self, index)
        places.append(batch["red"].ctypes.data)
        return batch

    monkeypatch.setattr(geotfr.PatchDataset, "__getitem__", watched)
    for batch in geotfr.to_tf_dataset(dataset, batch_size=4):
        assert np.from_dlpack(batch["red"]).ctypes.data in places


def test_a_model_trains_on_it(scene) -> None:
    dataset = geotfr.PatchDataset(scene.mixer, kernel_size=1, features=["red", "class"], stack=["red"])
    pairs = geotfr.to_tf_dataset(dataset, batch_size=5, shuffle=1).map(
        lambda item: (tf.transpose(item["image"], [0, 2, 3, 1]), item["class"] % 2)
    )
    model = tf.keras.Sequential([tf.keras.Input((4, 5, 1)), tf.keras.layers.Conv2D(2, 1)])
    model.compile(loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(pairs, epochs=2, verbose=0, shuffle=False)
    assert len(history.history["loss"]) == 2


def test_streams_of_texts_and_numbers_have_a_spec(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,t\n1,x\n2,y\n")
    made = geotfr.to_tf_dataset(geotfr.stream_csv(tmp_path / "a.csv", {"n": 0, "t": ""}).batch(5))
    (batch,) = made.as_numpy_iterator()
    assert batch["n"].tolist() == [1, 2]
    assert batch["t"].tolist() == [b"x", b"y"]
    assert batch["key"].tolist() == [f"{tmp_path}/a.csv:{n}".encode() for n in range(2)]


def test_what_has_no_meaning_is_refused(dataset) -> None:
    with pytest.raises(UsageError, match="a stream has its own batch and shuffle"):
        geotfr.to_tf_dataset(geotfr.stream(dataset), batch_size=4)
    with pytest.raises(UsageError, match="the stream gives int; dicts of arrays are wanted"):
        geotfr.to_tf_dataset(geotfr.stream([1, 2]).map(int))
    with pytest.raises(UsageError, match="'x' is object; arrays, numbers and texts are wanted"):
        geotfr.to_tf_dataset(geotfr.stream([{"x": object()}]).map(dict))


def test_tensors_that_are_kept_stay_though_memory_is_used_again(scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("geotfr.datasets.array_pool.LEAST_BYTES", 1)
    source = geotfr.PatchDataset(scene.mixer, kernel_size=1, with_place=True)
    kept = [batch for _ in range(3) for batch in geotfr.to_tf_dataset(source, batch_size=4, shuffle=3).prefetch(2)]
    assert len(kept) == 3 * COUNT // 4
    for batch in kept:
        np.testing.assert_array_equal(batch["red"], scene.blocks("red", batch["number"].numpy()))

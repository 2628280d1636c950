"""TensorFlow parses Examples and SequenceExamples of every option to the oracle's values."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from export_options.worlds import World, worlds
from hypothesis import HealthCheck, given, settings
from oracle import wire
from oracle.images import Options, expected_export, patch_features, pixel_features, read_scene
from oracle.mosaics import cut
from oracle.rasters import NORTH_UP, numbered, read_raster, write_raster

import geotfr

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.interop
tf = pytest.importorskip("tensorflow")

DTYPES = {"float": tf.float32, "int64": tf.int64, "bytes": tf.string}

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def payloads_of(shards: Sequence[Path], options: Options) -> list[Any]:
    """Every record through ``TFRecordDataset``."""
    files = [str(path) for path in shards]
    if not files:
        return []
    return list(tf.data.TFRecordDataset(files, compression_type="GZIP" if options.compressed else ""))


def assert_equal(tensor: Any, kind: str, values: Sequence[Any]) -> None:
    """The tensor's values are ``values``; those of kind bytes are one string of raw bytes."""
    found = tensor.numpy()
    if kind == "bytes":
        assert found.tolist() == [bytes(values)]
    else:
        np.testing.assert_array_equal(found, np.array(values, {"float": "float32", "int64": "int64"}[kind]))


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(world=worlds())
def test_tensorflow_parses_every_export_to_the_oracles_values(world: World) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        paths, options, keywords = world.make(folder)
        result = geotfr.export_image(paths, folder / "set", **keywords)
        expected = expected_export(paths, options, name="set")
        payloads = payloads_of(result.shards, options)
        if options.sequence:
            _assert_sequences(payloads, expected.written, paths, options)
        else:
            assert len(payloads) == len(expected.written)
            for number, payload in zip(expected.written, payloads, strict=True):
                want = patch_features(expected.scene, options, number)
                specs = {
                    key: tf.io.FixedLenFeature([1 if kind == "bytes" else len(values)], DTYPES[kind])
                    for key, (kind, values) in want.items()
                }
                parsed = tf.io.parse_single_example(payload, specs)
                for key, (kind, values) in want.items():
                    assert_equal(parsed[key], kind, values)


def _assert_sequences(payloads: list[Any], written: list[int], paths: list[Path], options: Options) -> None:
    scene = read_scene(paths, options)
    pixels = [pixel for number in written for pixel in pixel_features(scene, options, number)]
    assert len(payloads) == len(pixels)
    # TensorFlow takes a millisecond for each: the first of each export, and some of the others.
    for place in {0, 1, len(pixels) - 1, *range(0, len(pixels), 37)} & set(range(len(pixels))):
        context, lists = pixels[place]
        parsed, series = tf.io.parse_single_sequence_example(
            payloads[place],
            context_features={key: tf.io.FixedLenFeature([1], DTYPES[kind]) for key, (kind, _) in context.items()},
            sequence_features={
                key: tf.io.FixedLenSequenceFeature([], DTYPES[kind]) for key, (kind, _) in lists.items()
            },
        )
        for key, (kind, values) in context.items():
            assert_equal(parsed[key], kind, values)
        for key, (kind, values) in lists.items():
            if kind == "bytes":
                assert series[key].numpy().tolist() == [bytes([value]) for value in values]
            else:
                assert_equal(series[key], kind, values)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("collapse", [False, True])
def test_tensorflow_makes_the_same_sequence_bytes(native: bool, collapse: bool, tmp_path: Path) -> None:
    """Protobuf's own serialization of one map entry each is the record's, byte for byte."""
    data = np.array([[[-1, 300]], [[2**40, 5]], [[7, -(2**63)]]], "int64")
    source = write_raster(tmp_path / "scene.tif", data, descriptions=("s", "a", "b"))
    options = Options(
        patch=(2, 1),
        sequence=True,
        native=native,
        collapse=collapse,
        arrays={"t": [(source, 2), (source, 3)]},
        depths={"t": 3},
        compressed=False,
    )
    result = geotfr.export_image(source, tmp_path / "set", **options.keywords())
    scene = read_scene([source], options)
    payloads = wire.unframe(result.shards[0].read_bytes())
    for payload, (context, lists) in zip(payloads, pixel_features(scene, options, 0), strict=True):
        message = tf.train.SequenceExample()
        for key, (kind, values) in context.items():
            _fill(message.context.feature[key], kind, values)
        for key, (kind, values) in lists.items():
            for value in values:
                _fill(message.feature_lists.feature_list[key].feature.add(), kind, [value])
        assert payload == message.SerializeToString()


def _fill(feature: Any, kind: str, values: Sequence[Any]) -> None:
    if kind == "float":
        feature.float_list.value.extend(float(value) for value in values)
    else:
        feature.int64_list.value.extend(int(value) for value in values)


def test_the_oracles_own_sequence_bytes_are_tensorflows() -> None:
    message = tf.train.SequenceExample()
    message.context.feature["s"].float_list.value.extend([1.5])
    for value in (300, -1):
        message.feature_lists.feature_list["t"].feature.add().int64_list.value.append(value)
    payload = wire.sequence_example(
        [("s", wire.float_feature([1.5]))], [("t", [wire.int64_feature([300]), wire.int64_feature([-1])])]
    )
    assert payload == message.SerializeToString()
    context, lists = wire.decode_sequence_example(payload)
    assert context["s"].tolist() == [1.5]
    assert [step.tolist() for step in lists["t"]] == [[300], [-1]]


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_sequences_that_tensorflow_writes_are_ingested_right(compression: str, tmp_path: Path) -> None:
    picture = numbered(1, 4, 6)[0]
    values = np.concatenate([cut(picture, number, patch_xy=(3, 2)) for number in range(4)])
    shard = tmp_path / "pred.tfrecord"
    with tf.io.TFRecordWriter(str(shard), options=compression) as writer:
        for value in values:
            message = tf.train.SequenceExample()
            message.context.feature["class"].int64_list.value.append(int(value))
            for step in range(3):
                message.feature_lists.feature_list["evi"].feature.add().float_list.value.append(value + 100 * step)
            writer.write(message.SerializeToString())
    mixer = tmp_path / "mixer.json"
    mixer.write_text(wire.mixer_text("EPSG:32618", NORTH_UP[:6], (3, 2), 2, 4))
    geotfr.ingest_predictions(mixer, [shard], tmp_path / "out.tif")
    pixels, profile, descriptions = read_raster(tmp_path / "out.tif")
    assert descriptions == ("class", "evi_0", "evi_1", "evi_2")
    np.testing.assert_array_equal(pixels, [picture, picture, picture + 100, picture + 200])
    assert profile["transform"] == NORTH_UP


def test_predictions_of_tensorflow_with_their_patch_numbers_are_placed_in_any_order(tmp_path: Path) -> None:
    picture = numbered(1, 6, 9)
    source = write_raster(tmp_path / "scene.tif", picture)
    result = geotfr.export_image(source, tmp_path / "set", patch_dimensions=3, patch_index="number")
    specs = {"b1": tf.io.FixedLenFeature([3, 3], tf.float32), "number": tf.io.FixedLenFeature([], tf.int64)}
    dataset = tf.data.TFRecordDataset(str(result.shards[0]), compression_type="GZIP")
    dataset = dataset.map(lambda payload: tf.io.parse_single_example(payload, specs)).shuffle(6, seed=1)
    shard = tmp_path / "pred.tfrecord"
    numbers = []
    with tf.io.TFRecordWriter(str(shard)) as writer:
        for record in dataset:
            numbers.append(int(record["number"]))
            message = tf.train.Example()
            message.features.feature["twice"].float_list.value.extend((2 * record["b1"]).numpy().ravel())
            message.features.feature["number"].int64_list.value.append(numbers[-1])
            writer.write(message.SerializeToString())
    assert numbers != sorted(numbers)
    geotfr.ingest_predictions(result.mixer, [shard], tmp_path / "out.tif", patch_index="number")
    np.testing.assert_array_equal(read_raster(tmp_path / "out.tif")[0], 2 * picture)

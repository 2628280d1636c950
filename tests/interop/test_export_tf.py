"""TensorFlow reads what an export writes, and an ingest reads what TensorFlow writes."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from oracle import wire
from oracle.images import Options, block_pixels, expected_export, fill_of
from oracle.mosaics import cut
from oracle.rasters import NORTH_UP, ROTATED, read_raster, write_raster
from oracle.run import DATA, needs_data, run

import geotfr

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.interop
tf = pytest.importorskip("tensorflow")

OUTPUTS = [
    ("plain", {"compressed": False}, None),
    ("fast", {"compressor": "fast"}, "GZIP"),
    ("ee", {"compressor": "ee"}, "GZIP"),
]


def parsed(paths: Sequence[Path], compression: str | None, features: dict[str, int]) -> list[dict[str, Any]]:
    """Every record of ``paths`` through ``TFRecordDataset`` and ``parse_single_example``."""
    specs = {key: tf.io.FixedLenFeature([length], tf.float32) for key, length in features.items()}
    files = [str(path) for path in paths]
    dataset = tf.data.TFRecordDataset(files, compression_type=compression)
    return [
        {key: tensor.numpy() for key, tensor in tf.io.parse_single_example(payload, specs).items()}
        for payload in dataset
    ]


@pytest.mark.parametrize(("kind", "how", "compression"), OUTPUTS, ids=[kind for kind, *_ in OUTPUTS])
@pytest.mark.parametrize("kernel", [(1, 1), (4, 4), (5, 3)])
def test_tensorflow_reads_the_values_that_rasterio_reads(
    kind: str, how: dict[str, Any], compression: str | None, kernel: tuple[int, int], tmp_path: Path
) -> None:
    random = np.random.default_rng(7)
    data = random.integers(0, 4000, (3, 70, 90)).astype("uint16")
    source = write_raster(
        tmp_path / "scene.tif", data, nodata=0, transform=ROTATED, crs="EPSG:3577", descriptions=("B4", "é", None)
    )
    options = Options(patch=(16, 12), kernel=kernel, default_value=77, max_file_size=20_000)
    geotfr.export_image(
        source,
        tmp_path / "set",
        patch_dimensions=(16, 12),
        kernel_size=kernel,
        default_value=77,
        max_file_size=20_000,
        **how,
    )
    expected = expected_export([source], options, name="set")
    shards = sorted(tmp_path.glob("set-*.tfrecord*"))
    assert len(shards) == len(expected.shards)
    margin_x, margin_y = kernel[0] // 2, kernel[1] // 2
    length = (16 + 2 * margin_x) * (12 + 2 * margin_y)
    records = parsed(shards, compression, {band.name: length for band in expected.scene.bands})
    assert len(records) == len(expected.written)
    scene = expected.scene
    for number, record in zip(expected.written, records, strict=True):
        for band in scene.bands:
            fill = fill_of(77, band.pixels.dtype)
            want = [
                band.pixels[row, col]
                if 0 <= row < scene.height and 0 <= col < scene.width and scene.valid[row, col]
                else fill
                for row, col in block_pixels(scene, options, number)
            ]
            np.testing.assert_array_equal(record[band.name], np.array(want, "float32"))


@needs_data
@pytest.mark.parametrize(("kind", "how", "compression"), OUTPUTS, ids=[kind for kind, *_ in OUTPUTS])
def test_tensorflow_reads_a_real_scene(kind: str, how: dict[str, Any], compression: str | None, tmp_path: Path) -> None:
    import rasterio

    path = DATA / "geotiff" / "RGB.byte.tif"
    geotfr.export_image(path, tmp_path / "set", patch_dimensions=128, **how)
    with rasterio.open(path) as source:
        pixels = source.read().astype("float32")
    pixels[:, (pixels == 0).any(axis=0)] = 0
    (shard,) = tmp_path.glob("set.tfrecord*")
    records = parsed([shard], compression, dict.fromkeys(("b1", "b2", "b3"), 128 * 128))
    assert len(records) == 6 * 5
    for number, record in enumerate(records):
        top, left = number // 6 * 128, number % 6 * 128
        for band in range(3):
            want = pixels[band, top : top + 128, left : left + 128].ravel()
            np.testing.assert_array_equal(record[f"b{band + 1}"], want)


def test_a_large_shard_of_many_gzip_members_is_one_stream_to_tensorflow(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    data = random.normal(0, 1, (4, 1024, 1024)).astype("float32")
    source = write_raster(tmp_path / "scene.tif", data)
    geotfr.export_image(source, tmp_path / "set", patch_dimensions=256, workers=2)
    records = parsed([tmp_path / "set.tfrecord.gz"], "GZIP", dict.fromkeys((f"b{n}" for n in range(1, 5)), 256 * 256))
    assert len(records) == 16
    for number, record in enumerate(records):
        top, left = number // 4 * 256, number % 4 * 256
        for band in range(4):
            want = data[band, top : top + 256, left : left + 256].ravel()
            np.testing.assert_array_equal(record[f"b{band + 1}"], want)


def tf_feature(values: np.ndarray) -> Any:
    """A Feature by the kind that people use for the dtype."""
    if values.dtype == np.uint8:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[values.tobytes()]))
    if values.dtype.kind == "i":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
@pytest.mark.parametrize("margin", [(0, 0), (2, 1)], ids=["trimmed", "padded"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
def test_predictions_of_tensorflow_are_ingested_right(
    dtype: str, margin: tuple[int, int], compression: str, tmp_path: Path
) -> None:
    patch, per_row, rows = (7, 5), 3, 4
    random = np.random.default_rng(11)
    picture = random.integers(0, 256, (2, rows * patch[1], per_row * patch[0])).astype(dtype)
    if dtype == "int64":
        picture[0] -= 2**40
    names = ("probability", "class id")
    shards = []
    for index, numbers in enumerate(((0, 1, 2, 3, 4), (5,), (6, 7, 8, 9, 10, 11))):
        path = tmp_path / f"pred-{index}.tfrecord"
        with tf.io.TFRecordWriter(str(path), options=compression) as writer:
            for number in numbers:
                features = {
                    name: tf_feature(cut(band, number, patch_xy=patch, margin_xy=margin))
                    for name, band in zip(names, picture, strict=True)
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
        shards.append(path)
    mixer = tmp_path / "mixer.json"
    mixer.write_text(wire.mixer_text("EPSG:32618", NORTH_UP[:6], patch, per_row, per_row * rows))
    kernel = None if margin == (0, 0) else (2 * margin[0] + 1, 2 * margin[1])
    geotfr.ingest_predictions(mixer, shards[::-1], tmp_path / "out.tif", kernel_size=kernel)
    pixels, profile, descriptions = read_raster(tmp_path / "out.tif")
    assert profile["transform"] == NORTH_UP
    assert profile["dtype"] == dtype
    # protobuf's map has no order of its own: the first record's decides, whatever it is.
    assert sorted(descriptions) == sorted(names)
    for name, band in zip(names, picture, strict=True):
        np.testing.assert_array_equal(pixels[descriptions.index(name)], band)


def test_keys_that_tensorflow_orders_anew_in_each_process_land_in_their_bands(tmp_path: Path) -> None:
    names = [f"band {letter}" for letter in "abcdefghij"]
    script = (
        "import sys, tensorflow as tf\n"
        "path, start = sys.argv[1], int(sys.argv[2])\n"
        f"names = {names!r}\n"
        "with tf.io.TFRecordWriter(path) as writer:\n"
        "    for number in range(start, start + 2):\n"
        "        feature = {name: tf.train.Feature(float_list=tf.train.FloatList(value=[number, index]))\n"
        "                   for index, name in enumerate(names)}\n"
        "        writer.write(tf.train.Example(\n"
        "            features=tf.train.Features(feature=feature)).SerializeToString())\n"
    )
    shards = [tmp_path / f"pred-{index}.tfrecord" for index in range(2)]
    for index, shard in enumerate(shards):
        subprocess.run([sys.executable, "-c", script, shard, str(2 * index)], check=True, capture_output=True)
    mixer = tmp_path / "mixer.json"
    mixer.write_text(wire.mixer_text("EPSG:32618", NORTH_UP[:6], (2, 1), 1, 4))
    geotfr.ingest_predictions(mixer, shards, tmp_path / "out.tif")
    pixels, _, descriptions = read_raster(tmp_path / "out.tif")
    assert sorted(descriptions) == names
    for index, name in enumerate(names):
        want = [[number, index] for number in range(4)]
        assert pixels[descriptions.index(name)].tolist() == want


@pytest.mark.parametrize("order", ["geotfr first", "tensorflow first"])
def test_both_load_in_one_process_in_either_order(order: str, tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.arange(16, dtype="uint8").reshape(4, 4))
    ours = (
        "import geotfr\n"
        f"geotfr.export_image({str(source)!r}, {str(tmp_path / 'set')!r}, patch_dimensions=2)\n"
        f"geotfr.ingest_predictions({str(tmp_path / 'set.json')!r}, [{str(tmp_path / 'set.tfrecord.gz')!r}],"
        f" {str(tmp_path / 'out.tif')!r})\n"
    )
    theirs = "import tensorflow as tf\ntf.train.Example().SerializeToString()\n"
    script = ours + theirs if order == "geotfr first" else theirs + ours
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    assert (tmp_path / "out.tif").exists()


def test_the_whole_way_with_a_model_between(tmp_path: Path) -> None:
    """Exported with a kernel, read by TensorFlow, 'predicted', written by TensorFlow, ingested."""
    data = np.arange(60 * 50, dtype="int16").reshape(60, 50)
    source = write_raster(tmp_path / "scene.tif", data)
    outcome = run(
        *("export", source, "--output", tmp_path / "set", "--patch-dimensions", "10", "--kernel-size", "4"),
        "--quiet",
    )
    assert outcome.code == 0, outcome.told
    specs = {"b1": tf.io.FixedLenFeature([14, 14], tf.float32)}
    predictions = tmp_path / "pred.tfrecord"
    with tf.io.TFRecordWriter(str(predictions)) as writer:
        for payload in tf.data.TFRecordDataset(str(tmp_path / "set.tfrecord.gz"), compression_type="GZIP"):
            block = tf.io.parse_single_example(payload, specs)["b1"]
            feature = {"twice": tf_feature((2 * block.numpy()).ravel())}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    outcome = run(
        *("ingest-predictions", tmp_path / "set.json", predictions, "--output", tmp_path / "out.tif"),
        *("--kernel-size", "4", "--quiet"),
    )
    assert outcome.code == 0, outcome.told
    pixels, profile, descriptions = read_raster(tmp_path / "out.tif")
    assert descriptions == ("twice",)
    assert profile["transform"] == NORTH_UP
    np.testing.assert_array_equal(pixels[0], 2 * data)


def test_the_oracles_own_bytes_are_tensorflows(tmp_path: Path) -> None:
    values = np.array([1.5, -2, 3], "float32")
    payload = wire.example([("only", wire.float_feature(values))])
    feature = {"only": tf_feature(values)}
    assert payload == tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
    ints = np.array([0, -1, 300, 2**62, -(2**63)], "int64")
    payload = wire.example([("only", wire.int64_feature(ints))])
    feature = {"only": tf_feature(ints)}
    assert payload == tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
    path = tmp_path / "records"
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(payload)
    assert path.read_bytes() == wire.frame(payload)
    assert struct.unpack("<Q", path.read_bytes()[:8]) == (len(payload),)
    assert json.loads(wire.mixer_text("", NORTH_UP[:6], (1, 1), 1, 1))["totalPatches"] == 1

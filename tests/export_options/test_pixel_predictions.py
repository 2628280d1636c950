"""Predictions of one pixel each come back: Examples and SequenceExamples in pixel order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracle import wire
from oracle.rasters import NORTH_UP, numbered, read_raster, write_raster
from oracle.run import assert_refused, run

import geotfr

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PATCH = (3, 2)
PICTURE = numbered(1, 4, 6)[0]
"""Two rows of two patches."""


def pixels_of_blocks(margin: tuple[int, int] = (0, 0)) -> list[float]:
    """The picture's values in the order of an export: patches row-major, pixels row-major within the block."""
    values = []
    for top in (0, 2):
        for left in (0, 3):
            for row in range(top - margin[1], top + 2 + margin[1]):
                for col in range(left - margin[0], left + 3 + margin[0]):
                    inside = 0 <= row < 4 and 0 <= col < 6
                    values.append(float(PICTURE[row, col]) if inside else -1.0)
    return values


def write(folder: Path, payloads: list[bytes], *, shards: int = 1) -> list[Path]:
    """A mixer of four patches, then the shards."""
    mixer = folder / "mixer.json"
    mixer.write_text(wire.mixer_text("EPSG:32618", NORTH_UP[:6], PATCH, 2, 4))
    per_shard = -(-len(payloads) // shards)
    return [
        mixer,
        *(
            wire.write_shard(folder / f"pred-{index}.tfrecord", payloads[index * per_shard : (index + 1) * per_shard])
            for index in range(shards)
        ),
    ]


def ingested(
    folder: Path, payloads: list[bytes], *more: str, shards: int = 1
) -> tuple[np.ndarray, tuple[str | None, ...]]:
    """(pixels, descriptions) of what an ingest makes of the records."""
    outcome = run(
        *("ingest-predictions", *write(folder, payloads, shards=shards), "--output", folder / "out.tif", "--quiet"),
        *more,
    )
    assert outcome.code == 0, outcome.told
    pixels, profile, descriptions = read_raster(folder / "out.tif")
    assert profile["transform"] == NORTH_UP
    return pixels, descriptions


FEATURES: dict[str, tuple[Callable[[float], bytes], str]] = {
    "float": (lambda value: wire.float_feature([value]), "float32"),
    "int64": (lambda value: wire.int64_feature([int(value)]), "int64"),
    "bytes": (lambda value: wire.bytes_feature([bytes([int(value) % 256])]), "uint8"),
}


@pytest.mark.parametrize("kind", FEATURES)
@pytest.mark.parametrize("shards", [1, 5])
def test_an_example_for_each_pixel_makes_the_raster(kind: str, shards: int, tmp_path: Path) -> None:
    feature, dtype = FEATURES[kind]
    payloads = [wire.example([("p", feature(value)), ("q", feature(value + 100))]) for value in pixels_of_blocks()]
    pixels, descriptions = ingested(tmp_path, payloads, shards=shards)
    assert descriptions == ("p", "q")
    assert pixels.dtype == dtype
    assert np.array_equal(pixels, [PICTURE, PICTURE + 100])


def test_the_margins_pixels_are_thrown_away(tmp_path: Path) -> None:
    payloads = [wire.example([("p", wire.float_feature([value]))]) for value in pixels_of_blocks((1, 2))]
    pixels, _ = ingested(tmp_path, payloads, "--kernel-size", "2x4")
    assert np.array_equal(pixels, [PICTURE])


def test_the_context_of_a_sequence_example_is_a_band(tmp_path: Path) -> None:
    payloads = [
        wire.sequence_example([("p", wire.float_feature([value])), ("class", wire.int64_feature([int(value)]))], [])
        for value in pixels_of_blocks()
    ]
    pixels, descriptions = ingested(tmp_path, payloads)
    assert descriptions == ("p", "class")
    assert np.array_equal(pixels, [PICTURE, PICTURE])


def test_each_step_of_a_feature_list_is_a_band(tmp_path: Path) -> None:
    payloads = [
        wire.sequence_example(
            [("p", wire.float_feature([value]))],
            [("evi", [wire.float_feature([value + 100 * step]) for step in range(3)])],
        )
        for value in pixels_of_blocks()
    ]
    pixels, descriptions = ingested(tmp_path, payloads)
    assert descriptions == ("p", "evi_0", "evi_1", "evi_2")
    assert np.array_equal(pixels, [PICTURE, PICTURE, PICTURE + 100, PICTURE + 200])


@pytest.mark.parametrize("kinds", ["float", "native"])
@pytest.mark.parametrize("collapse", [False, True])
@pytest.mark.parametrize("edge", ["drop", "pad"])
def test_exported_sequences_come_back_as_the_bands_they_were(
    kinds: str, collapse: bool, edge: str, tmp_path: Path
) -> None:
    data = numbered(4, 5, 7, "int16")
    source = write_raster(tmp_path / "scene.tif", data, descriptions=("a", "b", "c", "d"))
    result = geotfr.export_image(
        source,
        tmp_path / "set",
        patch_dimensions=(3, 2),
        kernel_size=(3, 2),
        array_bands=["t=2-3"],
        tensor_depths="t=2",
        sequence_data=True,
        feature_kinds=kinds,
        collapse_bands=collapse,
        edge=edge,
        max_file_size=4000,
    )
    assert len(result.shards) > 1
    geotfr.ingest_predictions(result.mixer, result.shards, tmp_path / "back.tif")
    pixels, profile, descriptions = read_raster(tmp_path / "back.tif")
    assert descriptions == (("a_0", "a_1", "a_2", "a_3") if collapse else ("a", "d", "t_0", "t_1"))
    want = data[[0, 3, 1, 2]]
    assert np.array_equal(pixels, want if edge == "pad" else want[:, :4, :6])
    assert profile["transform"] == NORTH_UP


@pytest.mark.parametrize("kinds", ["float", "native"])
def test_exported_tensors_come_back_as_a_band_for_each_element(kinds: str, tmp_path: Path) -> None:
    data = numbered(4, 4, 6, "int16")
    source = write_raster(tmp_path / "scene.tif", data, descriptions=("a", "b", "c", "d"))
    result = geotfr.export_image(
        source,
        tmp_path / "set",
        patch_dimensions=(3, 2),
        kernel_size=(3, 2),
        array_bands=["t=2-3"],
        tensor_depths="t=2",
        feature_kinds=kinds,
    )
    geotfr.ingest_predictions(result.mixer, result.shards, tmp_path / "back.tif")
    pixels, _, descriptions = read_raster(tmp_path / "back.tif")
    assert descriptions[:2] == ("a", "d")
    assert np.array_equal(pixels, data[[0, 3, 1, 2]])


@pytest.mark.parametrize("kinds", ["float", "native"])
def test_collapsed_patches_come_back_as_a_band_for_each_channel(kinds: str, tmp_path: Path) -> None:
    data = numbered(3, 4, 6, "uint8")
    source = write_raster(tmp_path / "scene.tif", data)
    result = geotfr.export_image(
        source, tmp_path / "set", patch_dimensions=(3, 2), collapse_bands=True, feature_kinds=kinds
    )
    geotfr.ingest_predictions(result.mixer, result.shards, tmp_path / "back.tif")
    pixels, _, _ = read_raster(tmp_path / "back.tif")
    assert pixels.dtype == np.uint8
    assert np.array_equal(pixels, data)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda payloads: payloads[:-1], ("23", "24")),
        (lambda payloads: [*payloads, payloads[0]], ("25", "24")),
    ],
    ids=["one too few", "one too many"],
)
@pytest.mark.parametrize("message", ["Example", "SequenceExample"])
def test_a_wrong_number_of_pixels_is_told_before_any_output(
    change: Callable[[list[bytes]], list[bytes]], words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    payloads = [
        wire.example([("p", wire.float_feature([value]))])
        if message == "Example"
        else wire.sequence_example([("p", wire.float_feature([value]))], [("t", [wire.float_feature([value])] * 2)])
        for value in pixels_of_blocks()
    ]
    paths = write(tmp_path, change(payloads))
    outcome = run("ingest-predictions", *paths, "--output", tmp_path / "out.tif", "--quiet")
    assert_refused(outcome, 12, "pred-0.tfrecord", *words)
    assert not (tmp_path / "out.tif").exists()


@pytest.mark.parametrize(
    "odd",
    [
        wire.sequence_example([("p", wire.float_feature([1]))], [("t", [wire.float_feature([1])] * 3)]),
        wire.sequence_example([("p", wire.float_feature([1, 2]))], [("t", [wire.float_feature([1])] * 2)]),
        wire.sequence_example([], [("t", [wire.float_feature([1])] * 2)]),
        wire.sequence_example([("p", wire.float_feature([1]))], []),
        wire.sequence_example([("p", wire.float_feature([1]))], [("t", [wire.float_feature([1, 2])] * 2)]),
        wire.sequence_example([("p", wire.int64_feature([1]))], [("t", [wire.float_feature([1])] * 2)]),
    ],
    ids=["a step more", "two values", "no context", "no list", "two values a step", "another kind"],
)
def test_a_pixel_unlike_the_others_is_told_by_file_and_record_before_any_output(odd: bytes, tmp_path: Path) -> None:
    payloads = [
        wire.sequence_example([("p", wire.float_feature([value]))], [("t", [wire.float_feature([value])] * 2)])
        for value in pixels_of_blocks()
    ]
    payloads[17] = odd
    paths = write(tmp_path, payloads)
    outcome = run("ingest-predictions", *paths, "--output", tmp_path / "out.tif", "--quiet")
    assert_refused(outcome, 12, "pred-0.tfrecord", "17")
    assert not (tmp_path / "out.tif").exists()

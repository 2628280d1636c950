"""One SequenceExample per pixel: parts, order, counts, kinds, shards."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracle import wire
from oracle.rasters import numbered, write_raster
from oracle.run import assert_refused, run

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

Pixel = tuple[dict[str, list[object]], dict[str, list[list[object]]]]


def plain(values: wire.Value) -> list[object]:
    """Values as a list."""
    return values if isinstance(values, list) else values.tolist()


def exported(source: Path, folder: Path, **options: object) -> list[Pixel]:
    """(context, lists) of each record."""
    folder.mkdir(exist_ok=True)
    result = geotfr.export_image(source, folder / "set", compressed=False, sequence_data=True, **options)
    records = [record for shard in result.shards for record in wire.read_sequences(shard)]
    return [
        (
            {key: plain(values) for key, values in context.items()},
            {key: [plain(step) for step in steps] for key, steps in lists.items()},
        )
        for context, lists in records
    ]


def test_pixels_are_row_major_in_the_patch_and_patches_row_major_in_the_grid(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 4, 6))
    pixels = exported(source, tmp_path / "out", patch_dimensions=(3, 2))
    assert [context["b1"] for context, _ in pixels] == [
        [value] for value in (1, 2, 3, 7, 8, 9, 4, 5, 6, 10, 11, 12, 13, 14, 15, 19, 20, 21, 16, 17, 18, 22, 23, 24)
    ]


def test_the_whole_block_is_written_its_margin_included(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 2, 2))
    pixels = exported(source, tmp_path / "out", patch_dimensions=1, kernel_size=2, default_value=9)
    assert len(pixels) == 4 * 9
    assert [context["b1"][0] for context, _ in pixels[:9]] == [9, 9, 9, 9, 1, 2, 9, 3, 4]
    mixer = json.loads((tmp_path / "out" / "set.json").read_text())
    assert (mixer["patchDimensions"], mixer["patchesPerRow"], mixer["totalPatches"]) == ([1, 1], 2, 4)


def test_scalar_bands_are_the_context_and_array_bands_the_feature_lists(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(4, 1, 2), descriptions=("a", "b", "c", "d"))
    pixels = exported(
        source, tmp_path / "out", patch_dimensions=(2, 1), array_bands=["evi=2-3"], tensor_depths={"evi": 3}
    )
    assert pixels == [
        ({"a": [1], "d": [7]}, {"evi": [[3], [5], [0]]}),
        ({"a": [2], "d": [8]}, {"evi": [[4], [6], [0]]}),
    ]
    assert list(pixels[0][0]) == ["a", "d"]


def test_a_part_that_holds_nothing_is_left_out(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(2, 1, 1))
    scalars = exported(source, tmp_path / "scalars", patch_dimensions=1)
    assert scalars == [({"b1": [1], "b2": [2]}, {})]
    arrays = exported(source, tmp_path / "arrays", patch_dimensions=1, array_bands=["t=1-2"], tensor_depths="t=2")
    assert arrays == [({}, {"t": [[1], [2]]})]
    # The bytes, by hand: field 1 holds the context, field 2 the lists, and neither is there empty.
    (payload,) = wire.unframe((tmp_path / "scalars" / "set.tfrecord").read_bytes())
    assert payload[0] == 0x0A
    (payload,) = wire.unframe((tmp_path / "arrays" / "set.tfrecord").read_bytes())
    steps = b"".join(b"\x0a\x08\x12\x06\x0a\x04" + np.float32(value).tobytes() for value in (1, 2))
    entry = b"\x0a\x01t\x12" + bytes([len(steps)]) + steps
    assert payload == b"\x12" + bytes([len(entry) + 2]) + b"\x0a" + bytes([len(entry)]) + entry


def test_collapsed_bands_are_one_series_without_context(tmp_path: Path) -> None:
    source = write_raster(
        tmp_path / "scene.tif", numbered(4, 1, 2, "uint16"), descriptions=("a", "b", "c", "d"), nodata=6
    )
    pixels = exported(
        source,
        tmp_path / "out",
        patch_dimensions=(2, 1),
        array_bands=["evi=2-3"],
        tensor_depths={"evi": 3},
        collapse_bands=True,
        default_value=70000,
    )
    assert pixels == [
        ({}, {"a": [[1], [7], [3], [5], [65535]]}),
        ({}, {"a": [[2], [8], [4], [65535], [65535]]}),
    ]


@pytest.mark.parametrize(
    ("dtype", "values"), [("uint8", [b"\x01"]), ("int16", [1]), ("float32", [1.0]), ("uint32", [1])]
)
def test_native_kinds_hold_for_each_value_and_each_step(dtype: str, values: list[object], tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.ones((2, 1, 1), dtype), descriptions=("a", "b"))
    pixels = exported(
        source,
        tmp_path / "out",
        patch_dimensions=1,
        bands=["a"],
        array_bands=["t=1-2"],
        tensor_depths="t=2",
        feature_kinds="native",
    )
    assert pixels == [({"a": values}, {"t": [values, values]})]
    assert type(pixels[0][0]["a"][0]) is type(values[0])


def test_masked_pixels_are_written_and_dropped_patches_take_all_their_pixels_with_them(tmp_path: Path) -> None:
    data = np.array([[1, 0, 3, 4], [5, 6, 7, 8]], "uint8")
    source = write_raster(tmp_path / "scene.tif", data, nodata=0)
    pixels = exported(source, tmp_path / "all", patch_dimensions=2, default_value=9)
    assert [context["b1"][0] for context, _ in pixels] == [1, 9, 5, 6, 3, 4, 7, 8]
    kept = exported(source, tmp_path / "some", patch_dimensions=2, default_value=9, masked_threshold=0)
    assert [context["b1"][0] for context, _ in kept] == [3, 4, 7, 8]
    assert not (tmp_path / "some" / "set.json").exists()
    manifest = json.loads((tmp_path / "some" / "set-manifest.json").read_text())
    assert manifest["patches_dropped"] == [0]


@pytest.mark.parametrize("kinds", ["float", "native"])
def test_a_shard_may_end_inside_a_patch(kinds: str, tmp_path: Path) -> None:
    data = np.array([[1, 300, 70000], [2**31, 5, 6]], "uint32")
    source = write_raster(tmp_path / "scene.tif", data)
    whole = exported(source, tmp_path / "one", patch_dimensions=(3, 2), feature_kinds=kinds)
    records = wire.unframe((tmp_path / "one" / "set.tfrecord").read_bytes())
    limit = len(wire.frame(records[0])) + len(wire.frame(records[1]))
    parts = exported(source, tmp_path / "some", patch_dimensions=(3, 2), feature_kinds=kinds, max_file_size=limit)
    assert parts == whole
    shards = sorted((tmp_path / "some").glob("*.tfrecord"))
    assert len(shards) > 2
    # A record is appended until the next one would pass the limit.
    sizes = [len(wire.frame(record)) for record in records]
    filled = [0]
    for size in sizes:
        if filled[-1] and filled[-1] + size > limit:
            filled.append(0)
        filled[-1] += size
    assert [shard.stat().st_size for shard in shards] == filled


def test_the_manifest_counts_records_and_patches(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 4, 4))
    exported(source, tmp_path / "out", patch_dimensions=2, kernel_size=2)
    manifest = json.loads((tmp_path / "out" / "set-manifest.json").read_text())
    assert sum(shard["records"] for shard in manifest["shards"]) == 4 * 16
    assert manifest["patches_written"] == 4


def test_a_patch_index_has_no_place_in_a_sequence(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 2, 2))
    outcome = run(
        *("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2", "--quiet"),
        *("--sequence-data", "--patch-index", "number"),
    )
    assert_refused(outcome, 2, "patch", "sequence")
    assert not list(tmp_path.glob("set*"))


def test_the_command_line_asks_for_sequences_too(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(3, 2, 2))
    common = ("export", source, "--patch-dimensions", "2", "--quiet", "--array-band", "t=2-3", "--tensor-depths", "t=2")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    flags = run(*common, "--output", tmp_path / "a" / "set", "--sequence-data", "--collapse-bands")
    assert flags.code == 0, flags.told
    options = json.dumps({"sequenceData": True, "collapseBands": True})
    given = run(*common, "--output", tmp_path / "b" / "set", "--format-options", options)
    assert given.code == 0, given.told
    assert (tmp_path / "a" / "set.tfrecord.gz").read_bytes() == (tmp_path / "b" / "set.tfrecord.gz").read_bytes()
    assert wire.read_sequences(tmp_path / "a" / "set.tfrecord.gz")[0][1]["b1"][0].tolist() == [1]


def test_the_speed_that_is_told_counts_all_records_of_a_patch(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 256, 256))
    options = {"patch_dimensions": 128, "sequence_data": True, "compressed": False}
    result = geotfr.export_image(source, tmp_path / "set", **options)
    written = sum(path.stat().st_size for path in result.shards)
    assert written > 2e6
    assert f" ({written / 1e6:,.0f} MB/s)" in replace(result, seconds=1.0).to_text()

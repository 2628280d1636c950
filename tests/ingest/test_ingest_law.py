"""The law of an ingest: each pixel lands where the mixer and the record's number say."""

from __future__ import annotations

import itertools
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import wire
from oracle.mosaics import mosaic
from oracle.rasters import NORTH_UP, ROTATED, SOUTH_UP, numbered, read_raster
from oracle.sets import write_set
from rasterio.transform import Affine

import geotfr

PLACES: list[tuple[Affine, str]] = [
    (NORTH_UP, "EPSG:32618"),
    (SOUTH_UP, "EPSG:4326"),
    (ROTATED, "EPSG:3577"),
    (Affine(20, 0, 50200, 0, -20, 7799840), "EPSG:32735"),
    (Affine(8.983152841195215e-05, 0, 12.5, 0, -8.983152841195215e-05, 41.25), "EPSG:4326"),
]
KINDS = ["float", "int64", "bytes"]


@dataclass(frozen=True)
class Predictions:
    """Records of one grid, and how they are spread over files."""

    patch: tuple[int, int]
    margin: tuple[int, int]
    rows: int
    per_row: int
    kinds: dict[str, str]
    place: int
    compressions: list[str]
    padded: bool
    seed: int

    @property
    def total(self) -> int:
        """Patches of the grid."""
        return self.rows * self.per_row

    @property
    def side_margin(self) -> tuple[int, int]:
        """The margin that the records really have."""
        return self.margin if self.padded else (0, 0)

    def write(self, folder: Path) -> tuple[Path, list[Path], list[dict[str, Any]]]:
        """(mixer, shards in their order, decoded records)."""
        source = np.random.default_rng(self.seed)
        width, height = (self.patch[axis] + 2 * self.side_margin[axis] for axis in (0, 1))
        records: list[dict[str, Any]] = []
        payloads: list[bytes] = []
        for _ in range(self.total):
            record: dict[str, Any] = {}
            features = []
            for key, kind in self.kinds.items():
                if kind == "float":
                    record[key] = source.normal(0, 100, width * height).astype("float32")
                    features.append((key, wire.float_feature(record[key])))
                elif kind == "int64":
                    record[key] = source.integers(-(2**20), 2**20, width * height)
                    features.append((key, wire.int64_feature(record[key])))
                else:
                    record[key] = [source.integers(0, 256, width * height, "uint8").tobytes()]
                    features.append((key, wire.bytes_feature(record[key])))
            records.append(record)
            payloads.append(wire.example(features))
        cuts = sorted(source.integers(1, self.total, len(self.compressions) - 1)) if self.total > 1 else []
        edges = sorted({0, self.total, *map(int, cuts)})
        shards = [
            wire.write_shard(
                folder / f"pred-{index}.tfrecord",
                payloads[start:stop],
                compression=self.compressions[index],
            )
            for index, (start, stop) in enumerate(itertools.pairwise(edges))
        ]
        transform, crs = PLACES[self.place]
        mixer = folder / "scene-mixer.json"
        mixer.write_text(wire.mixer_text(crs, transform[:6], self.patch, self.per_row, self.total))
        return mixer, shards, records


@st.composite
def predictions(draw: st.DrawFn, kinds: list[str] | None = None) -> Predictions:
    names = draw(st.lists(st.sampled_from(["b1", "é", "an id", "Z"]), min_size=1, max_size=3, unique=True))
    # Patches of 3 and more with margins of 1 and more: a padded length is then no multiple of a trimmed one.
    patch = draw(st.sampled_from([(3, 3), (5, 3), (4, 7), (7, 5), (5, 5)]))
    return Predictions(
        patch=patch,
        margin=draw(st.sampled_from([(1, 1), (2, 1), (0, 1), (1, 0)])),
        rows=draw(st.integers(1, 4)),
        per_row=draw(st.integers(1, 4)),
        kinds={name: draw(st.sampled_from(kinds or KINDS)) for name in names},
        place=draw(st.integers(0, len(PLACES) - 1)),
        compressions=draw(st.lists(st.sampled_from(["", "GZIP", "ZLIB"]), min_size=1, max_size=4)),
        padded=draw(st.booleans()),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=predictions(), shuffle=st.randoms(use_true_random=False))
def test_every_pixel_lands_in_its_place(case: Predictions, shuffle: random.Random) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        mixer, shards, records = case.write(Path(temporary))
        shuffle.shuffle(shards)
        out = Path(temporary) / "out.tif"
        kernel = (2 * case.margin[0] + 1, 2 * case.margin[1] + 1) if case.padded else None
        geotfr.ingest_predictions(mixer, shards, out, kernel_size=kernel)
        pixels, profile, descriptions = read_raster(out)
        transform, crs = PLACES[case.place]
        assert profile["transform"] == transform
        assert profile["crs"].to_string() == crs
        assert descriptions == tuple(case.kinds)
        for band, key in enumerate(case.kinds):
            want = mosaic(
                records,
                key,
                patch_xy=case.patch,
                margin_xy=case.side_margin,
                patches_per_row=case.per_row,
            )
            np.testing.assert_array_equal(pixels[band], want)


@pytest.mark.parametrize(("dtype", "kind"), [("float32", "float32"), ("int64", "int64"), ("uint8", "uint8")])
def test_the_default_type_is_the_features(dtype: str, kind: str, tmp_path: Path) -> None:
    bands = numbered(1, 6, 8, dtype)
    mixer, shards = write_set(tmp_path, bands, patch=(4, 3))
    geotfr.ingest_predictions(mixer, shards, tmp_path / "out.tif")
    pixels, profile, _ = read_raster(tmp_path / "out.tif")
    assert pixels.dtype == kind
    assert profile["nodata"] is None
    np.testing.assert_array_equal(pixels, bands)


@pytest.mark.parametrize(
    ("values", "smallest"),
    [
        ([0, 255], "uint8"),
        ([-1, 127], "int8"),
        ([0, 256], "uint16"),
        ([-129, 0], "int16"),
        ([0, 2**31], "uint32"),
    ],
)
def test_dtype_auto_is_the_smallest_integer_that_holds_the_values(
    values: list[int], smallest: str, tmp_path: Path
) -> None:
    bands = np.resize(np.array(values, "int64"), (1, 4, 4))
    mixer, shards = write_set(tmp_path, bands, patch=(2, 2))
    geotfr.ingest_predictions(mixer, shards, tmp_path / "out.tif", dtype="auto")
    pixels, _, _ = read_raster(tmp_path / "out.tif")
    assert pixels.dtype == smallest
    np.testing.assert_array_equal(pixels, bands)


def test_bands_chosen_by_name_come_in_the_order_asked(tmp_path: Path) -> None:
    bands = numbered(3, 4, 4)
    mixer, shards = write_set(tmp_path, bands, patch=(2, 2), names=("red", "green", "blue"))
    geotfr.ingest_predictions(mixer, shards, tmp_path / "out.tif", bands=["blue", "red"])
    pixels, _, descriptions = read_raster(tmp_path / "out.tif")
    assert descriptions == ("blue", "red")
    np.testing.assert_array_equal(pixels, bands[[2, 0]])


def test_the_margin_is_inferred_for_a_square_patch_with_an_even_excess(tmp_path: Path) -> None:
    bands = numbered(2, 10, 15)
    mixer, shards = write_set(tmp_path, bands, patch=(5, 5), margin=(2, 2), names=("a", "b"))
    geotfr.ingest_predictions(mixer, shards, tmp_path / "out.tif")
    pixels, _, _ = read_raster(tmp_path / "out.tif")
    np.testing.assert_array_equal(pixels, bands)


@pytest.mark.parametrize(("whole", "margin", "patch"), [(384, 64, 256), (288, 16, 256)])
def test_records_trimmed_as_users_do_are_read_as_trimmed(whole: int, margin: int, patch: int, tmp_path: Path) -> None:
    # The U-Net demo cuts 64 of 384 on each side before upload, earth-ml 16 of 288.
    block = numbered(1, whole, whole)[0]
    trimmed = block[margin:-margin, margin:-margin]
    assert trimmed.shape == (patch, patch)
    path = wire.write_shard(tmp_path / "pred.tfrecord", [wire.example([("b1", wire.float_feature(trimmed.ravel()))])])
    mixer = tmp_path / "mixer.json"
    mixer.write_text(wire.mixer_text("EPSG:32618", NORTH_UP[:6], (patch, patch), 1, 1))
    geotfr.ingest_predictions(mixer, [path], tmp_path / "out.tif", kernel_size=whole - patch)
    pixels, _, _ = read_raster(tmp_path / "out.tif")
    np.testing.assert_array_equal(pixels[0], trimmed)


def test_the_output_is_a_tiled_deflated_geotiff(tmp_path: Path) -> None:
    mixer, shards = write_set(tmp_path, numbered(1, 600, 600), patch=(300, 300))
    geotfr.ingest_predictions(mixer, shards, tmp_path / "out.tif")
    _, profile, _ = read_raster(tmp_path / "out.tif")
    assert profile["driver"] == "GTiff"
    assert profile["tiled"] is True
    assert profile["compress"].lower() == "deflate"


def test_creation_options_and_nodata_reach_the_file(tmp_path: Path) -> None:
    bands = numbered(1, 4, 4)
    mixer, shards = write_set(tmp_path, bands, patch=(2, 2))
    geotfr.ingest_predictions(
        mixer, shards, tmp_path / "out.tif", nodata=-1, dtype="int16", creation_options={"COMPRESS": "LZW"}
    )
    pixels, profile, _ = read_raster(tmp_path / "out.tif")
    assert (pixels.dtype, profile["nodata"], profile["compress"].lower()) == (np.int16, -1, "lzw")
    np.testing.assert_array_equal(pixels, bands)


def test_two_ingests_of_the_same_records_give_the_same_file(tmp_path: Path) -> None:
    mixer, shards = write_set(tmp_path, numbered(1, 6, 6), patch=(3, 3))
    geotfr.ingest_predictions(mixer, shards, tmp_path / "a.tif")
    geotfr.ingest_predictions(mixer, shards, tmp_path / "b.tif")
    assert (tmp_path / "a.tif").read_bytes() == (tmp_path / "b.tif").read_bytes()


def test_int64_values_beyond_the_reach_of_doubles_are_kept_exactly(tmp_path: Path) -> None:
    bands = np.array([[[2**62 + 1, -(2**63)], [2**53 + 1, 2**63 - 1]]], "int64")
    mixer, shards = write_set(tmp_path, bands, patch=(2, 2))
    geotfr.ingest_predictions(mixer, shards, tmp_path / "out.tif")
    pixels, _, _ = read_raster(tmp_path / "out.tif")
    np.testing.assert_array_equal(pixels, bands)


def test_nan_and_infinity_are_kept(tmp_path: Path) -> None:
    bands = np.array([[[np.nan, np.inf], [-np.inf, -0.0]]], "float32")
    mixer, shards = write_set(tmp_path, bands, patch=(2, 2))
    geotfr.ingest_predictions(mixer, shards, tmp_path / "out.tif")
    pixels, _, _ = read_raster(tmp_path / "out.tif")
    assert pixels.tobytes() == bands.tobytes()


def test_keys_in_another_order_in_every_record_land_in_their_bands(tmp_path: Path) -> None:
    payloads = []
    for number in range(4):
        features = [("a", wire.float_feature([number])), ("b", wire.float_feature([number + 10]))]
        payloads.append(wire.example(features if number % 2 == 0 else features[::-1]))
    path = wire.write_shard(tmp_path / "pred.tfrecord", payloads)
    mixer = tmp_path / "mixer.json"
    mixer.write_text(wire.mixer_text("EPSG:32618", NORTH_UP[:6], (1, 1), 2, 4))
    geotfr.ingest_predictions(mixer, [path], tmp_path / "out.tif")
    pixels, _, descriptions = read_raster(tmp_path / "out.tif")
    assert descriptions == ("a", "b")
    np.testing.assert_array_equal(pixels, [[[0, 1], [2, 3]], [[10, 11], [12, 13]]])


def test_unpacked_lists_are_read_like_packed_ones(tmp_path: Path) -> None:
    values = np.array([1.5, -2, 3, 4], "<f4")
    # FloatList.value unpacked: tag 0x0d (field 1, 32 bits) before each value.
    unpacked = wire.field(2, b"".join(b"\x0d" + value.tobytes() for value in values))
    path = wire.write_shard(tmp_path / "pred.tfrecord", [wire.example([("b1", unpacked)])])
    mixer = tmp_path / "mixer.json"
    mixer.write_text(wire.mixer_text("EPSG:32618", NORTH_UP[:6], (2, 2), 1, 1))
    geotfr.ingest_predictions(mixer, [path], tmp_path / "out.tif")
    pixels, _, _ = read_raster(tmp_path / "out.tif")
    np.testing.assert_array_equal(pixels.ravel(), values)

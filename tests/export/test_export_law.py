"""The law of an export: whatever the raster and the options, the files are the oracle's."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from oracle import wire
from oracle.images import Options, assert_export, expected_export
from oracle.rasters import NORTH_UP, ROTATED, SOUTH_UP, write_raster
from oracle.run import contents
from rasterio.transform import Affine

import geotfr

PLACES: list[tuple[Affine, str | None]] = [
    (NORTH_UP, "EPSG:32618"),
    (SOUTH_UP, "EPSG:4326"),
    (ROTATED, "EPSG:3577"),
    (Affine(8.983152841195215e-05, 0, 12.5, 0, -8.983152841195215e-05, 41.25), "EPSG:4326"),
    (Affine(300.0379266750948, 0, 1e7, 0, -300.041782729805, 12345678.9), "EPSG:3857"),
]
EXTREMES: dict[str, list[float]] = {
    "uint8": [0, 1, 255],
    "int8": [-128, -1, 0, 127],
    "uint16": [0, 7, 65535],
    "int16": [-32768, -9999, 0, 32767],
    "int32": [-(2**24), -9999, 0, 2**24],
    "uint32": [0, 5, 2**24],
    "float32": [0, -9999, 1.5, -0.0, float("nan"), float("inf"), 1e-45, -3.4028234663852886e38],
    "float64": [0, -9999, 0.1, -0.0, float("nan"), float("-inf"), 3.0],
}
MASKS = ["none", "nodata", "nan", "internal", "external", "alpha", "nodata+internal", "nodata+alpha"]


@dataclass(frozen=True)
class Case:
    """A raster to make and the options to export it with."""

    data: np.ndarray
    valid: np.ndarray
    masks: str
    nodata: float | None
    place: int
    options: Options

    def write(self, folder: Path) -> Path:
        """The raster, in ``folder``."""
        transform, crs = PLACES[self.place]
        return write_raster(
            folder / "scene.tif",
            self.data,
            transform=transform,
            crs=crs,
            nodata=self.nodata,
            mask=self.valid if "ternal" in self.masks else None,
            external_mask="external" in self.masks,
            alpha=self.valid * 255 if "alpha" in self.masks else None,
        )

    def keywords(self) -> dict[str, Any]:
        """The options as the Python interface takes them."""
        options = self.options
        return {
            "patch_dimensions": options.patch,
            "kernel_size": options.kernel,
            "default_value": options.default_value,
            "masked_threshold": options.masked_threshold,
            "max_file_size": options.max_file_size,
            "compressed": options.compressed,
            "naming": options.naming,
        }


@st.composite
def cases(draw: st.DrawFn) -> Case:
    dtype = draw(st.sampled_from(sorted(EXTREMES)))
    masks = draw(st.sampled_from(MASKS))
    if "alpha" in masks:
        dtype = draw(st.sampled_from(["uint8", "uint16"]))
    width, height, count = draw(st.integers(1, 13)), draw(st.integers(1, 13)), draw(st.integers(1, 3))
    patch = draw(st.integers(1, min(width, 6))), draw(st.integers(1, min(height, 6)))
    kernel = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    pool = np.array(EXTREMES[dtype]).astype(dtype)
    pool = np.concatenate([pool, random.integers(0, 100, 20).astype(dtype)])
    data = random.choice(pool, (count, height, width))
    record_bytes = (patch[0] + kernel[0]) * (patch[1] + kernel[1]) * 4 * count + 60 * count
    nodata: float | None = None
    if "nodata" in masks:
        nodata = draw(st.sampled_from([0.0, float(EXTREMES[dtype][1])]))
    elif masks == "nan" and dtype.startswith("float"):
        nodata = float("nan")
    threshold = draw(st.sampled_from([1.0, 1.0, 0.0, 0.25, 0.5]))
    return Case(
        data=data,
        valid=random.random((height, width)) < draw(st.sampled_from([0.1, 0.5, 0.9])),
        masks=masks,
        nodata=nodata,
        place=draw(st.integers(0, len(PLACES) - 1)),
        options=Options(
            patch=patch,
            kernel=kernel,
            default_value=draw(st.sampled_from([0, 9, -5, 300, -9999])),
            masked_threshold=threshold,
            max_file_size=draw(st.sampled_from([1, record_bytes, 3 * record_bytes, 1 << 30])),
            compressed=draw(st.booleans()),
            naming=draw(st.sampled_from(["drive", "cloud-storage"])),
        ),
    )


def export(case: Case, source: Path, folder: Path, name: str, **more: Any) -> Any:
    """Export ``source``, the hypothesis case's raster."""
    folder.mkdir(exist_ok=True)
    if not case.options.compressed:
        more.pop("compressor", None)  # to name one for plain shards is a contradiction
    return geotfr.export_image(source, f"{folder}/{name}", **case.keywords(), **more)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases(), compressor=st.sampled_from(["fast", "ee"]), name=st.sampled_from(["set", "", "a b[c]é"]))
def test_the_files_are_the_oracles_for_any_raster_and_options(case: Case, compressor: str, name: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        source = case.write(Path(temporary))
        before = contents(Path(temporary))
        out = Path(temporary) / "out"
        export(case, source, out, name, compressor=compressor, workers=1)
        assert_export(out, expected_export([source], case.options, name=name), compressor=compressor)
        assert {key: value for key, value in contents(Path(temporary)).items() if key in before} == before


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases(), compressor=st.sampled_from(["fast", "ee"]))
def test_two_workers_give_the_bytes_of_one(case: Case, compressor: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        source = case.write(Path(temporary))
        one, two = Path(temporary) / "one", Path(temporary) / "elsewhere two"
        export(case, source, one, "set", compressor=compressor, workers=1)
        export(case, source, two, "set", compressor=compressor, workers=2)
        assert contents(one) == contents(two)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases())
def test_export_then_ingest_gives_the_same_pixels_and_georeference(case: Case) -> None:
    import rasterio
    from oracle.images import fill_of, read_scene

    options = case.options
    plain = Options(
        patch=options.patch,
        kernel=options.kernel,
        default_value=options.default_value,
        max_file_size=options.max_file_size,
    )
    with tempfile.TemporaryDirectory() as temporary:
        source = case.write(Path(temporary))
        out = Path(temporary) / "out"
        export(Case(case.data, case.valid, case.masks, case.nodata, case.place, plain), source, out, "set")
        shards = sorted(out.glob("*.tfrecord.gz"))
        mixer = out / ("set.json" if len(shards) == 1 else "set-mixer.json")
        geotfr.ingest_predictions(mixer, shards, Path(temporary) / "back.tif", kernel_size=options.kernel)
        scene = read_scene([source], plain)
        with rasterio.open(source) as want, rasterio.open(Path(temporary) / "back.tif") as got:
            assert got.transform == want.transform
            assert got.crs == want.crs
            assert got.width == want.width // options.patch[0] * options.patch[0]
            assert got.height == want.height // options.patch[1] * options.patch[1]
            assert list(got.descriptions) == [band.name for band in scene.bands]
            for number, band in enumerate(scene.bands, 1):
                fill = fill_of(options.default_value, band.pixels.dtype)
                with np.errstate(over="ignore"):
                    kept = np.where(scene.valid, band.pixels.astype("float32"), fill)
                np.testing.assert_array_equal(got.read(number), kept[: got.height, : got.width])


KERNELS = [(1, 1), (2, 2), (3, 5), (4, 1), (33, 32)]


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_margin_is_half_the_kernel_on_each_side(kernel: tuple[int, int], tmp_path: Path) -> None:
    data = np.arange(1, 8 * 6 + 1, dtype="uint8").reshape(6, 8)
    source = write_raster(tmp_path / "scene.tif", data)
    options = Options(patch=(3, 2), kernel=kernel, compressed=False, default_value=200)
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image(
        source, out / "set", patch_dimensions=(3, 2), kernel_size=kernel, compressed=False, default_value=200
    )
    assert_export(out, expected_export([source], options, name="set"))


def test_kernel_zero_is_taken_as_one(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.ones((4, 4), "uint8"))
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image(source, out / "set", patch_dimensions=2, kernel_size=0)
    assert_export(out, expected_export([source], Options(patch=(2, 2)), name="set"))


def test_a_band_selection_keeps_its_order_and_masks_by_its_own_bands_only(tmp_path: Path) -> None:
    data = np.array([[[1, 2], [3, 4]], [[0, 6], [7, 8]], [[9, 10], [0, 12]]], "uint8")
    source = write_raster(tmp_path / "scene.tif", data, nodata=0)
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image(source, out / "set", patch_dimensions=2, bands=[3, 1], default_value=77)
    options = Options(patch=(2, 2), bands=[3, 1], default_value=77)
    assert_export(out, expected_export([source], options, name="set"))


def test_sources_on_one_grid_are_stacked_and_named_by_their_files(tmp_path: Path) -> None:
    red = write_raster(tmp_path / "red.tif", np.arange(16, dtype="uint16").reshape(4, 4), nodata=3)
    rest = write_raster(tmp_path / "rest.tif", np.arange(32, dtype="float32").reshape(2, 4, 4), nodata=9)
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image([red, rest], out / "set", patch_dimensions=2, kernel_size=2, default_value=-1)
    expected = expected_export([red, rest], Options(patch=(2, 2), kernel=(2, 2), default_value=-1), name="set")
    assert [band.name for band in expected.scene.bands] == ["red", "rest_b1", "rest_b2"]
    assert_export(out, expected)


def test_an_array_with_transform_and_crs_is_a_source_like_its_file(tmp_path: Path) -> None:
    data = np.arange(48, dtype="int16").reshape(2, 4, 6)
    source = write_raster(tmp_path / "scene.tif", data)
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image((data, NORTH_UP, "EPSG:32618"), out / "set", patch_dimensions=(3, 2), kernel_size=2)
    assert_export(out, expected_export([source], Options(patch=(3, 2), kernel=(2, 2)), name="set"))


def test_nodata_given_masks_where_the_file_has_no_tag(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.arange(16, dtype="uint8").reshape(4, 4))
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image(source, out / "set", patch_dimensions=2, nodata=5, default_value=99)
    assert_export(out, expected_export([source], Options(patch=(2, 2), nodata=5, default_value=99), name="set"))


@settings(max_examples=40, deadline=None)
@example(names=["b1", None, "b1"])
@example(names=["a", "a_1", "a"])
@example(names=[" ", "b1", "B1"])
@given(
    names=st.lists(
        st.one_of(
            st.none(),
            st.sampled_from(["a", "a_1", "b1", "b2"]),
            st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=6),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_names_make_features_of_their_own_and_come_back(names: list[str | None]) -> None:
    import rasterio

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data = np.arange(len(names) * 4, dtype="float32").reshape(-1, 2, 2)
        source = write_raster(folder / "scene.tif", data, descriptions=names)
        geotfr.export_image(source, folder / "set", patch_dimensions=2)
        (record,) = wire.read_shard(folder / "set.tfrecord.gz")
        assert [np.asarray(values).tolist() for values in record.values()] == data.reshape(-1, 4).tolist()
        with rasterio.open(source) as opened:
            described = opened.descriptions
        for place, (key, name) in enumerate(zip(record, described, strict=True), 1):
            wanted = name or f"b{place}"
            assert key == wanted or key.startswith(f"{wanted}_")
        geotfr.ingest_predictions(folder / "set.json", folder / "set.tfrecord.gz", folder / "back.tif")
        with rasterio.open(folder / "back.tif") as back:
            assert list(back.descriptions) == list(record)


@settings(max_examples=20, deadline=None)
@example(limit=1)
@given(limit=st.integers(1, 1200))
def test_a_shard_takes_records_until_the_next_would_pass_the_limit(limit: int) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        source = write_raster(Path(temporary) / "scene.tif", np.arange(100, dtype="uint8").reshape(10, 10))
        out = Path(temporary) / "out"
        out.mkdir()
        geotfr.export_image(source, out / "set", patch_dimensions=2, max_file_size=limit, compressed=False)
        options = Options(patch=(2, 2), max_file_size=limit, compressed=False)
        assert_export(out, expected_export([source], options, name="set"))


@settings(max_examples=40, deadline=None)
@given(value=st.floats(allow_nan=False, allow_infinity=False), dtype=st.sampled_from(sorted(EXTREMES)))
def test_the_default_value_loses_its_fraction_then_is_clamped_to_the_type(value: float, dtype: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        source = write_raster(Path(temporary) / "scene.tif", np.zeros((2, 2), dtype), nodata=0)
        out = Path(temporary) / "out"
        out.mkdir()
        geotfr.export_image(source, out / "set", patch_dimensions=2, default_value=value)
        options = Options(patch=(2, 2), default_value=value)
        assert_export(out, expected_export([source], options, name="set"))

"""Arrays in memory are sources like the files that hold the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from oracle import wire
from oracle.images import Options, assert_export, expected_export
from oracle.rasters import NORTH_UP, ROTATED, numbered, write_raster
from rasterio.crs import CRS
from rasterio.transform import Affine

import geotfr
from geotfr.errors import GeotfrError

if TYPE_CHECKING:
    from pathlib import Path

UTM = "EPSG:32618"


def exported(source: object, folder: Path, **options: Any) -> dict[str, Any]:
    """The only record of an export, values as lists."""
    folder.mkdir(exist_ok=True)
    geotfr.export_image(source, folder / "set", **options)
    (record,) = wire.read_shard(folder / "set.tfrecord.gz")
    return {key: values if isinstance(values, list) else values.tolist() for key, values in record.items()}


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32", "uint64", "float32", "float64"])
@pytest.mark.parametrize("native", [False, True])
def test_an_array_gives_the_bytes_of_its_file(dtype: str, native: bool, tmp_path: Path) -> None:
    data = numbered(2, 5, 7, dtype)
    source = write_raster(tmp_path / "scene.tif", data, transform=ROTATED, crs="EPSG:3577")
    options = Options(patch=(3, 2), kernel=(3, 3), native=native, default_value=9, max_file_size=700)
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image((data, ROTATED, "EPSG:3577"), out / "set", **options.keywords())
    assert_export(out, expected_export([source], options, name="set"))


@pytest.mark.parametrize("form", ["affine", "six numbers", "CRS object", "no crs"])
def test_place_and_crs_are_taken_in_the_forms_that_rasterio_has(form: str, tmp_path: Path) -> None:
    data = numbered(1, 2, 2)
    transform: object = tuple(NORTH_UP)[:6] if form == "six numbers" else NORTH_UP
    crs: object = CRS.from_epsg(32618) if form == "CRS object" else None if form == "no crs" else UTM
    source = write_raster(tmp_path / "scene.tif", data, crs=None if form == "no crs" else UTM)
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image((data, transform, crs), out / "set", patch_dimensions=2)
    assert_export(out, expected_export([source], Options(patch=(2, 2)), name="set"))


def test_a_single_band_may_have_two_axes(tmp_path: Path) -> None:
    assert exported((np.array([[1, 2], [3, 4]], "uint8"), NORTH_UP, UTM), tmp_path / "out", patch_dimensions=2) == {
        "b1": [1, 2, 3, 4]
    }


def test_a_mask_is_true_where_a_pixel_is_valid(tmp_path: Path) -> None:
    data = np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], "int16")
    mask = np.array([[True, False], [True, True]])
    found = exported((data, NORTH_UP, UTM, mask), tmp_path / "out", patch_dimensions=2, default_value=-1)
    assert found == {"b1": [1, -1, 3, 4], "b2": [5, -1, 7, 8]}


def test_nan_and_nodata_mask_in_memory_too(tmp_path: Path) -> None:
    data = np.array([[np.nan, np.inf], [-9999, 1]], "float32")
    found = exported((data, NORTH_UP, UTM), tmp_path / "out", patch_dimensions=2, default_value=5, nodata=-9999)
    assert found == {"b1": [5, np.inf, 5, 1]}


@pytest.mark.parametrize("kinds", ["float", "native"])
def test_case_35_bool_is_uint8_and_float16_is_float32(kinds: str, tmp_path: Path) -> None:
    flags = np.array([[True, False], [False, True]])
    found = exported((flags, NORTH_UP, UTM), tmp_path / "bool", patch_dimensions=2, feature_kinds=kinds)
    assert found == {"b1": [b"\x01\x00\x00\x01"] if kinds == "native" else [1.0, 0.0, 0.0, 1.0]}
    halves = np.array([[0.5, -2], [65504, 0.1]], "float16")
    found = exported((halves, NORTH_UP, UTM), tmp_path / "half", patch_dimensions=2, feature_kinds=kinds)
    assert found == {"b1": halves.astype("float32").ravel().tolist()}


def test_views_of_any_strides_and_byte_orders_are_read_right_and_not_changed(tmp_path: Path) -> None:
    whole = numbered(3, 6, 8, "int32")
    views = {
        "steps": whole[:, ::2, ::-2],
        "turned": np.ascontiguousarray(whole[:, :3, :4].transpose(2, 1, 0)).transpose(2, 1, 0),
        "big-endian": whole[:, :3, :4].astype(">i4"),
    }
    for name, view in views.items():
        before = view.copy()
        view.flags.writeable = False
        found = exported((view, NORTH_UP, UTM), tmp_path / name, patch_dimensions=(4, 3), feature_kinds="native")
        assert found == {f"b{number}": band.ravel().tolist() for number, band in enumerate(before, 1)}
        assert np.array_equal(view, before)


def test_arrays_and_files_stack_and_the_first_names_the_grid(tmp_path: Path) -> None:
    file = write_raster(tmp_path / "scene.tif", np.array([[1, 2], [3, 4]], "uint8"), descriptions=("red",))
    # One pixel to the right of the file's grid.
    array = (np.array([[7, 8], [9, 10]], "uint8"), NORTH_UP @ Affine.translation(1, 0), UTM)
    found = exported([file, array], tmp_path / "out", patch_dimensions=2, default_value=99, mask_mode="band")
    assert list(found.values()) == [[1, 2, 3, 4], [99, 7, 99, 9]]
    assert next(iter(found)) == "red"


def test_a_list_of_arrays_is_a_stack_and_a_tuple_of_three_is_one_source(tmp_path: Path) -> None:
    one = (np.array([[1]], "uint8"), NORTH_UP, UTM)
    two = (np.array([[2]], "uint8"), NORTH_UP, UTM)
    assert list(exported([one, two], tmp_path / "two", patch_dimensions=1).values()) == [[1], [2]]
    assert list(exported(one, tmp_path / "one", patch_dimensions=1).values()) == [[1]]


def test_bands_of_an_array_make_array_bands(tmp_path: Path) -> None:
    found = exported(
        (numbered(3, 1, 2), NORTH_UP, UTM),
        tmp_path / "out",
        patch_dimensions=(2, 1),
        array_bands={"t": "2-3"},
        tensor_depths={"t": 3},
    )
    assert found == {"b1": [1, 2], "t": [3, 4, 5, 6, 0, 0]}


def test_two_workers_give_the_bytes_of_one(tmp_path: Path) -> None:
    from oracle.run import contents

    source = (numbered(2, 40, 50, "int32"), NORTH_UP, UTM, np.arange(2000).reshape(40, 50) % 7 > 0)
    for workers in (1, 2):
        (tmp_path / str(workers)).mkdir()
        geotfr.export_image(
            source, tmp_path / str(workers) / "set", patch_dimensions=7, feature_kinds="native", workers=workers
        )
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ((np.zeros(4), NORTH_UP, UTM), "(4,)"),
        ((np.zeros((1, 1, 2, 2)), NORTH_UP, UTM), "(1, 1, 2, 2)"),
        ((np.array([["a", "b"]]), NORTH_UP, UTM), "<U1"),
        ((np.array([[None]], object), NORTH_UP, UTM), "object"),
        ((np.zeros((2, 2)), NORTH_UP, UTM, np.ones((3, 2), bool)), "(3, 2)"),
        ((np.zeros((2, 0)), NORTH_UP, UTM), "(2, 0)"),
        ((np.zeros((2, 2)), "here", UTM), "here"),
        ((np.zeros((2, 2)), NORTH_UP, "no crs"), "no crs"),
        ((np.zeros((2, 2)), Affine(0, 0, 0, 0, 0, 0), UTM), "area"),
    ],
)
def test_what_is_no_raster_is_refused_with_what_was_found(source: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(GeotfrError) as caught:
        geotfr.export_image(source, tmp_path / "set", patch_dimensions=1)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert list(tmp_path.iterdir()) == []

"""Array bands as tensors, and bands collapsed to one: layout, length, filling, kinds, refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracle import wire
from oracle.rasters import numbered, write_raster
from oracle.run import assert_refused, run

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

Features = dict[str, list[float] | list[bytes]]


def exported(sources: object, folder: Path, **options: object) -> list[Features]:
    """The records of an export, values as lists."""
    folder.mkdir(exist_ok=True)
    result = geotfr.export_image(sources, folder / "set", compressed=False, **options)
    records = [record for shard in result.shards for record in wire.read_shard(shard)]
    return [
        {key: values if isinstance(values, list) else values.tolist() for key, values in record.items()}
        for record in records
    ]


def test_an_array_band_is_depth_height_width_behind_the_scalar_bands(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(4, 2, 2), descriptions=("a", "b", "c", "d"))
    (record,) = exported(
        source, tmp_path / "out", patch_dimensions=2, array_bands={"evi": "1-3"}, tensor_depths={"evi": 3}
    )
    assert record == {"d": [13, 14, 15, 16], "evi": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}
    assert list(record) == ["d", "evi"]


def test_several_array_bands_stand_in_the_order_given_and_may_share_bands(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(3, 1, 2), descriptions=("a", "b", "c"))
    (record,) = exported(
        source,
        tmp_path / "out",
        patch_dimensions=(2, 1),
        bands=[2],
        array_bands=["z=2-3", "evi=1-2"],
        tensor_depths="evi=2,z=2",
    )
    assert list(record.items()) == [("b", [3, 4]), ("z", [3, 4, 5, 6]), ("evi", [1, 2, 3, 4])]


def test_elements_may_be_listed_in_any_order(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(3, 1, 1))
    for elements, want in (("3,1,2", [3, 1, 2]), ("3-1", [3, 2, 1])):
        (record,) = exported(
            source,
            tmp_path / elements,
            patch_dimensions=1,
            array_bands=[f"evi={elements}"],
            tensor_depths={"evi": 3},
        )
        assert record == {"evi": want}


def test_longer_arrays_are_cut_and_shorter_ones_filled_with_the_default_value(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(3, 1, 2, "uint8"))
    for depth, want in ((1, [1, 2]), (2, [1, 2, 3, 4]), (5, [1, 2, 3, 4, 5, 6, 9, 9, 9, 9])):
        (record,) = exported(
            source,
            tmp_path / str(depth),
            patch_dimensions=(2, 1),
            array_bands=["evi=1-3"],
            tensor_depths={"evi": depth},
            default_value=9,
        )
        assert record == {"evi": want}


def test_a_pixels_array_ends_at_its_last_unmasked_element(tmp_path: Path) -> None:
    # Pixel by pixel: whole, masked in the middle, short by one, only the third, empty.
    elements = np.array([[1, 1, 1, 0, 0], [2, 0, 2, 0, 0], [3, 3, 0, 3, 0]], "uint8").reshape(3, 1, 5)
    source = write_raster(tmp_path / "scene.tif", elements, nodata=0)
    (record,) = exported(
        source,
        tmp_path / "out",
        patch_dimensions=(5, 1),
        array_bands=["evi=1-3"],
        tensor_depths={"evi": 3},
        default_value=9,
    )
    assert np.reshape(record["evi"], (3, 5)).T.tolist() == [[1, 2, 3], [1, 9, 3], [1, 2, 9], [9, 9, 3], [9, 9, 9]]


@pytest.mark.parametrize(("threshold", "kept"), [(0.4, 0), (0.5, 1)])
def test_a_pixel_is_masked_where_an_array_has_no_element_at_all(threshold: float, kept: int, tmp_path: Path) -> None:
    # Unmasked beyond the depth is unmasked: only the last two of four pixels have nothing.
    elements = np.array([[1, 0, 0, 0], [2, 2, 0, 0]], "uint8").reshape(2, 1, 4)
    source = write_raster(tmp_path / "scene.tif", elements, nodata=0)
    records = exported(
        source,
        tmp_path / "out",
        patch_dimensions=(4, 1),
        array_bands=["evi=1-2"],
        tensor_depths={"evi": 1},
        default_value=9,
        masked_threshold=threshold,
    )
    assert records == [{"evi": [1, 9, 9, 9]}] * kept


def test_a_masked_pixel_is_the_default_value_in_every_element_of_every_band(tmp_path: Path) -> None:
    data = np.array([[[0, 5]], [[1, 2]], [[3, 4]], [[7, 0]], [[8, 0]]], "uint8")
    source = write_raster(tmp_path / "scene.tif", data, nodata=0, descriptions=("s", "a", "b", "c", "d"))
    (record,) = exported(
        source,
        tmp_path / "out",
        patch_dimensions=(2, 1),
        array_bands=["one=2-3", "two=4-5"],
        tensor_depths="one=2,two=2",
        default_value=9,
    )
    # The left pixel is masked in s, the right one has no element of two.
    assert record == {"s": [9, 9], "one": [9] * 4, "two": [9] * 4}


def test_in_band_mode_each_element_has_its_own_mask(tmp_path: Path) -> None:
    data = np.array([[[0, 5]], [[1, 0]], [[3, 4]]], "uint8")
    source = write_raster(tmp_path / "scene.tif", data, nodata=0, descriptions=("s", "a", "b"))
    (record,) = exported(
        source,
        tmp_path / "out",
        patch_dimensions=(2, 1),
        array_bands=["evi=2-3"],
        tensor_depths={"evi": 2},
        mask_mode="band",
        default_value=9,
    )
    assert record == {"s": [9, 5], "evi": [1, 9, 3, 4]}


def test_margins_outside_the_raster_are_the_default_value_in_every_element(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(2, 1, 1))
    (record,) = exported(
        source,
        tmp_path / "out",
        patch_dimensions=1,
        kernel_size=2,
        array_bands=["evi=1-2"],
        tensor_depths={"evi": 2},
        default_value=9,
    )
    assert record == {"evi": [*[9] * 4, 1, *[9] * 4, *[9] * 4, 2, *[9] * 4]}


@pytest.mark.parametrize(
    ("dtypes", "kind", "values"),
    [
        (("uint8", "uint8"), "bytes", [b"\x01\x02\x03\x04"]),
        (("uint8", "int8"), "int64", [1, 2, 3, 4]),
        (("uint16", "uint8"), "int64", [1, 2, 3, 4]),
        (("uint8", "float32"), "float", [1.0, 2.0, 3.0, 4.0]),
        (("int64", "float64"), "float", [1.0, 2.0, 3.0, 4.0]),
    ],
)
@pytest.mark.parametrize("feature_kinds", ["float", "native"])
def test_collapsed_bands_take_the_furthest_kind_whatever_the_kinds_else(
    dtypes: tuple[str, str], kind: str, values: list[object], feature_kinds: str, tmp_path: Path
) -> None:
    paths = [
        write_raster(tmp_path / f"{name}.tif", np.array([[first, first + 1]], dtype))
        for name, dtype, first in zip(("first", "second"), dtypes, (1, 3), strict=True)
    ]
    (record,) = exported(
        paths, tmp_path / "out", patch_dimensions=(2, 1), collapse_bands=True, feature_kinds=feature_kinds
    )
    assert record == {"first": values}
    assert all(isinstance(value, {"bytes": bytes, "int64": int, "float": float}[kind]) for value in record["first"])


def test_scalar_and_array_bands_collapse_to_one_tensor_named_after_the_first_band(tmp_path: Path) -> None:
    # Four bands of uint8 would be taken for red, green, blue and alpha.
    source = write_raster(
        tmp_path / "scene.tif",
        numbered(4, 1, 2, "uint8"),
        descriptions=("a", "b", "c", "d"),
        nodata=4,
        photometric="minisblack",
    )
    (record,) = exported(
        source,
        tmp_path / "out",
        patch_dimensions=(2, 1),
        format_options={"collapseBands": True, "tensorDepths": {"evi": 4}},
        array_bands=["evi=1-3"],
        default_value=9,
    )
    # [C, H, W]: d, then the elements of evi, of which the fourth doesn't exist and 4 is masked.
    assert record == {"d": [bytes([7, 8, 1, 2, 3, 9, 5, 6, 9, 9])]}


def test_each_band_keeps_its_own_default_value_when_collapsed(tmp_path: Path) -> None:
    paths = [
        write_raster(tmp_path / f"{name}.tif", np.array([[0, 1]], dtype), nodata=0)
        for name, dtype in (("byte", "uint8"), ("short", "int16"))
    ]
    (record,) = exported(
        paths, tmp_path / "out", patch_dimensions=(2, 1), collapse_bands=True, default_value=-5, mask_mode="band"
    )
    assert record == {"byte": [0, 1, -5, 1]}


def test_the_missing_elements_of_an_array_take_the_default_value_of_the_type_that_holds_all(tmp_path: Path) -> None:
    first = write_raster(tmp_path / "first.tif", np.array([[1]], "uint8"))
    second = write_raster(tmp_path / "second.tif", np.array([[2]], "int16"))
    (record,) = exported(
        first,
        tmp_path / "out",
        patch_dimensions=1,
        array_bands={"evi": f"{first}:1,{second}:1"},
        tensor_depths={"evi": 4},
        default_value=-5,
    )
    assert record == {"evi": [1, 2, -5, -5]}


def test_the_manifest_tells_the_depth_of_each_array_band(tmp_path: Path) -> None:
    import json

    source = write_raster(tmp_path / "scene.tif", numbered(3, 1, 2), descriptions=("a", "b", "c"))
    exported(source, tmp_path / "out", patch_dimensions=1, array_bands=["evi=2-3"], tensor_depths={"evi": 5})
    manifest = json.loads((tmp_path / "out" / "set-manifest.json").read_text())
    assert [(band["name"], band["depth"]) for band in manifest["bands"]] == [("a", None), ("evi", 5)]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--tensor-depths", "a=2"), ("a", "scalar")),
        (("--tensor-depths", "nothing=2"), ("nothing",)),
        (("--array-band", "evi=1-2"), ("evi", "depth")),
        (("--array-band", "evi=1-2", "--tensor-depths", "evi=0"), ("evi", "0")),
        (("--array-band", "evi=1-2", "--tensor-depths", "evi=1.5"), ("evi", "1.5")),
        (("--array-band", "evi=1-2", "--tensor-depths", "evi=2,evi=3"), ("evi", "twice")),
        (("--array-band", "evi=1-2", "--tensor-depths", "evi=2,a=1", "--bands", "a"), ("a",)),
        (("--array-band", "evi=1-2", "--array-band", "evi=2-3", "--tensor-depths", "evi=2"), ("evi",)),
        (("--array-band", "c=1-2", "--tensor-depths", "c=2", "--bands", "c"), ("c",)),
        (("--array-band", "evi=1-9", "--tensor-depths", "evi=2"), ("evi", "3")),
        (("--array-band", "evi=0-1", "--tensor-depths", "evi=2"), ("evi",)),
        (("--array-band", "evi", "--tensor-depths", "evi=2"), ("evi", "=")),
        (("--array-band", "=1-2", "--tensor-depths", "evi=2"), ("=1-2",)),
        (("--format-options", '{"tensorDepths": [2]}', "--array-band", "evi=1-2"), ("tensor_depths",)),
        (("--format-options", '{"tensorDepths": {"evi": 2}}', "--tensor-depths", "evi=2"), ("tensor",)),
    ],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_depths_and_array_bands_that_do_not_fit_are_usage_errors(
    more: tuple[str, ...], words: tuple[str, ...], dry: tuple[str, ...], tmp_path: Path
) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(3, 2, 2), descriptions=("a", "b", "c"))
    out = tmp_path / "out"
    out.mkdir()
    outcome = run("export", source, "--output", out / "set", "--patch-dimensions", "2", "--quiet", *more, *dry)
    assert_refused(outcome, 2, *words)
    assert list(out.iterdir()) == []

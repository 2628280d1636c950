"""Array bands as users write them, and the features they make."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from oracle.rasters import write_raster
from oracle.sources import opened, read, read_each

from geotfr.errors import GeotfrError, InputError, MissingInputError, UsageError
from geotfr.rasters.array_bands import parse_array_band
from geotfr.rasters.bands import SourceSpec


@pytest.fixture
def scenes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Scenes 1, 2 and 10 of two bands, which hold their number and its tenfold."""
    monkeypatch.chdir(tmp_path)
    for number in (1, 2, 10):
        bands = np.stack([np.full((3, 4), number), np.full((3, 4), number * 10)]).astype(np.int16)
        write_raster(tmp_path / f"stack_{number}.tif", bands, nodata=-1)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("evi=3-6", (3, 4, 5, 6)),
        ("evi=6-3", (6, 5, 4, 3)),
        ("evi= 3, 5 ,7", (3, 5, 7)),
        ("evi=1,4-5", (1, 4, 5)),
    ],
)
def test_numbers_are_bands_of_the_stack(text: str, elements: tuple[int, ...]) -> None:
    found = parse_array_band(text)
    assert (found.name, found.elements) == ("evi", elements)


def test_a_pattern_takes_files_in_natural_order(scenes: Path) -> None:
    wanted = tuple(SourceSpec(f"stack_{number}.tif", 2) for number in (1, 2, 10))
    assert parse_array_band("evi=stack_*.tif:2").elements == wanted
    assert [Path(e.path).name for e in parse_array_band(f"evi={scenes}/stack_*.tif").elements] == [  # type: ignore[union-attr]
        spec.path for spec in wanted
    ]


def test_an_explicit_order_is_kept(scenes: Path) -> None:
    found = parse_array_band("evi=stack_10.tif:1,stack_1.tif:2").elements
    assert found == (SourceSpec("stack_10.tif", 1), SourceSpec("stack_1.tif", 2))


def test_a_name_with_brackets_or_a_comma_that_is_a_file_is_that_file(scenes: Path) -> None:
    for name in ("a[1].tif", "a,b.tif"):
        write_raster(scenes / name, np.ones((3, 4), np.int16))
        assert parse_array_band(f"evi={name}").elements == (SourceSpec(name),)
    assert parse_array_band("evi=a[1].tif:1").elements == (SourceSpec("a[1].tif", 1),)


@pytest.mark.parametrize(
    "text",
    [
        "evi",
        "=3-4",
        "evi=",
        "evi=3,,4",
        "evi=0-3",
        "evi=3,3",
        "evi=stack_1.tif:0",
        "evi=none_*.tif:1",
        "evi=1-99999999",
    ],
)
def test_what_is_no_array_band_is_a_usage_error(scenes: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"--array-band|band 0") as error:
        parse_array_band(text)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_told(scenes: Path) -> None:
    with pytest.raises(MissingInputError, match=r"stack_3\.tif: no such file"):
        parse_array_band("evi=stack_1.tif:1,stack_3.tif:1")


def test_scalar_bands_come_first_and_are_those_that_no_array_band_uses(scenes: Path) -> None:
    bands = np.arange(5 * 12, dtype=np.uint16).reshape(5, 3, 4)
    path = write_raster(scenes / "x.tif", bands)
    with opened([path], array_bands=("evi=4,2", "lai=3")) as source:
        assert [(f.name, f.planes, f.is_array) for f in source.features] == [
            ("b1", range(1), False),
            ("b5", range(1, 2), False),
            ("evi", range(2, 4), True),
            ("lai", range(4, 5), True),
        ]
        np.testing.assert_array_equal(read(source)[0], bands[[0, 4, 3, 1, 2]])
    with opened([path], bands=["x=2"], array_bands=("evi=2-3",)) as source:
        assert [f.name for f in source.features] == ["x", "evi"]
        np.testing.assert_array_equal(read(source)[0], bands[[1, 1, 2]])


def test_array_bands_of_files_of_their_own(scenes: Path) -> None:
    base = write_raster(scenes / "base.tif", np.full((3, 4), 7, np.uint8))
    with opened([base], array_bands=("evi=stack_*.tif:2", "ndvi=stack_2.tif:1,stack_1.tif:1")) as source:
        assert [f.name for f in source.features] == ["b1", "evi", "ndvi"]
        assert [int(p[0, 0]) for p in read(source)[0]] == [7, 10, 20, 100, 2, 1]
        assert [file.name for file in source.sources] == ["base.tif", "stack_1.tif", "stack_2.tif", "stack_10.tif"]
    with opened([], array_bands=("all=stack_*.tif",)) as source:
        assert [(f.name, f.planes) for f in source.features] == [("all", range(6))]
        assert [int(p[0, 0]) for p in read(source)[0]] == [1, 10, 2, 20, 10, 100]


def test_each_element_has_its_own_mask(scenes: Path) -> None:
    for number, hole in ((1, (0, 0)), (2, (1, 1))):
        pixels = np.full((3, 4), number, np.int16)
        pixels[hole] = -1
        write_raster(scenes / f"hole_{number}.tif", pixels, nodata=-1)
    with opened([], array_bands=("evi=hole_*.tif:1",)) as source:
        _, valid, each = read_each(source)
        assert valid.all()
        assert [np.argwhere(~own).tolist() for own in each] == [[[0, 0]], [[1, 1]]]
        assert np.argwhere(~read(source)[1]).tolist() == [[0, 0], [1, 1]]


def test_elements_of_several_types_become_the_type_that_holds_all(scenes: Path) -> None:
    write_raster(scenes / "a.tif", np.full((3, 4), 200, np.uint8), nodata=255)
    write_raster(scenes / "b.tif", np.full((3, 4), -3, np.int16))
    with opened([], array_bands=("x=a.tif:1,b.tif:1",)) as source:
        assert {band.dtype.name for band in source.bands} == {"int16"}
        assert [int(p[0, 0]) for p in read(source)[0]] == [200, -3]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"array_bands": ("evi=3",)}, "no band 3; the sources have 2"),
        ({"array_bands": ("b1=2",)}, "another feature has that name"),
        ({"array_bands": ("evi=1", "evi=2")}, "another feature has that name"),
        ({"array_bands": ("evi=stack_1.tif:5",)}, "no band 5"),
    ],
)
def test_array_bands_that_cannot_be_are_refused(scenes: Path, options: dict[str, tuple[str, ...]], words: str) -> None:
    with pytest.raises(GeotfrError, match=words):
        opened([scenes / "stack_1.tif"], **options)


def test_scenes_that_do_not_overlap_are_refused(scenes: Path) -> None:
    from rasterio.transform import Affine

    far = Affine(10, 0, 700000, 0, -10, 4000000)
    write_raster(scenes / "stack_11.tif", np.ones((2, 3, 4), np.int16), transform=far)
    write_raster(scenes / "stack_12.tif", np.ones((2, 3, 4), np.int16), transform=far, crs="EPSG:32619")
    for name in ("stack_11.tif", "stack_12.tif"):
        with pytest.raises(InputError, match=f"{name}.*outside the export's grid") as error:
            opened([], array_bands=(f"evi=stack_1.tif:1,{name}:1",))
        assert error.value.exit_code == 10

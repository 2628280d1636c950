"""Array bands as users write them, and the features they make."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import wire
from oracle.rasters import write_raster
from oracle.sources import opened, read, read_each

import geotfr
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


def series(folder: Path, names: list[str]) -> None:
    """One raster for each name, of 2 x 2 pixels that hold its place from 1."""
    for place, name in enumerate(names, 1):
        write_raster(folder / name, np.full((1, 2, 2), place, np.int16))


def exported(folder: Path, array: str, depth: int) -> tuple[list[float], list[str]]:
    """The elements of the first pixel, and the warnings."""
    given: dict[str, Any] = {"patch_dimensions": 2, "array_bands": array, "tensor_depths": {"evi": depth}}
    result = geotfr.export_image([], folder / "set", default_value=-1, overwrite=True, compressed=False, **given)
    (payload,) = wire.unframe(result.shards[0].read_bytes())
    (values,) = wire.decode_example(payload).values()
    return np.reshape(values, (depth, 4))[:, 0].tolist(), list(result.warnings)


@pytest.mark.parametrize(
    ("names", "missing", "told"),
    [
        ([f"t_2020-{month:02d}.tif" for month in range(1, 7)], [2], ["2020-03"]),
        ([f"t_2020-{month:02d}.tif" for month in range(1, 5)], [1], ["2020-02"]),
        (
            [f"t_{year}{month:02d}_v1.tif" for year in (2020, 2021) for month in range(1, 13)],
            [12, 13],
            ["202101", "202102"],
        ),
        ([f"t_2020{month:02d}31.tif" if month == 1 else f"t_2020{month:02d}15.tif" for month in range(1, 6)], [], []),
        ([f"t_2020_{month:02d}_15.tif" for month in range(1, 8)], [3], ["2020_04_15"]),
        ([f"t_{date(2020, 1, 1) + timedelta(16 * step)}.tif" for step in range(9)], [4], ["2020-03-05"]),
        ([f"{year}.tif" for year in range(1998, 2004)], [4], ["2002"]),
    ],
)
def test_case_79_a_missing_date_is_told_and_keeps_its_place(
    tmp_path: Path, names: list[str], missing: list[int], told: list[str]
) -> None:
    series(tmp_path, names)
    for place in missing:
        (tmp_path / names[place]).unlink()
    elements, warnings = exported(tmp_path, f"evi={tmp_path}/*.tif:1", len(names))
    assert elements == [-1 if place in missing else place + 1 for place in range(len(names))]
    assert [word for word in told if not any(word in warning for warning in warnings)] == []
    assert len(warnings) == (1 if missing else 0)


@pytest.mark.parametrize(
    ("pattern", "names", "missing"),
    [
        ("t_{2020-11..2021-02}.tif", ["t_2020-11.tif", "t_2020-12.tif", "t_2021-01.tif", "t_2021-02.tif"], 0),
        ("t_{20200101..20200220/16}.tif", ["t_20200101.tif", "t_20200117.tif", "t_20200202.tif", "t_20200218.tif"], 3),
        ("t_{08..11}.tif", ["t_08.tif", "t_09.tif", "t_10.tif", "t_11.tif"], 1),
        ("{1..4}.tif", ["1.tif", "2.tif", "3.tif", "4.tif"], 2),
        ("a,{1..4}.tif", ["a,1.tif", "a,2.tif", "a,3.tif", "a,4.tif"], None),
    ],
)
def test_case_79_dates_that_are_given_keep_the_places_of_missing_files(
    tmp_path: Path, pattern: str, names: list[str], missing: int | None
) -> None:
    if missing is None:
        # A comma parts elements.
        with pytest.raises(geotfr.MissingInputError):
            parse_array_band(f"evi={tmp_path}/{pattern}")
        return
    series(tmp_path, names)
    (tmp_path / names[missing]).unlink()
    elements, warnings = exported(tmp_path, f"evi={tmp_path}/{pattern}:1", 4)
    assert elements == [-1 if place == missing else place + 1 for place in range(4)]
    assert len(warnings) == 1
    assert names[missing] in warnings[0]


def test_case_79_a_gap_in_numbers_is_told(tmp_path: Path) -> None:
    series(tmp_path, [f"t_{number}.tif" for number in range(1, 7)])
    (tmp_path / "t_4.tif").unlink()
    elements, warnings = exported(tmp_path, f"evi={tmp_path}/t_*.tif:1", 6)
    assert elements == [1, 2, 3, 5, 6, -1]
    assert sum("no file for 4" in warning for warning in warnings) == 1
    assert sum("depth" in warning for warning in warnings) == 1


def test_names_without_a_regular_series_are_left_alone(tmp_path: Path) -> None:
    for names in (
        ["t_20200103.tif", "t_20200111.tif", "t_20200207.tif", "t_20200301.tif"],
        ["a.tif", "b.tif", "d.tif"],
        ["t_1_2020.tif", "t_2_2021.tif", "t_4_2022.tif"],
        ["t_2020-01.tif", "t_2020-03.tif"],
    ):
        folder = tmp_path / names[0]
        folder.mkdir()
        series(folder, names)
        elements, warnings = exported(folder, f"evi={folder}/*.tif:1", len(names))
        assert (elements, warnings) == ([*range(1, len(names) + 1)], [])


def test_missing_dates_of_rasters_with_several_bands_keep_as_many_places(tmp_path: Path) -> None:
    for month in (1, 2, 4):
        write_raster(tmp_path / f"t_2020-{month:02d}.tif", np.full((2, 2, 2), month, np.int16))
    elements, _ = exported(tmp_path, f"evi={tmp_path}/*.tif", 8)
    assert elements == [1, 1, 2, 2, -1, -1, 4, 4]


@pytest.mark.parametrize("pattern", ["t_{2020-12..2020-01}.tif", "t_{1..2020-01}.tif", "t_{0..99999999}.tif"])
def test_a_range_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(geotfr.UsageError, match="no range"):
        parse_array_band(f"evi={pattern}")

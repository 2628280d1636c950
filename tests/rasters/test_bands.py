"""Names of bands, and which are selected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from geotfr.errors import UsageError
from geotfr.rasters.bands import SourceBand, SourceSpec, band_names, parse_source, select_bands

if TYPE_CHECKING:
    from pathlib import Path


def band(index: int, description: str = "", source: str = "scene.tif", number: int = 0) -> SourceBand:
    return SourceBand(
        name="",
        dtype=np.dtype("uint8"),
        nodata=(),
        scale=1.0,
        offset=0.0,
        description=description,
        source=source,
        source_number=number,
        index=index,
        is_alpha=False,
    )


def names_of(*descriptions: str) -> list[str]:
    bands = [band(index, text) for index, text in enumerate(descriptions, 1)]
    return [found.name for found in band_names(bands, band_counts=[len(bands)])]


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("a.tif", SourceSpec("a.tif")),
        ("a.tif:3", SourceSpec("a.tif", 3)),
        ("a:1.tif", SourceSpec("a:1.tif")),
        ("s3://bucket/a.tif", SourceSpec("s3://bucket/a.tif")),
        (r"C:\a.tif", SourceSpec(r"C:\a.tif")),
        (r"C:\a.tif:12", SourceSpec(r"C:\a.tif", 12)),
        ("a.tif:", SourceSpec("a.tif:")),
        (":3", SourceSpec(":3")),
        ("a.tif:x3", SourceSpec("a.tif:x3")),
        ("line\nbreak.tif:2", SourceSpec("line\nbreak.tif", 2)),
    ],
)
def test_only_trailing_digits_are_a_band(text: str, spec: SourceSpec) -> None:
    assert parse_source(text) == spec


def test_a_file_whose_name_ends_like_a_band_wins(tmp_path: Path) -> None:
    path = tmp_path / "a.tif:3"
    path.touch()
    assert parse_source(str(path)) == SourceSpec(str(path))


def test_band_zero_is_refused() -> None:
    with pytest.raises(UsageError, match="bands count from 1"):
        parse_source("a.tif:0")


@pytest.mark.parametrize(
    ("descriptions", "names"),
    [
        (("B4", "B4", ""), ["B4", "B4_1", "b3"]),
        (("", "", ""), ["b1", "b2", "b3"]),
        (("x", "x", "x_1"), ["x", "x_2", "x_1"]),
        (("", "b1"), ["b1", "b1_1"]),
        (("größe", "高さ"), ["größe", "高さ"]),
    ],
)
def test_no_name_hides_another(descriptions: tuple[str, ...], names: list[str]) -> None:
    assert names_of(*descriptions) == names


def test_files_name_the_bands_of_a_stack() -> None:
    stack = [
        band(1, source="red.tif", number=0),
        band(1, source="rest.tif", number=1),
        band(2, "nir", source="rest.tif", number=1),
    ]
    assert [found.name for found in band_names(stack, band_counts=[1, 2])] == ["red", "rest_b1", "nir"]


STACK = band_names([band(1, "B2"), band(2, "B3"), band(3, "2020"), band(4, "a=b")], band_counts=[4])


@pytest.mark.parametrize(
    ("wanted", "picked"),
    [
        (["3", "1"], [("2020", 3), ("B2", 1)]),
        (["B3", "2020"], [("B3", 2), ("2020", 3)]),
        (["green=B3", "blue=1"], [("green", 2), ("blue", 1)]),
        (["a=b"], [("a=b", 4)]),
        (["c=a=b"], [("c", 4)]),
        (["1", "1"], [("B2", 1), ("B2_1", 1)]),
        (["B3=1", "B3"], [("B3", 1), ("B3_1", 2)]),
    ],
)
def test_bands_are_picked_by_number_name_and_new_name(wanted: list[str], picked: list[tuple[str, int]]) -> None:
    assert [(found.name, found.index) for found in select_bands(STACK, wanted)] == picked


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (["5"], "no band '5'; there are 1 to 4: B2, B3"),
        (["0"], "no band '0'"),
        (["b3"], "did you mean 'B3'"),
        (["x=1", "x=2"], "'x' is given twice"),
        (["=1"], "no new name"),
        (["²"], "no band '²'"),
    ],
)
def test_a_wrong_selection_says_what_there_is(wanted: list[str], words: str) -> None:
    with pytest.raises(UsageError) as error:
        select_bands(STACK, wanted)
    assert words in str(error.value)

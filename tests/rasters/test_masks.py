"""Masks by value: in the band's own type."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from geotfr.rasters.masks import keep_nonzero, keep_valid, nodata_in

DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64")


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("float32", "-3.39999999999999996e+38", (float(np.float32(-3.4e38)),)),
        ("float32", -1.7976931348623157e308, ()),
        ("float32", math.inf, (math.inf,)),
        ("float32", "nan", ()),
        ("float64", 0.1, (0.1,)),
        ("uint8", -9999, ()),
        ("uint8", "255.0", (255,)),
        ("uint8", 0.5, ()),
        ("int16", "-9999", (-9999,)),
        ("int16", "nan", ()),
        ("int16", "inf", ()),
        ("int64", "-9223372036854775808", (-(2**63),)),
        ("int64", "9007199254740993", (2**53 + 1,)),
        ("uint64", "18446744073709551615", (2**64 - 1,)),
        ("uint64", "18446744073709551616", ()),
    ],
)
def test_nodata_is_a_value_of_the_type_or_none(dtype: str, value: str | float, expected: tuple[float, ...]) -> None:
    assert nodata_in(np.dtype(dtype), value) == expected


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="abc"):
        nodata_in(np.dtype("uint8"), "abc")


@given(st.data())
def test_masks_equal_a_loop_over_pixels(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    values = st.sampled_from([0, 1, 7, 100] + ([math.nan, math.inf, -math.inf] if dtype.kind == "f" else []))
    pixels = data.draw(hnp.arrays(dtype, (3, 4), elements=values))
    nodata = data.draw(st.sampled_from([(), (0,), (7, 100)]))
    valid = data.draw(hnp.arrays(np.bool_, (3, 4)))
    expected = [
        [
            bool(valid[row, col]) and pixels[row, col] not in nodata and pixels[row, col] == pixels[row, col]
            for col in range(4)
        ]
        for row in range(3)
    ]
    keep_valid(pixels, nodata, valid, np.empty_like(valid))
    assert valid.tolist() == expected


def test_case_25_nan_counts_beside_a_nodata_value() -> None:
    pixels = np.array([[np.nan, -9999, 1]], np.float32)
    valid = np.ones((1, 3), bool)
    keep_valid(pixels, nodata_in(pixels.dtype, -9999), valid, np.empty_like(valid))
    assert valid.tolist() == [[False, False, True]]


def test_only_zero_in_a_mask_masks() -> None:
    valid = np.array([[True, True, False, True]])
    keep_nonzero(np.array([[0, 1, 255, 128]], np.uint8), valid, np.empty_like(valid))
    assert valid.tolist() == [[False, True, False, True]]

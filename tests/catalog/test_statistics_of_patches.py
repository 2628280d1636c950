"""Statistics of patches against numpy over the valid values of each patch alone."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from geotfr.patches.statistics import statistics_of, statistics_of_all
from geotfr.vectors.arrow_arrays import texts_by_number

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

TYPES = ["bool", "uint8", "int8", "uint16", "int16", "int32", "uint64", "float16", "float32", "float64"]


def values_of(dtype: str, shape: tuple[int, ...], seed: int = 1) -> NDArray[Any]:
    """Values over most of the type's range."""
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.random(shape) < 0.3
    if np.dtype(dtype).kind == "f":
        return (random.standard_normal(shape) * 100).astype(dtype)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def expected(channels: list[tuple[NDArray[Any], NDArray[np.bool_] | None]], patch: int) -> list[float]:
    """Count, least, greatest, mean and deviation of a patch, the slow and obvious way."""
    seen = np.concatenate(
        [
            values[patch][np.ones(values[patch].shape, bool) if valid is None else valid[patch]].astype(np.longdouble)
            for values, valid in channels
        ]
    )
    if not len(seen):
        return [0, np.nan, np.nan, np.nan, np.nan]
    return [len(seen), float(seen.min()), float(seen.max()), float(seen.mean()), float(seen.std())]


def check(channels: list[tuple[NDArray[Any], NDArray[np.bool_] | None]]) -> None:
    found = statistics_of(channels)
    for patch in range(len(channels[0][0])):
        got = [
            found.counts[patch],
            found.lows[patch],
            found.highs[patch],
            found.means[patch],
            found.deviations[patch],
        ]
        np.testing.assert_allclose(got, expected(channels, patch), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", TYPES)
def test_they_are_those_of_the_valid_values(dtype: str) -> None:
    strip = values_of(dtype, (20, 80))
    # Views of a strip, as an export cuts them: patches lie beside each other in its rows.
    patches = strip.reshape(20, 5, 16).swapaxes(0, 1)
    valid = np.random.default_rng(2).random((20, 80)).reshape(20, 5, 16).swapaxes(0, 1) < 0.6
    valid[3] = False
    check([(patches, None)])
    check([(patches, valid)])
    check([(patches, np.ones_like(valid))])


def test_what_is_masked_never_counts_whatever_it_holds() -> None:
    values = np.array([[[1, np.nan, np.inf, 3]], [[np.nan, -np.inf, np.nan, np.inf]]], np.float32)
    valid = np.array([[[True, False, False, True]], [[False, False, False, False]]])
    check([(values, valid)])


def test_channels_of_several_types_are_one_feature() -> None:
    small, wide = values_of("uint8", (2, 4, 4)), values_of("int16", (2, 4, 4)) // 2 + 20_000
    hidden = np.zeros((2, 4, 4), bool)
    # Nothing of the bytes is seen: their limits aren't those of the feature.
    check([(small, hidden), (wide, None)])
    check([(wide, hidden), (small, ~hidden)])
    check([(small, None), (wide.astype(np.float32), None)])


def test_patches_larger_than_a_slab_are_exact() -> None:
    values = values_of("uint16", (1, 700, 400))
    found = statistics_of([(values, values > 5)])
    seen = [int(value) for value in values.ravel() if value > 5]
    assert found.means[0] == sum(seen) / len(seen)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("shape", [(1, 256, 256), (5, 3, 7)], ids=str)
def test_features_that_are_alike_are_exact(dtype: str, shape: tuple[int, ...]) -> None:
    limits = np.iinfo(dtype)
    features = [values_of(dtype, shape, seed) for seed in range(4)]
    features += [np.full(shape, limits.max, dtype), np.full(shape, limits.min, dtype)]
    pairs = [(each, None if place % 2 else np.ones(shape, bool)) for place, each in enumerate(features)]
    found = statistics_of_all([[pair] for pair in pairs])
    for statistics, values in zip(found, features, strict=True):
        for patch in range(shape[0]):
            whole = [int(value) for value in values[patch].ravel()]
            total, count = sum(whole), len(whole)
            squares = Fraction(sum(value * value for value in whole)) - Fraction(total * total, count)
            assert statistics.counts[patch] == count
            assert (statistics.lows[patch], statistics.highs[patch]) == (min(whole), max(whole))
            assert statistics.means[patch] == total / count
            assert statistics.squares[patch] == pytest.approx(float(squares), rel=1e-14)


def test_features_do_not_touch_each_other() -> None:
    features = [[(values_of(dtype, (3, 5, 6), seed), None)] for seed, dtype in enumerate(TYPES)]
    for channels, together in zip(features, statistics_of_all(features), strict=True):
        alone = statistics_of(channels)
        np.testing.assert_array_equal(together.means, alone.means)
        np.testing.assert_array_equal(together.squares, alone.squares)


@pytest.mark.parametrize("changes", [0, 1, 5, 400])
def test_texts_by_number_are_those_of_a_loop(changes: int) -> None:
    pytest.importorskip("pyarrow")
    names = ["", "one", "Übergröße", "b"]
    random = np.random.default_rng(changes)
    places = np.sort(random.integers(-1, 4, 1000)) if changes < 400 else random.integers(-1, 4, 1000)
    found = texts_by_number(places[: 1000 if changes else 0], names)
    found.validate(full=True)
    assert found.to_pylist() == [None if place < 0 else names[place] for place in places[: 1000 if changes else 0]]


def test_a_table_is_written_and_read_without_pandas(tmp_path: Path) -> None:
    # Importing it takes longer than the table of a small export.
    pytest.importorskip("pyarrow")
    program = (
        "import sys, geotfr, numpy as np\n"
        "from rasterio import Affine\n"
        "source = np.ones((64, 64), np.uint8), Affine(10, 0, 300000, 0, -10, 5900000), 'EPSG:32633'\n"
        f"geotfr.export_image(source, {str(tmp_path / 'set')!r}, patch_dimensions=32, patch_table=True)\n"
        f"table = geotfr.read_patch_table({str(tmp_path / 'set-patches.parquet')!r})\n"
        "table.column('member'), table.column('west'), table.codes('shard')\n"
        "sys.exit('pandas' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint64"])
@pytest.mark.parametrize("patch", [(7, 5), (1, 90), (33, 33), (3, 60_000)])
@pytest.mark.parametrize("channels", [1, 2])
def test_case_75_a_patch_has_the_same_bits_whichever_patches_come_with_it(
    dtype: str, patch: tuple[int, int], channels: int
) -> None:
    """Cut from one strip as an export does it; only one patch in three has a masked pixel."""
    height, width = patch
    count = 4 if width > 1000 else 23
    random = np.random.default_rng(3)
    given = []
    for number in range(channels):
        strip = values_of(dtype, (height, count * width), seed=number)
        valid = np.ones(strip.shape, bool)
        for column in range(0, count * width, 3 * width):
            valid[:, column : column + width] = random.random(patch) < 0.8
        strip[~valid] = np.nan if strip.dtype.kind == "f" else 0
        cut = [each.reshape(height, count, width).transpose(1, 0, 2) for each in (strip, valid)]
        given.append((cut[0], cut[1]))
    together = statistics_of(given)
    for step in (1, 2, 5):
        for first in range(0, count, step):
            some = slice(first, first + step)
            alone = statistics_of(
                [
                    (np.ascontiguousarray(values[some]), None if valid[some].all() else valid[some])
                    for values, valid in given
                ]
            )
            for name in ("counts", "lows", "highs", "means", "squares"):
                assert getattr(alone, name).tobytes() == getattr(together, name)[some].tobytes(), name

"""Overlaps are blended as a slow version does that looks at one pixel of the whole raster at a time."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle.mosaics import blend
from oracle.rasters import ROTATED, SOUTH_UP, numbered, read_raster
from oracle.run import assert_refused, run
from oracle.sets import write_blocks, write_set

import geotfr
import geotfr.pipeline.ingest.overlap

MEANS = ["average", "linear", "cosine", "gaussian"]


@dataclass(frozen=True)
class Case:
    """A grid of blocks; ``odd`` adds 1 to the kernel, which adds no margin."""

    patch: tuple[int, int]
    margin: tuple[int, int]
    rows: int
    per_row: int
    odd: int
    nan_share: float
    seed: int
    shards: int

    @property
    def kernel(self) -> tuple[int, int]:
        """(width, height) as a user gives it."""
        return max(2 * self.margin[0] + self.odd, 1), max(2 * self.margin[1] + self.odd, 1)

    @property
    def where(self) -> dict[str, tuple[int, int] | int]:
        """What the slow version wants."""
        return {"patch_xy": self.patch, "margin_xy": self.margin, "patches_per_row": self.per_row}

    def shape(self, bands: int) -> tuple[int, int, int, int]:
        """Of all blocks, (block, band, row, col)."""
        sides = [side + 2 * margin for side, margin in zip(self.patch, self.margin, strict=True)]
        return self.rows * self.per_row, bands, sides[1], sides[0]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    return Case(
        patch=draw(st.tuples(st.integers(1, 6), st.integers(1, 6))),
        margin=draw(st.tuples(st.integers(0, 7), st.integers(0, 7))),
        rows=draw(st.integers(1, 4)),
        per_row=draw(st.integers(1, 5)),
        odd=draw(st.integers(0, 1)),
        nan_share=draw(st.sampled_from([0.0, 0.0, 0.3, 1.0])),
        seed=draw(st.integers(0, 2**32 - 1)),
        shards=draw(st.integers(1, 3)),
    )


def blended(case: Case, blocks: np.ndarray, overlap: str, **options: object) -> np.ndarray:
    """(band, row, col) of ``blocks``, each band a feature."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        features = {f"b{band}": blocks[:, band] for band in range(blocks.shape[1])}
        mixer, shards = write_blocks(
            folder, features, patch=case.patch, per_row=case.per_row, shards=min(case.shards, len(blocks))
        )
        geotfr.ingest_predictions(
            mixer, shards, folder / "out.tif", kernel_size=case.kernel, overlap=overlap, **options
        )  # type: ignore[arg-type]
        return read_raster(folder / "out.tif")[0]


def with_gaps(blocks: np.ndarray, share: float, source: np.random.Generator) -> np.ndarray:
    blocks[source.random(blocks.shape) < share] = np.nan
    return blocks


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases(), overlap=st.sampled_from(MEANS))
def test_a_mean_is_that_of_all_predictions_by_weight(case: Case, overlap: str) -> None:
    source = np.random.default_rng(case.seed)
    blocks = with_gaps(source.normal(0, 50, case.shape(2)).astype("float32"), case.nan_share, source)
    wanted = blend(blocks, overlap, **case.where)  # type: ignore[arg-type]
    np.testing.assert_allclose(blended(case, blocks, overlap), wanted, rtol=1e-4, atol=1e-3)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    case=cases(),
    overlap=st.sampled_from([*MEANS, "max-probability", "vote"]),
    value=st.floats(width=32, allow_nan=False),
)
def test_a_constant_stays_itself_exactly(case: Case, overlap: str, value: float) -> None:
    blocks = np.full(case.shape(2), value, "float32")
    assert np.array_equal(np.unique(blended(case, blocks, overlap)), [np.float32(value)])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases(), dtype=st.sampled_from(["uint8", "int64", "float32"]))
def test_a_vote_takes_the_most_frequent_then_the_own_then_the_smallest(case: Case, dtype: str) -> None:
    source = np.random.default_rng(case.seed)
    blocks = source.integers(0, 4, case.shape(1)).astype(dtype)
    if dtype == "float32":
        blocks = with_gaps(blocks, case.nan_share, source)
    wanted = blend(blocks.astype("float64"), "vote", **case.where)  # type: ignore[arg-type]
    np.testing.assert_array_equal(blended(case, blocks, "vote"), wanted)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases())
def test_max_probability_takes_all_bands_of_the_surest_block(case: Case) -> None:
    source = np.random.default_rng(case.seed)
    blocks = with_gaps(source.random(case.shape(3), "float32"), min(case.nan_share, 0.3), source)
    wanted = blend(blocks, "max-probability", **case.where)  # type: ignore[arg-type]
    np.testing.assert_array_equal(blended(case, blocks, "max-probability"), wanted.astype("float32"))


@pytest.mark.parametrize("overlap", [*MEANS, "vote"])
def test_passes_over_some_columns_give_the_same_pixels(
    overlap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = np.random.default_rng(3)
    case = Case((16, 16), (5, 9), 3, 11, 0, 0.1, 0, 2)
    blocks = with_gaps(source.normal(0, 1, case.shape(2)).astype("float32"), 0.1, source)
    whole = blended(case, blocks, overlap, creation_options={"BLOCKXSIZE": 32, "BLOCKYSIZE": 32})
    monkeypatch.setattr(geotfr.pipeline.ingest.overlap, "BLEND_BUDGET_BYTES", 1)
    parts = blended(case, blocks, overlap, creation_options={"BLOCKXSIZE": 32, "BLOCKYSIZE": 32})
    np.testing.assert_array_equal(parts, whole)


@pytest.mark.parametrize("overlap", MEANS)
def test_the_shards_do_not_show_in_a_blend(overlap: str, tmp_path: Path) -> None:
    source = np.random.default_rng(4)
    case = Case((8, 8), (3, 3), 4, 6, 0, 0, 0, 1)
    blocks = source.normal(0, 1, case.shape(1)).astype("float32")
    one = blended(case, blocks, overlap)
    for shards in (2, 5, 24):
        np.testing.assert_array_equal(blended(replace(case, shards=shards), blocks, overlap), one)


@pytest.mark.parametrize("transform", [ROTATED, SOUTH_UP], ids=["rotated", "south-up"])
def test_a_blend_of_an_export_is_the_raster_itself(transform: object, tmp_path: Path) -> None:
    picture = np.random.default_rng(5).integers(0, 9, (1, 12, 15)).astype("float32")
    from oracle.rasters import write_raster

    source = write_raster(tmp_path / "scene.tif", picture, transform=transform)  # type: ignore[arg-type]
    geotfr.export_image(source, tmp_path / "set", patch_dimensions=(5, 4), kernel_size=(4, 6))
    geotfr.ingest_predictions(tmp_path / "set.json", tmp_path / "set.tfrecord.gz", tmp_path / "o.tif", overlap="cosine")
    pixels, profile, _ = read_raster(tmp_path / "o.tif")
    np.testing.assert_array_equal(pixels, picture)
    assert profile["transform"] == transform


def test_predictions_that_are_nodata_take_no_part(tmp_path: Path) -> None:
    case = Case((2, 2), (1, 1), 1, 2, 0, 0, 0, 1)
    blocks = np.full(case.shape(1), 5, "float32")
    blocks[1] = -1
    assert blended(case, blocks, "average", nodata=-1).tolist() == [[[5, 5, 5, -1], [5, 5, 5, -1]]]


def test_a_lost_patch_is_filled_by_its_neighbours_as_far_as_they_reach(tmp_path: Path) -> None:
    case = Case((2, 2), (1, 1), 1, 3, 0, 0, 0, 1)
    mixer, (shard,) = write_blocks(tmp_path, {"a": np.full(case.shape(1), 7, "float32")}, patch=(2, 2), per_row=3)
    stream = bytearray(shard.read_bytes())
    stream[len(stream) // 3 + 12 + 20] ^= 1
    shard.write_bytes(stream)
    result = geotfr.ingest_predictions(
        mixer, shard, tmp_path / "o.tif", kernel_size=2, overlap="average", on_bad_record="skip", nodata=0
    )
    assert result.patches_lost == 1
    assert (read_raster(tmp_path / "o.tif")[0] == 7).all()


def test_infinity_is_a_value(tmp_path: Path) -> None:
    case = Case((2, 2), (1, 1), 1, 2, 0, 0, 0, 1)
    blocks = np.full(case.shape(1), np.inf, "float32")
    blocks[0, 0, 0, 0] = np.nan
    assert np.isposinf(blended(case, blocks, "linear")).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--overlap", "average"), ("class ids", "vote", "--dtype float32")),
        (("--overlap", "max-probability"), ("max-probability", "two bands")),
        (("--overlap", "mean"), ("average",)),
    ],
)
def test_an_overlap_that_means_nothing_is_refused(
    options: tuple[str, ...], words: tuple[str, ...], tmp_path: Path
) -> None:
    mixer, (shard,) = write_set(tmp_path, numbered(1, 4, 4, "int64"), patch=(2, 2))
    outcome = run("ingest-predictions", mixer, shard, "--output", tmp_path / "o.tif", *options)
    assert_refused(outcome, 2, *words)
    assert not (tmp_path / "o.tif").exists()


def test_whole_numbers_are_averaged_if_the_type_says_that_they_are_numbers(tmp_path: Path) -> None:
    case = Case((2, 2), (1, 1), 1, 2, 0, 0, 0, 1)
    blocks = np.zeros(case.shape(1), "int64")
    blocks[1] = 10
    wanted = [[0, 5, 5, 10]] * 2
    assert blended(case, blocks, "average", dtype="float32").tolist() == [wanted]


@pytest.mark.parametrize("overlap", ["crop", "max-probability", *MEANS])
def test_case_76_a_band_without_value_takes_none_from_the_others(overlap: str, tmp_path: Path) -> None:
    bands = np.array([[[np.nan, 0.5]], [[0.9, np.nan]]], "float32")
    mixer, shards = write_set(tmp_path, bands, patch=(2, 1), names=("a", "b"))
    result = geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", overlap=overlap)
    np.testing.assert_array_equal(read_raster(tmp_path / "o.tif")[0], bands)
    told = [warning for warning in result.warnings if "2 predicted values are NaN" in warning]
    assert len(told) == (overlap != "crop")


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_case_76_nan_values_are_counted_once_in_passes_and_areas(
    executor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(2)
    blocks = random.random((12, 2, 6, 6)).astype("float32")
    blocks[random.random(blocks.shape) < 0.2] = np.nan
    features = {f"b{band}": blocks[:, band] for band in range(2)}
    mixer, shards = write_blocks(tmp_path, features, patch=(4, 4), per_row=4, shards=3)
    monkeypatch.setattr("geotfr.pipeline.ingest.overlap.BLEND_BUDGET_BYTES", 1)
    monkeypatch.setattr("geotfr.pipeline.ingest.parts.distribute._AREA_BYTES", 100)
    result = geotfr.ingest_predictions(
        mixer, shards, tmp_path / "o.tif", kernel_size=2, overlap="max-probability", executor=executor, workers=2
    )
    counted = int(np.isnan(blocks).sum())
    assert any(f"{counted} predicted values are NaN" in warning for warning in result.warnings)
    wanted = blend(blocks, "max-probability", patch_xy=(4, 4), margin_xy=(1, 1), patches_per_row=4)
    np.testing.assert_array_equal(read_raster(tmp_path / "o.tif")[0], wanted.astype("float32"))

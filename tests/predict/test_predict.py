"""A model's predictions of every patch come to their place: from rasters and records, to records and rasters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import wire
from oracle.mosaics import blend
from oracle.rasters import NORTH_UP, ROTATED, SOUTH_UP, read_raster, write_raster
from oracle.run import contents
from predict.worlds import PLACE, blocks_of, mosaic_of, neighbour_sum, scene, spying

import geotfr
import geotfr.pipeline.ingest.overlap
from geotfr.errors import UsageError


def read(path: Path | None) -> np.ndarray:
    assert path is not None
    return read_raster(path)[0]


def test_a_model_sees_the_neighbours_of_each_pixel_across_patches(tmp_path: Path) -> None:
    pixels = scene(2, 24, 40)
    result = geotfr.predict(
        neighbour_sum, (pixels, *PLACE), tmp_path / "sum.tif", patch_dimensions=8, kernel_size=2, batch_size=4
    )
    around = np.pad(pixels.sum(axis=0), 1)
    wanted = around[1:-1, 1:-1] + around[:-2, 1:-1] + around[2:, 1:-1] + around[1:-1, :-2] + around[1:-1, 2:]
    np.testing.assert_allclose(read(result.raster)[0], wanted, rtol=1e-5)
    assert (result.patches, result.batches, result.bands) == (15, 4, ("prediction",))


@pytest.mark.parametrize("transform", [NORTH_UP, SOUTH_UP, ROTATED], ids=["north-up", "south-up", "rotated"])
def test_identity_of_a_raster_gives_its_pixels_and_place(tmp_path: Path, transform: Any) -> None:
    pixels = scene(3, 16, 24)
    source = write_raster(tmp_path / "scene.tif", pixels, transform=transform)
    result = geotfr.predict(lambda batch: batch, source, tmp_path / "same.tif", patch_dimensions=8, kernel_size=4)
    found, profile, names = read_raster(tmp_path / "same.tif")
    np.testing.assert_array_equal(found, pixels)
    assert profile["transform"].almost_equals(transform, 1e-9)
    assert names == ("prediction_0", "prediction_1", "prediction_2") == result.bands


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    patch=st.integers(1, 6),
    margin=st.integers(0, 4),
    rows=st.integers(1, 3),
    columns=st.integers(1, 4),
    extra=st.integers(0, 3),
    batch_size=st.integers(1, 7),
    overlap=st.sampled_from(["crop", "average", "linear", "gaussian", "max-probability"]),
)
def test_any_way_gives_what_whole_arrays_give(
    tmp_path_factory: pytest.TempPathFactory,
    patch: int,
    margin: int,
    rows: int,
    columns: int,
    extra: int,
    batch_size: int,
    overlap: str,
) -> None:
    folder = tmp_path_factory.mktemp("way")
    pixels = scene(2, rows * patch + min(extra, patch - 1), columns * patch + min(extra, patch - 1))
    source = write_raster(folder / "scene.tif", pixels)
    weights = np.random.default_rng(1).normal(0, 1, (2, 2)).astype("float32")

    def model(batch: np.ndarray) -> np.ndarray:
        # What a patch has in its corner changes its whole, so that blocks disagree about a pixel.
        return np.einsum("oc,nchw->nohw", weights, batch) + batch[:, :1, :1, :1]

    blocks = model(blocks_of(pixels, patch, margin))
    options: dict[str, Any] = {"patch_dimensions": patch, "kernel_size": max(2 * margin, 1), "batch_size": batch_size}
    if overlap == "crop":
        wanted = mosaic_of(blocks[:, :, margin : margin + patch, margin : margin + patch], columns)
    else:
        wanted = blend(
            blocks, overlap, patch_xy=(patch, patch), margin_xy=(margin, margin), patches_per_row=columns
        ).astype("float32")
    straight = geotfr.predict(model, source, folder / "map.tif", overlap=overlap, **options)
    np.testing.assert_allclose(read(straight.raster), wanted, rtol=1e-4, atol=1e-3)

    exported = geotfr.export_image(source, folder / "set", patch_dimensions=patch, kernel_size=options["kernel_size"])
    from_records = geotfr.predict(model, exported, folder / "records.tif", overlap=overlap, batch_size=batch_size)
    np.testing.assert_allclose(read(from_records.raster), wanted, rtol=1e-4, atol=1e-3)

    (folder / "out").mkdir()
    records = geotfr.predict(model, exported, folder / "out" / "p", batch_size=batch_size)
    back = geotfr.ingest_predictions(folder / "out", (), folder / "back.tif", overlap=overlap)
    np.testing.assert_allclose(read(back.output), wanted, rtol=1e-4, atol=1e-3)
    assert records.patches == rows * columns


def test_records_are_in_the_order_of_the_patches_with_a_mixer_as_earth_engine_writes_it(tmp_path: Path) -> None:
    pixels = scene(1, 12, 20)
    place, crs = PLACE

    def model(batch: np.ndarray) -> dict[str, np.ndarray]:
        return {
            "mean": batch[:, 0],
            "class": (batch[:, 0] > 0).astype(np.uint8),
            "whole": np.rint(batch[:, 0]).astype(np.int32),
        }

    result = geotfr.predict(
        model, (pixels, place, crs), tmp_path / "p", patch_dimensions=(5, 4), batch_size=4, max_file_size=1500
    )
    assert [path.name for path in result.shards] == [f"p-{n:05d}.tfrecord.gz" for n in range(len(result.shards))]
    assert len(result.shards) > 1
    assert result.mixer is not None
    assert result.mixer.read_text() == wire.mixer_text(crs, place, (5, 4), 4, 12)
    records = [record for path in result.shards for record in wire.read_shard(path)]
    assert len(records) == 12
    for number, record in enumerate(records):
        row, col = divmod(number, 4)
        wanted = pixels[0, row * 4 : row * 4 + 4, col * 5 : col * 5 + 5].ravel()
        assert list(record) == ["mean", "class", "whole"]
        np.testing.assert_array_equal(record["mean"], wanted)
        assert record["class"] == [(wanted > 0).astype(np.uint8).tobytes()]
        np.testing.assert_array_equal(record["whole"], np.rint(wanted))


def test_records_of_predictions_verify_and_upload(tmp_path: Path) -> None:
    pixels = scene(2, 16, 16)
    result = geotfr.predict(
        lambda batch: {"a": batch[:, 0], "b": batch[:, 1]}, (pixels, *PLACE), tmp_path / "p", patch_dimensions=8
    )
    assert geotfr.verify([tmp_path]).is_good
    from geotfr.pipeline.ingest.upload_manifest import upload_manifest

    made = upload_manifest(result.mixer, result.shards, name="projects/p/assets/a", uri_prefix="gs://b/")  # type: ignore[arg-type]
    assert made.bands == ("a", "b")


def test_the_same_bytes_whatever_the_workers_and_the_batch(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", scene(2, 40, 56))
    found = []
    for workers, batch_size in ((1, 1), (4, 3), (2, 1024)):
        folder = tmp_path / f"{workers}"
        folder.mkdir()
        options: dict[str, Any] = {"patch_dimensions": 8, "workers": workers, "batch_size": batch_size}
        geotfr.predict(lambda batch: batch, source, folder / "p", **options, max_file_size=3000)
        geotfr.predict(lambda batch: batch, source, folder / "p.tif", overlap="linear", **options, kernel_size=4)
        found.append(contents(folder))
    assert found[0] == found[1] == found[2]


def test_batches_are_full_but_the_last_across_strips_and_dropped_patches(tmp_path: Path) -> None:
    pixels = scene(1, 32, 24)
    pixels[:, 8:16, 8:16] = np.nan
    model, shapes = spying(lambda batch: batch)
    result = geotfr.predict(
        model,
        (pixels, *PLACE),
        tmp_path / "p",
        patch_dimensions=8,
        batch_size=4,
        source_options={"masked_threshold": 0.5},
    )
    assert shapes == [(4, 1, 8, 8), (4, 1, 8, 8), (3, 1, 8, 8)]
    assert (result.patches, result.patches_dropped, result.mixer) == (11, 1, None)
    assert geotfr.read_manifest(result.manifest).patches_dropped == (4,)  # type: ignore[arg-type]
    back = geotfr.ingest_predictions(tmp_path, (), tmp_path / "back.tif")
    np.testing.assert_array_equal(read(back.output), pixels)


def test_patches_that_are_left_out_have_no_prediction_in_the_raster(tmp_path: Path) -> None:
    pixels = scene(1, 16, 24)
    pixels[:, 0:8, 8:16] = np.nan
    options: dict[str, Any] = {"patch_dimensions": 8, "source_options": {"masked_threshold": 0.5}}
    geotfr.predict(lambda batch: batch, (pixels, *PLACE), tmp_path / "f.tif", **options)
    np.testing.assert_array_equal(read(tmp_path / "f.tif"), pixels)
    # A whole-number type has no NaN, and which values come isn't known before: a mask tells.
    geotfr.predict(lambda batch: batch > 0, (pixels, *PLACE), tmp_path / "u.tif", **options)
    import rasterio

    with rasterio.open(tmp_path / "u.tif") as raster:
        np.testing.assert_array_equal(raster.read_masks(1) != 0, ~np.isnan(pixels[0]))
        np.testing.assert_array_equal(raster.read(1)[~np.isnan(pixels[0])], pixels[0][~np.isnan(pixels[0])] > 0)


def test_the_source_s_mask_is_put_back_on_request(tmp_path: Path) -> None:
    pixels = scene(2, 16, 16)
    pixels[1, 3:7, 2:9] = -9999
    source = write_raster(tmp_path / "scene.tif", pixels, nodata=-9999)
    exported = geotfr.export_image(source, tmp_path / "set", patch_dimensions=8)
    wanted = np.where((pixels == -9999).any(axis=0), np.nan, 1.0)
    for name, origin in (("raster", source), ("records", exported.mixer)):
        options: dict[str, Any] = {"patch_dimensions": 8} if name == "raster" else {}
        geotfr.predict(
            lambda batch: np.ones((len(batch), 8, 8), "float32"),
            origin,
            tmp_path / f"{name}.tif",
            mask_from="source",
            **options,
        )
        np.testing.assert_array_equal(read(tmp_path / f"{name}.tif")[0], wanted)


@pytest.mark.parametrize("channels_last", [False, True], ids=["channels-first", "channels-last"])
def test_inputs_come_stacked_or_by_feature_in_the_order_asked_for(tmp_path: Path, channels_last: bool) -> None:
    pixels = np.arange(3 * 64).reshape(3, 8, 8).astype("uint8")
    source = write_raster(tmp_path / "scene.tif", pixels, descriptions=("a", "b", "c"))
    seen: list[Any] = []

    def model(batch: Any) -> np.ndarray:
        seen.append(batch)
        return np.zeros((1, 8, 8), "uint8")

    options: dict[str, Any] = {"patch_dimensions": 8, "channels_last": channels_last, "overwrite": True}
    target = tmp_path / "map.tif"
    geotfr.predict(model, source, target, features=["c", "a"], **options)
    geotfr.predict(model, source, target, stack=False, **options)
    native = {"feature_kinds": "native", "array_bands": ["s=2-3"], "tensor_depths": {"s": 2}}
    geotfr.predict(model, source, target, stack=False, source_options=native, **options)
    stacked, by_feature, tensors = seen
    axis = -1 if channels_last else 1
    assert stacked.dtype == np.float32
    np.testing.assert_array_equal(stacked, np.stack([pixels[2], pixels[0]], axis=axis - 1 if axis > 0 else axis)[None])
    assert {name: (each.shape, each.dtype.name) for name, each in by_feature.items()} == dict.fromkeys(
        "abc", ((1, 8, 8), "float32")
    )
    np.testing.assert_array_equal(by_feature["b"][0], pixels[1])
    assert tensors["a"].dtype == np.uint8
    np.testing.assert_array_equal(np.moveaxis(tensors["s"], axis, 1)[0], pixels[1:])


def test_a_padded_edge_predicts_the_whole_raster(tmp_path: Path) -> None:
    pixels = scene(1, 19, 21)
    result = geotfr.predict(lambda batch: batch, (pixels, *PLACE), tmp_path / "drop.tif", patch_dimensions=8)
    assert read(result.raster).shape == (1, 16, 16)
    assert any("5 columns and 3 rows" in line for line in result.warnings)
    pad: Any = {"edge": "pad"}
    result = geotfr.predict(
        lambda batch: batch, (pixels, *PLACE), tmp_path / "pad.tif", patch_dimensions=8, source_options=pad
    )
    np.testing.assert_array_equal(read(result.raster), pixels)
    geotfr.predict(lambda batch: batch, (pixels, *PLACE), tmp_path / "p", patch_dimensions=8, source_options=pad)
    back = geotfr.ingest_predictions(tmp_path / "p.json", [tmp_path / "p.tfrecord.gz"], tmp_path / "back.tif")
    np.testing.assert_array_equal(read(back.output), pixels)


def test_a_value_for_each_patch_and_other_resolutions(tmp_path: Path) -> None:
    pixels = scene(1, 16, 24)
    means = pixels[0].reshape(2, 8, 3, 8).mean(axis=(1, 3))
    where = (pixels, *PLACE)
    one = geotfr.predict(
        lambda batch: batch.mean(axis=(1, 2, 3)), where, tmp_path / "one.tif", patch_dimensions=8, per_patch="pixel"
    )
    np.testing.assert_allclose(read(one.raster)[0], means, rtol=1e-5)
    assert one.geobox.affine[0] == 80
    many = geotfr.predict(
        lambda batch: batch.mean(axis=(2, 3)), where, tmp_path / "m", patch_dimensions=8, per_patch="pixel"
    )
    back = geotfr.ingest_predictions(many.mixer, many.shards, tmp_path / "back.tif")
    np.testing.assert_allclose(read(back.output)[0], means, rtol=1e-5)
    half = geotfr.predict(
        lambda batch: batch[:, 0, ::2, ::2], where, tmp_path / "half.tif", patch_dimensions=8, coarser=2
    )
    np.testing.assert_array_equal(read(half.raster)[0], pixels[0, ::2, ::2])


def test_classes_and_probabilities_are_reduced_as_an_ingest_does(tmp_path: Path) -> None:
    pixels = scene(3, 16, 16)
    result = geotfr.predict(
        lambda batch: batch, (pixels, *PLACE), tmp_path / "c.tif", patch_dimensions=8, argmax=True, statistics=True
    )
    np.testing.assert_array_equal(read(result.raster)[0], pixels.argmax(axis=0))
    assert (result.bands, result.dtypes) == (("class",), ("uint8",))


def test_a_raster_too_wide_for_one_pass_is_predicted_column_by_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = scene(2, 32, 16 * 11)
    options: dict[str, Any] = {"patch_dimensions": 16, "kernel_size": 8, "batch_size": 3, "overlap": "linear"}
    options["creation_options"] = {"BLOCKXSIZE": 32, "BLOCKYSIZE": 32}
    whole = geotfr.predict(lambda batch: batch * batch, (pixels, *PLACE), tmp_path / "whole.tif", **options)
    monkeypatch.setattr(geotfr.pipeline.ingest.overlap, "BLEND_BUDGET_BYTES", 1)
    model, shapes = spying(lambda batch: batch * batch)
    parts = geotfr.predict(model, (pixels, *PLACE), tmp_path / "parts.tif", **options)
    np.testing.assert_array_equal(read(parts.raster), read(whole.raster))
    # 6 passes of 2 patch columns, each with one more on either side; and the first batch, which told the bands.
    assert sum(shape[0] for shape in shapes) == 2 * (3 + 4 + 4 + 4 + 4 + 2) + 3


@pytest.mark.parametrize("overlap", ["crop", "average", "linear", "cosine", "gaussian", "vote", "max-probability"])
def test_records_that_are_ingested_give_the_same_pixels_bit_by_bit(
    overlap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Groups of 4 columns in a row of 9: a tensor's length must not decide in which order neighbours are added.
    monkeypatch.setattr(geotfr.pipeline.ingest.overlap, "_CHUNK_PIXELS", 4 * 14 * 14)
    pixels = scene(3, 5 * 8, 9 * 8)
    given: dict[str, Any] = {"patch_dimensions": 8, "kernel_size": 6}

    def model(batch: np.ndarray) -> np.ndarray:
        return batch * 1.7 + batch[:, :1, :1, :1] / 3

    ingested: dict[str, Any] = {"overlap": overlap}
    straight = geotfr.predict(model, (pixels, *PLACE), tmp_path / "map.tif", **given, **ingested)
    (tmp_path / "out").mkdir()
    geotfr.predict(model, (pixels, *PLACE), tmp_path / "out" / "p", **given)
    back = geotfr.ingest_predictions(tmp_path / "out", (), tmp_path / "back.tif", **ingested)
    np.testing.assert_array_equal(read(straight.raster), read(back.output))


def test_several_rasters_and_a_grid_of_one_s_own(tmp_path: Path) -> None:
    low, high = scene(1, 16, 16, 1), scene(1, 16, 16, 2)
    paths = [write_raster(tmp_path / "low.tif", low), write_raster(tmp_path / "high.tif", high)]
    result = geotfr.predict(
        lambda batch: batch[:, 0] - batch[:, 1],
        paths,
        tmp_path / "difference.tif",
        patch_dimensions=8,
        source_options={"crs_transform": PLACE[0], "dimensions": (8, 8)},
    )
    np.testing.assert_array_equal(read(result.raster)[0], (low - high)[0, :8, :8])


def test_progress_and_time_in_the_model_are_told(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    result = geotfr.predict(
        lambda batch: batch,
        (scene(1, 16, 16), *PLACE),
        tmp_path / "map.tif",
        patch_dimensions=8,
        progress=lambda patches, size_bytes: told.append((patches, size_bytes)),
    )
    assert sum(patches for patches, _ in told) == 4
    assert 0 <= result.model_seconds <= result.seconds
    document = result.to_dict()
    assert document["patches"] == 4
    assert document["dtypes"] == ["float32"]
    assert "patches   4 in 1 batches" in result.to_text()


def test_a_mask_inside_the_map_is_told_as_what_is_known_beforehand(tmp_path: Path) -> None:
    pixels = np.arange(64, dtype=np.uint8).reshape(1, 8, 8)
    pixels[0, 3, 3] = 0
    source = write_raster(tmp_path / "scene.tif", pixels, nodata=0)

    def model(batch: np.ndarray) -> np.ndarray:
        return np.ones((len(batch), 4, 4), np.uint8)

    result = geotfr.predict(model, source, tmp_path / "map.tif", patch_dimensions=4, mask_from="source")
    assert "255, nodata of uint8, may be a prediction" in result.notes[0]
    result = geotfr.predict(
        model, source, tmp_path / "map.tif", patch_dimensions=4, mask_from="source", nodata=9, overwrite=True
    )
    assert (result.nodata, result.notes) == (9, ())


RASTER_TYPES = {
    "bool": "uint8",
    **{name: name for name in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "float32")},
    "uint64": "int64",
    "float16": "float32",
    "float64": "float32",
    ">i2": "int16",
}


@pytest.mark.parametrize("given", RASTER_TYPES)
def test_a_raster_has_the_type_that_the_model_gives(tmp_path: Path, given: str) -> None:
    pixels = scene(1, 16, 24)
    dtype = np.dtype(given)

    def model(batch: np.ndarray) -> np.ndarray:
        return (batch * 1000 % 3).astype(dtype) if dtype.kind == "b" else (batch * 1000 % 100).astype(dtype)

    for options in ({}, {"overlap": "vote"}, {"nodata": 120}):
        result = geotfr.predict(
            model, (pixels, *PLACE), tmp_path / "map.tif", patch_dimensions=8, overwrite=True, **options
        )
        with rasterio.open(tmp_path / "map.tif") as raster:
            np.testing.assert_array_equal(raster.read(), model(pixels).astype(RASTER_TYPES[given]))
            assert {*raster.dtypes, *result.dtypes} == {RASTER_TYPES[given]}


def test_outputs_of_several_types_share_the_least_that_holds_them(tmp_path: Path) -> None:
    def model(batch: np.ndarray) -> dict[str, np.ndarray]:
        return {"class": batch[:, 0].astype(np.uint8), "count": batch[:, 0].astype(np.int16) - 300}

    result = geotfr.predict(model, (scene(1, 8, 8), *PLACE), tmp_path / "map.tif", patch_dimensions=8)
    assert result.dtypes == ("int16", "int16")
    result = geotfr.predict(model, (scene(1, 8, 8), *PLACE), tmp_path / "wide.tif", patch_dimensions=8, dtype="float64")
    assert result.dtypes == ("float64", "float64")


def test_a_batch_of_a_wider_type_than_the_first_is_refused(tmp_path: Path) -> None:
    types = iter([np.int16, np.int8, np.int32])
    with pytest.raises(UsageError, match=r"found int32 of shape .*; the first batch has int16"):
        geotfr.predict(
            lambda batch: batch[:, 0].astype(next(types)),
            (scene(1, 8, 24), *PLACE),
            tmp_path / "map.tif",
            patch_dimensions=8,
            batch_size=1,
        )
    assert list(tmp_path.iterdir()) == []

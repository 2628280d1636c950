"""A feature that tells which pixels are valid: in every record, for models, and never taken for a band of data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from oracle import wire
from oracle.rasters import NORTH_UP, read_raster, write_raster
from oracle.run import assert_refused, contents, run

import geotfr
from geotfr.errors import DamagedError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

PATCH, MARGIN = 4, 1
FILL = 7
"""A value that valid pixels hold too: only the feature tells which are masked."""


def scene() -> tuple[np.ndarray, np.ndarray]:
    """(band, row, col) int16 of 10 x 11 pixels that hold FILL here and there, and where no band is nodata (-1)."""
    pixels = np.random.default_rng(3).integers(0, 12, (2, 10, 11)).astype("int16")
    pixels[0, 1:4, 2:9] = -1
    pixels[1, 3:6, 5:7] = -1
    pixels[:, 9, 10] = -1
    return pixels, (pixels != -1).all(axis=0)


def blocks(valid: np.ndarray) -> np.ndarray:
    """(patch, row, col): the blocks of a padded export, 0 beyond the raster."""
    rows, cols = -(-valid.shape[0] // PATCH), -(-valid.shape[1] // PATCH)
    around = np.zeros((rows * PATCH + 2 * MARGIN, cols * PATCH + 2 * MARGIN), "uint8")
    around[MARGIN : MARGIN + valid.shape[0], MARGIN : MARGIN + valid.shape[1]] = valid
    side = PATCH + 2 * MARGIN
    places = [(row * PATCH, col * PATCH) for row in range(rows) for col in range(cols)]
    return np.stack([around[row : row + side, col : col + side] for row, col in places])


def exported(tmp_path: Path, name: str = "set", **options: Any) -> geotfr.ExportResult:
    """The scene's export with a feature ``valid``."""
    source = write_raster(tmp_path / "scene.tif", scene()[0], nodata=-1)
    given: dict[str, Any] = {"patch_dimensions": PATCH, "kernel_size": 2 * MARGIN, "edge": "pad"}
    given |= {"default_value": FILL, "valid_feature": "valid"}
    return geotfr.export_image(source, tmp_path / name, **(given | options))


KINDS: list[dict[str, Any]] = [
    {},
    {"feature_kinds": "native"},
    {"mask_mode": "band"},
    {"collapse_bands": True},
    {"array_bands": {"series": "1"}, "tensor_depths": {"series": 3}, "bands": [2]},
    {"patch_index": "number"},
]


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_records_and_data_sets_hold_the_block_s_validity(options: dict[str, Any], tmp_path: Path) -> None:
    result = exported(tmp_path, **options)
    wanted = blocks(scene()[1])
    records = [record for shard in result.shards for record in wire.read_shard(shard)]
    assert [record["valid"] for record in records] == [[block.tobytes()] for block in wanted]
    dataset = geotfr.PatchDataset(result.mixer)
    assert dataset.valid_feature == "valid"
    assert dataset.spec["valid"].dtype == np.uint8
    np.testing.assert_array_equal(dataset[:]["valid"], wanted)
    streamed = [item["valid"] for item in geotfr.stream(result.mixer)]
    np.testing.assert_array_equal(np.stack(streamed), wanted)


def test_the_manifest_lists_the_feature_and_the_option_and_other_sets_have_neither(tmp_path: Path) -> None:
    document = json.loads(exported(tmp_path).manifest.read_text())
    assert document["options"]["valid_feature"] == "valid"
    assert document["bands"][-1] == {
        "name": "valid",
        "dtype": "uint8",
        "kind": "bytes",
        "depth": None,
        "nodata": None,
        "fill": 0,
    }
    (tmp_path / "other").mkdir()
    assert "valid_feature" not in exported(tmp_path, "other/set", valid_feature=None).manifest.read_text()


def test_where_nothing_is_masked_all_is_valid_but_the_margins_beyond_the_raster(tmp_path: Path) -> None:
    pixels = np.ones((1, 8, 8), "uint8")
    place = (NORTH_UP, "EPSG:32618")
    result = geotfr.export_image(
        (pixels, *place), tmp_path / "set", patch_dimensions=PATCH, kernel_size=2, valid_feature="valid"
    )
    np.testing.assert_array_equal(geotfr.PatchDataset(result.manifest)[:]["valid"], blocks(pixels[0] == 1))


def test_labels_don_t_count(tmp_path: Path) -> None:
    # Labels that are nodata everywhere but in one pixel.
    classes = np.zeros((10, 11), "uint8")
    classes[0, 0] = 3
    labels = write_raster(tmp_path / "classes.tif", classes, nodata=0)
    result = exported(tmp_path, labels=labels)
    np.testing.assert_array_equal(geotfr.PatchDataset(result.manifest)[:]["valid"], blocks(scene()[1]))
    found = geotfr.compute_statistics(result.manifest, bins=0)
    assert set(found.bands) == {"b1", "b2"}
    assert sum(next(iter(found.classes.values())).values()) == scene()[1].sum()


def test_dropped_patches_have_no_record_and_the_others_theirs(tmp_path: Path) -> None:
    result = exported(tmp_path, masked_threshold=0.3)
    cores = blocks(scene()[1])[:, MARGIN:-MARGIN, MARGIN:-MARGIN]
    kept = (cores == 0).mean(axis=(1, 2)) <= 0.3
    assert 0 < kept.sum() < len(kept)
    dataset = geotfr.PatchDataset(result.manifest)
    np.testing.assert_array_equal(dataset[:]["valid"], blocks(scene()[1])[kept])


def test_a_stack_of_all_bands_leaves_the_feature_beside_it_unless_it_is_named(tmp_path: Path) -> None:
    result = exported(tmp_path)
    item = geotfr.PatchDataset(result.manifest, stack=True)[0]
    assert (set(item), item["image"].shape) == ({"image", "valid"}, (2, 6, 6))
    named = geotfr.PatchDataset(result.manifest, stack=["b1", "valid"])[0]["image"]
    np.testing.assert_array_equal(named[1], blocks(scene()[1])[0])
    assert geotfr.PatchDataset(result.manifest, features="b1").valid_feature is None


def test_pixel_records_hold_a_byte_each_and_map_home_without_it(tmp_path: Path) -> None:
    result = exported(tmp_path, sequence_data=True)
    found = [context["valid"] for shard in result.shards for context, _ in wire.read_sequences(shard)]
    assert found == [[bytes([value])] for value in blocks(scene()[1]).ravel()]
    back = geotfr.ingest_predictions(result.mixer, result.shards, tmp_path / "back.tif")
    assert back.bands == ("b1", "b2")


@pytest.mark.parametrize("options", [{}, {"collapse_bands": True}, {"feature_kinds": "native"}], ids=str)
def test_statistics_are_those_of_the_valid_pixels_with_and_without_a_table(
    options: dict[str, Any], tmp_path: Path
) -> None:
    pixels, valid = scene()
    result = exported(tmp_path, patch_table=True, **options)
    assert result.patch_table is not None
    with_table = geotfr.compute_statistics(result.patch_table, bins=4)
    result.patch_table.unlink()
    without = geotfr.compute_statistics(result.manifest, bins=4)
    assert not without.warnings
    for found in (with_table, without) if not options.get("collapse_bands") else (without,):
        numbers = [
            np.ravel([found.bands[name][key] for name in found.bands]) for key in ("count", "mean", "std", "min", "max")
        ]
        wanted = [pixels[:, valid].astype("f8")] * 5
        each = [[len(one[0])] * 2 for one in wanted[:1]] + [
            getattr(wanted[0], how)(axis=1) for how in ("mean", "std", "min", "max")
        ]
        for mine, theirs in zip(numbers, each, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6)
        assert "valid" not in found.bands
    geotfr.PatchDataset(result.manifest, normalize=without.to_dict())


def test_in_band_mode_statistics_tell_what_one_validity_can_t(tmp_path: Path) -> None:
    pixels, valid = scene()
    result = exported(tmp_path, mask_mode="band")
    found = geotfr.compute_statistics(result.manifest, bins=0)
    assert [found.bands[name]["mean"] for name in ("b1", "b2")] == pytest.approx(pixels[:, valid].mean(axis=1).tolist())
    assert any("'valid'" in warning for warning in found.warnings)


def test_a_table_made_of_the_records_is_the_export_s(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    result = exported(tmp_path, patch_table=True)
    assert result.patch_table is not None
    own = parquet.read_table(result.patch_table)
    made = geotfr.make_patch_table(result.manifest, tmp_path / "made.parquet")
    assert not made.warnings
    again = parquet.read_table(made.table)
    assert again.column_names == own.column_names
    assert not [name for name in own.column_names if name.endswith("_valid")]
    assert again.schema.metadata == own.schema.metadata
    for name in own.column_names:
        mine, theirs = again[name].to_pylist(), own[name].to_pylist()
        assert mine == (pytest.approx(theirs) if isinstance(theirs[0], float) else theirs), name


def test_rasters_that_share_shards_have_the_feature_and_their_statistics(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "in").mkdir()
    pixels, valid = scene()
    for place, name in enumerate("ab"):
        write_raster(tmp_path / "in" / f"{name}.tif", np.where(pixels == -1, -1, pixels + place), nodata=-1)
    result = geotfr.export_collection(
        tmp_path / "in", tmp_path / "all", patch_dimensions=PATCH, edge="pad", valid_feature="valid", shards="shared"
    )
    assert geotfr.PatchDataset(result.table).valid_feature == "valid"
    found = geotfr.compute_statistics(result.table, bins=0).bands
    assert set(found) == {"b1", "b2"}
    assert found["b1"]["mean"] == pytest.approx(pixels[0][valid].mean() + 0.5)
    geotfr.make_patch_table(tmp_path / "all-a-manifest.json", tmp_path / "again.parquet")


def test_exported_records_come_back_without_the_feature_which_is_told(tmp_path: Path) -> None:
    pixels, valid = scene()
    result = exported(tmp_path)
    done = run("ingest-predictions", result.mixer, *result.shards, "-o", tmp_path / "back.tif", "--json")
    assert done.code == 0, done.told
    found, _, names = read_raster(tmp_path / "back.tif")
    assert names == ("b1", "b2")
    np.testing.assert_array_equal(found, np.where(valid, pixels, FILL))
    assert [text for text in json.loads(done.stdout)["warnings"] if "'valid'" in text]
    assert done.stderr.count("'valid'") == 1
    named = geotfr.ingest_predictions(result.mixer, result.shards, tmp_path / "valid.tif", bands="valid")
    assert not [text for text in named.warnings if "'valid'" in text]
    np.testing.assert_array_equal(read_raster(named.output)[0][0], valid)


def test_a_model_gets_the_bands_alone(tmp_path: Path) -> None:
    result = exported(tmp_path)
    channels = []

    def model(batch: np.ndarray) -> np.ndarray:
        channels.append(batch.shape[1])
        return batch

    geotfr.predict(model, result.manifest, tmp_path / "of-records.tif")
    assert set(channels) == {2}


@pytest.mark.parametrize("layout", ["mosaic", "patches"])
def test_labelled_arrays_have_the_feature_as_a_flag_that_is_0_where_a_patch_is_missing(
    layout: str, tmp_path: Path
) -> None:
    pytest.importorskip("rioxarray")
    result = exported(tmp_path, masked_threshold=0.3)
    found = geotfr.to_xarray(result.manifest, layout=layout)["valid"]
    assert (found.dtype, found.attrs["flag_values"].tolist(), found.attrs["flag_meanings"]) == (
        np.uint8,
        [0, 1],
        "masked valid",
    )
    if layout == "mosaic":
        cores = blocks(scene()[1])[:, MARGIN:-MARGIN, MARGIN:-MARGIN].copy()
        cores[(cores == 0).mean(axis=(1, 2)) > 0.3] = 0
        wanted = cores.reshape(3, 3, PATCH, PATCH).swapaxes(1, 2).reshape(3 * PATCH, 3 * PATCH)[:10, :11]
        np.testing.assert_array_equal(found.to_numpy(), wanted)


def test_previews_show_as_masked_what_the_feature_tells(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pixels, valid = scene()
    result = exported(tmp_path)
    figure = geotfr.plot_patches(result, bands="b1")
    for block, image in zip(blocks(valid), figure.axes[0].images, strict=True):
        cell = np.asarray(image.get_array())
        np.testing.assert_array_equal(np.ptp(cell, axis=2) == 0, block == 1)
    assert any("valid" in text.get_text() for legend in figure.legends for text in legend.get_texts())
    with pytest.raises(UsageError, match="'valid'"):
        geotfr.plot_patches(result, bands="valid")
    counts = [axes.patches[0].get_data().values.sum() for axes in geotfr.plot_histograms(result).axes]
    assert counts == [valid.sum()] * 2
    assert np.count_nonzero(pixels[0][valid] == FILL)


def test_specs_of_the_records_know_the_feature(tmp_path: Path) -> None:
    result = exported(tmp_path)
    features = geotfr.infer_features([str(path) for path in result.shards])
    record = next(geotfr.read_records(result.shards))
    value = geotfr.parse_single_example(record, features)["valid"]
    assert np.ravel(value)[0] == blocks(scene()[1])[0].tobytes()
    done = run("inspect", *result.shards, "--code", "tf")
    assert '"valid": tf.io.FixedLenFeature([], tf.string)' in done.stdout


def test_an_item_lists_the_bands_of_data_alone(tmp_path: Path) -> None:
    result = exported(tmp_path)
    item = geotfr.write_stac_item(result.manifest, date="2024-06-01").item
    (shard,) = [asset for key, asset in item["assets"].items() if key.startswith("shard")]
    assert [band["name"] for band in shard["bands"]] == ["b1", "b2"]


def test_an_upload_manifest_knows_that_earth_engine_makes_a_band_of_it(tmp_path: Path) -> None:
    result = exported(tmp_path, edge="drop")
    options = (
        "--name",
        "projects/some-project/assets/a",
        "--uri-prefix",
        "gs://bucket/a",
        "--output",
        tmp_path / "a.json",
        "--json",
    )
    done = run("upload-manifest", result.mixer, *result.shards, *options)
    assert done.code == 0, done.told
    assert json.loads(done.stdout)["bands"] == ["b1", "b2", "valid"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--valid-feature", "b2"), ("'b2'", "band")),
        (("--valid-feature", "n", "--patch-index", "n"), ("'n'", "patch index")),
        (("--valid-feature", "s", "--array-band", "s=1", "--tensor-depths", "s=1"), ("'s'", "band")),
        (("--valid-feature", "\udcff"), ("UTF-8",)),
        (("--patch-index", "\udcff"), ("UTF-8",)),
    ],
    ids=ascii,
)
def test_a_name_that_is_taken_or_no_text_is_refused(
    more: tuple[str, ...], words: tuple[str, ...], tmp_path: Path
) -> None:
    source = write_raster(tmp_path / "scene.tif", scene()[0])
    before = contents(tmp_path)
    common = ("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2", "--quiet")
    assert_refused(run(*common, *more), 2, *words)
    with pytest.raises(UsageError):
        geotfr.export_image(source, tmp_path / "set", patch_dimensions=2, valid_feature="")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("change", [{"name": "b1"}, {"name": "none"}, {"name": 5}], ids=str)
def test_a_manifest_that_names_a_feature_that_can_t_be_one_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    result = exported(tmp_path)
    document = json.loads(result.manifest.read_text())
    document["options"]["valid_feature"] = change["name"]
    result.manifest.write_text(json.dumps(document))
    with pytest.raises(DamagedError):
        geotfr.PatchDataset(result.manifest)
    with pytest.raises(DamagedError):
        geotfr.compute_statistics(result.manifest)


def test_a_table_remakes_the_set_s_records_from_its_raster(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    result = exported(tmp_path)
    made = geotfr.make_patch_table(result.manifest, tmp_path / "made.parquet", rasters=[tmp_path / "scene.tif"])
    assert made.patches == 9

"""Nodata, masks put back, patches that weren't exported, class names and colours, as other readers see them."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import numpy as np
import pytest
import rasterio
import rasterio.shutil
from oracle.rasters import numbered, read_raster, write_raster
from oracle.run import assert_refused, run
from oracle.sets import write_set

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

VALID = np.array([[1, 1, 0, 1], [1, 0, 1, 1]], bool)


def masks(path: Path) -> np.ndarray:
    """(row, col) of the whole raster's mask, True = valid."""
    with rasterio.open(path) as raster:
        return raster.dataset_mask() > 0


@pytest.mark.parametrize(
    ("dtype", "values", "nodata"),
    [
        ("float32", [[1, 2, 3, 4], [5, 6, 7, 8]], "nan"),
        ("uint8", [[1, 2, 3, 4], [5, 6, 7, 254]], 255),
        ("uint8", [[1, 2, 3, 4], [5, 6, 7, 255]], None),
        ("uint8", [[0, 2, 3, 4], [5, 6, 7, 255]], None),
        ("uint16", [[0, 2, 3, 4], [5, 6, 7, 255]], 65535),
        ("int16", [[0, 2, 3, 4], [5, 6, 7, 255]], -32768),
        ("int16", [[-32768, 2, 3, 4], [5, 6, 7, 255]], None),
        ("int64", [[0, 2, 3, 4], [5, 6, 7, 255]], -(2**53)),
        ("int64", [[-(2**60), 2, 3, 4], [5, 6, 7, 2**60]], None),
        ("uint64", [[0, 2, 3, 4], [5, 6, 7, 255]], 2**53),
        ("uint64", [[0, 2, 3, 4], [5, 6, 7, 2**60]], None),
    ],
)
def test_case_36_the_source_mask_comes_back_as_nodata_that_no_prediction_is_or_as_a_mask(
    dtype: str, values: list[list[int]], nodata: float | str | None, tmp_path: Path
) -> None:
    write_raster(tmp_path / "scene.tif", np.where(VALID, 1, -9999).astype("int16"), nodata=-9999)
    kind = {"float32": "float32", "uint8": "uint8"}.get(dtype, "int64")
    picture = np.array([values], kind)
    mixer, shards = write_set(tmp_path, picture, patch=(2, 2))
    result = geotfr.ingest_predictions(
        mixer, shards, tmp_path / "o.tif", mask_from=tmp_path / "scene.tif", dtype=dtype, pyramiding_policy="sample"
    )
    pixels, profile, _ = read_raster(tmp_path / "o.tif")
    np.testing.assert_array_equal(masks(tmp_path / "o.tif"), VALID)
    np.testing.assert_array_equal(pixels[0][VALID], picture[0][VALID])
    assert str(profile["nodata"]) == str(float(nodata) if nodata is not None else None)
    assert any("without prediction" in note for note in result.notes)


@pytest.mark.parametrize(
    ("nodata", "dtype"),
    [("-1", "uint8"), ("256", "uint8"), ("1.5", "int16"), ("nan", "int32"), (str(-(2**63)), "int64")],
)
def test_case_36_nodata_that_the_type_cannot_hold_is_refused_before_any_work(
    nodata: str, dtype: str, tmp_path: Path
) -> None:
    mixer, _ = write_set(tmp_path, np.zeros((1, 2, 4), "int64"), patch=(2, 2))
    # Not even read: a shard that isn't whole would be another error.
    (tmp_path / "cut.tfrecord").write_bytes(b"cut")
    call = ("ingest-predictions", mixer, tmp_path / "cut.tfrecord", "--output", tmp_path / "o.tif")
    before = set(tmp_path.iterdir())
    assert_refused(run(*call, "--dtype", dtype, f"--nodata={nodata}"), 2, "nodata", "--nodata")
    assert set(tmp_path.iterdir()) == before


def test_the_manifests_sources_are_found_beside_it(tmp_path: Path) -> None:
    scene = np.where(VALID, numbered(1, 2, 4)[0], np.nan).astype("float32")
    source = write_raster(tmp_path / "scene.tif", scene)
    geotfr.export_image(source, tmp_path / "set", patch_dimensions=2)
    arguments = (tmp_path / "set.json", [tmp_path / "set.tfrecord.gz"], tmp_path / "o.tif")
    geotfr.ingest_predictions(*arguments, mask_from="manifest")
    np.testing.assert_array_equal(read_raster(tmp_path / "o.tif")[0][0], scene)
    source.rename(tmp_path / "elsewhere.tif")
    with pytest.raises(geotfr.MissingInputError, match=r"scene\.tif.*--mask-from FILE"):
        geotfr.ingest_predictions(*arguments, mask_from="manifest", overwrite=True)


def test_a_mask_on_another_grid_is_brought_onto_the_predictions(tmp_path: Path) -> None:
    write_raster(tmp_path / "scene.tif", np.repeat(np.repeat(VALID, 2, 0), 2, 1).astype("uint8"), nodata=0)
    with rasterio.open(tmp_path / "scene.tif", "r+") as raster:
        raster.transform = rasterio.Affine(5, 0, 500000, 0, -5, 4000000)
    mixer, shards = write_set(tmp_path, numbered(1, 2, 4), patch=(2, 2))
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", mask_from=tmp_path / "scene.tif")
    np.testing.assert_array_equal(masks(tmp_path / "o.tif"), VALID)


@pytest.mark.parametrize("form", ["manifest", "folder"])
def test_patches_over_the_threshold_come_back_to_their_places(form: str, tmp_path: Path) -> None:
    scene = numbered(1, 6, 8)[0]
    scene[:2, 2:4] = np.nan
    scene[4:, :2] = np.nan
    folder = tmp_path / "set"
    folder.mkdir()
    source = write_raster(tmp_path / "scene.tif", scene)
    exported = geotfr.export_image(source, folder / "set", patch_dimensions=2, masked_threshold=0.5)
    assert exported.mixer is None
    inputs = (folder, ()) if form == "folder" else (folder / "set-manifest.json", [folder / "set.tfrecord.gz"])
    result = geotfr.ingest_predictions(*inputs, tmp_path / "o.tif")
    np.testing.assert_array_equal(read_raster(tmp_path / "o.tif")[0][0], scene)
    assert (result.patches, result.patches_lost) == (10, 0)
    geotfr.ingest_predictions(*inputs, tmp_path / "blend.tif", overlap="average")
    np.testing.assert_array_equal(read_raster(tmp_path / "blend.tif")[0][0], scene)


CLASSES = "value,name,colour\n0,sea & sky,#0000ff\n2,é,#00ff0080\n\n3,town,\n"


def category_names(path: Path, tmp_path: Path) -> list[str | None]:
    """As GDAL reads them: a VRT copy prints them."""
    rasterio.shutil.copy(str(path), str(tmp_path / "copy.vrt"), driver="VRT")
    return [element.text for element in ET.parse(tmp_path / "copy.vrt").iter("Category")]


@pytest.mark.parametrize("form", ["gtiff", "cog"])
def test_classes_give_colours_and_names_that_gdal_reads_back(form: str, tmp_path: Path) -> None:
    (tmp_path / "classes.csv").write_text(CLASSES, "utf-8")
    picture = np.array([[[0, 2], [3, 0]]], "uint8")
    mixer, shards = write_set(tmp_path, picture, patch=(2, 2))
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", classes=tmp_path / "classes.csv", format=form)
    with rasterio.open(tmp_path / "o.tif") as raster:
        table = raster.colormap(1)
        assert raster.colorinterp[0].name == "palette"
    assert (table[0], table[2][:3]) == ((0, 0, 255, 255), (0, 255, 0))
    assert category_names(tmp_path / "o.tif", tmp_path) == ["sea & sky", None, "é", "town"]
    np.testing.assert_array_equal(read_raster(tmp_path / "o.tif")[0], picture)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0,a\n1,b\n", ("record 0", "class 2", "--classes")),
        ("0,a\n0,b\n", ("line 2", "twice")),
        ("x,a\n", ("line 1", "value")),
        ("0,a,red\n", ("line 1", "#rrggbb")),
        ("", ("no classes",)),
        ("70000,a\n", ("65535",)),
    ],
)
def test_an_unknown_class_and_a_bad_file_are_refused(text: str, words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "classes.csv").write_text(text)
    mixer, (shard,) = write_set(tmp_path, np.array([[[0, 2]]], "uint8"), patch=(2, 1))
    outcome = run(
        *("ingest-predictions", mixer, shard, "--output", tmp_path / "o.tif", "--classes", tmp_path / "classes.csv")
    )
    assert_refused(outcome, {10, 12}, *words)
    assert not (tmp_path / "o.tif").exists()


def test_replacing_a_raster_removes_what_described_the_old_one(tmp_path: Path) -> None:
    mixer, shards = write_set(tmp_path, np.array([[[0, 2]]], "uint8"), patch=(2, 1))
    (tmp_path / "classes.csv").write_text("0,a\n2,b\n")
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", classes=tmp_path / "classes.csv")
    assert (tmp_path / "o.tif.aux.xml").exists()
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", overwrite=True)
    assert not (tmp_path / "o.tif.aux.xml").exists()


def test_predictions_that_equal_nodata_are_counted_where_pixels_are_masked(tmp_path: Path) -> None:
    valid = np.ones((2, 6), bool)
    valid[0, 0] = False
    write_raster(tmp_path / "scene.tif", valid.astype("uint8"), nodata=0)
    # One in the patch with a masked pixel, two in a patch without; the masked pixel's own doesn't count.
    mixer, shards = write_set(tmp_path, np.array([[[7, 7, 7, 7, 1, 2], [1, 2, 3, 4, 5, 6]]], "float32"), patch=(2, 2))
    options = {"nodata": 7, "dtype": "uint8"}
    result = geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", mask_from=tmp_path / "scene.tif", **options)
    assert [warning.split()[0] for warning in result.warnings if "nodata" in warning] == ["3"]
    # Without a mask, nodata is what predictions that have it mean.
    assert geotfr.ingest_predictions(mixer, shards, tmp_path / "p.tif", **options).warnings == ()


def test_predictions_that_equal_nodata_are_counted_where_patches_are_missing(tmp_path: Path) -> None:
    data = numbered(1, 2, 6, "uint8")
    data[:, :, :2] = 0
    source = write_raster(tmp_path / "scene.tif", data, nodata=0)
    made = geotfr.export_image(source, tmp_path / "set", patch_dimensions=2, masked_threshold=0.5)
    result = geotfr.ingest_predictions(made.manifest, made.shards, tmp_path / "o.tif", nodata=9, overwrite=True)
    assert masks(tmp_path / "o.tif").tolist() == [[False, False, True, True, True, True], [False] * 3 + [True] * 3]
    assert [warning.split()[0] for warning in result.warnings if "nodata" in warning] == ["1"]


@pytest.mark.parametrize("nodata", [0.1, -3.4e38, -3.4028234663852886e38, "nan", "-inf", -9999])
@pytest.mark.parametrize("output_format", ["gtiff", "cog"])
def test_case_26_nodata_of_an_output_is_the_bands_own_value(
    nodata: float | str, output_format: str, tmp_path: Path
) -> None:
    write_raster(tmp_path / "scene.tif", np.where(VALID, 1, 0).astype("uint8"), nodata=0)
    mixer, shards = write_set(tmp_path, numbered(1, 2, 4), patch=(2, 2))
    out = tmp_path / "o.tif"
    outcome = run(
        *("ingest-predictions", mixer, *shards, "--output", out, "--mask-from", tmp_path / "scene.tif"),
        *(f"--nodata={nodata}", "--format", output_format),
    )
    assert outcome.code == 0, outcome.told
    np.testing.assert_array_equal(masks(out), VALID)
    pixels, profile, _ = read_raster(out)
    assert str(profile["nodata"]) == str(float(np.float32(nodata)))
    assert (pixels[0][~VALID].astype(str) == str(np.float32(nodata))).all()


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_case_100_several_masks_mask_together_and_zeros_of_a_mask_do(tmp_path: Path, executor: str) -> None:
    values = numbered(1, 4, 8)
    mixer, shards = write_set(tmp_path, values, patch=(2, 2))
    scene = np.full((1, 4, 8), 7, "uint8")
    scene[0, 0] = 0
    write_raster(tmp_path / "scene.tif", scene, nodata=0)
    zeros = np.ones((1, 4, 8), "uint8")
    zeros[0, :, 3] = 0
    write_raster(tmp_path / "mask.tif", zeros)
    # Zeros of a raster that holds other values are values.
    counts = np.zeros((1, 4, 8), "uint8")
    counts[0, 2] = 2
    write_raster(tmp_path / "counts.tif", counts)
    masks_given = [str(tmp_path / name) for name in ("scene.tif", "mask.tif", "counts.tif")]
    flags = [word for name in masks_given for word in ("--mask-from", name)]
    call = ("ingest-predictions", mixer, *shards, "--output", tmp_path / "o.tif", "--json", "--executor", executor)
    outcome = run(*call, "--workers", "2", *flags)
    assert outcome.code == 0, outcome.told
    expected = np.where((scene[0] != 0) & (zeros[0] != 0), values[0], np.nan)
    np.testing.assert_array_equal(read_raster(tmp_path / "o.tif")[0][0], expected)
    told = [each for each in json.loads(outcome.stdout)["warnings"] if "mask.tif" in each]
    assert len(told) == 1
    assert outcome.stderr.count("mask.tif") == 1


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("scale", [1, 2])
def test_case_100_a_mask_means_in_an_ingest_what_it_means_in_an_export(tmp_path: Path, dtype: str, scale: int) -> None:
    values = numbered(1, 8, 8)
    source = write_raster(tmp_path / "scene.tif", values)
    mask = (np.random.default_rng(1).random((1, 8 // scale, 8 // scale)) < 0.7).astype(dtype)
    transform = rasterio.Affine(10 * scale, 0, 500000, 0, -10 * scale, 4000000)
    write_raster(tmp_path / "mask.tif", mask, transform=transform)
    geotfr.export_image(source, tmp_path / "set", patch_dimensions=4, masks=tmp_path / "mask.tif", default_value=-1)
    geotfr.export_image(source, tmp_path / "all", patch_dimensions=4)
    exported = geotfr.ingest_predictions(tmp_path / "set.json", tmp_path / "set.tfrecord.gz", tmp_path / "e.tif")
    given = (tmp_path / "all.json", tmp_path / "all.tfrecord.gz", tmp_path / "o.tif")
    geotfr.ingest_predictions(*given, mask_from=[tmp_path / "mask.tif"], nodata=-1)
    np.testing.assert_array_equal(read_raster(tmp_path / "o.tif")[0], read_raster(exported.output)[0])


def test_sources_go_with_the_manifest(tmp_path: Path) -> None:
    mixer, shards = write_set(tmp_path, numbered(1, 2, 4), patch=(2, 2))
    outcome = run("ingest-predictions", mixer, *shards, "-o", tmp_path / "o.tif", "--sources", tmp_path)
    assert_refused(outcome, 2, "sources", "--mask-from manifest")

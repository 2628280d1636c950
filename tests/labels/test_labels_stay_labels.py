"""Labels are counted by name and never scaled; what masked pixels hold is known wherever the records are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import wire
from oracle.patches import written
from oracle.rasters import NORTH_UP, write_raster
from oracle.run import assert_refused, run
from oracle.sets import write_set

import geotfr

SHAPE = (3, 24, 24)


def square(column: int, row: int, side: int) -> dict[str, Any]:
    left, top = NORTH_UP.c + 10 * column, NORTH_UP.f - 10 * row
    right, bottom = left + 10 * side, top - 10 * side
    return {
        "type": "Polygon",
        "coordinates": [[[left, top], [left, bottom], [right, bottom], [right, top], [left, top]]],
    }


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    values = np.random.default_rng(0).integers(1, 1000, SHAPE).astype("uint16")
    return write_raster(tmp_path / "scene.tif", values, nodata=0, descriptions=("B2", "B3", "B4"))


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    named = (("water", square(0, 0, 6)), ("forest", square(12, 4, 8)), ("town", square(4, 14, 5)))
    features = [{"type": "Feature", "properties": {"kind": name}, "geometry": shape} for name, shape in named]
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32618"}}
    path = tmp_path / "shapes.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "crs": crs, "features": features}))
    return path


def counted(labels: list[np.ndarray]) -> dict[int, int]:
    values, counts = np.unique(np.concatenate([each.ravel() for each in labels]), return_counts=True)
    return dict(zip(values.astype(int).tolist(), counts.tolist(), strict=True))


# A table of collapsed bands tells no classes.
@pytest.mark.parametrize(("collapse", "table"), [(False, False), (False, True), (True, False)])
def test_labels_are_counted_by_name_and_come_back_as_they_were_written(
    collapse: bool, table: bool, scene: Path, shapes: Path, tmp_path: Path
) -> None:
    result = geotfr.export_image(
        scene,
        tmp_path / "out",
        patch_dimensions=8,
        labels=shapes,
        label_field="kind",
        label_instances="shape",
        collapse_bands=collapse,
        patch_table=table,
    )
    classes = {"forest": 1, "town": 2, "water": 3}
    manifest = geotfr.read_manifest(result.manifest)
    assert manifest.labels is not None
    assert manifest.labels["classes"] == classes
    assert result.to_dict()["plan"]["labels"]["classes"] == classes
    found = geotfr.compute_statistics(result.manifest)
    patches = written(tmp_path) if not collapse else {}
    if collapse:
        payloads = wire.read_shard(result.shards[0])
        patches = {
            number: dict(zip("ABCDE", np.asarray(each["B2"]).reshape(5, 8, 8), strict=True))
            for number, each in enumerate(payloads)
        }
        patches = {number: {"kind": each["D"], "shape": each["E"]} for number, each in patches.items()}
    names = {0: "0", **{value: name for name, value in classes.items()}}
    wanted = {names[value]: count for value, count in counted([each["kind"] for each in patches.values()]).items()}
    assert found.classes["kind"] == wanted
    assert found.classes["shape"] == {
        str(value): count for value, count in counted([each["shape"] for each in patches.values()]).items()
    }
    assert set(found.bands) == ({"B2"} if collapse else {"B2", "B3", "B4"})
    # Statistics of other tools may name the labels: they are left alone all the same.
    bands = {**found.bands, "kind": {"mean": 7.0, "std": 3.0}, "shape": {"mean": 7.0, "std": 3.0}}
    dataset = geotfr.PatchDataset(result.manifest, normalize={"bands": bands})
    for index, number in enumerate(patches):
        item = dataset[index]
        kind, shape = (item["B2"][3], item["B2"][4]) if collapse else (item["kind"], item["shape"])
        np.testing.assert_array_equal(kind, patches[number]["kind"])
        np.testing.assert_array_equal(shape, patches[number]["shape"])


def test_a_raster_of_labels_is_never_scaled(scene: Path, tmp_path: Path) -> None:
    cover = write_raster(tmp_path / "cover.tif", np.random.default_rng(1).integers(0, 5, (24, 24)).astype("uint8"))
    result = geotfr.export_image(scene, tmp_path / "out", patch_dimensions=8, labels=cover, label_name="cover")
    statistics = geotfr.compute_statistics(result.manifest)
    assert "cover" not in statistics.bands
    dataset = geotfr.PatchDataset(result.manifest, normalize=statistics.to_dict(), stack=["cover", "B2"])
    for index, patch in enumerate(written(tmp_path).values()):
        np.testing.assert_array_equal(dataset[index]["image"][0], patch["cover"])
        assert not np.array_equal(dataset[index]["image"][1], patch["B2"])


def test_the_numbers_of_text_classes_are_printed(scene: Path, shapes: Path, tmp_path: Path) -> None:
    words = ("export", scene, "--patch-dimensions", "8", "--labels", shapes, "--label-field", "kind")
    done = run(*words, "-o", tmp_path / "out")
    line = next(line for line in done.told.splitlines() if line.startswith("labels"))
    for word in ("1 forest", "2 town", "3 water", "background 0"):
        assert word in line
    plan = run(*words, "-o", tmp_path / "plan", "--dry-run")
    assert line in plan.told


DEFAULTS = [
    ("uint16", -9999, 0),
    ("uint8", 300, 255),
    ("int16", 1.5, 1),
    ("int16", -40000, -32768),
    ("float32", 1e39, float(np.finfo("float32").max)),
]


@pytest.mark.parametrize(("dtype", "default", "fill"), DEFAULTS)
@pytest.mark.parametrize("kinds", ["float", "native"])
def test_a_default_value_that_a_band_cannot_hold_is_told_and_known_everywhere(
    kinds: str, dtype: str, default: float, fill: float, tmp_path: Path
) -> None:
    values = np.arange(2, 66).reshape(1, 8, 8).astype(dtype)
    values[0, 0, :3] = 1
    source = write_raster(tmp_path / "in.tif", values, nodata=1)
    result = geotfr.export_image(
        source, tmp_path / "out", patch_dimensions=4, default_value=default, feature_kinds=kinds, patch_table=True
    )
    assert len([warning for warning in result.warnings if dtype in warning]) == 1
    assert geotfr.read_manifest(result.manifest).bands[0].fill == fill
    first = written(tmp_path)[0]["b1"]
    assert (first[0, :3] == np.asarray(fill, first.dtype)).all()
    assert geotfr.PatchDataset(result.manifest).fills == {"b1": fill}
    statistics = geotfr.compute_statistics(result.patch_table)
    assert statistics.bands["b1"]["count"] == 61
    assert statistics.bands["b1"]["min"] == values[0][values[0] != 1].min()


def test_a_default_value_that_all_bands_hold_is_not_told(scene: Path, tmp_path: Path) -> None:
    result = geotfr.export_image(scene, tmp_path / "out", patch_dimensions=8, default_value=9)
    assert not [warning for warning in result.warnings if "default value" in warning and "hold" in warning]
    assert {band.fill for band in geotfr.read_manifest(result.manifest).bands} == {9}


def test_a_masked_value_that_a_table_was_made_with_counts_as_masked_from_then_on(tmp_path: Path) -> None:
    values = np.arange(64, dtype="float32").reshape(1, 8, 8)
    values[0, :2] = -9999
    mixer, _ = write_set(tmp_path, values, patch=(4, 4))
    made = run("table", tmp_path, "--masked-value", "-9999", "-o", tmp_path / "scene-patches.parquet")
    assert made.code == 0, made.told
    statistics = geotfr.compute_statistics(tmp_path / "scene-patches.parquet")
    assert statistics.bands["b1"]["min"] == 16
    assert statistics.bands["b1"]["count"] == 48
    assert geotfr.PatchDataset(tmp_path / "scene-patches.parquet").fills == {"b1": -9999}
    assert geotfr.PatchDataset(mixer).fills == {"b1": -9999}


@pytest.mark.parametrize("more", [(), ("--dtype", "uint8"), ("--overlap", "max-probability")])
def test_probabilities_are_no_classes(more: tuple[str, ...], tmp_path: Path) -> None:
    shares = np.random.default_rng(0).random((2, 8, 8)).astype("float32")
    mixer, shards = write_set(tmp_path, shares, patch=(4, 4), names=("water", "forest"))
    (tmp_path / "classes.csv").write_text("0,water,#0000ff\n1,forest,#00ff00\n")
    words = ("ingest-predictions", mixer, *shards, "-o", tmp_path / "map.tif", "--classes", tmp_path / "classes.csv")
    assert_refused(run(*words, *more), 12, "--argmax")
    assert not (tmp_path / "map.tif").exists()
    assert run(*words, "--argmax", "--confidence").code == 0


def test_class_numbers_in_float_lists_are_classes(tmp_path: Path) -> None:
    classes = np.tile(np.array([0, 1, 2, 1], "float32"), (1, 8, 2))
    mixer, shards = write_set(tmp_path, classes, patch=(4, 4))
    (tmp_path / "classes.csv").write_text("0,water,#0000ff\n1,forest,#00ff00\n")
    words = ("ingest-predictions", mixer, *shards, "-o", tmp_path / "map.tif", "--classes", tmp_path / "classes.csv")
    assert_refused(run(*words), 12, "class 2")
    (tmp_path / "classes.csv").write_text("0,water,#0000ff\n1,forest,#00ff00\n2,town,#ff0000\n")
    assert run(*words, "--dtype", "uint8").code == 0

"""Records tell the boxes and outlines of the shapes in them, as shapely cuts each by its block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner
from labels.test_burnt_labels import COLUMNS, HEIGHT, MARGIN, NORTH_UP, PATCH, WIDTH, export, frame, scene
from oracle import wire
from oracle.patches import read_manifest
from oracle.rasters import write_raster

import geotfr
from geotfr.errors import UsageError
from geotfr_cli.main import cli

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

shapely = pytest.importorskip("shapely")
pytest.importorskip("geopandas")

SIDE = PATCH + 2 * MARGIN
CLASSES = {"forest": 1, "road": 2, "water": 3}


def records(result: geotfr.ExportResult) -> Iterator[dict[str, Any]]:
    """Features of each record, by the oracle's reader."""
    for shard in result.shards:
        yield from wire.read_shard(shard)


def values(record: dict[str, Any], name: str) -> list[Any]:
    return list(record[name])


def cut_shapes(labels: Any, number: int) -> dict[int, Any]:
    """Row of each shape, from 1 -> what of it lies in a block, in pixels of the block. The slow and obvious way."""
    a, _, x, _, e, y = NORTH_UP[:6]
    row, column = divmod(number, COLUMNS)
    corner = np.array([column * PATCH - MARGIN, row * PATCH - MARGIN])
    inside = shapely.box(*-corner, *(np.array([WIDTH, HEIGHT]) - corner)).intersection(shapely.box(0, 0, SIDE, SIDE))
    found = {}
    for place, shape in enumerate(labels.geometry, start=1):
        local = shapely.transform(shape, lambda xy: (xy - (x, y)) / (a, e) - corner)
        cut = local.intersection(inside)
        if cut.area > 0:
            found[place] = cut
    return found


def outlines(record: dict[str, Any]) -> dict[int, Any]:
    """Number of the object in its record -> its area, built ring by ring."""
    xy = np.reshape(values(record, "image/object/polygon/xy"), (-1, 2))
    found: dict[int, Any] = {}
    start = 0
    rings = zip(*(values(record, f"image/object/polygon/{part}") for part in ("points", "object", "hole")), strict=True)
    for points, owner, is_hole in rings:
        ring = shapely.Polygon(xy[start : start + points])
        known = found.get(owner, shapely.Polygon())
        found[owner] = known.difference(ring) if is_hole else known.union(ring)
        start += points
    assert start == len(xy)
    return found


@pytest.mark.parametrize("kinds", ["float", "native"])
@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
def test_objects_are_those_that_shapely_cuts(kinds: str, compressed: bool, tmp_path: Path) -> None:
    labels = frame()
    result = export(
        scene(tmp_path),
        tmp_path,
        labels,
        label_field="class",
        label_features="polygons",
        feature_kinds=kinds,
        compressed=compressed,
        max_file_size=20_000,
        patch_index="number",
    )
    assert len(result.shards) > 1
    seen = 0
    for number, record in enumerate(records(result)):
        assert values(record, "number") == [number]
        assert values(record, "image/height") == values(record, "image/width") == [SIDE]
        wanted = cut_shapes(labels, number)
        assert values(record, "image/object/instance") == sorted(wanted)
        names = [labels["class"][place - 1] for place in sorted(wanted)]
        assert values(record, "image/object/class/text") == [name.encode() for name in names]
        assert values(record, "image/object/class/label") == [CLASSES[name] for name in names]
        for side, place in (("xmin", 0), ("ymin", 1), ("xmax", 2), ("ymax", 3)):
            bounds = [wanted[each].bounds[place] / SIDE for each in sorted(wanted)]
            np.testing.assert_allclose(values(record, f"image/object/bbox/{side}"), bounds, atol=1e-5)
        areas = outlines(record)
        assert sorted(areas) == list(range(len(wanted)))
        for place, each in enumerate(sorted(wanted)):
            assert areas[place].symmetric_difference(wanted[each]).area < 1e-2
        seen += len(wanted)
    assert seen > 100


def test_pixels_are_those_of_an_export_without_objects(tmp_path: Path) -> None:
    source, labels = scene(tmp_path), frame()
    for name in ("plain", "boxes"):
        (tmp_path / name).mkdir()
    plain = export(source, tmp_path / "plain", labels, label_field="class")
    boxes = export(source, tmp_path / "boxes", labels, label_field="class", label_features="boxes")
    for one, other in zip(records(plain), records(boxes), strict=True):
        names = [name for name in other if not name.startswith("image/")]
        assert names == list(one)
        assert all(list(one[name]) == list(other[name]) for name in names)
        assert "image/object/polygon/xy" not in other


@pytest.mark.parametrize("workers", [1, 3])
def test_bytes_do_not_depend_on_workers_or_parts(workers: int, tmp_path: Path) -> None:
    source, labels = scene(tmp_path), frame()
    found = []
    for place, threads in enumerate((2, workers)):
        (tmp_path / str(place)).mkdir()
        result = export(source, tmp_path / str(place), labels, label_features="polygons", workers=threads)
        found.append([shard.read_bytes() for shard in result.shards])
    assert found[0] == found[1]


def test_no_record_is_longer_than_the_plan_says(tmp_path: Path) -> None:
    labels = frame()
    result = export(scene(tmp_path), tmp_path, labels, label_features="polygons", compressed=False)
    assert not result.plan.is_even
    longest = max(map(len, wire.unframe(result.shards[0].read_bytes())))
    assert longest + 16 <= result.plan.record_bytes


def test_shapes_without_a_class_are_no_objects(tmp_path: Path) -> None:
    labels = frame()
    labels.loc[labels["class"] == "road", "class"] = None
    result = export(scene(tmp_path), tmp_path, labels, label_field="class", label_features="boxes", label_ignore=255)
    found = {text for record in records(result) for text in values(record, "image/object/class/text")}
    assert found == {b"water", b"forest"}


def test_a_patch_without_objects_has_empty_lists(tmp_path: Path) -> None:
    labels = frame().iloc[8:9]
    result = export(scene(tmp_path), tmp_path, labels, label_features="polygons")
    counts = [len(values(record, "image/object/bbox/xmin")) for record in records(result)]
    assert set(counts) == {0, 1}


def test_the_manifest_names_them_and_a_data_set_reads_what_has_one_length(tmp_path: Path) -> None:
    result = export(scene(tmp_path), tmp_path, frame(), label_field="class", label_features="boxes", patch_table=True)
    names = read_manifest(tmp_path)["labels"]["features"]
    assert names == [name for name in next(iter(records(result))) if name.startswith("image/")]
    dataset = geotfr.PatchDataset(tmp_path / "out-patches.parquet")
    assert set(dataset[0]) == {"b1", "class"}
    assert geotfr.verify(tmp_path).is_good
    again = geotfr.make_patch_table(result.manifest, tmp_path / "again.parquet")
    one, other = (geotfr.read_patch_table(path) for path in (again.table, result.patch_table or tmp_path))
    assert (one.digests() == other.digests()).all()


def test_what_has_no_shapes_is_refused(tmp_path: Path) -> None:
    source = scene(tmp_path)
    raster = write_raster(tmp_path / "classes.tif", np.ones((HEIGHT, WIDTH), np.uint8), transform=NORTH_UP)
    with pytest.raises(UsageError, match=r"--label-features: .* is a raster"):
        export(source, tmp_path, raster, label_features="boxes")
    with pytest.raises(UsageError, match="--label-features: a record of sequence_data is a pixel"):
        export(source, tmp_path, frame(), label_features="boxes", sequence_data=True)
    with pytest.raises(UsageError, match="found 'masks'; allowed are boxes and polygons"):
        export(source, tmp_path, frame(), label_features="masks")
    with pytest.raises(UsageError, match="'image/width' is a feature of the objects too"):
        export(source, tmp_path, frame(), label_features="boxes", label_name="image/width")


def test_the_command_takes_it(tmp_path: Path) -> None:
    source = scene(tmp_path)
    frame().to_file(tmp_path / "labels.gpkg", engine="pyogrio")
    arguments = ["export", str(source), "--output", str(tmp_path / "out"), "--patch-dimensions", str(PATCH)]
    labels = ["--labels", str(tmp_path / "labels.gpkg"), "--label-field", "class", "--label-features", "boxes"]
    done = CliRunner().invoke(cli, [*arguments, *labels, "--quiet"])
    assert done.exit_code == 0, done.output
    assert "image/object/bbox/xmin" in read_manifest(tmp_path)["labels"]["features"]


def test_a_table_beside_a_set_with_objects_has_statistics_and_patches(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    result = export(
        scene(tmp_path), tmp_path, frame(), label_field="class", label_features="polygons", patch_table=True
    )
    bands = [band.name for band in geotfr.read_manifest(result.manifest).bands]
    for source in (result.manifest, result.patch_table):
        statistics = geotfr.compute_statistics(source)
        assert [*statistics.bands, *statistics.classes] == bands
        assert list(geotfr.PatchDataset(source).features) == bands
    result.manifest.unlink()
    assert list(geotfr.PatchDataset(result.patch_table).features) == bands

"""A COCO file tells the shapes of each patch as shapely cuts them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from labels.test_burnt_labels import COLUMNS, HEIGHT, MARGIN, NORTH_UP, PATCH, WIDTH, export, frame, scene
from oracle.patches import read_manifest

from geotfr.errors import OutputExistsError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

shapely = pytest.importorskip("shapely")
pytest.importorskip("geopandas")

SIDE = PATCH + 2 * MARGIN


def read(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out-coco.json").read_text())
    return found


def test_boxes_areas_and_outlines_are_those_that_shapely_cuts(tmp_path: Path) -> None:
    labels = frame()
    dropped = (3, 7)
    keep = tuple(number for number in range(COLUMNS * (HEIGHT // PATCH)) if number not in dropped)
    result = export(scene(tmp_path), tmp_path, labels, label_field="class", coco=True, keep=keep, max_file_size=20_000)
    assert result.coco == tmp_path / "out-coco.json"
    found = read(tmp_path)
    assert found["categories"] == [{"id": 1, "name": "forest"}, {"id": 2, "name": "road"}, {"id": 3, "name": "water"}]
    shards = read_manifest(tmp_path)["shards"]
    places = [(shard["name"], record) for shard in shards for record in range(shard["records"])]
    assert len(shards) > 1
    images = [(image["id"], image["file_name"], image["record"]) for image in found["images"]]
    assert images == [(number, *place) for number, place in zip(keep, places, strict=True)]
    assert {(image["width"], image["height"]) for image in found["images"]} == {(SIDE, SIDE)}
    wanted = {}
    a, _, x, _, e, y = NORTH_UP[:6]
    for number in keep:
        row, column = divmod(number, COLUMNS)
        corner = np.array([column * PATCH - MARGIN, row * PATCH - MARGIN])
        inside = shapely.box(*-corner, *(np.array([WIDTH, HEIGHT]) - corner))
        block = shapely.box(0, 0, SIDE, SIDE).intersection(inside)
        for instance, shape in enumerate(labels.geometry, start=1):
            local = shapely.transform(shape, lambda xy, corner=corner: (xy - (x, y)) / (a, e) - corner)
            cut = local.intersection(block)
            if cut.area > 0:
                wanted[number, instance] = cut
    annotations = {(each["image_id"], each["instance"]): each for each in found["annotations"]}
    assert len(annotations) == len(found["annotations"])
    assert sorted(annotations) == sorted(wanted)
    assert [each["id"] for each in found["annotations"]] == list(range(1, len(wanted) + 1))
    classes = {"forest": 1, "road": 2, "water": 3}
    for place, cut in wanted.items():
        one = annotations[place]
        left, top, right, bottom = cut.bounds
        np.testing.assert_allclose(one["bbox"], [left, top, right - left, bottom - top], atol=1e-3)
        assert one["area"] == pytest.approx(cut.area, abs=1e-3)
        assert one["category_id"] == classes[labels["class"][place[1] - 1]]
        rings = [shapely.Polygon(np.reshape(ring, (-1, 2))) for ring in one["segmentation"]]
        filled = shapely.union_all([shapely.Polygon(part.exterior) for part in shapely.get_parts(cut)])
        assert shapely.union_all(rings).symmetric_difference(filled).area < 1e-2


@pytest.mark.parametrize("classes", [None, {"water": 1, "forest": 2, "road": 255}], ids=["no class", "ignored class"])
def test_shapes_that_are_ignored_have_no_annotation(tmp_path: Path, classes: dict[str, int] | None) -> None:
    labels = frame()
    if classes is None:
        labels.loc[labels["class"] == "road", "class"] = None
    result = export(
        scene(tmp_path), tmp_path, labels, label_field="class", label_classes=classes, label_ignore=255, coco=True
    )
    found = read(tmp_path)
    known = {category["id"] for category in found["categories"]}
    assert len(known) == 2
    assert {each["category_id"] for each in found["annotations"]} == known
    is_road = ((frame()["class"] == "road").to_numpy().nonzero()[0] + 1).tolist()
    assert not {each["instance"] for each in found["annotations"]} & set(is_road)
    assert [each["id"] for each in found["annotations"]] == list(range(1, len(found["annotations"]) + 1))
    assert any("burnt as 255, and no objects" in warning for warning in result.warnings) == (classes is None)


def test_a_coco_file_of_the_user_is_not_replaced_and_one_of_a_set_goes_with_it(tmp_path: Path) -> None:
    source, labels = scene(tmp_path), frame()
    export(source, tmp_path, labels, coco=True)
    export(source, tmp_path, labels, overwrite=True)
    assert not (tmp_path / "out-coco.json").exists()
    (tmp_path / "out-coco.json").write_text("{}")
    with pytest.raises(OutputExistsError, match=r"out-coco\.json"):
        export(source, tmp_path, labels, coco=True, overwrite=True)


def test_sequences_are_no_images(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a record of sequence_data is a pixel"):
        export(scene(tmp_path), tmp_path, frame(), coco=True, sequence_data=True)

"""Labels that can't be burnt are one clear line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from labels.test_burnt_labels import export, frame, scene
from oracle.rasters import write_raster
from oracle.run import assert_refused, run

from geotfr.errors import GeotfrError

if TYPE_CHECKING:
    from pathlib import Path

shapely = pytest.importorskip("shapely")
pytest.importorskip("geopandas")


def refused(folder: Path, labels: Any, words: str, code: int, **options: Any) -> None:
    with pytest.raises(GeotfrError, match=words) as caught:
        export(scene(folder), folder, labels, **options)
    assert caught.value.exit_code == code
    assert "\n" not in str(caught.value)
    assert not (folder / "out-manifest.json").exists()


@pytest.mark.parametrize(
    ("options", "words", "code"),
    [
        ({"label_field": "clas"}, "no column 'clas'; did you mean class", 10),
        ({"label_field": "class", "label_classes": "lake=1"}, "has none of lake; column 'class' has forest", 2),
        ({"label_field": "class", "label_classes": "water"}, "label_classes: found =water", 2),
        ({"label_field": "class", "label_classes": "water=x"}, "allowed are CLASS=NUMBER", 2),
        ({"label_field": "class", "label_classes": "water=99999999999"}, "allowed is a whole number from", 2),
        ({"label_field": "class", "label_priority": "rode"}, "no class 'rode'; did you mean road", 2),
        ({"label_field": "class", "label_priority": "road,road"}, "'road' is given twice", 2),
        ({"label_field": "class", "label_background": 2}, "that is class 'road'", 2),
        ({"label_field": "class", "label_ignore": 0}, "the background has that value", 2),
        ({"label_field": "half"}, "holds 0.5; classes are whole numbers", 10),
        ({"label_field": "class", "label_name": "b1"}, "a band is called 'b1' too", 2),
        ({"label_field": "class", "label_instances": "class"}, "the label band has that name", 2),
        ({"label_classes": "water=1"}, "name the column of the classes with --label-field", 2),
        ({"label_field": "class", "label_where": "clas = 1"}, "no column 'clas'", 10),
        ({"label_field": "class", "label_crs": "EPSG:3857"}, "none of its 40 shapes lies on", 10),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], words: str, code: int, tmp_path: Path) -> None:
    refused(tmp_path, frame(half=0.5), words, code, **options)


def test_labels_that_are_not_there_or_lie_elsewhere_are_refused(tmp_path: Path) -> None:
    refused(tmp_path, tmp_path / "nix.gpkg", "no such file", 10)
    refused(tmp_path, frame().translate(1e6, 0).to_frame("geometry"), "none of its 40 shapes", 10)
    refused(tmp_path, frame().iloc[:0], "none of its 0 shapes", 10)
    nameless = frame()
    nameless["class"] = None
    refused(tmp_path, nameless, "shapes has a class that is wanted in column 'class'", 10, label_field="class")
    refused(tmp_path, frame().set_crs(None, allow_override=True), "has no CRS; give it with --label-crs", 10)
    (tmp_path / "t.csv").write_text("class\n1\n")
    refused(tmp_path, tmp_path / "t.csv", "has no geometries", 10, label_field="class")


def test_rasters_that_are_no_labels_are_refused(tmp_path: Path) -> None:
    two = write_raster(tmp_path / "two.tif", np.ones((2, 70, 90), np.uint8))
    refused(tmp_path, two, "has 2 bands; name one, as .*two.tif:1", 2)
    refused(tmp_path, f"{two}:1", "two.tif:1 is a raster, which has pixels and no shapes", 2, label_field="class")
    refused(tmp_path, f"{two}:1", "uint8 doesn't hold 300", 2, label_ignore=300)
    part = write_raster(tmp_path / "part.tif", np.ones((70, 90), np.float32))
    refused(tmp_path, part, "holds float32; classes are whole numbers", 10)


def test_the_command_burns_and_refuses(tmp_path: Path) -> None:
    frame().to_file(tmp_path / "labels.gpkg")
    args = ["export", scene(tmp_path), "-o", tmp_path / "out", "--patch-dimensions", "16"]
    assert run(*args, "--labels", tmp_path / "labels.gpkg", "--label-field", "class").code == 0
    assert_refused(
        run(*args, "--label-field", "class"), 2, "--label-field: there are no labels; name them with --labels"
    )
    outcome = run(*args, "--labels", tmp_path / "labels.gpkg", "--label-field", "clas", "--overwrite")
    assert_refused(outcome, 10, "no column 'clas'")


def test_a_condition_that_does_not_parse_is_told(tmp_path: Path) -> None:
    frame().to_file(tmp_path / "labels.gpkg", engine="pyogrio")
    refused(tmp_path, tmp_path / "labels.gpkg", r"labels\.gpkg: where 'class =': ", 10, label_where="class =")

"""What a model may not return, and what predict may not be asked, is one clear line; nothing is left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.rasters import write_raster
from oracle.sets import write_blocks, write_set
from predict.worlds import PLACE, scene

import geotfr
from geotfr.errors import OutputExistsError, RecordError, UsageError

SCENE = (scene(2, 24, 24), *PLACE)

SHAPES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "too-few": (lambda batch: batch[1:], ("found 3 predictions", "wanted 4")),
    "too-many": (lambda batch: np.concatenate([batch, batch]), ("found 8 predictions", "wanted 4")),
    "too-small": (lambda batch: batch[:, :, 5:, 5:], ("(4, 2, 7, 7)", "H x W = 8 x 8", "up to 12 x 12")),
    "odd-margin": (lambda batch: batch[:, :, 1:, 1:], ("(4, 2, 11, 11)", "H x W = 8 x 8")),
    "too-large": (lambda batch: np.pad(batch, ((0, 0), (0, 0), (1, 1), (1, 1))), ("(4, 2, 14, 14)",)),
    "channels-last": (lambda batch: np.moveaxis(batch, 1, -1), ("(4, 12, 12, 2)", "channels_last=True")),
    "flat": (lambda batch: batch.reshape(4, -1), ("(4, 288)",)),
    "a-number": (lambda _: 3.0, ("found shape ()",)),
    "nothing": (lambda _: None, ("found None", "one array")),
    "text": (lambda batch: np.full(batch.shape, "x"), ("type <U1",)),
    "complex": (lambda batch: batch.astype(complex), ("type complex128",)),
    "two-arrays": (lambda batch: [batch, batch], ("a list of 2 arrays", "a mapping of name to array")),
    "no-arrays": (lambda _: {}, ("an empty mapping",)),
    "number-name": (lambda batch: {1: batch}, ("the name 1",)),
}


@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize("output", ["map.tif", "p"])
def test_a_wrong_return_names_the_batch_the_wanted_and_the_found(tmp_path: Path, case: str, output: str) -> None:
    model, words = SHAPES[case]
    with pytest.raises(UsageError) as caught:
        geotfr.predict(model, SCENE, tmp_path / output, patch_dimensions=8, kernel_size=4, batch_size=4)
    line = str(caught.value)
    assert "\n" not in line
    for word in ("model: batch 0 (patches 0 to 3 of", *words):
        assert word in line
    assert list(tmp_path.iterdir()) == []


def later(then: Any) -> Any:
    """The first batch as it is, then ``then``."""
    calls: list[int] = []

    def model(batch: np.ndarray) -> Any:
        calls.append(1)
        return batch if len(calls) < 3 else then(batch)

    return model


@pytest.mark.parametrize(
    ("then", "words"),
    [
        (lambda batch: batch[:, :1], ("shape (1, 1, 8, 8)", "the first batch has float32 of shape (n, 2, 8, 8)")),
        (lambda batch: batch.astype(int), ("found int64",)),
        (lambda batch: {"other": batch}, ("found outputs other", "the first batch has prediction")),
    ],
    ids=["channels", "type", "names"],
)
@pytest.mark.parametrize("output", ["map.tif", "p"])
def test_a_later_batch_must_be_made_as_the_first(
    tmp_path: Path, then: Any, words: tuple[str, ...], output: str
) -> None:
    with pytest.raises(UsageError, match=r"batch 2 \(patches 8 to 8 of") as caught:
        geotfr.predict(later(then), SCENE, tmp_path / output, patch_dimensions=8, batch_size=4)
    for word in words:
        assert word in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output", ["map.tif", "p"])
def test_a_model_s_own_error_comes_through_with_a_note(tmp_path: Path, output: str) -> None:
    def fails(batch: np.ndarray) -> Any:
        raise ZeroDivisionError("its own words")

    with pytest.raises(ZeroDivisionError, match="its own words") as caught:
        geotfr.predict(later(fails), SCENE, tmp_path / output, patch_dimensions=8, batch_size=4)
    assert caught.value.__notes__ == [
        "geotfr: the model failed on batch 2 (patches 8 to 8 of the array), an array float32 (1, 2, 8, 8)"
    ]
    assert list(tmp_path.iterdir()) == []


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "blend-of-records": ({"overlap": "linear"}, "p", "overlap: is for rasters, and records are written"),
    "argmax-of-records": ({"argmax": True}, "p", "argmax: is for rasters"),
    "picture-of-records": ({"preview": "x.png"}, "p", "preview: is a picture of a raster"),
    "record-file": ({}, "p.tfrecord.gz", "give the prefix of the set"),
    "bands": ({"bands": "1"}, "map.tif", "bands: isn't for predictions"),
    "dtype-auto": (
        {"dtype": "auto", "source_options": {"feature_kinds": "native"}},
        "map.tif",
        "dtype: auto takes a pass over all",
    ),
    "twice": ({"source_options": {"patch_dimensions": 4}}, "map.tif", "patch_dimensions: is given twice"),
    "batch-size": ({"batch_size": 0}, "map.tif", "batch_size: found 0"),
    "feature": (
        {"features": ["b3"]},
        "map.tif",
        "features: 'b3' is no feature of the array (it has b1, b2)",
    ),
    "class-names": ({"class_names": "a,b,c"}, "map.tif", "class_names: found 3 names"),
    "sequences": ({"source_options": {"sequence_data": True}}, "map.tif", "sequence_data: is about records"),
    "manifest": ({"mask_from": "manifest"}, "map.tif", "mask_from: manifest is for records"),
    "vote": ({"overlap": "vote", "argmax": True}, "map.tif", "overlap vote"),
    "average-of-classes": (
        {"overlap": "average", "source_options": {"feature_kinds": "native"}},
        "map.tif",
        "would average",
    ),
    "shards": ({"shards": ["x"]}, "map.tif", "shards: go with a mixer"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_t_be_is_refused_in_a_line(tmp_path: Path, case: str) -> None:
    options, output, words = REFUSED[case]
    whole = ((np.arange(2 * 24 * 24).reshape(2, 24, 24) % 7).astype("uint8"), *PLACE)
    with pytest.raises(UsageError) as caught:
        geotfr.predict(lambda batch: batch, whole, tmp_path / output, **{"patch_dimensions": 8, **options})
    assert words in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_what_can_t_be_called_is_no_model(tmp_path: Path) -> None:
    class Session:
        def run(self) -> None: ...

        def get_inputs(self) -> None: ...

    for model, words in ((3, "int can't be called"), (Session(), r"session.run\(None")):
        with pytest.raises(UsageError, match=words):
            geotfr.predict(model, SCENE, tmp_path / "p", patch_dimensions=8)  # type: ignore[arg-type]


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    calls: list[int] = []
    for output in ("map.tif", "p"):
        geotfr.predict(lambda batch: batch, SCENE, tmp_path / output, patch_dimensions=8)
        with pytest.raises(OutputExistsError):
            geotfr.predict(lambda _: calls.append(1), SCENE, tmp_path / output, patch_dimensions=8)
        geotfr.predict(lambda batch: batch, SCENE, tmp_path / output, patch_dimensions=8, overwrite=True)
    assert calls == []


def test_inputs_are_never_written_over(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", scene(1, 8, 8))
    with pytest.raises(UsageError, match="one of the inputs"):
        geotfr.predict(lambda batch: batch, source, source, patch_dimensions=8, overwrite=True)
    exported = geotfr.export_image(source, tmp_path / "set", patch_dimensions=8)
    with pytest.raises(UsageError, match="an input has a name of the set"):
        geotfr.predict(lambda batch: batch, exported, tmp_path / "set", overwrite=True)


def test_records_that_are_too_few_or_of_two_sizes_are_told(tmp_path: Path) -> None:
    mixer, shards = write_set(tmp_path, np.ones((1, 8, 16), "float32"), patch=(8, 8), shards=2)
    with pytest.raises(RecordError, match="expects 2"):
        geotfr.predict(lambda batch: batch, mixer, tmp_path / "map.tif", shards=shards[:1])
    (tmp_path / "other").mkdir()
    features = {"image": np.ones((2, 12, 12), "float32"), "label": np.ones((2, 8, 8), "float32")}
    mixer, shards = write_blocks(tmp_path / "other", features, patch=(8, 8), per_row=2)
    options: dict[str, Any] = {"shards": shards, "kernel_size": 4}
    with pytest.raises(UsageError, match="'image' has 12 x 12 and 'label' has 8 x 8"):
        geotfr.predict(lambda batch: batch, mixer, tmp_path / "map.tif", **options)
    geotfr.predict(lambda batch: batch, mixer, tmp_path / "map.tif", features=["image"], **options)


def test_a_feature_that_records_lack_is_told_by_the_option_s_name(tmp_path: Path) -> None:
    exported = geotfr.export_image(SCENE, tmp_path / "set", patch_dimensions=8)
    with pytest.raises(UsageError, match=r"^features: 'b9' is no feature of .*record 0.* \(it has b1, b2\)$"):
        geotfr.predict(lambda batch: batch, exported, tmp_path / "map.tif", features=["b9"])

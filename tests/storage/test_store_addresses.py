"""Commands for files say what to do with an address of an object store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from oracle.rasters import write_raster
from oracle.run import assert_refused, run


@pytest.mark.parametrize(
    "args",
    [
        ("verify", "s3://bucket/scene-manifest.json"),
        ("inspect", "gs://bucket/scene.tfrecord"),
        ("ingest-predictions", "az://bucket/scene-mixer.json", "predictions.tfrecord", "--output", "map.tif"),
    ],
    ids=lambda args: args[0],
)
def test_a_set_in_a_store_is_to_be_pulled_first(args: tuple[str, ...]) -> None:
    assert_refused(run(*args), 10, "geotfr pull")


def test_a_set_for_a_store_is_to_be_pushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    raster = write_raster(tmp_path / "source.tif", np.ones((1, 8, 8), np.uint8))
    outcome = run("export", raster, "--output", "s3://bucket/scene", "--patch-dimensions", "8", "--quiet")
    assert_refused(outcome, 14, "geotfr push")
    assert [path.name for path in tmp_path.iterdir()] == ["source.tif"]

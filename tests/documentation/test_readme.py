"""The README's job runs as it stands; only the model's part is put in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import rasterio
from documentation.pages import ROOT, blocks, commands, outcome

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_readme_does_the_job(scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scene.tif").write_bytes((scene / "scene.tif").read_bytes())
    job = [block for block in blocks(ROOT / "README.md") if block.language in ("sh", "python")]
    (shell,) = [block for block in job if "geotfr export" in block.text]
    (script,) = [block for block in job if block.language == "python"]
    export, ingest = commands(shell.text)

    assert outcome(export)[0] == 0
    records = list(geotfr.read_records(sorted((tmp_path / "patches").glob("*.tfrecord.gz"))))
    geotfr.write_examples("predictions-0.tfrecord.gz", predicted(records), compression="gzip")
    assert outcome(ingest)[0] == 0
    with rasterio.open("map.tif") as home, rasterio.open("scene.tif") as source:
        assert home.crs == source.crs
        assert home.transform == source.transform

    for path in (*(tmp_path / "patches").iterdir(), tmp_path / "map.tif"):
        path.unlink()
    exec(
        script.text.replace('"map.tif", patch', '"direct.tif", patch'),
        {"predictions": "predictions-0.tfrecord.gz", "model": ndvi},
    )
    with rasterio.open("map.tif") as home, rasterio.open("direct.tif") as direct:
        np.testing.assert_array_equal(home.read(), direct.read())


def ndvi(batch: np.ndarray) -> np.ndarray:
    """(patch, row, col) of (patch, band, row, col)."""
    return (batch[:, 3] - batch[:, 2]) / np.maximum(batch[:, 3] + batch[:, 2], 1)


def predicted(records: list[bytes]) -> list[dict[str, np.ndarray]]:
    features = geotfr.patch_features(["B2", "B3", "B4", "B8"], patch_xy=(256, 256), kernel_xy=(128, 128))
    bands = [geotfr.parse_single_example(record, features) for record in records]
    return [{"ndvi": ndvi(np.stack([found[name] for name in features])[np.newaxis])[0].ravel()} for found in bands]

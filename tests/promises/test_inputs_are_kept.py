"""No command replaces a file that it reads, whatever --overwrite says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from oracle.run import assert_refused, run

import geotfr

pytest.importorskip("pyarrow")

INGEST = "ingest-predictions s.json s.tfrecord.gz --bands b1"
CALLS = {
    "a mixer": (f"{INGEST} --output s.json", "s.json"),
    "a manifest": (f"{INGEST} --output s-manifest.json", "s-manifest.json"),
    "a mixer by a link": (f"{INGEST} --output link.json", "link.json"),
    "a shard": (f"{INGEST} --output s.tfrecord.gz", "s.tfrecord.gz"),
    "a raster that masks": (f"{INGEST} --output a.tif --mask-from a.tif", "a.tif"),
    "a raster that the manifest names": (f"{INGEST} --output a.tif --mask-from manifest", "a.tif"),
    "classes": (f"{INGEST} --output classes.csv --classes classes.csv", "classes.csv"),
    "a picture's mixer": (f"{INGEST} --output o.tif --preview s.json", "s.json"),
    "a picture's raster": (f"{INGEST} --output o.tif --preview o.tif", "o.tif"),
    "the shard of a table": ("table s-manifest.json --output s.tfrecord.gz", "s.tfrecord.gz"),
    "the manifest of a table": ("table s-manifest.json --output s-manifest.json", "s-manifest.json"),
    "the raster of a table": ("table s-manifest.json --source a.tif --output a.tif", "a.tif"),
    "the table of statistics": ("stats s-patches.parquet --output s-patches.parquet", "s-patches.parquet"),
    "the shard of statistics": ("stats s-patches.parquet --output s.tfrecord.gz", "s.tfrecord.gz"),
    "the manifest of statistics": ("stats s-manifest.json --output s-manifest.json", "s-manifest.json"),
    "the shard of a split": ("split s-patches.parquet --output s.tfrecord.gz", "s.tfrecord.gz"),
    "points": ("sample a.tif:1 --points points.csv --x x --y y --output points.csv", "points.csv"),
    "rows to join": ("ingest-table s.tfrecord.gz --join points.csv --output points.csv", "points.csv"),
    "a raster that is compared": ("preview swipe a.tif a.tif --output a.tif", "a.tif"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("classes.csv").write_text("value,name,color\n1,one,#ff0000\n")
    Path("points.csv").write_text("x,y\n10,40\n")
    source = (np.ones((8, 8), np.uint8), (10, 0, 0, 0, -10, 0), "EPSG:32633")
    geotfr.export_image(source, "first", patch_dimensions=8)
    geotfr.ingest_predictions("first.json", "first.tfrecord.gz", "a.tif", dtype="uint8")
    geotfr.export_image("a.tif", "s", patch_dimensions=4, patch_table=True)
    Path("link.json").symlink_to("s.json")
    return tmp_path


@pytest.mark.parametrize("name", CALLS)
def test_an_input_is_never_the_output(name: str, folder: Path) -> None:
    command, output = CALLS[name]
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert_refused(run(*command.split(), "--overwrite"), 2, output, "give another path")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before

"""Grain and Ray use a data set as it is."""

from __future__ import annotations

import numpy as np
import pytest
from datasets.scenes import COUNT, write_scene

import geotfr

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory):
    return write_scene(tmp_path_factory.mktemp("scene"))


def test_grain_reads_each_patch_once(scene) -> None:
    grain = pytest.importorskip("grain")
    dataset = geotfr.PatchDataset(scene.mixer, kernel_size=1, with_place=True)
    batches = list(grain.MapDataset.source(dataset).seed(3).shuffle().batch(5))
    seen = [number for batch in batches for number in batch["number"].tolist()]
    assert sorted(seen) == list(range(COUNT))
    assert seen != sorted(seen)
    for batch in batches:
        np.testing.assert_array_equal(batch["red"], scene.blocks("red", batch["number"]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray deprecates parts of itself
def test_ray_reads_each_patch_once(scene) -> None:
    ray = pytest.importorskip("ray")
    pytest.importorskip("torch")
    dataset = geotfr.to_torch(geotfr.PatchDataset(scene.mixer, kernel_size=1, with_place=True))
    ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR")
    try:
        rows = ray.data.from_torch(dataset).take_all()
    finally:
        ray.shutdown()
    items = [row.get("item", row) for row in rows]
    assert sorted(int(item["number"]) for item in items) == list(range(COUNT))
    for item in items:
        np.testing.assert_array_equal(np.asarray(item["red"]), scene.block("red", int(item["number"])))

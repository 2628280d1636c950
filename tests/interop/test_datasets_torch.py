"""PyTorch's DataLoader gives each patch once, whatever its workers, start method and ranks."""

from __future__ import annotations

import pickle
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from datasets.scenes import COUNT, write_scene

import geotfr
from geotfr.errors import UsageError

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, DistributedSampler  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

# A machine of few cores is told that four workers are many.
pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore:This DataLoader will create")]

FORKED = [(0, None), (2, "fork"), (4, "fork")]
WORKERS = [*FORKED, (2, "spawn")]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory):
    return write_scene(tmp_path_factory.mktemp("scene"), compression="GZIP")


@pytest.fixture(scope="module")
def dataset(scene) -> geotfr.PatchDataset:
    return geotfr.PatchDataset(scene.mixer, kernel_size=1, with_place=True)


def loader(source: Any, workers: tuple[int, str | None], **options: Any) -> DataLoader:
    count, method = workers
    return DataLoader(source, num_workers=count, multiprocessing_context=method, **options)


def assert_blocks(scene: Any, batch: dict[str, Any]) -> None:
    for name in scene.bands:
        np.testing.assert_array_equal(batch[name].numpy(), scene.blocks(name, batch["number"].tolist()))


@pytest.mark.parametrize("workers", WORKERS, ids=str)
@pytest.mark.parametrize("adapted", [False, True], ids=["as it is", "to_torch"])
def test_a_data_set_gives_each_patch_once(scene, dataset, workers: Any, adapted: bool) -> None:
    source = geotfr.to_torch(dataset) if adapted else dataset
    seen: list[int] = []
    torch.manual_seed(0)
    for batch in loader(source, workers, batch_size=6, shuffle=True):
        assert_blocks(scene, batch)
        assert {name: batch[name].dtype for name in scene.bands} == {
            "red": torch.float32,
            "code": torch.int64,
            "class": torch.uint8,
        }
        seen += batch["number"].tolist()
    assert sorted(seen) == list(range(COUNT))
    assert seen != sorted(seen)


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_share_the_patches(dataset, world: int) -> None:
    shards = [dataset.shard(rank, world) for rank in range(world)]
    parts = [[int(item["number"]) for item in geotfr.to_torch(shard)] for shard in shards]
    assert sorted(number for part in parts for number in part) == list(range(COUNT))
    whole = [[int(item["number"]) for item in geotfr.to_torch(dataset, rank=r, world=world)] for r in range(world)]
    assert whole == parts
    sampled = []
    for rank in range(world):
        sampler = DistributedSampler(dataset, num_replicas=world, rank=rank, drop_last=False)
        sampled += [number for batch in DataLoader(dataset, sampler=sampler) for number in batch["number"].tolist()]
    assert set(sampled) == set(range(COUNT))


@pytest.mark.parametrize("workers", FORKED, ids=str)
@pytest.mark.parametrize("world", [1, 2])
def test_a_stream_gives_each_record_once_in_each_epoch(dataset, workers: Any, world: int) -> None:
    orders = []
    ranks = [
        loader(
            geotfr.to_torch(geotfr.stream(dataset).shuffle(20, seed=3).batch(3), rank=r, world=world),
            workers,
            batch_size=None,
        )
        for r in range(world)
    ]
    for _ in range(2):
        seen = [number for rank in ranks for batch in rank for number in batch["number"].tolist()]
        assert sorted(seen) == list(range(COUNT))
        orders.append(seen)
    assert orders[0] != orders[1]
    for rank in ranks:
        rank.dataset.set_epoch(0)
    assert [number for rank in ranks for batch in rank for number in batch["number"].tolist()] == orders[0]


def test_a_stream_gives_each_record_once_in_spawned_workers(dataset) -> None:
    source = geotfr.to_torch(geotfr.stream(dataset).shuffle(20, seed=3).map(dict).prefetch(2))
    seen = [int(item["number"]) for item in loader(source, (2, "spawn"), batch_size=None)]
    assert sorted(seen) == list(range(COUNT))


def test_persistent_workers_go_on_counting_epochs(dataset) -> None:
    source = geotfr.to_torch(geotfr.stream(dataset).shuffle(20, seed=3).batch(3))
    kept = loader(source, (2, "fork"), batch_size=None, persistent_workers=True)
    orders = [[number for batch in kept for number in batch["number"].tolist()] for _ in range(3)]
    assert len({tuple(order) for order in orders}) == 3
    source.set_epoch(1)
    assert [number for batch in kept for number in batch["number"].tolist()] == orders[1]


def test_tensors_share_the_arrays_memory(dataset) -> None:
    from geotfr.datasets.torch_adapter import tensors

    item = dataset[[1, 2]]
    for key, tensor in tensors(item).items():
        assert tensor.data_ptr() == item[key].ctypes.data
    held = next(iter(geotfr.stream(dataset).cache().map(dict)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tensors(held)["red"].shape == (4, 5)
    assert tensors({"a": ("x", np.float64(2.5)), "b": np.array(["t"], object)})["a"][1].item() == 2.5


def test_adapted_sources_can_be_pickled_and_split(scene, dataset) -> None:
    for source in (geotfr.to_torch(dataset), geotfr.to_torch(geotfr.stream(dataset))):
        first = next(iter(pickle.loads(pickle.dumps(source))))
        np.testing.assert_array_equal(first["red"].numpy(), scene.block("red", 0))
    left, right = torch.utils.data.random_split(geotfr.to_torch(dataset), [15, 5])
    assert sorted(int(item["number"]) for part in (left, right) for item in part) == list(range(COUNT))
    pixels = DataLoader(geotfr.to_torch(dataset.pixels()), batch_size=100)
    assert sorted(value for batch in pixels for value in batch["code"].tolist()) == sorted(
        scene.bands["code"].reshape(-1).tolist()
    )


def test_an_error_in_a_loaders_worker_names_the_file(tmp_path: Path) -> None:
    scene = write_scene(tmp_path)
    dataset = geotfr.PatchDataset(scene.mixer)
    scene.shards[1].write_bytes(b"")
    with pytest.raises(Exception, match=r"p-00001\.tfrecord: the file changed since"):
        list(loader(dataset, (2, "fork"), batch_size=4))


def test_what_has_no_meaning_is_refused(dataset) -> None:
    with pytest.raises(UsageError, match="rank and world belong together"):
        geotfr.to_torch(dataset, rank=1)
    with pytest.raises(UsageError, match="rank 2 of 2"):
        geotfr.to_torch(dataset, rank=2, world=2)
    with pytest.raises(UsageError, match="pixels are split by their data set"):
        geotfr.to_torch(dataset.pixels(), rank=0, world=2)


def test_tensors_that_are_kept_stay_though_memory_is_used_again(scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("geotfr.datasets.array_pool.LEAST_BYTES", 1)
    source = geotfr.PatchDataset(scene.mixer, kernel_size=1)
    tensors = geotfr.to_torch(source)
    kept = []
    for number in [*range(COUNT), *range(COUNT)]:
        values = tensors[number]["red"]
        kept.append((number, values.view(-1)[3:]))
        del values
        kept = kept[-7:] if number % 3 else kept
    for number, part in kept:
        np.testing.assert_array_equal(part.numpy(), scene.block("red", number).ravel()[3:])

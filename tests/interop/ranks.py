"""What a rank reads, for each way to start a loader's workers; started by torchrun, by spawn or by Lightning."""

from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed
from torch.utils.data import DataLoader, DistributedSampler

import geotfr

EPOCHS = 2


def read(name: str, folder: str) -> Any:
    """A source for a loader."""
    dataset = geotfr.PatchDataset(folder, kernel_size=1, with_place=True)
    if name == "stream":
        return geotfr.to_torch(geotfr.stream(dataset).shuffle(20, seed=3))
    return dataset if name == "data set" else geotfr.to_torch(dataset)


def numbers_of_epochs(source: Any, workers: int, method: str | None, **options: Any) -> list[list[int]]:
    """The patches that this rank's loader gives in each epoch."""
    is_stream = isinstance(source, torch.utils.data.IterableDataset)
    sampler = None
    if not is_stream and distributed.is_initialized():
        sampler = DistributedSampler(source, shuffle=True, drop_last=False)
    loader: Any = DataLoader(
        source, num_workers=workers, multiprocessing_context=method, sampler=sampler, batch_size=None, **options
    )
    epochs = []
    for epoch in range(EPOCHS if is_stream else 1):
        if sampler is not None:
            sampler.set_epoch(epoch)
        epochs.append([number for item in loader for number in np.ravel(item["number"]).tolist()])
    return epochs


def read_all(folder: str, out: str, rank: int, methods: list[str]) -> None:
    found = {}
    for name, (workers, method) in itertools.product(
        ("stream", "data set", "to_torch"), [(0, None), *itertools.product((1, 2), methods)]
    ):
        found[f"{name} {workers} {method}"] = numbers_of_epochs(
            # Workers that aren't forked take seconds to begin.
            read(name, folder),
            workers,
            method,
            persistent_workers=workers == 2 and method != "fork",
        )
    Path(out, f"{rank}.json").write_text(json.dumps(found))


def begin_spawned(rank: int, world: int, port: int, source: Any, out: str) -> None:
    """A rank that gets its source from a process without a group."""
    store = distributed.TCPStore("127.0.0.1", port, world, is_master=rank == 0)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=world)
    found = {
        f"{workers} {method}": numbers_of_epochs(source, workers, method)
        for workers, method in ((0, None), (1, "fork"), (1, "spawn"))
    }
    Path(out, f"{rank}.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    _, folder, out, how, *methods = sys.argv
    torch.set_num_threads(1)
    if how == "group":
        distributed.init_process_group("gloo")
    rank = int(
        next(os.environ[name] for name in ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID") if name in os.environ)
    )
    read_all(folder, out, rank, methods)
    if how == "group":
        distributed.destroy_process_group()

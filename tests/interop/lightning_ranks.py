"""What the ranks of Lightning read. It adds a DistributedSampler to loaders of data sets, none to those of streams."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning
import torch
from interop.ranks import read
from torch.utils.data import DataLoader

WAYS = [("stream", 0, None), ("stream", 1, "spawn"), ("data set", 0, None)]


class Noted(pytorch_lightning.LightningModule):
    """Notes which patches came, and learns nothing."""

    def __init__(self, out: str, way: str) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.out, self.way = out, way
        self.epochs: list[list[int]] = []

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def on_train_epoch_start(self) -> None:
        self.epochs.append([])

    def training_step(self, batch: Any, _: int) -> None:
        self.epochs[-1] += np.ravel(batch["number"]).tolist()

    def on_train_end(self) -> None:
        path = Path(self.out, f"{self.global_rank}.json")
        found = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**found, self.way: self.epochs}))


def main(folder: str, out: str, strategy: str) -> None:
    torch.set_num_threads(1)
    for name, workers, method in WAYS:
        loader: Any = DataLoader(
            read(name, folder), num_workers=workers, multiprocessing_context=method, batch_size=None
        )
        trainer = pytorch_lightning.Trainer(
            accelerator="cpu",
            devices=2,
            strategy=strategy,
            max_epochs=2,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(Noted(out, f"{name} {workers} {method}"), loader)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])

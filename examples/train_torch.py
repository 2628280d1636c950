"""Train a small U-Net on a raster and its classes, and map the whole raster with it. Needs PyTorch.

    python examples/make_scene.py data
    python examples/train_torch.py data/scene.tif data/classes.tif data/run --epochs 10

CLASSES holds class numbers from 0 to 254 on the scene's grid. The right third of the patches is kept for checking:
neighbours share pixels, so a random choice would check on what was trained. Written into the folder: the patches,
``model.pt``, ``predictions.tfrecord.gz`` and ``map.tif``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

import geotfr

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

LABEL = "label"
MASKED = 255
"""The default value: no class, and every type holds it."""
BATCH = 8


class UNet(nn.Module):
    """Class scores ``(n, class, row, col)`` of images ``(n, band, row, col)`` whose sides are multiples of 4."""

    def __init__(self, bands: int, classes: int, width: int = 16) -> None:
        super().__init__()
        self.first, self.second, self.deep = block(bands, width), block(width, 2 * width), block(2 * width, 4 * width)
        self.up_second = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.up_first = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.join_second, self.join_first = block(4 * width, 2 * width), block(2 * width, width)
        self.score = nn.Conv2d(width, classes, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Scores, not probabilities."""
        first = self.first(image)
        second = self.second(nn.functional.max_pool2d(first, 2))
        deep = self.deep(nn.functional.max_pool2d(second, 2))
        second = self.join_second(torch.cat([second, self.up_second(deep)], dim=1))
        return self.score(self.join_first(torch.cat([first, self.up_first(second)], dim=1)))


def block(inside: int, outside: int) -> nn.Sequential:
    """A convolution that looks one pixel around."""
    return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU())


def statistics(patches: geotfr.PatchDataset, bands: list[str]) -> dict[str, dict[str, dict[str, float]]]:
    """Mean and standard deviation of each band over the pixels of all patches, as ``normalize`` takes them."""
    count, total, squares = 0, np.zeros(len(bands)), np.zeros(len(bands))
    for start in range(0, len(patches), BATCH):
        pixels = patches[start : start + BATCH]["image"].astype(np.float64)
        count += pixels.size // len(bands)
        total += pixels.sum(axis=(0, 2, 3))
        squares += (pixels**2).sum(axis=(0, 2, 3))
    deviation = np.sqrt(squares / count - (total / count) ** 2)
    return {"bands": {b: {"mean": m, "std": s} for b, m, s in zip(bands, total / count, deviation, strict=True)}}


def train(model: UNet, patches: geotfr.PatchDataset, epochs: int) -> Iterator[float]:
    """Train, and give each epoch's mean loss. Patches that are masked as a whole have no loss."""
    loader = torch.utils.data.DataLoader(patches, batch_size=BATCH, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(epochs):
        model.train()
        losses = []
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["image"]), batch[LABEL].long(), ignore_index=MASKED)
            if torch.isfinite(loss):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        yield float(np.mean(losses)) if losses else float("nan")


def predictions(model: UNet, patches: geotfr.PatchDataset) -> Iterator[NDArray[np.int64]]:
    """Class numbers (row, col) of each patch with its margins, in order."""
    model.eval()
    for start in range(0, len(patches), BATCH):
        with torch.no_grad():
            scores = model(torch.from_numpy(patches[start : start + BATCH]["image"]))
        yield from scores.argmax(dim=1).numpy()


def main() -> int:
    """Export, train, check, predict, and make the map."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", type=Path)
    parser.add_argument("classes", type=Path)
    parser.add_argument("folder", type=Path, help="made if it isn't there; files of an earlier run are replaced")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--patch", type=int, default=64, help="pixels; a multiple of 4  [default: 64]")
    parser.add_argument("--kernel", type=int, default=32, help="a multiple of 8  [default: 32]")
    given = parser.parse_args()
    torch.manual_seed(0)
    given.folder.mkdir(parents=True, exist_ok=True)

    exported = export(given)
    manifest = geotfr.read_manifest(exported.manifest)
    bands = [band.name for band in manifest.bands if band.name != LABEL]
    column = np.arange(manifest.patches_written) % manifest.columns
    border = 2 * manifest.columns // 3

    def dataset(normalize: dict[str, dict[str, dict[str, float]]] | None = None) -> geotfr.PatchDataset:
        return geotfr.PatchDataset(exported.manifest, stack=bands, normalize=normalize)

    patches = dataset(statistics(dataset().subset(np.flatnonzero(column < border)), bands))
    training, checking = (patches.subset(np.flatnonzero(chosen)) for chosen in (column < border, column > border))
    highest = max(int(item[LABEL][item[LABEL] != MASKED].max(initial=0)) for item in patches)
    model = UNet(len(bands), highest + 1)
    for number, loss in enumerate(train(model, training, given.epochs), start=1):
        print(f"epoch {number:3d}  loss {loss:.3f}")
    torch.save(model.state_dict(), given.folder / "model.pt")

    wanted = np.stack([item[LABEL] for item in checking])
    seen = wanted != MASKED
    right = (np.stack(list(predictions(model, checking))) == wanted)[seen].mean()
    print(f"{right:.1%} of the pixels that were not trained on are right")

    records = given.folder / "predictions.tfrecord.gz"
    written = ({"class": classes.ravel()} for classes in predictions(model, patches))
    geotfr.write_examples(records, written, compression="gzip", overwrite=True)
    target = given.folder / "map.tif"
    done = geotfr.ingest_predictions(
        exported.manifest, records, target, dtype="uint8", mask_from=given.scene, overwrite=True
    )
    print(done.to_text())
    return 0


def export(given: argparse.Namespace) -> geotfr.ExportResult:
    """The scene's bands and the classes in one set; masked pixels are 255 in all of them."""
    plan = geotfr.plan_export(given.scene, patch_dimensions=given.patch)
    count = len(plan.features)
    return geotfr.export_image(
        [given.scene, given.classes],
        f"{given.folder}/patches/",
        patch_dimensions=given.patch,
        kernel_size=given.kernel,
        edge="pad",
        default_value=MASKED,
        bands=[*(str(number) for number in range(1, count + 1)), f"{LABEL}={count + 1}"],
        overwrite=True,
    )


if __name__ == "__main__":
    sys.exit(main())

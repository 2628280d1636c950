"""The main job from end to end, on a scene made here: export, predict, ingest, compare, draw.

    python examples/demo.py FOLDER

The prediction is a small model in numpy that looks at a pixel's surroundings, so it needs the margins that the kernel
adds: with them, patch by patch gives the same as the whole scene at once, to the last bit. That is what is compared.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import rasterio
from make_scene import BANDS, CLASSES, SPECTRA, make_scene

import geotfr
from geotfr.rasters.pictures import write_png

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

PATCH = 128
KERNEL = 32
RADIUS = 3
"""The model looks this many pixels around each; no more than half the kernel."""

COLOURS = np.array([[38, 92, 170], [24, 88, 44], [134, 190, 82], [188, 140, 84], [200, 66, 66]], np.uint8)
GRID_COLOUR = np.array([255, 220, 0], np.uint8)
GAP_PX = 12


def predict(image: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Class numbers ``(row, col)`` of reflectances times 10000 ``(band, row, col)``: a mean, then the nearest spectrum.

    Right but for the outermost ``RADIUS`` rows and columns, which see less than their surroundings.
    """
    rows, cols = image.shape[1:]
    size = 2 * RADIUS + 1
    padded = np.pad(image, ((0, 0), (RADIUS, RADIUS), (RADIUS, RADIUS)), mode="edge")
    # Shifted sums in one order, so that a pixel is rounded alike wherever it lies in its patch.
    down = np.zeros((len(image), rows, cols + 2 * RADIUS), np.float32)
    for shift in range(size):
        down += padded[:, shift : shift + rows]
    mean = np.zeros_like(image)
    for shift in range(size):
        mean += down[:, :, shift : shift + cols]
    mean /= np.float32(size * size * 10_000)
    distances = np.zeros((len(CLASSES), rows, cols), np.float32)
    for number, spectrum in enumerate(SPECTRA):
        for band, reflectance in enumerate(spectrum):
            distances[number] += (mean[band] - reflectance) ** 2
    return distances.argmin(axis=0).astype(np.uint8)


def predictions(shards: Sequence[Path]) -> Iterator[dict[str, NDArray[np.int64]]]:
    """A record for each exported record, in order, with the classes of the whole block, margins included."""
    side = PATCH + KERNEL
    features = {band: geotfr.FixedLenFeature((side, side), np.float32) for band in BANDS}
    for record in geotfr.read_records(shards):
        bands = geotfr.parse_single_example(record, features)
        yield {"class": predict(np.stack([bands[band] for band in BANDS])).astype(np.int64).ravel()}


def draw(path: Path, source: NDArray[np.float32], classes: NDArray[np.uint8], valid: NDArray[np.bool_]) -> None:
    """Source, source with the patch grid, and result side by side, as PNG."""
    rgb = source[[BANDS.index(name) for name in ("B4", "B3", "B2")]]
    low, high = np.percentile(rgb[:, valid], (2, 98))
    scene = (np.clip((rgb - low) / (high - low), 0, 1) * 255).astype(np.uint8)
    scene[:, ~valid] = 0
    grid = scene.copy()
    rows, cols = classes.shape
    for line in range(0, rows + 1, PATCH):
        grid[:, min(line, rows - 1)] = GRID_COLOUR[:, None]
    for line in range(0, cols + 1, PATCH):
        grid[:, :, min(line, cols - 1)] = GRID_COLOUR[:, None]
    result = COLOURS[classes].transpose(2, 0, 1).copy()
    result[:, ~valid[:rows, :cols]] = 0
    gap = np.full((3, scene.shape[1], GAP_PX), 255, np.uint8)
    canvas = np.full_like(scene, 255)
    canvas[:, :rows, :cols] = result
    write_png(path, np.concatenate([scene, gap, grid, gap, canvas], axis=2))


def main() -> int:
    """Run the job, print the figures, and return 0 if every pixel is in its place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where everything is written; replaced if it is there")
    folder: Path = parser.parse_args().folder
    shutil.rmtree(folder, ignore_errors=True)
    scene = make_scene(folder)
    print(f"scene     {scene.raster}")

    exported = geotfr.export_image(
        scene.raster, f"{folder}/patches/", patch_dimensions=PATCH, kernel_size=KERNEL, max_file_size="32MiB"
    )
    print(exported.plan.to_text(), exported.to_text(), sep="\n")

    shard = folder / "predictions.tfrecord.gz"
    geotfr.write_examples(shard, predictions(exported.shards), compression="gzip")
    assert exported.mixer is not None
    ingested = geotfr.ingest_predictions(exported.mixer, shard, folder / "classes_predicted.tif", dtype="uint8")
    print(ingested.to_text())

    with rasterio.open(scene.raster) as dataset:
        source = dataset.read().astype(np.float32)
        valid = dataset.dataset_mask() != 0
        valid &= (dataset.read() != dataset.nodata).all(axis=0)
        transform, crs = dataset.transform, dataset.crs
    with rasterio.open(scene.classes) as dataset:
        truth = dataset.read(1)
    with rasterio.open(ingested.output) as dataset:
        result = dataset.read(1)
        same_place = dataset.transform == transform and dataset.crs == crs
    rows, cols = result.shape
    # The whole scene at once: masked pixels hold the default value, and so does what lies around the raster.
    around = ((0, 0), (KERNEL // 2, KERNEL // 2), (KERNEL // 2, KERNEL // 2))
    whole = predict(np.pad(np.where(valid, source, np.float32(0)), around))
    expected = whole[KERNEL // 2 : KERNEL // 2 + rows, KERNEL // 2 : KERNEL // 2 + cols]
    differing = int(np.count_nonzero(result != expected))
    seen = valid[:rows, :cols]
    accuracy = float((result == truth[:rows, :cols])[seen].mean())
    print(f"compared  {result.size:,} pixels with the whole scene predicted at once: {differing} differ")
    print(f"place     CRS and transform {'equal the source' if same_place else 'DIFFER from the source'}")
    print(f"accuracy  {accuracy:.1%} of the cloud-free pixels have their true class")

    picture = folder / "demo.png"
    draw(picture, source, result, valid)
    print(f"picture   {picture}")
    return 0 if differing == 0 and same_place else 1


if __name__ == "__main__":
    sys.exit(main())

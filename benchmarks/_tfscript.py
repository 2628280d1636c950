"""What people write today, for comparison: export and ingest with rasterio and TensorFlow, one patch at a
time.

Import only in a process of its own: TensorFlow takes some 400 MB.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import rasterio
import tensorflow as tf
from rasterio import Affine
from rasterio.windows import Window

if TYPE_CHECKING:
    from collections.abc import Sequence


def export(raster: Path, record_file: Path, *, patch: int = 256, kernel: int = 1, compressed: bool = False) -> int:
    """Write the whole patches of ``raster`` into one TFRecord file and return their number.

    One window is read per patch (beyond the edge of the raster filled), one float list made per band.
    """
    margin = kernel // 2
    side = patch + 2 * margin
    options = tf.io.TFRecordOptions(compression_type="GZIP" if compressed else "")
    count = 0
    with rasterio.open(raster) as source, tf.io.TFRecordWriter(str(record_file), options) as writer:
        names = [name or f"b{index}" for index, name in enumerate(source.descriptions, start=1)]
        for row in range(0, source.height - patch + 1, patch):
            for col in range(0, source.width - patch + 1, patch):
                window = Window(col - margin, row - margin, side, side)
                pixels = source.read(window=window, boundless=margin > 0)
                feature = {
                    name: tf.train.Feature(float_list=tf.train.FloatList(value=band.flatten()))
                    for name, band in zip(names, pixels, strict=True)
                }
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                writer.write(example.SerializeToString())
                count += 1
    return count


def ingest(
    record_files: Sequence[Path],
    mixer_file: Path,
    output: Path,
    *,
    bands: Sequence[str],
    compressed: bool = False,
    creation_options: dict[str, str] | None = None,
) -> None:
    """Lay the float patches of ``record_files`` into one array by the mixer and write it as a GeoTIFF."""
    mixer = json.loads(mixer_file.read_text())
    width, height = mixer["patchDimensions"]
    per_row = mixer["patchesPerRow"]
    rows = mixer["totalPatches"] // per_row
    spec = {name: tf.io.FixedLenFeature([height, width], tf.float32) for name in bands}
    patches = tf.data.TFRecordDataset(
        [str(path) for path in record_files], compression_type="GZIP" if compressed else ""
    ).map(lambda record: tf.io.parse_single_example(record, spec))
    mosaic = np.zeros((len(bands), rows * height, per_row * width), np.float32)
    for number, features in enumerate(patches):
        row, col = number // per_row * height, number % per_row * width
        for band, name in enumerate(bands):
            mosaic[band, row : row + height, col : col + width] = features[name].numpy()
    with rasterio.open(
        output,
        "w",
        driver="GTiff",
        height=mosaic.shape[1],
        width=mosaic.shape[2],
        count=len(bands),
        dtype="float32",
        crs=mixer["projection"]["crs"],
        transform=Affine(*mixer["projection"]["affine"]["doubleMatrix"]),
        **(creation_options or {"tiled": "yes", "blockxsize": "256", "blockysize": "256", "compress": "deflate"}),
    ) as target:
        target.descriptions = tuple(bands)
        target.write(mosaic)

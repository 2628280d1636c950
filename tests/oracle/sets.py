"""Sets of predictions: a mixer and the shards that hold a known picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rasterio.transform import Affine

from oracle import wire
from oracle.mosaics import cut
from oracle.rasters import NORTH_UP


def write_set(
    folder: Path,
    bands: np.ndarray,
    *,
    patch: tuple[int, int],
    margin: tuple[int, int] = (0, 0),
    names: tuple[str, ...] = ("b1",),
    shards: int = 1,
    compression: str = "",
    place: tuple[Affine, str] = (NORTH_UP, "EPSG:32618"),
) -> tuple[Path, list[Path]]:
    """Mixer and shards that hold (band, row, col) ``bands`` cut into patches, by the kind of their dtype."""
    per_row, rows = bands.shape[2] // patch[0], bands.shape[1] // patch[1]
    payloads = []
    for number in range(per_row * rows):
        features = []
        for name, band in zip(names, bands, strict=True):
            values = cut(band, number, patch_xy=patch, margin_xy=margin)
            if band.dtype == np.uint8:
                features.append((name, wire.bytes_feature([values.tobytes()])))
            elif band.dtype.kind == "i":
                features.append((name, wire.int64_feature(values)))
            else:
                features.append((name, wire.float_feature(values)))
        payloads.append(wire.example(features))
    per_shard = -(-len(payloads) // shards)
    paths = [
        wire.write_shard(
            folder / f"pred-{index:05d}.tfrecord",
            payloads[index * per_shard : (index + 1) * per_shard],
            compression=compression,
        )
        for index in range(shards)
    ]
    mixer = folder / "scene-mixer.json"
    mixer.write_text(wire.mixer_text(place[1], place[0][:6], patch, per_row, len(payloads)))
    return mixer, paths


def write_blocks(
    folder: Path,
    features: dict[str, np.ndarray],
    *,
    patch: tuple[int, int],
    per_row: int,
    shards: int = 1,
    place: tuple[Affine, str] = (NORTH_UP, "EPSG:32618"),
) -> tuple[Path, list[Path]]:
    """Mixer and shards of records whose features hold ``(record, ...)`` arrays as they are, by the kind of dtype."""
    count = len(next(iter(features.values())))
    payloads = [wire.example([(name, _feature(values[n])) for name, values in features.items()]) for n in range(count)]
    per_shard = -(-count // shards)
    paths = [
        wire.write_shard(folder / f"pred-{index:05d}.tfrecord", payloads[index * per_shard : (index + 1) * per_shard])
        for index in range(-(-count // per_shard))
    ]
    mixer = folder / "scene-mixer.json"
    mixer.write_text(wire.mixer_text(place[1], place[0][:6], patch, per_row, count))
    return mixer, paths


def _feature(values: np.ndarray) -> bytes:
    if values.dtype == np.uint8:
        return wire.bytes_feature([values.tobytes()])
    return (wire.int64_feature if values.dtype.kind == "i" else wire.float_feature)(values.ravel())

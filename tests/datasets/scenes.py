"""A small set with a band of each kind, written by the oracle, and what each of its patches must be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from oracle import wire
from oracle.mosaics import cut
from oracle.rasters import NORTH_UP

if TYPE_CHECKING:
    from pathlib import Path

    from rasterio.transform import Affine

PATCH_XY = (5, 4)
PER_ROW, ROWS = 4, 5
COUNT = PER_ROW * ROWS


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The set's files, and its bands (row, col)."""

    mixer: Path
    shards: list[Path]
    bands: dict[str, np.ndarray]
    margin_xy: tuple[int, int]

    def block(self, name: str, number: int) -> np.ndarray:
        """Patch ``number`` of a band with its margins, (row, col)."""
        width, height = (side + 2 * margin for side, margin in zip(PATCH_XY, self.margin_xy, strict=True))
        flat = cut(self.bands[name], number, patch_xy=PATCH_XY, margin_xy=self.margin_xy)
        return flat.reshape(height, width)

    def blocks(self, name: str, numbers: object) -> np.ndarray:
        """Several of them, (n, row, col)."""
        return np.stack([self.block(name, int(number)) for number in numbers])


def write_scene(
    folder: Path,
    *,
    margin_xy: tuple[int, int] = (0, 0),
    shards: int = 3,
    compression: str = "",
    transform: Affine = NORTH_UP,
) -> Scene:
    """20 patches of a float, an int64 and a uint8 band, in files ``p-00000…`` with ``p-mixer.json``."""
    width, height = PER_ROW * PATCH_XY[0], ROWS * PATCH_XY[1]
    rng = np.random.default_rng(1)
    bands = {
        "red": rng.normal(size=(height, width)).astype(np.float32),
        "code": rng.integers(0, 70_000, (height, width)),
        "class": rng.integers(0, 256, (height, width)).astype(np.uint8),
    }
    payloads = []
    for number in range(COUNT):
        parts = {name: cut(band, number, patch_xy=PATCH_XY, margin_xy=margin_xy) for name, band in bands.items()}
        payloads.append(
            wire.example(
                [
                    ("red", wire.float_feature(parts["red"])),
                    ("code", wire.int64_feature(parts["code"])),
                    ("class", wire.bytes_feature([parts["class"].tobytes()])),
                ]
            )
        )
    suffix = ".tfrecord.gz" if compression else ".tfrecord"
    each = -(-COUNT // shards)
    paths = [
        wire.write_shard(
            folder / f"p-{shard:05d}{suffix}", payloads[shard * each : (shard + 1) * each], compression=compression
        )
        for shard in range(shards)
    ]
    mixer = folder / "p-mixer.json"
    mixer.write_text(wire.mixer_text("EPSG:32618", transform[:6], PATCH_XY, PER_ROW, COUNT))
    return Scene(mixer=mixer, shards=paths, bands=bands, margin_xy=margin_xy)

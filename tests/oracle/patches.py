"""The patches that an export wrote, by number, read with nothing of geotfr."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from oracle import wire

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path, prefix: str = "out") -> dict[int, dict[str, np.ndarray]]:
    """Patch number -> feature -> block ``(row, col)``; the manifest tells which patches there are."""
    manifest = read_manifest(folder, prefix)
    dropped = set(manifest["patches_dropped"])
    numbers = [number for number in range(manifest["rows"] * manifest["columns"]) if number not in dropped]
    payloads: list[bytes] = []
    for shard in manifest["shards"]:
        data = (folder / shard["name"]).read_bytes()
        payloads += wire.unframe(gzip.decompress(data) if shard["name"].endswith(".gz") else data)
    block = [manifest["patch"][side] + 2 * manifest["margin"][side] for side in ("height", "width")]
    found = {}
    for number, payload in zip(numbers, payloads, strict=True):
        values = wire.decode_example(payload)
        found[number] = {name: _array(value).reshape(block) for name, value in values.items()}
    return found


def read_manifest(folder: Path, prefix: str = "out") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{prefix}-manifest.json").read_text())
    return found


def _array(value: Any) -> np.ndarray:
    return np.frombuffer(value[0], np.uint8) if isinstance(value[0], bytes) else np.asarray(value)


def block_of(
    plane: np.ndarray, number: int, *, patch: int, margin: int, columns: int, outside: float = 0
) -> np.ndarray:
    """The block of patch ``number`` of a whole plane (row, col); ``outside`` is beyond the plane."""
    padded = np.pad(plane, margin, constant_values=outside)
    row, column = divmod(number, columns)
    side = patch + 2 * margin
    return padded[row * patch : row * patch + side, column * patch : column * patch + side]

"""What is packed is the same bytes whatever lay in memory before."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# glibc fills memory that it hands out, and that it takes back, with what MALLOC_PERTURB_ says; other systems ignore it.
FILLS = ("0", "1", "85", "200")
CHILD = """
import hashlib
import numpy as np
from geotfr.rasters.float_tiles import encoded_tile
from geotfr.records.gzip import codec, quick_member, quick_member_of_rows
from geotfr.storage.example_files import _packer

def alike(source, start, size):
    rows = np.frombuffer(source * 8, "u1", 70000 + 20 * size, start % 50).reshape(-1, 20).copy()
    rows[:, 5:15] = 7
    return rows

random = np.random.default_rng(11)
doubled = np.repeat(random.normal(size=5000).astype("f4"), 2).tobytes()
few = random.integers(0, 4, size=20000, dtype="u1").tobytes()
digest = hashlib.sha256()
for case in range(3000):
    source, size = (doubled, few)[case % 2], int(random.integers(1, 1500))
    start = int(random.integers(0, len(source) - size))
    digest.update({pack})
print(digest.hexdigest())
"""
PACKS = {
    "fast": "codec('fast').pack(source[start : start + size])",
    "tables": "quick_member((source * 5)[start : start + (65536 if case % 3 else 0) + size])",
    "rows": "quick_member_of_rows(alike(source, start, size)) if case % 10 < 2 else b''",
    "zlib": "(lambda made: made.add(source[start : start + size]) + made.finish())(_packer('zlib', 'fast')())",
    "tiles": "encoded_tile(np.frombuffer(source, 'f4', 64, start % 15000).reshape(1, 8, 8), (8, 8))",
    "large tiles": "encoded_tile(np.resize(np.frombuffer(source, 'f4', size, start % 9000), (2, 100, 100)), (100, 100))"
    " if case < 600 else b''",
}


@pytest.mark.parametrize("way", PACKS)
def test_bytes_do_not_depend_on_what_memory_held(way: str) -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", CHILD.replace("{pack}", PACKS[way])],
            env={**os.environ, "MALLOC_PERTURB_": fill, "MALLOC_MMAP_THRESHOLD_": str(10**8)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for fill in FILLS
    }
    assert len(digests) == 1

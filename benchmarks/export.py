"""Export: geotfr against the typical TensorFlow script on one raster, in one run.

    python benchmarks/export.py [--size 8192] [--only plain,kernel,gzip,linear] [--rounds 3]

``plain``: patches of 256, uncompressed, 1 and 2 workers. ``kernel``: the same with kernel 128. ``gzip``: compressed by
each side's own means. ``linear``: a raster of twice the width and height, geotfr alone. The floor is reading, casting,
checksums and writing, each alone in one thread, added up.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from _measure import Contender, Measured, measure

if TYPE_CHECKING:
    from collections.abc import Callable

PATCH = 256


def run_geotfr(*, raster: str, folder: str, kernel: int, compressor: str, workers: int) -> float:
    """Seconds of ``geotfr.export_image``; imports aren't counted, as the script's aren't."""
    import geotfr
    import geotfr.rasters.source

    compression = {"compressed": False} if compressor == "none" else {"compressor": compressor}
    export_image = geotfr.export_image
    return timed(
        lambda: export_image(
            raster,
            f"{folder}/set",
            patch_dimensions=PATCH,
            kernel_size=kernel,
            workers=workers,
            overwrite=True,
            **compression,
        )
    )


def run_script(*, raster: str, folder: str, kernel: int, compressed: bool) -> float:
    """Seconds of the typical script; TensorFlow's import isn't counted."""
    import _tfscript

    target = Path(folder) / "script.tfrecord"
    return timed(lambda: _tfscript.export(Path(raster), target, patch=PATCH, kernel=kernel, compressed=compressed))


def run_floor(*, raster: str, folder: str, kernel: int) -> float:
    """Seconds of reading all pixels once, and of casting, checksumming and writing all records from one strip."""
    import google_crc32c
    import rasterio

    with rasterio.Env(GDAL_CACHEMAX=32 * 2**20), rasterio.open(raster) as source:
        rows, cols, bands = source.height, source.width, source.count
        strip = np.empty((bands, PATCH, cols), source.dtypes[0])
        started = time.perf_counter()
        for row in range(0, rows // PATCH * PATCH, PATCH):
            source.read(out=strip, window=((row, row + PATCH), (0, cols)))
        seconds = time.perf_counter() - started
    side = PATCH + kernel // 2 * 2
    block = np.resize(strip, (bands, side, side))
    record = np.empty((bands, side, side), np.float32)

    def work() -> None:
        with (Path(folder) / "floor.bin").open("wb", buffering=0) as file:
            for _ in range((rows // PATCH) * (cols // PATCH)):
                record[...] = block
                google_crc32c.value(record.reshape(-1).view(np.uint8))
                file.write(record)

    return seconds + timed(work)


def timed(work: Callable[[], object]) -> float:
    """Wall seconds of ``work``."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def compare(name: str, raster: Path, folder: Path, *, kernel: int, compressor: str, rounds: int) -> None:
    """Run both sides and print the ratios."""
    place = {"raster": str(raster), "folder": str(folder), "kernel": kernel}
    contenders = [
        Contender(
            name="script",
            module="export",
            function="run_script",
            arguments={**place, "compressed": compressor != "none"},
            rounds=1,
        ),
        *(
            Contender(
                name=f"geotfr {workers}",
                module="export",
                function="run_geotfr",
                arguments={**place, "compressor": compressor, "workers": workers},
                rounds=rounds,
            )
            for workers in (1, 2)
        ),
        Contender(name="floor", module="export", function="run_floor", arguments=place, rounds=rounds),
    ]
    found = measure(contenders)
    show(name, found)


def show(name: str, found: dict[str, Measured]) -> None:
    """One line a contender: seconds, how many times faster than the script, share of the floor, peak memory."""
    print(f"{name}")
    for contender, measured in found.items():
        ratio = f"{found['script'].seconds / measured.seconds:7.1f}x" if "script" in found else ""
        floor = f"{measured.seconds / found['floor'].seconds:6.2f} floors" if "floor" in found else ""
        print(f"  {contender:10} {measured.seconds:8.2f} s {ratio} {floor} {measured.peak_mib:7.0f} MiB peak")


def main() -> None:
    """Read the command line and run the cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--only", default="plain,kernel,gzip,linear")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    from _data import big_raster

    cases = options.only.split(",")
    raster = big_raster(size=options.size)
    folder = Path(tempfile.mkdtemp(prefix="geotfr-bench-"))
    try:
        if "plain" in cases:
            compare("plain, patch 256, 6 bands", raster, folder, kernel=1, compressor="none", rounds=options.rounds)
        if "kernel" in cases:
            compare("kernel 128", raster, folder, kernel=128, compressor="none", rounds=options.rounds)
        if "gzip" in cases:
            compare("gzip", raster, folder, kernel=1, compressor="fast", rounds=options.rounds)
        if "linear" in cases:
            large = big_raster(size=2 * options.size)
            found = measure(
                [
                    Contender(
                        name=f"{path.stem.split('-')[1]} {workers}",
                        module="export",
                        function="run_geotfr",
                        arguments={
                            "raster": str(path),
                            "folder": str(folder),
                            "kernel": 1,
                            "compressor": "none",
                            "workers": workers,
                        },
                        rounds=options.rounds,
                    )
                    for path in (raster, large)
                    for workers in (1, 2)
                ]
            )
            show("linear: 4 times the pixels", found)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Sources on other grids and stacks of scenes: what the export adds to reading them.

    python benchmarks/sources.py [--size 4096] [--scenes 12] [--rounds 3]

``stack``: scenes of one band exported as one array band; against reading the same files once, strip by strip.
``warp``: an export on another CRS by bilinear; against rasterio warping the same pixels alone.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _measure import Contender, measure
from export import timed

PATCH = 256
WARP_CRS = "EPSG:3035"


def run_export(*, sources: list[str], folder: str, options: dict[str, Any], workers: int) -> float:
    """Seconds of ``geotfr.export_image``."""
    import geotfr
    import geotfr.rasters.source

    export_image = geotfr.export_image
    keywords: dict[str, Any] = {"patch_dimensions": PATCH, "compressed": False, **options}
    return timed(lambda: export_image(sources, f"{folder}/set", overwrite=True, workers=workers, **keywords))


def run_read(*, sources: list[str], threads: int) -> float:
    """Seconds of reading every pixel of the sources once, by strips."""
    import rasterio

    with rasterio.Env(GDAL_CACHEMAX=32 * 2**20):
        files = [rasterio.open(path, num_threads=threads) for path in sources]
        strip = np.empty((files[0].count, PATCH, files[0].width), files[0].dtypes[0])
        started = time.perf_counter()
        for row in range(0, files[0].height // PATCH * PATCH, PATCH):
            for file in files:
                file.read(out=strip, window=((row, row + PATCH), (0, file.width)))
        return time.perf_counter() - started


def run_warp(*, source: str, transform: list[float], size: list[int], threads: int) -> float:
    """Seconds of warping the pixels of the export's grid with rasterio alone, strip by strip."""
    import rasterio
    from affine import Affine
    from rasterio.enums import Resampling
    from rasterio.vrt import WarpedVRT

    with (
        rasterio.Env(GDAL_CACHEMAX=32 * 2**20),
        rasterio.open(source, num_threads=threads) as file,
        WarpedVRT(
            file,
            crs=WARP_CRS,
            transform=Affine(*transform),
            width=size[0],
            height=size[1],
            resampling=Resampling.bilinear,
            add_alpha=True,
            NUM_THREADS=str(threads),
        ) as warped,
    ):
        return timed(
            lambda: [
                warped.read(window=((row, min(row + PATCH, size[1])), (0, size[0]))) for row in range(0, size[1], PATCH)
            ]
        )


def main() -> None:
    """Read the command line and run both cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--scenes", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    from _data import big_raster

    import geotfr

    folder = Path(tempfile.mkdtemp(prefix="geotfr-bench-"))

    def contender(name: str, function: str, **arguments: Any) -> Contender:
        return Contender(name=name, module="sources", function=function, arguments=arguments, rounds=options.rounds)

    try:
        scenes = [str(big_raster(size=options.size, bands=1, seed=100 + number)) for number in range(options.scenes)]
        stack = {
            "array_bands": ["evi=" + ",".join(f"{path}:1" for path in scenes)],
            "tensor_depths": {"evi": len(scenes)},
        }
        # With every band in the array band no scalar band is left; the first scene names the grid.
        place = {"sources": scenes[:1], "folder": str(folder), "options": stack}
        planned = geotfr.plan_export(scenes[:1], patch_dimensions=PATCH, compressed=False, workers=2, **stack)
        found = measure(
            [
                contender("export, 1 worker", "run_export", workers=1, **place),
                contender("export, 2 workers", "run_export", workers=2, **place),
                contender("reading alone", "run_read", sources=scenes, threads=1),
            ]
        )
        planned_mib = planned.memory_bytes / 2**20
        print(f"stack: {len(scenes)} scenes of {options.size}x{options.size}; planned {planned_mib:.0f} MiB")
        for name, measured in found.items():
            print(f"  {name:18} {measured.seconds:7.2f} s {measured.peak_mib:7.0f} MiB peak")

        raster = str(big_raster(size=options.size))
        warp = {"crs": WARP_CRS, "scale": 10, "resampling": "bilinear"}
        plan = geotfr.plan_export(raster, patch_dimensions=PATCH, compressed=False, workers=2, **warp)
        grid = plan.layout.geobox
        size = [grid.shape_yx[1], grid.shape_yx[0]]
        found = measure(
            [
                contender(
                    "export, 2 workers", "run_export", sources=[raster], folder=str(folder), options=warp, workers=2
                ),
                contender(
                    "rasterio's warp", "run_warp", source=raster, transform=list(grid.affine), size=size, threads=2
                ),
            ]
        )
        ratio = found["export, 2 workers"].seconds / found["rasterio's warp"].seconds
        planned_mib = plan.memory_bytes / 2**20
        print(f"warp: 6 bands onto {size[0]}x{size[1]}; planned {planned_mib:.0f} MiB; {ratio:.2f}x the warp")
        for name, measured in found.items():
            print(f"  {name:18} {measured.seconds:7.2f} s {measured.peak_mib:7.0f} MiB peak")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

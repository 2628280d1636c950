"""Ingest: geotfr against the typical TensorFlow script and GDAL's writing alone, in one run.

    python benchmarks/ingest.py [--size 8192] [--rounds 3]

Three float32 bands in patches of 256. ``same options``: both sides write tiles of 256 with GDAL's default DEFLATE, and
GDAL alone writes the same pixels from memory. ``defaults``: geotfr's own creation options. Then the same raster with
kernel 128, each overlap against ``crop``, and as a COG.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

from _measure import Contender, measure
from export import PATCH, show, timed

SAME = {"TILED": "YES", "BLOCKXSIZE": "256", "BLOCKYSIZE": "256", "COMPRESS": "DEFLATE"}
BANDS = ("B1", "B2", "B3")


def run_geotfr(*, folder: str, options: dict[str, str], workers: int, name: str = "set", **more: Any) -> float:
    """Seconds of ``geotfr.ingest_predictions`` of the set ``name``; imports aren't counted, as the script's aren't."""
    import geotfr
    import geotfr.rasters.sink

    ingest_predictions = geotfr.ingest_predictions
    return timed(
        lambda: ingest_predictions(
            f"{folder}/{name}.json",
            [f"{folder}/{name}.tfrecord"],
            f"{folder}/geotfr.tif",
            creation_options=options,
            workers=workers,
            overwrite=True,
            **more,
        )
    )


def run_script(*, folder: str, options: dict[str, str]) -> float:
    """Seconds of the typical script; TensorFlow's import isn't counted."""
    import _tfscript

    place = Path(folder)
    return timed(
        lambda: _tfscript.ingest(
            [place / "set.tfrecord"],
            place / "set.json",
            place / "script.tif",
            bands=BANDS,
            creation_options={name.lower(): value for name, value in options.items()},
        )
    )


def run_gdal(*, raster: str, folder: str, options: dict[str, str], threads: int) -> float:
    """Seconds of GDAL's writing of the same pixels, strip by strip; reading them isn't counted."""
    import rasterio

    seconds = 0.0
    with rasterio.Env(GDAL_CACHEMAX=32 * 2**20), rasterio.open(raster) as source:
        profile = {
            "driver": "GTiff",
            "height": source.height,
            "width": source.width,
            "count": source.count,
            "dtype": "float32",
            "crs": source.crs,
            "transform": source.transform,
            "num_threads": threads,
            **{name.lower(): value for name, value in options.items()},
        }
        target = rasterio.open(Path(folder) / "gdal.tif", "w", **profile)
        for row in range(0, source.height, PATCH):
            window = ((row, min(row + PATCH, source.height)), (0, source.width))
            pixels = source.read(window=window)
            seconds += timed(lambda: target.write(pixels, window=window))  # noqa: B023
        seconds += timed(target.close)
    return seconds


def main() -> None:
    """Read the command line and run the cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    from _data import big_raster

    import geotfr

    raster = big_raster(size=options.size, bands=3, dtype="float32")
    folder = Path(tempfile.mkdtemp(prefix="geotfr-bench-"))
    try:
        geotfr.export_image(raster, folder / "set", patch_dimensions=PATCH, compressed=False, max_file_size="64GB")
        place = {"folder": str(folder)}

        def contender(name: str, function: str, /, **arguments: object) -> Contender:
            return Contender(
                name=name,
                module="ingest",
                function=function,
                arguments={**place, **arguments},
                rounds=options.rounds,
            )

        for workers in (1, 2):
            same = {**SAME, "NUM_THREADS": str(workers)}
            found = measure(
                [
                    contender("script", "run_script", options=same),
                    contender("geotfr", "run_geotfr", options=SAME, workers=workers),
                    contender("floor", "run_gdal", raster=str(raster), options=SAME, threads=workers),
                    contender("defaults", "run_geotfr", options={}, workers=workers),
                ]
            )
            show(f"3 float32 bands, {workers} thread{'s' if workers > 1 else ''} (floor: GDAL's write alone)", found)
        geotfr.export_image(
            raster, folder / "padded", patch_dimensions=PATCH, kernel_size=128, compressed=False, max_file_size="64GB"
        )
        padded: dict[str, object] = {"options": {}, "workers": 1, "name": "padded"}
        overlaps = ("crop", "average", "linear", "cosine", "gaussian", "vote")
        found = measure([contender(overlap, "run_geotfr", overlap=overlap, **padded) for overlap in overlaps])
        show("kernel 128, margins cropped or blended, 1 thread", found)
        found = measure([contender("cog", "run_geotfr", options={}, workers=1, format="cog")])
        show("a COG with mean overviews, 1 thread", found)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

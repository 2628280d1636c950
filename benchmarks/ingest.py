"""Ingest: geotfr against the typical TensorFlow script and GDAL's writing alone, in one run.

    python benchmarks/ingest.py [--size 8192] [--rounds 3] [--only same,blends,memory] [--clock cpu]

Three float32 bands in patches of 256. ``same``: all sides write tiles of 256 with DEFLATE level 6 and no predictor,
which is what GDAL does by default, and GDAL alone writes the same pixels from memory; ``defaults`` is geotfr with its
own creation options. ``blends``: the same raster with kernel 128, each overlap against ``crop``; ``vote`` also on class
ids of which one in ten is another one in each block. ``memory``: the peaks, a COG too. Last come the targets.

``--clock cpu`` counts the processes' CPU seconds, all threads: what holds on a machine that others use too.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from _measure import Contender, measure
from export import PATCH, show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SAME = {
    "TILED": "YES",
    "BLOCKXSIZE": "256",
    "BLOCKYSIZE": "256",
    "COMPRESS": "DEFLATE",
    "ZLEVEL": "6",
    "PREDICTOR": "1",
}
BANDS = ("B1", "B2", "B3")


def timed(work: Callable[[], object], clock: str) -> float:
    """Seconds of ``work``: of the wall's clock, or of the CPU in all threads."""
    now = time.process_time if clock == "cpu" else time.perf_counter
    started = now()
    work()
    return now() - started


def run_geotfr(
    *, folder: str, options: dict[str, str], workers: int, clock: str, name: str = "set", **more: Any
) -> float:
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
        ),
        clock,
    )


def run_script(*, folder: str, options: dict[str, str], clock: str) -> float:
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
        ),
        clock,
    )


def run_gdal(*, raster: str, folder: str, options: dict[str, str], threads: int, clock: str) -> float:
    """Seconds of GDAL's writing of the same pixels, strip by strip; they are all read before.

    Reading between the writes would be time that GDAL's threads go on compressing in and nobody counts.
    """
    import rasterio

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
        pixels = source.read()

        def work() -> None:
            with rasterio.open(Path(folder) / "gdal.tif", "w", **profile) as target:
                for row in range(0, source.height, PATCH):
                    strip = pixels[:, row : row + PATCH]
                    target.write(strip, window=((row, row + strip.shape[1]), (0, source.width)))

        return timed(work, clock)


def write_classes(folder: Path) -> None:
    """The set ``classes``: the first band of ``padded`` as class ids, one pixel in ten of each block another one."""
    import geotfr

    random = np.random.default_rng(1)

    def records() -> Iterator[dict[str, np.ndarray]]:
        for batch in geotfr.read_features(folder / "padded.tfrecord", names={BANDS[0]}):
            values: Any = batch.features[BANDS[0]]
            for block in values:
                ids = np.floor(block * 20)
                other = random.random(ids.shape, np.float32) < 0.1
                ids[other] = random.integers(0, 10, int(other.sum()))
                yield {"class": ids.astype(np.float32)}

    geotfr.write_examples(folder / "classes.tfrecord", records())
    shutil.copy(folder / "padded.json", folder / "classes.json")


def tell(what: str, found: float, wanted: float, *, at_most: bool = False, unit: str = "x") -> None:
    """A line that says whether a target is met."""
    is_met = found <= wanted if at_most else found >= wanted
    sign = "<=" if at_most else ">="
    print(f"  {what:52} {found:7.2f}{unit} {sign} {wanted:g}{unit} {'met' if is_met else 'NOT met'}")


def compare_same(contender: Callable[..., Contender], raster: str) -> list[tuple[str, float, float, bool]]:
    """geotfr, the script and GDAL with the same creation options; the targets."""
    targets = []
    for workers in (1, 2):
        found = measure(
            [
                contender("script", "run_script", options={**SAME, "NUM_THREADS": str(workers)}),
                contender("geotfr", "run_geotfr", options=SAME, workers=workers),
                contender("floor", "run_gdal", raster=raster, options=SAME, threads=workers),
                contender("defaults", "run_geotfr", options={}, workers=workers),
                contender("zstd", "run_geotfr", options={}, workers=workers, compress="zstd"),
            ]
        )
        threads = f"{workers} thread{'s' if workers > 1 else ''}"
        show(f"3 float32 bands, {threads} (floor: GDAL's write alone, same options)", found)
        script, ours, floor = (found[name].seconds for name in ("script", "geotfr", "floor"))
        targets += [
            (f"same options, {threads}: of GDAL's write alone", ours / floor, 1.15, True),
            (f"same options, {threads}: of the script", script / ours, 2, False),
            (f"defaults, {threads}: of the script", script / found["defaults"].seconds, 2.7, False),
            (f"ZSTD 1, {threads}: of the script", script / found["zstd"].seconds, 6, False),
        ]
    return targets


def compare_blends(contender: Callable[..., Contender]) -> list[tuple[str, float, float, bool]]:
    """Each overlap against ``crop``; the targets."""
    padded: dict[str, Any] = {"options": {}, "workers": 1, "name": "padded"}
    overlaps = ("crop", "average", "linear", "cosine", "gaussian", "vote", "max-probability")
    found = measure([contender(overlap, "run_geotfr", overlap=overlap, **padded) for overlap in overlaps])
    show("kernel 128, margins cropped or blended, 1 thread", found)
    classes = {**padded, "name": "classes"}
    ids = measure([contender(overlap, "run_geotfr", overlap=overlap, **classes) for overlap in ("crop", "vote")])
    show("class ids, one in ten another one in each block, 1 thread", ids)
    crop = found["crop"].seconds
    targets = [(f"{overlap}: of crop", crop / found[overlap].seconds, 0.5, False) for overlap in overlaps[1:]]
    targets.append(("vote on disputed ids: of crop", ids["crop"].seconds / ids["vote"].seconds, 0.5, False))
    return targets


def main() -> None:
    """Read the command line and run the cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="same,blends,memory")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    options = parser.parse_args()
    from _data import big_raster

    import geotfr

    raster = big_raster(size=options.size, bands=3, dtype="float32")
    folder = Path(tempfile.mkdtemp(prefix="geotfr-bench-"))
    cases = options.only.split(",")
    try:
        plain: dict[str, Any] = {"patch_dimensions": PATCH, "compressed": False, "max_file_size": "64GB"}
        geotfr.export_image(raster, folder / "set", **plain)
        if "blends" in cases or "memory" in cases:
            geotfr.export_image(raster, folder / "padded", kernel_size=128, **plain)

        def contender(name: str, function: str, /, **arguments: object) -> Contender:
            return Contender(
                name=name,
                module="ingest",
                function=function,
                arguments={"folder": str(folder), "clock": options.clock, **arguments},
                rounds=options.rounds,
            )

        targets: list[tuple[str, float, float, bool]] = []
        peaks: list[tuple[str, float, float, bool]] = []
        if "same" in cases:
            targets += compare_same(contender, str(raster))
        if "blends" in cases:
            write_classes(folder)
            targets += compare_blends(contender)
        if "memory" in cases:
            both: dict[str, Any] = {"options": {}, "workers": 2}
            blends = ("gaussian", "vote", "max-probability")
            found = measure(
                [
                    contender("crop", "run_geotfr", **both),
                    *(contender(name, "run_geotfr", name="padded", overlap=name, **both) for name in blends),
                    contender("cog", "run_geotfr", format="cog", **both),
                ]
            )
            show("peaks, 2 threads", found)
            # MB are 10^6 bytes.
            peaks = [
                (f"{name}: peak", each.peak_mib * 1.048576, 200 if name == "crop" else 300, True)
                for name, each in found.items()
            ]
        print(f"targets, {options.size} x {options.size} x 3, {options.clock} seconds")
        for what, value, wanted, at_most in targets:
            tell(what, value, wanted, at_most=at_most)
        for what, value, wanted, at_most in peaks:
            tell(what, value, wanted, at_most=at_most, unit=" MB")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

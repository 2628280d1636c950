"""What an export of 10^12 pixels costs: its plan, measured; its run on 1,000 workers, simulated from measured tasks.

    python benchmarks/scale.py [--workers 1000] [--tasks 12] [--seed 1]

Measured on this machine: the plan of a sparse raster of 10^6 x 10^6 pixels (seconds and peak memory of a process of its
own) and of one of 10^6 patches; parts of a real export, as many as ``--tasks``; what finalize takes for each shard that
it renames, and how fast it copies those that it puts together. Parts and copies are told in processor seconds, so that
other work of the machine doesn't count; waiting for storage is simulated. Files are synced, as in any run.

The run is a discrete event simulation: tasks begin in order on whatever worker is free, each takes one of the measured
times, scaled by its bytes; all writers share the storage's throughput, the scheduler starts one task after the other,
and workers die at random and their tasks begin again.
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from _measure import Contender, measure

SIDE = 10**6
BANDS = 6
DISPATCH_SECONDS = 0.001
"""What dask's documentation gives for its scheduler's work on a task."""
DEATHS_A_WORKER_HOUR = 0.01
THROUGHPUTS_GB_S = (1, 10, 100, 1000)


def plan_of(*, folder: str, side: int, patch: int) -> float:
    """Seconds to plan the export of a sparse raster."""
    import numpy as np
    import rasterio

    import geotfr
    import geotfr.pipeline.export.run
    import geotfr.rasters.source
    from geotfr.pipeline.export.parts.split import part_of

    path = Path(folder) / f"{side}.tif"
    if not path.exists():
        with rasterio.open(
            path,
            "w",
            driver="GTiff",
            width=side,
            height=side,
            count=BANDS,
            dtype="uint16",
            crs="EPSG:32633",
            transform=rasterio.Affine(10, 0, 0, 0, -10, 0),
            tiled=True,
            blockxsize=2048,
            blockysize=2048,
            compress="deflate",
            sparse_ok=True,
            bigtiff="yes",
        ) as raster:
            raster.write(np.ones((1, 16, 16), "uint16"), [1], window=((0, 16), (0, 16)))
    started = time.perf_counter()
    plan = geotfr.plan_export(path, patch_dimensions=patch)
    for number in range(1000):
        part_of(plan, number, 1000, block_rows=2048, keeps_all=True, streams=False)
    return time.perf_counter() - started


@dataclass(frozen=True, kw_only=True)
class Task:
    """A part that was measured: its ``seconds``, and the ``bytes`` it wrote."""

    seconds: float
    bytes: int


def measured_tasks(folder: Path, count: int, shard: str, **options: str) -> tuple[list[Task], float, int, int]:
    """Parts of an export of the benchmarks' raster; seconds of finalize, its shards and their bytes."""
    from _data import big_raster

    import geotfr

    raster = big_raster(size=4096)
    found = []
    for number in range(count):
        started = time.process_time()
        told = geotfr.export_part(
            raster,
            folder / "set",
            split=(number, count),
            patch_dimensions=256,
            max_file_size=shard,
            workers=1,
            overwrite=True,
            **options,
        )
        found.append(Task(seconds=time.process_time() - started, bytes=told.size_bytes))
    started = time.perf_counter(), time.process_time()
    result = geotfr.finalize_export(folder / "set", overwrite=True)
    seconds = time.perf_counter() - started[0] if result.shards_copied == 0 else time.process_time() - started[1]
    return found, seconds, len(result.shards), result.size_bytes


@dataclass(frozen=True, kw_only=True)
class Run:
    """A simulated run: ``seconds`` until the last task is done, the workers' share of ``busy`` time, ``deaths``."""

    seconds: float
    busy: float
    deaths: int


def simulate(tasks: list[float], task_bytes: float, *, workers: int, throughput: float, chance: random.Random) -> Run:
    """``tasks`` (seconds on an idle machine, each writing ``task_bytes``) on ``workers``.

    Parameters
    ----------
    throughput
        Bytes a second that the storage takes from all writers together.
    """
    # While all workers write, each has its share of the storage.
    writing = task_bytes / (throughput / min(workers, len(tasks)))
    free = [0.0] * workers
    waiting = [max(seconds, writing) for seconds in reversed(tasks)]
    dispatched = busy = end = 0.0
    deaths = 0
    while waiting:
        seconds = waiting.pop()
        begin = max(heapq.heappop(free), dispatched + DISPATCH_SECONDS)
        dispatched = max(dispatched + DISPATCH_SECONDS, begin if begin > dispatched + 1 else 0)
        lives = chance.expovariate(DEATHS_A_WORKER_HOUR / 3600)
        if lives < seconds:
            # What it finished is kept as whole shards; half of the task on average. A new worker takes a minute.
            deaths += 1
            waiting.append(seconds - lives / 2)
            heapq.heappush(free, begin + lives + 60)
            busy += lives
            continue
        end = max(end, begin + seconds)
        busy += seconds
        heapq.heappush(free, begin + seconds)
    return Run(seconds=end, busy=busy / (end * workers), deaths=deaths)


def main() -> None:
    """Measure, simulate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--tasks", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="geotfr-bench-") as folder:
        plans = measure(
            [
                Contender(
                    name=name,
                    module="scale",
                    function="plan_of",
                    arguments={"folder": folder, "side": side, "patch": patch},
                )
                for name, side, patch in (("10^6 patches", 32_000, 32), ("10^12 pixels", SIDE, 256))
            ]
        )
        for name, plan in plans.items():
            print(f"plan of {name}, and where 1,000 parts begin: {plan.seconds:.3f} s, {plan.peak_mib:.0f} MiB peak")
        tasks, seconds, renamed, size = measured_tasks(Path(folder), options.tasks, "4MiB")
        _, copy_seconds, _, copied = measured_tasks(Path(folder), options.tasks, "64MiB", feature_kinds="native")
    shard_seconds, pixel_bytes = seconds / renamed, size / 4096**2
    a_pixel = [task.seconds / task.bytes * pixel_bytes for task in tasks]
    print(
        f"{len(tasks)} parts measured: {statistics.median(a_pixel) * 1e9:.1f} ns a pixel of {BANDS} bands (from"
        f" {min(a_pixel) * 1e9:.1f} to {max(a_pixel) * 1e9:.1f}), {pixel_bytes:.2f} bytes a pixel written;"
        f" finalize {shard_seconds * 1e3:.2f} ms a shard renamed,"
        f" {copied / copy_seconds / 1e6:.0f} MB/s where it copies"
    )
    patches = (SIDE // 256) ** 2
    shards = -(-patches * 256 * 256 * BANDS * 4 // 2**30)
    count = shards // 4
    pixels = SIDE**2 / count
    print(f"{patches:,} patches, {shards:,} shards, {count:,} parts of {pixels:.2e} pixels")
    for throughput in THROUGHPUTS_GB_S:
        drawn = [chance.choice(a_pixel) * pixels for _ in range(count)]
        run = simulate(drawn, pixels * pixel_bytes, workers=options.workers, throughput=throughput * 1e9, chance=chance)
        print(
            f"{options.workers:,} workers, storage of {throughput:5,} GB/s: {run.seconds / 3600:7.2f} h, workers busy"
            f" {run.busy:4.0%}, {run.deaths:3} died, finalize {shards * shard_seconds:.0f} s"
        )
    sys.stdout.flush()


if __name__ == "__main__":
    main()

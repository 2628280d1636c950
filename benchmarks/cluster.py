"""Executors against each other: one export by threads, by 1 and 2 processes, and by 2 workers of dask; one ingest.

    python benchmarks/cluster.py [--size 8192] [--rounds 3] [--max-file-size 32MiB] [--cpu]

Compressed shards. ``steady`` leaves out what each executor needs to begin, which doesn't grow with the raster: workers
are started, and have imported geotfr, before the clock runs. Small shards let each part hold whole ones. ``--cpu``
compares processor seconds of all processes, their start included, instead of wall time: where the machine has other
work, it tells what the ratio could be. The plan of 10^6 patches is measured too.
"""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from _measure import Contender, measure

if TYPE_CHECKING:
    from concurrent.futures import Executor

PATCH = 256


def run_threads(*, raster: str, folder: str, shard: str, workers: int) -> float:
    """Seconds of the default executor."""
    warm()
    return _timed(raster, folder, shard, workers, None)


def run_processes(*, raster: str, folder: str, shard: str, workers: int, is_steady: bool) -> float:
    """Seconds of ``workers`` processes; with them started before, or not."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    if not is_steady:
        return _timed(raster, folder, shard, workers, "processes")
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=warm) as pool:
        list(pool.map(rest, [1.0] * workers))
        return _timed(raster, folder, shard, workers, pool)


def run_dask(*, raster: str, folder: str, shard: str, workers: int) -> float:
    """Seconds of a dask cluster that is there and warm."""
    from distributed import Client

    from geotfr.pipeline.executors.on_dask import local_cluster

    with local_cluster(workers) as cluster, Client(cluster) as client:
        client.run(warm)
        return _timed(raster, folder, shard, workers, "dask", cluster.scheduler_address)


def run_ingest(*, raster: str, folder: str, shard: str, workers: int, executor: str) -> float:
    """Seconds of an ingest of the set in ``folder``; processes are started, and warm, before."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    import geotfr

    del raster, shard
    warm()

    def timed(how: str | Executor) -> float:
        started = time.perf_counter()
        geotfr.ingest_predictions(folder, (), f"{folder}/map.tif", workers=workers, overwrite=True, executor=how)
        return time.perf_counter() - started

    if executor == "threads":
        return timed(executor)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=warm) as pool:
        list(pool.map(rest, [1.0] * workers))
        return timed(pool)


def warm() -> None:
    """Import what a task needs."""
    for name in (
        "geotfr.pipeline.export.parts.distribute",
        "geotfr.pipeline.ingest.parts.distribute",
        "geotfr.rasters.source",
    ):
        importlib.import_module(name)


def rest(seconds: float) -> None:
    """Keep a worker busy, so that the next task starts another."""
    time.sleep(seconds)


def _timed(
    raster: str, folder: str, shard: str, workers: int, executor: str | Executor | None, scheduler: str | None = None
) -> float:
    import geotfr

    export_image = geotfr.export_image
    # Comparing with an older set is work that only one process does.
    for path in Path(folder).iterdir():
        path.unlink()
    clock = time.perf_counter if "GEOTFR_BENCH_CPU" not in os.environ else _cpu_seconds
    started = clock()
    export_image(
        raster,
        f"{folder}/set",
        patch_dimensions=PATCH,
        max_file_size=shard,
        workers=workers,
        overwrite=True,
        executor=executor,
        scheduler=scheduler,
    )
    return clock() - started


def _cpu_seconds() -> float:
    """Of this process, and of those that it started and that have ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-file-size", default="32MiB")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    if options.cpu:
        os.environ["GEOTFR_BENCH_CPU"] = "1"
    from _data import big_raster

    raster = str(big_raster(size=options.size))
    folder = tempfile.mkdtemp(prefix="geotfr-bench-")
    plans = tempfile.mkdtemp(prefix="geotfr-bench-")
    given = {"raster": raster, "folder": folder, "shard": options.max_file_size}
    contenders = [
        *(
            Contender(
                name=f"threads {workers}",
                module="cluster",
                function="run_threads",
                arguments={**given, "workers": workers},
                rounds=options.rounds,
            )
            for workers in (1, 2)
        ),
        *(
            Contender(
                name=f"processes {workers}{', steady' if is_steady else ''}",
                module="cluster",
                function="run_processes",
                arguments={**given, "workers": workers, "is_steady": is_steady},
                rounds=options.rounds,
            )
            # A process that goes on isn't counted.
            for is_steady in ((False,) if options.cpu else (False, True))
            for workers in (1, 2)
        ),
        *(
            Contender(
                name="dask 2, steady",
                module="cluster",
                function="run_dask",
                arguments={**given, "workers": 2},
                rounds=options.rounds,
            )
            for _ in range(not options.cpu)
        ),
        *(
            Contender(
                name=f"ingest, {executor} {workers}",
                module="cluster",
                function="run_ingest",
                arguments={**given, "workers": workers, "executor": executor},
                rounds=options.rounds,
            )
            for executor, workers in (() if options.cpu else (("threads", 2), ("processes", 1), ("processes", 2)))
        ),
        Contender(
            name="plan of 10^6 patches",
            module="scale",
            function="plan_of",
            arguments={"folder": plans, "side": 32_000, "patch": 32},
            rounds=options.rounds,
        ),
    ]
    try:
        found = {name: measured.seconds for name, measured in measure(contenders).items()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(plans, ignore_errors=True)
    for name, seconds in found.items():
        print(f"  {name:22} {seconds:8.2f} s")
    if options.cpu:
        share = found["processes 1"] / found["processes 2"]
        print(f"2 processes take {1 / share:.2f}x the processor time of 1: at best {2 * share:.2f}x as fast")
        print(f"1 process takes {found['processes 1'] / found['threads 1']:.2f}x the processor time of 1 thread")
        return
    print(f"2 processes are {found['processes 1'] / found['processes 2']:.2f}x of 1")
    print(f"2 processes are {found['processes 1, steady'] / found['processes 2, steady']:.2f}x of 1, steady")
    ingests = found["ingest, processes 1"] / found["ingest, processes 2"]
    print(f"2 processes are {ingests:.2f}x of 1, steady, for an ingest")
    print(f"2 workers of dask are {found['processes 2, steady'] / found['dask 2, steady']:.2f}x of 2 processes, steady")


if __name__ == "__main__":
    main()

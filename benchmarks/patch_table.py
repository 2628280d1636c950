"""The patch table: what it adds to an export, and a table of a million patches made, read and filtered.

    python benchmarks/patch_table.py [--size 4096] [--patches 1000000] [--only export,million,leakage] [--rounds 3]
        [--clock cpu]

``export``: a raster of six bands with and without the table, gzip and plain, 1 and 2 workers. ``million``: the rows of
a table with three bands on a UTM grid are written (outlines, bounds in longitude and latitude, digests), read and
filtered. ``leakage``: the pairs of patches of different splits that overlap or are near, counted.

``--clock cpu`` counts the CPU seconds of all threads: what holds on a machine that others use too.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from _measure import Contender, Measured, measure

if TYPE_CHECKING:
    from collections.abc import Callable

    from geotfr.vectors.patch_table import TablePart

PATCH = 256


def run_export(*, raster: str, folder: str, workers: int, compressed: bool, table: bool, clock: str) -> float:
    """Seconds of an export."""
    import pyarrow.parquet
    import pyproj

    import geotfr
    import geotfr.rasters.source

    del pyarrow, pyproj
    export_image = geotfr.export_image
    # A set that is there would be compared, and its equal shards left: work of another kind.
    shutil.rmtree(f"{folder}/out", ignore_errors=True)
    Path(folder, "out").mkdir()
    now = _now(clock)
    started = now()
    export_image(
        raster,
        f"{folder}/out/set",
        patch_dimensions=PATCH,
        workers=workers,
        compressed=compressed,
        patch_table=table,
    )
    return now() - started


def million_rows(patches: int) -> TablePart:
    """The rows of so many patches of three bands, in a square grid."""
    from geotfr.grid import GeoBox
    from geotfr.patches.rows import PatchRows
    from geotfr.patches.statistics import PatchStatistics
    from geotfr.records.places import ShardContent, record_places
    from geotfr.vectors.patch_table import PatchSet, TablePart

    side = int(patches**0.5)
    count = side * side
    rng = np.random.default_rng(1)
    lengths = np.full(count, 3 * 64 * 64 * 4 + 100, np.int64)
    per_shard = 10_000
    shards = [min(per_shard, count - start) for start in range(0, count, per_shard)]
    contents = [ShardContent(records=n, content_bytes=n * int(lengths[0]), members=None) for n in shards]
    return TablePart(
        patches=PatchSet(
            source="scene.tif",
            geobox=GeoBox(
                shape_yx=(side * 64, side * 64), affine=(10.0, 0.0, 300000.0, 0.0, -10.0, 5900000.0), crs="EPSG:32633"
            ),
            patch_yx=(64, 64),
            margin_yx=(0, 0),
            rows=side,
            columns=side,
            shards=tuple((f"set-{n:05d}.tfrecord", c.content_bytes, "") for n, c in enumerate(contents)),
            fills={},
        ),
        rows=PatchRows(
            numbers=np.arange(count),
            records=1,
            lengths=lengths,
            digests=rng.integers(0, 256, (count, 32), np.uint8),
            masked=rng.integers(0, 4096, count),
            statistics={
                f"B{band}": PatchStatistics(
                    counts=np.full(count, 4096),
                    lows=rng.integers(0, 100, count).astype(float),
                    highs=rng.integers(9000, 10000, count).astype(float),
                    means=rng.random(count) * 1000,
                    squares=rng.random(count) * 1e9,
                )
                for band in range(3)
            },
            classes={},
        ),
        places=record_places(lengths, 1, contents),
    )


def run_million(*, folder: str, patches: int, clock: str) -> float:
    """Seconds of making, reading and filtering a table, once the rows are there."""
    import pyarrow.dataset
    import pyarrow.parquet
    import pyproj

    from geotfr.storage import atomic_output
    from geotfr.vectors.condition import condition_on
    from geotfr.vectors.expression import parse_expression
    from geotfr.vectors.patch_table import read_patch_table, write_patch_table

    del pyarrow, pyproj
    now = _now(clock)
    part = million_rows(patches)
    path = Path(folder) / "million.parquet"
    started = now()
    with atomic_output(path, overwrite=True) as file:
        write_patch_table(file, [part])
    made = now()
    del part
    table = read_patch_table(path)
    numbers, shares = table.column("number"), table.column("masked_share")
    read = now()
    condition = condition_on(parse_expression("mean_B1 > 500", option="where"), table.schema, table=str(path))
    found = table.arrow(["number", "shard", "record"], condition)
    ended = now()
    assert len(numbers) == len(shares) > found.num_rows > 0
    print(f"made {made - started:.2f} s, read {read - made:.2f} s, filtered {ended - read:.2f} s")
    return ended - started


def run_leakage(*, folder: str, patches: int, distance_m: float) -> float:
    """Seconds of finding all leaks between three random splits."""
    from geotfr.patches.assign import assigned_patches, hashed
    from geotfr.pipeline.catalog.leakage import PlacedPatches, find_leaks

    del folder
    part = million_rows(patches)
    numbers = part.rows.numbers
    splits = assigned_patches(hashed(1, numbers), [0.7, 0.15, 0.15])
    placed = PlacedPatches(patches=part.patches, numbers=numbers, rows=np.arange(len(numbers)))
    started = time.perf_counter()
    found = find_leaks([placed], splits, ["train", "val", "test"], distance_m)
    assert not found.is_clean
    return time.perf_counter() - started


def _now(clock: str) -> Callable[[], float]:
    """The wall's clock, or the CPU's in all threads."""
    return time.process_time if clock == "cpu" else time.perf_counter


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--patches", type=int, default=1_000_000)
    parser.add_argument("--only", default="export,million,leakage")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    given = parser.parse_args()
    wanted = given.only.split(",")
    with tempfile.TemporaryDirectory() as folder:
        if "export" in wanted:
            _export(folder, given.size, given.rounds, given.clock)
        if "million" in wanted:
            arguments = {"folder": folder, "patches": given.patches, "clock": given.clock}
            found = measure([_contender("million", "run_million", arguments, given.rounds)])["million"]
            print(
                f"a table of {given.patches:,} patches made, read and filtered: {found.seconds:.2f} s,"
                f" {found.peak_mib:.0f} MiB"
            )
        if "leakage" in wanted:
            distances = {640.0: "one patch", 6400.0: "ten patches"}
            contenders = [
                _contender(told, "run_leakage", {"folder": "", "patches": given.patches, "distance_m": d}, given.rounds)
                for d, told in distances.items()
            ]
            for told, measured in measure(contenders).items():
                print(
                    f"leaks among {given.patches:,} patches, near is {told}: {measured.seconds:.1f} s,"
                    f" {measured.peak_mib:.0f} MiB"
                )


def _export(folder: str, size: int, rounds: int, clock: str) -> None:
    from _data import big_raster

    raster = str(big_raster(size=size))
    contenders = [
        _contender(
            f"{kind}, {workers} worker{'s' if workers > 1 else ''}, {'with' if table else 'without'}",
            "run_export",
            {
                "raster": raster,
                "folder": folder,
                "workers": workers,
                "compressed": kind == "gzip",
                "table": table,
                "clock": clock,
            },
            rounds,
        )
        for kind in ("gzip", "plain")
        for workers in (1, 2)
        for table in (False, True)
    ]
    found = measure(contenders)
    for without, with_table in zip(contenders[::2], contenders[1::2], strict=True):
        one, other = found[without.name], found[with_table.name]
        name, added = without.name.rsplit(",", 1)[0], other.seconds / one.seconds - 1
        print(f"{name}: the table adds {added:.0%} {_peaks(one, other)}")


def _peaks(one: Measured, other: Measured) -> str:
    return f"({one.seconds:.2f} s to {other.seconds:.2f} s, {one.peak_mib:.0f} to {other.peak_mib:.0f} MiB)"


def _contender(name: str, function: str, arguments: dict[str, Any], rounds: int) -> Contender:
    return Contender(name=name, module="patch_table", function=function, arguments=arguments, rounds=rounds)


if __name__ == "__main__":
    main()

"""Tables: export, ingest and sampling of a million points against the typical scripts, in one run.

    python benchmarks/tables.py [--rows 1000000] [--script-rows 100000] [--size 10980] [--bands 10] [--rounds 3]
                                [--only tables|sample]

``tables``: a Parquet file of 8 float64 columns to one gzip TFRecord file, and back to Parquet. The scripts are what
people write with TensorFlow: an Example for each row of the frame; ``parse_single_example`` and a frame of what it
gives. They get ``--script-rows`` rows, as their time grows with the rows, and are scaled to ``--rows``. ``sample``:
random points of a tiled raster, in random order, against rasterio's ``sample`` on ``--script-rows`` of them.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _measure import Contender, measure

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS = [f"x{number}" for number in range(8)]


def timed(work: Callable[[], Any]) -> float:
    """Seconds that ``work`` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def make_table(*, path: str, rows: int) -> float:
    """A Parquet file of 8 columns of random float64; made in a process of its own, whose memory isn't measured."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(1)
    return timed(lambda: pq.write_table(pa.table({name: random.random(rows) for name in COLUMNS}), path))


def run_export(*, folder: str, workers: int) -> float:
    """Seconds of ``geotfr.export_table``; imports aren't counted, as the script's aren't.

    The table comes from the page cache, as the script's does: some systems empty it within seconds. There is no older
    output: it would be compared with the new one.
    """
    import pyarrow.parquet

    import geotfr

    del pyarrow
    export_table = geotfr.export_table
    Path(f"{folder}/table.parquet").read_bytes()
    Path(f"{folder}/geotfr.tfrecord.gz").unlink(missing_ok=True)
    return timed(lambda: export_table(f"{folder}/table.parquet", f"{folder}/geotfr", workers=workers, overwrite=True))


def run_ingest(*, folder: str) -> float:
    """Seconds of ``geotfr.ingest_table`` of a file that has no manifest to tell its columns."""
    import pyarrow.parquet

    import geotfr

    del pyarrow
    ingest_table = geotfr.ingest_table
    return timed(lambda: ingest_table(f"{folder}/rows.tfrecord.gz", f"{folder}/geotfr.parquet", overwrite=True))


def run_ingest_own(*, folder: str) -> float:
    """Seconds of ``geotfr.ingest_table`` of geotfr's own file, with its manifest."""
    import pyarrow.parquet

    import geotfr

    del pyarrow
    ingest_table = geotfr.ingest_table
    return timed(lambda: ingest_table(f"{folder}/geotfr.tfrecord.gz", f"{folder}/own.parquet", overwrite=True))


def script_export(*, folder: str, table: str, output: str) -> float:
    """Seconds of the typical script: an Example for each row."""
    import pandas as pd
    import tensorflow as tf

    def work() -> None:
        frame = pd.read_parquet(f"{folder}/{table}")
        with tf.io.TFRecordWriter(f"{folder}/{output}", tf.io.TFRecordOptions(compression_type="GZIP")) as writer:
            for row in frame.itertuples(index=False):
                feature = {
                    name: tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
                    for name, value in zip(frame.columns, row, strict=True)
                }
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                writer.write(example.SerializeToString())

    return timed(work)


def script_ingest(*, folder: str) -> float:
    """Seconds of the typical script: one parsed record after the other into a frame."""
    import pandas as pd
    import tensorflow as tf

    spec = {name: tf.io.FixedLenFeature([], tf.float32) for name in COLUMNS}

    def work() -> None:
        records = tf.data.TFRecordDataset(f"{folder}/script.tfrecord.gz", compression_type="GZIP")
        parsed = records.map(lambda record: tf.io.parse_single_example(record, spec))
        pd.DataFrame(list(parsed.as_numpy_iterator())).to_parquet(f"{folder}/script.parquet")

    return timed(work)


def run_sample(*, raster: str, folder: str) -> float:
    """Seconds of ``geotfr.sample_points``."""
    import pyarrow.parquet
    import rasterio

    import geotfr

    del pyarrow, rasterio
    sample_points = geotfr.sample_points
    return timed(lambda: sample_points(raster, f"{folder}/points.parquet", f"{folder}/samples", overwrite=True))


def script_sample(*, raster: str, folder: str, rows: int) -> float:
    """Seconds of rasterio's ``sample`` at the first ``rows`` points."""
    import pandas as pd
    import rasterio
    import shapely

    def work() -> None:
        frame = pd.read_parquet(f"{folder}/points.parquet").iloc[:rows]
        points = shapely.get_coordinates(shapely.from_wkb(frame["geometry"]))
        with rasterio.open(raster) as source:
            values = list(source.sample(points))
        pd.DataFrame(values).to_parquet(f"{folder}/script-samples.parquet")

    return timed(work)


def make_points(*, path: str, raster: str, rows: int) -> float:
    """GeoParquet of random points within the raster, in random order."""
    import geopandas
    import numpy as np
    import rasterio

    random = np.random.default_rng(2)
    with rasterio.open(raster) as source:
        left, bottom, right, top = source.bounds
        crs = source.crs.to_wkt()
    x, y = random.uniform(left, right, rows), random.uniform(bottom, top, rows)
    frame = geopandas.GeoDataFrame({"number": np.arange(rows)}, geometry=geopandas.points_from_xy(x, y), crs=crs)
    return timed(lambda: frame.to_parquet(path))


def prepare(function: str, **arguments: Any) -> None:
    """Call ``function`` in a process of its own: a child's peak memory counts what its parent had."""
    measure([Contender(name="prepare", module="tables", function=function, arguments=arguments, rounds=1)])


def report(name: str, seconds: float, peak_mib: float, script: float | None = None, scale: float = 1) -> None:
    """One line: seconds, memory, and the ratio to the script scaled up."""
    ratio = "" if script is None else f"  {script * scale / seconds:7.0f}x the script ({script * scale:.1f} s)"
    print(f"{name:34} {seconds:8.2f} s  {peak_mib:6.0f} MiB{ratio}")


def tables(folder: Path, rows: int, script_rows: int, rounds: int) -> None:
    """Parquet to TFRecord and back."""
    place = str(folder)
    prepare("make_table", path=f"{place}/table.parquet", rows=rows)
    prepare("make_table", path=f"{place}/part.parquet", rows=script_rows)
    prepare("run_export", folder=place, workers=1)
    # Without its manifest.
    shutil.copy(folder / "geotfr.tfrecord.gz", folder / "rows.tfrecord.gz")

    def contender(name: str, function: str, **arguments: Any) -> Contender:
        arguments["folder"] = place
        return Contender(name=name, module="tables", function=function, arguments=arguments, rounds=rounds)

    found = measure(
        [
            contender("script export", "script_export", table="part.parquet", output="script.tfrecord.gz"),
            contender("export, 1 worker", "run_export", workers=1),
            contender("export, 2 workers", "run_export", workers=2),
            contender("script ingest", "script_ingest"),
            contender("ingest", "run_ingest"),
            contender("ingest, with manifest", "run_ingest_own"),
        ]
    )
    scale = rows / script_rows
    for name, measured in found.items():
        script = found["script ingest" if "ingest" in name else "script export"].seconds
        is_script = name.startswith("script")
        report(name, measured.seconds, measured.peak_mib, None if is_script else script, scale)


def sample(folder: Path, rows: int, script_rows: int, rounds: int, size: int, bands: int) -> None:
    """Random points of a tiled raster."""
    from _data import big_raster

    raster = str(big_raster(size=size, bands=bands))
    prepare("make_points", path=str(folder / "points.parquet"), raster=raster, rows=rows)
    arguments = {"raster": raster, "folder": str(folder)}
    found = measure(
        [
            Contender(name="sample", module="tables", function="run_sample", arguments=arguments, rounds=rounds),
            Contender(
                name="rasterio's sample",
                module="tables",
                function="script_sample",
                arguments={**arguments, "rows": script_rows},
                rounds=1,
            ),
        ]
    )
    script = found["rasterio's sample"]
    report("sample", found["sample"].seconds, found["sample"].peak_mib, script.seconds, rows / script_rows)
    report("rasterio's sample", script.seconds, script.peak_mib)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--script-rows", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=10_980, help="rows and columns of the raster")
    parser.add_argument("--bands", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["tables", "sample"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="geotfr-tables-") as folder:
        if given.only != "sample":
            tables(Path(folder), given.rows, given.script_rows, given.rounds)
        if given.only != "tables":
            sample(Path(folder), given.rows, given.script_rows, given.rounds, given.size, given.bands)


if __name__ == "__main__":
    sys.exit(main())

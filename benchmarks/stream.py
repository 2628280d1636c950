"""Shuffled batches: geotfr's streams against TensorFlow's best pipeline, every checksum on, in one run.

    python benchmarks/stream.py [--patches 256] [--records 1000000] [--rounds 3] [--only NAME]

Both read the files of ``benchmarks/read.py``, shuffle with one buffer size, and give batches of arrays. A reading is a
process of its own, so that its peak memory is its own; the files come from the page cache. Rounds take turns in which
side is first. A reading sums a thousandth of the values, so that both sides deliver and nobody's arithmetic is timed.
TensorFlow's pipeline is ``TFRecordDataset -> shuffle -> batch -> map(parse_example, AUTOTUNE) ->
prefetch(AUTOTUNE)``, with ``num_parallel_reads=AUTOTUNE`` over four files; geotfr's is ``stream -> shuffle -> batch ->
prefetch``. ``geotfr-dataset`` is PatchDataset read in random batches.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

import numpy as np
from _readings import CHILD, child, run
from read import BANDS, COLUMNS, FILES, PIXELS, STEP, files_of

CASES = {"tiny": (100_000, 4096), "patches": (64, 16)}
"""Records in the shuffle's buffer, and in a batch."""


def _sample_sum(values: np.ndarray) -> float:
    return float((values if values.shape[1] < STEP else values[:, ::STEP]).sum(dtype=np.float64))


def _options(paths: list[str]) -> tuple[bool, int, int]:
    name = Path(paths[0]).name.split("-")[1]
    return name == "patches", *CASES[name]


def by_geotfr(paths: list[str], *, workers: int = 1) -> float:
    """The sum of sampled values, by a stream."""
    import geotfr

    _, buffer, size = _options(paths)
    batches = geotfr.stream(paths).shuffle(buffer, seed=1).batch(size).prefetch(2, workers=workers)
    return sum(_sample_sum(values) for batch in batches for values in batch.values())


def by_geotfr_2(paths: list[str]) -> float:
    """The same with two threads that make batches."""
    return by_geotfr(paths, workers=2)


def by_dataset(paths: list[str]) -> float:
    """The same by random access."""
    import geotfr

    _, _, size = _options(paths)
    dataset = geotfr.PatchDataset(paths)
    order = np.random.default_rng(1).permutation(len(dataset))
    total = 0.0
    for start in range(0, len(order), size):
        total += sum(map(_sample_sum, dataset[order[start : start + size]].values()))
    return total


def by_tensorflow(paths: list[str]) -> float:
    """The same by TensorFlow's best pipeline."""
    import tensorflow as tf

    is_patch, buffer, size = _options(paths)
    keys, length = (BANDS, PIXELS) if is_patch else (COLUMNS, 1)
    specs = {key: tf.io.FixedLenFeature([length], tf.float32) for key in keys}
    dataset = tf.data.TFRecordDataset(paths, num_parallel_reads=tf.data.AUTOTUNE, buffer_size=8 << 20)
    dataset = dataset.shuffle(buffer, seed=1).batch(size)
    dataset = dataset.map(lambda records: tf.io.parse_example(records, specs), tf.data.AUTOTUNE)
    total = 0.0
    for batch in dataset.prefetch(tf.data.AUTOTUNE).as_numpy_iterator():
        total += sum(map(_sample_sum, batch.values()))
    return total


READERS = {
    "geotfr": by_geotfr,
    "geotfr-2": by_geotfr_2,
    "geotfr-dataset": by_dataset,
    "tensorflow": by_tensorflow,
}


def compare(name: str, count: int, rounds: int) -> None:
    """Print the medians of one case and their ratio."""
    paths = files_of(name, count)
    size = sum(Path(path).stat().st_size for path in paths)
    readers = list(READERS)
    results: dict[str, list[dict[str, float]]] = {reader: [] for reader in readers}
    for number in range(rounds):
        for reader in readers if number % 2 == 0 else reversed(readers):
            results[reader].append(run(__file__, reader, paths))
    seconds = {reader: statistics.median(r["seconds"] for r in got) for reader, got in results.items()}
    buffer, batch = CASES[name]
    print(f"{name}: {count} records, {size / 1e6:.0f} MB in {FILES} files, buffer {buffer}, batch {batch}")
    for reader in readers:
        peak = max(r["rss_mib"] for r in results[reader])
        cpu = statistics.median(r["cpu"] for r in results[reader])
        print(
            f"  {reader:14} {seconds[reader]:8.3f} s  {size / seconds[reader] / 1e9:6.2f} GB/s  CPU {cpu:7.3f} s"
            f"  peak {peak:5.0f} MiB  {seconds['tensorflow'] / seconds[reader]:6.2f}x as fast as TensorFlow"
        )
    sums = {reader: got[0]["total"] for reader, got in results.items()}
    if max(sums.values()) - min(sums.values()) > 1e-6 * abs(sums["geotfr"]):
        raise SystemExit(f"the readers disagree: {sums}")


def main() -> None:
    """Run the cases, or one reading where ``--child`` asks for it."""
    if sys.argv[1:2] == [CHILD]:
        child(READERS, sys.argv[2], sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patches", type=int, default=256)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=tuple(CASES))
    options = parser.parse_args()
    for name in CASES if options.only is None else (options.only,):
        compare(name, options.records if name == "tiny" else options.patches, options.rounds)


if __name__ == "__main__":
    main()

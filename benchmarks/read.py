"""Reading TFRecord files: geotfr against TensorFlow's best pipeline, every checksum on, in one run.

    python benchmarks/read.py [--patches 256] [--records 1000000] [--rounds 3] [--only NAME]

Each reading is a process of its own, so that its peak memory is its own; the files come from the page cache and
the readings of both sides take turns. A reading sums a thousandth of the values, so that both sides deliver and
nobody's arithmetic is timed. ``geotfr-copy`` copies each array out of the buffer, as a user who keeps it does.
TensorFlow's pipeline is ``TFRecordDataset -> batch -> map(parse_example, AUTOTUNE) -> prefetch(AUTOTUNE)``, with
``num_parallel_reads=AUTOTUNE`` over four files.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from _readings import CHILD, child, run

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(__file__).parent / "data"
BANDS = tuple(f"B{number}" for number in range(1, 7))
SIDE = 256
PIXELS = SIDE * SIDE
COLUMNS = tuple(f"x{number}" for number in range(8))
FILES = 4
STEP = 1021
SHARES = ("patches", "patches-gzip", "tiny", "mixed")


def files_of(name: str, count: int) -> list[str]:
    """The files of one case, ``count`` records over four files, made if they aren't there."""
    suffix = ".tfrecord.gz" if name.endswith("gzip") else ".tfrecord"
    paths = [str(DATA / f"read-{name}-{count}-{number}{suffix}") for number in range(FILES)]
    if not all(Path(path).exists() for path in paths):
        # In a process of its own: the memory of this one would count as its children's.
        subprocess.run([sys.executable, __file__, "--write", name, str(count), *paths], check=True)
    return paths


def write_files(name: str, count: int, paths: list[str]) -> None:
    """Write the files of one case."""
    from geotfr.records.gzip import codec
    from geotfr.records.kind import Kind
    from geotfr.records.layout import ExampleLayout, FeatureLayout

    DATA.mkdir(exist_ok=True)
    is_patch = name.startswith("patches")
    keys, length = (BANDS, PIXELS) if is_patch else (COLUMNS, 1)
    layout = ExampleLayout([FeatureLayout(name=key, kind=Kind.FLOAT, length=length) for key in keys])
    packer = codec("fast" if name.endswith("gzip") else "none")
    batches = _patches(count) if is_patch else _rows(count)
    rng = np.random.default_rng(7)
    for path in paths:
        stream = packer.stream()
        written = 0
        with Path(path).open("wb") as file:
            while written < count // FILES:
                values = next(batches)
                records = layout.allocate(len(values))
                for index in range(len(keys)):
                    layout.values(records, index)[:] = values[:, index]
                layout.seal(records)
                written += len(records)
                file.write(stream.add(packer.pack(_mixed(records, rng) if name == "mixed" else records)))
            file.write(stream.finish())


def _patches(count: int) -> Iterator[np.ndarray]:
    """(1, band, pixel) of each patch of the raster that the export is measured with."""
    import rasterio
    from _data import big_raster
    from rasterio.windows import Window

    side = math.isqrt(count - 1) + 1
    with rasterio.open(big_raster(size=side * SIDE)) as raster:
        for number in range(count):
            window = Window(number % side * SIDE, number // side * SIDE, SIDE, SIDE)
            yield raster.read(window=window).reshape(1, len(BANDS), PIXELS)


def _rows(count: int) -> Iterator[np.ndarray]:
    """(record, column, 1) of random numbers, 10,000 records at a time."""
    rng = np.random.default_rng(7)
    for _ in range(0, count, 10_000):
        yield rng.normal(2000, 40, (10_000, len(COLUMNS), 1))


def _mixed(records: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same Examples with an int64 label of one to three bytes each: no two lengths in a row are alike."""
    from geotfr.records.crc import masked_crc32c
    from geotfr.records.messages import example_class

    framed = []
    for record in records:
        example = example_class().FromString(record[12:-4].tobytes())
        example.features.feature["label"].int64_list.value.append(int(rng.choice([5, 300, 70_000])))
        payload = example.SerializeToString()
        head = len(payload).to_bytes(8, "little")
        framed += [head, masked_crc32c(head).to_bytes(4, "little"), payload]
        framed.append(masked_crc32c(payload).to_bytes(4, "little"))
    return np.frombuffer(b"".join(framed), np.uint8)


def _sample_sum(values: np.ndarray) -> float:
    return float((values if values.shape[1] < STEP else values[:, ::STEP]).sum(dtype=np.float64))


def read_geotfr(paths: list[str]) -> float:
    """The sum of sampled values, by geotfr."""
    from geotfr.records.reader import read_features

    total = 0.0
    for path in paths:
        for batch in read_features(path):
            total += sum(map(_sample_sum, batch.features.values()))
    return total


def read_geotfr_copy(paths: list[str]) -> float:
    """The sum of sampled values, by geotfr with every array copied."""
    from geotfr.records.reader import read_features

    total = 0.0
    for path in paths:
        for batch in read_features(path):
            total += sum(_sample_sum(values.copy()) for values in batch.features.values())
    return total


def read_tensorflow(paths: list[str]) -> float:
    """The sum of sampled values, by TensorFlow's best pipeline."""
    import tensorflow as tf

    name = Path(paths[0]).name.removeprefix("read-")
    keys, length = (BANDS, PIXELS) if name.startswith("patches") else (COLUMNS, 1)
    specs = {key: tf.io.FixedLenFeature([length], tf.float32) for key in keys}
    if name.startswith("mixed"):
        specs["label"] = tf.io.FixedLenFeature([1], tf.int64)
    options = {"num_parallel_reads": tf.data.AUTOTUNE, "buffer_size": 8 << 20}
    if name.endswith("gz"):
        options["compression_type"] = "GZIP"
    dataset = tf.data.TFRecordDataset(paths, **options).batch(16 if length > 1 else 4096)
    dataset = dataset.map(lambda records: tf.io.parse_example(records, specs), tf.data.AUTOTUNE)
    total = 0.0
    for batch in dataset.prefetch(tf.data.AUTOTUNE).as_numpy_iterator():
        total += sum(map(_sample_sum, batch.values()))
    return total


def read_protobuf(paths: list[str]) -> float:
    """The sum of sampled values, by protobuf's own decoding of each record."""
    from geotfr.records.messages import example_class
    from geotfr.records.reader import read_records

    parse = example_class().FromString
    total = 0.0
    for payload in read_records(paths):
        for feature in parse(payload).features.feature.values():
            total += sum(feature.float_list.value) + sum(feature.int64_list.value)
    return total


def verify(paths: list[str]) -> float:
    """The number of whole records, by ``geotfr verify``: framing, both checksums, decoding."""
    from geotfr.integrity.verify import verify as verify_files

    return float(verify_files(paths).records)


READERS = {
    "geotfr": read_geotfr,
    "geotfr-copy": read_geotfr_copy,
    "tensorflow": read_tensorflow,
    "protobuf": read_protobuf,
    "verify": verify,
}


def compare(name: str, count: int, rounds: int) -> None:
    """Print the medians of one case and their ratio."""
    paths = files_of(name, count)
    size = sum(Path(path).stat().st_size for path in paths)
    readers = ["geotfr", "geotfr-copy", "tensorflow"] + (["protobuf"] if name == "mixed" else []) + ["verify"]
    results: dict[str, list[dict[str, float]]] = {reader: [] for reader in readers}
    for _ in range(rounds):
        for reader in readers:
            results[reader].append(run(__file__, reader, paths))
    seconds = {reader: statistics.median(r["seconds"] for r in got) for reader, got in results.items()}
    print(f"{name}: {count} records, {size / 1e6:.0f} MB in {FILES} files")
    for reader in readers:
        peak = max(r["rss_mib"] for r in results[reader])
        cpu = statistics.median(r["cpu"] for r in results[reader])
        ratio = seconds[reader] / seconds["geotfr"]
        print(
            f"  {reader:11} {seconds[reader]:8.3f} s  {size / seconds[reader] / 1e9:6.2f} GB/s"
            f"  CPU {cpu:7.3f} s  peak {peak:5.0f} MiB  geotfr is {ratio:5.2f}x as fast"
        )
    sums = {reader: results[reader][0]["total"] for reader in readers if reader != "verify"}
    if max(sums.values()) - min(sums.values()) > 1e-9 * abs(sums["geotfr"]):
        raise SystemExit(f"the readers disagree: {sums}")


def main() -> None:
    """Run the cases, or one reading where ``--child`` asks for it."""
    if sys.argv[1:2] == [CHILD]:
        child(READERS, sys.argv[2], sys.argv[3:])
        return
    if sys.argv[1:2] == ["--write"]:
        write_files(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patches", type=int, default=256)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=SHARES)
    options = parser.parse_args()
    for name in SHARES if options.only is None else (options.only,):
        mixed = min(options.records, 100_000)
        counts = {"tiny": options.records, "mixed": mixed}
        compare(name, counts.get(name, options.patches), options.rounds)


if __name__ == "__main__":
    main()

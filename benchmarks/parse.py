"""Parsing Examples in memory: geotfr.parse_example against tf.io.parse_example, in one run.

    python benchmarks/parse.py [--rounds 5] [--only NAME]

Each case is one batch of serialized Examples; both sides parse it to arrays in turns, and the medians and their ratio
are printed. ``protobuf`` is what a script without either does: ``FromString`` and ``np.array`` of each list. The
results are compared before anything is timed. TensorFlow gets its batch as a string tensor, as in a pipeline, and may
use all cores.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from geotfr.records.encode import encode_example, encode_sequence_example
from geotfr.records.messages import example_class, sequence_example_class
from geotfr.records.parse.example import parse_example
from geotfr.records.parse.sequence import parse_sequence_example
from geotfr.records.parse.specs import FixedLenFeature, FixedLenSequenceFeature, VarLenFeature

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

RNG = np.random.default_rng(7)


@dataclass(frozen=True)
class Case:
    """One batch and how each side parses it; the values of all sides are compared by their sum."""

    records: list[bytes]
    geotfr: Callable[[list[bytes]], dict[str, Any]]
    tensorflow: Callable[[Any, Any], dict[str, Any]]
    protobuf: Callable[[list[bytes]], dict[str, Any]]


def features_case(records: list[bytes], shapes: dict[str, tuple[str, list[int] | None]]) -> Case:
    """Examples with fixed-length features, or ones of variable length where the shape is None."""
    ours = {
        key: VarLenFeature(dtype) if shape is None else FixedLenFeature(shape, dtype)
        for key, (dtype, shape) in shapes.items()
    }

    def by_tensorflow(tf: Any, batch: Any) -> dict[str, Any]:
        theirs = {
            key: tf.io.VarLenFeature(dtype) if shape is None else tf.io.FixedLenFeature(shape, dtype)
            for key, (dtype, shape) in shapes.items()
        }
        return tf.io.parse_example(batch, theirs)

    def by_protobuf(batch: list[bytes]) -> dict[str, Any]:
        make = example_class()
        found: dict[str, list[Any]] = {key: [] for key in shapes}
        for record in batch:
            features = make.FromString(record).features.feature
            for key, (dtype, _) in shapes.items():
                values = getattr(features[key], {"float32": "float_list", "int64": "int64_list"}[dtype]).value
                found[key].append(np.array(values, dtype))
        return {key: np.concatenate(values) for key, values in found.items()}

    return Case(records, lambda batch: parse_example(batch, ours), by_tensorflow, by_protobuf)


def patches() -> Case:
    """32 patches of 6 bands, 256 x 256 float32."""
    bands = [f"B{number}" for number in range(1, 7)]
    records = [encode_example({band: RNG.random((256, 256), np.float32) for band in bands}) for _ in range(32)]
    return features_case(records, dict.fromkeys(bands, ("float32", [256, 256])))


def patches_of_two_layouts() -> Case:
    """The same, with the bands of every other record in another order."""
    bands = [f"B{number}" for number in range(1, 7)]
    records = [
        encode_example({band: RNG.random((256, 256), np.float32) for band in bands[:: 1 if number % 2 else -1]})
        for number in range(32)
    ]
    return features_case(records, dict.fromkeys(bands, ("float32", [256, 256])))


def classes() -> Case:
    """32 patches of one int64 band, 256 x 256, two bytes a value."""
    records = [encode_example({"class": RNG.integers(200, 9000, (256, 256))}) for _ in range(32)]
    return features_case(records, {"class": ("int64", [256, 256])})


def tiny() -> Case:
    """100,000 records of 8 floats."""
    columns = [f"x{number}" for number in range(8)]
    records = [encode_example(dict(zip(columns, RNG.random(8).tolist(), strict=True))) for _ in range(100_000)]
    return features_case(records, dict.fromkeys(columns, ("float32", [1])))


def tiny_mixed() -> Case:
    """20,000 records of 8 floats and an int64 of one to three bytes: no fixed layout."""
    columns = [f"x{number}" for number in range(8)]
    labels = RNG.choice([5, 300, 70_000], 20_000).tolist()
    records = [
        encode_example({**dict(zip(columns, RNG.random(8).tolist(), strict=True)), "label": label}) for label in labels
    ]
    return features_case(records, dict.fromkeys(columns, ("float32", [1])) | {"label": ("int64", [1])})


def variable() -> Case:
    """20,000 records of 0 to 40 floats."""
    records = [encode_example({"x": RNG.random(RNG.integers(0, 41), np.float32)}) for _ in range(20_000)]
    return features_case(records, {"x": ("float32", None)})


def sequences() -> Case:
    """20,000 pixels: 5 scalars in the context, 12 steps of one float."""
    scalars = [f"s{number}" for number in range(5)]
    records = [
        encode_sequence_example(dict(zip(scalars, RNG.random(5).tolist(), strict=True)), {"ndvi": RNG.random(12)})
        for _ in range(20_000)
    ]
    context = {key: FixedLenFeature([], np.float32) for key in scalars}
    lists = {"ndvi": FixedLenSequenceFeature([], np.float32)}

    def by_geotfr(batch: list[bytes]) -> dict[str, Any]:
        found, steps, _ = parse_sequence_example(batch, context, lists)
        return found | steps

    def by_tensorflow(tf: Any, batch: Any) -> dict[str, Any]:
        found, steps, _ = tf.io.parse_sequence_example(
            batch,
            {key: tf.io.FixedLenFeature([], tf.float32) for key in scalars},
            {"ndvi": tf.io.FixedLenSequenceFeature([], tf.float32)},
        )
        return found | steps

    def by_protobuf(batch: list[bytes]) -> dict[str, Any]:
        make = sequence_example_class()
        found: dict[str, list[Any]] = {key: [] for key in [*scalars, "ndvi"]}
        for record in batch:
            message: Any = make.FromString(record)
            for key in scalars:
                found[key] += message.context.feature[key].float_list.value
            found["ndvi"] += [step.float_list.value[0] for step in message.feature_lists.feature_list["ndvi"].feature]
        return {key: np.array(values, np.float32) for key, values in found.items()}

    return Case(records, by_geotfr, by_tensorflow, by_protobuf)


CASES: dict[str, Callable[[], Case]] = {
    "patches": patches,
    "patches-two-layouts": patches_of_two_layouts,
    "classes": classes,
    "tiny": tiny,
    "tiny-mixed": tiny_mixed,
    "variable": variable,
    "sequences": sequences,
}


def total(values: dict[str, Any]) -> float:
    """The sum of all values, for comparing the sides."""
    arrays = (getattr(value, "values", value) for value in values.values() if not callable(value))
    return float(sum(np.asarray(array, np.float64).sum() for array in arrays))


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(name: str, rounds: int) -> None:
    import tensorflow as tf

    case = CASES[name]()
    batch = tf.constant(case.records)
    graph = tf.function(lambda records: case.tensorflow(tf, records))
    sides: dict[str, Callable[[], Any]] = {
        "geotfr": lambda: case.geotfr(case.records),
        "tensorflow": lambda: graph(batch),
        "protobuf": lambda: case.protobuf(case.records),
    }
    sums = {side: total(call()) for side, call in sides.items()}
    if not np.allclose(list(sums.values()), sums["geotfr"], rtol=1e-9):
        raise SystemExit(f"{name}: the sides read different values: {sums}")
    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, call in sides.items():
            times[side].append(seconds(call))
    median = {side: statistics.median(each) for side, each in times.items()}
    size = sum(len(record) for record in case.records)
    print(
        f"{name:20} {len(case.records):7} records {size / 1e6:7.1f} MB"
        + "".join(f"  {side} {value * 1e3:8.1f} ms" for side, value in median.items())
        + f"  {median['tensorflow'] / median['geotfr']:6.2f}x TensorFlow"
        + f"  {median['protobuf'] / median['geotfr']:6.1f}x protobuf"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds per case (default 5)")
    parser.add_argument("--only", choices=CASES, help="one case alone")
    arguments = parser.parse_args()
    if arguments.only:
        measure(arguments.only, arguments.rounds)
        return
    for name in CASES:
        # A process each: no case finds the memory that another one left warm.
        command = [sys.executable, __file__, "--only", name, "--rounds", str(arguments.rounds)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()

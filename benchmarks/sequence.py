"""Records of pixels: geotfr against what people write with TensorFlow, in one run.

    python benchmarks/sequence.py [--size 1024] [--script-pixels 20000] [--rounds 3]

``example``: an Example of 8 floats a pixel. ``sequence``: a SequenceExample a pixel, 5 context values and a list of 12
steps. *In memory*: encoding alone, framing and checksums included. *To file*: from a GeoTIFF to an uncompressed shard.
The script makes a ``tf.train`` message for each pixel and serializes it (in memory) or writes it with
``tf.io.TFRecordWriter`` (to file); it runs on fewer pixels, and its time is scaled.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import numpy as np
from _measure import Contender, measure
from export import timed

SCALARS = {"example": 8, "sequence": 5}
STEPS = 12


def run_script(*, raster: str, folder: str, case: str, pixels: int, to_file: bool) -> float:
    """Seconds of the script for ``pixels`` pixels."""
    import rasterio
    import tensorflow as tf

    with rasterio.open(raster) as source:
        rows = source.read(window=((0, -(-pixels // source.width)), (0, source.width)))
    values = rows.reshape(len(rows), -1)[:, :pixels].T.astype(np.float32)
    scalars = SCALARS[case]

    def message(pixel: np.ndarray) -> bytes:
        context = tf.train.Features(
            feature={
                f"b{number}": tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
                for number, value in enumerate(pixel[:scalars])
            }
        )
        if case == "example":
            return tf.train.Example(features=context).SerializeToString()
        steps = tf.train.FeatureList(
            feature=[
                tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
                for value in pixel[scalars : scalars + STEPS]
            ]
        )
        lists = tf.train.FeatureLists(feature_list={"evi": steps})
        return tf.train.SequenceExample(context=context, feature_lists=lists).SerializeToString()

    def work() -> None:
        if not to_file:
            for pixel in values:
                message(pixel)
            return
        with tf.io.TFRecordWriter(f"{folder}/script.tfrecord") as writer:
            for pixel in values:
                writer.write(message(pixel))

    return timed(work)


def run_memory(*, raster: str, case: str) -> float:
    """Seconds of encoding all pixels of the raster, framing and checksums included; reading isn't counted."""
    import rasterio

    from geotfr.records.kind import Kind
    from geotfr.records.layout import ExampleLayout, FeatureLayout, RecordLayout, SequenceLayout

    with rasterio.open(raster) as source:
        planes = source.read()
    scalars = SCALARS[case]
    features = [FeatureLayout(name=f"b{number}", kind=Kind.FLOAT, length=1) for number in range(scalars)]
    layout: RecordLayout
    if case == "example":
        layout, count = ExampleLayout(features), scalars
    else:
        step = FeatureLayout(name="evi", kind=Kind.FLOAT, length=1)
        layout, count = SequenceLayout(features, [[step] * STEPS]), scalars + STEPS
    pixels = planes.reshape(len(planes), -1)
    chunk = 2**20 // layout.record_bytes
    records = layout.allocate(chunk)

    def work() -> None:
        for start in range(0, pixels.shape[1], chunk):
            part = records[: min(chunk, pixels.shape[1] - start)]
            for number in range(count):
                layout.values(part, number)[:, 0] = pixels[number, start : start + len(part)]
            layout.seal(part)

    return timed(work)


def run_geotfr(*, raster: str, folder: str, case: str, workers: int) -> float:
    """Seconds of ``geotfr.export_image`` to an uncompressed set, reading the raster included.

    The raster comes from the page cache. There is no older set: it would be compared with the new one.
    """
    import geotfr
    import geotfr.rasters.source

    export_image = geotfr.export_image
    Path(raster).read_bytes()
    for file in Path(folder).glob("set*"):
        file.unlink()
    scalars = SCALARS[case]
    options = {"patch_dimensions": 1, "bands": ",".join(map(str, range(1, scalars + 1)))}
    if case == "sequence":
        options = {
            "patch_dimensions": 256,
            "bands": options["bands"],
            "array_bands": [f"evi={scalars + 1}-{scalars + STEPS}"],
            "tensor_depths": {"evi": STEPS},
            "sequence_data": True,
        }
    return timed(
        lambda: export_image(raster, f"{folder}/set", compressed=False, overwrite=True, workers=workers, **options)
    )


def main() -> None:
    """Read the command line and run both cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--script-pixels", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    from _data import big_raster

    raster = big_raster(size=options.size, bands=SCALARS["sequence"] + STEPS)
    folder = Path(tempfile.mkdtemp(prefix="geotfr-bench-"))
    scale = options.size**2 / options.script_pixels
    try:
        for case in SCALARS:
            place = {"raster": str(raster), "case": case}
            script = {**place, "folder": str(folder), "pixels": options.script_pixels}

            def contender(name: str, function: str, **arguments: object) -> Contender:
                return Contender(
                    name=name, module="sequence", function=function, arguments=arguments, rounds=options.rounds
                )

            found = measure(
                [
                    contender("script, memory", "run_script", to_file=False, **script),
                    contender("geotfr, memory", "run_memory", **place),
                    contender("script, file", "run_script", to_file=True, **script),
                    contender("geotfr, file, 1 worker", "run_geotfr", folder=str(folder), workers=1, **place),
                    contender("geotfr, file, 2 workers", "run_geotfr", folder=str(folder), workers=2, **place),
                ]
            )
            print(f"{case}, {options.size**2:,} pixels")
            for name, measured in found.items():
                is_script = name.startswith("script")
                seconds = measured.seconds * (scale if is_script else 1)
                rival = found["script, memory" if "memory" in name else "script, file"].seconds * scale
                note = " (scaled)" if is_script else ""
                print(f"  {name:24} {seconds:8.2f} s{note} {rival / seconds:7.0f}x {measured.peak_mib:7.0f} MiB peak")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

"""The law of telling: what goes in is what comes out plus what the report counts.

Generated exports, ingests and tables are read back with nothing of geotfr, and every pixel, value, patch, record or row
that isn't there as it was must be in a count of the report. The counts are compared, not the words of the warnings.
"""

from __future__ import annotations

import gzip
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import wire
from oracle.patches import written
from oracle.rasters import read_raster, write_raster

import geotfr

LAW = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
QUICK, WHOLE = 40, 2000
EXAMPLES = [QUICK, pytest.param(WHOLE, marks=pytest.mark.slow)]

POOL: dict[str, list[float]] = {
    "uint8": [0, 1, 255],
    "int16": [-9999, -1, 0, 7],
    "uint16": [0, 7, 65535],
    "int32": [-9999, 0, 2**24 + 1, -(2**31)],
    "uint32": [0, 2**24 + 3, 2**32 - 1],
    "float32": [0, -9999, 1.5, math.nan, math.inf],
    "float64": [0, -9999, 0.1, math.nan, -math.inf, 1e300, 2**53 + 2.0],
}


@st.composite
def rasters(draw: st.DrawFn) -> tuple[np.ndarray, float | None]:
    """Bands ``(band, row, col)`` and the nodata value, or None."""
    dtype = draw(st.sampled_from(sorted(POOL)))
    shape = draw(st.integers(1, 3)), draw(st.integers(4, 20)), draw(st.integers(4, 20))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pool = np.array(POOL[dtype]).astype(dtype)
    return random.choice(np.concatenate([pool, np.arange(10).astype(dtype)]), shape), draw(
        st.sampled_from([None, 0.0, 7.0])
    )


def valid_samples(data: np.ndarray, nodata: float | None) -> np.ndarray:
    """``(band, row, col) bool``: neither nodata nor NaN; True = valid."""
    valid = np.ones(data.shape, np.bool_) if nodata is None else data != nodata
    return valid & ~np.isnan(data) if data.dtype.kind == "f" else valid


def export_law(
    raster: tuple[np.ndarray, float | None],
    patch: tuple[int, int],
    kernel: int,
    options: dict[str, Any],
    keep: list[int] | None,
) -> None:
    data, nodata = raster
    (_, height, width), (patch_width, patch_height) = data.shape, patch
    own = valid_samples(data, nodata)
    valid = np.broadcast_to(own.all(axis=0), own.shape) if options["mask_mode"] == "pixel" else own
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source = write_raster(folder / "in.tif", data, nodata=nodata)
        if keep is not None:
            (folder / "keep.txt").write_text("".join(f"{number}\n" for number in keep))
            options = {**options, "keep": folder / "keep.txt"}
        result = geotfr.export_image(source, folder / "out", patch_dimensions=patch, kernel_size=kernel, **options)
        patches = written(folder)
    told = result.to_dict()
    layout = result.plan.layout
    grid_rows, grid_columns = layout.rows * patch_height, layout.columns * patch_width
    # Pixels: in patches, or beyond the last whole ones.
    left_out = told["left_out"]["columns"], told["left_out"]["rows"]
    assert left_out == (max(width - grid_columns, 0), max(height - grid_rows, 0))
    # Patches: written, or counted as dropped.
    assert len(patches) == told["patches_written"]
    assert told["patches_written"] + told["patches_dropped_masked"] == layout.rows * layout.columns
    rounded = infinite = overwritten = masked = inside = 0
    margin = kernel // 2
    for number, features in patches.items():
        row, column = divmod(number, layout.columns)
        top, left = row * patch_height, column * patch_width
        part = np.s_[:, top : top + patch_height, left : left + patch_width]
        pixels, good = data[part], valid[part]
        blocks = np.stack(list(features.values()))
        found = blocks[:, margin : margin + patch_height, margin : margin + patch_width]
        found = found[:, : pixels.shape[1], : pixels.shape[2]]
        changed = good & (found.astype("f8") != pixels.astype("f8"))
        if data.dtype.kind == "f":
            # Narrowing float64 to float32 is Earth Engine's contract; a value that becomes infinite is a loss.
            infinite += int(np.count_nonzero(changed & np.isinf(found)))
            with np.errstate(over="ignore"):
                changed &= found != pixels.astype("f4")
        rounded += int(np.count_nonzero(changed & np.isfinite(found)))
        overwritten += int(np.count_nonzero(own[part] & ~good))
        masked += int(np.count_nonzero(~own[part].all(axis=0)))
        inside += pixels[0].size
    if len(patches) == layout.rows * layout.columns:
        outside = len(patches) * patch_width * patch_height - inside
        assert told["masked_share"] == pytest.approx((masked + outside) / (inside + outside), abs=1e-6)
    assert told["values_overwritten"] == overwritten
    assert (told["values_rounded"], told["values_infinite"]) == (rounded, infinite)
    if told["values_rounded"] + told["values_infinite"] + told["values_overwritten"]:
        assert told["warnings"]


exports = given(
    raster=rasters(),
    patch=st.tuples(st.integers(2, 4), st.integers(2, 4)),
    kernel=st.sampled_from([1, 2, 5]),
    options=st.fixed_dictionaries(
        {
            "mask_mode": st.sampled_from(["pixel", "band"]),
            "edge": st.just("pad"),
            "feature_kinds": st.sampled_from(["float", "native"]),
            "default_value": st.sampled_from([0, 3]),
            "masked_threshold": st.sampled_from([1, 1, 0.5, 0.2]),
            "compressed": st.booleans(),
        }
    )
    | st.fixed_dictionaries({"mask_mode": st.just("pixel"), "edge": st.just("drop")}),
    keep=st.none() | st.just([0]),
)


@pytest.mark.parametrize("examples", EXAMPLES)
def test_an_export_counts_every_pixel_patch_and_value_that_is_not_written_as_it_was(examples: int) -> None:
    settings(max_examples=examples, **LAW)(exports(export_law))()


def ingest_law(
    counts: tuple[int, int], seed: int, damaged: set[int], policy: str, scaled: tuple[float, float, str] | None
) -> None:
    per_row, rows = counts
    side, total = 4, per_row * rows
    values = np.random.default_rng(seed).integers(-300, 300, (total, side * side)).astype("float32")
    damaged = set(sorted({number % total for number in damaged})[: total - 1])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        frames = [wire.frame(wire.example([("b1", wire.float_feature(patch))])) for patch in values]
        for number in damaged:
            frame = bytearray(frames[number])
            frame[40] ^= 1
            frames[number] = bytes(frame)
        (folder / "p.tfrecord").write_bytes(b"".join(frames))
        mixer = folder / "scene-mixer.json"
        place = (10.0, 0.0, 500000.0, 0.0, -10.0, 4000000.0)
        mixer.write_text(wire.mixer_text("EPSG:32618", place, (side, side), per_row, total))
        options: dict[str, Any] = {}
        if scaled is not None:
            options = {"scale": scaled[0], "offset": scaled[1], "dtype": scaled[2]}
        result = geotfr.ingest_predictions(
            mixer,
            folder / "p.tfrecord",
            folder / "map.tif",
            on_bad_record=policy,
            nodata=-5 if not scaled else None,
            **options,
        )
        pixels, _, _ = read_raster(folder / "map.tif")
    told = result.to_dict()
    assert told["patches"] + told["patches_lost"] == total
    assert told["patches_lost"] == len(damaged)
    clamped = 0
    for number, patch in enumerate(values.reshape(total, side, side).astype("f8")):
        row, column = divmod(number, per_row)
        found = pixels[0, row * side : (row + 1) * side, column * side : (column + 1) * side]
        if number in damaged:
            continue
        if scaled is None:
            np.testing.assert_array_equal(found, patch)
            continue
        limits = np.iinfo(scaled[2])
        stored = np.rint((patch - scaled[1]) / scaled[0])
        clamped += int(np.count_nonzero((stored < limits.min) | (stored > limits.max)))
        np.testing.assert_array_equal(found, np.clip(stored, limits.min, limits.max))
    assert told["values_clamped"] == clamped
    assert bool(told["warnings"]) or not (damaged or clamped)


ingests = given(
    counts=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    seed=st.integers(0, 2**32 - 1),
    damaged=st.sets(st.integers(0, 15), max_size=2),
    policy=st.sampled_from(["skip", "repair"]),
    scaled=st.none()
    | st.tuples(st.sampled_from([0.5, 1, 2.5]), st.sampled_from([-100, 0, 7]), st.sampled_from(["uint8", "int16"])),
)


@pytest.mark.parametrize("examples", EXAMPLES)
def test_an_ingest_counts_every_patch_and_value_that_is_not_in_the_raster(examples: int) -> None:
    settings(max_examples=examples, **LAW)(ingests(ingest_law))()


CELLS = {
    "number": st.none() | st.integers(-(2**31), 2**31),
    "share": st.none() | st.floats(width=32, allow_nan=False),
    "text": st.none() | st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=5),
}


def table_law(rows: list[dict[str, Any]], kinds: str, damaged: int | None) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"number": pa.int64(), "share": pa.float64(), "text": pa.string()}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()}
        pq.write_table(pa.table(columns), folder / "in.parquet")
        exported = geotfr.export_table(folder / "in.parquet", folder / "t", feature_kinds=kinds).to_dict()
        records = folder / "t.tfrecord.gz"
        payloads = wire.unframe(gzip.decompress(records.read_bytes()))
        if damaged is not None:
            frames = [bytearray(wire.frame(payload)) for payload in payloads]
            frames[damaged % len(frames)][-1] ^= 1
            records = folder / "damaged.tfrecord"
            records.write_bytes(b"".join(frames))
        ingested = geotfr.ingest_table(records, folder / "out.parquet", on_bad_record="skip").to_dict()
        back = pq.read_table(folder / "out.parquet")
    assert exported["rows"] == len(payloads) == len(rows)
    assert exported["absent"] == {
        name: missing for name in types if (missing := sum(row[name] is None for row in rows))
    }
    decoded = [wire.decode_example(payload) for payload in payloads]
    for row, features in zip(rows, decoded, strict=True):
        assert {name for name in types if row[name] is not None} == set(features)
    assert ingested["rows"] + ingested["records_lost"] == len(rows)
    if damaged is not None:
        # Without a manifest, records without a single feature make no column, so no row.
        whole = [row for number, row in enumerate(rows) if number != damaged % len(rows)]
        has_values = any(value is not None for row in whole for value in row.values())
        assert ingested["records_lost"] == (1 if has_values else len(rows))
    assert back.num_rows == ingested["rows"]
    if damaged is None:
        for name in set(types) & set(back.column_names):
            got = back.column(name).to_pylist()
            wanted = [row[name] for row in rows]
            if name == "number" and kinds == "float":
                wanted = [None if value is None else int(np.float32(value)) for value in wanted]
            assert got == wanted
        # A column without a single value is in no record.
        assert {name for name in types if name not in back.column_names} <= {
            name for name, missing in exported["absent"].items() if missing == len(rows)
        }


tables = given(
    rows=st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=12),
    kinds=st.sampled_from(["float", "native"]),
    damaged=st.none() | st.integers(0, 100),
)


@pytest.mark.parametrize("examples", EXAMPLES)
def test_a_table_counts_every_row_and_value_that_does_not_come_back(examples: int) -> None:
    settings(max_examples=examples, **LAW)(tables(table_law))()

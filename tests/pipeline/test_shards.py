"""Which record goes into which shard depends on sizes alone, and into which chunk on its patch's place alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from geotfr.pipeline.export.chunks import CHUNK_BYTES, ChunkRule, Slots
from geotfr.pipeline.export.encode import Encoded
from geotfr.pipeline.export.fill import EncodeCounts
from geotfr.pipeline.export.shards import ShardCutter, ShardWriter
from geotfr.records.gzip import codec
from geotfr.storage import OutputSet


def cut_naively(sizes: list[int], limit: int) -> list[list[int]]:
    """Shards as lists of record sizes: a record is appended until the next one would pass the limit."""
    shards: list[list[int]] = []
    for size in sizes:
        if not shards or sum(shards[-1]) + size > limit:
            shards.append([])
        shards[-1].append(size)
    return shards


def run(folder: Path, sizes: list[int], units: list[int], limit: int, compressor: str) -> list[tuple[int, bytes]]:
    """(records, bytes) of each shard when the records come in units of so many."""
    stream = np.random.default_rng(1).integers(0, 4, sum(sizes), np.uint8)
    released = []
    outputs = OutputSet(folder, name="set", belongs=lambda _: False, overwrite=True)
    with outputs, ThreadPoolExecutor(2) as pool:
        writer = ShardWriter(outputs, codec(compressor))
        cutter = ShardCutter(
            writer,
            rule=ChunkRule(group_slots=5, chunk_slots=2),
            max_shard_bytes=limit,
            executor=pool,
            window=3,
            release=released.append,
            report=lambda _patches, _size: None,
        )
        start = made = taken = 0
        while start < len(sizes):
            part = sizes[start : start + units[made % len(units)]]
            start, made = start + len(part), made + 1
            data, taken = stream[taken : taken + sum(part)], taken + sum(part)
            slots = Slots(numbers=np.arange(start - len(part), start))
            cutter.add(Encoded(data, np.cumsum(part, dtype=np.int64), len(part), EncodeCounts()), slots)
        cutter.finish()
        assert len(released) == made, "every unit's memory is given back once"
        names = [(f"s{number}", shard.file) for number, shard in enumerate(writer.shards)]
        outputs.publish(names, incomplete_without=())
        return [
            (shard.records, (folder / name).read_bytes()) for (name, _), shard in zip(names, writer.shards, strict=True)
        ]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=60),
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.integers(1, 150),
)
def test_shards_take_records_until_the_next_would_pass_the_limit(
    tmp_path_factory: object, sizes: list[int], units: list[int], limit: int
) -> None:
    folder = tmp_path_factory.mktemp("cut")  # type: ignore[attr-defined]
    shards = run(folder, sizes, units, limit, "none")
    assert [(records, len(data)) for records, data in shards] == [
        (len(shard), sum(shard)) for shard in cut_naively(sizes, limit)
    ]


def test_the_compressed_bytes_do_not_depend_on_how_the_records_come(tmp_path: Path) -> None:
    sizes = [CHUNK_BYTES // 3 + 7 * n for n in range(10)] + [5] * 200 + [2 * CHUNK_BYTES, 9]
    results = []
    for number, units in enumerate(([1], [2, 5], [300])):
        folder = tmp_path / str(number)
        folder.mkdir()
        results.append(run(folder, sizes, units, 3 * CHUNK_BYTES, "fast"))
    assert results[0] == results[1] == results[2]


@given(st.integers(1, 40), st.integers(1, 30), st.integers(1, 3 * CHUNK_BYTES), st.integers(0, 5000))
def test_a_chunk_is_whole_rows_or_patches_of_a_row_or_records_of_a_patch(
    columns: int, records: int, size: int, slot: int
) -> None:
    rule = ChunkRule.for_records(columns=columns, records_per_patch=records, record_bytes=size)
    stop = rule.stop_after(slot)
    start = next(first for first in range(slot, -1, -1) if first == 0 or rule.stop_after(first - 1) <= slot)
    assert start <= slot < stop == rule.stop_after(start)
    assert (stop - start) * size <= CHUNK_BYTES or stop - start == 1
    row = columns * records
    if stop - start > row:
        assert start % row == stop % row == 0
    elif stop - start > records:
        assert start % records == stop % records == 0
    assert (stop - 1) // row == start // row or start % row == 0
    assert (stop - 1) // records == start // records or start % records == 0

"""Which patches each part of an export holds: arithmetic on the plan, the same on every machine.

A part is a run of patches that begins and ends where a chunk does. Where shards are known beforehand, a part is whole
shards, so that nothing is left to do with them but to name them; unless there are too few of them to share out evenly.
Otherwise it is whole rows of storage blocks, whole patch rows, or chunks: the largest of these that shares out evenly.
Neither workers nor memory enter.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geotfr.errors import UsageError

if TYPE_CHECKING:
    from geotfr.pipeline.export.plan import ExportPlan

__all__ = ["MOST_PARTS", "SHARDS_A_PART", "Part", "parse_split", "part_of"]

MOST_PARTS = 100_000
_SPLIT = re.compile(r"(\d{1,9})/(\d{1,9})")
# With so many units for each part, the largest part has an eighth more than the mean.
_EVEN_UNITS = 8
SHARDS_A_PART = 4
"""From so many shards a part on, the largest part has a quarter more than the mean; copying would cost more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One of the parts of an export.

    Attributes
    ----------
    number, total
        Which part, from 0, of how many.
    patches
        Numbers of its patches; empty where there are fewer units of work than parts.
    begun_bytes
        Bytes before compression that its first shard has from the parts before; 0 where that isn't known.
    knows_shards
        Whether it is known where shards begin and end.
    has_whole_shards
        Whether the part's shards are whole, so that they can be compressed as one stream.
    """

    number: int
    total: int
    patches: range
    begun_bytes: int
    knows_shards: bool
    has_whole_shards: bool


def parse_split(split: str | tuple[int, int]) -> tuple[int, int]:
    """(number, total) of a part given as ``"3/16"`` or ``(3, 16)``.

    >>> parse_split("3/16")
    (3, 16)

    Raises
    ------
    UsageError
        It is no such thing, or the number isn't below the total.
    """
    found = _SPLIT.fullmatch(split.strip()) if isinstance(split, str) else None
    number, total = (int(found[1]), int(found[2])) if found else (-1, -1)
    if isinstance(split, tuple) and len(split) == 2 and all(type(each) is int for each in split):
        number, total = split
    if not 0 <= number < total <= MOST_PARTS:
        raise UsageError(
            f"split: found {split!r}; allowed is PART/PARTS, as 0/16 to 15/16, of at most {MOST_PARTS:,} parts"
        )
    return number, total


def part_of(plan: ExportPlan, number: int, total: int, *, block_rows: int, keeps_all: bool, streams: bool) -> Part:
    """Part ``number`` of ``total`` of ``plan``.

    Parameters
    ----------
    block_rows
        Pixel rows of the source's storage blocks.
    keeps_all
        Whether no patch is dropped, whatever its pixels.
    streams
        Whether a shard is compressed as one stream, which can't be put together from pieces.
    """
    # One length for all records and no patch dropped: a shard's place follows from its number.
    knows_shards = plan.is_even and keeps_all
    has_whole_shards = (
        knows_shards and plan.records == plan.layout.count and (streams or plan.shard_count >= SHARDS_A_PART * total)
    )
    group, unit = (plan.records_per_shard,) * 2 if has_whole_shards else _units(plan, total, block_rows)
    each_group = math.ceil(group / unit)
    units = math.ceil(plan.layout.count / group) * each_group

    def first(part: int) -> int:
        groups, rest = divmod(units * part // total, each_group)
        return min(groups * group + rest * unit, plan.layout.count)

    per_patch = plan.records // plan.layout.count
    begun = first(number) * per_patch % plan.records_per_shard if knows_shards else 0
    return Part(
        number=number,
        total=total,
        patches=range(first(number), first(number + 1)),
        begun_bytes=begun * plan.record_bytes,
        knows_shards=knows_shards,
        has_whole_shards=has_whole_shards,
    )


def _units(plan: ExportPlan, total: int, block_rows: int) -> tuple[int, int]:
    """(patches of a group, patches of a unit): parts begin where a unit does, counted from the group's start."""
    layout = plan.layout
    slots = plan.records // layout.count
    row = layout.columns
    rows_of_chunk = max(plan.rule.group_slots // (row * slots), 1)
    rows_of_blocks = math.ceil(block_rows / layout.patch_yx[0])
    for rows in (math.lcm(rows_of_chunk, rows_of_blocks), rows_of_chunk):
        if layout.rows >= rows * total * _EVEN_UNITS:
            return rows * row, rows * row
    if rows_of_chunk > 1:
        return rows_of_chunk * row, rows_of_chunk * row
    return row, min(max(plan.rule.chunk_slots // slots, 1), row)

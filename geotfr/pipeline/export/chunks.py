"""Which records are packed together: decided by where their patches lie, not by what came before them.

A *slot* is the place of a record among all records that a grid can have: its patch's number times the records of a
patch, plus its own place among these. A chunk holds whole patch rows where several fit into about 1 MiB, else some
patches of one row, else some records of one patch. So a part of the grid that begins where a chunk does is packed as
the whole grid would be, even where values decide how long records are or which patches are dropped. The end of a shard
ends a chunk too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CHUNK_BYTES", "ChunkRule", "Slots"]

CHUNK_BYTES = 2**20
"""What a chunk holds if its records are as long as foreseen; one longer record goes alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRule:
    """Where chunks end.

    Attributes
    ----------
    group_slots
        Slots of a patch row, a patch, or some rows: no chunk passes a multiple of it.
    chunk_slots
        Slots of a chunk, counted from the start of its group; a group's last chunk may have fewer.
    """

    group_slots: int
    chunk_slots: int

    @staticmethod
    def for_records(*, columns: int, records_per_patch: int, record_bytes: int) -> ChunkRule:
        """The rule for records of about ``record_bytes`` in a grid of ``columns`` patches a row.

        >>> ChunkRule.for_records(columns=10, records_per_patch=1, record_bytes=200_000)
        ChunkRule(group_slots=10, chunk_slots=5)
        >>> ChunkRule.for_records(columns=10, records_per_patch=1, record_bytes=30_000)
        ChunkRule(group_slots=30, chunk_slots=30)
        """
        fitting = max(CHUNK_BYTES // record_bytes, 1)
        row = columns * records_per_patch
        if row <= fitting:
            rows = fitting // row * row
            return ChunkRule(group_slots=rows, chunk_slots=rows)
        group, step = (row, records_per_patch) if records_per_patch <= fitting else (records_per_patch, 1)
        steps = group // step
        chunks = math.ceil(steps / (fitting // step))
        # The chunks of a group are alike, instead of full ones and a small rest.
        return ChunkRule(group_slots=group, chunk_slots=math.ceil(steps / chunks) * step)

    def stop_after(self, slot: int) -> int:
        """The first slot behind the chunk of ``slot``.

        >>> rule = ChunkRule(group_slots=10, chunk_slots=4)
        >>> [rule.stop_after(slot) for slot in (0, 3, 4, 9, 10)]
        [4, 4, 8, 10, 14]
        """
        start = slot // self.group_slots * self.group_slots
        chunks = (slot - start) // self.chunk_slots + 1
        return start + min(chunks * self.chunk_slots, self.group_slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """The slots of the records of one unit: ``each`` records from place ``first`` on of each of some patches.

    Attributes
    ----------
    numbers
        ``(n,) int64``: the patches' numbers, ascending.
    records_per_patch
        Slots of a patch.
    first
        Place within its patch of the first record of each.
    each
        Records of each patch.
    """

    numbers: NDArray[np.int64]
    records_per_patch: int = 1
    first: int = 0
    each: int = 1

    def slot(self, record: int) -> int:
        """The slot of the unit's record number ``record``."""
        patch, place = divmod(record, self.each)
        return int(self.numbers[patch]) * self.records_per_patch + self.first + place

    def count_before(self, slot: int) -> int:
        """How many of the unit's records have slots before ``slot``.

        >>> slots = Slots(numbers=np.array([3, 4, 7]), records_per_patch=6, first=2, each=2)
        >>> [slots.count_before(slot) for slot in (0, 20, 21, 22, 27, 99)]
        [0, 0, 1, 2, 3, 6]
        """
        number, place = divmod(slot, self.records_per_patch)
        patch = int(np.searchsorted(self.numbers, number))
        count = patch * self.each
        if patch < len(self.numbers) and self.numbers[patch] == number:
            count += min(max(place - self.first, 0), self.each)
        return count

"""Where each patch's first record is: shard, number, byte, gzip member. Arithmetic over what the shards hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["RecordPlaces", "ShardContent", "record_places"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardContent:
    """What one shard holds.

    Attributes
    ----------
    records
        Their count.
    content_bytes
        Bytes before compression.
    members
        As :func:`geotfr.records.members.gzip_members` gives them; None for a plain file.
    """

    records: int
    content_bytes: int
    members: NDArray[np.int64] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPlaces:
    """The places of some records.

    Attributes
    ----------
    shards
        ``(n,) int32``: number of the shard.
    records
        ``(n,) int64``: number within the shard.
    offsets
        ``(n,) int64``: where the record starts in the shard's uncompressed bytes, its header included.
    members, member_starts
        ``(n,) int64``: place in the file of the gzip member that holds its start, and where that member starts in the
        uncompressed bytes; -1 for plain shards.
    """

    shards: NDArray[np.int32]
    records: NDArray[np.int64]
    offsets: NDArray[np.int64]
    members: NDArray[np.int64]
    member_starts: NDArray[np.int64]

    def part(self, part: slice) -> RecordPlaces:
        """Some of the places."""
        return RecordPlaces(
            shards=self.shards[part],
            records=self.records[part],
            offsets=self.offsets[part],
            members=self.members[part],
            member_starts=self.member_starts[part],
        )


def record_places(
    lengths: NDArray[np.int64],
    records_per_patch: int,
    shards: Sequence[ShardContent],
    *,
    first_record: int = 0,
    first_byte: int = 0,
) -> RecordPlaces:
    """The place of each patch's first record; patches follow each other through the shards.

    Parameters
    ----------
    lengths
        ``(n,) int64``: bytes of each patch's records, framing included.
    records_per_patch
        The same for all.
    first_record, first_byte
        Records of the shards before them, and their bytes before compression.

    >>> shards = [ShardContent(records=2, content_bytes=30, members=None),
    ...           ShardContent(records=1, content_bytes=20, members=None)]
    >>> places = record_places(np.array([10, 20, 20]), 1, shards)
    >>> places.shards.tolist(), places.records.tolist(), places.offsets.tolist()
    ([0, 0, 1], [0, 1, 0], [0, 10, 0])
    """
    counts = np.array([shard.records for shard in shards], np.int64)
    sizes = np.array([shard.content_bytes for shard in shards], np.int64)
    shard_records = np.cumsum(counts) - counts
    shard_bytes = np.cumsum(sizes) - sizes
    record = np.arange(len(lengths), dtype=np.int64) * records_per_patch + first_record
    byte = np.cumsum(lengths) - lengths + first_byte
    # The last shard that begins there or before: empty ones are passed over.
    shard = np.maximum(np.searchsorted(shard_records, record, side="right") - 1, 0)
    members, member_starts = np.full(len(lengths), -1, np.int64), np.full(len(lengths), -1, np.int64)
    if len(shards):
        offsets = byte - shard_bytes[shard]
        heads = [(number, each.members) for number, each in enumerate(shards) if each.members is not None]
        if heads:
            starts = np.concatenate([found[:-1, 1] + shard_bytes[number] for number, found in heads])
            places = np.concatenate([found[:-1, 0] for _, found in heads])
            owners = np.concatenate([np.full(len(found) - 1, number) for number, found in heads])
            member = np.searchsorted(starts, byte, side="right") - 1
            is_packed = (member >= 0) & (owners[member] == shard)
            members[is_packed] = places[member][is_packed]
            member_starts[is_packed] = (starts[member] - shard_bytes[shard])[is_packed]
    else:
        offsets = byte
    return RecordPlaces(
        shards=shard.astype(np.int32),
        records=record - shard_records[shard] if len(shards) else record,
        offsets=offsets,
        members=members,
        member_starts=member_starts,
    )

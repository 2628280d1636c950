"""Shards as they are written: chunks in order, a new file when the record's number says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from geotfr.records.gzip import ShardCodec, ShardStream
    from geotfr.storage import AtomicFile, OutputSet

__all__ = ["ShardWriter", "WrittenShard"]


@dataclass(slots=True)
class WrittenShard:
    """A shard under its temporary name, and its records."""

    file: AtomicFile
    records: int = 0


class ShardWriter:
    """Writes packed chunks to the shards of an output set, one shard after the other.

    ``shard_bytes`` gives a shard's size where that is known before it is written, else None.
    """

    def __init__(
        self, outputs: OutputSet, codec: ShardCodec, *, shard_bytes: Callable[[int], int | None] = lambda _: None
    ) -> None:
        self.shards: list[WrittenShard] = []
        self._shard_bytes = shard_bytes
        self._outputs = outputs
        self._codec = codec
        self._stream: ShardStream | None = None

    def add(self, shard: int, packed: Buffer, records: int) -> int:
        """Append a packed chunk of ``records`` whole records to ``shard``; the bytes written."""
        if shard == len(self.shards):
            self.finish()
            self.shards.append(WrittenShard(self._outputs.create(expected_bytes=self._shard_bytes(shard))))
            self._stream = self._codec.stream()
        assert self._stream is not None
        assert shard == len(self.shards) - 1
        written = self.shards[-1]
        before = written.file.size
        written.file.write(self._stream.add(packed))
        written.records += records
        return written.file.size - before

    def finish(self) -> None:
        """Close the last shard."""
        if self._stream is not None:
            self.shards[-1].file.write(self._stream.finish())
            self.shards[-1].file.finish()
            self._stream = None

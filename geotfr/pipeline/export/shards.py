"""Records into shards: cut by size, packed on the workers, written in order.

A shard takes records until the next one would pass the limit. Within a shard, records whose patches lie together make
a *chunk* (:mod:`geotfr.pipeline.export.chunks`); it is what a compressor packs on its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from geotfr.pipeline.parallel import OrderedWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from geotfr.pipeline.export.chunks import ChunkRule, Slots
    from geotfr.pipeline.export.encode import Encoded
    from geotfr.records.gzip import ShardCodec, ShardStream
    from geotfr.storage import AtomicFile, OutputSet

__all__ = ["ChunkSize", "ShardCutter", "ShardWriter", "WrittenShard"]


class ChunkSize(NamedTuple):
    """A chunk as it lies in a file: its records, their bytes, and the bytes it is packed into."""

    records: int
    size: int
    packed: int


@dataclass(slots=True)
class WrittenShard:
    """A shard under its temporary name, its records, and the chunks it is made of."""

    file: AtomicFile
    records: int = 0
    is_oversized: bool = False
    """Whether its one record is larger than the limit of a shard."""
    chunks: list[ChunkSize] = field(default_factory=list)
    """Until it is told to be whole."""


class ShardWriter:
    """Writes packed chunks to the shards of an output set, one shard after the other.

    Parameters
    ----------
    outputs
        Where shards are created.
    codec
        How their streams are put together.
    name
        What errors call a shard: how many there will be, and so its name, may not be known yet.
    shard_bytes
        A shard's size where that is known before it is written, else None.
    finished
        Shards that are whole already: these are the first ones.
    on_finished
        Called with each shard that is whole.
    """

    def __init__(
        self,
        outputs: OutputSet,
        codec: ShardCodec,
        *,
        name: Callable[[int], str] = lambda _: "",
        shard_bytes: Callable[[int], int | None] = lambda _: None,
        finished: Sequence[WrittenShard] = (),
        on_finished: Callable[[WrittenShard], None] = lambda _: None,
    ) -> None:
        self.shards: list[WrittenShard] = list(finished)
        self._on_finished = on_finished
        self._name = name
        self._shard_bytes = shard_bytes
        self._outputs = outputs
        self.codec = codec
        """How its shards are compressed."""
        self._stream: ShardStream | None = None

    @property
    def open_bytes(self) -> int:
        """Bytes before compression of the shard that is still written; 0 where none is."""
        return 0 if self._stream is None else sum(chunk.size for chunk in self.shards[-1].chunks)

    def add(
        self, shard: int, packed: Sequence[Buffer], records: int, *, size: int = 0, is_oversized: bool = False
    ) -> int:
        """Append ``records`` whole records of ``size`` bytes, packed, in pieces, to ``shard``; the bytes written."""
        if shard == len(self.shards):
            self.finish()
            file = self._outputs.create(self._name(shard), expected_bytes=self._shard_bytes(shard))
            self.shards.append(WrittenShard(file))
            self._stream = self.codec.stream()
        assert self._stream is not None
        assert shard == len(self.shards) - 1
        written = self.shards[-1]
        before = written.file.size
        for piece in packed:
            written.file.write(self._stream.add(piece))
        written.records += records
        written.is_oversized |= is_oversized
        written.chunks.append(ChunkSize(records, size, written.file.size - before))
        return written.file.size - before

    def finish(self) -> None:
        """Close the last shard."""
        if self._stream is not None:
            self.shards[-1].file.write(self._stream.finish())
            self.shards[-1].file.finish()
            self._stream = None
            self._on_finished(self.shards[-1])
            self.shards[-1].chunks = []


@dataclass(slots=True)
class _Held:
    """An encoded unit some of whose bytes are still to be written."""

    encoded: Encoded
    pieces: int = 1


@dataclass(slots=True)
class _Chunk:
    """Records of one shard that are packed together."""

    shard: int
    pieces: list[memoryview] = field(default_factory=list)
    owners: list[_Held] = field(default_factory=list)
    size: int = 0
    records: int = 0


class ShardCutter:
    """Takes encoded units in order, cuts them into shards and chunks, has these packed, and writes them in order.

    Parameters
    ----------
    writer
        Where the chunks go; its codec packs them. A shard that it has open is gone on with.
    rule
        Where chunks end.
    max_shard_bytes
        Limit on a shard before compression; a larger record gets a shard of its own.
    begun_bytes
        Bytes that the first shard holds already, before the first record.
    cuts_chunks
        Whether a shard may end within a chunk. Else it ends behind the chunk with which it passes the limit: where
        shards will end in truth is found later.
    executor
        Packs chunks, ``window`` of them at a time.
    release
        Called with each unit when all of its bytes are written.
    report
        Called with (patches, bytes written) as they come.
    """

    def __init__(
        self,
        writer: ShardWriter,
        *,
        rule: ChunkRule,
        max_shard_bytes: int,
        executor: Executor,
        window: int,
        release: Callable[[Encoded], None],
        report: Callable[[int, int], None],
        begun_bytes: int = 0,
        cuts_chunks: bool = True,
    ) -> None:
        self._writer = writer
        self._codec = writer.codec
        self._rule = rule
        self._max_shard_bytes = max_shard_bytes
        self._packing = OrderedWindow(executor, self._write, size=window)
        self._release = release
        self._report = report
        self._chunk = _Chunk(len(writer.shards) - (writer.open_bytes > 0))
        self._chunk_stop = 0
        self._shard_size = writer.open_bytes or begun_bytes
        self._cuts_chunks = cuts_chunks

    def add(self, encoded: Encoded, slots: Slots, *, leaving_out: int = 0) -> None:
        """Take the records of a unit but the first ``leaving_out``; those before it were taken."""
        held = _Held(encoded)
        data, ends = encoded.data.data, encoded.ends
        done, start = leaving_out, int(ends[leaving_out - 1]) if leaving_out else 0
        while done < len(ends):
            taken = self._fitting(ends, slots, done, start)
            stop = int(ends[done + taken - 1])
            self._chunk.pieces.append(data[start:stop])
            self._chunk.owners.append(held)
            held.pieces += 1
            self._chunk.size += stop - start
            self._chunk.records += taken
            self._shard_size += stop - start
            done, start = done + taken, stop
        self._let_go(held)
        self._report(encoded.patches, 0)

    def flush(self) -> None:
        """Write all that was taken; the last shard stays open for what another cutter brings."""
        self._close_chunk()
        self._packing.drain()

    def finish(self) -> None:
        """Write all that was taken, and close the last shard."""
        self.flush()
        self._writer.finish()

    def _fitting(self, ends: NDArray[np.int64], slots: Slots, done: int, start: int) -> int:
        """How many of the records from ``done`` on go into the open chunk; at least 1, after closing full ones."""
        if self._cuts_chunks and int(ends[done]) - start > self._max_shard_bytes - self._shard_size:
            self._begin_shard()
        slot = slots.slot(done)
        if slot >= self._chunk_stop:
            self._close_chunk()
            self._chunk_stop = self._rule.stop_after(slot)
            if not self._cuts_chunks and self._shard_size >= self._max_shard_bytes:
                self._begin_shard()
        count = slots.count_before(self._chunk_stop) - done
        if self._cuts_chunks:
            room = start + self._max_shard_bytes - self._shard_size
            # A record larger than the limit goes alone.
            count = min(count, max(int(np.searchsorted(ends, room, "right")) - done, 1))
        return count

    def _begin_shard(self) -> None:
        if self._shard_size:
            self._close_chunk()
            self._chunk.shard += 1
            self._shard_size = 0

    def _close_chunk(self) -> None:
        chunk = self._chunk
        if not chunk.pieces:
            return
        self._chunk = _Chunk(chunk.shard)
        if self._codec.packs:
            self._packing.submit(self._pack, chunk)
        else:
            self._write((chunk, chunk.pieces))

    def _pack(self, chunk: _Chunk) -> tuple[_Chunk, Sequence[Buffer]]:
        data = chunk.pieces[0] if len(chunk.pieces) == 1 else b"".join(chunk.pieces)
        return chunk, [self._codec.pack(data)]

    def _write(self, packed: tuple[_Chunk, Sequence[Buffer]]) -> None:
        chunk, pieces = packed
        is_oversized = chunk.size > self._max_shard_bytes
        written = self._writer.add(chunk.shard, pieces, chunk.records, size=chunk.size, is_oversized=is_oversized)
        self._report(0, written)
        for held in chunk.owners:
            self._let_go(held)

    def _let_go(self, held: _Held) -> None:
        held.pieces -= 1
        if not held.pieces:
            self._release(held.encoded)

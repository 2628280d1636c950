"""Staged pieces into shards: chunks are copied as they are, where shards end is found from their sizes.

The pieces of all parts, one behind the other, are the chunks that one run would write, but that it would begin a shard
elsewhere. So a shard takes chunks until the next would pass the limit. A chunk in which a shard ends is the only one
that is opened: its records are shared out and packed again. Where shards were known when the pieces were made, none is,
and a piece that is a shard is renamed, not copied.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from isal import isal_zlib

from geotfr.errors import DamagedError, GeotfrError, MissingInputError
from geotfr.pipeline.export.shards import ChunkSize
from geotfr.records.crc import crc32c
from geotfr.records.inflate import InflateError
from geotfr.regular_files import open_own_file
from geotfr.storage.output_error import output_error
from geotfr.stores.path import is_local

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from geotfr.records.gzip import ShardCodec
    from geotfr.storage import AtomicFile, OutputSet
    from geotfr.storage.staged import StagedFile

__all__ = ["PackedShard", "Packer", "Recipe", "adopt", "damaged"]

_COPY_BYTES = 4 << 20
_LENGTH = struct.Struct("<Q")
# Length, its checksum, and the payload's.
_FRAME_BYTES = 16


@dataclass(slots=True)
class _Take:
    """Bytes ``start`` to ``stop`` of a staged file; of its one chunk (``size`` bytes) only ``cut``, if that's set."""

    file: StagedFile
    start: int
    stop: int
    size: int
    cut: slice | None = None


@dataclass(slots=True)
class Recipe:
    """What a shard is made of.

    Attributes
    ----------
    takes
        Stretches of staged files, in order.
    records, size
        Its records, and their bytes before compression.
    """

    takes: list[_Take] = field(default_factory=list)
    records: int = 0
    size: int = 0

    @property
    def whole(self) -> StagedFile | None:
        """The staged file that is just this shard, if there is one."""
        if len(self.takes) != 1 or self.takes[0].cut is not None:
            return None
        take = self.takes[0]
        return take.file if (take.start, take.stop) == (0, take.file.size) else None


@dataclass(frozen=True, slots=True)
class PackedShard:
    """A shard under its temporary name, its records, and whether it was a staged file that was renamed."""

    file: AtomicFile
    records: int
    is_oversized: bool
    is_adopted: bool = False


class Packer:
    """Cuts the chunks of staged files into shards, and writes these.

    Parameters
    ----------
    files
        The staged files of all parts, in order; their facts hold the ``chunks``.
    shard_codec
        How shards are compressed.
    is_packed
        Whether the chunks are gzip members, not plain.
    max_shard_bytes
        Limit on a shard before compression; a larger record gets a shard of its own.
    knows_shards
        Whether the files end where shards do, or parts.
    """

    def __init__(
        self,
        files: Sequence[StagedFile],
        shard_codec: ShardCodec,
        *,
        is_packed: bool,
        max_shard_bytes: int,
        knows_shards: bool,
    ) -> None:
        self._files = files
        self._codec = shard_codec
        self._is_packed = is_packed
        self._limit = max_shard_bytes
        self._knows_shards = knows_shards
        self._crcs: dict[Path, tuple[int, int]] = {}

    def recipes(self) -> Iterator[Recipe]:
        """The shards, in order.

        Raises
        ------
        OutputError
            A chunk in which a shard ends can't be read.
        DamagedError
            It holds other bytes than were written.
        """
        shard = Recipe()
        for file in self._files:
            start = 0
            for chunk in map(ChunkSize._make, file.facts["chunks"]):
                stop = start + chunk.packed
                if shard.size + chunk.size <= self._limit:
                    self._add(shard, _Take(file, start, stop, chunk.size), chunk.records, chunk.size)
                else:
                    for cut, records in self._cuts(_Take(file, start, stop, chunk.size), chunk, shard.size):
                        size = cut.stop - cut.start
                        if shard.size and shard.size + size > self._limit:
                            yield shard
                            shard = Recipe()
                        is_all = size == chunk.size
                        self._add(shard, _Take(file, start, stop, chunk.size, None if is_all else cut), records, size)
                start = stop
        if shard.records:
            yield shard

    def _add(self, shard: Recipe, take: _Take, records: int, size: int) -> None:
        last = shard.takes[-1] if shard.takes else None
        follows = last is not None and last.file is take.file and last.stop == take.start
        if last is not None and follows and last.cut is None and take.cut is None and self._codec.is_joinable:
            last.stop = take.stop
        else:
            shard.takes.append(take)
        shard.records += records
        shard.size += size

    def _cuts(self, take: _Take, chunk: ChunkSize, begun: int) -> Iterator[tuple[slice, int]]:
        """(place in the chunk, records) of what each shard gets of a chunk in which one ends."""
        if chunk.records == 1 or self._knows_shards:
            yield slice(0, chunk.size), chunk.records
            return
        data = self._chunk(take)
        first = place = records = 0
        # One chunk a shard: the loop over its records is short.
        while place < len(data):
            if place + _LENGTH.size > len(data):
                raise damaged(take.file)
            size = _LENGTH.unpack_from(data, place)[0] + _FRAME_BYTES
            if begun and begun + size > self._limit:
                if records:
                    yield slice(first, place), records
                first, records, begun = place, 0, 0
            place, records, begun = place + size, records + 1, begun + size
        yield slice(first, place), records

    def copied_bytes(self, recipe: Recipe) -> int:
        """About the bytes that writing ``recipe`` adds to the folder."""
        return 0 if self._renamed(recipe) else sum(take.stop - take.start for take in recipe.takes)

    def _renamed(self, recipe: Recipe) -> StagedFile | None:
        """The file that is the shard, and isn't needed for anything else."""
        return recipe.whole if self._knows_shards and self._codec.is_joinable else None

    def write(self, outputs: OutputSet, name: str, recipe: Recipe) -> PackedShard:
        """The shard that ``recipe`` tells, as the set's next file, finished and listed; errors call it ``name``.

        Raises
        ------
        OutputError
            A staged file is gone, or what is to be written can't be.
        DamagedError
            A staged file holds other bytes than were written.
        """
        is_oversized = recipe.size > self._limit
        facts = {"records": recipe.records, "is_oversized": is_oversized}
        whole = self._renamed(recipe)
        if whole is not None:
            return PackedShard(adopt(outputs, whole, facts), recipe.records, is_oversized, is_adopted=True)
        file = outputs.create(name)
        stream = self._codec.stream()
        for take in recipe.takes:
            if take.cut is None and self._codec.is_joinable:
                for data in self._pieces(take):
                    file.write(data)
            else:
                chunk = memoryview(self._chunk(take))
                file.write(stream.add(self._codec.pack(chunk[take.cut] if take.cut else chunk)))
        file.write(stream.finish())
        file.finish()
        outputs.finished(file, facts)
        return PackedShard(file, recipe.records, is_oversized)

    def _chunk(self, take: _Take) -> bytes:
        """The records of the one chunk of ``take``."""
        data = b"".join(self._pieces(take))
        if self._is_packed:
            try:
                data = isal_zlib.decompressobj(wbits=31).decompress(data, take.size + 1)
            except InflateError as error:
                raise damaged(take.file) from error
        if len(data) != take.size:
            raise damaged(take.file)
        return data

    def _pieces(self, take: _Take) -> Iterator[bytes]:
        """The bytes of ``take``; each file's are summed up on the way, and compared at its end."""
        place = take.start
        try:
            path = take.file.path
            with open_own_file(path) if is_local(path) else path.open("rb") as source:
                source.seek(place)
                while place < take.stop:
                    data = source.read(min(take.stop - place, _COPY_BYTES))
                    if not data:
                        raise damaged(take.file)
                    self._sum_up(take.file, place, data)
                    place += len(data)
                    yield data
        except MissingInputError as error:
            raise gone(take.file) from error
        except OSError as error:
            if isinstance(error, GeotfrError):
                raise
            raise output_error(take.file.path, error) from error

    def _sum_up(self, file: StagedFile, place: int, data: bytes) -> None:
        done, crc = self._crcs.get(file.path, (0, 0))
        if place != done:
            # A chunk that is opened for two shards, or a file whose beginning is in a shard that is whole already.
            return
        done, crc = done + len(data), crc32c(data, crc)
        self._crcs[file.path] = done, crc
        if done == file.size and crc != file.crc:
            raise damaged(file)


def adopt(outputs: OutputSet, file: StagedFile, facts: Mapping[str, Any]) -> AtomicFile:
    """A staged file that is a shard, as the set's next one.

    Raises
    ------
    OutputError, MissingInputError
        It is gone.
    DamagedError
        It has another size than was written.
    """
    try:
        if is_local(file.path):
            with open_own_file(file.path) as opened:
                size = os.fstat(opened.fileno()).st_size
        else:
            size = file.path.stat().st_size
    except MissingInputError as error:
        raise gone(file) from error
    except OSError as error:
        raise output_error(file.path, error) from error
    if size != file.size:
        raise damaged(file)
    return outputs.adopt(file.path, size=file.size, crc=file.crc, facts=facts)


def gone(file: StagedFile) -> MissingInputError:
    """What to raise where a staged object isn't there."""
    return MissingInputError(f"{file.path}: the staged file of {file.size:,} bytes is gone; run its part again")


def damaged(file: StagedFile) -> DamagedError:
    """What to raise where a staged file has changed."""
    return DamagedError(
        f"{file.path}: the staged file holds other bytes than were written ({file.size:,}, CRC32C {file.crc:08x}); run"
        " its part again"
    )

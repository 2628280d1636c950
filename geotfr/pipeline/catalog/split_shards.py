"""Shards of each split: the records of a set's patches, copied as they are, a set of their own for each split."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import DamagedError, UsageError
from geotfr.mixer import Manifest, SetNames, ShardInfo, is_manifest, read_manifest
from geotfr.pipeline.catalog.reading import SetReader
from geotfr.pipeline.export.chunks import CHUNK_BYTES
from geotfr.pipeline.set_files import belongs_to, text_file
from geotfr.records.gzip import codec
from geotfr.records.members import gzip_members
from geotfr.records.places import ShardContent, record_places
from geotfr.storage.outputs import open_outputs
from geotfr.vectors.patch_table import rewrite_patch_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from geotfr.records.gzip import ShardCodec
    from geotfr.storage import AtomicFile, OutputSet
    from geotfr.vectors.patch_table import PatchTable

__all__ = ["write_split_shards"]


def write_split_shards(
    table: PatchTable,
    splits: NDArray[np.int64],
    names: Sequence[str],
    prefix: str,
    *,
    max_shard_bytes: int,
    compressor: str,
    extra: dict[str, Any],
    overwrite: bool,
) -> list[Path]:
    """Write ``PREFIX-SPLIT-00000…``, a table, and for one raster's set a manifest, for each split; all their shards.

    The payloads are those of the set. No mixer is written: patches of the grid are missing.

    Parameters
    ----------
    splits
        ``(rows of the table,) int64``: the number of each patch's split in ``names``, -1 for none.

    Raises
    ------
    UsageError
        A split whose name, perhaps a table's value, is that of another folder.
    """
    for name in names:
        if set(name) & set("/\\\0"):
            raise UsageError(
                f"{table.path}: a split is called {name!r}, which can't be part of a file's name; name it without"
                " slashes, or leave --shards out"
            )
    coding = codec(compressor)
    manifest = _manifest_of(table)
    with contextlib.ExitStack() as stack:
        writers = []
        for name in names:
            set_names = SetNames.for_prefix(f"{prefix}-{name}", naming="drive", compressed_suffix=coding.suffix)
            outputs = open_outputs(
                set_names.folder, name=set_names.name, belongs=belongs_to(set_names), overwrite=overwrite
            )
            writers.append(_Writer(set_names, stack.enter_context(outputs), coding, max_shard_bytes))
        _copy(table, splits, writers)
        files = [_files(table, splits == number, writer, manifest, extra) for number, writer in enumerate(writers)]
        # Old and new splits never look whole side by side.
        for writer, named in zip(writers, files, strict=True):
            writer.outputs.withdraw(named, incomplete_without=writer.tellers)
        for writer, named in zip(writers, files, strict=True):
            writer.outputs.publish(named, incomplete_without=writer.tellers)
    return [
        writer.names.folder / name
        for writer, named in zip(writers, files, strict=True)
        for name, _ in named[: len(writer.shards)]
    ]


def _manifest_of(table: PatchTable) -> Manifest | None:
    path = table.path.with_name(table.path.name.removesuffix("patches.parquet") + "manifest.json")
    return read_manifest(path) if len(table.sets) == 1 and is_manifest(path) else None


@dataclass(slots=True)
class _Shard:
    file: AtomicFile
    records: int = 0
    content_bytes: int = 0


@dataclass(slots=True)
class _Writer:
    """The shards of one split."""

    names: SetNames
    outputs: OutputSet
    coding: ShardCodec
    max_shard_bytes: int
    shards: list[_Shard] = field(default_factory=list)
    _chunk: list[Buffer] = field(default_factory=list)
    _chunk_bytes: int = 0
    _stream: Any = None

    def add(self, record: NDArray[np.uint8]) -> None:
        """Append one framed record."""
        size = len(record)
        if not self.shards or (
            self.shards[-1].content_bytes and self.shards[-1].content_bytes + size > self.max_shard_bytes
        ):
            self.finish()
            self.shards.append(_Shard(self.outputs.create(self.names.shard(len(self.shards), total=2))))
            self._stream = self.coding.stream()
        elif self._chunk and self._chunk_bytes + size > CHUNK_BYTES:
            self._pack()
        self._chunk.append(record.tobytes())
        self._chunk_bytes += size
        self.shards[-1].records += 1
        self.shards[-1].content_bytes += size

    def finish(self) -> None:
        """Close the last shard."""
        if self._stream is not None:
            self._pack()
            self.shards[-1].file.write(self._stream.finish())
            self.shards[-1].file.finish()
            self._stream = None

    def _pack(self) -> None:
        if self._chunk:
            self.shards[-1].file.write(self._stream.add(self.coding.pack(b"".join(self._chunk))))
            self._chunk, self._chunk_bytes = [], 0

    @property
    def tellers(self) -> tuple[str, ...]:
        """Names without which the set doesn't look whole."""
        return (*self.names.tellers, *self.names.patch_tables)

    def contents(self) -> list[ShardContent]:
        """What the shards hold."""
        return [
            ShardContent(
                records=shard.records,
                content_bytes=shard.content_bytes,
                members=gzip_members(shard.file.staged_path) if self.coding.suffix else None,
            )
            for shard in self.shards
        ]


def _copy(table: PatchTable, splits: NDArray[np.int64], writers: Sequence[_Writer]) -> None:
    """Put the records of each split's patches into its shards."""
    owners = table.set_numbers()
    per_patch = table.column("records")
    for numbers in table.sets_by_shards():
        is_own = np.isin(owners, numbers)
        of_records = np.repeat(splits[is_own], per_patch[is_own])
        place = 0
        for data, ends in SetReader.of_table(table, numbers).framed():
            if place + len(ends) > len(of_records):
                raise DamagedError(f"{table.path}: the shards have more records than the table; make the table again")
            start = 0
            for split, end in zip(of_records[place : place + len(ends)].tolist(), ends.tolist(), strict=True):
                if split >= 0:
                    writers[split].add(data[start:end])
                start = end
            place += len(ends)
    for writer in writers:
        writer.finish()


def _files(
    table: PatchTable, kept: NDArray[np.bool_], writer: _Writer, manifest: Manifest | None, extra: dict[str, Any]
) -> list[tuple[str, AtomicFile]]:
    """One split's finished files with their names: shards, table, manifest."""
    outputs, total = writer.outputs, len(writer.shards)
    named = [(writer.names.shard(place, total=total), shard.file) for place, shard in enumerate(writer.shards)]
    facts = tuple((name, file.size, f"{file.crc:08x}") for name, file in named)
    lengths = table.column("length")[kept]
    records = int(table.column("records")[0]) if len(table) else 1
    places = record_places(lengths, records, writer.contents())
    made = outputs.create(writer.names.patch_table)
    rewrite_patch_table(table, made, {}, extra=extra, kept=kept, places=places, shards=facts)
    made.finish()
    files = [*named, (writer.names.patch_table, made)]
    if manifest is not None:
        files.append(
            (
                writer.names.manifest,
                text_file(outputs, writer.names.manifest, _described(manifest, table, kept, writer, facts)),
            )
        )
    return files


def _described(
    manifest: Manifest,
    table: PatchTable,
    kept: NDArray[np.bool_],
    writer: _Writer,
    facts: Sequence[tuple[str, int, str]],
) -> str:
    numbers = table.column("number")[kept]
    is_dropped = np.ones(manifest.rows * manifest.columns, np.bool_)
    is_dropped[numbers] = False
    return replace(
        manifest,
        patches_written=len(numbers),
        patches_dropped=tuple(np.flatnonzero(is_dropped).tolist()),
        shards=tuple(
            ShardInfo(name=name, records=shard.records, bytes=size, crc32c=crc)
            for (name, size, crc), shard in zip(facts, writer.shards, strict=True)
        ),
        compressor=writer.coding.name,
        compressor_level=writer.coding.level,
        compressor_library=writer.coding.library,
        collection=None,
    ).to_text()

"""A set of shards read from front to back: of each batch of patches the values without margins, sizes and digests."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.datasets.features import feature_shapes
from geotfr.datasets.patch_set import PatchSet, find_set
from geotfr.errors import DamagedError, UsageError
from geotfr.grid import GeoBox
from geotfr.integrity.files import is_sequence_file
from geotfr.options.values import at_least_one, parse_pair_yx
from geotfr.records.batches import BatchDecoder
from geotfr.records.digests import DIGEST_BYTES, payload_digests
from geotfr.records.faults import ReadReport
from geotfr.records.framing import RecordBlocks
from geotfr.records.places import ShardContent
from geotfr.records.reader import DECODED_BYTES
from geotfr.records.stream import open_stream
from geotfr.storage.digest import file_crc32c
from geotfr.stores.path import StorePath
from geotfr.vectors.table_beside import changed_shard, shards_beside

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from geotfr.datasets.features import FeatureShape
    from geotfr.mixer import Manifest
    from geotfr.options import PairXY
    from geotfr.records.batches import FeatureBatch
    from geotfr.records.framing import Block
    from geotfr.vectors.patch_set import PatchSet as TableSet
    from geotfr.vectors.patch_table import PatchTable

    PathLike = str | os.PathLike[str]

__all__ = ["ReadPatches", "SetReader", "validity_warnings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPatches:
    """Some records that follow each other.

    Attributes
    ----------
    shard
        Number of the shard.
    first
        Number of the first record in it.
    lengths
        ``(n,) int64``: bytes of each record, framing included.
    digests
        ``(n, 32) uint8``: SHA-256 of the payloads; None where they weren't asked for.
    cores
        Band -> its channels without margins, ``(n, row, col)`` each; usable until the next batch.
    valid
        ``(n, row, col) bool``: where pixels are valid, if a feature of the records tells it; usable as long.
    """

    shard: int
    first: int
    lengths: NDArray[np.int64]
    digests: NDArray[np.uint8] | None
    cores: dict[str, list[NDArray[Any]]]
    valid: NDArray[np.bool_] | None = None


class SetReader:
    """The patches of a set.

    Parameters
    ----------
    source
        A mixer, a manifest, a folder, or a mixer and shards.
    kernel_size
        (width, height), where no manifest tells it.

    Attributes
    ----------
    shards
        The record files, in order.
    manifest
        geotfr's own, or None.
    valid_feature
        The feature that tells which pixels are valid; None where there is none.
    geobox, patch_yx, margin_yx, rows, columns
        The grid and its patches; ``margin_yx`` is (0, 0) until a record was read, where only a mixer tells of it.
    contents
        What each shard holds, once it was read.
    first_record, first_byte
        Where the set's records begin in the first shard that it has with others: 0 but for shared shards.

    Raises
    ------
    UsageError
        No mixer and no manifest, or several sets.
    """

    def __init__(self, source: PathLike | Sequence[PathLike], *, kernel_size: PairXY | None = None) -> None:
        found = find_set(source)
        if found.mixer is None:
            raise UsageError(f"{found.shards[0]}: no mixer or manifest tells the grid; name it before the shards")
        width, height = found.mixer.patch_xy
        kernel_yx = None if found.manifest is None else found.manifest.kernel_yx
        if kernel_size is not None:
            kernel_yx = at_least_one(parse_pair_yx("kernel_size", kernel_size, least=0))
        self._begin(
            found,
            geobox=found.mixer.geobox if found.manifest is None else found.manifest.geobox,
            patch_yx=(height, width),
            kernel_yx=kernel_yx,
            shape_yx=(found.mixer.rows, found.mixer.patches_per_row),
        )

    @staticmethod
    def of_table(table: PatchTable, numbers: Sequence[int]) -> SetReader:
        """The patches of some sets of a table that share shards, or of one; the shards lie beside the table.

        Raises
        ------
        DamagedError
            A shard is missing, or of another size or content than the table knows.
        """
        patches = table.sets[numbers[0]]
        shards = shards_beside(table, numbers)
        _check_content([table.sets[number] for number in numbers], shards)
        reader = object.__new__(SetReader)
        reader._begin(
            PatchSet(shards=tuple(shards), run=_run_in(table, numbers)),
            geobox=patches.geobox,
            patch_yx=patches.patch_yx,
            kernel_yx=patches.kernel_yx,
            shape_yx=(patches.rows, patches.columns),
        )
        reader.valid_feature = patches.valid_feature
        return reader

    def _begin(
        self,
        found: PatchSet,
        *,
        geobox: GeoBox,
        patch_yx: tuple[int, int],
        kernel_yx: tuple[int, int] | None,
        shape_yx: tuple[int, int],
    ) -> None:
        self._found = found
        self.shards: tuple[Path, ...] = found.shards
        self.manifest = found.manifest
        self.valid_feature = None if found.manifest is None else found.manifest.valid_feature
        self.geobox, self.patch_yx, self._kernel_yx = geobox, patch_yx, kernel_yx
        self.rows, self.columns = shape_yx
        self.margin_yx = (0, 0) if kernel_yx is None else (kernel_yx[0] // 2, kernel_yx[1] // 2)
        self.contents: list[ShardContent] = []
        self.first_record = self.first_byte = 0
        self.features: dict[str, FeatureShape] = {}
        self._validity: FeatureShape | None = None

    @property
    def is_by_pixel(self) -> bool:
        """Whether a record is a pixel (``sequence_data``)."""
        if self.manifest is not None:
            return bool(self.manifest.options.get("sequence_data"))
        return is_sequence_file(str(self.shards[0]))

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The patches that have records, in order: ``(n,) int64``."""
        is_kept = np.ones(self.rows * self.columns, np.bool_)
        if self.manifest is not None:
            is_kept[list(self.manifest.patches_dropped)] = False
        return np.flatnonzero(is_kept)

    def batches(self, *, with_digests: bool = False, with_values: bool = True) -> Iterator[ReadPatches]:
        """All records, shard by shard; every checksum is checked.

        Raises
        ------
        RecordError
            A damaged file, or records of several makes.
        """
        for number, block, decoder in self._blocks():
            digests = payload_digests(block.data, block.starts + block.sizes) if with_digests else None
            if not with_values:
                yield ReadPatches(shard=number, first=block.first, lengths=block.sizes, digests=digests, cores={})
                continue
            for batch in decoder.batches(block):
                yield self._read(number, block, batch, digests)

    def framed(self) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
        """All records as they are: some at a time, one behind the other, and where each ends; valid until the next."""
        for _, block, _ in self._blocks():
            yield block.data, block.starts + block.sizes

    def pixel_digests(self) -> tuple[int, NDArray[np.int64], NDArray[np.uint8]]:
        """Where a record is a pixel: records of a patch, and of each patch its bytes and their digest.

        Raises
        ------
        DamagedError
            The records make no whole patches.
        """
        per_patch = self._records_per_patch()
        digest, size, count = hashlib.sha256(), 0, 0
        sizes, digests = [], bytearray()
        for _, block, _ in self._blocks():
            view = block.data.data
            ends = (block.starts + block.sizes).tolist()
            done = start = 0
            while done < len(ends):
                taken = min(per_patch - count, len(ends) - done)
                stop = ends[done + taken - 1]
                digest.update(view[start:stop])
                size, count, done = size + stop - start, count + taken, done + taken
                start = stop
                if count == per_patch:
                    sizes.append(size)
                    digests += digest.digest()
                    digest, size, count = hashlib.sha256(), 0, 0
        if count:
            raise DamagedError(
                f"{self.shards[-1]}: the last patch has {count:,} of {per_patch:,} records; name all shards of the set"
            )
        return per_patch, np.array(sizes, np.int64), np.frombuffer(bytes(digests), np.uint8).reshape(-1, DIGEST_BYTES)

    def _records_per_patch(self) -> int:
        if self.manifest is not None:
            return max(self.manifest.records // max(self.manifest.patches_written, 1), 1)
        records = sum(len(block.starts) for _, block, _ in self._blocks())
        per_patch, rest = divmod(records, self.rows * self.columns)
        if rest or not per_patch:
            raise DamagedError(
                f"{self.shards[0]}: {records:,} pixel records don't make {self.rows * self.columns:,} patches; name all"
                " shards of the set"
            )
        return per_patch

    def _blocks(self) -> Iterator[tuple[int, Block, BatchDecoder]]:
        """The blocks of all shards, with the shard's number and what decodes them."""
        self.contents = []
        before, run = 0, self._found.run
        self.first_record = 0 if run is None else run.start
        for number, path in enumerate(self.shards):
            report = ReadReport()
            with open_stream(str(path), "auto", report) as stream:
                blocks = RecordBlocks(stream, report=report)
                decoder = BatchDecoder(stream, blocks.templates, None, DECODED_BYTES, "error", report)
                records = 0
                for block in blocks:
                    records += len(block.starts)
                    own = block if run is None else _trimmed(block, range(run.start - before, run.stop - before))
                    if own is not None:
                        if before + own.first == self.first_record:
                            self.first_byte = own.offset
                        yield number, own, decoder
                members = None
                if stream.compression == "gzip":
                    members = np.array([*stream.member_places(), (stream.file_bytes, stream.delivered)], np.int64)
                before += records
                self.contents.append(ShardContent(records=records, content_bytes=stream.delivered, members=members))

    def _read(self, number: int, block: Block, batch: FeatureBatch, digests: NDArray[np.uint8] | None) -> ReadPatches:
        if not self.features:
            self._learn(batch)
        start = int(batch.records[0]) - block.first
        part = slice(start, start + len(batch))
        return ReadPatches(
            shard=number,
            first=int(batch.records[0]),
            lengths=block.sizes[part],
            digests=None if digests is None else digests[part],
            cores={name: _cores(shape, batch) for name, shape in self.features.items()},
            valid=None if self._validity is None else _cores(self._validity, batch)[0] != 0,
        )

    def _learn(self, batch: FeatureBatch) -> None:
        """The features that are patches, from the first record."""
        wanted = None
        if self.manifest is not None:
            others = {self.manifest.options.get("patch_index"), *self.manifest.object_features}
            wanted = [name for name in batch.features if name not in others]
        found = feature_shapes(
            batch, self._found, names=wanted, patch_yx=self.patch_yx, kernel_yx=self._kernel_yx, shapes={}
        )
        self.features = {name: shape for name, shape in found.items() if shape.margin_yx is not None}
        self._validity = None if self.valid_feature is None else self.features.pop(self.valid_feature, None)
        margins = {shape.margin_yx for shape in self.features.values() if shape.margin_yx is not None}
        if len(margins) > 1:
            raise DamagedError(f"{batch.path}: features with and without margins; one kernel is expected")
        if margins:
            self.margin_yx = margins.pop()


def validity_warnings(name: str, manifest: Manifest | None) -> list[str]:
    """What the one validity of all bands, the feature ``name``, can't tell of each, one line each."""
    options = {} if manifest is None else manifest.options
    if options.get("mask_mode") == "band":
        return [f"{name!r} tells where no band is masked: pixels that are masked in some band are left out of all"]
    if options.get("tensor_depths"):
        return [f"{name!r} tells of pixels: elements of array bands that are masked alone count as data"]
    return []


def _run_in(table: PatchTable, numbers: Sequence[int]) -> range | None:
    """Which records of their shards are those of the sets ``numbers``; None for all."""
    first = table.sets[numbers[0]].first_in_shard
    if first is None:
        return None
    is_own = np.isin(table.set_numbers(), numbers)
    return range(first, first + int(table.column("records")[is_own].sum()))


def _trimmed(block: Block, wanted: range) -> Block | None:
    """The records of ``block`` whose numbers in the file are among ``wanted``."""
    start, stop = max(wanted.start - block.first, 0), min(wanted.stop - block.first, len(block.starts))
    if start >= stop:
        return None
    if stop - start == len(block.starts):
        return block
    begin, end = int(block.starts[start]), int(block.starts[stop - 1] + block.sizes[stop - 1])
    return replace(
        block,
        data=block.data[begin:end],
        first=block.first + start,
        offset=block.offset + begin,
        starts=block.starts[start:stop] - begin,
        sizes=block.sizes[start:stop],
    )


def _check_content(sets: Sequence[TableSet], shards: Sequence[Path]) -> None:
    """Refuse files with another CRC32C than the table knows: plain shards exported again are often of the same size.

    Those of a store would be fetched twice for it.
    """
    listed = dict.fromkeys(shard for patches in sets for shard in patches.shards)
    for path, (_, _, known) in zip(shards, listed, strict=True):
        if known and not isinstance(path, StorePath):
            found = f"{file_crc32c(path):08x}"
            if found != known:
                raise changed_shard(path, f"has the CRC32C {found}, the table knows {known}")


def _cores(shape: FeatureShape, batch: FeatureBatch) -> list[NDArray[Any]]:
    values = np.ascontiguousarray(shape.checked(batch))
    blocks = values.reshape(len(values), shape.channels, *shape.shape[-2:])
    margin_y, margin_x = shape.margin_yx or (0, 0)
    height, width = shape.shape[-2:]
    return [
        blocks[:, channel, margin_y : height - margin_y, margin_x : width - margin_x]
        for channel in range(shape.channels)
    ]

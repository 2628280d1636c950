"""The records of TFRecord files as a stream.

Small records are decoded a buffer at a time and packed. Large ones of plain files are not read at all until somebody
asks for them: their numbers are shuffled and batched, and a batch reads its own records, straight into its arrays.
"""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from geotfr.datasets.array_pool import ArrayPool
from geotfr.datasets.shards import file_state, unchanged
from geotfr.datasets.streams.node import Draws
from geotfr.datasets.streams.rows import NumberedForm, Rows, collated, objects, packed
from geotfr.datasets.streams.sources import NUMBERS_AT_ONCE, Source
from geotfr.datasets.streams.work import in_turns
from geotfr.errors import RecordError, UsageError
from geotfr.options import nearest
from geotfr.records.gather import IndexedFeatures
from geotfr.records.index import IndexedRecords, hop_index
from geotfr.records.layout import FRAME_BYTES, HEADER_BYTES
from geotfr.records.reader import read_features, read_records
from geotfr.records.stream import open_stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from geotfr.datasets.streams.node import Pass
    from geotfr.datasets.streams.rows import Element
    from geotfr.records.batches import FeatureBatch
    from geotfr.records.stream import Compression

__all__ = ["PayloadFiles", "RecordFiles", "Turns"]

LARGE_RECORD_BYTES = 64 << 10
"""From this size of a file's first record on, records of plain files are read when they are asked for."""

FILE_BITS = 40
"""A record's number in a file takes so many bits of its number in the stream."""

RAW_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """How files are read.

    Attributes
    ----------
    compression
        ``auto``, or what they are.
    shuffle_files
        A seed for the files' order in each epoch; None is their own.
    cycle, block
        So many are open at a time, and give so many records in turn.
    """

    compression: Compression
    shuffle_files: int | None
    cycle: int
    block: int


class _Files(Source):
    """Files in their order, or in an order of each epoch; several may take turns."""

    def __init__(self, paths: Sequence[Path], turns: Turns) -> None:
        self._paths = tuple(map(os.fspath, paths))
        self._states = [file_state(path) for path in self._paths]
        self._turns = turns

    @property
    def name(self) -> str:
        sizes = sum(size for size, _ in self._states)
        names = [os.path.basename(path) for path in self._paths]  # noqa: PTH119  # texts
        told = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
        parts = [f"{len(names)} files, {sizes} bytes, {told}"]
        turns = self._turns
        parts += [] if turns.shuffle_files is None else [f"shuffle_files={turns.shuffle_files}"]
        parts += [] if turns.cycle == 1 else [f"cycle={turns.cycle}, block={turns.block}"]
        return f"stream({', '.join(parts)})"

    def read(self, at: Pass) -> Iterator[Rows]:
        order: Sequence[int] = range(len(self._paths))
        if self._turns.shuffle_files is not None:
            order = Draws(self._turns.shuffle_files, at.epoch).order(len(order)).tolist()
        yield from in_turns((self._file(number) for number in order), self._turns.cycle, self._turns.block)

    def _file(self, number: int) -> Iterator[Rows]:
        unchanged(self._paths[number], self._states[number])
        yield from self.blocks(number)

    @abstractmethod
    def blocks(self, number: int) -> Iterator[Rows]:
        """The records of one file."""


class PayloadFiles(_Files):
    """The payloads alone, as bytes."""

    def blocks(self, number: int) -> Iterator[Rows]:
        payloads: list[bytes] = []
        size = 0
        for payload in read_records(self._paths[number], compression=self._turns.compression):
            payloads.append(payload)
            size += len(payload)
            if size >= RAW_BYTES or len(payloads) >= NUMBERS_AT_ONCE:
                yield objects(payloads)
                payloads, size = [], 0
        if payloads:
            yield objects(payloads)


class RecordFiles(_Files):
    """The features of Examples.

    Parameters
    ----------
    features
        The features wanted, in this order; None is all.
    shapes
        Feature -> shape; others are flat.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        turns: Turns,
        *,
        features: Sequence[str] | None,
        shapes: Mapping[str, tuple[int, ...]],
    ) -> None:
        super().__init__(paths, turns)
        self._columns = Columns(features, shapes)
        self._indexed: dict[int, IndexedFeatures] = {}
        self._pool = ArrayPool()
        self._form = NumberedForm(self._read_batch, self._read_each)

    def blocks(self, number: int) -> Iterator[Rows]:
        path = self._paths[number]
        if self._has_large_records(path):
            count = len(self._of(number).records)
            for start in range(0, count, NUMBERS_AT_ONCE):
                records = np.arange(start, min(start + NUMBERS_AT_ONCE, count))
                yield Rows(records + (number << FILE_BITS), self._form)
            return
        for batch in read_features(path, names=self._columns.features, compression=self._turns.compression):
            yield self._columns.rows(batch)

    def _has_large_records(self, path: str) -> bool:
        with open_stream(path, self._turns.compression) as stream:
            header = bytearray(HEADER_BYTES)
            is_there = stream.compression == "none" and stream.readinto(memoryview(header)) == HEADER_BYTES
            return is_there and int.from_bytes(header[:8], "little") + FRAME_BYTES >= LARGE_RECORD_BYTES

    def _of(self, number: int) -> IndexedFeatures:
        """One file by record number; its index is kept."""
        found = self._indexed.get(number)
        if found is None:
            records = IndexedRecords(self._paths[number], hop_index(self._paths[number]))
            found = self._indexed[number] = IndexedFeatures(records, self._columns.features)
        return found

    def _batches(
        self, numbers: NDArray[np.int64], targets: Mapping[str, NDArray[Any]] | None = None
    ) -> Iterator[tuple[NDArray[np.intp], FeatureBatch]]:
        """The records ``numbers``, each once, with their places in it; but those that go to ``targets`` at once.

        The first record always comes, so that the targets can be made; they are looked at after it.
        """
        order = np.argsort(numbers, kind="stable")
        files = numbers[order] >> FILE_BITS
        is_first = True
        for number in np.unique(files).tolist():
            own = order[files == number]
            unchanged(self._paths[number], self._states[number])
            features = self._of(number)
            records = numbers[own] & ((1 << FILE_BITS) - 1)
            if is_first and targets is not None:
                for batch in features.batches(records[:1]):
                    yield own[:1], batch
                own, records = own[1:], records[1:]
            is_first = False
            if targets:
                is_left = ~features.fill(records, own, targets)
                own, records = own[is_left], records[is_left]
            done = 0
            for batch in features.batches(records):
                yield own[done : done + len(batch)], batch
                done += len(batch)

    def _read_batch(self, numbers: NDArray[np.int64]) -> Element:
        wanted, back = np.unique(numbers, return_inverse=True)
        if len(wanted) < len(numbers):
            return {name: values[back] for name, values in self._read_batch(wanted).items()}
        made: dict[str, NDArray[Any]] = {}
        for places, batch in self._batches(numbers, made):
            found = self._columns.of(batch)
            arrays = {name: values for name, values in found.items() if isinstance(values, np.ndarray)}
            if not made:
                made.update(
                    {name: self._pool.empty((len(numbers), *a.shape[1:]), a.dtype) for name, a in arrays.items()}
                )
            if len(arrays) < len(found) or _makes(arrays) != _makes(made):
                # Records that differ: as they are, or an error that says how.
                return collated(self._read_each(numbers))
            for name, values in arrays.items():
                made[name][places] = values
        return made

    def _read_each(self, numbers: NDArray[np.int64]) -> list[Element]:
        wanted, back = np.unique(numbers, return_inverse=True)
        found: dict[int, Element] = {}
        for places, batch in self._batches(wanted):
            found.update(zip(places.tolist(), self._columns.rows(batch).elements(), strict=True))
        return [found[place] for place in back.tolist()]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_indexed": {}}


def _makes(arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    """dtype and shape of one record's values, by name."""
    return {name: (array.dtype, array.shape[1:]) for name, array in arrays.items()}


class Columns:
    """Which features of a batch are wanted, and their shapes."""

    def __init__(self, features: Sequence[str] | None, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.features = None if features is None else tuple(features)
        self._shapes = shapes

    def of(self, batch: FeatureBatch) -> dict[str, NDArray[Any] | list[tuple[bytes, ...]]]:
        """The wanted features: arrays ``(n, *shape)``, views; lists of tuples for several bytes values."""
        made: dict[str, NDArray[Any] | list[tuple[bytes, ...]]] = {}
        for name in self.features or batch.features:
            if name not in batch.features:
                raise _missing(batch, name)
            values = batch.features[name]
            if values is None:
                values = np.empty((len(batch), 0), np.float32)
            if name in self._shapes and isinstance(values, np.ndarray):
                values = self._shaped(batch, name, values)
            made[name] = values
        return made

    def rows(self, batch: FeatureBatch) -> Rows:
        """The wanted features as a block, copied out of the reader's buffer."""
        found = self.of(batch)
        arrays = {name: values for name, values in found.items() if isinstance(values, np.ndarray)}
        is_plain = all(values.size for values in arrays.values())
        if len(arrays) == len(found) and found and is_plain:
            return packed(arrays)
        kept = {name: np.array(v) if isinstance(v, np.ndarray) else v for name, v in found.items()}
        return objects([{name: values[place] for name, values in kept.items()} for place in range(len(batch))])

    def _shaped(self, batch: FeatureBatch, name: str, values: NDArray[Any]) -> NDArray[Any]:
        shape = self._shapes[name]
        if values.shape[1] != math.prod(shape):
            raise RecordError(
                f"{batch.path}: record {int(batch.records[0])} at byte {int(batch.offsets[0])}: feature {name!r} has"
                f" {values.shape[1]} values; the shape {shape} is wanted"
            )
        return values.reshape(-1, *shape)


def _missing(batch: FeatureBatch, name: str) -> UsageError | RecordError:
    number = int(batch.records[0])
    where = f"{batch.path}: record {number} at byte {int(batch.offsets[0])}"
    # Read again, for the names that were left out.
    for whole in read_features(batch.path):
        if number in whole.records:
            known = tuple(cast("dict[str, Any]", whole.features))
            error = RecordError if number else UsageError
            return error(f"{where}: no feature {name!r}; there are {', '.join(known) or 'none'}{nearest(name, known)}")
    return RecordError(f"{where}: no feature {name!r}")

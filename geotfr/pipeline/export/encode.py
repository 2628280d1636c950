"""From a strip to records: cast, fill and seal whole runs of patches at once.

An encoder cuts its work into *units*, some patches or some pixel rows of one, and turns each into the bytes of whole
records. Three encoders share the cutting: Examples whose lists all have a fixed length (a template, filled through
views), Examples with int64 lists (varints: records of different lengths, put together from pieces), and a
SequenceExample for each pixel.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from geotfr.patches.cut import rectangles, runs
from geotfr.pipeline.export.chunks import Slots
from geotfr.pipeline.export.fill import LIST_DTYPE, EncodeCounts, count_overwritten, fill_channel, fill_feature
from geotfr.records.kind import Kind
from geotfr.records.layout import ExampleLayout, FeatureLayout, RecordLayout, SequenceLayout
from geotfr.records.varints import pack_varints, varint
from geotfr.records.varying import example_records, list_column, sequence_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from geotfr.patches import PatchLayout
    from geotfr.patches.cut import Strip
    from geotfr.patches.features import FeatureSpec
    from geotfr.pipeline.export.object_features import ObjectFeatures

__all__ = ["Encoded", "Encoder", "Unit", "make_encoder", "slots_of"]

UNIT_BYTES = 2**20
SMALL_RECORD_BYTES = 2**12
SMALL_UNIT_BYTES = 2**21
"""Units of small records. numpy lets go of the interpreter lock in every step: where steps take microseconds, threads
wake each other at each, and two take longer than one."""
# The longest varint: negative numbers take ten bytes.
_LONGEST_VARINT = 10
# Most integers of rasters take two or three.
_SHARE_OF_VARINTS = 4


@dataclass(slots=True)
class Encoded:
    """The framed records of one unit.

    Attributes
    ----------
    data
        Their bytes, one behind the other.
    ends
        Where each ends in ``data``.
    patches
        Patches that are complete with this unit.
    counts
        What encoding met.
    buffer
        Memory to give back to the encoder when ``data`` is no longer needed, or None.
    """

    data: NDArray[np.uint8]
    ends: NDArray[np.int64]
    patches: int
    counts: EncodeCounts
    buffer: NDArray[np.uint8] | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """Patches at ``positions`` of a strip, ascending; of each block the pixel rows ``rows``."""

    positions: NDArray[np.int64]
    rows: range


class Encoder(Protocol):
    """Turns patches into records.

    Attributes
    ----------
    record_bytes
        Bytes of a record with framing; the most it can have if ``is_even`` is False.
    usual_record_bytes
        The same, or what records that differ have about.
    is_even
        Whether all records have this length.
    records_per_patch
        1, or the pixels of a block.
    unit_patches
        The most patches of a unit.
    """

    record_bytes: int
    usual_record_bytes: int
    is_even: bool
    records_per_patch: int
    unit_patches: int

    def units(self, positions: NDArray[np.int64]) -> Iterator[Unit]:
        """The work on the patches at ``positions`` of a strip, in the order of the records."""
        ...

    def encode(self, strip: Strip, unit: Unit) -> Encoded:
        """The records of a unit; safe in several threads."""
        ...

    def recycle(self, encoded: Encoded) -> None:
        """Take back the memory of an encoded unit that is written."""
        ...


def slots_of(encoder: Encoder, strip: Strip, unit: Unit) -> Slots:
    """The places of a unit's records among all that the grid can have."""
    records, height = encoder.records_per_patch, strip.layout.block_yx[0]
    return Slots(
        numbers=strip.numbers(unit.positions),
        records_per_patch=records,
        first=records * unit.rows.start // height,
        each=records * len(unit.rows) // height,
    )


def make_encoder(
    layout: PatchLayout,
    features: Sequence[FeatureSpec],
    *,
    sequences: bool,
    patch_index: str | None,
    objects: ObjectFeatures | None = None,
) -> Encoder:
    """The encoder for these features, and for those of the ``objects`` in each patch."""
    if sequences:
        return _SequenceEncoder(layout, features)
    if objects is not None or any(feature.kind == Kind.INT64 for feature in features):
        return _VarintEncoder(layout, features, patch_index, objects)
    return _EvenEncoder(layout, features, patch_index)


def _unit_bytes(record_bytes: int) -> int:
    return SMALL_UNIT_BYTES if record_bytes <= SMALL_RECORD_BYTES else UNIT_BYTES


def _unit_patches(record_bytes: int, layout: PatchLayout) -> int:
    """How many patches make a unit: whole rows of them where several fit, as these are cut in one step."""
    fitting = max(_unit_bytes(record_bytes) // record_bytes, 1)
    return min(fitting // layout.columns * layout.columns or fitting, max(layout.count, 1))


class _Buffers:
    """Recycled memory of records of one layout: templates are written once."""

    def __init__(self, layout: RecordLayout, count: int) -> None:
        self._layout = layout
        self._count = count
        # Appending and popping are atomic: encoders in other threads take what the writer gives back.
        self._free: deque[NDArray[np.uint8]] = deque()

    def take(self) -> NDArray[np.uint8]:
        try:
            return self._free.popleft()
        except IndexError:
            return self._layout.allocate(self._count)

    def give(self, buffer: NDArray[np.uint8]) -> None:
        self._free.append(buffer)


class _EvenEncoder:
    """One Example a patch, all lists of fixed length."""

    is_even = True
    records_per_patch = 1

    def __init__(self, layout: PatchLayout, features: Sequence[FeatureSpec], patch_index: str | None) -> None:
        self._block = layout.block_yx
        self._features = features
        self._index_name = patch_index
        self._columns = layout.columns
        # The patch's number is the one value whose length varies: a layout for each number of its bytes.
        widths = range(1, len(varint(layout.count)) + 1) if patch_index else range(1)
        layouts = [self._layout(width) for width in widths]
        self.record_bytes = self.usual_record_bytes = layouts[-1].record_bytes
        self.is_even = len(layouts) == 1
        self.unit_patches = _unit_patches(self.record_bytes, layout)
        self._buffers = dict(zip(widths, (_Buffers(each, self.unit_patches) for each in layouts), strict=True))
        self._layouts = dict(zip(widths, layouts, strict=True))

    def _layout(self, index_bytes: int) -> ExampleLayout:
        pixels = self._block[0] * self._block[1]
        lists = [
            FeatureLayout(name=feature.name, kind=Kind(feature.kind), length=len(feature.planes) * pixels)
            for feature in self._features
        ]
        if self._index_name:
            lists.append(FeatureLayout(name=self._index_name, kind=Kind.INT64, length=index_bytes))
        return ExampleLayout(lists)

    def units(self, positions: NDArray[np.int64]) -> Iterator[Unit]:
        for start in range(0, len(positions), self.unit_patches):
            yield Unit(positions[start : start + self.unit_patches], range(self._block[0]))

    def encode(self, strip: Strip, unit: Unit) -> Encoded:
        if not self._index_name:
            return self._encode(strip, unit.positions, 0, None)
        numbers = strip.numbers(unit.positions)
        packed, widths = pack_varints(numbers[:, np.newaxis])
        starts = np.cumsum(widths) - widths
        parts = []
        for width in np.unique(widths).tolist():
            chosen = widths == width
            index = packed[starts[chosen][:, np.newaxis] + np.arange(width)]
            parts.append(self._encode(strip, unit.positions[chosen], width, index))
        return _joined(parts)

    def recycle(self, encoded: Encoded) -> None:
        if encoded.buffer is not None:
            for buffers, layout in zip(self._buffers.values(), self._layouts.values(), strict=True):
                if layout.record_bytes == encoded.buffer.shape[1]:
                    buffers.give(encoded.buffer)
                    return

    def _encode(
        self, strip: Strip, positions: NDArray[np.int64], width: int, index: NDArray[np.uint8] | None
    ) -> Encoded:
        layout = self._layouts[width]
        buffer = self._buffers[width].take()
        records = buffer[: len(positions)]
        counts = EncodeCounts()
        done = 0
        for run in rectangles(positions, len(strip.columns)):
            part = records[done : done + run.patches]
            done += run.patches
            for number, feature in enumerate(self._features):
                values = layout.values(part, number).reshape(*run.shape, len(feature.planes), *self._block)
                fill_feature(strip, run, feature, values, range(self._block[0]), counts)
            count_overwritten(strip, run, counts)
        if index is not None:
            layout.values(records, len(self._features))[:] = index
        layout.seal(records)
        ends = np.arange(1, len(records) + 1, dtype=np.int64) * layout.record_bytes
        return Encoded(records.reshape(-1), ends, len(records), counts, buffer)


class _VarintEncoder:
    """One Example a patch, some lists of varints or of objects: these decide how long a record is."""

    is_even = False
    records_per_patch = 1

    def __init__(
        self,
        layout: PatchLayout,
        features: Sequence[FeatureSpec],
        patch_index: str | None,
        objects: ObjectFeatures | None,
    ) -> None:
        self._block = layout.block_yx
        self._features = features
        self._index_name = patch_index
        self._objects = objects
        pixels = self._block[0] * self._block[1]
        self._lengths = [len(feature.planes) * pixels for feature in features]
        most = [
            length * (_LONGEST_VARINT if feature.kind == Kind.INT64 else 1)
            for feature, length in zip(features, self._lengths, strict=True)
        ]
        self.record_bytes = self._layout([*most, _LONGEST_VARINT]).record_bytes
        self.usual_record_bytes = self.record_bytes // _SHARE_OF_VARINTS
        if objects is not None:
            fixed = sum(size for size, feature in zip(most, features, strict=True) if feature.kind != Kind.INT64)
            self.record_bytes += objects.most_bytes
            self.usual_record_bytes = max(self.record_bytes // _SHARE_OF_VARINTS, fixed)
        self.unit_patches = _unit_patches(self.usual_record_bytes, layout)

    def _layout(self, sizes: Sequence[int]) -> ExampleLayout:
        lists = [
            FeatureLayout(name=feature.name, kind=Kind(feature.kind), length=size)
            for feature, size in zip(self._features, sizes, strict=False)
        ]
        if self._index_name:
            lists.append(FeatureLayout(name=self._index_name, kind=Kind.INT64, length=sizes[-1]))
        return ExampleLayout(lists)

    def units(self, positions: NDArray[np.int64]) -> Iterator[Unit]:
        for start in range(0, len(positions), self.unit_patches):
            yield Unit(positions[start : start + self.unit_patches], range(self._block[0]))

    def encode(self, strip: Strip, unit: Unit) -> Encoded:
        counts = EncodeCounts()
        columns = []
        for feature, length in zip(self._features, self._lengths, strict=True):
            values = np.empty((len(unit.positions), length), LIST_DTYPE[feature.kind])
            done = 0
            for run in rectangles(unit.positions, len(strip.columns)):
                part = values[done : done + run.patches].reshape(*run.shape, len(feature.planes), *self._block)
                done += run.patches
                fill_feature(strip, run, feature, part, range(self._block[0]), counts)
            columns.append(list_column(feature.name, Kind(feature.kind), values))
        for run in rectangles(unit.positions, len(strip.columns)):
            count_overwritten(strip, run, counts)
        if self._index_name:
            columns.append(list_column(self._index_name, Kind.INT64, strip.numbers(unit.positions)[:, np.newaxis]))
        if self._objects is not None:
            columns += self._objects.columns(strip.numbers(unit.positions))
        data, ends = example_records(columns, len(unit.positions))
        return Encoded(data, ends, len(unit.positions), counts)

    def recycle(self, encoded: Encoded) -> None:
        """Nothing to take back: each unit has memory of its own length."""


class _SequenceEncoder:
    """One SequenceExample a pixel: scalar bands in the context, array bands as lists of steps."""

    def __init__(self, layout: PatchLayout, features: Sequence[FeatureSpec]) -> None:
        self._block = layout.block_yx
        # The layout numbers the context first.
        self._features = sorted(features, key=lambda feature: feature.depth is not None)
        self.records_per_patch = self._block[0] * self._block[1]
        self.is_even = all(feature.kind != Kind.INT64 for feature in features)
        channels = sum(len(feature.planes) for feature in features if feature.kind == Kind.INT64)
        self._even = self._layout([1] * channels)
        most = self._layout([_LONGEST_VARINT] * channels)
        self.record_bytes = self.usual_record_bytes = most.record_bytes
        row_bytes, unit_bytes = self._block[1] * self.record_bytes, _unit_bytes(self.record_bytes)
        self._unit_rows = min(max(unit_bytes // row_bytes, 1), self._block[0])
        self.unit_patches = max(unit_bytes // (row_bytes * self._block[0]), 1)
        self._unit_records = self.unit_patches * self._unit_rows * self._block[1]
        self._buffers = _Buffers(self._even, self._unit_records)

    def _layout(self, sizes: Sequence[int]) -> SequenceLayout:
        """``sizes`` are the bytes of each int64 value, channel by channel."""
        rest = iter(sizes)
        context, lists = [], []
        for feature in self._features:
            steps = []
            for _ in feature.planes:
                length = next(rest) if feature.kind == Kind.INT64 else 1
                steps.append(FeatureLayout(name=feature.name, kind=Kind(feature.kind), length=length))
            if feature.depth is None:
                context += steps
            else:
                lists.append(steps)
        return SequenceLayout(context, lists)

    def units(self, positions: NDArray[np.int64]) -> Iterator[Unit]:
        whole = range(self._block[0])
        for start in range(0, len(positions), self.unit_patches):
            part = positions[start : start + self.unit_patches]
            for row in range(0, len(whole), self._unit_rows):
                yield Unit(part, whole[row : row + self._unit_rows])

    def encode(self, strip: Strip, unit: Unit) -> Encoded:
        counts = EncodeCounts()
        shape = len(unit.positions), len(unit.rows), self._block[1]
        count = shape[0] * shape[1] * shape[2]
        is_last = unit.rows.stop == self._block[0]
        patches = len(unit.positions) if is_last else 0
        if self.is_even:
            buffer = self._buffers.take()
            records = buffer[:count]
            slot = 0
            for feature in self._features:
                for channel in range(len(feature.planes)):
                    values = self._even.values(records, slot).reshape(shape)
                    self._fill(strip, unit, feature, channel, values, counts)
                    slot += 1
            self._even.seal(records)
            ends = np.arange(1, count + 1, dtype=np.int64) * self._even.record_bytes
            encoded = Encoded(records.reshape(-1), ends, patches, counts, buffer)
        else:
            context, lists = [], []
            for feature in self._features:
                steps = []
                for channel in range(len(feature.planes)):
                    values = np.empty(shape, LIST_DTYPE[feature.kind])
                    self._fill(strip, unit, feature, channel, values, counts)
                    steps.append(list_column(feature.name, Kind(feature.kind), values.reshape(count, 1)))
                if feature.depth is None:
                    context += steps
                else:
                    lists.append(steps)
            data, ends = sequence_records(context, lists, count)
            encoded = Encoded(data, ends, patches, counts)
        for run in runs(unit.positions, len(strip.columns)):
            if is_last:
                count_overwritten(strip, run, counts)
        return encoded

    @staticmethod
    def _fill(
        strip: Strip, unit: Unit, feature: FeatureSpec, channel: int, values: NDArray[Any], counts: EncodeCounts
    ) -> None:
        done = 0
        for run in runs(unit.positions, len(strip.columns)):
            part = values[done : done + run.count]
            done += run.count
            fill_channel(strip, run, feature, channel, part, unit.rows, counts)

    def recycle(self, encoded: Encoded) -> None:
        if encoded.buffer is not None:
            self._buffers.give(encoded.buffer)


def _joined(parts: Sequence[Encoded]) -> Encoded:
    """Units that follow each other, as one."""
    if len(parts) == 1:
        return parts[0]
    counts = EncodeCounts()
    for part in parts:
        counts.add(part.counts)
    starts = np.cumsum([0, *(len(part.data) for part in parts[:-1])])
    return Encoded(
        np.concatenate([part.data for part in parts]),
        np.concatenate([part.ends + start for part, start in zip(parts, starts, strict=True)]),
        sum(part.patches for part in parts),
        counts,
    )

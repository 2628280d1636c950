"""Continuing an export behind its last whole shard.

A shard ends anywhere within a strip. So what is noted at the start of each strip (its first patch, the records before
it, and the counts until then) goes into the journal with the last shard that ends within it. A later run begins with
that strip, counts its patches as any run does, and leaves out the records that the whole shards hold. Strips of
another height give the same records: the journal binds the bytes, not the workers or the memory.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from geotfr.errors import DamagedError
from geotfr.mixer.strict_json import understanding
from geotfr.pipeline.export.fill import EncodeCounts
from geotfr.pipeline.export.shards import WrittenShard
from geotfr.storage.journal import check_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geotfr.pipeline.export.unreadable import UnreadableMasked
    from geotfr.storage import AtomicFile, OutputSet

__all__ = ["CHUNKS", "COUNTS", "ExportJournal", "Tally"]

CHUNKS = [(int, int, int)]
"""The shape of a file's chunks in its facts."""

COUNTS = dict.fromkeys(asdict(EncodeCounts()), int)
"""The shape of :class:`EncodeCounts`."""

_FACTS = {
    "records": int,
    "is_oversized": bool,
    "dropped": [int],
    "unreadable": [(int, int)],
    "strip": {"patch": int, "records": int, "masked_pixels": int, "counts": COUNTS},
}


@dataclass(slots=True)
class Tally:
    """What the summary and the manifest tell of the pixels, for the strips so far.

    Attributes
    ----------
    counts
        What encoding met.
    masked_pixels
        Masked pixels of patches, margins not counted.
    records
        Records encoded.
    dropped
        Numbers of the patches over the masked threshold.
    """

    counts: EncodeCounts = field(default_factory=EncodeCounts)
    masked_pixels: int = 0
    records: int = 0
    dropped: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """The state at the start of a strip: its first patch, and what the tally held."""

    patch: int
    records: int
    masked_pixels: int
    dropped: int
    counts: dict[str, int]


class ExportJournal:
    """What an export notes of its strips and shards, and what a stopped one noted.

    Parameters
    ----------
    outputs
        The set; its journal is written.
    left
        What :meth:`geotfr.storage.OutputSet.begin` found.
    unreadable
        What counts the pixels that can't be read, where these are masked; it is told what the stopped run met.
    patches
        Numbers of the patches of the run.
    notes_chunks
        Whether to note each shard's chunks too: it will be put together with others.
    from_start
        Whether all strips are read again, those of whole shards too.

    Attributes
    ----------
    first_patch
        Where to begin.
    tally
        The counts of what is before it.
    shards
        The shards that are whole.
    """

    def __init__(
        self,
        outputs: OutputSet,
        left: Sequence[tuple[AtomicFile, dict[str, Any]]] = (),
        unreadable: UnreadableMasked | None = None,
        *,
        patches: range,
        notes_chunks: bool = False,
        from_start: bool = False,
    ) -> None:
        self._outputs = outputs
        self._notes_chunks = notes_chunks
        self._unreadable = unreadable
        self._marks: deque[_Mark] = deque()
        for file, facts in left:
            check_shape(facts, {**_FACTS, **({"chunks": CHUNKS} if notes_chunks else {})}, where=str(file.path))
        self.shards: list[WrittenShard] = []
        self.first_patch = patches.start
        self.tally = Tally()
        if left:
            with understanding(left[0][0].path, "journal of an export"):
                self._take_up(left)
        self._done = sum(shard.records for shard in self.shards)
        self._noted_drops = len(self.tally.dropped)
        if from_start:
            self.first_patch, self.tally = patches.start, Tally()
        self._noted_blocks = len(self._blocks())
        self.surplus = self._done - self.tally.records
        """Records from ``first_patch`` on that whole shards hold already."""
        if self.first_patch not in range(patches.start, patches.stop + 1) or self.surplus < 0:
            raise DamagedError(
                f"{left[-1][0].path}: its journal tells of patch {self.first_patch} and of {self.tally.records} records"
                " before it, which this export hasn't; run without --resume (resume=True)"
            )

    def _take_up(self, left: Sequence[tuple[AtomicFile, dict[str, Any]]]) -> None:
        """Go on behind the last strip that the stopped run noted."""
        for file, facts in left:
            self.shards.append(WrittenShard(file, records=int(facts["records"]), is_oversized=facts["is_oversized"]))
            self.tally.dropped += map(int, facts["dropped"])
            if self._unreadable is not None:
                self._unreadable.add((int(row), int(col)) for row, col in facts["unreadable"])
        last = left[-1][1]["strip"]
        self.first_patch = int(last["patch"])
        self.tally.counts = EncodeCounts(**{name: int(count) for name, count in last["counts"].items()})
        self.tally.masked_pixels, self.tally.records = int(last["masked_pixels"]), int(last["records"])
        shards = sum(shard.records for shard in self.shards)
        if not 0 <= self.tally.records <= shards or self.first_patch < 0:
            raise ValueError(f"{self.tally.records} records before patch {self.first_patch}, {shards} in the shards")

    def strip(self, first_patch: int) -> None:
        """Note that a strip begins, and that all before it is encoded."""
        tally = self.tally
        self._marks.append(
            _Mark(
                patch=first_patch,
                records=tally.records,
                masked_pixels=tally.masked_pixels,
                dropped=len(tally.dropped),
                counts=asdict(tally.counts),
            )
        )

    def finished(self, shard: WrittenShard) -> None:
        """Note that ``shard`` is whole."""
        self._done += shard.records
        while len(self._marks) > 1 and self._marks[1].records <= self._done:
            self._marks.popleft()
        mark, blocks = self._marks[0], self._blocks()
        self._outputs.finished(
            shard.file,
            {
                "records": shard.records,
                "is_oversized": shard.is_oversized,
                "dropped": self.tally.dropped[self._noted_drops : mark.dropped],
                # The next strips are read meanwhile: who reads them again meets the same blocks.
                "unreadable": blocks[self._noted_blocks :],
                "strip": {
                    "patch": mark.patch,
                    "records": mark.records,
                    "masked_pixels": mark.masked_pixels,
                    "counts": mark.counts,
                },
                **({"chunks": shard.chunks} if self._notes_chunks else {}),
            },
        )
        self._noted_drops, self._noted_blocks = mark.dropped, len(blocks)

    def _blocks(self) -> list[tuple[int, int]]:
        return [] if self._unreadable is None else self._unreadable.blocks

"""The rows of a patch table, as columns of numbers: what is known of patches before they have a place in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from geotfr.patches.statistics import PatchStatistics

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

__all__ = ["ClassCounts", "PatchRows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassCounts:
    """Pixels of each class: ``classes`` ``(k,) int64``, ascending, and ``counts`` ``(n, k) int64``."""

    classes: NDArray[np.int64]
    counts: NDArray[np.int64]

    @staticmethod
    def joined(parts: Sequence[ClassCounts]) -> ClassCounts:
        """The counts of the patches of all ``parts``, over the classes of any."""
        classes = np.unique(np.concatenate([part.classes for part in parts]))
        counts = np.zeros((sum(len(part.counts) for part in parts), len(classes)), np.int64)
        row = 0
        for part in parts:
            counts[row : row + len(part.counts), np.searchsorted(classes, part.classes)] = part.counts
            row += len(part.counts)
        return ClassCounts(classes=classes, counts=counts)

    def with_classes(self, values: Iterable[int]) -> ClassCounts:
        """The counts with a class for each of ``values``, 0 pixels where it had none."""
        missing = sorted(set(values) - set(self.classes.tolist()))
        empty = ClassCounts(classes=np.array(missing, np.int64), counts=np.zeros((0, len(missing)), np.int64))
        return ClassCounts.joined([self, empty]) if missing else self


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchRows:
    """What is in some patches.

    Attributes
    ----------
    numbers
        ``(n,) int64``: their numbers in the grid, row-major from 0.
    records
        Records of a patch: 1, or with ``sequence_data`` one a pixel of its block.
    lengths
        ``(n,) int64``: bytes of their records, framing included.
    digests
        ``(n, 32) uint8``: SHA-256 of the payload; where a patch has several records, of these with their framing.
    masked
        ``(n,) int64``: pixels that are masked in some band, margins not counted; None where nobody knows.
    statistics
        Feature -> statistics of its valid values, margins not counted.
    classes
        Label band -> its valid pixels of each class.
    """

    numbers: NDArray[np.int64]
    records: int
    lengths: NDArray[np.int64]
    digests: NDArray[np.uint8]
    masked: NDArray[np.int64] | None
    statistics: Mapping[str, PatchStatistics]
    classes: Mapping[str, ClassCounts]

    def __len__(self) -> int:
        return len(self.numbers)

    def with_classes(self, known: Mapping[str, Iterable[int]]) -> PatchRows:
        """The rows with the classes that are ``known`` of their label bands, 0 pixels where a class has none."""
        return replace(
            self, classes={name: counts.with_classes(known.get(name, ())) for name, counts in self.classes.items()}
        )

    @staticmethod
    def joined(parts: Sequence[PatchRows]) -> PatchRows:
        """The rows of ``parts``, at least one, one behind the other."""
        first = parts[0]
        masked = [part.masked for part in parts if part.masked is not None]
        return PatchRows(
            numbers=np.concatenate([part.numbers for part in parts]),
            records=first.records,
            lengths=np.concatenate([part.lengths for part in parts]),
            digests=np.concatenate([part.digests for part in parts]),
            masked=np.concatenate(masked) if len(masked) == len(parts) else None,
            statistics={
                name: PatchStatistics.joined([part.statistics[name] for part in parts]) for name in first.statistics
            },
            classes={name: ClassCounts.joined([part.classes[name] for part in parts]) for name in first.classes},
        )

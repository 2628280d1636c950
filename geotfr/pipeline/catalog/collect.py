"""The rows of a patch table, gathered while an export encodes: its pixels are in memory then."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from geotfr.errors import UsageError
from geotfr.patches.cut import runs
from geotfr.patches.rows import ClassCounts, PatchRows
from geotfr.patches.statistics import PatchStatistics, class_counts, empty_statistics, scratch_memory, statistics_of_all
from geotfr.records.digests import DIGEST_BYTES, payload_digests
from geotfr.vectors.extra import load_arrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from geotfr.options import ExportOptions
    from geotfr.patches.cut import Run, Strip
    from geotfr.patches.features import FeatureSpec
    from geotfr.pipeline.export.encode import Encoded, Encoder, Unit

__all__ = ["MOST_CLASSES", "RowCollector", "TableRequest", "known_classes", "rows_memory_bytes"]

MOST_CLASSES = 1024
"""More different values than this are no classes."""

_NO_RECORDS = np.empty((0, DIGEST_BYTES), np.uint8)
_NO_CLASSES = ClassCounts(classes=np.empty(0, np.int64), counts=np.empty((0, 0), np.int64))
# Number, length, digest, masked pixels; of each feature five numbers; and as much again while the rows are joined.
_ROW_BYTES = 8 + 8 + 32 + 8
_FEATURE_BYTES = 5 * 8
_ARROW_BYTES = 96 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """What is wanted of a patch table: the names of the bands whose values are classes."""

    class_bands: tuple[str, ...]

    @staticmethod
    def checked(*, patch_table: bool, class_bands: str | Sequence[str]) -> TableRequest | None:
        """The request; None where no table is wanted.

        Raises
        ------
        UsageError
            Classes without a table, or pyarrow isn't installed.
        """
        names = tuple(class_bands.split(",")) if isinstance(class_bands, str) else tuple(class_bands)
        names = tuple(name.strip() for name in names if name.strip())
        if not patch_table:
            if names:
                raise UsageError("class_bands: their shares stand in the patch table; ask for it with --patch-table")
            return None
        load_arrow()
        return TableRequest(class_bands=names)

    @staticmethod
    def of_export(
        options: ExportOptions, *, patch_table: bool, class_bands: str | Sequence[str]
    ) -> TableRequest | None:
        """As :meth:`checked`; without a word the shares of an export's labels are told."""
        # They are what a table is asked for. A channel of a collapsed tensor is no band of classes.
        told = patch_table and options.labels is not None and not options.collapse_bands
        classes = class_bands or ([options.labels.band] if told and options.labels else ())
        return TableRequest.checked(patch_table=patch_table, class_bands=classes)


def known_classes(labels: Mapping[str, Any] | None) -> dict[str, tuple[int, ...]]:
    """The values of the named classes of ``labels`` as the manifest tells them, and of the background, by label band.

    Nothing where no class has a name, or where there are more than :data:`MOST_CLASSES`.
    """
    classes = {} if labels is None else labels.get("classes")
    if labels is None or not isinstance(classes, dict) or not 0 < len(classes) < MOST_CLASSES:
        return {}
    values = (labels.get("background"), *classes.values())
    return {str(labels.get("band")): tuple(value for value in values if type(value) is int and abs(value) < 1 << 32)}


def rows_memory_bytes(patches: int, features: int) -> int:
    """What gathering the rows of so many patches takes, pyarrow loaded."""
    return _ARROW_BYTES + 2 * patches * (_ROW_BYTES + features * _FEATURE_BYTES)


class RowCollector:
    """Gathers the rows of a table: :meth:`rows_of` in any thread, :meth:`add` in the order of the records.

    Parameters
    ----------
    encoder
        What makes the records.
    features
        The features; their statistics are over the valid values of all channels.
    class_bands
        Names of features of one whole-numbered channel whose values are classes.
    known
        Class band -> values that are classes whether a pixel holds them or not.

    Raises
    ------
    UsageError
        A class band that isn't there, or holds no classes.
    """

    def __init__(
        self,
        encoder: Encoder,
        features: Sequence[FeatureSpec],
        class_bands: Sequence[str],
        known: Mapping[str, Iterable[int]],
    ) -> None:
        self._encoder = encoder
        self._known = known
        self._features = {feature.name: feature for feature in features}
        self._class_bands = tuple(class_bands)
        for name in class_bands:
            if name not in self._features:
                raise UsageError(f"class_bands: no band {name!r}; the bands are {', '.join(self._features)}")
            if len(self._features[name].planes) != 1:
                raise UsageError(f"class_bands: {name!r} has a depth; classes are values of a scalar band")
        self._parts: list[PatchRows] = []
        # A patch of many records may come in several units.
        self._memory = threading.local()
        self._open_digest = hashlib.sha256()
        self._open_bytes = 0

    def rows_of(self, strip: Strip, unit: Unit, encoded: Encoded) -> PatchRows | None:
        """The rows of the patches that are complete with a unit, None if none is; safe in several threads."""
        if not encoded.patches:
            return None
        is_single = self._encoder.records_per_patch == 1
        scratch = getattr(self._memory, "scratch", None)
        if scratch is None:
            scratch = self._memory.scratch = scratch_memory()
        # First, while the records are in the cache.
        digests = payload_digests(encoded.data, encoded.ends) if is_single else _NO_RECORDS
        found: list[list[PatchStatistics]] = []
        classes: list[tuple[ClassCounts, ...]] = []
        for run in runs(unit.positions, len(strip.columns)):
            channels = [_channels(strip, run, feature) for feature in self._features.values()]
            found.append(statistics_of_all(channels, scratch=scratch))
            classes.append(tuple(self._classes(strip, run, self._features[name]) for name in self._class_bands))
        return PatchRows(
            numbers=strip.numbers(unit.positions),
            records=self._encoder.records_per_patch,
            lengths=np.diff(encoded.ends, prepend=0) if is_single else np.empty(0, np.int64),
            digests=digests,
            masked=strip.masked_counts.ravel()[unit.positions],
            statistics={
                name: PatchStatistics.joined(each)
                for name, each in zip(self._features, zip(*found, strict=True), strict=True)
            },
            classes={
                name: ClassCounts.joined(each)
                for name, each in zip(self._class_bands, zip(*classes, strict=True), strict=False)
            },
        )

    def add(self, encoded: Encoded, rows: PatchRows | None) -> None:
        """Take the rows of a unit; those before it were taken."""
        if self._encoder.records_per_patch > 1:
            rows = self._with_records(encoded, rows)
        if rows is not None:
            self._parts.append(rows)

    def rows(self) -> PatchRows:
        """All rows, in the order of the records."""
        if self._parts:
            self._parts = [PatchRows.joined(self._parts).with_classes(self._known)]
            return self._parts[0]
        return PatchRows(
            numbers=np.empty(0, np.int64),
            records=self._encoder.records_per_patch,
            lengths=np.empty(0, np.int64),
            digests=_NO_RECORDS,
            masked=np.empty(0, np.int64),
            statistics={name: empty_statistics(0) for name in self._features},
            classes={
                name: _NO_CLASSES.with_classes(self._known[name]) for name in self._class_bands if name in self._known
            },
        )

    def _with_records(self, encoded: Encoded, rows: PatchRows | None) -> PatchRows | None:
        """Lengths and digests of patches of many records, which may be those of several units."""
        per_patch = self._encoder.records_per_patch
        if rows is None or len(rows) == 1:
            self._open_digest.update(encoded.data.data)
            self._open_bytes += len(encoded.data)
            if rows is None:
                return None
            digests, lengths = [self._open_digest.digest()], [self._open_bytes]
            self._open_digest, self._open_bytes = hashlib.sha256(), 0
        else:
            stops = encoded.ends[per_patch - 1 :: per_patch].tolist()
            starts = [0, *stops[:-1]]
            data = encoded.data.data
            digests = [hashlib.sha256(data[a:b]).digest() for a, b in zip(starts, stops, strict=True)]
            lengths = [b - a for a, b in zip(starts, stops, strict=True)]
        return PatchRows(
            numbers=rows.numbers,
            records=per_patch,
            lengths=np.array(lengths, np.int64),
            digests=np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIGEST_BYTES),
            masked=rows.masked,
            statistics=rows.statistics,
            classes=rows.classes,
        )

    @staticmethod
    def _classes(strip: Strip, run: Run, feature: FeatureSpec) -> ClassCounts:
        plane = feature.planes[0]
        assert plane is not None
        values = strip.cores(strip.planes[plane], run)
        if values.dtype.kind not in "iub":
            raise UsageError(f"class_bands: {feature.name!r} is {values.dtype}; classes are whole numbers")
        mask = strip.plane_valid[plane]
        classes, counts = class_counts(values, None if mask is None else strip.cores(mask, run))
        if len(classes) > MOST_CLASSES:
            raise UsageError(
                f"class_bands: {feature.name!r} has {len(classes):,} different values in some patches; up to"
                f" {MOST_CLASSES:,} are taken for classes"
            )
        return ClassCounts(classes=classes, counts=counts)


def _channels(strip: Strip, run: Run, feature: FeatureSpec) -> list[tuple[NDArray[Any], NDArray[np.bool_] | None]]:
    """The values of each of the feature's planes, and where they are valid, None for everywhere."""
    channels: list[tuple[NDArray[Any], NDArray[np.bool_] | None]] = []
    for plane in feature.planes:
        if plane is not None:
            mask = strip.plane_valid[plane]
            channels.append((strip.cores(strip.planes[plane], run), None if mask is None else strip.cores(mask, run)))
    return channels

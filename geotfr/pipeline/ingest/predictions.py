"""Prediction records, whatever their make, as patches in order.

Three makes: a record for each patch, in the patches' order; a record for each patch that carries the patch's number
(``patch_index``), in any order; and a record for each pixel (Examples or SequenceExamples), pixels row-major within
the patch. The first record tells the bands; every other one is checked against it.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import OutputError, RecordError, UsageError
from geotfr.integrity.files import is_sequence_file
from geotfr.options import nearest
from geotfr.patches.readings import Reading, UnreadableLengthError, reading_of
from geotfr.records.faults import Fault, ReadReport
from geotfr.records.parse.infer import infer_sequence_features
from geotfr.records.parse.sequence import parse_sequence_example
from geotfr.records.reader import count_records, read_features, read_records
from geotfr.storage.space import check_space

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from geotfr.mixer.sets import PredictionSet
    from geotfr.options import IngestOptions
    from geotfr.pipeline.ingest.output_grid import OutputGrid
    from geotfr.records.reader import FeatureBatch

__all__ = ["KnownRecords", "PatchValues", "PredictionBand", "Predictions", "ShardCount"]

_KINDS = {"f": "float", "i": "int64", "u": "bytes"}
_VALUE_BYTES = {"float": 4, "int64": 8, "bytes": 1}
_SEQUENCES_AT_ONCE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionBand:
    """A band of the output.

    Attributes
    ----------
    name
        The band's name.
    feature
        The feature that its values come from.
    channel
        Which of the feature's channels.
    kind, length
        Of the feature's values in a patch.
    reading
        How they are laid out.
    dtype
        The type of a raster that holds them, where a model gave another than that of the kind.
    """

    name: str
    feature: str
    channel: int
    kind: str
    length: int
    reading: Reading
    dtype: np.dtype[Any] | None = None


@dataclass(slots=True)
class PatchValues:
    """Consecutive patches: the number of the first, and their values by feature, ``(n, length)``.

    ``where`` tells which records they come from: a file and the number of the first.
    """

    first: int
    values: Mapping[str, NDArray[Any]]
    where: tuple[str, int]

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardCount:
    """What a reading of one whole shard tells.

    Attributes
    ----------
    records, good
        How many it holds, damaged ones too, and how many are left of them.
    report
        What was met.
    """

    records: int
    good: int
    report: ReadReport


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRecords:
    """What is known of a set's records when parts of it are read.

    Attributes
    ----------
    shards
        How many each shard holds, damaged ones too.
    pixels
        Records of a patch where a record is a pixel, else None.
    """

    shards: tuple[int, ...]
    pixels: int | None


@dataclass(slots=True)
class _Rows:
    """Consecutive records of one file: the number of the first in the set and in the file, values ``(n, length)``."""

    first: int
    first_in_file: int
    path: str
    values: dict[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))

    def within(self, numbers: range) -> _Rows | None:
        """Those whose numbers in the file are among ``numbers``."""
        start = max(numbers.start - self.first_in_file, 0)
        stop = min(numbers.stop - self.first_in_file, len(self))
        if start >= stop:
            return None
        values = {name: each[start:stop] for name, each in self.values.items()}
        return _Rows(self.first + start, self.first_in_file + start, self.path, values)


class Predictions:
    """The records of a set of predictions.

    Parameters
    ----------
    found, options, grid
        The set, how it is read, and where it lies.
    chosen_by
        What the caller's option of the chosen features is called, for messages.
    known
        What a reading of all shards told, to read some patches alone; None: all are read.
    takes_validity
        Whether the feature that tells which pixels are valid is a band without being named.

    Attributes
    ----------
    bands
        The bands of the output, in order.
    lost
        Patches without a record, after a whole pass with :meth:`patches`; those that the export left out aside.
    warnings
        What a user should know of the features that were taken, one line each.
    """

    def __init__(
        self,
        found: PredictionSet,
        options: IngestOptions,
        grid: OutputGrid,
        *,
        chosen_by: str = "bands",
        known: KnownRecords | None = None,
        takes_validity: bool = False,
    ) -> None:
        self._known = known
        self._takes_validity = takes_validity
        self.warnings: tuple[str, ...] = ()
        self._found = found
        self._chosen_by = chosen_by
        self._options = options
        self._grid = grid
        self._expected = found.mixer.total_patches - len(found.dropped)
        self._is_sequence = is_sequence_file(os.fspath(found.shards[0]))
        first = self._first_rows()
        self._kinds = {name: _kind_and_length(values) for name, values in first.values.items()}
        if not self._kinds:
            raise RecordError(
                f"{first.path}: record {first.first_in_file}: no features in it; predictions are expected, as a float"
                " feature for each band; write them again, with values"
            )
        self._pixels = self._pixels_per_patch(first) if known is None else known.pixels
        self.bands = self._bands(first)
        self._features = frozenset(band.feature for band in self.bands) | self._index_names
        self.lost = 0

    @property
    def _index_names(self) -> frozenset[str]:
        name = self._options.patch_index
        return frozenset() if name is None else frozenset((name,))

    @property
    def _exported_index(self) -> str | None:
        """The feature in which the export put the patch's number."""
        manifest = self._found.manifest
        return None if manifest is None else manifest.options.get("patch_index")

    @property
    def is_pixelwise(self) -> bool:
        """Whether a record is a pixel, not a patch."""
        return self._pixels is not None

    @property
    def patch_bytes(self) -> int:
        """Bytes of a patch's values."""
        return sum(_VALUE_BYTES[band.kind] * band.length for band in self.bands)

    def patches(
        self, report: ReadReport, columns: range | None = None, rows: range | None = None
    ) -> Iterator[PatchValues]:
        """All patches in ascending order, checked: each feature as in the first record, as many as the mixer says.

        ``columns`` is for sources that can leave patches out; here all are read, for all are counted. Patches of some
        ``rows`` alone are read where it is known how many records each shard holds.
        """
        del columns
        if rows is not None and self._known is not None:
            yield from self._some(rows, self._known, report)
        elif self._options.patch_index is not None:
            yield from self._indexed(report)
        elif self._pixels is not None:
            records = self._rows(report, self._expected * self._pixels)
            yield from self._at_their_places(self._pixelwise(records, self._pixels))
        else:
            yield from self._at_their_places(self._patchwise(report))

    def _some(self, rows: range, known: KnownRecords, report: ReadReport) -> Iterator[PatchValues]:
        """The patches of some rows, in ascending order."""
        first, stop = (self._rank(row * self._grid.columns) * (known.pixels or 1) for row in (rows.start, rows.stop))
        records = self._rows_between(range(first, stop), known.shards, report)
        if known.pixels is not None:
            yield from self._at_their_places(self._pixelwise(records, known.pixels))
        else:
            ranked = (PatchValues(each.first, each.values, (each.path, each.first_in_file)) for each in records)
            yield from self._at_their_places(ranked)

    def _rank(self, number: int) -> int:
        """How many patches before the patch ``number`` were exported."""
        dropped = np.array(sorted(self._found.dropped), np.int64)
        return number - int(np.searchsorted(dropped, number))

    def _patchwise(self, report: ReadReport) -> Iterator[PatchValues]:
        done = 0
        for rows in self._rows(report, self._expected):
            done += len(rows)
            yield PatchValues(rows.first, rows.values, (rows.path, rows.first_in_file))
        self.lost = self._expected - done

    def _at_their_places(self, ranked: Iterator[PatchValues]) -> Iterator[PatchValues]:
        """``ranked``, numbered among the patches that were exported, by their numbers in the grid."""
        if not self._found.dropped:
            yield from ranked
            return
        is_exported = np.ones(self._found.mixer.total_patches, bool)
        is_exported[list(self._found.dropped)] = False
        numbers = np.flatnonzero(is_exported)
        for patches in ranked:
            own = numbers[patches.first : patches.first + len(patches)]
            edges = [0, *(np.flatnonzero(np.diff(own) != 1) + 1).tolist(), len(own)]
            for start, stop in pairwise(edges):
                values = {name: each[start:stop] for name, each in patches.values.items()}
                yield PatchValues(int(own[start]), values, (patches.where[0], patches.where[1] + start))

    # Records in order, checked against the first and counted.

    def _rows(self, report: ReadReport, total: int) -> Iterator[_Rows]:
        if self._found.run is not None:
            yield from self._run(self._found.run, report)
            return
        first_of_file = 0
        for path in self._found.shards:
            records = 0
            for rows in self._file_rows(path, report):
                rows.first += first_of_file
                records = rows.first_in_file + len(rows)
                if rows.first + len(rows) > total:
                    raise self._too_many(path, total - first_of_file, total)
                yield rows
            records = max(records, _faulty_until(path, report))
            if not records:
                raise self._empty(path, total)
            first_of_file += records
        if first_of_file != total:
            raise self._too_few(first_of_file, total, report.faults)

    def _run(self, run: range, report: ReadReport) -> Iterator[_Rows]:
        """The raster's own records, among those of other rasters; shards behind them aren't looked at."""
        counts: list[int] = []
        while sum(counts) < run.stop:
            if len(counts) == len(self._found.shards):
                raise self._too_few(sum(counts), run.stop)
            counts.append(self.count(len(counts)).records)
        counts += [0] * (len(self._found.shards) - len(counts))
        for rows in self._rows_between(run, counts, report):
            rows.first -= run.start
            yield rows

    def _rows_between(self, wanted: range, shards: Sequence[int], report: ReadReport) -> Iterator[_Rows]:
        """The records with these numbers in the set, in order."""
        first_of_file = 0
        for path, records in zip(self._found.shards, shards, strict=True):
            inside = range(max(wanted.start - first_of_file, 0), min(wanted.stop - first_of_file, records))
            for each in self._file_rows(path, report, inside) if inside else ():
                rows = each.within(inside)
                if rows is not None:
                    rows.first += first_of_file
                    yield rows
            first_of_file += records

    def count(self, shard: int) -> ShardCount:
        """What the shard of this number, from 0, holds; read with its payloads only where damage isn't an error.

        Raises
        ------
        RecordError
            It is damaged, and that is an error.
        """
        path, report = self._found.shards[shard], ReadReport()
        if self._options.on_bad_record == "error":
            records = count_records(path, report=report)
            return ShardCount(records=records, good=records, report=report)
        records = good = 0
        for rows in self._file_rows(path, report):
            records, good = rows.first_in_file + len(rows), good + len(rows)
        return ShardCount(records=max(records, _faulty_until(path, report)), good=good, report=report)

    def known(self, counts: Sequence[ShardCount]) -> KnownRecords:
        """What the counts of all shards tell, in their order; sets :attr:`lost`.

        Raises
        ------
        RecordError
            They aren't as many as the mixer says, or a shard is empty.
        """
        total = self._expected * (self._pixels or 1)
        done = 0
        for path, count in zip(self._found.shards, counts, strict=True):
            if done + count.good > total:
                raise self._too_many(path, total - done, total)
            if not count.records:
                raise self._empty(path, total)
            done += count.records
        if done != total:
            raise self._too_few(done, total, [fault for count in counts for fault in count.report.faults])
        self.lost = 0 if self._pixels else total - sum(count.good for count in counts)
        return KnownRecords(shards=tuple(count.records for count in counts), pixels=self._pixels)

    def _file_rows(self, path: Path, report: ReadReport, numbers: range | None = None) -> Iterator[_Rows]:
        """The records of a file, or those of these numbers and some around them."""
        if self._is_sequence:
            yield from self._sequence_rows(path, numbers)
            return
        # Without a selection every feature is read, for one that only some records have must be told.
        names = None if self._options.bands is None else self._features
        policy = self._options.on_bad_record
        for batch in read_features(path, names=names, numbers=numbers, on_bad_record=policy, report=report):
            self._check(batch)
            # A skipped record leaves a gap in the numbers.
            edges = [0, *(np.flatnonzero(np.diff(batch.records) != 1) + 1).tolist(), len(batch)]
            for start, stop in pairwise(edges):
                number = int(batch.records[start])
                values: dict[str, Any] = {name: batch.features[name][start:stop] for name in self._features}  # type: ignore[index]
                yield _Rows(number, number, batch.path, values)

    def _sequence_rows(self, path: Path, numbers: range | None = None) -> Iterator[_Rows]:
        """Records of SequenceExamples: context values as they are, lists as (record, step)."""
        context, lists = infer_sequence_features(path, limit=1)
        payloads = read_records(path)
        number = 0
        while batch := list(islice(payloads, _SEQUENCES_AT_ONCE)):
            if numbers is not None and (number + len(batch) <= numbers.start or number >= numbers.stop):
                number += len(batch)
                continue
            names = [f"{path}: record {number + place}" for place in range(len(batch))]
            scalars, steps, lengths = parse_sequence_example(batch, context or None, lists or None, names)
            values: dict[str, Any] = {name: np.asarray(each).reshape(len(batch), -1) for name, each in scalars.items()}
            values |= {name: np.asarray(each).reshape(len(batch), -1) for name, each in steps.items()}
            for name, found in lengths.items():
                if not (found == found[0]).all():
                    bad = int(np.flatnonzero(found != found[0])[0])
                    raise RecordError(f"{names[bad]}: list {name!r} has {found[bad]} steps; the first has {found[0]}")
            yield _Rows(number, number, os.fspath(path), {name: _plain(each) for name, each in values.items()})
            number += len(batch)

    def _check(self, batch: FeatureBatch) -> None:
        """Refuse records whose features differ from the first record's in name, kind or length."""
        where = f"{batch.path}: record {batch.records[0]} at byte {batch.offsets[0]}"
        if self._options.bands is None:
            for name in batch.features:
                if name not in self._kinds:
                    raise RecordError(f"{where}: feature {name!r} is not in the first record; --bands chooses features")
        for name in sorted(self._features):
            if name not in batch.features:
                raise RecordError(
                    f"{where}: feature {name!r} is missing{nearest(name, batch.features)}; the first record has it"
                )
            kind, length = _kind_and_length(batch.features[name])
            if (kind, length) != self._kinds[name]:
                raise RecordError(
                    f"{where}: feature {name!r} has {length} {kind} values; the first record has"
                    f" {self._kinds[name][1]} {self._kinds[name][0]} values"
                )

    @property
    def _grid_words(self) -> str:
        """What tells the patches: a mixer, or a raster that another tool cut."""
        path, (width, height) = self._found.mixer_path, self._found.mixer.patch_xy
        if not self._found.is_cut_elsewhere:
            return f"the mixer {path}"
        partial = "counted (--edge pad)" if self._found.geobox is not None else "left out (--edge drop)"
        return f"{path} in patches of {width} x {height}, partial ones {partial},"

    def _empty(self, path: Path, total: int) -> RecordError:
        return RecordError(
            f"{path}: no records: an empty shard among {len(self._found.shards)}; expected {total} records in all;"
            " leave it out or write it again"
        )

    def _too_few(self, found: int, total: int, faults: Sequence[Fault] = ()) -> RecordError:
        advice = "a shard is missing, or these are the predictions of another export"
        if faults:
            # Behind a length that is damaged nothing is read, so nobody knows how many records lie there.
            advice = f"the first fault: {replace(faults[0], hint='')}; --on-bad-record repair looks behind it"
        return RecordError(
            f"{self._found.shards[-1]}: the last of {len(self._found.shards)} shards ends after {found} records;"
            f" {self._grid_words} expects {total}; {advice}"
        )

    def _too_many(self, path: Path, record: int, total: int) -> RecordError:
        found = sum(1 for _ in read_records(self._found.shards, on_bad_record="skip", report=ReadReport()))
        return RecordError(
            f"{path}: record {record} is one too many: {found} records in {len(self._found.shards)} shards;"
            f" {self._grid_words} expects {total}; a shard is named twice, or these belong to another export"
            + (
                ", or to a whole collection (--of-collection)"
                if self._found.manifest is not None and self._found.manifest.collection is not None
                else ""
            )
        )

    # A record for each pixel.

    def _pixelwise(self, records: Iterator[_Rows], pixels: int) -> Iterator[PatchValues]:
        held: list[_Rows] = []
        count = 0
        for rows in records:
            if held and rows.first != held[-1].first + len(held[-1]):
                raise RecordError(
                    f"{rows.path}: record {rows.first_in_file}: pixels before it are lost; write them again"
                )
            # The batch's memory is used again by the next one.
            held.append(_Rows(rows.first, rows.first_in_file, rows.path, {n: v.copy() for n, v in rows.values.items()}))
            count += len(rows)
            if count >= pixels:
                yield from self._whole_patches(held, pixels)
                rest = count % pixels
                last = held[-1]
                start = len(last) - rest
                held = []
                if rest:
                    kept = {name: values[start:] for name, values in last.values.items()}
                    held = [_Rows(last.first + start, last.first_in_file + start, last.path, kept)]
                count = rest

    def _whole_patches(self, held: list[_Rows], pixels: int) -> Iterator[PatchValues]:
        """The patches that the held pixels make whole; bands are channels that stand together."""
        count = sum(len(rows) for rows in held) // pixels
        values = {}
        for name in self._features:
            joined = np.concatenate([rows.values[name] for rows in held])[: count * pixels]
            values[name] = joined.reshape(count, -1)
        yield PatchValues(held[0].first // pixels, values, (held[0].path, held[0].first_in_file))

    # Records that carry their patch's number.

    def _indexed(self, report: ReadReport) -> Iterator[PatchValues]:
        """Records in any order: laid down in a file without name, at their patch's place, and read back in order."""
        total = self._found.mixer.total_patches
        name = self._options.patch_index or ""
        is_seen = np.zeros(total, bool)
        wanted = sorted(self._features - self._index_names)
        with tempfile.TemporaryFile() as file:
            spool = file.fileno()
            size = 0
            dtypes: dict[str, tuple[np.dtype[Any], int]] = {}
            for rows in self._rows(report, self._expected):
                numbers = self._numbers(rows, name, is_seen)
                if not dtypes:
                    dtypes = {key: (rows.values[key].dtype, rows.values[key].shape[1]) for key in wanted}
                    size = sum(dtype.itemsize * length for dtype, length in dtypes.values())
                    check_space(
                        Path(tempfile.gettempdir()),
                        size * self._expected,
                        what="the temporary file of patches out of order",
                        advice="let TMPDIR name another folder",
                    )
                for place, number in enumerate(numbers.tolist()):
                    data = b"".join(rows.values[key][place].tobytes() for key in wanted)
                    _write_all(spool, data, number * size)
            for number in np.flatnonzero(is_seen).tolist():
                data = _read_all(spool, size, number * size)
                values = {}
                start = 0
                for key, (dtype, length) in dtypes.items():
                    values[key] = np.frombuffer(data, dtype, length, start)[np.newaxis]
                    start += dtype.itemsize * length
                yield PatchValues(number, values, (f"the record of patch {number}", number))
        self.lost = self._expected - int(is_seen.sum())

    def _numbers(self, rows: _Rows, name: str, is_seen: NDArray[np.bool_]) -> NDArray[np.int64]:
        numbers = rows.values[name].reshape(-1)
        for place, number in enumerate(numbers.tolist()):
            where = f"{rows.path}: record {rows.first_in_file + place}: {name} {number}"
            if not 0 <= number < len(is_seen):
                raise RecordError(f"{where} is no patch of the mixer; allowed are 0 to {len(is_seen) - 1}")
            if is_seen[number]:
                raise RecordError(f"{where} stands in two records; each patch is expected once")
            is_seen[number] = True
        return numbers

    # What the first record tells.

    def _first_rows(self) -> _Rows:
        if self._is_sequence:
            if self._options.on_bad_record != "error":
                raise UsageError("on_bad_record: SequenceExamples are pixels; a lost one shifts the rest; use error")
            return next(self._sequence_rows(self._found.shards[0]))
        for path in self._found.shards:
            for batch in read_features(
                path, on_bad_record=self._options.on_bad_record, batch_bytes=1, report=ReadReport()
            ):
                values: dict[str, Any] = dict(batch.features)
                return _Rows(0, int(batch.records[0]), batch.path, values)
        raise RecordError(
            f"{self._found.shards[0]}: no records in {len(self._found.shards)} shards; predictions are expected"
        )

    def _pixels_per_patch(self, first: _Rows) -> int | None:
        """Pixels that records stand for one by one, the patch's or its block's; None if a record is a patch."""
        height, width = self._grid.patch_yx
        patch = height * width
        kernel = self._grid.kernel_yx or (1, 1)
        block = (height + kernel[0] // 2 * 2) * (width + kernel[1] // 2 * 2)
        if (block == 1 and not self._is_sequence) or self._options.per_patch or self._options.patch_index is not None:
            return None
        if not self._is_sequence and any(length != 1 for _, length in self._kinds.values()):
            return None
        if self._found.run is not None:
            raise RecordError(
                f"{first.path}: record {first.first_in_file}: one value a feature, and the shards are a collection's;"
                " records of whole patches are expected, or one value for each with --per-patch"
            )
        count = sum(
            1
            for _ in read_records(self._found.shards, verify_checksums=False, on_bad_record="skip", report=ReadReport())
        )
        for pixels in (patch, block):
            if count == pixels * self._expected:
                return pixels if pixels > 1 or self._is_sequence else None
        if count == self._expected and not self._is_sequence:
            raise RecordError(
                f"{first.path}: {count} records of one value a feature, one for each patch; --per-patch pixel makes a"
                " raster of a pixel for each patch, --per-patch fill fills the patches"
            )
        raise RecordError(
            f"{first.path}: {count} records of one value a feature; for one record a pixel {self._grid_words}"
            f" expects {patch * self._expected}"
            + (f" or, with margins, {block * self._expected}" if block != patch else "")
            + f", for one a patch {self._expected} records of {patch} values"
        )

    def _bands(self, first: _Rows) -> tuple[PredictionBand, ...]:
        bands = []
        taken = {name: value for name, value in first.values.items() if name not in self._index_names}
        record = f"{first.path}: record {first.first_in_file}"
        if self._options.patch_index is not None:
            self._check_index(first, self._options.patch_index)
        elif self._options.bands is None and self._exported_index in taken:
            raise RecordError(
                f"{record}: feature {self._exported_index!r} is the patch's number, as the manifest tells, and no"
                " prediction; 'geotfr ingest-predictions' takes records by it with"
                f" --patch-index {self._exported_index}, and leaves it out with --bands"
            )
        manifest = self._found.manifest
        validity = None if manifest is None or self._takes_validity else manifest.valid_feature
        if self._options.bands is None and validity in taken and len(taken) > 1:
            del taken[validity]
            self.warnings = (
                f"{validity!r} tells which pixels are valid, by the manifest, and is no prediction: it is left out;"
                " --bands takes it",
            )
        for name, feature in _selected(taken, self._options.bands, record, self._chosen_by):
            kind, length = self._kinds[feature]
            where = f"{record}: feature {feature!r}"
            if kind not in _KINDS.values():
                raise RecordError(f"{where}: {kind}; float, int64 or one value of raw bytes is expected")
            reading = self._reading(feature, length, where)
            for channel, band_name in enumerate(self._band_names(name, reading.channels, where)):
                bands.append(
                    PredictionBand(
                        name=band_name,
                        feature=feature,
                        channel=channel,
                        kind=kind,
                        length=length * (self._pixels or 1),
                        reading=reading,
                    )
                )
        _check_unique([band.name for band in bands])
        return tuple(bands)

    def _band_names(self, name: str, channels: int, where: str) -> Sequence[str]:
        if channels == 1:
            return (name,)
        names = self._options.class_names
        if names is None:
            return tuple(f"{name}_{channel}" for channel in range(channels))
        if len(names) != channels:
            raise UsageError(f"class_names: found {len(names)} names; {where} has {channels} bands; name each")
        return names

    def _check_index(self, first: _Rows, name: str) -> None:
        if name not in first.values:
            raise RecordError(
                f"{first.path}: record {first.first_in_file}: no feature {name!r}{nearest(name, first.values)};"
                " --patch-index names the feature that tells the patch's number"
            )
        if self._kinds[name] != ("int64", 1):
            kind, length = self._kinds[name]
            raise RecordError(f"{first.path}: feature {name!r} has {length} {kind} values; one int64 is expected")

    def _reading(self, feature: str, length: int, where: str) -> Reading:
        height, width = self._grid.patch_yx
        kernel = self._grid.kernel_yx
        if self._options.per_patch:
            return self._per_patch_reading(length, where)
        if self._pixels is not None:
            margin = (0, 0) if self._pixels == width * height or not kernel else (kernel[0] // 2, kernel[1] // 2)
            block = height + 2 * margin[0], width + 2 * margin[1]
            return Reading(block_yx=block, margin_yx=margin, channels=length, channels_last=True)
        try:
            return reading_of(
                length,
                (height, width),
                kernel,
                depth=self._depth(feature),
                channels=self._options.channels,
                kernel_is_asked=self._options.kernel_yx is not None,
                scale=Fraction(self._options.finer, self._options.coarser),
            )
        except UnreadableLengthError as error:
            if error.is_ambiguous:
                raise UsageError(f"{where}: {error}; the option named beside the right one decides") from error
            raise RecordError(f"{where}: {error}") from error

    def _per_patch_reading(self, length: int, where: str) -> Reading:
        """One value a patch, or one a band; whole patches may stand beside them where patches are filled."""
        constant = Reading(block_yx=self._grid.patch_yx, margin_yx=(0, 0), channels=length, is_constant=True)
        whole = self._whole_patch(length)
        if whole is None or length == len(self._options.class_names or ()):
            return constant
        others = [each for name, (_, each) in self._kinds.items() if name not in self._index_names]
        if self._options.per_patch == "fill" and not all(self._whole_patch(each) for each in others):
            return whole
        height, width = whole.block_yx
        raise UsageError(
            f"{where}: {length} values; with --per-patch {self._options.per_patch} it could be {length} bands of one"
            f" value a patch (--class-names names them), or {width} x {height} pixels of a patch (leave --per-patch"
            " out, or let --bands choose the features with one value)"
        )

    def _whole_patch(self, length: int) -> Reading | None:
        """The reading of ``length`` as the pixels of a patch, with its margins if the kernel is known."""
        width, height = self._found.mixer.patch_xy
        manifest = self._found.manifest
        kernel = self._options.kernel_yx or (manifest.kernel_yx if manifest else (1, 1))
        if length == 1:
            return None
        try:
            return reading_of(length, (height, width), kernel)
        except UnreadableLengthError:
            return None

    def _depth(self, feature: str) -> int | None:
        """Channels that a feature is known to have: as many as class names, or what the manifest tells of its name."""
        if self._options.class_names is not None:
            return len(self._options.class_names)
        manifest = self._found.manifest
        depths = {band.name: band.depth for band in manifest.bands} if manifest else {}
        return depths.get(feature)


def _selected(
    features: Mapping[str, Any], bands: tuple[str, ...] | None, where: str, option: str
) -> list[tuple[str, str]]:
    """(band name, feature) pairs, by the selection or all."""
    names = list(features)
    if not names:
        raise RecordError(f"{where}: no features; predictions are expected")
    if bands is None:
        return [(name, name) for name in names]
    pairs = []
    for text in bands:
        new, separator, old = text.partition("=")
        is_renamed = bool(separator) and text not in names
        wanted = old if is_renamed else text
        if wanted not in names and wanted.isdecimal() and 1 <= int(wanted) <= len(names):
            wanted = names[int(wanted) - 1]
        if wanted not in names:
            known = ", ".join(names[:12])
            raise UsageError(f"{option}: {wanted!r} is no feature of {where}{nearest(wanted, names)} (it has {known})")
        pairs.append((new if is_renamed else wanted, wanted))
    return pairs


def _check_unique(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"bands: {name!r} is selected twice; rename one with new={name}")


def _kind_and_length(values: Any) -> tuple[str, int]:
    if values is None:
        return "a feature without values", 0
    if isinstance(values, list):
        return f"a list of {len(values[0])} bytes values", len(values[0])
    return _KINDS[values.dtype.kind], values.shape[1]


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Bytes values of one byte each as uint8, ``(n, length)``; others as they are."""
    if values.dtype != object:
        return values
    data = b"".join(values.reshape(-1).tolist())
    if len(data) != values.size:
        raise RecordError("bytes values of a SequenceExample hold more than one byte each; one a pixel is expected")
    return np.frombuffer(data, np.uint8).reshape(values.shape)


def _faulty_until(path: Path, report: ReadReport) -> int:
    """The number behind the last damaged record of a file."""
    faulty = [fault.record for fault in report.faults if fault.path == os.fspath(path) and fault.record is not None]
    return max(faulty, default=-1) + 1


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        try:
            written = os.pwrite(descriptor, view, offset)
        except OSError as error:
            raise OutputError(
                f"{tempfile.gettempdir()}: the temporary file of patches out of order can't be written:"
                f" {error.strerror}; TMPDIR names another folder"
            ) from error
        view, offset = view[written:], offset + written


def _read_all(descriptor: int, size: int, offset: int) -> bytes:
    parts = []
    while size:
        part = os.pread(descriptor, size, offset)
        if not part:
            raise RecordError("the temporary file of patches out of order ended early; is the disk full?")
        parts.append(part)
        size, offset = size - len(part), offset + len(part)
    return b"".join(parts)

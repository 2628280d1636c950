"""Verify record files: framing, both checksums, decoding, lengths, counts, digests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geotfr.errors import GeotfrError
from geotfr.integrity.files import FileSummary, is_sequence_file, read_examples, read_sequences
from geotfr.integrity.inputs import Inputs, find_inputs
from geotfr.records.faults import Fault, ReadReport
from geotfr.records.summed import FileSum
from geotfr.storage.digest import file_crc32c

if TYPE_CHECKING:
    import os

    from geotfr.mixer import Manifest, Mixer, ShardInfo
    from geotfr.records.reader import FeatureBatch
    from geotfr.records.stream import Compression

    PathLike = str | os.PathLike[str]

__all__ = ["VerifyResult", "verify"]

_ADVICE = "fetch or export the file again"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """What a verification found.

    Attributes
    ----------
    files
        Those that could be opened, in order.
    records
        Whole records in all of them.
    expected_records
        As many as the mixer or the manifest announces; None without both.
    faults
        Everything that is wrong, at most 1,000 for each file.
    fault_count
        How many faults there are.
    notes, warnings
        What is harmless, and what a user should know.
    unread_files
        How many files couldn't be opened; each is a fault.
    """

    files: tuple[FileSummary, ...]
    records: int
    expected_records: int | None
    faults: tuple[Fault, ...]
    fault_count: int
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    unread_files: int = 0

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong."""
        return self.fault_count == 0

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "is_good": self.is_good,
            "records": self.records,
            "expected_records": self.expected_records,
            "files": [file.to_dict() for file in self.files],
            "fault_count": self.fault_count,
            "faults": [fault.to_dict() for fault in self.faults],
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }

    def to_text(self) -> str:
        """For a person: one line for each fault, then a summary."""
        size = sum(file.file_bytes for file in self.files)
        # The hints of a fault say to verify.
        lines = [str(replace(fault, hint="")) for fault in self.faults]
        if self.fault_count > len(lines):
            lines.append(f"... and {self.fault_count - len(lines)} faults more")
        state = "good" if self.is_good else f"{self.fault_count} fault{'s' if self.fault_count != 1 else ''}"
        lines.append(f"{len(self.files) + self.unread_files} files, {size} bytes, {self.records} records: {state}")
        return "\n".join(lines)


def verify(
    paths: PathLike | Sequence[PathLike],
    *,
    compression: Compression = "auto",
    max_record_bytes: int | None = None,
) -> VerifyResult:
    """Read everything and tell everything that is wrong; raises only where there is nothing to read.

    Each record's framing and both checksums are checked, and that its payload is an Example (or a
    SequenceExample). A mixer or a manifest, named or found beside, also tells the number of records; the lengths of
    each feature must then be equal in all of them. A manifest tells each shard's size, records and CRC32C too.

    Parameters
    ----------
    paths
        Record files, folders, a mixer, a manifest. A manifest or a mixer alone stands for its shards.
    compression, max_record_bytes
        As in :func:`geotfr.read_records`.

    Raises
    ------
    MissingInputError, UsageError
        No files, or several sets at once.
    DamagedError
        A mixer or manifest that can't be read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> record = bytes.fromhex("16000000000000004f61be280a140a120a026231120c120a0a080000c03f000000404115a86a")
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.tfrecord"
    ...     _ = path.write_bytes(record * 3)
    ...     verify(path).to_text()
    '1 files, 114 bytes, 3 records: good'
    """
    inputs = find_inputs(paths)
    check = _Check(inputs, compression, max_record_bytes)
    for path in inputs.shards:
        check.shard(path)
    check.whole_set()
    return check.result()


class _Check:
    """The running state of a verification."""

    def __init__(self, inputs: Inputs, compression: Compression, max_record_bytes: int | None) -> None:
        self._inputs = inputs
        self._compression: Compression = compression
        self._max_record_bytes = max_record_bytes
        self._sums = FileSum()
        self._report = ReadReport(faults=list(inputs.faults), fault_count=len(inputs.faults))
        self._faults: list[Fault] = []
        self._fault_count = 0
        self._files: list[FileSummary] = []
        self._shapes: dict[str, tuple[str, tuple[int, ...]]] | None = None
        self._has_shapes = inputs.mixer is not None or inputs.manifest is not None
        listed = inputs.manifest.shards if inputs.manifest is not None else ()
        self._listed = {shard.name: shard for shard in listed}
        self._lists = () if inputs.manifest is None else inputs.manifest.object_features

    def shard(self, path: Path) -> None:
        """Check one file; faults of each are kept up to their own limit."""
        report = self._report
        try:
            self._read(str(path))
        except GeotfrError as error:
            # Messages begin with the path; the fault says it itself.
            report.add_fault(Fault(path=str(path), problem=str(error).removeprefix(f"{path}: ")))
        else:
            if path.name in self._listed:
                self._compare(path, self._listed[path.name], self._files[-1])
            elif self._listed:
                report.warnings.append(f"{path}: not in the manifest; it is no part of the set")
        self._faults += report.faults
        self._fault_count += report.fault_count
        report.faults, report.fault_count = [], 0

    def _read(self, path: str) -> None:
        self._sums = FileSum()
        options: dict[str, Any] = {
            "compression": self._compression,
            "max_record_bytes": self._max_record_bytes,
            "sums": self._sums,
        }
        if is_sequence_file(path, self._compression):
            summary = read_sequences(path, self._report, lambda _: None, **options)
        else:
            summary = read_examples(path, self._report, self._batch, **options)
        self._files.append(summary)
        if summary.records == 0 and self._report.fault_count == 0:
            self._report.warnings.append(f"{path}: no records: an empty shard")

    def _batch(self, batch: FeatureBatch) -> None:
        if not self._has_shapes:
            return
        shapes = batch.shapes()
        shapes |= {name: ("list", ()) for name in self._lists if name in shapes}
        if self._shapes is None:
            self._shapes = shapes
        elif shapes != self._shapes:
            self._report.add_fault(
                Fault(
                    path=batch.path,
                    record=int(batch.records[0]),
                    offset=int(batch.offsets[0]),
                    problem=_difference(self._shapes, shapes),
                    hint="all patches of a set have one layout; export them again",
                )
            )

    def _compare(self, path: Path, listed: ShardInfo, found: FileSummary) -> None:
        """A shard against its line in the manifest."""
        if found.file_bytes != listed.bytes:
            self._wrong(path, f"{found.file_bytes} bytes, the manifest says {listed.bytes}")
        if found.records != listed.records:
            self._wrong(path, f"{found.records} records, the manifest says {listed.records}")
        # Read again where damage kept some bytes from being read.
        crc = self._sums.crc_of(found.file_bytes)
        digest = f"{file_crc32c(path) if crc is None else crc:08x}"
        if digest != listed.crc32c:
            self._wrong(path, f"CRC32C of the file is {digest}, the manifest says {listed.crc32c}")

    def _wrong(self, path: Path, problem: str) -> None:
        self._report.add_fault(Fault(path=str(path), problem=problem, hint=_ADVICE))

    def whole_set(self) -> None:
        """Check what only all files together tell."""
        inputs = self._inputs
        where = inputs.manifest_path or inputs.mixer_path or Path()
        named = {path.name for path in inputs.shards}
        for name in self._listed:
            if name not in named:
                self._wrong(where, f"the shard {name} of the manifest is not there")
        self._count(where, sum(file.records for file in self._files))
        self._faults += self._report.faults
        self._fault_count += self._report.fault_count

    def _count(self, where: Path, records: int) -> None:
        """Compare the whole records of all files with those that the manifest and the mixer announce."""
        inputs = self._inputs
        run = None if inputs.manifest is None else inputs.manifest.run
        if run is not None:
            # The rest are records of other rasters.
            if records < run.stop:
                self._wrong(where, f"records up to {run.stop} were written, {records} are whole")
            return
        if inputs.manifest is not None and records != inputs.manifest.records:
            self._wrong(where, f"{inputs.manifest.records} records were written, {records} are whole")
        if inputs.mixer is not None and records != _expected(inputs, records):
            few = "too few" if records < inputs.mixer.total_patches else "too many"
            self._wrong(
                inputs.mixer_path or Path(),
                f"totalPatches is {inputs.mixer.total_patches}, the shards hold {records} whole records: {few}",
            )

    def result(self) -> VerifyResult:
        """What was found."""
        return VerifyResult(
            files=tuple(self._files),
            records=sum(file.records for file in self._files),
            expected_records=_expected(self._inputs, sum(file.records for file in self._files)),
            faults=tuple(self._faults),
            fault_count=self._fault_count,
            notes=tuple(self._report.notes),
            warnings=tuple(self._report.warnings),
            unread_files=len(self._inputs.shards) - len(self._files),
        )


def _expected(inputs: Inputs, records: int) -> int | None:
    manifest: Manifest | None = inputs.manifest
    if manifest is not None:
        # A raster's shards may hold other rasters' records too.
        return manifest.records if manifest.run is None else sum(shard.records for shard in manifest.shards)
    if inputs.mixer is None:
        return None
    return records if _fits(inputs.mixer, records) else inputs.mixer.total_patches


def _fits(mixer: Mixer, records: int) -> bool:
    """Whether so many records are a mixer's patches: one each, or one for each pixel of a patch or a larger block."""
    pixels, rest = divmod(records, mixer.total_patches)
    patch = mixer.patch_xy[0] * mixer.patch_xy[1]
    return not rest and (pixels == 1 or pixels >= patch > 1)


def _difference(first: dict[str, tuple[str, tuple[int, ...]]], shapes: dict[str, tuple[str, tuple[int, ...]]]) -> str:
    """What distinguishes a record from the first one of its set, the order of keys aside: it differs by writer."""
    for key, (kind, shape) in first.items():
        if key not in shapes:
            return f"the feature {key!r} is missing; the first record has {', '.join(first)}"
        if shapes[key] != (kind, shape):
            other_kind, other = shapes[key]
            return (
                f"the feature {key!r} has {_length(other)} values of kind {other_kind}, the first record"
                f" {_length(shape)} of kind {kind}"
            )
    added = next(key for key in shapes if key not in first)
    return f"the feature {added!r} is not in the first record, which has {', '.join(first)}"


def _length(shape: tuple[int, ...]) -> int:
    return shape[0] if shape else 0

"""Look into record files: what they are, what they hold, and the code that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from geotfr.errors import RecordError, UsageError
from geotfr.integrity.files import FileSummary, is_sequence_file
from geotfr.integrity.gather import ExampleGatherer, KeyInfo, SequenceGatherer
from geotfr.integrity.inputs import find_inputs
from geotfr.mixer import is_mixer, read_mixer
from geotfr.records.faults import Fault, ReadReport

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from geotfr.mixer import Mixer
    from geotfr.records.parse.code import Target
    from geotfr.records.parse.specs import Feature
    from geotfr.records.stream import Compression

    PathLike = str | os.PathLike[str]

__all__ = ["InspectResult", "inspect", "parsing_code_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectResult:
    """What the files hold.

    Attributes
    ----------
    files
        In natural order.
    message
        ``Example`` or ``SequenceExample``.
    records
        Whole records in all files.
    keys
        In the order in which records bring them.
    mixer
        The mixer that was named or lies beside; or None.
    samples
        The first records: key -> kind, number of values, the first of them.
    faults, fault_count
        Damage that was met; ``geotfr verify`` tells all of it.
    notes, warnings
        What is harmless, and what a user should know.
    """

    files: tuple[FileSummary, ...]
    message: str
    records: int
    keys: tuple[KeyInfo, ...]
    mixer: Mixer | None
    samples: tuple[dict[str, Any], ...]
    faults: tuple[Fault, ...]
    fault_count: int
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "message": self.message,
            "records": self.records,
            "files": [file.to_dict() for file in self.files],
            "keys": [key.to_dict() for key in self.keys],
            "mixer": None if self.mixer is None else asdict(self.mixer),
            "samples": list(self.samples),
            "fault_count": self.fault_count,
            "faults": [fault.to_dict() for fault in self.faults],
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }

    def to_text(self) -> str:
        """For a person: files, keys, samples, faults."""
        lines = []
        for file in self.files:
            members = "" if file.members is None else f", {file.members} members"
            lines.append(
                f"{file.path}: {file.compression}{members}, {file.records} {self.message}s,"
                f" {file.file_bytes} bytes ({file.record_bytes} uncompressed)"
            )
        rows = [("feature", "kind", "in", "values", "range", "NaN", "shape"), *map(_row, self.keys)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines += [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        for sample in self.samples:
            lines.append(f"{sample['path']}: record {sample['record']} at byte {sample['offset']}")
            lines += [f"  {key}: {_shown(value)}" for key, value in sample["features"].items()]
        lines += [f"damaged: {fault}" for fault in self.faults[:10]]
        if self.fault_count > 10:
            lines.append(f"damaged: {self.fault_count - 10} places more; run 'geotfr verify'")
        return "\n".join(lines)


def inspect(
    paths: PathLike | Sequence[PathLike],
    *,
    records: int = 0,
    compression: Compression = "auto",
    max_record_bytes: int | None = None,
) -> InspectResult:
    """What the record files hold; damage is told and read around.

    Parameters
    ----------
    paths
        Record files, folders, a mixer or a manifest.
    records
        How many of the first records to give as samples.
    compression, max_record_bytes
        As in :func:`geotfr.read_records`.

    Raises
    ------
    RecordError
        A file that is no TFRecord file at all; files of both message types at once.
    MissingInputError, UsageError
        No files, or several sets at once.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> record = bytes.fromhex("16000000000000004f61be280a140a120a026231120c120a0a080000c03f000000404115a86a")
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.tfrecord"
    ...     _ = path.write_bytes(record * 3)
    ...     key = inspect(path).keys[0]
    >>> key.key, key.kind, key.presence, key.max_length, key.low, key.high
    ('b1', 'float', 1.0, 2, 1.5, 2.0)
    """
    inputs = find_inputs(paths)
    mixer = inputs.mixer or _mixer_beside(inputs.shards)
    sequences = [path for path in inputs.shards if is_sequence_file(str(path), compression)]
    if sequences and len(sequences) < len(inputs.shards):
        raise UsageError(f"{sequences[0]}: holds SequenceExamples, other files Examples; inspect them apart")
    report = ReadReport()
    gather: ExampleGatherer | SequenceGatherer = (SequenceGatherer if sequences else ExampleGatherer)(records)
    files: list[FileSummary] = []
    empty: list[str] = []
    for path in inputs.shards:
        faults = report.fault_count
        files.append(gather.read(str(path), report, compression=compression, max_record_bytes=max_record_bytes))
        # A damaged file may have had records.
        if not files[-1].records and report.fault_count == faults:
            empty.append(f"{path}: no records: an empty shard")
    count = sum(file.records for file in files)
    return InspectResult(
        files=tuple(files),
        message=gather.message,
        records=count,
        keys=tuple(gather.keys(count, None if mixer is None else mixer.patch_xy)),
        mixer=mixer,
        samples=tuple(gather.samples),
        faults=(*inputs.faults, *report.faults),
        fault_count=len(inputs.faults) + report.fault_count,
        notes=tuple(report.notes),
        warnings=(*report.warnings, *empty),
    )


def _mixer_beside(shards: Sequence[Path]) -> Mixer | None:
    """The one mixer in the shards' folder, if there is just one and they share a folder."""
    folders = {path.parent for path in shards}
    if len(folders) != 1:
        return None
    mixers = [path for path in folders.pop().glob("*.json") if path.is_file() and is_mixer(path)]
    return read_mixer(mixers[0]) if len(mixers) == 1 else None


def _row(key: KeyInfo) -> tuple[str, ...]:
    lengths = _span(key.min_length, key.max_length)
    if key.min_steps is not None:
        lengths = f"{_span(key.min_steps, key.max_steps)} steps of {lengths}"
    if key.min_bytes is not None:
        lengths += f" of {_span(key.min_bytes, key.max_bytes)} bytes"
    return (
        key.key,
        key.kind,
        f"{key.presence:.0%}",
        lengths,
        "" if key.low is None else f"{key.low:.6g} to {key.high:.6g}",
        "" if key.nan_share is None else f"{key.nan_share:.1%}",
        "" if key.shape is None else "x".join(map(str, key.shape)),
    )


def _span(least: int | None, most: int | None) -> str:
    return str(least or 0) if least == most else f"{least} to {most}"


def _shown(sample: dict[str, Any]) -> str:
    if "steps" in sample:
        return f"{sample['steps']} steps: " + " | ".join(map(_shown, sample["values"]))
    values = ", ".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in sample["values"])
    more = ", ..." if sample["length"] > len(sample["values"]) else ""
    return f"{sample['kind']} ({sample['length']}): {values}{more}"


def parsing_code_of(result: InspectResult, target: Target) -> str:
    """The script that reads the inspected files; ``target`` is ``tf``, ``geotfr`` or ``torch``.

    Raises
    ------
    UsageError
        Files of several compressions for TensorFlow, of SequenceExamples, or without records; keys of several kinds.
    RecordError
        Damaged files without a whole record.
    """
    from geotfr.records.parse.code import parsing_code
    from geotfr.records.parse.specs import FixedLenFeature, VarLenFeature

    if result.faults and not result.records:
        raise RecordError(f"{result.faults[0]}; no whole record is left to make code for")
    if result.message != "Example" or not result.records:
        raise UsageError(f"{result.files[0].path}: no Examples in it; code is made for files of Examples")
    compressions = {file.compression for file in result.files}
    if target == "tf" and (len(compressions) > 1 or "zlib" in compressions):
        raise UsageError("TensorFlow reads files of one compression, none or gzip, at a time; name those of one kind")
    features: dict[str, Feature] = {}
    for key in result.keys:
        kinds = [kind for kind in key.kind.split("|") if kind != "none"]
        if len(kinds) > 1:
            raise UsageError(f"feature {key.key!r} is of several kinds ({key.kind}); read the files apart")
        if not kinds:
            continue
        dtype = {"float": "float32", "int64": "int64", "bytes": "bytes"}[kinds[0]]
        length = key.max_length if key.presence == 1 and key.min_length == key.max_length else None
        if not length:
            features[key.key] = VarLenFeature(dtype)
        elif kinds[0] == "bytes":
            features[key.key] = FixedLenFeature([] if length == 1 else [length], dtype)
        else:
            features[key.key] = FixedLenFeature(list(key.shape or (length,)), dtype)
    paths = [file.path for file in result.files]
    return parsing_code(features, paths, target=target, is_gzip="gzip" in compressions)

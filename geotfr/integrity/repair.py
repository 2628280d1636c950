"""Save the whole records of a damaged file into a new one."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from geotfr.errors import UsageError
from geotfr.flags import checks_flags
from geotfr.records.faults import Fault, ReadReport
from geotfr.records.framing import RecordBlocks
from geotfr.records.gzip import codec
from geotfr.records.stream import open_stream
from geotfr.storage import atomic_output
from geotfr.storage.index_files import forget_index
from geotfr.stores.path import input_path, is_local, output_path

if TYPE_CHECKING:
    from geotfr.records.stream import Compression

    PathLike = str | os.PathLike[str]

__all__ = ["RepairResult", "repair"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairResult:
    """What was saved and what was lost.

    Attributes
    ----------
    path, output
        The damaged file, and the new one.
    records
        Whole records written.
    lost_bytes
        Bytes of the uncompressed file that belong to no whole record, as far as they are known.
    faults, fault_count
        The damaged places; the first 1,000 of them, and how many there are.
    notes, warnings
        What is harmless, and what a user should know.
    """

    path: str
    output: str
    records: int
    lost_bytes: int
    faults: tuple[Fault, ...]
    fault_count: int
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "path": self.path,
            "output": self.output,
            "records": self.records,
            "lost_bytes": self.lost_bytes,
            "fault_count": self.fault_count,
            "faults": [fault.to_dict() for fault in self.faults],
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }

    def to_text(self) -> str:
        """For a person: what is lost, then what is saved."""
        lines = [f"lost: {replace(fault, hint='')}" for fault in self.faults]
        if self.fault_count > len(self.faults):
            lines.append(f"lost: {self.fault_count - len(self.faults)} places more")
        lines.append(
            f"{self.output}: {self.records} whole records; {self.fault_count} damaged places,"
            f" {self.lost_bytes} bytes lost"
        )
        return "\n".join(lines)


@checks_flags
def repair(
    path: PathLike,
    output: PathLike,
    *,
    compression: Compression = "auto",
    max_record_bytes: int | None = None,
    overwrite: bool = False,
) -> RepairResult:
    """Write the whole records of ``path`` to the new file ``output``, byte for byte and in order.

    A record is whole if its length and its payload have the checksums they tell. ``output`` is gzip if its name ends
    in ``.gz``, else plain; ``path`` isn't changed.

    Raises
    ------
    UsageError
        ``output`` is ``path`` itself.
    RecordError
        Not a TFRecord file at all.
    OutputError
        ``output`` can't be written, or exists and ``overwrite`` is False.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> record = bytes.fromhex("16000000000000004f61be280a140a120a026231120c120a0a080000c03f000000404115a86a")
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.tfrecord"
    ...     _ = path.write_bytes(record * 3)
    ...     _ = path.write_bytes(record * 2 + record[:30])
    ...     result = repair(path, Path(folder) / "whole.tfrecord")
    >>> result.records, result.fault_count, result.lost_bytes
    (2, 1, 30)
    """
    source, target = input_path(path), output_path(output)
    is_local_pair = is_local(source) and is_local(target) and target.exists() and source.exists()
    if source == target or (is_local_pair and target.samefile(source)):
        raise UsageError(f"{target}: a file isn't repaired in place; name another output")
    report = ReadReport()
    with open_stream(os.fspath(path), compression, report) as stream:
        blocks = RecordBlocks(stream, on_bad_record="repair", max_record_bytes=max_record_bytes, report=report)
        packer = codec("fast" if target.name.endswith(".gz") else "none")
        shard = packer.stream()
        with atomic_output(output, overwrite=overwrite) as file:
            for block in blocks:
                file.write(shard.add(packer.pack(block.data.data)))
                report.records += len(block.starts)
            file.write(shard.finish())
            forget_index(target)
    if not report.records:
        report.warnings.append(f"{target}: no whole record was found; the file is an empty shard")
    return RepairResult(
        path=os.fspath(path),
        output=os.fspath(output),
        records=report.records,
        lost_bytes=report.lost_bytes,
        faults=tuple(report.faults),
        fault_count=report.fault_count,
        notes=tuple(report.notes),
        warnings=tuple(report.warnings),
    )

"""What can be wrong with a record file, told in one form; and the report of a reading."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Fault", "ReadReport"]

FAULTS_KEPT = 1000
"""Faults past these are counted, not kept: a hostile file may have millions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One damaged place of a record file.

    Attributes
    ----------
    path
        The file.
    record
        Number of the damaged record within the file, from 0; None where the file as a whole is meant.
    offset
        Where that record starts, in bytes of the uncompressed stream.
    member
        The gzip member that holds this byte, from 0; None for other files.
    problem
        What was found against what is allowed.
    hint
        What to do next; may be empty.
    """

    path: str
    record: int | None = None
    offset: int | None = None
    member: int | None = None
    problem: str
    hint: str = ""

    def to_dict(self) -> dict[str, str | int | None]:
        """For JSON."""
        return {
            "path": self.path,
            "record": self.record,
            "offset": self.offset,
            "member": self.member,
            "problem": self.problem,
            "hint": self.hint,
        }

    def __str__(self) -> str:
        place = ""
        if self.record is not None:
            place = f"record {self.record} at byte {self.offset}"
            if self.member is not None:
                place += f" (gzip member {self.member})"
            place += ": "
        return f"{self.path}: {place}{self.problem}{'; ' + self.hint if self.hint else ''}"


@dataclass(slots=True, kw_only=True)
class ReadReport:
    """What a reading met; one report may be passed to several readings and adds up.

    Attributes
    ----------
    files, records
        Files opened, records given out.
    notes
        Harmless surprises: a name that doesn't fit the content.
    warnings
        What a user should know: an empty shard.
    faults
        What the policies ``skip`` and ``repair`` left out: the first 1,000.
    fault_count
        How many faults there were.
    lost_bytes
        Bytes of the uncompressed streams that belong to no record given out, as far as they are known.
    """

    files: int = 0
    records: int = 0
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    fault_count: int = 0
    lost_bytes: int = 0

    def add(self, other: ReadReport) -> None:
        """Take what another reading met, after what this one did."""
        self.files += other.files
        self.records += other.records
        self.notes += other.notes
        self.warnings += other.warnings
        self.faults += other.faults[: FAULTS_KEPT - len(self.faults)]
        self.fault_count += other.fault_count
        self.lost_bytes += other.lost_bytes

    def add_fault(self, fault: Fault, *, lost_bytes: int = 0) -> None:
        """Count ``fault``, and keep it if there is room."""
        self.fault_count += 1
        self.lost_bytes += lost_bytes
        if len(self.faults) < FAULTS_KEPT:
            self.faults.append(fault)

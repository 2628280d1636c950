"""What an export to a store needs of this machine's disk: a part of the plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from geotfr.mixer import SetNames
from geotfr.pipeline.sizes import human_bytes
from geotfr.storage.remote.output_set import LOCAL_FILES
from geotfr.storage.remote.staging import scratch_parent
from geotfr.stores.path import is_local

if TYPE_CHECKING:
    from geotfr.pipeline.export.plan import ExportPlan

__all__ = ["Scratch", "with_scratch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """Space for what is made here before it is sent.

    Attributes
    ----------
    folder
        Where; ``TMPDIR`` says.
    bytes
        The most that lies there at once, as before compression.
    """

    folder: str
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """In JSON types."""
        return {"folder": self.folder, "bytes": self.bytes}

    def to_text(self) -> str:
        """For a person, behind a word."""
        return f"at most {human_bytes(self.bytes)} in {self.folder} (TMPDIR) before it is sent"


def with_scratch(plan: ExportPlan, prefix: str, *, is_staged: bool, writers: int = 1) -> ExportPlan:
    """``plan`` with the space that its output at ``prefix`` needs, where that is in a store.

    Parameters
    ----------
    is_staged
        Whether each file is sent when it is finished, not all at the end.
    writers
        How many make files at once.
    """
    if is_local(SetNames.for_prefix(prefix, naming="drive", compressed_suffix="").folder):
        return plan
    largest = min(plan.records_per_shard * plan.record_bytes, plan.total_bytes)
    size = min(plan.total_bytes, writers * LOCAL_FILES * largest) if is_staged else plan.total_bytes
    return replace(plan, scratch=Scratch(folder=str(scratch_parent()), bytes=size))

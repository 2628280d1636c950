"""One part of an export, to be run anywhere: its shards, or pieces of shards, are staged beside the others'.

A part has a lock, a journal and hidden names of its own where the output is, so parts run in any order, at once, on
any machine that sees that folder or store, and any of them again. :mod:`geotfr.pipeline.export.parts.finalize` makes
the set.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Unpack

from geotfr.errors import UsageError
from geotfr.flags import checks_flags
from geotfr.options import ExportKeywords, ExportOptions, resolve_workers
from geotfr.pipeline.catalog.collect import TableRequest
from geotfr.pipeline.catalog.exported import table_head
from geotfr.pipeline.catalog.staged_rows import rows_bytes
from geotfr.pipeline.export.outcome import unreadable_warnings
from geotfr.pipeline.export.parts.split import parse_split, part_of
from geotfr.pipeline.export.prepare import Prepared, open_rasters
from geotfr.pipeline.export.resume import COUNTS, ExportJournal
from geotfr.pipeline.export.run import ExportJob
from geotfr.pipeline.export.scratch import with_scratch
from geotfr.pipeline.export.shards import ShardWriter
from geotfr.pipeline.export.unreadable import pixels_of
from geotfr.pipeline.progress import progress_bar
from geotfr.pipeline.set_files import set_at
from geotfr.pipeline.sizes import human_bytes
from geotfr.records.gzip import codec
from geotfr.storage.journal import check_shape
from geotfr.storage.staged import part_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from geotfr.options import Size
    from geotfr.options.sources import RastersLike
    from geotfr.patches.rows import PatchRows
    from geotfr.pipeline.export.parts.split import Part
    from geotfr.pipeline.export.plan import ExportPlan
    from geotfr.pipeline.progress import Progress
    from geotfr.storage import OutputSet

__all__ = ["ROWS", "WHOLE", "PartResult", "export_part", "stage_part"]


ROWS = "rows"
"""What is noted of a staged file that holds rows of a patch table."""

WHOLE = {
    "patches": int,
    "records": int,
    "masked_pixels": int,
    "patches_in_question": int,
    "dropped": [int],
    "counts": COUNTS,
    "unreadable": [(int, int)],
    "first_error": str,
    "warnings": [str],
}
"""The shape of what is noted of a part that is whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartResult:
    """What a part of an export staged.

    Attributes
    ----------
    number, total
        Which part, from 0, of how many.
    patches
        Its patches, those over the masked threshold included.
    records
        Records written.
    files
        Staged files.
    files_resumed
        How many of them an earlier run had finished.
    size_bytes
        Bytes of the files.
    pixels_unreadable
        Pixels that couldn't be read and were masked by ``on_read_error="mask"``.
    seconds
        Wall time.
    warnings
        What a user should know, one line each.
    """

    number: int
    total: int
    patches: int
    records: int
    files: int
    files_resumed: int
    size_bytes: int
    pixels_unreadable: int
    seconds: float
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON types."""
        return {
            "part": self.number,
            "parts": self.total,
            "patches": self.patches,
            "records": self.records,
            "files": self.files,
            "files_resumed": self.files_resumed,
            "bytes": self.size_bytes,
            "pixels_unreadable": self.pixels_unreadable,
            "seconds": round(self.seconds, 3),
            "warnings": list(self.warnings),
        }

    def to_text(self) -> str:
        """The summary for a person, one line."""
        return (
            f"part      {self.number} of {self.total}: {self.patches:,} patches in {self.files:,} staged"
            f" file{'s' if self.files != 1 else ''}, {human_bytes(self.size_bytes)}, in {self.seconds:.1f} s"
        )


@checks_flags
def export_part(
    sources: RastersLike,
    prefix: str | os.PathLike[str],
    *,
    split: str | tuple[int, int],
    overwrite: bool = False,
    resume: bool = False,
    on_read_error: str = "error",
    patch_table: bool = False,
    class_bands: str | Sequence[str] = (),
    workers: int | None = None,
    memory_limit: Size | None = None,
    progress: bool | Progress = False,
    on_plan: Callable[[ExportPlan], None] | None = None,
    **options: Unpack[ExportKeywords],
) -> PartResult:
    """Stage one part of the export that :func:`geotfr.export_image` makes of the same arguments.

    When all parts are staged, in any order and on any machines, :func:`geotfr.finalize_export` makes the set: the very
    files of one run.

    Parameters
    ----------
    sources, prefix, on_read_error, patch_table, class_bands, workers, memory_limit, progress, on_plan, options
        As for :func:`geotfr.export_image`. Workers and memory may differ from part to part, nothing else. The rows of a
        patch table are staged too.
    split
        ``"3/16"`` or ``(3, 16)``: part 3, from 0, of 16. A part may be empty.
    overwrite
        Whether a set may have this prefix already; it is replaced when the parts are finalized.
    resume
        Continue behind the last whole file of a run of this part that was stopped. A part that is staged already is
        left as it is; without ``resume`` it is made again.

    Raises
    ------
    UsageError
        As :func:`geotfr.export_image`; a split that is none; a source in memory.
    LockedError
        The part is being written, or the set is.
    GeotfrError
        What else :func:`geotfr.export_image` raises.

    Examples
    --------
    >>> for number in range(16):  # doctest: +SKIP
    ...     geotfr.export_part("scene.tif", "patches/scene", split=(number, 16), patch_dimensions=256)
    >>> geotfr.finalize_export("patches/scene").manifest  # doctest: +SKIP
    PosixPath('patches/scene-manifest.json')
    """
    started = time.perf_counter()
    number, total = parse_split(split)
    checked = ExportOptions.checked(**options)
    threads = resolve_workers(workers, os.cpu_count() or 1)
    table = TableRequest.of_export(checked, patch_table=patch_table, class_bands=class_bands)
    with open_rasters(sources, checked, threads) as source:
        prepared = Prepared(
            source, checked, workers=threads, memory_limit=memory_limit, on_read_error=on_read_error, table=table
        )
        prepared.plan = with_scratch(prepared.plan, os.fspath(prefix), is_staged=True)
        if on_plan is not None:
            on_plan(prepared.plan)
        return stage_part(
            prepared,
            os.fspath(prefix),
            split_part(prepared, number, total),
            name=part_name(number, total),
            shares_set=True,
            overwrite=overwrite,
            resume=resume,
            progress=progress,
            started=started,
        )


def split_part(prepared: Prepared, number: int, total: int) -> Part:
    """Part ``number`` of ``total`` of what is prepared."""
    return part_of(
        prepared.plan,
        number,
        total,
        block_rows=prepared.source.block_shape_yx[0],
        keeps_all=prepared.choice.keeps_all,
        streams=not prepared.codec.is_joinable,
    )


def stage_part(
    prepared: Prepared,
    prefix: str,
    part: Part,
    *,
    name: str,
    shares_set: bool,
    overwrite: bool,
    resume: bool,
    progress: bool | Progress,
    started: float,
    run: str = "",
) -> PartResult:
    """Write the files of ``part`` under the hidden names that belong to ``name``; see :func:`export_part`.

    ``run`` is the one that holds the set, where one does.
    """
    from geotfr.rasters.safe_open import raster_env

    if prepared.options.labels is not None and prepared.options.labels.coco:
        raise UsageError("coco: tells of the whole set; export in one run, or leave it out")
    job = ExportJob(prepared)
    names = job.names_at(prefix, compared=("split", "the other parts'; give files"))
    # What can't be joined from pieces is compressed when the set is made, and staged in what can.
    staging = prepared.codec if prepared.codec.is_joinable or part.has_whole_shards else codec("fast")
    unreadable = prepared.unreadable
    outputs = set_at(names, overwrite=overwrite, resume=resume, part=name, shares_set=shares_set, run=run)
    with (
        outputs,
        raster_env(cache_bytes=prepared.plan.strips.gdal_cache_bytes),
        progress_bar(progress, total_patches=len(part.patches), what=f"part {part.number}") as report,
    ):
        job.check_names(names, overwrite=True)
        left = outputs.begin(_head(job, outputs.noted, part, staging.name))
        journal = ExportJournal(
            outputs,
            [(file, found) for file, found in left if ROWS not in found],
            unreadable,
            patches=part.patches,
            notes_chunks=not part.has_whole_shards,
            from_start=prepared.rows is not None,
        )
        resumed = len(journal.shards)
        writer = ShardWriter(outputs, staging, finished=journal.shards, on_finished=journal.finished)
        facts = outputs.whole
        if facts is not None:
            check_shape(facts, WHOLE, where=f"{outputs.folder}: the journal of part {part.number}")
        if facts is None:
            report(journal.first_patch - part.patches.start, sum(shard.file.size for shard in journal.shards))
            job.write_records(writer, journal, report, part)
            tally = journal.tally
            if prepared.rows is not None:
                _stage_rows(outputs, prepared.rows.rows())
            facts = {
                "patches": len(part.patches),
                "records": tally.records,
                "masked_pixels": tally.masked_pixels,
                "patches_in_question": prepared.choice.count,
                "dropped": tally.dropped,
                "counts": asdict(tally.counts),
                "unreadable": [] if unreadable is None else unreadable.blocks,
                "first_error": "" if unreadable is None else unreadable.first_error,
                "warnings": [*prepared.source.warnings, *prepared.choice.warnings, *prepared.plan.warnings],
            }
        else:
            report(len(part.patches), sum(shard.file.size for shard in journal.shards))
        outputs.complete(facts)
        outputs.stage()
    return PartResult(
        number=part.number,
        total=part.total,
        patches=len(part.patches),
        records=facts["records"],
        files=len(writer.shards),
        files_resumed=resumed,
        size_bytes=sum(shard.file.size for shard in writer.shards),
        pixels_unreadable=pixels_of(
            facts["unreadable"], prepared.source.block_shape_yx, prepared.source.geobox.shape_yx
        ),
        seconds=time.perf_counter() - started,
        warnings=(*facts["warnings"], *unreadable_warnings(unreadable)),
    )


def _stage_rows(outputs: OutputSet, rows: PatchRows) -> None:
    """Write the rows of the part's patches as a file of its own."""
    file = outputs.create()
    file.write(rows_bytes(rows))
    file.finish()
    outputs.finished(file, {ROWS: len(rows)})


def _head(job: ExportJob, noted: Mapping[str, Any], part: Part, staging: str) -> dict[str, Any]:
    """What must be the same in all parts, but ``part``."""
    return {
        # A digest would read all sources for each part.
        **job.head(noted, by_digest=False),
        "manifest": job.manifest([], [], 0).to_dict(),
        "block_shape": list(job.block_shape_yx),
        "staging": staging,
        "is_even": job.plan.is_even,
        "knows_shards": part.knows_shards,
        "has_whole_shards": part.has_whole_shards,
        "table": table_head(job.table, job.plan.features),
        "part": {"number": part.number, "patches": [part.patches.start, part.patches.stop]},
    }

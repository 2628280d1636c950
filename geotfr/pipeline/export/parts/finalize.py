"""All parts of an export into one set: checked, packed into shards, published with mixer and manifest."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from geotfr.errors import DamagedError, MissingInputError, OutputError, OutputExistsError, UsageError
from geotfr.flags import checks_flags
from geotfr.mixer import SetNames, manifest_of
from geotfr.mixer.strict_json import understanding
from geotfr.patches import PatchLayout
from geotfr.patches.rows import PatchRows
from geotfr.pipeline.catalog.exported import table_fills, write_table_of
from geotfr.pipeline.catalog.staged_rows import read_rows
from geotfr.pipeline.export.fill import EncodeCounts
from geotfr.pipeline.export.outcome import named_shards, outcome_warnings, publish, set_facts, unreadable_warning
from geotfr.pipeline.export.parts.pack import PackedShard, Packer, adopt, damaged
from geotfr.pipeline.export.parts.split import MOST_PARTS, parse_split
from geotfr.pipeline.export.parts.stage import ROWS, WHOLE
from geotfr.pipeline.export.resume import CHUNKS
from geotfr.pipeline.export.unreadable import pixels_of
from geotfr.pipeline.progress import progress_bar
from geotfr.pipeline.set_files import set_at
from geotfr.pipeline.sizes import human_bytes
from geotfr.records.gzip import codec
from geotfr.storage.atomic import is_whole
from geotfr.storage.journal import check_shape
from geotfr.storage.output_set import differences
from geotfr.storage.space import check_space
from geotfr.storage.staged import StagedParts
from geotfr.stores.path import is_local

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from geotfr.mixer import Manifest
    from geotfr.pipeline.export.outcome import SetFacts
    from geotfr.pipeline.progress import Progress
    from geotfr.storage import AtomicFile, OutputSet
    from geotfr.storage.staged import StagedFile, StagedPart

__all__ = ["FinalizeResult", "PackedSet", "finalize_export", "pack_parts"]

_HEAD = {
    "manifest": dict,
    "options": {
        "compressor": re.compile("none|fast|ee"),
        "naming": re.compile("drive|cloud-storage"),
        "max_file_size": int,
        "edge": str,
    },
    "block_shape": (int, int),
    "staging": re.compile("none|fast|ee"),
    "is_even": bool,
    "knows_shards": bool,
    "has_whole_shards": bool,
    "table": dict | None,
}
# How many parts a message names.
_NAMED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizeResult:
    """The set that was made of parts.

    Attributes
    ----------
    parts
        How many there were.
    shards
        Paths of the shards, in order.
    shards_copied
        How many of them were put together from pieces; the others were renamed.
    mixer
        Path of the mixer; None where ``masked_threshold`` forbids one.
    manifest
        Path of the manifest.
    patch_table
        Path of the patch table, or None.
    patches_written, patches_dropped
        Patches in the shards, and those over ``masked_threshold``.
    masked_share
        Share of masked pixels among the pixels of all patches, margins not counted.
    pixels_unreadable
        Pixels that couldn't be read and were masked by ``on_read_error="mask"``.
    values_rounded
        Integers that float32 can't hold exactly; margins not counted, here and below.
    values_infinite
        float64 values beyond float32's range, which became infinite.
    values_overwritten
        Values that are valid in their band and were overwritten with the default value, since their pixel is masked in
        another band.
    size_bytes
        Bytes of the shards on disk.
    seconds
        Wall time.
    warnings
        What a user should know, one line each.
    """

    parts: int
    shards: tuple[Path, ...]
    shards_copied: int
    mixer: Path | None
    manifest: Path
    patch_table: Path | None
    patches_written: int
    patches_dropped: int
    masked_share: float
    pixels_unreadable: int
    values_rounded: int
    values_infinite: int
    values_overwritten: int
    size_bytes: int
    seconds: float
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON types."""
        return {
            "parts": self.parts,
            "shards": [str(path) for path in self.shards],
            "shards_copied": self.shards_copied,
            "mixer": None if self.mixer is None else str(self.mixer),
            "manifest": str(self.manifest),
            "patch_table": None if self.patch_table is None else str(self.patch_table),
            "patches_written": self.patches_written,
            "patches_dropped_masked": self.patches_dropped,
            "masked_share": round(self.masked_share, 6),
            "pixels_unreadable": self.pixels_unreadable,
            "values_rounded": self.values_rounded,
            "values_infinite": self.values_infinite,
            "values_overwritten": self.values_overwritten,
            "bytes": self.size_bytes,
            "seconds": round(self.seconds, 3),
            "warnings": list(self.warnings),
        }

    def to_text(self) -> str:
        """The summary for a person, some lines."""
        return "\n".join(
            (
                f"finalized {self.parts:,} parts: {self.patches_written:,} patches in {len(self.shards):,}"
                f" shard{'s' if len(self.shards) != 1 else ''} ({self.shards_copied:,} put together),"
                f" {human_bytes(self.size_bytes)}, in {self.seconds:.1f} s",
                f"dropped   {self.patches_dropped:,} patches over the masked threshold",
                f"masked    {self.masked_share:.1%} of the patches' pixels",
                f"mixer     {self.mixer or 'none: a masked threshold other than 1 forbids it'}",
                f"manifest  {self.manifest}",
                *([] if self.patch_table is None else [f"table     {self.patch_table}"]),
            )
        )


@checks_flags
def finalize_export(
    prefix: str | os.PathLike[str],
    *,
    parts: int | None = None,
    overwrite: bool = False,
    ignore_source_times: bool = False,
    verify: bool = False,
    progress: bool | Progress = False,
) -> FinalizeResult:
    """Make the set of the parts that :func:`geotfr.export_part` staged at ``prefix``: the very files of one run.

    Shards that are whole in a part are renamed. Those that lie in several are put together; gzip members of the
    ``fast`` compressor are copied as they are. A run that is stopped is continued by the next one.

    Parameters
    ----------
    prefix
        What the parts were given.
    parts
        How many parts there are; needed only where parts of several splits are staged. The others are removed.
    overwrite
        Replace a set that has this prefix.
    ignore_source_times
        Take parts whose sources have other times of change: copies on other machines.
    verify
        Read the staged files that are only renamed too, and compare their CRC32C.
    progress
        True for a bar on stderr, or a function of (patches, bytes) that is called after each shard.

    Raises
    ------
    MissingInputError
        No part is staged, or some are missing or not finished; they are listed.
    UsageError
        Parts were made with other options, sources or versions; they are listed.
    DamagedError
        A staged file holds other bytes than were written; its part is named.
    LockedError
        Another run finalizes the set, or a part is being written.
    OutputError
        The set can't be written, or exists and ``overwrite`` is False.

    Examples
    --------
    >>> geotfr.finalize_export("patches/scene").manifest  # doctest: +SKIP
    PosixPath('patches/scene-manifest.json')
    """
    started = time.perf_counter()
    # Which naming and suffix the set has stands in the parts.
    place = SetNames.for_prefix(os.fspath(prefix), naming="drive", compressed_suffix="")
    if is_local(place.folder) and not place.folder.is_dir():
        raise OutputError(f"{place.folder}: the folder is missing; parts are staged where the set will be")
    staged = StagedParts(place.folder, place.name)
    try:
        outputs = set_at(place, overwrite=overwrite, resume=True, makes_folder=False)
    except OutputExistsError:
        _remove_traces(staged)
        raise
    with outputs:
        there = [(number, total) for number, total in staged.find() if number < total <= MOST_PARTS]
        total = _total(place, there, parts)
        found = staged.read([(number, total) for number in range(total)])
        with understanding(_prefix(place), "journal of a part; make the part again"):
            _check_parts(place, found, ignore_source_times=ignore_source_times)
            packed = pack_parts(outputs, found, prefix=os.fspath(prefix), verify=verify, progress=progress)
        staged.remove("part", journals=False)
    # The set's journal is gone: from here on nothing could be continued.
    staged.remove_journals(there)
    return FinalizeResult(
        **packed.facts,
        patch_table=packed.patch_table,
        parts=total,
        shards_copied=packed.copied,
        seconds=time.perf_counter() - started,
        warnings=packed.warnings,
    )


def _prefix(place: SetNames) -> Path:
    return place.folder / place.name


def _remove_traces(staged: StagedParts) -> None:
    """Remove what a run that was killed after it had published the set left of its parts: journals without files."""
    there = staged.find()
    parts = staged.read(there)
    if not any(file.path.exists() for part in parts for file in part.files):
        staged.remove_journals([each for each, part in zip(there, parts, strict=True) if part.files])


def _total(place: SetNames, found: Sequence[tuple[int, int]], wanted: int | None) -> int:
    """How many parts the set has, told or ``found``."""
    if not found:
        raise MissingInputError(
            f"{_prefix(place)}: no part of an export is staged here; run 'geotfr export … --split 0/N' to '--split"
            " N-1/N' with this --output first"
        )
    totals = Counter(total for _, total in found)
    if wanted is not None:
        parse_split((0, wanted))
        return wanted
    if len(totals) > 1:
        splits = ", ".join(f"{count} of {total}" for total, count in sorted(totals.items()))
        raise UsageError(
            f"{_prefix(place)}: parts of several splits are staged ({splits}); give the number of parts, as --parts"
            f" {totals.most_common(1)[0][0]} (parts=); the others are removed"
        )
    return next(iter(totals))


def _check_parts(place: SetNames, parts: Sequence[StagedPart], *, ignore_source_times: bool) -> None:
    """Refuse parts that aren't there, not finished, or made from something else."""
    missing = [number for number, part in enumerate(parts) if not part.head]
    unfinished = [number for number, part in enumerate(parts) if part.head and part.whole is None]
    if missing or unfinished:
        told = [
            *([f"missing: {_listed(missing)}"] if missing else []),
            *([f"not finished: {_listed(unfinished)}"] if unfinished else []),
        ]
        first = (missing or unfinished)[0]
        raise MissingInputError(
            f"{_prefix(place)}: {len(missing) + len(unfinished):,} of {len(parts):,} parts can't be finalized yet"
            f" ({'; '.join(told)}); run 'geotfr export … --split {first}/{len(parts)} --resume' and so on, then"
            " finalize again"
        )
    for part in parts:
        check_shape(part.head, {"sources": [dict]}, where=f"{_prefix(place)}: the journal of a part")
    heads = [_compared(part.head, ignore_source_times=ignore_source_times) for part in parts]
    # What most parts were made with is right, the others aren't.
    texts = [repr(head) for head in heads]
    most, _ = Counter(texts).most_common(1)[0]
    others = [number for number, text in enumerate(texts) if text != most]
    if others:
        right = texts.index(most)
        differing = differences(heads[right], heads[others[0]])
        told_differences = "; ".join(f"{key} is {new!r}, not {old!r}" for key, old, new in differing[:3])
        hint = ""
        if all(key.endswith("modified_ns") for key, _, _ in differing):
            hint = "; if these are copies of one file, give --ignore-source-times (ignore_source_times=True)"
        raise UsageError(
            f"{_prefix(place)}: parts {_listed(others)} were made otherwise than part {right}: {told_differences}"
            f"{hint}; run them again with the options of the others"
        )


def _compared(head: dict[str, Any], *, ignore_source_times: bool) -> dict[str, Any]:
    """What must be the same in all parts."""
    compared = {key: value for key, value in head.items() if key != "part"}
    if ignore_source_times:
        compared["sources"] = [{**source, "modified_ns": None} for source in head["sources"]]
    return compared


def _listed(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - _NAMED:,} more" if len(numbers) > _NAMED else ""
    return ", ".join(map(str, numbers[:_NAMED])) + more


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedSet:
    """A set that was published: its ``facts``, its table, how many shards were ``copied`` and ``resumed``, warnings."""

    facts: SetFacts
    patch_table: Path | None
    copied: int
    resumed: int
    warnings: tuple[str, ...]


def pack_parts(
    outputs: OutputSet, parts: Sequence[StagedPart], *, prefix: str, verify: bool, progress: bool | Progress
) -> PackedSet:
    """Make shards of the staged files of ``parts``, and publish them with mixer and manifest."""
    head = _compared(parts[0].head, ignore_source_times=False)
    template = _check_contents(parts, head, where=f"{prefix}: the journal of a part")
    whole = [part.whole or {} for part in parts]
    dropped = [number for each in whole for number in each["dropped"]]
    blocks = list(dict.fromkeys((row, col) for each in whole for row, col in each["unreadable"]))
    shard_codec = codec(template.compressor)
    names = SetNames.for_prefix(prefix, naming=template.options["naming"], compressed_suffix=shard_codec.suffix)
    left = outputs.begin({**head, "parts": len(parts)})
    finished = [PackedShard(file, facts["records"], facts["is_oversized"]) for file, facts in left if ROWS not in facts]
    table = next((file for file, facts in left if ROWS in facts), None)
    shards = list(finished)
    if outputs.whole is None:
        with progress_bar(progress, total_patches=template.patches_written, what="finalize") as report:
            shards += _new_shards(outputs, names, parts, head, len(finished), verify=verify, report=report)
    counts = EncodeCounts()
    for each in whole:
        counts.add(EncodeCounts(**each["counts"]))
    named, infos = named_shards(names, shards)
    manifest = replace(
        template,
        patches_written=template.rows * template.columns - len(dropped),
        patches_dropped=tuple(dropped),
        shards=tuple(infos),
        pixels_unreadable=pixels_of(blocks, (head["block_shape"][0], head["block_shape"][1]), template.geobox.shape_yx),
    )
    if outputs.whole is None:
        if table is None and head["table"] is not None:
            table = _table(outputs, names.patch_table, parts, manifest, shards, head["table"])
        # From here on the parts' files aren't needed, and may be gone when this is continued.
        outputs.complete({"shards": len(shards)})
    layout = PatchLayout(
        geobox=template.geobox,
        patch_yx=template.patch_yx,
        kernel_yx=template.kernel_yx,
        pads_edge=template.options["edge"] == "pad",
    )
    tables = [] if table is None else [(names.patch_table, table)]
    mixer = publish(outputs, names, [*named, *tables], manifest, layout)
    first_error = next((each["first_error"] for each in whole if each["first_error"]), "")
    # Where all records are alike, each part's plan has told it.
    oversized = 0 if head["is_even"] else sum(shard.is_oversized for shard in shards)
    told = [warning for each in whole for warning in each["warnings"]]
    return PackedSet(
        facts=set_facts(
            names,
            manifest,
            mixer,
            counts,
            masked_pixels=sum(each["masked_pixels"] for each in whole),
            patches=whole[0]["patches_in_question"],
        ),
        patch_table=None if table is None else names.folder / names.patch_table,
        copied=sum(not shard.is_adopted for shard in shards),
        resumed=len(finished),
        warnings=tuple(
            dict.fromkeys(
                (
                    *told,
                    *outcome_warnings(manifest, counts, oversized),
                    *unreadable_warning(manifest.pixels_unreadable, len(blocks), first_error),
                )
            )
        ),
    )


def _check_contents(parts: Sequence[StagedPart], head: dict[str, Any], *, where: str) -> Manifest:
    """Refuse journals that tell what no part notes; the manifest that the ``head`` of all holds, without shards.

    Raises DamagedError.
    """
    check_shape(head, _HEAD, where=where)
    if head["table"] is not None:
        check_shape(head["table"], {"class_bands": [str], "fills": str}, where=where)
    shard = {"records": int, "is_oversized": bool}
    shape = shard if head["has_whole_shards"] else {**shard, "chunks": CHUNKS}
    for part in parts:
        check_shape(part.whole, WHOLE, where=where)
        for file in part.files:
            check_shape(file.facts, {ROWS: int} if ROWS in file.facts else shape, where=where)
            if sum(packed for _, _, packed in file.facts.get("chunks", ())) > file.size:
                raise damaged(file)
    try:
        return manifest_of(head["manifest"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DamagedError(
            f"{where}: not a whole manifest: {type(error).__name__}: {error}; run its parts again"
        ) from error


def _new_shards(
    outputs: OutputSet,
    names: SetNames,
    parts: Sequence[StagedPart],
    head: dict[str, Any],
    finished: int,
    *,
    verify: bool,
    report: Progress,
) -> Iterator[PackedShard]:
    """The shards behind those that are ``finished``, written."""
    options = head["options"]
    files = [file for part in parts for file in part.files if ROWS not in file.facts]
    if verify:
        _verify(files)
    if head["has_whole_shards"]:
        for file in files[finished:]:
            facts = {key: file.facts[key] for key in ("records", "is_oversized")}
            yield PackedShard(adopt(outputs, file, facts), facts["records"], facts["is_oversized"], is_adopted=True)
            report(facts["records"], file.size)
        return
    packer = Packer(
        files,
        codec(options["compressor"]),
        is_packed=head["staging"] != "none",
        max_shard_bytes=options["max_file_size"],
        knows_shards=head["knows_shards"],
    )
    recipes = list(packer.recipes())[finished:]
    copied = [packer.copied_bytes(recipe) for recipe in recipes]
    needed = outputs.local_bytes(sum(copied), max(copied, default=0))
    check_space(outputs.folder, needed, what="putting shards together")
    total = finished + len(recipes)
    for number, recipe in enumerate(recipes, finished):
        shard = packer.write(outputs, names.shard(number, total=total), recipe)
        yield shard
        report(shard.records, shard.file.size)


def _table(
    outputs: OutputSet,
    name: str,
    parts: Sequence[StagedPart],
    manifest: Manifest,
    shards: Sequence[PackedShard],
    table: dict[str, Any],
) -> AtomicFile:
    """The patch table of the rows that the parts staged, as the set's next file."""
    found = []
    for part in parts:
        # An attempt that was stopped may have staged rows before.
        file = [file for file in part.files if ROWS in file.facts][-1]
        if not is_whole(file.path, size=file.size, crc=file.crc):
            raise damaged(file)
        found.append(read_rows(file.path))
    # A part without patches knows no classes.
    rows = PatchRows.joined([each for each in found if len(each)] or found[:1])
    written = write_table_of(outputs, name, rows, manifest, shards, table_fills(table))
    outputs.finished(written, {ROWS: len(rows)})
    return written


def _verify(files: Sequence[StagedFile]) -> None:
    for file in files:
        # A file that is gone is a shard already.
        if file.path.exists() and not is_whole(file.path, size=file.size, crc=file.crc):
            raise damaged(file)

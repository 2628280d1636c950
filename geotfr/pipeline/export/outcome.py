"""The end of an export: the names of its shards, mixer and manifest published, and what a user should know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypedDict

from geotfr.mixer import Manifest, Mixer, ShardInfo
from geotfr.pipeline.set_files import text_file
from geotfr.records.gzip import ee_bytes_promised

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from geotfr.mixer import SetNames
    from geotfr.patches import PatchLayout
    from geotfr.pipeline.export.fill import EncodeCounts
    from geotfr.pipeline.export.unreadable import UnreadableMasked
    from geotfr.storage import AtomicFile, OutputSet

__all__ = [
    "SetFacts",
    "named_shards",
    "outcome_warnings",
    "publish",
    "set_facts",
    "unreadable_warning",
    "unreadable_warnings",
]


class _Shard(Protocol):
    @property
    def file(self) -> AtomicFile: ...

    @property
    def records(self) -> int: ...


def named_shards(names: SetNames, shards: Sequence[_Shard]) -> tuple[list[tuple[str, AtomicFile]], list[ShardInfo]]:
    """The whole shards of a set with their final names, and what the manifest tells of each."""
    total = len(shards)
    named = [(names.shard(number, total=total), shard.file) for number, shard in enumerate(shards)]
    infos = [
        ShardInfo(name=name, records=shard.records, bytes=shard.file.size, crc32c=f"{shard.file.crc:08x}")
        for (name, _), shard in zip(named, shards, strict=True)
    ]
    return named, infos


def publish(
    outputs: OutputSet,
    names: SetNames,
    named: Sequence[tuple[str, AtomicFile]],
    manifest: Manifest,
    layout: PatchLayout,
) -> str | None:
    """Write mixer and manifest, and give all files their names, ``named`` first; the mixer's, if there is one."""
    files = list(named)
    mixer_name = None
    if manifest.options["masked_threshold"] == 1 and not manifest.patches_dropped:
        mixer_name = names.mixer(total=len(manifest.shards))
        files.append((mixer_name, text_file(outputs, mixer_name, Mixer.for_layout(layout).to_text())))
    files.append((names.manifest, text_file(outputs, names.manifest, manifest.to_text())))
    outputs.publish(files, incomplete_without=(*names.tellers, *names.patch_tables, *names.coco_files))
    return mixer_name


class SetFacts(TypedDict):
    """What the results of all that publish a set tell of it: see :class:`geotfr.ExportResult`."""

    shards: tuple[Path, ...]
    mixer: Path | None
    manifest: Path
    patches_written: int
    patches_dropped: int
    masked_share: float
    pixels_unreadable: int
    values_rounded: int
    values_infinite: int
    values_overwritten: int
    size_bytes: int


def set_facts(
    names: SetNames, manifest: Manifest, mixer: str | None, counts: EncodeCounts, *, masked_pixels: int, patches: int
) -> SetFacts:
    """The facts of a published set, of whose pixels ``masked_pixels`` are masked in the ``patches`` looked at."""
    pixels = patches * manifest.patch_yx[0] * manifest.patch_yx[1]
    return SetFacts(
        shards=tuple(names.folder / shard.name for shard in manifest.shards),
        mixer=None if mixer is None else names.folder / mixer,
        manifest=names.folder / names.manifest,
        patches_written=manifest.patches_written,
        patches_dropped=len(manifest.patches_dropped),
        masked_share=masked_pixels / max(pixels, 1),
        pixels_unreadable=manifest.pixels_unreadable,
        values_rounded=counts.inexact,
        values_infinite=counts.infinite,
        values_overwritten=counts.overwritten,
        size_bytes=sum(shard.bytes for shard in manifest.shards),
    )


def unreadable_warnings(unreadable: UnreadableMasked | None) -> list[str]:
    """What to tell of pixels that couldn't be read and were masked."""
    if unreadable is None:
        return []
    return unreadable_warning(unreadable.pixels, len(unreadable.blocks), unreadable.first_error)


def unreadable_warning(pixels: int, blocks: int, first_error: str) -> list[str]:
    """What to tell of so many pixels in so many blocks; nothing of none."""
    if not blocks:
        return []
    return [
        f"{pixels:,} pixels in {blocks:,} storage blocks can't be read and are masked"
        + (f"; the first: {first_error}" if first_error else "")
    ]


def outcome_warnings(manifest: Manifest, counts: EncodeCounts, oversized: int) -> list[str]:
    """What a user should know of the records that were written."""
    found = []
    options = manifest.options
    if oversized:
        found.append(
            f"{oversized:,} records are larger than the limit max_file_size {options['max_file_size']:,}; each got"
            " a shard of its own"
        )
    found += counts.warnings()
    if counts.overwritten:
        found.append(
            f"{counts.overwritten:,} valid samples were overwritten with the default value because their pixel is"
            " masked in another band; --mask-mode band keeps them"
        )
    dropped = len(manifest.patches_dropped)
    if options.get("choice") is not None and dropped:
        found.append(
            f"{dropped:,} of {manifest.patches_written + dropped:,} patches are left out: no mixer is written; the"
            " manifest tells their numbers"
        )
    if options["masked_threshold"] != 1:
        found.append(
            "a masked threshold other than 1: no mixer is written, as in Earth Engine; the manifest tells more"
        )
    if not manifest.patches_written:
        found.append("no patch is left: each is masked beyond the threshold or isn't chosen; no shard is written")
    if options["compressor"] == "ee" and not ee_bytes_promised():
        found.append("this Python's zlib is zlib-ng, whose level 6 gives other bytes than Earth Engine's")
    return found

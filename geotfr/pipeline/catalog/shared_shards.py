"""Many rasters whose records fill common shards: one after the other, cut by size alone.

A raster's records are one run through the shards. Its manifest lists the shards that the run touches, as whole files,
and tells where it begins; mixer and table are those of a set of its own. A call writes new shards only and never goes
on with an old one, so rasters are added without touching what is there.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from geotfr.errors import LockedError, OutputError, UsageError
from geotfr.mixer import CollectionPlace, Manifest, Mixer, ShardInfo, shard_number, shard_stem
from geotfr.pipeline.catalog.exported import fills_of, patch_set_of, shard_content
from geotfr.pipeline.catalog.members import named
from geotfr.pipeline.catalog.staged_rows import read_rows, rows_bytes
from geotfr.pipeline.export.outcome import outcome_warnings, unreadable_warnings
from geotfr.pipeline.export.prepare import Prepared, open_rasters
from geotfr.pipeline.export.resume import ExportJournal
from geotfr.pipeline.export.run import ExportJob
from geotfr.pipeline.export.shards import ShardWriter
from geotfr.pipeline.progress import progress_bar
from geotfr.pipeline.set_files import belongs_to, text_file
from geotfr.records.gzip import codec
from geotfr.records.places import record_places
from geotfr.storage.atomic import check_output
from geotfr.storage.outputs import open_outputs
from geotfr.storage.space import check_space
from geotfr.stores.path import any_path, is_local
from geotfr.vectors.patch_table import TablePart, write_patch_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from geotfr.mixer import SetNames
    from geotfr.options import ExportOptions, Size
    from geotfr.pipeline.catalog.collect import TableRequest
    from geotfr.pipeline.catalog.members import Members
    from geotfr.pipeline.export.shards import WrittenShard
    from geotfr.storage import AtomicFile, OutputSet

__all__ = ["SharedFacts", "SharedShards", "check_shareable"]


def check_shareable(options: ExportOptions, prefix: str | os.PathLike[str]) -> None:
    """Refuse what can't be in shards of several rasters.

    Raises
    ------
    UsageError
        Records of pixels, or a COCO file.
    OutputError
        The prefix is one of a store.
    """
    if options.sequence_data:
        raise UsageError(
            "sequence_data: shared shards hold a record for each patch; give each raster shards of its own"
        )
    if options.labels is not None and options.labels.coco:
        raise UsageError("coco: tells the patches of a raster's own shards; give each raster shards of its own")
    if not is_local(any_path(prefix)):
        raise OutputError(
            f"{os.fspath(prefix)}: shards that rasters share are made in a folder; give one, and copy it to the store"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """One raster whose records are written, while the shard of the last ones may still be open.

    ``manifest`` lists no shards yet; ``rows`` are spilled, so memory doesn't grow with the rasters.
    """

    name: str
    manifest: Manifest
    mixer: Mixer | None
    fills: Mapping[str, float]
    rows: AtomicFile
    size: int
    warnings: tuple[str, ...]


class SharedFacts(TypedDict):
    """What is told of the new shards of all rasters: see :class:`geotfr.CollectionResult`."""

    patches: int
    shards: tuple[Path, ...]
    size_bytes: int
    pixels_unreadable: int
    warnings: tuple[str, ...]


class SharedShards:
    """Writes rasters into new shards of a collection.

    Parameters
    ----------
    members
        What is there of the collection.
    wanted
        Names of the rasters to be written.
    kept
        Manifests of the rasters whose records are there and stay.
    options, table, on_read_error, workers, memory_limit, progress
        As of an export of one raster.
    """

    def __init__(
        self,
        members: Members,
        wanted: Sequence[str],
        kept: Sequence[Manifest],
        options: ExportOptions,
        *,
        table: TableRequest | None,
        on_read_error: str,
        workers: int,
        memory_limit: Size | None,
        progress: bool,
    ) -> None:
        self._codec = codec(options.compressor)
        self._members = members
        self._names = replace(members.names, compressed_suffix=self._codec.suffix)
        self._sets = {name: members.sets[name] for name in wanted}
        self._options = options
        self._request: dict[str, Any] = {
            "workers": workers,
            "memory_limit": memory_limit,
            "on_read_error": on_read_error,
            "table": table,
        }
        self._progress = progress
        there = {shard.name: shard.records for manifest in kept for shard in manifest.shards}
        self._first_record = sum(there.values())
        self._first_shard = 1 + max((shard_number(name) or 0 for name in there), default=-1)
        self._is_added = bool(kept)
        # All records of a shard have the same features.
        self._features = _features_of(kept[0]) if kept else None
        self._like = kept[0].sources[0].name if kept else ""

    def write(
        self,
        rasters: Mapping[str, Path],
        *,
        overwrite: bool,
        on_raster: Callable[[str, int, int], None] | None,
    ) -> SharedFacts:
        """Write the records of the wanted rasters, their mixers, manifests and tables, and the table of all.

        Parameters
        ----------
        overwrite
            Replace files that have the names; those of the members aren't among them.
        on_raster
            Called with (name, its place from 1, how many) before each raster.

        Raises
        ------
        UsageError
            A raster whose records have other features than those before it.
        LockedError
            Another run writes the collection, or changed it meanwhile.
        As :func:`geotfr.export_image`.
        """
        names, before = self._names, self._members.state()
        for own in self._sets.values():
            check_output(own.folder / own.manifest, overwrite=True)
        outputs = open_outputs(
            names.folder, name=names.name, belongs=self._belongs(), overwrite=overwrite, make_folder=not names.name
        )
        with outputs:
            if self._members.state() != before:
                raise LockedError(f"{names.folder / names.patch_table}: another run changed the collection; run again")
            writer = ShardWriter(outputs, self._codec, name=lambda shard: names.shard(shard, total=2))
            written = []
            for place, name in enumerate(self._sets, 1):
                if on_raster is not None:
                    on_raster(name, place, len(self._sets))
                with named(rasters[name]):
                    written.append(self._write(name, rasters[name], outputs, writer))
            writer.finish()
            infos = [
                ShardInfo(
                    name=names.shard(self._first_shard + number, total=2),
                    records=shard.records,
                    bytes=shard.file.size,
                    crc32c=f"{shard.file.crc:08x}",
                )
                for number, shard in enumerate(writer.shards)
            ]
            files = self._described(outputs, written, writer.shards, infos)
            shards = [(info.name, shard.file) for info, shard in zip(infos, writer.shards, strict=True)]
            if written:
                outputs.publish([*shards, *files], incomplete_without=self._tellers())
            patches = self._members.join()
        return SharedFacts(
            patches=patches,
            shards=tuple(names.folder / info.name for info in infos),
            size_bytes=sum(info.bytes for info in infos),
            pixels_unreadable=sum(each.manifest.pixels_unreadable for each in written),
            warnings=tuple(f"{each.name}: {warning}" for each in written for warning in each.warnings),
        )

    def _belongs(self) -> Callable[[str], bool]:
        """Whether a file of the folder is one that this run may replace: no shard or teller of a member."""
        by_name = {name: own for own in self._sets.values() for name in _told_by(own)}
        by_stem = defaultdict(list)
        for own in self._sets.values():
            for stem in {shard_stem(own.shard(0, total=total)) for total in (1, 2)}:
                by_stem[stem].append(own)
        whole = belongs_to(self._names)

        def belongs(file_name: str) -> bool:
            known = by_name.get(file_name)
            if any(belongs_to(own)(file_name) for own in ([known] if known else by_stem[shard_stem(file_name)])):
                return True
            if not whole(file_name):
                return False
            # Of the collection's own files only shards are added; its table is put in place at the end.
            number = None if file_name.endswith((".json", ".parquet")) else shard_number(file_name)
            return not self._is_added or (number is not None and number >= self._first_shard)

        return belongs

    def _tellers(self) -> tuple[str, ...]:
        """Names without which what is replaced doesn't look whole."""
        sets = [*self._sets.values(), *(() if self._is_added else (self._names,))]
        return tuple(name for own in sets for name in _told_by(own))

    def _write(self, name: str, path: Path, outputs: OutputSet, writer: ShardWriter) -> _Written:
        """Write the records of one raster behind those before it."""
        from geotfr.rasters.safe_open import raster_env

        with open_rasters(path, self._options, self._request["workers"]) as source:
            prepared = Prepared(source, self._options, **self._request)
            job, plan, rows = ExportJob(prepared), prepared.plan, prepared.rows
            assert rows is not None
            manifest = job.manifest((), (), 0)
            self._check_features(path, manifest)
            check_space(self._names.folder, job.least_bytes(job.plan.total_bytes), what="this export")
            journal = ExportJournal(outputs, unreadable=prepared.unreadable, patches=range(prepared.plan.layout.count))
            shards_before = len(writer.shards)
            with (
                raster_env(cache_bytes=plan.strips.gdal_cache_bytes),
                progress_bar(self._progress, total_patches=prepared.choice.count, what=name) as report,
            ):
                job.write_records(writer, journal, report, closes_shard=False)
            unreadable = prepared.unreadable
            manifest = job.manifest((), journal.tally.dropped, 0 if unreadable is None else unreadable.pixels)
            found = rows.rows()
            spilled = outputs.create(self._names.patch_table)
            spilled.write(rows_bytes(found))
            spilled.finish()
            oversized = 0 if plan.is_even else sum(shard.is_oversized for shard in writer.shards[shards_before:])
            return _Written(
                name=name,
                manifest=manifest,
                mixer=Mixer.for_layout(plan.layout)
                if self._options.masked_threshold == 1 and not manifest.patches_dropped
                else None,
                fills=fills_of(plan.features),
                rows=spilled,
                size=int(found.lengths.sum()),
                warnings=(
                    *prepared.source.warnings,
                    *plan.warnings,
                    *outcome_warnings(manifest, journal.tally.counts, oversized),
                    *unreadable_warnings(unreadable),
                ),
            )

    def _check_features(self, path: Path, manifest: Manifest) -> None:
        """Refuse a raster whose records differ in their features from those of the others."""
        features = _features_of(manifest)
        if self._features is None:
            self._features, self._like = features, path.name
        elif features != self._features:
            raise UsageError(
                f"{path}: its features are {_listed(features)}, those of {self._like} {_listed(self._features)};"
                " rasters that share shards have the same: choose and rename with --bands, or give each raster shards"
                " of its own"
            )

    def _described(
        self,
        outputs: OutputSet,
        written: Sequence[_Written],
        shards: Sequence[WrittenShard],
        infos: Sequence[ShardInfo],
    ) -> list[tuple[str, AtomicFile]]:
        """The rasters' tables, mixers and manifests, in this order: a manifest tells that its raster is whole."""
        contents = [shard_content(shard, is_gzip=bool(self._codec.suffix)) for shard in shards]
        starts = np.cumsum([0, *(shard.records for shard in shards)])
        start_bytes = np.cumsum([0, *(content.content_bytes for content in contents)])
        firsts = accumulate((each.manifest.records for each in written), initial=0)
        first_bytes = accumulate((each.size for each in written), initial=0)
        tables, mixers, manifests = [], [], []
        for each, first, byte in zip(written, firsts, first_bytes, strict=False):
            records, own = each.manifest.records, self._sets[each.name]
            low, high = (int(n) for n in np.searchsorted(starts, [first, first + records - 1], side="right") - 1)
            part = slice(low, high + 1) if records else slice(0, 0)
            in_shard = int(first - starts[low]) if records else 0
            manifest = replace(
                each.manifest,
                shards=tuple(infos[part]),
                collection=CollectionPlace(first_record=self._first_record + first, first_in_shard=in_shard),
            )
            rows = read_rows(each.rows.staged_path)
            places = record_places(
                rows.lengths,
                1,
                contents[part],
                first_record=in_shard,
                first_byte=int(byte - start_bytes[low]) if records else 0,
            )
            each.rows.discard()
            table = outputs.create(own.patch_table)
            write_patch_table(table, [TablePart(patches=patch_set_of(manifest, each.fills), rows=rows, places=places)])
            table.finish()
            tables.append((own.patch_table, table))
            if each.mixer is not None:
                mixers.append((own.mixer(total=2), text_file(outputs, own.mixer(total=2), each.mixer.to_text())))
            manifests.append((own.manifest, text_file(outputs, own.manifest, manifest.to_text())))
        return [*tables, *mixers, *manifests]


def _told_by(names: SetNames) -> tuple[str, ...]:
    """The names of files that tell of a set, or of a raster's records."""
    return (*names.coco_files, *names.patch_tables, *names.tellers)


def _features_of(manifest: Manifest) -> list[tuple[str, str, int | None]]:
    return [(band.name, band.kind, band.depth) for band in manifest.bands]


def _listed(features: Sequence[tuple[str, str, int | None]]) -> str:
    shown = ", ".join(
        f"{name} ({kind}{'' if depth is None else f', depth {depth}'})" for name, kind, depth in features[:8]
    )
    return shown + (f" and {len(features) - 8} more" if len(features) > 8 else "")

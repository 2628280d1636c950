"""Export: sources -> grid -> layout -> plan -> strips -> records -> shards -> mixer -> manifest."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from geotfr._version import __version__
from geotfr.errors import UsageError
from geotfr.flags import checks_flags
from geotfr.mixer import BandInfo, Manifest, SetNames, ShardInfo, SourceInfo
from geotfr.mixer.coco_files import is_coco
from geotfr.mixer.patch_tables import is_patch_table
from geotfr.options import ExportKeywords, ExportOptions, parse_size, resolve_workers
from geotfr.pipeline.catalog.collect import TableRequest
from geotfr.pipeline.catalog.exported import fills_of, place_warnings, write_table_of
from geotfr.pipeline.executors.choose import checked_executor
from geotfr.pipeline.export.coco import write_coco
from geotfr.pipeline.export.encode import slots_of
from geotfr.pipeline.export.identity import source_identities
from geotfr.pipeline.export.outcome import named_shards, outcome_warnings, publish, set_facts, unreadable_warnings
from geotfr.pipeline.export.prepare import Prepared, open_rasters
from geotfr.pipeline.export.resume import ExportJournal
from geotfr.pipeline.export.scratch import with_scratch
from geotfr.pipeline.export.shards import ShardCutter, ShardWriter
from geotfr.pipeline.parallel import OrderedWindow, encoder_pool
from geotfr.pipeline.progress import progress_bar
from geotfr.pipeline.set_files import set_at
from geotfr.pipeline.sizes import human_bytes
from geotfr.storage.atomic import check_output
from geotfr.storage.space import check_space

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from geotfr.options import Size
    from geotfr.options.sources import RastersLike
    from geotfr.patches.cut import Strip
    from geotfr.patches.features import FeatureSpec
    from geotfr.patches.rows import PatchRows
    from geotfr.pipeline.executors.choose import ExecutorLike, SchedulerLike
    from geotfr.pipeline.export.chunks import Slots
    from geotfr.pipeline.export.encode import Encoded, Unit
    from geotfr.pipeline.export.parts.split import Part
    from geotfr.pipeline.export.plan import ExportPlan
    from geotfr.pipeline.progress import Progress

__all__ = ["ExportResult", "export_image", "plan_export"]

# The most that deflate makes of a byte, with the overhead of gzip's members left out.
_MOST_DEFLATED = 1032


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """What an export wrote.

    Attributes
    ----------
    plan
        The plan it followed.
    shards
        Paths of the shards, in order.
    mixer
        Path of the mixer; None where a patch is left out, or ``masked_threshold`` forbids one.
    manifest
        Path of the manifest.
    patch_table
        Path of the patch table, or None.
    coco
        Path of the COCO file, or None.
    patches_written
        Records in all shards.
    patches_dropped
        Patches left out because their masked share passes ``masked_threshold``, or because they aren't chosen.
    masked_share
        Share of masked pixels among the pixels of all patches, margins not counted.
    pixels_unreadable
        Pixels of storage blocks that couldn't be read, and were masked by ``on_read_error="mask"``.
    shards_unchanged
        Names of the shards of an older set that had the very bytes of the new ones, and were left as they are.
    shards_resumed
        How many of the shards a stopped run had finished.
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

    plan: ExportPlan
    shards: tuple[Path, ...]
    mixer: Path | None
    manifest: Path
    patch_table: Path | None
    coco: Path | None
    patches_written: int
    patches_dropped: int
    masked_share: float
    pixels_unreadable: int
    values_rounded: int
    values_infinite: int
    values_overwritten: int
    shards_resumed: int
    size_bytes: int
    seconds: float
    warnings: tuple[str, ...]
    shards_unchanged: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON types; the plan's facts included."""
        return {
            "plan": self.plan.to_dict(),
            "shards": [str(path) for path in self.shards],
            "mixer": None if self.mixer is None else str(self.mixer),
            "manifest": str(self.manifest),
            "patch_table": None if self.patch_table is None else str(self.patch_table),
            "coco": None if self.coco is None else str(self.coco),
            "patches_written": self.patches_written,
            "patches_dropped_masked": self.patches_dropped,
            "left_out": self.plan.to_dict()["left_out"],
            "masked_share": round(self.masked_share, 6),
            "pixels_unreadable": self.pixels_unreadable,
            "values_rounded": self.values_rounded,
            "values_infinite": self.values_infinite,
            "values_overwritten": self.values_overwritten,
            "shards_unchanged": list(self.shards_unchanged),
            "shards_resumed": self.shards_resumed,
            "bytes": self.size_bytes,
            "seconds": round(self.seconds, 3),
            "warnings": list(self.warnings),
        }

    def to_text(self) -> str:
        """The summary for a person, some lines."""
        rows, columns = self.plan.layout.left_out_yx
        seconds = max(self.seconds, 1e-9)
        written = self.plan.total_bytes * self.patches_written / max(self.plan.layout.count, 1)
        return "\n".join(
            (
                f"wrote     {self.patches_written:,} patches to {len(self.shards):,}"
                f" shard{'s' if len(self.shards) != 1 else ''}, {human_bytes(self.size_bytes)}, in"
                f" {self.seconds:.1f} s ({written / seconds / 1e6:,.0f} MB/s)",
                f"dropped   {self.patches_dropped:,} patches over the masked threshold or not chosen; {columns} columns"
                f" and {rows} rows ({self.plan.layout.left_out_share:.1%} of the pixels) along the edges",
                f"masked    {self.masked_share:.1%} of the patches' pixels",
                f"mixer     {self.mixer or 'none: not every patch is there, or a masked threshold other than 1'}",
                f"manifest  {self.manifest}",
                *([] if self.patch_table is None else [f"table     {self.patch_table}"]),
                *self._rewritten(),
                *([] if self.coco is None else [f"shapes    {self.coco}"]),
            )
        )

    def _rewritten(self) -> list[str]:
        """Which shards an export over an older set rewrote; nothing where none stayed."""
        if not self.shards_unchanged:
            return []
        names = [path.name for path in self.shards if path.name not in self.shards_unchanged]
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8:,} more" if len(names) > 8 else "")
        return [f"unchanged {len(self.shards_unchanged):,} shards; rewritten: {shown or 'none'}"]


@checks_flags
def plan_export(
    sources: RastersLike,
    *,
    prefix: str | os.PathLike[str] | None = None,
    resume: bool = False,
    workers: int | None = None,
    memory_limit: Size | None = None,
    **options: Unpack[ExportKeywords],
) -> ExportPlan:
    """The plan of an export: grid, patches, shards, sizes, memory. Reads headers, no pixels, and writes nothing.

    Parameters and errors are those of :func:`export_image`. With a ``prefix`` in a store the plan also tells the space
    that this machine needs.
    """
    checked = ExportOptions.checked(**options)
    threads = resolve_workers(workers, os.cpu_count() or 1)
    with open_rasters(sources, checked, threads) as source:
        plan = Prepared(source, checked, workers=threads, memory_limit=memory_limit).plan
    return plan if prefix is None else with_scratch(plan, os.fspath(prefix), is_staged=resume)


@checks_flags
def export_image(
    sources: RastersLike,
    prefix: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    resume: bool = False,
    fast_resume: bool = False,
    on_read_error: str = "error",
    patch_table: bool = False,
    class_bands: str | Sequence[str] = (),
    workers: int | None = None,
    executor: ExecutorLike | None = None,
    scheduler: SchedulerLike | None = None,
    memory_limit: Size | None = None,
    progress: bool | Progress = False,
    on_plan: Callable[[ExportPlan], None] | None = None,
    **options: Unpack[ExportKeywords],
) -> ExportResult:
    """Export rasters as TFRecord patches with a mixer, as Earth Engine's ``Export.image`` does.

    One patch is one ``tf.train.Example``, each band one float list of the patch with its margins, row-major; patches
    are written in row-major order of the grid.

    Parameters
    ----------
    sources
        One raster or several, whose bands are stacked. ``FILE:3`` is band 3 of FILE. A raster in memory is
        ``(array, transform, crs)`` or ``(array, transform, crs, mask)``, the array (row, col) or (band, row, col), the
        mask True where pixels are valid; or an xarray ``DataArray`` with the CRS of rioxarray or odc-geo, lazy or not.
    prefix
        Folder and beginning of the names of all files; one that ends in ``/`` is a folder, made if its parent exists.
    overwrite
        Replace a set that has this prefix.
    resume
        Continue behind the last whole shard of a run of the same call that was stopped, and keep whole shards (under
        hidden names) if this run is stopped. The files are those of a run that wasn't. Without it, a run that fails
        leaves nothing, and what a killed one left is removed. Sources are compared by the digests that the stopped run
        noted; these are read whole for it, once. One that wasn't started with ``resume`` noted sizes and times only.
    fast_resume
        As ``resume``, but compare (and note) the sources' sizes and times of change, and don't read them for digests.
    on_read_error
        ``error`` (default): pixels that can't be read stop the export. ``mask``: their storage blocks are masked,
        counted and told.
    patch_table
        Also write ``PREFIX-patches.parquet``, a row for each patch: place, digest, outline, statistics. Needs the
        extra ``table`` (pyarrow). The other files are the same with and without it.
    class_bands
        Bands whose values are classes: the table gets the share of each class.
    workers
        Threads, or processes; by default as many as there are cores, up to 4. The bytes don't depend on it.
    executor
        ``threads`` (default); ``serial``, as one worker; ``processes`` of this machine; ``dask`` (extra ``dask``): the
        cluster of ``scheduler``, or one of ``workers`` processes for the time of the run; a dask client; or any
        ``concurrent.futures.Executor`` whose workers see sources and output. All but the first two stage parts where
        the output is. The bytes don't depend on it.
    scheduler
        Address of a dask scheduler, or a client that is connected to one; it stays open.
    memory_limit
        Resident memory that the run may take, in bytes or as ``"500MiB"``.
    progress
        True for a bar on stderr, or a function of (patches, bytes) that is called after each step.
    on_plan
        Called with the plan before a pixel is read; an error that it raises stops the export.
    format_options
        Earth Engine's ``formatOptions``, in its spelling; never changed. Each may be given as a keyword instead.
    patch_dimensions
        (width, height) of a patch, or one number for a square; required.
    kernel_size
        (width, height); each patch is buffered by floor(kernel / 2) on every side.
    compressed
        Whether shards are gzipped; True by default, as in Earth Engine's guide.
    compressor
        ``fast`` (default): gzip members that inflate in parallel. ``ee``: the very bytes Earth Engine writes.
    max_file_size
        Limit on a shard before compression; 1 GiB by default.
    default_value
        Set in every band of a masked pixel; 0 by default. Fractions are dropped for integer bands, and it is clamped
        to the band's type.
    masked_threshold
        Largest share of masked pixels a patch may have, 1 by default. Any other value: no mixer is written.
    bands
        Numbers from 1 through the stack, or names; ``new=old`` renames.
    array_bands
        Name -> elements of an array band: bands of the source, ``"3-14"``, or one file's band for each element,
        ``"stack_*.tif:2"``. Each needs an entry in ``tensor_depths``.
    tensor_depths
        Array band -> depth of its tensor; longer arrays are cut, shorter ones filled with ``default_value``.
    collapse_bands
        All bands as one tensor (channel, row, col), named after the first.
    sequence_data
        One ``tf.train.SequenceExample`` for each pixel instead of one Example for each patch.
    feature_kinds
        ``float`` (default): all numbers as float lists. ``native``: uint8 as one value of raw bytes, other integers as
        int64 lists.
    nodata
        A number that replaces the sources' nodata tags, or ``"none"`` to ignore them.
    masks
        Rasters, or ``FILE:band``, whose zeros mask.
    mask_mode
        ``pixel`` (default): a pixel masked in some band is filled in all. ``band``: each band its own.
    unscale
        Apply the bands' scale and offset; values become float32.
    complex_parts
        Complex bands as two features each, real and imaginary.
    patch_index
        Name of an int64 feature that holds the patch's number.
    valid_feature
        Name of a uint8 feature, 1 where a pixel is valid and 0 where it is masked, so that a model can mask its loss. A
        pixel is masked where some band is, in both mask modes, and in margins beyond the raster; labels don't count.
    edge
        ``drop`` (default) leaves partial patches out, as Earth Engine does; ``pad`` fills them with masked pixels.
    region
        What to export: GeoJSON, WKT, a file of either, or (west, south, east, north); in longitude and latitude unless
        it carries a CRS.
    clip_region
        Whether what is outside the region's shape is masked; by default not with ``scale`` or ``dimensions``.
    crs, crs_transform, scale, dimensions
        Another grid than the first source's, in Earth Engine's legal combinations: CRS, six numbers (xScale, xShear,
        xTranslation, yShear, yScale, yTranslation), metres a pixel, (width, height) or the longer side.
    resampling
        How sources on other grids are warped: ``nearest`` (default), ``bilinear``, ``cubic``, ``average``, ``mode``.
    allow_drivers
        GDAL drivers beside GTiff that may open the sources; only for files you trust.
    naming
        ``drive`` (``PREFIX-00000.tfrecord.gz``) or ``cloud-storage`` (``PREFIX00000.tfrecord.gz``).
    allow_ungeoreferenced
        Take rasters that have no georeference.
    labels, label_field, label_name, label_classes, label_priority, label_background, label_ignore, label_all_touched,
    label_instances, label_layer, label_where, label_crs, label_features,
    label_allow_empty, coco
        Shapes burnt as a band, or a raster of classes: see :class:`geotfr.options.labels.LabelOptions`.
    min_valid, min_share, class_band, keep, within, sample, stratify, balance, seed
        Which patches are written: see :class:`geotfr.options.choice.ChoiceOptions`. No mixer is written unless every
        patch is.
    allow_network
        Read sources and masks at ``https://``, ``http://``, ``s3://``, ``gs://`` and ``az://`` addresses; else none is
        fetched.

    Raises
    ------
    UsageError
        Options that are unknown, out of range or contradict each other, or no whole patch; ``resume`` of a run with
        other options, sources or versions.
    InputError
        A source is missing, is no raster, or can't be exported.
    ReadError
        A source's pixels can't be read.
    LimitError
        A record passes 2 GiB, or the memory needed passes ``memory_limit``.
    OutputError
        The output can't be written or can't fit, or exists and ``overwrite`` is False.
    EngineLostError
        The executor is gone, or its workers die again and again; what is finished is kept for ``resume``.

    Notes
    -----
    **Source**: Earth Engine's guide to TFRecord exports, and files that it exported.
    """
    started = time.perf_counter()
    checked = ExportOptions.checked(**options)
    threads = resolve_workers(workers, os.cpu_count() or 1)
    engine = checked_executor(executor, scheduler)
    table = TableRequest.of_export(checked, patch_table=patch_table, class_bands=class_bands)
    if engine not in ("serial", "threads"):
        if checked.labels is not None and checked.labels.coco:
            raise UsageError("coco: other processes make none; use the executor threads")
        if checked.choice is not None and checked.choice.draws:
            raise UsageError("sample, balance: each process would look at all patches; use the executor threads")
        # It builds upon this module.
        from geotfr.pipeline.export.parts.distribute import Distributed

        return Distributed(
            executor=engine,
            scheduler=scheduler,
            workers=threads,
            memory_limit=None if memory_limit is None else parse_size("memory_limit", memory_limit),
        ).export(
            sources,
            os.fspath(prefix),
            checked,
            on_read_error=on_read_error,
            table=table,
            overwrite=overwrite,
            resume=resume or fast_resume,
            progress=progress,
            on_plan=on_plan,
            started=started,
        )
    threads = 1 if engine == "serial" else threads
    with open_rasters(sources, checked, threads) as source:
        prepared = Prepared(
            source, checked, workers=threads, memory_limit=memory_limit, on_read_error=on_read_error, table=table
        )
        prepared.plan = with_scratch(prepared.plan, os.fspath(prefix), is_staged=resume or fast_resume)
        if on_plan is not None:
            on_plan(prepared.plan)
        return ExportJob(prepared).run(
            os.fspath(prefix),
            overwrite=overwrite,
            resume=resume or fast_resume,
            fast_resume=fast_resume,
            progress=progress,
            started=started,
        )


class ExportJob:
    """One export: what is prepared, written."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._source = prepared.source
        self.options = prepared.options
        self.table = prepared.table
        self._unreadable = prepared.unreadable
        self._encoder = prepared.encoder
        self._codec = prepared.codec
        self._rows = prepared.rows
        self._choice = prepared.choice
        self.plan = prepared.plan

    def run(
        self,
        prefix: str,
        *,
        overwrite: bool,
        resume: bool,
        fast_resume: bool,
        progress: bool | Progress,
        started: float,
    ) -> ExportResult:
        """Write the set."""
        from geotfr.rasters.safe_open import raster_env

        plan, options = self.plan, self.options
        names = self.names_at(prefix, compared=("resume", "the stopped run's; give files") if resume else None)
        outputs = set_at(names, overwrite=overwrite, resume=resume)
        with (
            outputs,
            raster_env(cache_bytes=plan.strips.gdal_cache_bytes),
            progress_bar(progress, total_patches=self._choice.count, what="export") as report,
        ):
            self.check_names(names, overwrite=overwrite or resume)
            expected = self._expected(names)
            if expected is not None:
                # A table of patches is made of the shards, which had to be asked for then.
                shards = list(expected)[: plan.shard_count] if self._rows is None else []
                outputs.check_expected(expected, in_order=shards)
            by_digest = resume and not fast_resume
            left = [] if self._is_unversioned else outputs.begin(self.head(outputs.noted, by_digest=by_digest))
            # The rows of patches that a stopped run wrote are gathered anew: its strips are read again.
            patches = range(plan.layout.count)
            journal = ExportJournal(outputs, left, self._unreadable, patches=patches, from_start=self._rows is not None)
            resumed = len(journal.shards)
            whole_bytes = sum(shard.file.size for shard in journal.shards)
            shard_bytes = self.least_bytes(plan.records_per_shard * plan.record_bytes)
            needed = outputs.local_bytes(self.least_bytes(plan.total_bytes) - whole_bytes, shard_bytes)
            sends = "" if resume else "; or give --resume (resume=True), which sends each shard when it is finished"
            check_space(names.folder, needed, what="this export", in_store=sends)
            report(journal.first_patch, whole_bytes)
            is_size_known = plan.is_even and options.compressor == "none" and self._choice.keeps_all
            writer = ShardWriter(
                outputs,
                self._codec,
                name=lambda shard: names.shard(shard, total=plan.shard_count),
                shard_bytes=plan.shard_bytes if is_size_known else lambda _: None,
                finished=journal.shards,
                on_finished=journal.finished,
            )
            self.write_records(writer, journal, report)
            tally = journal.tally
            named, infos = named_shards(names, writer.shards)
            unreadable = 0 if self._unreadable is None else self._unreadable.pixels
            manifest = self.manifest(infos, tally.dropped, unreadable)
            tables, labels = [], self._prepared.labels
            if self._rows is not None:
                table = write_table_of(
                    outputs, names.patch_table, self._rows.rows(), manifest, writer.shards, fills_of(plan.features)
                )
                tables.append((names.patch_table, table))
            if labels is not None and labels.coco:
                tables.append((names.coco, write_coco(outputs, names.coco, plan.layout, manifest, labels)))
            mixer_name = publish(outputs, names, [*named, *tables], manifest, plan.layout)
        # Where all records are alike, the plan has told it.
        oversized = 0 if plan.is_even else sum(shard.is_oversized for shard in writer.shards)
        return ExportResult(
            **set_facts(
                names,
                manifest,
                mixer_name,
                tally.counts,
                masked_pixels=tally.masked_pixels,
                patches=self._choice.count,
            ),
            plan=plan,
            patch_table=None if self._rows is None else names.folder / names.patch_table,
            coco=names.folder / names.coco if labels is not None and labels.coco else None,
            shards_unchanged=tuple(outputs.unchanged),
            shards_resumed=resumed,
            seconds=time.perf_counter() - started,
            warnings=(
                *self._source.warnings,
                *self._choice.warnings,
                *plan.warnings,
                *outcome_warnings(manifest, tally.counts, oversized),
                *unreadable_warnings(self._unreadable),
                *(() if self._rows is None else place_warnings(plan.layout.geobox)),
            ),
        )

    def names_at(self, prefix: str, *, compared: tuple[str, str] | None) -> SetNames:
        """The names of the set's files.

        Parameters
        ----------
        compared
            An option that compares the sources with those of other runs, and whose, with what to do where that can't
            be; None where nothing does.

        Raises
        ------
        UsageError
            A source has one of the names, or can't be compared.
        """
        names = SetNames.for_prefix(prefix, naming=self.options.naming, compressed_suffix=self._codec.suffix)
        for file in self._source.sources:
            path = Path(file.path).resolve()
            if path.parent == names.folder.resolve() and names.is_of_set(path.name):
                raise UsageError(f"{file.path}: a source has a name of the set to be written; give another --output")
        if compared is not None and self._is_unversioned:
            option, whose = compared
            raise UsageError(
                f"{option}: a source is in memory, or its server tells no version of it, and can't be compared with"
                f" {whose}"
            )
        return names

    @property
    def _is_unversioned(self) -> bool:
        """Whether a source can't be compared with another run's: it is in memory, or its server tells no version."""
        return self.options.has_frames or not all(file.has_version for file in self._source.sources)

    @property
    def block_shape_yx(self) -> tuple[int, int]:
        """(rows, columns) of the source's storage blocks."""
        return self._source.block_shape_yx

    def head(self, noted: Mapping[str, Any], *, by_digest: bool) -> dict[str, Any]:
        """What decides the bytes: a run that continues another must have the same."""
        from geotfr.rasters.versions import gdal_version

        geobox = self._source.geobox
        region = self.options.region_path
        return {
            "geotfr": __version__,
            "gdal": gdal_version(),
            "compressor": self._codec.library,
            "on_read_error": "error" if self._unreadable is None else "mask",
            "options": self.options.as_used(),
            "grid": {"crs": geobox.crs, "transform": list(geobox.affine), "size": list(geobox.shape_yx)},
            "features": [[feature.name, feature.kind, feature.depth] for feature in self.plan.features],
            "sources": source_identities(
                self._source.sources,
                [*([] if region is None else [region]), *self.options.vector_paths],
                noted=noted.get("sources"),
                by_digest=by_digest,
            ),
        }

    def least_bytes(self, size: int) -> int:
        """Bytes that shards of ``size`` bytes before compression take for certain."""
        if not self._choice.keeps_all or not self.plan.is_even:
            return 0
        return size // (1 if self.options.compressor == "none" else _MOST_DEFLATED)

    def _expected(self, names: SetNames) -> dict[str, int | None] | None:
        """Names and sizes of the set's files, sizes where they are known; None where the pixels decide the names."""
        plan, total = self.plan, self.plan.shard_count
        if not plan.is_even or not self._choice.keeps_all:
            return None
        is_plain = self.options.compressor == "none"
        found: dict[str, int | None] = {
            names.shard(number, total=total): plan.shard_bytes(number) if is_plain else None for number in range(total)
        }
        tables = [names.patch_table] if self._rows is not None else []
        return found | dict.fromkeys([*tables, names.manifest, names.mixer(total=total), names.coco])

    def check_names(self, names: SetNames, *, overwrite: bool) -> None:
        """Refuse, before a pixel is read, names that can't be taken; a set's own files are looked for elsewhere."""
        plan = self.plan
        check_output(names.folder / names.manifest, overwrite=True)
        if self._rows is not None:
            table = names.folder / names.patch_table
            check_output(table, overwrite=overwrite and is_patch_table(table))
        if self.options.labels is not None and self.options.labels.coco:
            check_output(names.folder / names.coco, overwrite=overwrite and is_coco(names.folder / names.coco))
        check_output(names.folder / names.shard(plan.shard_count - 1, total=plan.shard_count), overwrite=True)
        if plan.is_even and self.options.masked_threshold == 1:
            check_output(names.folder / names.mixer(total=plan.shard_count), overwrite=overwrite)

    def write_records(
        self,
        writer: ShardWriter,
        journal: ExportJournal,
        report: Progress,
        part: Part | None = None,
        *,
        closes_shard: bool = True,
    ) -> None:
        """Read the strips, encode their patches on the workers, and cut the records into shards, in order.

        The last shard is closed unless others go on with it.
        """
        self._prepared.draw()
        plan, encoder, options, tally, rows = self.plan, self._encoder, self.options, journal.tally, self._rows
        with encoder_pool(plan.workers) as pool:
            cutter = ShardCutter(
                writer,
                rule=plan.rule,
                max_shard_bytes=options.max_shard_bytes,
                # Behind a whole shard another one begins.
                begun_bytes=0 if part is None or journal.shards else part.begun_bytes,
                cuts_chunks=part is None or part.knows_shards,
                executor=pool,
                window=plan.workers + 1,
                release=encoder.recycle,
                report=report,
            )
            surplus = journal.surplus

            def encode(strip: Strip, unit: Unit) -> tuple[Encoded, Slots, PatchRows | None]:
                encoded, slots = encoder.encode(strip, unit), slots_of(encoder, strip, unit)
                return encoded, slots, None if rows is None else rows.rows_of(strip, unit, encoded)

            def commit(done: tuple[Encoded, Slots, PatchRows | None]) -> None:
                nonlocal surplus
                encoded, slots, found = done
                if rows is not None:
                    rows.add(encoded, found)
                tally.counts.add(encoded.counts)
                tally.records += len(encoded.ends)
                known = min(surplus, len(encoded.ends))
                surplus -= known
                cutter.add(encoded, slots, leaving_out=known)

            window = OrderedWindow(pool, commit, size=plan.workers + 1)
            stop = None if part is None else part.patches.stop
            for strip in self._prepared.strips(first_patch=journal.first_patch, stop_patch=stop):
                journal.strip(strip.rows.start * plan.layout.columns + strip.columns.start)
                for unit in encoder.units(self._choice.positions(strip, tally)):
                    window.submit(encode, strip, unit)
                # The strip's buffer is used again: nothing may still be encoded from it.
                window.drain()
            if closes_shard:
                cutter.finish()
            else:
                cutter.flush()

    def manifest(self, shards: Sequence[ShardInfo], dropped: Sequence[int], pixels_unreadable: int) -> Manifest:
        """The manifest that lists ``shards``, and the numbers of the patches that were dropped."""
        plan, layout = self.plan, self.plan.layout
        return Manifest(
            geotfr_version=__version__,
            options=self.options.as_used(),
            geobox=layout.geobox,
            patch_yx=layout.patch_yx,
            kernel_yx=layout.kernel_yx,
            margin_yx=layout.margin_yx,
            rows=layout.rows,
            columns=layout.columns,
            left_out_yx=layout.left_out_yx,
            bands=tuple(self._band_info(feature) for feature in plan.features),
            patches_written=layout.count - len(dropped),
            patches_dropped=tuple(dropped),
            shards=tuple(shards),
            sources=tuple(SourceInfo(name=file.name, bytes=file.size_bytes) for file in self._source.sources),
            compressor=self._codec.name,
            compressor_level=self._codec.level,
            compressor_library=self._codec.library,
            pixels_unreadable=pixels_unreadable,
            labels=None if self._prepared.labels is None else self._prepared.labels.to_dict(),
        )

    def _band_info(self, feature: FeatureSpec) -> BandInfo:
        if feature.is_validity:
            return BandInfo(name=feature.name, dtype="uint8", kind=feature.kind, depth=None, nodata=None, fill=0)
        planes = [self._source.bands[plane] for plane in feature.planes if plane is not None]
        return BandInfo(
            name=feature.name,
            dtype=np.result_type(*(plane.dtype for plane in planes)).name,
            kind=feature.kind,
            depth=feature.depth,
            nodata=_json_nodata(planes[0].nodata),
            fill=feature.fills[0] if len(set(feature.fills)) == 1 else None,
        )


def _json_nodata(values: tuple[Any, ...]) -> float | int | str | None:
    """The first of a band's nodata values in a form that JSON has."""
    if not values:
        return None
    value = values[0].item() if hasattr(values[0], "item") else values[0]
    return value if isinstance(value, int) or np.isfinite(value) else str(value)

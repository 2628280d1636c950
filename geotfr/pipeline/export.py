"""Export: sources -> grid -> layout -> plan -> strips -> records -> shards -> mixer -> manifest."""

from __future__ import annotations

import os
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from geotfr._version import __version__
from geotfr.errors import UsageError
from geotfr.mixer import BandInfo, Manifest, Mixer, SetNames, ShardInfo, SourceInfo, is_manifest, is_mixer
from geotfr.options import ExportKeywords, ExportOptions, parse_size, resolve_workers
from geotfr.patches import PatchLayout
from geotfr.pipeline.encode import EncodeCounts, ExampleEncoder, example_layout
from geotfr.pipeline.parallel import OrderedWindow, encoder_pool
from geotfr.pipeline.plan import BandSpec, ExportPlan, human_bytes, plan_for
from geotfr.pipeline.progress import progress_bar
from geotfr.pipeline.shards import ShardWriter
from geotfr.pipeline.strips import StripReader
from geotfr.records.gzip import codec, ee_bytes_promised
from geotfr.records.layout import Kind
from geotfr.storage import OutputSet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from geotfr.options import Size
    from geotfr.patches.cut import Strip
    from geotfr.pipeline.progress import Progress
    from geotfr.rasters.source import RasterSource
    from geotfr.storage import AtomicFile

__all__ = ["ExportResult", "export_image", "plan_export"]


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
        Path of the mixer; None where ``masked_threshold`` forbids one.
    manifest
        Path of the manifest.
    patches_written
        Records in all shards.
    patches_dropped
        Patches left out because their masked share passes ``masked_threshold``.
    masked_share
        Share of masked pixels among the pixels of all patches, margins not counted.
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
    patches_written: int
    patches_dropped: int
    masked_share: float
    size_bytes: int
    seconds: float
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON types; the plan's facts included."""
        return {
            "plan": self.plan.to_dict(),
            "shards": [str(path) for path in self.shards],
            "mixer": None if self.mixer is None else str(self.mixer),
            "manifest": str(self.manifest),
            "patches_written": self.patches_written,
            "patches_dropped_masked": self.patches_dropped,
            "left_out": self.plan.to_dict()["left_out"],
            "masked_share": round(self.masked_share, 6),
            "bytes": self.size_bytes,
            "seconds": round(self.seconds, 3),
            "warnings": list(self.warnings),
        }

    def to_text(self) -> str:
        """The summary for a person, some lines."""
        rows, columns = self.plan.layout.left_out_yx
        seconds = max(self.seconds, 1e-9)
        return "\n".join(
            (
                f"wrote     {self.patches_written:,} patches to {len(self.shards):,}"
                f" shard{'s' if len(self.shards) != 1 else ''}, {human_bytes(self.size_bytes)}, in"
                f" {self.seconds:.1f} s ({self.patches_written * self.plan.record_bytes / seconds / 1e6:,.0f} MB/s)",
                f"dropped   {self.patches_dropped:,} patches over the masked threshold; {columns} columns and {rows}"
                f" rows ({self.plan.layout.left_out_share:.1%} of the pixels) along the edges",
                f"masked    {self.masked_share:.1%} of the patches' pixels",
                f"mixer     {self.mixer or 'none: a masked threshold other than 1 forbids it'}",
                f"manifest  {self.manifest}",
            )
        )


def plan_export(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    workers: int | None = None,
    memory_limit: Size | None = None,
    **options: Unpack[ExportKeywords],
) -> ExportPlan:
    """The plan of an export: grid, patches, shards, sizes, memory. Reads headers, no pixels, and writes nothing.

    Parameters and errors are those of :func:`export_image`.
    """
    checked = ExportOptions.checked(**options)
    with _open(sources, checked, resolve_workers(workers, os.cpu_count() or 1)) as source:
        return _plan(source, checked, workers=workers, memory_limit=memory_limit)


def export_image(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    prefix: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    workers: int | None = None,
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
        One raster or several on one grid, whose bands are stacked. ``FILE:3`` is band 3 of FILE.
    prefix
        Folder and beginning of the names of all files; one that ends in ``/`` is a folder, made if its parent exists.
    overwrite
        Replace a set that has this prefix.
    workers
        Threads; by default as many as there are cores, up to 4. The bytes don't depend on it.
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
    nodata
        A number that replaces the sources' nodata tags, or ``"none"`` to ignore them.
    naming
        ``drive`` (``PREFIX-00000.tfrecord.gz``) or ``cloud-storage`` (``PREFIX00000.tfrecord.gz``).
    allow_ungeoreferenced
        Take rasters that have no georeference.

    Raises
    ------
    UsageError
        Options that are unknown, out of range or contradict each other, or no whole patch.
    InputError
        A source is missing, is no raster, or can't be exported.
    ReadError
        A source's pixels can't be read.
    LimitError
        A record passes 2 GiB, or the memory needed passes ``memory_limit``.
    OutputError
        The output can't be written, or exists and ``overwrite`` is False.

    Notes
    -----
    **Source**: Earth Engine's guide to TFRecord exports, and files that it exported.
    """
    started = time.perf_counter()
    checked = ExportOptions.checked(**options)
    with _open(sources, checked, resolve_workers(workers, os.cpu_count() or 1)) as source:
        plan = _plan(source, checked, workers=workers, memory_limit=memory_limit)
        if on_plan is not None:
            on_plan(plan)
        return _run(source, plan, checked, os.fspath(prefix), overwrite=overwrite, progress=progress, started=started)


def _open(sources: Any, options: ExportOptions, workers: int) -> RasterSource:
    from geotfr.rasters.source import open_sources

    many = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    return open_sources(
        [os.fspath(source) for source in many],
        bands=options.bands,
        nodata=options.nodata,
        allow_ungeoreferenced=options.allow_ungeoreferenced,
        threads=workers,
    )


def _plan(
    source: RasterSource, options: ExportOptions, *, workers: int | None, memory_limit: Size | None
) -> ExportPlan:
    bands = tuple(
        BandSpec(
            name=band.name,
            dtype=band.dtype,
            kind=Kind.FLOAT.value,
            depth=None,
            nodata=_json_nodata(band.nodata),
        )
        for band in source.bands
    )
    layout = PatchLayout(geobox=source.geobox, patch_yx=options.patch_yx, kernel_yx=options.kernel_yx)
    return plan_for(
        geobox=source.geobox,
        bands=bands,
        record_bytes=example_layout(layout, [band.name for band in bands]).record_bytes,
        block_shape_yx=source.block_shape_yx,
        block_bytes=source.block_bytes,
        options=options,
        workers=resolve_workers(workers, os.cpu_count() or 1),
        memory_limit=None if memory_limit is None else parse_size("memory_limit", memory_limit),
    )


def _json_nodata(values: tuple[Any, ...]) -> float | int | str | None:
    """The first of a band's nodata values in a form that JSON has."""
    if not values:
        return None
    value = values[0].item() if hasattr(values[0], "item") else values[0]
    return value if isinstance(value, int) or np.isfinite(value) else str(value)


@dataclass(slots=True)
class _Chunk:
    """Records that are packed together: consecutive in one shard."""

    shard: int
    capacity: int
    records: NDArray[np.uint8]
    filled: int = 0


class _Chunks:
    """Cuts the sequence of records into chunks, by their place in their shard alone, and recycles the memory."""

    def __init__(self, plan: ExportPlan, encoder: ExampleEncoder) -> None:
        self._plan = plan
        self._encoder = encoder
        self._free: deque[NDArray[np.uint8]] = deque()
        self._next_record = 0

    def begin(self) -> _Chunk:
        plan = self._plan
        shard, place = divmod(self._next_record, plan.records_per_shard)
        capacity = min(plan.chunk_records, plan.records_per_shard - place)
        # Templates are written once; each use fills in values and checksums.
        records = self._free.popleft() if self._free else self._encoder.layout.allocate(plan.chunk_records)
        self._next_record += capacity
        return _Chunk(shard=shard, capacity=capacity, records=records)

    def recycle(self, chunk: _Chunk) -> None:
        self._free.append(chunk.records)


@dataclass(slots=True)
class _Tally:
    """What the summary and the manifest tell of the pixels."""

    counts: EncodeCounts
    masked_pixels: int
    dropped: list[int]


def _run(
    source: RasterSource,
    plan: ExportPlan,
    options: ExportOptions,
    prefix: str,
    *,
    overwrite: bool,
    progress: bool | Progress,
    started: float,
) -> ExportResult:
    from geotfr.rasters.safe_open import raster_env

    shard_codec = codec(options.compressor)
    names = SetNames.for_prefix(prefix, naming=options.naming, compressed_suffix=shard_codec.suffix)
    for file in source.sources:
        path = Path(file.path).resolve()
        if path.parent == names.folder.resolve() and names.is_of_set(path.name):
            raise UsageError(f"{file.path}: a source has a name of the set to be written; give another --output")
    outputs = OutputSet(names.folder, belongs=_belongs(names), overwrite=overwrite, make_folder=not names.name)
    with (
        outputs,
        raster_env(cache_bytes=plan.strips.gdal_cache_bytes),
        progress_bar(progress, total_patches=plan.layout.count, what="export") as report,
    ):
        is_size_known = options.compressor == "none" and options.masked_threshold == 1
        writer = ShardWriter(outputs, shard_codec, shard_bytes=plan.shard_bytes if is_size_known else lambda _: None)
        tally = _write_records(plan, source, writer, options, report, pack=shard_codec.pack)
        named, manifest = _describe(plan, source, options, names, writer, tally)
        files = list(named)
        mixer_name = None
        if options.masked_threshold == 1:
            mixer_name = names.mixer(total=len(named))
            files.append((mixer_name, _text_file(outputs, Mixer.for_layout(plan.layout).to_text())))
        files.append((names.manifest, _text_file(outputs, manifest.to_text())))
        outputs.publish(files, incomplete_without=(names.manifest, names.mixer(total=1), names.mixer(total=2)))
    folder = names.folder
    return ExportResult(
        plan=plan,
        shards=tuple(folder / name for name, _ in named),
        mixer=None if mixer_name is None else folder / mixer_name,
        manifest=folder / names.manifest,
        patches_written=manifest.patches_written,
        patches_dropped=len(manifest.patches_dropped),
        masked_share=tally.masked_pixels / (plan.layout.count * plan.layout.patch_yx[0] * plan.layout.patch_yx[1]),
        size_bytes=sum(shard.bytes for shard in manifest.shards),
        seconds=time.perf_counter() - started,
        warnings=(*source.warnings, *plan.warnings, *_warnings(options, tally, manifest.patches_written)),
    )


def _write_records(
    plan: ExportPlan,
    source: RasterSource,
    writer: ShardWriter,
    options: ExportOptions,
    report: Progress,
    *,
    pack: Any,
) -> _Tally:
    """Read the strips, encode and pack their patches on the workers, and write them in order."""
    encoder = ExampleEncoder(
        example_layout(plan.layout, [band.name for band in plan.bands]),
        plan.bands,
        default_value=options.default_value,
    )
    chunks = _Chunks(plan, encoder)
    tally = _Tally(EncodeCounts(), 0, [])

    def encode_and_pack(
        strip: Strip | None, positions: NDArray[np.int64], chunk: _Chunk
    ) -> tuple[_Chunk, Buffer, EncodeCounts]:
        records = chunk.records[: chunk.filled]
        counts = EncodeCounts()
        if strip is not None:
            counts = encoder.encode(strip, positions, records[chunk.filled - len(positions) :])
        return chunk, pack(records.reshape(-1)), counts

    def commit(packed: tuple[_Chunk, Buffer, EncodeCounts]) -> None:
        chunk, data, counts = packed
        size = writer.add(chunk.shard, data, chunk.filled)
        tally.counts.add(counts)
        chunks.recycle(chunk)
        report(chunk.filled, size)

    chunk: _Chunk | None = None
    with encoder_pool(plan.workers) as pool:
        window = OrderedWindow(pool, commit, size=plan.workers + 1)
        for strip in StripReader(plan, source):
            positions = _kept(strip, options.masked_threshold, tally)
            while len(positions):
                chunk = chunk or chunks.begin()
                taken = positions[: chunk.capacity - chunk.filled]
                positions = positions[len(taken) :]
                chunk.filled += len(taken)
                if chunk.filled == chunk.capacity:
                    window.submit(encode_and_pack, strip, taken, chunk)
                    chunk = None
                else:
                    # The strip ends within a chunk: its patches are encoded now, for the strip's buffer is reused.
                    rows = chunk.records[chunk.filled - len(taken) : chunk.filled]
                    tally.counts.add(encoder.encode(strip, taken, rows))
            window.drain()
        if chunk is not None:
            window.submit(encode_and_pack, None, np.empty(0, np.int64), chunk)
            window.drain()
    writer.finish()
    return tally


def _kept(strip: Strip, threshold: float, tally: _Tally) -> NDArray[np.int64]:
    """Positions within the strip of the patches to write; the others' numbers go into the tally."""
    tally.masked_pixels += int(strip.masked_counts.sum())
    pixels = strip.layout.patch_yx[0] * strip.layout.patch_yx[1]
    # A division rounds as the threshold's text did: a share that just meets it is kept.
    is_kept = strip.masked_counts.ravel() / pixels <= threshold
    if not is_kept.all():
        rows, columns = np.divmod(np.flatnonzero(~is_kept), len(strip.columns))
        numbers = (strip.rows.start + rows) * strip.layout.columns + strip.columns.start + columns
        tally.dropped += numbers.tolist()
    return np.flatnonzero(is_kept)


def _describe(
    plan: ExportPlan,
    source: RasterSource,
    options: ExportOptions,
    names: SetNames,
    writer: ShardWriter,
    tally: _Tally,
) -> tuple[list[tuple[str, AtomicFile]], Manifest]:
    """The shards with their final names, and the manifest that lists them."""
    total = len(writer.shards)
    named = [(names.shard(number, total=total), shard.file) for number, shard in enumerate(writer.shards)]
    layout, shard_codec = plan.layout, codec(options.compressor)
    manifest = Manifest(
        geotfr_version=__version__,
        options=options.as_used(),
        geobox=layout.geobox,
        patch_yx=layout.patch_yx,
        kernel_yx=layout.kernel_yx,
        margin_yx=layout.margin_yx,
        rows=layout.rows,
        columns=layout.columns,
        left_out_yx=layout.left_out_yx,
        bands=tuple(
            BandInfo(name=b.name, dtype=b.dtype.name, kind=b.kind, depth=b.depth, nodata=b.nodata) for b in plan.bands
        ),
        patches_written=sum(shard.records for shard in writer.shards),
        patches_dropped=tuple(tally.dropped),
        shards=tuple(
            ShardInfo(name=name, records=shard.records, bytes=shard.file.size, crc32c=f"{shard.file.crc:08x}")
            for (name, _), shard in zip(named, writer.shards, strict=True)
        ),
        sources=tuple(SourceInfo(name=file.name, bytes=file.size_bytes) for file in source.sources),
        compressor=shard_codec.name,
        compressor_level=shard_codec.level,
        compressor_library=shard_codec.library,
    )
    return named, manifest


def _text_file(outputs: OutputSet, text: str) -> AtomicFile:
    file = outputs.create()
    file.write(text.encode())
    file.finish()
    return file


def _belongs(names: SetNames) -> Any:
    """Whether a file of the folder belongs to the set; a JSON file by its content too, for users have others."""

    def belongs(file_name: str) -> bool:
        if not names.is_of_set(file_name):
            return False
        path = names.folder / file_name
        return not file_name.endswith(".json") or is_mixer(path) or is_manifest(path)

    return belongs


def _warnings(options: ExportOptions, tally: _Tally, written: int) -> list[str]:
    found = []
    if tally.counts.inexact:
        found.append(f"{tally.counts.inexact:,} integers beyond 2^24 can't be held exactly by float32 and were rounded")
    if tally.counts.infinite:
        found.append(f"{tally.counts.infinite:,} float64 values beyond float32's range became infinite")
    if options.masked_threshold != 1:
        found.append(
            "a masked threshold other than 1: no mixer is written, as Earth Engine does; the manifest tells more"
        )
    if not written:
        found.append("every patch is masked beyond the threshold: no shard is written")
    if options.compressor == "ee" and not ee_bytes_promised():
        found.append("this Python's zlib is zlib-ng, whose level 6 gives other bytes than Earth Engine's")
    return found

"""Predictions as records: a set of shards with its mixer and manifest, as Earth Engine takes them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from geotfr._version import __version__
from geotfr.errors import UsageError
from geotfr.mixer import BandInfo, Manifest, Mixer, SetNames, ShardInfo
from geotfr.pipeline.export.chunks import ChunkRule, Slots
from geotfr.pipeline.export.encode import Encoded
from geotfr.pipeline.export.fill import LIST_DTYPE, EncodeCounts
from geotfr.pipeline.export.shards import ShardCutter, ShardWriter
from geotfr.pipeline.parallel import encoder_pool
from geotfr.pipeline.predict.result import Written
from geotfr.pipeline.progress import progress_bar
from geotfr.pipeline.set_files import set_at, text_file
from geotfr.records.faults import ReadReport
from geotfr.records.gzip import codec
from geotfr.records.kind import Kind
from geotfr.records.varying import example_records, list_column
from geotfr.storage.atomic import check_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geotfr.mixer.names import Naming
    from geotfr.pipeline.ingest.output_grid import OutputGrid
    from geotfr.pipeline.ingest.predictions import PatchValues, PredictionBand
    from geotfr.pipeline.predict.inputs import PatchInputs
    from geotfr.pipeline.predict.model import ModelPredictions
    from geotfr.pipeline.progress import Progress
    from geotfr.storage import AtomicFile

__all__ = ["PredictionSetWriter"]


class PredictionSetWriter:
    """Writes predictions as a set of shards that has ``prefix``.

    Parameters
    ----------
    prefix, naming, compressor, max_shard_bytes
        As of an export.
    overwrite
        Whether an older set may be replaced.
    threads
        Threads that compress.

    Raises
    ------
    UsageError
        A prefix that names no file.
    """

    def __init__(
        self, prefix: str, *, naming: Naming, compressor: str, max_shard_bytes: int, overwrite: bool, threads: int
    ) -> None:
        self._codec = codec(compressor)
        self._naming = naming
        self._max_shard_bytes = max_shard_bytes
        self._overwrite = overwrite
        self._threads = threads
        self.names = SetNames.for_prefix(prefix, naming=naming, compressed_suffix=self._codec.suffix)

    def check(self, inputs: PatchInputs, grid: OutputGrid) -> None:
        """Refuse to write over what is read, or where nothing can be written."""
        del grid
        if not self.names.name and not self.names.folder.exists():
            check_output(self.names.folder, overwrite=True)
        else:
            check_output(self.names.folder / self.names.manifest, overwrite=self._overwrite)
        for file in inputs.files:
            if file.resolve().parent == self.names.folder.resolve() and self.names.is_of_set(file.name):
                raise UsageError(f"{file}: an input has a name of the set to be written; give another output")

    def write(
        self, predictions: ModelPredictions, inputs: PatchInputs, grid: OutputGrid, *, progress: bool | Progress
    ) -> Written:
        """Run the model over all patches and write the set; its files take their names when all are whole."""
        names = self.names
        outputs = set_at(names, overwrite=self._overwrite)
        total = grid.rows * grid.columns
        with outputs, progress_bar(progress, total_patches=total, what="predict") as report:
            writer = ShardWriter(outputs, self._codec, name=lambda shard: names.shard(shard, total=2))
            self._write_records(writer, predictions, range(grid.columns), report)
            count = len(writer.shards)
            named = [(names.shard(number, total=count), shard.file) for number, shard in enumerate(writer.shards)]
            files: list[tuple[str, AtomicFile]] = list(named)
            mixer = None
            if not inputs.dropped:
                mixer = names.mixer(total=count)
                files.append((mixer, text_file(outputs, mixer, _mixer(grid).to_text())))
            records = [shard.records for shard in writer.shards]
            manifest = self._manifest(predictions, inputs, grid, named, records)
            files.append((names.manifest, text_file(outputs, names.manifest, manifest.to_text())))
            outputs.publish(files, incomplete_without=names.tellers)
        return Written(
            bands=tuple(band.name for band in predictions.bands),
            dtypes=tuple(LIST_DTYPE[band.kind].name for band in predictions.bands),
            size_bytes=sum(file.size for _, file in named),
            shards=tuple(names.folder / name for name, _ in named),
            mixer=None if mixer is None else names.folder / mixer,
            manifest=names.folder / names.manifest,
            notes=() if mixer else ("patches were left out: no mixer is written, and the manifest stands in for it",),
        )

    def _write_records(
        self, writer: ShardWriter, predictions: ModelPredictions, columns: range, report: Progress
    ) -> None:
        rule = ChunkRule.for_records(columns=len(columns), records_per_patch=1, record_bytes=predictions.patch_bytes)
        with encoder_pool(self._threads) as pool:
            cutter = ShardCutter(
                writer,
                rule=rule,
                max_shard_bytes=self._max_shard_bytes,
                executor=pool,
                window=self._threads + 1,
                release=lambda _: None,
                report=report,
            )
            for patches in predictions.patches(ReadReport(), columns):
                numbers = patches.first + np.arange(len(patches))
                slots = Slots(numbers=numbers, records_per_patch=1, first=0, each=1)
                cutter.add(_encoded(patches, predictions.bands), slots)
            cutter.finish()

    def _manifest(
        self,
        predictions: ModelPredictions,
        inputs: PatchInputs,
        grid: OutputGrid,
        named: Sequence[tuple[str, AtomicFile]],
        records: Sequence[int],
    ) -> Manifest:
        margin = _margin(predictions.bands)
        height, width = grid.patch_yx
        is_padded = grid.geobox.shape_yx != (grid.rows * height, grid.columns * width)
        return Manifest(
            geotfr_version=__version__,
            options={
                "patch_dimensions": [width, height],
                "kernel_size": [max(2 * margin[1], 1), max(2 * margin[0], 1)],
                "edge": "pad" if is_padded else "drop",
                "max_file_size": self._max_shard_bytes,
                "compressor": self._codec.name,
                "naming": self._naming,
            },
            geobox=grid.geobox,
            patch_yx=grid.patch_yx,
            kernel_yx=(max(2 * margin[0], 1), max(2 * margin[1], 1)),
            margin_yx=margin,
            rows=grid.rows,
            columns=grid.columns,
            left_out_yx=(0, 0),
            bands=tuple(
                BandInfo(name=band.name, dtype=LIST_DTYPE[band.kind].name, kind=band.kind, depth=None, nodata=None)
                for band in predictions.bands
            ),
            patches_written=sum(records),
            patches_dropped=inputs.dropped,
            shards=tuple(
                ShardInfo(name=name, records=count, bytes=file.size, crc32c=f"{file.crc:08x}")
                for (name, file), count in zip(named, records, strict=True)
            ),
            sources=inputs.sources,
            compressor=self._codec.name,
            compressor_level=self._codec.level,
            compressor_library=self._codec.library,
        )


def _mixer(grid: OutputGrid) -> Mixer:
    """The mixer of the predictions' own grid: coarser and finer ones have other pixels than the patches."""
    return Mixer(
        crs=grid.geobox.crs,
        affine=grid.geobox.affine,
        patch_xy=(grid.patch_yx[1], grid.patch_yx[0]),
        patches_per_row=grid.columns,
        total_patches=grid.rows * grid.columns,
    )


def _margin(bands: Sequence[PredictionBand]) -> tuple[int, int]:
    """The margin that predictions carry; one, for a manifest and a reader know of one."""
    found = {band.reading.margin_yx: band.feature for band in bands if band.reading.margin_yx != (0, 0)}
    if len(found) > 1:
        (first, one), (second, other) = list(found.items())[:2]
        raise UsageError(
            f"model: outputs {one!r} and {other!r} have margins of {first[1]} x {first[0]} and {second[1]} x"
            f" {second[0]} pixels; a set of records has one: trim them, or write a raster"
        )
    return next(iter(found), (0, 0))


def _encoded(patches: PatchValues, bands: Sequence[PredictionBand]) -> Encoded:
    """A record for each patch, a feature for each band."""
    count = len(patches)
    blocks = (band.reading.blocks(patches.values[band.feature], band.channel) for band in bands)
    columns = [
        list_column(band.name, Kind(band.kind), np.ascontiguousarray(values).reshape(count, -1))
        for band, values in zip(bands, blocks, strict=True)
    ]
    data, ends = example_records(columns, count)
    return Encoded(data, ends, len(patches), EncodeCounts())

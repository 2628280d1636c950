"""From records to patches without margins: cropped, or blended with their neighbours.

Both come as runs of consecutive patches of one patch row, in ascending order. Blocks are blended in groups whose edges
the grid alone decides: each pixel's predictions are added in one order, however records are spread over shards, whether
a feature holds one band or all, and in how many passes the raster is written.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from geotfr.errors import UsageError
from geotfr.patches.blend import blend_bytes, new_blender
from geotfr.patches.blend_area import BlendArea

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from geotfr.options import IngestOptions
    from geotfr.patches.blend import Blender
    from geotfr.pipeline.ingest.output_grid import OutputGrid
    from geotfr.pipeline.ingest.predictions import PatchValues, PredictionBand
    from geotfr.records.faults import ReadReport

__all__ = ["BLEND_BUDGET_BYTES", "Cores", "PatchRun", "PatchSource"]

BLEND_BUDGET_BYTES = 128 * 2**20
"""What the strips of a blend may take; a raster too wide for it is blended in several passes."""

_CHUNK_PIXELS = 1 << 17
_MEANS = ("average", "linear", "cosine", "gaussian")


class PatchSource(Protocol):
    """Where patches come from: records, or a model as it runs.

    Attributes
    ----------
    bands
        The bands of the output, in order.
    lost
        Patches that should have come and didn't, after a whole pass.
    patch_bytes
        Bytes of a patch's values.
    """

    bands: tuple[PredictionBand, ...]

    @property
    def lost(self) -> int: ...

    @property
    def patch_bytes(self) -> int: ...

    def patches(self, report: ReadReport, columns: range, rows: range | None = None) -> Iterator[PatchValues]:
        """The patches in ascending order, those of the patch columns ``columns`` at least; ``rows`` None: of all."""
        ...


@dataclass(slots=True)
class PatchRun:
    """Consecutive patches of patch row ``row``, from patch column ``column`` on.

    Attributes
    ----------
    bands
        For each band its values ``(patch, row, col)``, without margins.
    valid
        The same shapes, False where there is no prediction; None where every value is one (floats may be NaN).
    where
        Tells which record a patch of the run comes from.
    nan_values
        How many values of the patches' records are NaN and took no part in a blend, margins counted.
    """

    row: int
    column: int
    bands: Sequence[NDArray[Any]]
    valid: Sequence[NDArray[np.bool_]] | None
    where: Callable[[int], str]
    nan_values: int = 0

    def __len__(self) -> int:
        return len(self.bands[0])


class Cores:
    """The patches of a source of predictions, without margins.

    Raises
    ------
    UsageError
        An overlap that means nothing for the features: class ids are never averaged, one band has no greatest one.
    """

    def __init__(self, predictions: PatchSource, grid: OutputGrid, options: IngestOptions) -> None:
        self._predictions = predictions
        self._grid = grid
        self._overlap = options.overlap
        self._nodata = options.nodata
        self.bands = predictions.bands
        self._groups = _groups(self.bands)
        margins = [bands[0].reading.margin_yx for bands in self._groups]
        self._lag, self._reach = (max(-(-margin[axis] // grid.patch_yx[axis]) for margin in margins) for axis in (0, 1))
        self._dtype = _blended_dtype(self.bands, options)
        if self._overlap != "crop":
            _check_overlap(self.bands, self._groups, options)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that holds all values."""
        return self._dtype

    @property
    def most_columns(self) -> int | None:
        """Patch columns that can be blended in one pass; None: any number."""
        if self._overlap == "crop":
            return None
        return max(BLEND_BUDGET_BYTES // self._column_bytes - 2 * self._reach, 1)

    @property
    def margin_yx(self) -> tuple[int, int]:
        """(rows, columns) of the widest margin."""
        margins = [bands[0].reading.margin_yx for bands in self._groups]
        return max(margin[0] for margin in margins), max(margin[1] for margin in margins)

    def held_bytes(self, columns: int) -> int:
        """Bytes that blending so many patch columns takes."""
        return 0 if self._overlap == "crop" else (columns + 2 * self._reach) * self._column_bytes

    @property
    def _column_bytes(self) -> int:
        return sum(
            blend_bytes(
                self._overlap,
                self._area(bands, range(1), range(1)),
                bands=len(bands),
                itemsize=self._group_dtype(bands).itemsize,
            )
            for bands in self._groups
        )

    def runs(self, columns: range, report: ReadReport, rows: range | None = None) -> Iterator[PatchRun]:
        """The patches of some patch columns, and rows if not all are wanted, in ascending order."""
        if self._overlap == "crop":
            yield from self._cropped(self._predictions.patches(report, columns, rows), columns)
            return
        laid = range(max(columns.start - self._reach, 0), min(columns.stop + self._reach, self._grid.columns))
        kept = range(self._grid.rows) if rows is None else rows
        # Blocks of the rows around reach into these.
        read = range(max(kept.start - self._lag, 0), min(kept.stop + self._lag, self._grid.rows))
        patches = self._predictions.patches(report, laid, None if rows is None else read)
        for run in self._blended(patches, columns, laid, read):
            if run.row in kept:
                yield run

    def _cropped(self, batches: Iterator[PatchValues], columns: range) -> Iterator[PatchRun]:
        for patches in batches:
            for row, column, start, stop in _runs(patches, self._grid.columns, columns):
                path, record = patches.where
                yield PatchRun(
                    row,
                    column,
                    [
                        band.reading.patches(patches.values[band.feature][start:stop], band.channel)
                        for band in self.bands
                    ],
                    None,
                    _record_words(path, record + start),
                )

    def _blended(self, batches: Iterator[PatchValues], kept: range, laid: range, rows: range) -> Iterator[PatchRun]:
        blenders = [
            new_blender(
                self._overlap,
                self._area(bands, laid, kept),
                bands=len(bands),
                dtype=self._group_dtype(bands),
                nodata=self._nodata,
            )
            for bands in self._groups
        ]
        done = rows.start
        # A pass lays the blocks of its neighbours' patches too: those are counted there.
        met: Counter[int] = Counter()
        for chunk in self._chunks(batches, laid):
            while chunk.row > done + self._lag:
                yield self._taken(blenders, done, kept, met.pop(done, 0))
                done += 1
            met[chunk.row] += chunk.nan_values(kept)
            for blender, bands in zip(blenders, self._groups, strict=True):
                blocks = [band.reading.blocks(chunk.values[band.feature], band.channel) for band in bands]
                blender.lay(chunk.row - rows.start, chunk.column, blocks, chunk.is_there)
        for row in range(done, rows.stop):
            yield self._taken(blenders, row, kept, met.pop(row, 0))

    def _taken(self, blenders: Sequence[Blender], row: int, kept: range, nan_values: int) -> PatchRun:
        values: dict[int, NDArray[Any]] = {}
        valid: dict[int, NDArray[np.bool_]] = {}
        for blender, bands in zip(blenders, self._groups, strict=True):
            for band, value, known in zip(bands, *blender.take(), strict=True):
                place = self.bands.index(band)
                values[place], valid[place] = value, known
        order = range(len(self.bands))
        return PatchRun(
            row,
            kept.start,
            [values[place] for place in order],
            [valid[place] for place in order],
            lambda patch: f"blended predictions of patch row {row}, patch column {kept.start + patch}",
            nan_values,
        )

    def _area(self, bands: Sequence[PredictionBand], laid: range, kept: range) -> BlendArea:
        return BlendArea(
            patch_yx=self._grid.patch_yx,
            margin_yx=bands[0].reading.margin_yx,
            columns=laid,
            kept=kept,
            lag=self._lag,
        )

    def _chunks(self, batches: Iterator[PatchValues], laid: range) -> Iterator[_Chunk]:
        """The records of ``laid`` patch columns in groups of the grid's own, whatever the batches."""
        names = dict.fromkeys(band.feature for band in self.bands)
        # By a block's pixels, not a feature's length: a model's tensor becomes a feature for each band in records.
        size = max(_CHUNK_PIXELS // max(math.prod(band.reading.block_yx) for band in self.bands), 1)
        chunk: _Chunk | None = None
        for patches in batches:
            for row, column, start, stop in _runs(patches, self._grid.columns, laid, size):
                first = max(column // size * size, laid.start)
                if chunk is None or (chunk.row, chunk.column) != (row, first):
                    if chunk is not None:
                        yield chunk
                    count = min(column // size * size + size, laid.stop) - first
                    chunk = _Chunk.empty(row, first, count, {name: patches.values[name] for name in names})
                place = slice(column - first, column - first + stop - start)
                for name in names:
                    chunk.values[name][place] = patches.values[name][start:stop]
                chunk.is_there[place] = True
        if chunk is not None:
            yield chunk

    def _group_dtype(self, bands: Sequence[PredictionBand]) -> np.dtype[Any]:
        if self._overlap in _MEANS:
            return np.dtype(np.float64 if self._dtype == np.float64 or bands[0].kind == "int64" else np.float32)
        return _own_dtype(bands[0].kind)


@dataclass(slots=True)
class _Chunk:
    """Consecutive records of one patch row: values by feature ``(n, length)``; ``is_there`` is False for lost ones."""

    row: int
    column: int
    values: dict[str, NDArray[Any]]
    is_there: NDArray[np.bool_]

    @staticmethod
    def empty(row: int, column: int, count: int, like: dict[str, NDArray[Any]]) -> _Chunk:
        values = {name: np.zeros((count, each.shape[1]), each.dtype) for name, each in like.items()}
        return _Chunk(row, column, values, np.zeros(count, bool))

    def nan_values(self, columns: range) -> int:
        """How many values of the records of these patch columns are NaN."""
        part = slice(max(columns.start - self.column, 0), max(columns.stop - self.column, 0))
        own = [each[part] for each in self.values.values() if each.dtype.kind == "f" and each[part].size]
        # The least of values with a NaN among them is NaN: rarely is a second look needed.
        return sum(int(np.count_nonzero(np.isnan(each))) for each in own if np.isnan(each.min()))


def _runs(
    patches: PatchValues, per_row: int, columns: range, size: int | None = None
) -> Iterator[tuple[int, int, int, int]]:
    """(patch row, patch column, start, stop) of runs of ``patches`` in one row, within ``columns``.

    With ``size`` a run also ends where a multiple of so many columns does.
    """
    start = 0
    while start < len(patches):
        row, column = divmod(patches.first + start, per_row)
        edge = per_row if size is None else min((column // size + 1) * size, per_row)
        stop = min(start + edge - column, len(patches))
        left = max(columns.start - column, 0)
        right = min(columns.stop - column, stop - start)
        if left < right:
            yield row, column + left, start + left, start + right
        start = stop


def _groups(bands: Sequence[PredictionBand]) -> list[list[PredictionBand]]:
    """The bands by margin and kind: those of a group are blended together."""
    groups: dict[tuple[tuple[int, int], str], list[PredictionBand]] = {}
    for band in bands:
        groups.setdefault((band.reading.margin_yx, band.kind), []).append(band)
    return list(groups.values())


def _own_dtype(kind: str) -> np.dtype[Any]:
    return np.dtype({"bytes": np.uint8, "int64": np.int64, "float": np.float32}[kind])


def _blended_dtype(bands: Sequence[PredictionBand], options: IngestOptions) -> np.dtype[Any]:
    """The type that holds all features: a model's own, else uint8 of bytes, int64, float32; int64 with float32 makes
    float64."""
    if options.overlap not in _MEANS:
        return np.result_type(*(band.dtype or _own_dtype(band.kind) for band in bands))
    natural = np.result_type(*(_own_dtype(band.kind) for band in bands))
    is_double = natural == np.float64 or options.dtype == "float64"
    return np.dtype(np.float64 if is_double else np.float32)


def _check_overlap(
    bands: Sequence[PredictionBand], groups: Sequence[Sequence[PredictionBand]], options: IngestOptions
) -> None:
    whole = [band for band in bands if band.kind != "float"]
    are_numbers = options.argmax or options.threshold is not None or (options.dtype or "").startswith("float")
    if options.overlap in _MEANS and whole and not are_numbers:
        raise UsageError(
            f"overlap: {options.overlap} would average {whole[0].feature!r}, whole numbers and perhaps class ids; use"
            " vote, or tell by --dtype float32 that they are numbers"
        )
    if options.overlap == "max-probability" and (len(bands) < 2 or len(groups) > 1):
        raise UsageError(
            f"overlap: max-probability compares the probabilities of classes; found {len(bands)} bands of"
            f" {len(groups)} makes; allowed are at least two bands of one kind and margin"
        )


def _record_words(path: str, first: int) -> Callable[[int], str]:
    return lambda patch: f"{path}: record {first + patch}"

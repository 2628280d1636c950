"""The patch table of a set that is there already: geotfr's own, or one that Earth Engine exported."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import DamagedError, UsageError
from geotfr.flags import checks_flags
from geotfr.grid.region import region_file
from geotfr.mixer import is_manifest, is_mixer, natural_key
from geotfr.patches.cut import clamped_fill
from geotfr.patches.rows import ClassCounts, PatchRows
from geotfr.patches.statistics import class_counts, statistics_of
from geotfr.pipeline.catalog.collect import MOST_CLASSES, TableRequest, known_classes
from geotfr.pipeline.catalog.exported import patch_set_of, place_warnings
from geotfr.pipeline.catalog.reading import SetReader, validity_warnings
from geotfr.pipeline.catalog.sources import rows_from_sources
from geotfr.records.digests import DIGEST_BYTES
from geotfr.records.places import record_places
from geotfr.storage import atomic_output
from geotfr.storage.atomic import check_output
from geotfr.storage.inputs import check_not_input
from geotfr.stores.path import input_path, output_path
from geotfr.vectors.patch_table import PatchSet, TablePart, write_patch_table
from geotfr.vectors.user_columns import UserColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geotfr.options import PairXY
    from geotfr.pipeline.catalog.reading import ReadPatches

    PathLike = str | os.PathLike[str]

__all__ = ["PatchTableResult", "make_patch_table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchTableResult:
    """What was made.

    Attributes
    ----------
    table
        Path of the patch table.
    patches
        Its rows.
    columns
        Its columns, in order.
    seconds
        Wall time.
    warnings
        What a user should know, one line each.
    """

    table: Path
    patches: int
    columns: tuple[str, ...]
    seconds: float
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON types."""
        return {
            "table": str(self.table),
            "patches": self.patches,
            "columns": list(self.columns),
            "seconds": round(self.seconds, 3),
            "warnings": list(self.warnings),
        }

    def to_text(self) -> str:
        """The summary for a person."""
        return (
            f"wrote     {self.patches:,} rows of {len(self.columns)} columns to {self.table}, in {self.seconds:.1f} s"
        )


@checks_flags
def make_patch_table(
    source: PathLike | Sequence[PathLike],
    output: PathLike | None = None,
    *,
    rasters: Any = None,
    region: str | None = None,
    masked_value: float | None = None,
    class_bands: str | Sequence[str] = (),
    join: PathLike | None = None,
    first_patch: int | None = None,
    kernel_size: PairXY | None = None,
    overwrite: bool = False,
) -> PatchTableResult:
    """Make the patch table of a set that is there already; see ``docs/reference/patch-table.md`` for its columns.

    Records don't tell which of their pixels are masked: they hold the default value there. ``rasters`` or
    ``masked_value`` tell it, and so does the ``valid_feature`` of an export; without them NaN alone counts as masked,
    shares of masked pixels are null, and a warning says so.

    Parameters
    ----------
    source
        A mixer or manifest (its shards lie beside it), a folder, or a list of a mixer and shards.
    output
        The table; by default ``PREFIX-patches.parquet`` beside the set.
    rasters
        The rasters that were exported. The patches are cut from them again, each digest is compared, and the table is
        the one that ``geotfr export --patch-table`` writes.
    region
        The region that the rasters were cut by, as the export was given it; needed where it is in a file, of which the
        manifest tells the name alone.
    masked_value
        Values equal to this are masked: the ``defaultValue`` of the export, where no valid pixel has it.
    class_bands
        Bands whose values are classes.
    join
        A CSV or Parquet file with a column ``number``; its other columns are added.
    first_patch
        Number of the first patch, where the shards are a part of a set.
    kernel_size
        (width, height) of the kernel, where no manifest and no square patch tells it.
    overwrite
        Replace the table.

    Raises
    ------
    UsageError
        No grid, several sets, options that contradict each other, or pyarrow isn't installed.
    DamagedError
        Damaged shards, another number of records than of patches, or rasters that are not those exported.
    OutputError
        The table can't be written, or exists and ``overwrite`` is False.

    Examples
    --------
    >>> make_patch_table("patches/mixer.json", masked_value=-9999)  # doctest: +SKIP
    """
    started = time.perf_counter()
    request = TableRequest.checked(patch_table=True, class_bands=class_bands) or TableRequest(class_bands=())
    if rasters is not None and masked_value is not None:
        raise UsageError("masked_value: the rasters tell what is masked; leave one of them out")
    if region is not None and rasters is None:
        raise UsageError("region: cuts the rasters again; give them too (--source), or leave it out")
    reader = SetReader(source, kernel_size=kernel_size)
    target = output_path(output) if output is not None else _beside(source, reader)
    check_output(target, overwrite=overwrite)
    given = [rasters] if isinstance(rasters, str | os.PathLike) else rasters or ()
    check_not_input(target, (*reader.shards, *given, join, None if region is None else region_file(region)))
    user = None if join is None else UserColumns.read(Path(join))
    part, warnings = _part(
        reader, request, rasters=rasters, region=region, masked_value=masked_value, first_patch=first_patch
    )
    added = {} if user is None else user.for_rows([part])
    with atomic_output(target, overwrite=overwrite) as file:
        columns = write_patch_table(file, [part], added)
    return PatchTableResult(
        table=target,
        patches=len(part.rows),
        columns=columns,
        seconds=time.perf_counter() - started,
        warnings=warnings,
    )


def _part(
    reader: SetReader,
    request: TableRequest,
    *,
    rasters: Any,
    region: str | None,
    masked_value: float | None,
    first_patch: int | None,
) -> tuple[TablePart, tuple[str, ...]]:
    """The rows of the set, and what to tell of them."""
    warnings = []
    gatherer = _Gatherer(request, masked_value)
    if reader.is_by_pixel:
        per_patch, lengths, digests = reader.pixel_digests()
        rows = gatherer.rows(_numbers(reader, len(lengths), first_patch), per_patch, lengths, digests)
    else:
        for batch in reader.batches(with_digests=True, with_values=rasters is None):
            gatherer.add(batch)
        rows = gatherer.rows(_numbers(reader, gatherer.records, first_patch))
    patches = _patch_set(reader)
    if reader.manifest is not None:
        rows = rows.with_classes(known_classes(reader.manifest.labels))
    if rasters is not None:
        rows, fills = rows_from_sources(reader, rows, rasters, request, region=region)
        patches = replace(patches, fills=fills)
    elif reader.is_by_pixel:
        warnings.append("a record is a pixel here: the table has no statistics; give the rasters to get them")
    elif masked_value is None and reader.valid_feature is not None:
        warnings += validity_warnings(reader.valid_feature, reader.manifest)
    elif masked_value is None:
        warnings.append(
            "records don't tell which pixels are masked: masked shares are null, and default values count as data;"
            " give the rasters (--source) or --masked-value"
        )
    if masked_value is not None:
        patches = replace(patches, fills=gatherer.fills)
    places = record_places(
        rows.lengths, rows.records, reader.contents, first_record=reader.first_record, first_byte=reader.first_byte
    )
    warnings += place_warnings(patches.geobox)
    return TablePart(patches=patches, rows=rows, places=places), tuple(warnings)


class _Gatherer:
    """The rows of batches of records."""

    def __init__(self, request: TableRequest, masked_value: float | None) -> None:
        self._class_bands = request.class_bands
        self._masked_value = masked_value
        self._lengths: list[NDArray[np.int64]] = []
        self._digests: list[NDArray[np.uint8]] = []
        self._parts: list[PatchRows] = []
        self.fills: dict[str, float] = {}
        """Feature -> the masked value as its lists hold it."""

    def add(self, batch: ReadPatches) -> None:
        assert batch.digests is not None
        self._lengths.append(batch.lengths.copy())
        self._digests.append(batch.digests)
        if batch.cores:
            self._parts.append(self._of(batch))

    @property
    def records(self) -> int:
        """How many were added."""
        return sum(map(len, self._lengths))

    def rows(
        self,
        numbers: NDArray[np.int64],
        per_patch: int = 1,
        lengths: NDArray[np.int64] | None = None,
        digests: NDArray[np.uint8] | None = None,
    ) -> PatchRows:
        """All rows; ``lengths`` and ``digests`` of patches of many records are given."""
        if lengths is None or digests is None:
            lengths = np.concatenate([*self._lengths, np.empty(0, np.int64)])
            digests = np.concatenate([*self._digests, np.empty((0, DIGEST_BYTES), np.uint8)])
        found = PatchRows.joined(self._parts) if self._parts else None
        return PatchRows(
            numbers=numbers,
            records=per_patch,
            lengths=lengths,
            digests=digests,
            masked=None if found is None else found.masked,
            statistics={} if found is None else found.statistics,
            classes={} if found is None else found.classes,
        )

    def _of(self, batch: ReadPatches) -> PatchRows:
        for name in self._class_bands:
            if name not in batch.cores:
                raise UsageError(f"class_bands: no band {name!r}; the bands are {', '.join(batch.cores)}")
        known = batch.valid if self._masked_value is None else None
        valid = {name: [self._valid(values, known) for values in channels] for name, channels in batch.cores.items()}
        masked = None if known is None else np.count_nonzero(~known, axis=(1, 2)).astype(np.int64)
        if self._masked_value is not None:
            self.fills |= {
                name: clamped_fill(self._masked_value, channels[0].dtype) for name, channels in batch.cores.items()
            }
            every = [mask for masks in valid.values() for mask in masks if mask is not None]
            first = next(iter(batch.cores.values()))[0]
            seen = np.logical_and.reduce(every) if every else np.ones(first.shape, np.bool_)
            masked = np.count_nonzero(~seen, axis=(1, 2)).astype(np.int64)
        return PatchRows(
            numbers=np.empty(len(batch.lengths), np.int64),
            records=1,
            lengths=batch.lengths,
            digests=np.empty((len(batch.lengths), DIGEST_BYTES), np.uint8),
            masked=masked,
            statistics={
                name: statistics_of(list(zip(channels, valid[name], strict=True)))
                for name, channels in batch.cores.items()
            },
            classes={name: _classes(name, batch.cores[name], valid[name]) for name in self._class_bands},
        )

    def _valid(self, values: NDArray[Any], known: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
        """Where values are valid, None for everywhere; ``known`` is what the records tell."""
        valid = known
        if values.dtype.kind == "f":
            nan = np.isnan(values)
            if nan.any():
                valid = ~nan if valid is None else valid & ~nan
        if self._masked_value is not None:
            # As the list holds it: 0.1 is another number in float32.
            fill = clamped_fill(self._masked_value, values.dtype)
            known = values != values.dtype.type(fill)
            valid = known if valid is None else valid & known
        return valid


def _classes(name: str, channels: Sequence[NDArray[Any]], valid: Sequence[NDArray[np.bool_] | None]) -> ClassCounts:
    values, mask = channels[0], valid[0]
    if len(channels) > 1:
        raise UsageError(f"class_bands: {name!r} has a depth; classes are values of a scalar band")
    if values.dtype.kind == "f":
        seen = values if mask is None else values[mask]
        if (seen != np.floor(seen)).any() or (np.abs(seen) > 2**24).any():
            raise UsageError(f"class_bands: {name!r} holds fractions; classes are whole numbers")
        values = np.nan_to_num(values).astype(np.int64)
    classes, counts = class_counts(values, mask)
    if len(classes) > MOST_CLASSES:
        raise UsageError(
            f"class_bands: {name!r} has {len(classes):,} different values; up to {MOST_CLASSES:,} are taken for classes"
        )
    return ClassCounts(classes=classes, counts=counts)


def _numbers(reader: SetReader, patches: int, first_patch: int | None) -> NDArray[np.int64]:
    """The patches whose records these are."""
    numbers = reader.numbers
    if first_patch is not None:
        start = int(np.searchsorted(numbers, first_patch))
        if start == len(numbers) or numbers[start] != first_patch:
            raise UsageError(f"first_patch: found {first_patch}; no record is of this patch")
        numbers = numbers[start : start + patches]
    if len(numbers) != patches:
        raise DamagedError(
            f"{reader.shards[0]}: {patches:,} patches in {len(reader.shards)} shards,"
            f" {len(numbers):,} by the mixer; name all shards of the set, or --first-patch N (first_patch=N) if they"
            " are a part of it"
        )
    return numbers


def _patch_set(reader: SetReader) -> PatchSet:
    manifest = reader.manifest
    if manifest is not None:
        return patch_set_of(manifest, manifest.fills)
    return PatchSet(
        source="",
        geobox=reader.geobox,
        patch_yx=reader.patch_yx,
        margin_yx=reader.margin_yx,
        rows=reader.rows,
        columns=reader.columns,
        shards=tuple((path.name, path.stat().st_size, "") for path in reader.shards),
        fills={},
    )


def _beside(source: PathLike | Sequence[PathLike], reader: SetReader) -> Path:
    """Where the table of a set goes by default."""
    given = [source] if isinstance(source, str | os.PathLike) else list(source)
    first = input_path(given[0])
    folder = first if first.is_dir() else first.parent
    grids = [first] if first.suffix == ".json" else sorted(folder.glob("*.json"), key=natural_key)
    found = next((path for path in grids if is_manifest(path) or is_mixer(path)), None)
    if found is None:
        return folder / "patches.parquet"
    name = found.name.removesuffix(".json")
    prefix = name.removesuffix("mixer").removesuffix("manifest")
    if prefix == name:
        # A set of one shard: its mixer has the set's own name.
        naming = "drive" if reader.manifest is None else reader.manifest.options.get("naming")
        prefix += "-" if naming != "cloud-storage" else ""
    return folder / f"{prefix}patches.parquet"

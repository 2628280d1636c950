"""Which patches of a set are meant, and what a patch table knows of their masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import DamagedError, UsageError
from geotfr.patches.layout import pixels_inside
from geotfr.pipeline.catalog.reading import SetReader
from geotfr.vectors.patch_set import common_fills, common_labels
from geotfr.vectors.patch_table import read_patch_table
from geotfr.vectors.table_beside import table_of, wish

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from geotfr.mixer.manifest import LabelChannel
    from geotfr.vectors.patch_table import PatchTable

    PathLike = str | os.PathLike[str]

__all__ = ["ChosenPatches", "chosen_patches"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenPatches:
    """The patches of one set that are wanted.

    Attributes
    ----------
    reader
        Reads the set.
    kept
        ``(records,) bool``: of each record, in order, whether its patch is wanted; None for all.
    counts
        Feature -> ``(records,) int64``: valid values of each patch; empty where nobody knows.
    fills
        Feature -> what its masked values hold.
    labels
        Channels that hold labels.
    inside
        ``(records, 2) int64``: how many pixel rows and columns of each patch lie inside the raster.
    """

    reader: SetReader
    kept: NDArray[np.bool_] | None
    counts: dict[str, NDArray[np.int64]]
    fills: dict[str, float]
    labels: tuple[LabelChannel, ...]
    inside: NDArray[np.int64]

    def is_inside(self, records: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """``(n, row, col) bool``: which pixels of some records lie inside the raster; None for all."""
        if len(records) and records[-1] >= len(self.inside):
            raise DamagedError(
                f"{self.reader.shards[-1]}: more records than the set's {len(self.inside)} patches; name the shards of"
                " one set"
            )
        inside = self.inside[records]
        height, width = self.reader.patch_yx
        if (inside == (height, width)).all():
            return None
        rows, columns = np.arange(height) < inside[:, :1], np.arange(width) < inside[:, 1:]
        found: NDArray[np.bool_] = rows[:, :, None] & columns[:, None, :]
        return found

    def batches(
        self,
    ) -> Iterator[tuple[dict[str, list[NDArray[Any]]], NDArray[np.bool_] | None, NDArray[np.int64]]]:
        """The values of the wanted patches and their validity, see :class:`ReadPatches`, and the numbers of their
        records in the set."""
        taken = 0
        for batch in self.reader.batches():
            records = np.arange(taken, taken + len(batch.lengths))
            taken += len(batch.lengths)
            if self.kept is None:
                yield batch.cores, batch.valid, records
                continue
            if taken > len(self.kept):
                raise DamagedError(
                    f"{self.reader.shards[batch.shard]}: more records than the patch table has rows; make it again with"
                    " 'geotfr table --overwrite'"
                )
            places = np.flatnonzero(self.kept[records])
            if len(places) == len(records):
                yield batch.cores, batch.valid, records
            elif len(places):
                cores = {name: [values[places] for values in channels] for name, channels in batch.cores.items()}
                yield cores, None if batch.valid is None else batch.valid[places], records[places]


def chosen_patches(
    source: PathLike | Sequence[PathLike], *, split: str | None, where: str | None
) -> tuple[list[ChosenPatches], PatchTable | None]:
    """The wanted patches of a patch table, or of a set with the table beside it, if there is one.

    Raises
    ------
    UsageError
        A split or condition without a table, or one that no patch is of; a set whose records are pixels.
    DamagedError
        The shards are not those that the table knows.
    """
    path = table_of(source)
    if path is None:
        if split is not None or where is not None:
            raise UsageError("split and where ask a patch table, and there is none; make it with 'geotfr table'")
        reader = SetReader(source)
        if reader.is_by_pixel:
            raise _no_patches(reader.shards[0])
        labels = () if reader.manifest is None else reader.manifest.label_channels
        inside = pixels_inside(reader.geobox.shape_yx, reader.patch_yx, reader.columns, reader.numbers)
        return [ChosenPatches(reader=reader, kept=None, counts={}, fills={}, labels=labels, inside=inside)], None
    table = read_patch_table(path)
    if (table.column("records") > 1).any():
        raise _no_patches(path)
    wanted = table.selected(split=split, where=where)
    if not wanted.any():
        raise UsageError(f"{path}: no patch {wish(split, where)}; ask for others")
    owners = table.set_numbers()
    inside = table.pixels_inside()
    known = [name for name in table.features if f"count_{name}" in table.names]
    counts = {name: table.column(f"count_{name}") for name in known}
    has_masks = table.column("masked_share")
    found = []
    for numbers in table.sets_by_shards():
        sets = [table.sets[number] for number in numbers]
        rows = np.isin(owners, numbers)
        reader = SetReader.of_table(table, numbers)
        is_known = bool(np.isfinite(has_masks[rows]).all())
        found.append(
            ChosenPatches(
                reader=reader,
                kept=wanted[rows],
                counts={name: values[rows] for name, values in counts.items()} if is_known else {},
                fills=common_fills(sets) if is_known else {},
                labels=common_labels(sets),
                inside=inside[rows],
            )
        )
    return found, table


def _no_patches(path: Path) -> UsageError:
    return UsageError(
        f"{path}: a record is a pixel here, not a patch (sequence_data); the patch table tells mean and deviation of"
        " each patch, and geotfr.stream reads the pixels"
    )

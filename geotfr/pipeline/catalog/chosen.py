"""Which patches of a set are meant, and what a patch table knows of their masks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import DamagedError, MissingInputError, UsageError
from geotfr.mixer.patch_tables import is_patch_table
from geotfr.pipeline.catalog.reading import SetReader
from geotfr.vectors.patch_table import read_patch_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

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
    """

    reader: SetReader
    kept: NDArray[np.bool_] | None
    counts: dict[str, NDArray[np.int64]]
    fills: dict[str, float]

    def batches(self) -> Iterator[tuple[dict[str, list[NDArray[Any]]], NDArray[np.int64]]]:
        """The values of the wanted patches, see :class:`ReadPatches`, and the numbers of their records in the set."""
        starts: list[int] = []
        taken = 0
        for batch in self.reader.batches():
            if batch.shard == len(starts):
                starts.append(taken)
            records = np.arange(
                starts[batch.shard] + batch.first, starts[batch.shard] + batch.first + len(batch.lengths)
            )
            taken = max(taken, int(records[-1]) + 1)
            if self.kept is None:
                yield batch.cores, records
                continue
            if taken > len(self.kept):
                raise DamagedError(
                    f"{self.reader.shards[batch.shard]}: more records than the patch table has rows; make it again with"
                    " 'geotfr table --overwrite'"
                )
            places = np.flatnonzero(self.kept[records])
            if len(places) == len(records):
                yield batch.cores, records
            elif len(places):
                cores = {name: [values[places] for values in channels] for name, channels in batch.cores.items()}
                yield cores, records[places]


def chosen_patches(
    source: PathLike | Sequence[PathLike], *, split: str | None, where: str | None
) -> tuple[list[ChosenPatches], PatchTable | None]:
    """The wanted patches of a patch table, or of a set with the table beside it, if there is one.

    Raises
    ------
    UsageError
        A split or condition without a table, or one that no patch is of.
    DamagedError
        The shards are not those that the table knows.
    """
    path = _table_path(source)
    if path is None:
        if split is not None or where is not None:
            raise UsageError("split and where ask a patch table, and there is none; make it with 'geotfr table'")
        return [ChosenPatches(reader=SetReader(source), kept=None, counts={}, fills={})], None
    table = read_patch_table(path)
    wanted = table.selected(split=split, where=where)
    if not wanted.any():
        raise UsageError(f"{path}: no patch is of split={split!r}, where={where!r}")
    owners = table.set_numbers()
    known = [name for name in table.features if f"count_{name}" in table.names]
    counts = {name: table.column(f"count_{name}") for name in known}
    has_masks = table.column("masked_share")
    found = []
    for number, patches in enumerate(table.sets):
        rows = owners == number
        reader = SetReader.of_table(table, number)
        is_known = bool(np.isfinite(has_masks[rows]).all())
        found.append(
            ChosenPatches(
                reader=reader,
                kept=wanted[rows],
                counts={name: values[rows] for name, values in counts.items()} if is_known else {},
                fills=dict(patches.fills) if is_known else {},
            )
        )
    return found, table


def _table_path(source: PathLike | Sequence[PathLike]) -> Path | None:
    """The patch table that is meant: the one named, or the one beside a manifest or in a folder."""
    given = [source] if isinstance(source, str | os.PathLike) else list(source)
    if len(given) != 1:
        return None
    path = Path(given[0])
    if path.suffix in (".parquet", ".geoparquet"):
        if not path.is_file():
            raise MissingInputError(f"{path}: no such file; 'geotfr table' makes a patch table")
        return path
    if path.is_dir():
        tables = [each for each in sorted(path.glob("*patches.parquet")) if is_patch_table(each)]
        return tables[0] if len(tables) == 1 else None
    if path.name.endswith("manifest.json"):
        beside = path.with_name(path.name.removesuffix("manifest.json") + "patches.parquet")
        return beside if is_patch_table(beside) else None
    return None

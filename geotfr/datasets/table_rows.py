"""What a patch table tells a data set: which records are meant, their patches, and columns that go with them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.datasets.digests import KnownDigests
from geotfr.datasets.patch_set import PatchSet
from geotfr.errors import DamagedError, UsageError
from geotfr.mixer import Mixer, is_manifest, read_manifest
from geotfr.vectors.patch_set import common_fills, common_labels, common_valid_feature
from geotfr.vectors.patch_table import read_patch_table
from geotfr.vectors.table_beside import is_table_name, shards_beside, table_of, wish

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from geotfr.mixer import Manifest
    from geotfr.mixer.manifest import LabelChannel
    from geotfr.vectors.patch_table import PatchTable

    PathLike = str | os.PathLike[str]

__all__ = ["TableRows", "known_fills", "label_channels", "set_of_table", "table_for", "valid_feature"]


def label_channels(found: PatchSet, table: PatchTable | None) -> tuple[LabelChannel, ...]:
    """The channels that hold labels, as the manifest or the table tells."""
    labels = () if found.manifest is None else found.manifest.label_channels
    return labels or (() if table is None else common_labels(table.sets))


def valid_feature(found: PatchSet, table: PatchTable | None) -> str | None:
    """The feature that tells which pixels are valid, as the manifest or the table tells."""
    name = None if found.manifest is None else found.manifest.valid_feature
    return name if name is not None or table is None else common_valid_feature(table.sets)


def known_fills(
    source: PathLike | Sequence[PathLike], found: PatchSet, table: PatchTable | None
) -> Callable[[], dict[str, float]]:
    """A function that gives feature -> value of masked pixels, as the table or else the manifest tells it.

    Where there is neither, a table beside the set is looked for when the function is called.
    """
    if table is not None:
        return partial(dict, ({} if found.manifest is None else found.manifest.fills) | common_fills(table.sets))
    if found.manifest is not None:
        return partial(dict, found.manifest.fills)
    return partial(_fills_beside, source)


def _fills_beside(source: PathLike | Sequence[PathLike]) -> dict[str, float]:
    path = table_of(source)
    return {} if path is None else common_fills(read_patch_table(path).sets)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRows:
    """The rows of a table, by record.

    Attributes
    ----------
    records
        ``(n,) int64``: the records that are wanted, numbered through all shards, in the table's order.
    numbers
        ``(records of the set,) int64``: the patch of each record in its grid; -1 where the table doesn't know.
    inside
        ``(records of the set, 2) int64``: how many pixel rows and columns of each patch lie inside its raster.
    columns
        Column -> ``(records of the set,)``: numbers, or texts as ``str_``.
    digests
        What the table knows of the wanted records.
    """

    records: NDArray[np.int64]
    numbers: NDArray[np.int64]
    inside: NDArray[np.int64]
    columns: dict[str, NDArray[Any]]
    digests: KnownDigests

    @staticmethod
    def of(
        table: PatchTable,
        starts: NDArray[np.int64],
        *,
        split: str | None,
        where: str | None,
        columns: Sequence[str],
        check_digests: bool,
    ) -> TableRows:
        """The rows of a split for which a condition is true, where shard s begins with record ``starts[s]``.

        Raises
        ------
        UsageError
            A split, condition or column that isn't there, or no row is left.
        """
        table.check_columns(columns)
        wanted = table.selected(split=split, where=where)
        if not wanted.any():
            raise UsageError(f"{table.path}: no patch {wish(split, where)}; ask for others")
        if (table.column("records") != 1).any():
            raise UsageError(f"{table.path}: a record is a pixel here, not a patch; read it with geotfr.stream")
        shard, _ = table.shards()
        record = table.column("record")
        table.check_records(shard, record, np.diff(starts))
        records = starts[shard] + record
        by_record = {name: _by_record(table.column(name), records, int(starts[-1])) for name in columns}
        numbers = np.full(int(starts[-1]), -1, np.int64)
        numbers[records] = table.column("number")
        known = table.digests().view(np.uint8).reshape(len(table), -1)
        digests = KnownDigests(records[wanted], known[wanted], starts, compares_all=check_digests)
        inside = np.zeros((int(starts[-1]), 2), np.int64)
        inside[records] = table.pixels_inside()
        return TableRows(records=records[wanted], numbers=numbers, inside=inside, columns=by_record, digests=digests)


def table_for(
    source: PathLike | Sequence[PathLike],
    *,
    split: str | None,
    where: str | None,
    columns: Sequence[str],
    check_digests: bool,
) -> PatchTable | None:
    """The patch table that a data set needs: the one it is made of, or that the other arguments ask; None else.

    Raises
    ------
    UsageError
        They ask one, and there is none.
    """
    is_asked = split is not None or where is not None or bool(columns) or check_digests
    if not is_asked and not (isinstance(source, str | os.PathLike) and is_table_name(source)):
        return None
    path = table_of(source)
    if path is None:
        raise UsageError(
            "where, split, columns and check_digests ask a patch table, and none is named or lies beside the set;"
            " 'geotfr table' makes it"
        )
    return read_patch_table(path)


def set_of_table(table: PatchTable) -> PatchSet:
    """The shards of a table, with the grid where it has one, and the manifest where one lies beside it.

    Raises
    ------
    UsageError
        Patches of several sizes.
    DamagedError
        The shards are not those that the table knows.
    """
    if len({(patches.patch_yx, patches.margin_yx) for patches in table.sets}) > 1:
        raise UsageError(f"{table.path}: patches of several sizes in one table; make a data set of each raster's set")
    manifest_path = table.path.with_name(table.path.name.removesuffix("patches.parquet") + "manifest.json")
    mixer = None
    if len(table.sets) == 1:
        patches = table.sets[0]
        mixer = Mixer(
            crs=patches.geobox.crs,
            affine=patches.geobox.affine,
            patch_xy=(patches.patch_yx[1], patches.patch_yx[0]),
            patches_per_row=patches.columns,
            total_patches=patches.rows * patches.columns,
        )
    manifest = read_manifest(manifest_path) if is_manifest(manifest_path) else None
    if manifest is not None:
        _check_manifest(table, manifest, manifest_path)
    return PatchSet(shards=tuple(shards_beside(table)), mixer=mixer, manifest=manifest)


def _check_manifest(table: PatchTable, manifest: Manifest, path: Path) -> None:
    """Refuse a table of shards that were written anew since: their sizes may be what they were."""
    known = {name: crc for patches in table.sets for name, _, crc in patches.shards}
    for shard in manifest.shards:
        if known.get(shard.name) and known[shard.name] != shard.crc32c:
            raise DamagedError(
                f"{table.path}: the shard {shard.name} was written again since, as {path.name} tells; make the table"
                " again with 'geotfr table --overwrite'"
            )


def _by_record(values: NDArray[Any], records: NDArray[np.int64], count: int) -> NDArray[Any]:
    """A column, by record; text as ``str_``, empty for null."""
    if values.dtype.kind == "O":
        is_text = all(value is None or isinstance(value, str) for value in values)
        if is_text:
            values = np.array(["" if value is None else value for value in values], np.str_)
    whole = np.zeros(count, values.dtype)
    whole[records] = values
    return whole

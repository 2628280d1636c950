"""Splits: which patches train, which validate, which test; no pixel in two of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from geotfr.errors import OutputExistsError, UsageError
from geotfr.flags import checks_flags
from geotfr.grid.crs import is_geographic, same_crs
from geotfr.grid.ground import METRES_PER_DEGREE, ground_units, pixel_metres
from geotfr.options.export import DEFAULT_MAX_SHARD_BYTES
from geotfr.options.values import checked_choice, checked_number, parse_size
from geotfr.patches.assign import assigned_patches, assigned_units, hashed, text_key
from geotfr.pipeline.catalog.leakage import Leakage, PlacedPatches, find_leaks, without_leaks
from geotfr.pipeline.catalog.split_shards import write_split_shards
from geotfr.storage import atomic_output
from geotfr.storage.atomic import check_output
from geotfr.storage.inputs import check_not_input
from geotfr.stores.path import input_path, output_path
from geotfr.vectors.arrow_arrays import texts_by_number
from geotfr.vectors.patch_table import PatchTable, read_patch_table, rewrite_patch_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geotfr.options import Size

    PathLike = str | os.PathLike[str]

__all__ = ["SplitBy", "SplitResult", "split_patches"]

SplitBy = Literal["random", "blocks", "group", "column"]

_DEFAULT_BLOCK_PATCHES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitResult:
    """What was split.

    Attributes
    ----------
    table
        The table that has the column ``split`` now.
    by, seed
        How.
    counts
        Split -> its patches.
    wanted
        Split -> the share that it was to have.
    left_out
        Patches of no split: the buffer between them, or null in the column.
    units
        Blocks or groups; patches, where each is on its own.
    block_size_m, buffer_m
        Side of a block and width of the buffer, in metres on the ground.
    shards
        The shards of all splits, if they were written.
    leakage
        The pairs of patches of different splits that overlap or are near.
    warnings
        What a user should know, one line each.
    """

    table: Path
    by: str
    seed: int
    counts: dict[str, int]
    wanted: dict[str, float]
    left_out: int
    units: int
    block_size_m: float | None
    buffer_m: float
    shards: tuple[Path, ...]
    leakage: Leakage
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON types."""
        return {
            "table": str(self.table),
            **self.facts(),
            "shards": [str(path) for path in self.shards],
            "warnings": list(self.warnings),
        }

    def facts(self) -> dict[str, Any]:
        """What the table's metadata keep of the split."""
        return {
            "by": self.by,
            "seed": self.seed,
            "shares": self.wanted,
            "counts": self.counts,
            "left_out": self.left_out,
            "units": self.units,
            "block_size_m": self.block_size_m,
            "buffer_m": self.buffer_m,
            "leakage": self.leakage.to_dict(),
        }

    def to_text(self) -> str:
        """Some lines for a person."""
        total = max(sum(self.counts.values()), 1)
        lines = [
            f"{name:10} {count:>12,} patches  {count / total:6.1%}"
            + (f"  (wanted {self.wanted[name]:.1%})" if name in self.wanted else "")
            for name, count in self.counts.items()
        ]
        lines.append(f"{'left out':10} {self.left_out:>12,} patches")
        leaks = self.leakage
        if leaks.is_clean:
            lines.append(f"clean: no patches of different splits overlap or are nearer than {leaks.distance_m:g} m")
        else:
            told = [f"{count:,} pairs {'/'.join(pair)} overlap" for pair, count in leaks.overlapping.items()]
            told += [f"{count:,} pairs {'/'.join(pair)} are near" for pair, count in leaks.near.items()]
            lines.append(f"NOT clean: {'; '.join(told)}")
        lines.append(f"table      {self.table}")
        if self.shards:
            lines.append(f"shards     {len(self.shards):,}, from {self.shards[0]} on")
        return "\n".join(lines)


@checks_flags
def split_patches(
    table: PathLike,
    output: PathLike | None = None,
    *,
    by: str = "blocks",
    shares: Mapping[str, float] | str = "train=0.7,val=0.15,test=0.15",
    seed: int = 0,
    column: str | None = None,
    stratify: bool = True,
    block_size_m: float | None = None,
    buffer_m: float = 0.0,
    distance_m: float | None = None,
    shards_prefix: PathLike | None = None,
    max_file_size: Size = DEFAULT_MAX_SHARD_BYTES,
    reassign: bool = False,
    overwrite: bool = False,
) -> SplitResult:
    """Fill the column ``split`` of a patch table, and report the leaks between splits.

    The same table and seed give the same split on any machine. Rows that already have a split keep it, and only the
    others are assigned, so that a test set stays one when rasters are added.

    Parameters
    ----------
    table
        A patch table.
    output
        Where the table with the split goes; by default it replaces ``table``, if that has rows without a split.
    by
        ``blocks``: squares on the ground stay together, so near patches do. ``group``: patches of one value of
        ``column`` stay together. ``random``: each patch for itself. ``column``: ``column`` holds the splits' names.
    shares
        Split -> share of the patches, as ``"train=0.7,test=0.3"``; they add up to 1.
    seed
        What is random follows from it.
    column
        The column of ``group`` and ``column``.
    stratify
        Whether each split shall have about the same class shares, where the table has some.
    block_size_m
        Side of a block in metres; by default 8 patches.
    buffer_m
        Patches of different splits are at least so far apart, margins included: patches between are left out. With
        ``buffer_m=0`` only blocks that share pixels are, where there are margins. For ``blocks`` and ``group``.
    distance_m
        What counts as near in the report; by default the buffer.
    shards_prefix
        Also copy the records of each split into shards of its own, ``PREFIX-SPLIT-00000…``, with a table, and a
        manifest where the table is of one raster's set. The shards lie beside the table that is split.
    max_file_size
        Limit on such a shard before compression.
    reassign
        Assign all rows anew, also those that have a split.
    overwrite
        Replace ``output`` and shards of splits; a split that the table has is kept.

    Raises
    ------
    UsageError
        Shares that don't add up, a column that isn't there, too few blocks or groups, or options that don't fit.
    OutputError
        The table can't be written, or every row has a split already and ``reassign`` is False.

    Examples
    --------
    >>> split_patches("patches/scene-patches.parquet", by="blocks", buffer_m=500).leakage.is_clean  # doctest: +SKIP
    True
    """
    request = _Request(
        by=checked_choice("by", by, get_args(SplitBy)),
        shares=_shares(shares),
        seed=seed,
        column=column,
        stratify=stratify,
        block_size_m=_metres("block_size_m", block_size_m, least=1e-6),
        buffer_m=_metres("buffer_m", buffer_m) or 0.0,
    )
    distance = _metres("distance_m", distance_m)
    opened = read_patch_table(input_path(table))
    target = output_path(output) if output is not None else opened.path
    _check_target(opened, target, overwrite=overwrite, may_change=reassign or not _is_assigned(opened))
    kept = np.full(len(opened), -1, np.int64) if reassign else _kept_splits(opened, request)
    sets = _placed(opened)
    made = _Made(opened, sets, request, kept)
    names, splits = made.assigned()
    splits = np.where(kept >= 0, kept, splits)
    if request.by in ("blocks", "group"):
        order = np.argsort([-request.shares[name] for name in names], kind="stable").tolist()
        # A row that had a split keeps it: if two such rows are near each other, the report says so.
        splits = np.where(kept >= 0, kept, without_leaks(sets, splits, order, request.buffer_m))
    leakage = find_leaks(sets, splits, names, request.buffer_m if distance is None else distance)
    leakage.equal = _equal_records(opened, splits, names)
    counts = {name: int((splits == number).sum()) for number, name in enumerate(names)}
    limit = parse_size("max_file_size", max_file_size)
    result = SplitResult(
        table=target,
        shards=(),
        by=request.by,
        seed=seed,
        counts=counts,
        wanted=request.shares if request.by != "column" else {},
        left_out=int((splits < 0).sum()),
        units=made.units,
        block_size_m=made.block_size_m,
        buffer_m=request.buffer_m,
        leakage=leakage,
        warnings=tuple(_warnings(counts, leakage)),
    )
    columns = {"split": texts_by_number(splits, names)}
    with atomic_output(target, overwrite=True) as file:
        rewrite_patch_table(opened, file, columns, extra={"split": result.facts()})
        if shards_prefix is None:
            return result
        # The table tells of the split when the shards are there, and not before.
        with_split = PatchTable.moved(read_patch_table(file.staged_path), opened.path)
        is_plain = not any(name.endswith(".gz") for patches in opened.sets for name, _, _ in patches.shards)
        shards = write_split_shards(
            with_split,
            splits,
            names,
            os.fspath(shards_prefix),
            max_shard_bytes=limit,
            compressor="none" if is_plain else "fast",
            extra={},
            overwrite=overwrite,
        )
    return replace(result, shards=tuple(shards))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    by: str
    shares: dict[str, float]
    seed: int
    column: str | None
    stratify: bool
    block_size_m: float | None
    buffer_m: float

    def __post_init__(self) -> None:
        if self.by in ("group", "column") and self.column is None:
            raise UsageError(f"by {self.by}: no column is named; give --column NAME (column=NAME)")
        if self.by in ("random", "blocks") and self.column is not None:
            raise UsageError(f"column: --by {self.by} uses none; give --by group, or leave it out")
        if self.by != "blocks" and self.block_size_m is not None:
            raise UsageError(f"block_size_m: --by {self.by} has no blocks; give --by blocks, or leave it out")
        if self.by in ("random", "column") and self.buffer_m:
            raise UsageError(
                f"buffer_m: --by {self.by} leaves no patches out; give --by blocks, or --distance to have near pairs"
                " told"
            )


class _Made:
    """The split of each row, as the request wants it."""

    def __init__(
        self, table: PatchTable, sets: Sequence[PlacedPatches], request: _Request, kept: NDArray[np.int64]
    ) -> None:
        self._kept = kept
        self._table = table
        self._sets = sets
        self._request = request
        self.units = 0
        self.block_size_m: float | None = None

    def assigned(self) -> tuple[list[str], NDArray[np.int64]]:
        """The splits' names, and of each row the number of its split; -1 for none."""
        request = self._request
        if request.by == "column":
            return self._by_column()
        names = list(request.shares)
        shares = [request.shares[name] for name in names]
        classes = self._classes() if request.stratify else None
        if request.by == "random":
            self.units = len(self._table)
            order = hashed(request.seed, self._source_keys(), self._table.column("number"))
            return names, self._assigned_rows(order, shares, classes)
        units, keys = self._blocks() if request.by == "blocks" else self._groups()
        self.units = len(keys)
        if self.units < len(names):
            plural = "" if self.units == 1 else "s"
            what = f"block{plural}" if request.by == "blocks" else f"group{plural} of {request.column!r}"
            hint = f"a smaller --block-size than {self.block_size_m:g}" if request.by == "blocks" else "another column"
            raise UsageError(f"{self.units} {what} for {len(names)} splits, each wants one at least; give {hint}")
        is_placed = units >= 0
        weights = [np.bincount(units[is_placed], minlength=len(keys)).astype(np.float64)]
        if classes is not None:
            sums = [np.bincount(units[is_placed], each[is_placed], len(keys)) for each in np.nan_to_num(classes).T]
            weights += [each.astype(np.float64) for each in sums]
        of_units = assigned_units(
            hashed(request.seed, keys),
            np.stack(weights, axis=1),
            shares,
            self._kept_of_units(units, len(keys), len(names)),
        )
        return names, np.where(units >= 0, of_units[units], -1)

    def _assigned_rows(
        self, order: NDArray[np.uint64], shares: Sequence[float], classes: NDArray[np.float64] | None
    ) -> NDArray[np.int64]:
        """Each row for itself; new rows fill up what the kept ones leave of the shares."""
        is_new = self._kept < 0
        if is_new.all():
            return assigned_patches(order, shares, classes)
        has = np.bincount(self._kept[~is_new], minlength=len(shares))
        missing = np.maximum(np.array(shares) * len(order) - has, 0)
        splits = self._kept.copy()
        if is_new.any():
            of_new = (missing / missing.sum()).tolist()
            splits[is_new] = assigned_patches(order[is_new], of_new, None if classes is None else classes[is_new])
        return splits

    def _kept_of_units(self, units: NDArray[np.int64], count: int, splits: int) -> NDArray[np.int64]:
        """The split that most kept rows of each unit have, -1 for a unit without any: ``(count,)``."""
        chosen = (units >= 0) & (self._kept >= 0)
        pairs = np.bincount(units[chosen] * splits + self._kept[chosen], minlength=count * splits)
        table = pairs.reshape(count, splits)
        return np.where(table.any(axis=1), table.argmax(axis=1), -1)

    def _by_column(self) -> tuple[list[str], NDArray[np.int64]]:
        codes, names = self._codes()
        self.units = len(names)
        if not names:
            raise UsageError(f"column: {self._request.column!r} is null everywhere; it names no splits")
        return names, codes

    def _codes(self) -> tuple[NDArray[np.int64], list[str]]:
        """Of each row the number of its value in ``column``, -1 for null, and the values as text, sorted."""
        assert self._request.column is not None
        self._table.check_columns([self._request.column])
        return self._table.codes(self._request.column)

    def _groups(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        codes, values = self._codes()
        return codes, np.array([text_key(value) for value in values], np.uint64)

    def _blocks(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Of each row the number of its block, and of each block a key that tells its place alone."""
        first = self._sets[0].patches
        if self._request.block_size_m is None:
            sides = [
                max(
                    side * pixel
                    for side, pixel in zip(each.patches.patch_yx, pixel_metres(each.patches.geobox), strict=True)
                )
                for each in self._sets
            ]
            self.block_size_m = round(_DEFAULT_BLOCK_PATCHES * max(sides), 3)
        else:
            self.block_size_m = self._request.block_size_m
        crs = first.geobox.crs
        is_plane = not is_geographic(crs) and all(same_crs(each.patches.geobox.crs, crs) for each in self._sets)
        x, y = self._plane_centres(crs) if is_plane else self._lonlat_centres()
        block_y = np.floor(y / self.block_size_m)
        if not is_plane:
            # Squares on the ground: a degree east is shorter away from the equator, the same within a row of blocks.
            latitude = np.clip((block_y + 0.5) * self.block_size_m / METRES_PER_DEGREE, -89.9, 89.9)
            x = x * np.cos(np.radians(latitude))
        block_x = np.floor(x / self.block_size_m)
        places = np.stack([block_y, block_x], axis=1).astype(np.int64)
        found, units = np.unique(places, axis=0, return_inverse=True)
        return units.reshape(-1), hashed(0, found[:, 0], found[:, 1])

    def _plane_centres(self, crs: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The middles of all patches, in metres on the ground from the CRS's origin."""
        x, y = np.empty(len(self._table)), np.empty(len(self._table))
        for each in self._sets:
            height, width = each.patches.patch_yx
            row, column = np.divmod(each.numbers, each.patches.columns)
            a, b, c, d, e, f = each.patches.geobox.affine
            x[each.rows] = a * (column + 0.5) * width + b * (row + 0.5) * height + c
            y[each.rows] = d * (column + 0.5) * width + e * (row + 0.5) * height + f
        unit_x, unit_y = ground_units(crs, float(x.mean()), float(y.mean())) if len(x) else (1.0, 1.0)
        return x * unit_x, y * unit_y

    def _lonlat_centres(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        west, south, east, north = (self._table.column(name) for name in ("west", "south", "east", "north"))
        east = np.where(east < west, east + 360, east)
        x, y = (west + east) / 2 * METRES_PER_DEGREE, (south + north) / 2 * METRES_PER_DEGREE
        if not np.isfinite(x).all():
            raise UsageError("by blocks: some patches have no place on the ground; give --by random or --by group")
        return x, y

    def _classes(self) -> NDArray[np.float64] | None:
        """The class shares of each patch, ``(n, k)``; None without any."""
        names = [name for name in self._table.names if name.startswith("share_")]
        return np.stack([self._table.column(name) for name in names], axis=1) if names else None

    def _source_keys(self) -> NDArray[np.uint64]:
        keys = np.array([text_key(each.source) for each in self._table.sets], np.uint64)
        return keys[self._table.set_numbers()]


def _placed(table: PatchTable) -> list[PlacedPatches]:
    numbers, owners = table.column("number"), table.set_numbers()
    found = []
    for number, patches in enumerate(table.sets):
        rows = np.flatnonzero(owners == number)
        found.append(PlacedPatches(patches=patches, numbers=numbers[rows], rows=rows))
    return found


def _shares(shares: Mapping[str, float] | str) -> dict[str, float]:
    """Split -> share.

    Raises UsageError where they mean nothing or don't add up to 1.
    """
    pairs: list[tuple[Any, Any]]
    if isinstance(shares, str):
        pairs = [part.partition("=")[::2] for part in shares.split(",")]
    elif isinstance(shares, Mapping):
        pairs = list(shares.items())
    else:
        raise UsageError(f"shares: found {shares!r}; allowed are shares by name, as train=0.7,test=0.3")
    found: dict[str, float] = {}
    for name, text in pairs:
        name = str(name).strip()
        try:
            share = float(text)
        except (TypeError, ValueError):
            share = -1.0
        if not name or name in found or not 0 < share <= 1:
            raise UsageError(
                f"shares: found {name}={text}; allowed are names, each once, with numbers above 0 up to 1, as"
                " train=0.7,test=0.3"
            )
        found[name] = share
    total = sum(found.values())
    if abs(total - 1) > 1e-6:
        raise UsageError(
            f"shares: {', '.join(f'{n}={s:g}' for n, s in found.items())} add up to {total:g}; 1 is wanted"
        )
    return found


def _metres(name: str, value: float | None, *, least: float = 0.0) -> float | None:
    if value is None:
        return None
    number = checked_number(name, value)
    if number < least:
        raise UsageError(f"{name}: found {value!r}; allowed are metres from {least:g} on")
    return float(number)


def _kept_splits(table: PatchTable, request: _Request) -> NDArray[np.int64]:
    """The number of the split that each row already has, -1 for none, in the order of the request's splits.

    Raises UsageError where a row has a split that isn't asked for.
    """
    if "split" not in table.names:
        return np.full(len(table), -1, np.int64)
    codes, found = table.codes("split")
    if request.by == "column":
        assert request.column is not None
        table.check_columns([request.column])
        names = table.codes(request.column)[1]
    else:
        names = list(request.shares)
    unknown = [name for name in found if name not in names]
    if unknown:
        raise UsageError(
            f"{table.path}: rows have the split {unknown[0]!r}, which isn't among {', '.join(names)}; name it too, or"
            " assign all rows anew by --reassign (reassign=True)"
        )
    numbers = np.array([*(names.index(name) for name in found), -1], np.int64)
    return numbers[codes]


def _is_assigned(table: PatchTable) -> bool:
    """Whether the last split looked at all rows: each has a split or was left out."""
    if "split" not in table.names:
        return False
    has_split = table.codes("split")[0] >= 0
    facts = table.extra.get("split")
    left_out = facts.get("left_out") if isinstance(facts, Mapping) else None
    return bool(has_split.any()) and int((~has_split).sum()) == (left_out if isinstance(left_out, int) else 0)


def _check_target(table: PatchTable, target: Path, *, overwrite: bool, may_change: bool) -> None:
    """Refuse to lose a split that is there, or another file."""
    is_own = target.resolve() == table.path.resolve()
    check_output(target, overwrite=overwrite or is_own)
    if not is_own:
        check_not_input(target, (table.path.with_name(name) for part in table.sets for name, _, _ in part.shards))
    if is_own and not may_change and not overwrite:
        raise OutputExistsError(
            f"{target}: has a split already, for all rows; --reassign (reassign=True) assigns them anew"
        )


def _equal_records(table: PatchTable, splits: NDArray[np.int64], names: Sequence[str]) -> dict[tuple[str, str], int]:
    """Pairs of splits -> different payloads that both have."""
    digests = table.digests()
    _, contents = np.unique(digests, return_inverse=True)
    contents = contents.reshape(-1)
    has = np.zeros((int(contents.max(initial=-1)) + 1, len(names)), np.bool_)
    is_kept = splits >= 0
    has[contents[is_kept], splits[is_kept]] = True
    shared = has.astype(np.int64).T @ has.astype(np.int64)
    return {
        (names[one], names[other]): int(shared[one, other])
        for one in range(len(names))
        for other in range(one + 1, len(names))
        if shared[one, other]
    }


def _warnings(counts: Mapping[str, int], leakage: Leakage) -> list[str]:
    found = [f"split {name} has no patches" for name, count in counts.items() if not count]
    if not leakage.is_clean:
        pairs = leakage.pairs
        found.append(
            f"not clean: {pairs:,} pairs of patches of different splits overlap or are nearer than"
            f" {leakage.distance_m:g} m; --by blocks with --buffer leaves such patches out"
        )
    if leakage.equal:
        told = ", ".join(f"{'/'.join(pair)} {count:,}" for pair, count in leakage.equal.items())
        found.append(f"records of equal content are in different splits ({told} contents); constant patches are such")
    return found

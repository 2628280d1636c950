"""Patches by number: the data set that training loops and notebooks use as it is."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.datasets.array_pool import ArrayPool
from geotfr.datasets.features import ArraySpec, FeatureShape, feature_shapes
from geotfr.datasets.items import Items, checked_indices
from geotfr.datasets.normalize import normalizations
from geotfr.datasets.patch_set import find_set
from geotfr.datasets.places import PLACE_SPECS, PatchPlace, Places
from geotfr.datasets.shards import ShardReader
from geotfr.datasets.table_rows import (
    TableRows,
    known_fills,
    label_channels,
    set_of_table,
    table_for,
    valid_feature,
)
from geotfr.errors import DamagedError, UsageError
from geotfr.flags import checks_flags
from geotfr.mixer.cards import card, grid_sketch, layout_facts
from geotfr.options import nearest
from geotfr.options.values import at_least_one, parse_pair_yx
from geotfr.patches.layout import pixels_inside

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geotfr.datasets.items import Arrays, Indices
    from geotfr.datasets.patch_set import PatchSet
    from geotfr.datasets.pixels import PixelView
    from geotfr.grid import GeoBox
    from geotfr.mixer import Mixer
    from geotfr.options.values import PairXY

    PathLike = str | os.PathLike[str]

__all__ = ["IMAGE", "PatchDataset", "check_kernel", "kernel_yx_of", "names_of", "patch_yx_of"]

IMAGE = "image"
"""The key of stacked bands."""

_SHOWN = 12


class PatchDataset(Items):
    """The patches of an export, or of any TFRecord files whose records are alike, by number.

    ``dataset[i]`` is one patch, ``{band: (row, col)}``; ``dataset[[i, …]]`` and ``dataset[a:b]`` are several,
    ``{band: (n, row, col)}``, in the order asked for. Tensors are (channel, row, col). Blocks have their margins.
    Arrays are float32, int64, or uint8 for raw bytes; they are new and the caller's own.

    Records are read through an index (``geotfr index``), made when it is needed. The data set may be pickled, and
    used by several threads and in forked and spawned processes, each of which opens the files anew.

    Parameters
    ----------
    source
        A mixer, a manifest or a patch table (its shards lie beside it), a folder, shards, or a list of a mixer and
        shards. Names may hold wildcards. Without any but shards nothing tells the patches' shape: give
        ``patch_dimensions``, or get each feature flat.
    features
        The features wanted, in this order (a list, or names between commas); None is all.
    stack
        True: all features as one array, ``image`` (channel, row, col), of the type that holds them all (uint8, then
        int64, then float32). A list of names: only these, in this order.
    normalize
        ``{"bands": {name: {"mean": …, "std": …}}}``, or a JSON file that holds it. The features that it names become
        ``(value - mean) / std`` in float32. Labels stay as they are, named or not.
    with_place
        Add ``number``, ``row``, ``column`` (int; of several items int64), ``transform`` ``(6,)`` and ``bounds``
        ``(4,)`` (float64), see :meth:`geotfr.datasets.places.Places.arrays`.
    patch_dimensions, kernel_size
        (width, height), where no mixer or no manifest tells them.
    first_patch
        The number of the first record's patch, where a mixer is that of more shards than are there: some shards of a
        larger export.
    shapes
        Feature -> shape, where a length can be read in several ways.
    shard_order
        ``natural`` or ``given``.
    index_folder
        Where indices are kept; by default beside the shards, or in the cache folder where that can't be written to.
    split, where
        Only patches of this split of the patch table, and for which this condition on its columns is true, as
        ``"masked_share < 0.1 and share_3 > 0"``. The table is ``source``, or lies beside it.
    columns
        Columns of the patch table that go with each item, under their own names.
    check_digests
        Compare the SHA-256 of each record that is read with the patch table's; without it, where there is a table,
        that of one record of each shard.

    Attributes
    ----------
    features
        Name -> :class:`geotfr.datasets.features.FeatureShape`.
    spec
        Key -> :class:`geotfr.datasets.features.ArraySpec` of one item.
    mixer, manifest, shards
        The set; mixer and manifest may be None.
    records
        ``(len,) int64``: the record of each item, numbered through all shards.
    labels
        The channels that hold labels.
    valid_feature
        The feature that is 1 where a pixel is valid and 0 where it is masked; None where there is none, or it isn't
        among the features.

    Raises
    ------
    UsageError
        A feature that isn't there, or options that don't fit each other.
    MissingInputError, InputError
        Files that aren't there or can't be used.
    DamagedError
        Another number of records than mixer and manifest tell; on access also a file that changed since the data set
        was made, a record that is damaged or unlike the first, or one that isn't the patch table's.

    Examples
    --------
    >>> dataset = PatchDataset("patches/mixer.json", features=["B4", "B8"], stack=True)  # doctest: +SKIP
    >>> dataset[0]["image"].shape, dataset[[5, 2]]["image"].shape  # doctest: +SKIP
    ((2, 256, 256), (2, 2, 256, 256))

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> record = bytes.fromhex("16000000000000004f61be280a140a120a026231120c120a0a080000c03f000000404115a86a")
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.tfrecord"
    ...     _ = path.write_bytes(record * 3)
    ...     dataset = PatchDataset(path, patch_dimensions=(2, 1))
    ...     len(dataset), dataset[-1]["b1"].tolist()
    (3, [[1.5, 2.0]])
    """

    @checks_flags
    def __init__(
        self,
        source: PathLike | Sequence[PathLike],
        *,
        features: str | Sequence[str] | None = None,
        stack: bool | str | Sequence[str] = False,
        normalize: PathLike | Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
        with_place: bool = False,
        patch_dimensions: PairXY | None = None,
        kernel_size: PairXY | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        first_patch: int | None = None,
        shard_order: str = "natural",
        index_folder: PathLike | None = None,
        split: str | None = None,
        where: str | None = None,
        columns: str | Sequence[str] = (),
        check_digests: bool = False,
    ) -> None:
        wanted = names_of(columns) or ()
        table = table_for(source, split=split, where=where, columns=wanted, check_digests=check_digests)
        found = find_set(source, shard_order=shard_order) if table is None else set_of_table(table)
        _refuse_pixel_records(found)
        self.mixer, self.manifest = found.mixer, found.manifest
        self.shards = found.shards
        self.labels = label_channels(found, table)
        self._fills = known_fills(source, found, table)
        self._reader = ShardReader(found.shards, index_folder=index_folder)
        self._patch_yx = patch_yx_of(found, patch_dimensions)
        kernel_yx = kernel_yx_of(found, kernel_size)
        check_kernel(kernel_size, self._patch_yx)
        if first_patch is not None and (found.mixer is None or found.run is not None or table is not None):
            raise UsageError(
                "first_patch: tells which patches of a mixer's grid some shards hold; name the mixer and the shards"
            )
        if table is None:
            self._kept = _kept_patches(found, len(self._reader), first_patch)
            run = range(len(self._reader)) if found.run is None else found.run
            self.records = np.arange(run.start, run.stop, dtype=np.int64)
            self._columns: dict[str, NDArray[Any]] = {}
            self._inside = None
            if found.manifest is not None and self._kept is not None:
                manifest = found.manifest
                self._inside = pixels_inside(manifest.geobox.shape_yx, manifest.patch_yx, manifest.columns, self._kept)
        else:
            rows = TableRows.of(
                table, self._reader.starts, split=split, where=where, columns=wanted, check_digests=check_digests
            )
            self._reader.digests = rows.digests
            self.records, self._kept, self._columns = rows.records, rows.numbers, rows.columns
            self._inside = rows.inside
            self._patch_yx, kernel_yx = table.sets[0].patch_yx, table.sets[0].kernel_yx
        self.features = feature_shapes(
            self._reader.first(),
            found,
            names=names_of(features),
            patch_yx=self._patch_yx,
            kernel_yx=kernel_yx,
            shapes=shapes or {},
        )
        self._reader.only(tuple(self.features))
        self.valid_feature = valid_feature(found, table)
        if self.valid_feature not in self.features:
            self.valid_feature = None
        self._normal = {} if normalize is None else normalizations(normalize, self.features, self.labels)
        self._stacked = _stacked(self.features, stack, valid_feature=self.valid_feature)
        self._places = self._places_of(found.mixer) if found.mixer is not None else None
        self._with_place = with_place
        if with_place and self._places is None:
            if table is not None:
                raise UsageError(
                    f"with_place: {table.path} tells of {len(table.sets)} rasters, each with its own grid; name the"
                    " manifest of one, or take columns=number,row,column,source"
                )
            raise UsageError("with_place: there is no mixer that tells where patches lie; name it before the shards")
        self._pool = ArrayPool()
        self.spec = self._spec()
        self._python_keys = frozenset(
            key
            for key, each in self.spec.items()
            if each.shape == () and each.dtype.kind in "biu" and key not in self.features
        )

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        arrays = ", ".join(f"{key}: {each.dtype.name} {each.shape}" for key, each in self.spec.items())
        return f"PatchDataset({len(self)} patches of {len(self.shards)} shards; {arrays})"

    def _repr_html_(self) -> str:
        facts = [("patches", f"{len(self):,} in {len(self.shards):,} shard{'s' if len(self.shards) != 1 else ''}")]
        facts += [(key, f"{each.dtype.name} {each.shape}") for key, each in list(self.spec.items())[:_SHOWN]]
        if len(self.spec) > _SHOWN:
            facts.append(("…", f"and {len(self.spec) - _SHOWN} more"))
        sketch = ""
        if self.mixer is not None:
            patch_yx, columns = (self.mixer.patch_xy[1], self.mixer.patch_xy[0]), self.mixer.patches_per_row
            rows = self.mixer.rows
            facts += layout_facts(
                crs=self.mixer.crs, affine=self.mixer.affine, patch_yx=patch_yx, rows=rows, columns=columns
            )
            sketch = grid_sketch(
                shape_yx=self.mixer.geobox.shape_yx,
                patch_yx=patch_yx,
                rows=rows,
                columns=columns,
                margin_yx=self.margin_yx,
            )
        return card("PatchDataset", facts, sketch)

    def __iter__(self) -> Iterator[Arrays]:
        for index in range(len(self)):
            yield self[index]

    @property
    def fills(self) -> dict[str, float]:
        """Feature -> value of its masked pixels, where a patch table or the manifest tells it."""
        return self._fills()

    @property
    def geobox(self) -> GeoBox | None:
        """The grid that all patches of the set cover; None without a mixer."""
        return None if self.mixer is None else self.mixer.geobox

    @property
    def numbers(self) -> NDArray[np.int64]:
        """``(len,) int64``: the patch of each item, row-major in the grid; without a grid the number of its record."""
        return self.records if self._kept is None else self._kept[self.records]

    @property
    def patch_yx(self) -> tuple[int, int] | None:
        """(rows, columns) of a patch without margins; None where nothing tells it."""
        return self._patch_yx

    @property
    def inside_yx(self) -> NDArray[np.int64] | None:
        """``(len, 2) int64``: how many rows and columns of each patch lie inside the raster, all but at a padded edge;
        None where nothing tells the raster's size."""
        return None if self._inside is None else self._inside[self.records]

    def place(self, index: int) -> PatchPlace:
        """Where item ``index`` lies on the ground and in the files.

        Raises UsageError where there is no mixer.
        """
        if self.mixer is None or self._places is None:
            raise UsageError("there is no mixer that tells where patches lie; name it before the shards")
        record = int(self.records[index])
        number = int(self.numbers[index])
        shard, in_shard = self._reader.place(record)
        row, column = divmod(number, self.mixer.patches_per_row)
        return PatchPlace(
            number=number,
            row=row,
            column=column,
            shard=shard,
            record=in_shard,
            patch=self._places.geobox(number, margin_yx=(0, 0)),
            block=self._places.geobox(number),
        )

    def subset(self, indices: Indices) -> PatchDataset:
        """The data set of the items ``indices`` alone, in this order; it shares files and index with this one."""
        other = object.__new__(PatchDataset)
        other.__dict__.update(self.__dict__)
        other.records = self.records[checked_indices(indices, len(self))]
        return other

    def shard(self, rank: int, world: int) -> PatchDataset:
        """The items of one of ``world`` processes: each item is in exactly one, sizes differ by one at most."""
        if not 0 <= rank < world:
            raise UsageError(f"shard: rank {rank} of {world}; allowed are 0 to {world - 1}")
        return self.subset(slice(rank, None, world))

    def pixels(self) -> PixelView:
        """The pixels of all patches, without their margins, one after the other: one pixel a row."""
        from geotfr.datasets.pixels import PixelView

        return PixelView(self)

    @property
    def margin_yx(self) -> tuple[int, int]:
        """(rows, columns) around a patch that every array holds; (0, 0) where features differ."""
        margins = {shape.margin_yx for shape in self.features.values()} - {None}
        return margins.pop() or (0, 0) if len(margins) == 1 else (0, 0)

    def _places_of(self, mixer: Mixer) -> Places:
        return Places(mixer, self.margin_yx)

    def _spec(self) -> dict[str, ArraySpec]:
        made = {}
        if self._stacked:
            channels = sum(shape.channels for shape in self._stacked)
            made[IMAGE] = ArraySpec(dtype=self._image_dtype(), shape=(channels, *self._stacked[0].shape[-2:]))
        for shape in self.features.values():
            if shape not in self._stacked:
                made[shape.name] = ArraySpec(dtype=self._dtype(shape), shape=shape.shape)
        if self._with_place:
            for key, each in PLACE_SPECS.items():
                if key in made:
                    raise UsageError(f"with_place: {key!r} is a feature too; leave one of them out")
                made[key] = each
        for key, column in self._columns.items():
            if key in made:
                raise UsageError(f"columns: {key!r} is a feature or a place too; leave one of them out")
            made[key] = ArraySpec(dtype=column.dtype, shape=())
        return made

    def _dtype(self, shape: FeatureShape) -> np.dtype[Any]:
        return np.dtype(np.float32) if shape.name in self._normal else shape.dtype

    def _image_dtype(self) -> np.dtype[Any]:
        # Earth Engine's order of promotion.
        order = [np.dtype(np.uint8), np.dtype(np.int64), np.dtype(np.float32)]
        return max((self._dtype(shape) for shape in self._stacked), key=order.index)

    def _read(self, indices: NDArray[np.int64]) -> Arrays:
        out = {
            key: self._pool.empty((len(indices), *each.shape), each.dtype)
            for key, each in self.spec.items()
            if not (self._with_place and key in PLACE_SPECS) and key not in self._columns
        }
        targets: dict[FeatureShape, NDArray[Any]] = {}
        channel = 0
        for shape in self._stacked:
            whole = out[IMAGE][:, channel : channel + shape.channels]
            targets[shape] = whole if len(shape.shape) == 3 else whole[:, 0]
            channel += shape.channels
        for shape in self.features.values():
            if shape.name in out:
                targets.setdefault(shape, out[shape.name])
        self._reader.read(self.records[indices], targets)
        for shape, target in targets.items():
            if shape.name in self._normal:
                self._normal[shape.name].apply(target)
        if self._with_place and self._places is not None:
            out.update(self._places.arrays(self.numbers[indices]))
        out.update({key: column[self.records[indices]] for key, column in self._columns.items()})
        return out


def names_of(names: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(names, str):
        return tuple(name.strip() for name in names.split(","))
    return None if names is None else tuple(names)


def _refuse_pixel_records(found: PatchSet) -> None:
    if found.manifest is not None and found.manifest.records != found.manifest.patches_written:
        raise UsageError(
            f"{found.shards[0]}: a record is a pixel here, not a patch (sequence_data); read it with geotfr.stream"
        )


def patch_yx_of(found: PatchSet, patch_dimensions: PairXY | None) -> tuple[int, int] | None:
    given = None if patch_dimensions is None else parse_pair_yx("patch_dimensions", patch_dimensions, least=1)
    if found.mixer is None:
        return given
    width, height = found.mixer.patch_xy
    if given not in (None, (height, width)):
        raise UsageError(f"patch_dimensions: found {patch_dimensions!r}; the mixer tells {width}x{height}")
    return height, width


def check_kernel(kernel_size: PairXY | None, patch_yx: tuple[int, int] | None) -> None:
    """Refuse a kernel of patches whose size nothing tells: it would change nothing."""
    if kernel_size is not None and patch_yx is None:
        raise UsageError(
            f"kernel_size: found {kernel_size!r} without the patches' size, which no mixer tells; give patch_dimensions"
            " too, or name the mixer before the shards"
        )


def kernel_yx_of(found: PatchSet, kernel_size: PairXY | None) -> tuple[int, int] | None:
    if kernel_size is not None:
        return at_least_one(parse_pair_yx("kernel_size", kernel_size, least=0))
    return found.manifest.kernel_yx if found.manifest is not None else None


def _kept_patches(found: PatchSet, records: int, first_patch: int | None) -> NDArray[np.int64] | None:
    """``(records,)``: the patch of each record in the grid; None without a mixer."""
    if found.mixer is None:
        return None
    is_kept = np.ones(found.mixer.total_patches, np.bool_)
    if found.manifest is not None:
        is_kept[list(found.manifest.patches_dropped)] = False
    kept = np.flatnonzero(is_kept)
    if found.run is not None:
        if len(kept) != len(found.run) or found.run.stop > records:
            raise DamagedError(
                f"{found.shards[0]}: {records} records in {len(found.shards)} shards; by the manifest the raster's"
                f" {len(kept)} patches are those from {found.run.start} on; fetch the shards again"
            )
        by_record = np.full(records, -1, np.int64)
        by_record[found.run.start : found.run.stop] = kept
        return by_record
    if first_patch is not None:
        first = int(np.searchsorted(kept, first_patch))
        if first_patch < 0 or first + records > len(kept) or kept[first] != first_patch:
            raise UsageError(
                f"first_patch: found {first_patch}, with {records} records behind it; the set has {len(kept)} patches"
                f" of {found.mixer.total_patches}"
            )
        return kept[first : first + records]
    if len(kept) != records:
        raise DamagedError(
            f"{found.shards[0]}: {records} records in {len(found.shards)} shards, {len(kept)} patches by the mixer;"
            " name all shards of the set, or give first_patch= where these are some of them"
        )
    return kept


def _stacked(
    features: Mapping[str, FeatureShape], stack: bool | str | Sequence[str], *, valid_feature: str | None
) -> tuple[FeatureShape, ...]:
    """The features that make the image, in order; which pixels are valid is no channel unless it is named."""
    if isinstance(stack, bool) and not stack:
        return ()
    every = tuple(name for name in features if name != valid_feature)
    names = every if isinstance(stack, bool) else names_of(stack) or ()
    for name in names:
        if name not in features:
            raise UsageError(f"stack: no feature {name!r}; there are {', '.join(features)}{nearest(name, features)}")
    chosen = tuple(features[name] for name in names)
    if not chosen or len(set(chosen)) < len(chosen):
        raise UsageError(f"stack: found {stack!r}; allowed are True and a list of features, each named once")
    if IMAGE in features and features[IMAGE] not in chosen:
        raise UsageError(f"stack: a feature is named {IMAGE!r} too; leave it out, or stack it")
    sides = {shape.shape[-2:] if len(shape.shape) in (2, 3) else None for shape in chosen}
    if len(sides) > 1 or None in sides:
        told = ", ".join(f"{shape.name} {shape.shape}" for shape in chosen)
        raise UsageError(f"stack: features of one (row, col) are wanted, found {told}; name those to stack")
    return chosen

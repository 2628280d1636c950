"""Patches as polygons with what is known of each: number, place in the shards, masked share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.datasets.extra import load
from geotfr.datasets.given import dataset_of
from geotfr.datasets.places import Places
from geotfr.errors import UsageError
from geotfr.flags import checks_flags
from geotfr.grid.crs import crs_wkt
from geotfr.mixer.names import shard_stem
from geotfr.patches.cut import clamped_fill

if TYPE_CHECKING:
    import geopandas as gpd
    from numpy.typing import NDArray

    from geotfr.datasets.given import DatasetLike
    from geotfr.datasets.patch_dataset import PatchDataset

__all__ = ["to_geopandas"]

_AT_ONCE = 64


@checks_flags
def to_geopandas(
    source: DatasetLike,
    *,
    with_margins: bool = False,
    masked_value: float | None = None,
) -> gpd.GeoDataFrame:
    """The footprints of a set's patches as a ``GeoDataFrame``, in the order of the data set.

    Columns: ``number``, ``row`` and ``column`` of the patch in the grid; ``shard``, its file's name, and ``record``,
    its number in it; ``masked_share``; ``geometry``, the outline in the grid's CRS.

    Parameters
    ----------
    source
        A :class:`geotfr.PatchDataset`, or what makes one: a mixer, a manifest, a folder, shards, or the result of an
        export.
    with_margins
        Outlines of the blocks, which overlap, instead of the patches.
    masked_value
        Pixels that are NaN or hold this value in some feature are masked; all records are read to count them. Without
        it ``masked_share`` comes from the patch table beside the shards, and is NaN where there is none.

    Raises
    ------
    UsageError
        No geopandas (extra ``vector``), or no mixer.
    DamagedError
        Records that are damaged, or files that changed.

    Examples
    --------
    >>> import geotfr
    >>> frame = geotfr.to_geopandas("patches/mixer.json")  # doctest: +SKIP
    >>> frame.to_file("patches.gpkg")  # doctest: +SKIP
    """
    geopandas = load("geopandas", extra="vector", what="to_geopandas")
    dataset = dataset_of(source)
    if dataset.mixer is None:
        raise UsageError("to_geopandas: there is no mixer that tells where patches lie; name it before the shards")
    numbers = dataset.numbers
    rows, columns = np.divmod(numbers, dataset.mixer.patches_per_row)
    places = [dataset.place(item) for item in range(len(dataset))]
    shares = _of_table(dataset) if masked_value is None else _counted(dataset, masked_value)
    return geopandas.GeoDataFrame(
        {
            "number": numbers,
            "row": rows,
            "column": columns,
            "shard": [Path(place.shard).name for place in places],
            "record": np.array([place.record for place in places], np.int64),
            "masked_share": shares,
        },
        geometry=_outlines(dataset, with_margins=with_margins),
        crs=crs_wkt(dataset.mixer.crs) or None,
    )


def _outlines(dataset: PatchDataset, *, with_margins: bool) -> NDArray[Any]:
    import shapely

    assert dataset.mixer is not None
    margin_y, margin_x = dataset.margin_yx if with_margins else (0, 0)
    transforms = Places(dataset.mixer, (margin_y, margin_x)).arrays(dataset.numbers)["transform"]
    width, height = dataset.mixer.patch_xy[0] + 2 * margin_x, dataset.mixer.patch_xy[1] + 2 * margin_y
    corners = np.array([(0, 0), (width, 0), (width, height), (0, height), (0, 0)], np.float64)
    a, b, c, d, e, f = transforms.T[..., np.newaxis]
    xs = a * corners[:, 0] + b * corners[:, 1] + c
    ys = d * corners[:, 0] + e * corners[:, 1] + f
    return np.asarray(shapely.polygons(np.stack([xs, ys], axis=-1)))


def _of_table(dataset: PatchDataset) -> NDArray[np.float64]:
    """The shares in the patch table beside the shards; NaN without one."""
    shares = np.full(len(dataset), np.nan)
    stem = shard_stem(dataset.shards[0])
    for path in (Path(f"{stem}patches.parquet"), Path(f"{stem}-patches.parquet")):
        if path.is_file():
            from geotfr.vectors.patch_table import read_patch_table

            table = read_patch_table(path)
            known = dict(zip(table.column("number").tolist(), table.column("masked_share").tolist(), strict=True))
            found = [known.get(number) for number in dataset.numbers.tolist()]
            return np.array([np.nan if share is None else share for share in found], np.float64)
    return shares


def _counted(dataset: PatchDataset, masked_value: float) -> NDArray[np.float64]:
    """The share of pixels, margins left out, that are masked in some feature."""
    assert dataset.mixer is not None
    width, height = dataset.mixer.patch_xy
    shares = np.empty(len(dataset))
    names = [name for name, spec in dataset.spec.items() if len(spec.shape) in (2, 3)]
    if not names:
        raise UsageError("masked_value: the features have no rows and columns; leave it out")
    for start in range(0, len(dataset), _AT_ONCE):
        part = dataset[start : min(start + _AT_ONCE, len(dataset))]
        masked: NDArray[np.bool_] | None = None
        for name in names:
            values = part[name]
            margin_y, margin_x = (values.shape[-2] - height) // 2, (values.shape[-1] - width) // 2
            core = values[..., margin_y : margin_y + height, margin_x : margin_x + width]
            # As the list holds it: 0.1 is another number in float32.
            hit = core == values.dtype.type(clamped_fill(masked_value, values.dtype))
            if values.dtype.kind == "f":
                hit |= np.isnan(core)
            hit = hit.any(axis=1) if hit.ndim == 4 else hit
            masked = hit if masked is None else masked | hit
        assert masked is not None
        shares[start : start + len(masked)] = masked.mean(axis=(1, 2))
    return shares

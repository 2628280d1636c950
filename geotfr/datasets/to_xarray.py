"""Patches as labelled arrays: put together as the raster they were cut from, or side by side along a patch axis.

CRS and transform stand where rioxarray looks for them. A lazy mosaic is computed in blocks of whole patches, each of
which reads its own records.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.datasets.extra import load
from geotfr.datasets.given import dataset_of
from geotfr.errors import UsageError
from geotfr.flags import checks_flags
from geotfr.grid.crs import crs_wkt

if TYPE_CHECKING:
    from collections.abc import Sequence

    import xarray as xr
    from numpy.typing import NDArray

    from geotfr.datasets.given import DatasetLike
    from geotfr.datasets.patch_dataset import PatchDataset
    from geotfr.grid import GeoBox
    from geotfr.mixer import Mixer

__all__ = ["to_xarray"]

_LAYOUTS = ("mosaic", "patches")
_BLOCK_BYTES = 32 * 2**20
"""Of a lazy mosaic's block, about."""


@checks_flags
def to_xarray(
    source: DatasetLike,
    *,
    layout: str = "mosaic",
    lazy: bool = False,
    fill_value: float | None = None,
) -> xr.Dataset:
    """The patches of a set as an ``xarray.Dataset``, a variable for each feature.

    That of an export's ``valid_feature`` is a flag (``flag_values``, ``flag_meanings``), 0 where the set has no patch.

    Parameters
    ----------
    source
        A :class:`geotfr.PatchDataset`, or what makes one: a mixer, a manifest, a folder, shards, or the result of an
        export.
    layout
        ``mosaic`` (default): the raster, (y, x) or (channel, y, x), without margins and what a padded edge adds, with
        the coordinates of pixel centres; a rotated grid has a transform alone. ``patches``: (patch, row, col) or
        (patch, channel, row, col), with margins, and for each patch its ``number``, ``patch_row``, ``patch_column``,
        ``transform`` (xScale, xShear, xTranslation, yShear, yScale, yTranslation) and ``bounds`` (west, south, east,
        north).
    lazy
        Arrays of dask, computed where they are used. The data set goes to the workers; its files must be there.
    fill_value
        What a mosaic holds where the set has no patch: NaN by default, and needed for whole numbers.

    Returns
    -------
    xarray.Dataset
        ``spatial_ref`` holds CRS and transform as rioxarray writes and reads them.

    Raises
    ------
    UsageError
        No xarray (extra ``xarray``), no mixer, features that are no patches, or a gap that no value marks.
    DamagedError
        Records that are damaged, or files that changed; of a lazy array when it is computed.

    Examples
    --------
    >>> import geotfr
    >>> mosaic = geotfr.to_xarray("patches/mixer.json")  # doctest: +SKIP
    >>> mosaic["B4"].rio.to_raster("B4.tif")  # doctest: +SKIP
    """
    if layout not in _LAYOUTS:
        raise UsageError(f"layout: found {layout!r}; allowed are {' and '.join(_LAYOUTS)}")
    xarray = load("xarray", extra="xarray", what="to_xarray")
    load("rioxarray", extra="xarray", what="to_xarray")
    if lazy:
        load("dask.array", extra="xarray", what="to_xarray")
    dataset = dataset_of(source)
    mixer = dataset.mixer
    if mixer is None:
        raise UsageError("to_xarray: there is no mixer that tells where patches lie; name it before the shards")
    if layout == "patches":
        return _side_by_side(xarray, dataset, mixer, lazy=lazy)
    return _put_together(xarray, dataset, mixer, lazy=lazy, fill_value=fill_value)


def _put_together(
    xarray: Any, dataset: PatchDataset, mixer: Mixer, *, lazy: bool, fill_value: float | None
) -> xr.Dataset:
    if len(np.unique(dataset.numbers)) < len(dataset):
        raise UsageError("to_xarray: a patch stands twice in the data set; a mosaic has each once")
    has_gaps = len(dataset) < mixer.total_patches
    manifest = dataset.manifest
    # Patches of a padded edge reach beyond the raster.
    geobox = manifest.geobox if manifest is not None and manifest.pads_edge else mixer.geobox
    height, width = geobox.shape_yx
    variables = {}
    for name in _patches(dataset, mixer):
        # Of a patch that isn't there nothing is valid.
        is_validity = name == dataset.valid_feature
        fill = 0 if is_validity else _fill(name, dataset.spec[name].dtype, fill_value, has_gaps=has_gaps)
        mosaic = _Mosaic(dataset, mixer, name, fill)
        data = mosaic.lazy() if lazy else mosaic.block(range(mixer.rows), range(mixer.patches_per_row))
        # What a data set calls a patch's axes is for one patch; these are the raster's.
        variables[name] = (("channel", "y", "x") if data.ndim == 3 else ("y", "x"), data[..., :height, :width])
    found: xr.Dataset = xarray.Dataset(variables, coords=_centres(geobox))
    if fill_value is not None and has_gaps:
        for name in variables.keys() - {dataset.valid_feature}:
            found[name].attrs["_FillValue"] = dataset.spec[name].dtype.type(fill_value)
    return _placed(_flagged(found, dataset), geobox)


def _flagged(found: xr.Dataset, dataset: PatchDataset) -> xr.Dataset:
    """``found``, its validity marked as a flag, no measurement, by the words of CF."""
    if dataset.valid_feature in found:
        flags = {"flag_values": np.array([0, 1], np.uint8), "flag_meanings": "masked valid"}
        found[dataset.valid_feature].attrs |= flags
    return found


def _side_by_side(xarray: Any, dataset: PatchDataset, mixer: Mixer, *, lazy: bool) -> xr.Dataset:
    from geotfr.datasets.places import Places

    names = list(dataset.spec)
    places = Places(mixer, dataset.margin_yx).arrays(dataset.numbers)
    variables = {}
    arrays = {} if lazy else dataset[:]
    for name in names:
        shape = dataset.spec[name].shape
        if name in places:
            continue
        axes = {0: (), 1: (f"{name}_value",), 2: ("row", "col"), 3: (f"{name}_channel", "row", "col")}
        if len(shape) not in axes:
            raise UsageError(f"to_xarray: feature {name!r} has {len(shape)} axes; leave it out with features=")
        # Two features of other sizes can't share the axes' names.
        dims = axes[len(shape)]
        if len(shape) >= 2 and shape[-2:] != _first_size(dataset):
            dims = (*dims[:-2], f"{name}_row", f"{name}_col")
        data = _lazy_patches(dataset, name) if lazy else arrays[name]
        variables[name] = (("patch", *dims), data)
    coords = {
        "number": ("patch", places["number"]),
        "patch_row": ("patch", places["row"]),
        "patch_column": ("patch", places["column"]),
        "transform": (("patch", "affine"), places["transform"]),
        "bounds": (("patch", "side"), places["bounds"]),
        "side": ["west", "south", "east", "north"],
    }
    found: xr.Dataset = _flagged(xarray.Dataset(variables, coords=coords), dataset)
    wkt = crs_wkt(mixer.crs)
    if wkt:
        # The patches have no transform in common.
        found = found.assign_coords(spatial_ref=xarray.DataArray(0, attrs={"crs_wkt": wkt, "spatial_ref": wkt}))
    return found


def _first_size(dataset: PatchDataset) -> tuple[int, ...]:
    return next((spec.shape[-2:] for spec in dataset.spec.values() if len(spec.shape) >= 2), ())


class _Mosaic:
    """One feature of all patches, without margins, as one array; it goes to dask's workers as it is."""

    def __init__(self, dataset: PatchDataset, mixer: Mixer, name: str, fill: float) -> None:
        self._dataset = dataset
        self._name = name
        self._fill = fill
        self._patch_yx = mixer.patch_xy[1], mixer.patch_xy[0]
        self._rows, self._columns = mixer.rows, mixer.patches_per_row
        spec = dataset.spec[name]
        self._dtype = spec.dtype
        self._channels = spec.shape[:-2]
        height, width = spec.shape[-2:]
        self._margin_yx = (height - self._patch_yx[0]) // 2, (width - self._patch_yx[1]) // 2
        # Where the item of each patch is; -1 without.
        self._items = np.full(mixer.total_patches, -1, np.int64)
        self._items[dataset.numbers] = np.arange(len(dataset))

    def block(self, rows: range, columns: range) -> NDArray[Any]:
        """Some patch rows and columns: ``(…, pixel row, pixel column)``."""
        height, width = self._patch_yx
        made = np.full((*self._channels, len(rows) * height, len(columns) * width), self._fill, self._dtype)
        margin_y, margin_x = self._margin_yx
        for place, row in enumerate(rows):
            items = self._items[row * self._columns + columns.start : row * self._columns + columns.stop]
            there = np.flatnonzero(items >= 0)
            if not len(there):
                continue
            blocks = self._dataset[items[there]][self._name]
            cores = blocks[..., margin_y : margin_y + height, margin_x : margin_x + width]
            line = made[..., place * height : (place + 1) * height, :]
            cells = line.reshape(*self._channels, height, len(columns), width)
            # (n, …, row, col) to (…, row, n, col).
            cells[..., there, :] = np.moveaxis(cores, 0, -2)
            line[...] = cells.reshape(line.shape)
        return made

    def lazy(self) -> Any:
        """All of it, as an array of dask: blocks of a patch row, or of some columns of one."""
        array = load("dask.array", extra="xarray", what="to_xarray")
        height, width = self._patch_yx
        patch_bytes = int(np.prod(self._channels, dtype=np.int64)) * height * width * self._dtype.itemsize
        fitting = max(_BLOCK_BYTES // patch_bytes, 1)
        per_block = min(fitting, self._columns)
        rows_per_block = min(max(fitting // self._columns, 1), self._rows)
        row_runs = [range(at, min(at + rows_per_block, self._rows)) for at in range(0, self._rows, rows_per_block)]
        runs = [range(at, min(at + per_block, self._columns)) for at in range(0, self._columns, per_block)]
        chunks = (
            *((channels,) for channels in self._channels),
            tuple(len(run) * height for run in row_runs),
            tuple(len(run) * width for run in runs),
        )

        made = partial(_mosaic_block, self, row_runs, runs)
        return array.map_blocks(made, chunks=chunks, dtype=self._dtype, meta=np.empty((0,) * len(chunks), self._dtype))


# Functions of the module, not closures: other processes and machines get them by name.


def _mosaic_block(
    mosaic: _Mosaic, rows: Sequence[range], columns: Sequence[range], block_info: Any = None
) -> NDArray[Any]:
    at = block_info[None]["chunk-location"]
    return mosaic.block(rows[at[-2]], columns[at[-1]])


def _items_block(dataset: PatchDataset, name: str, runs: Sequence[slice], block_info: Any = None) -> NDArray[Any]:
    found: NDArray[Any] = dataset[runs[block_info[None]["chunk-location"][0]]][name]
    return found


def _lazy_patches(dataset: PatchDataset, name: str) -> Any:
    array = load("dask.array", extra="xarray", what="to_xarray")
    spec = dataset.spec[name]
    item_bytes = max(int(np.prod(spec.shape, dtype=np.int64)) * spec.dtype.itemsize, 1)
    per_block = max(_BLOCK_BYTES // item_bytes, 1)
    runs = [slice(at, min(at + per_block, len(dataset))) for at in range(0, len(dataset), per_block)]
    chunks = (tuple(run.stop - run.start for run in runs), *((side,) for side in spec.shape))

    made = partial(_items_block, dataset, name, runs)
    return array.map_blocks(made, chunks=chunks, dtype=spec.dtype, meta=np.empty((0,) * len(chunks), spec.dtype))


def _patches(dataset: PatchDataset, mixer: Mixer) -> list[str]:
    """The features that are patches of the grid, with the same margin on both sides."""
    found = []
    width, height = mixer.patch_xy
    for name, spec in dataset.spec.items():
        if len(spec.shape) not in (2, 3):
            continue
        excess = spec.shape[-2] - height, spec.shape[-1] - width
        if min(excess) >= 0 and not any(each % 2 for each in excess):
            found.append(name)
    if not found:
        raise UsageError(f"to_xarray: {', '.join(dataset.spec)} are no patches; use layout='patches'")
    return found


def _fill(name: str, dtype: np.dtype[Any], fill_value: float | None, *, has_gaps: bool) -> float:
    if fill_value is None:
        if has_gaps and dtype.kind != "f":
            raise UsageError(
                f"to_xarray: patches are missing, and {name!r} is {dtype.name}, which has no NaN; give fill_value"
            )
        return np.nan if dtype.kind == "f" else 0
    is_whole = bool(np.isfinite(fill_value)) and fill_value == int(fill_value)
    if dtype.kind != "f" and not (is_whole and _fits(int(fill_value), dtype)):
        raise UsageError(f"fill_value: {fill_value!r} can't be held by {dtype.name}, the type of {name!r}")
    return fill_value


def _fits(value: int, dtype: np.dtype[Any]) -> bool:
    limits = np.iinfo(dtype)
    return bool(limits.min <= value <= limits.max)


def _centres(geobox: GeoBox) -> dict[str, Any]:
    """The coordinates of pixel centres; none on a rotated grid, where neither axis has its own."""
    a, b, c, d, e, f = geobox.affine
    if b or d:
        return {}
    rows, cols = geobox.shape_yx
    return {"y": f + e * (np.arange(rows) + 0.5), "x": c + a * (np.arange(cols) + 0.5)}


def _placed(found: Any, geobox: GeoBox) -> xr.Dataset:
    """``found`` with CRS and transform, by rioxarray."""
    from geotfr.rasters.affine import affine_of

    wkt = crs_wkt(geobox.crs)
    if wkt:
        # WKT that pyproj made: no text of a file reaches the parser of GDAL.
        with warnings.catch_warnings():
            # pyproj tells that CF has no words for some of the CRS; the WKT beside them has all of it.
            warnings.simplefilter("ignore", UserWarning)
            found = found.rio.write_crs(wkt)
    placed: xr.Dataset = found.rio.write_transform(affine_of(geobox.affine))
    if wkt and "x" in placed.coords:
        placed = placed.rio.write_coordinate_system()
    return placed
